"""The viewer: a server on the loopback interface, and the page that it shows in a browser.

cells    Cells as text: windows of rows that were read are kept for the next request
columns  Columns by name: search, order, selections, and a tree of common prefixes
errors   Errors as JSON
profile  The profile of one column, in portions: counts, bounds, a histogram or frequent values
server   The HTTP server: security headers, JSON end points and the files of the page
sizes    Where the bytes are: the size of each column, and of buckets and prefixes
tables   What the paths on the command line stand for: tables, by number and version
"""

"""Reports: one self-contained page about a file, a dataset or a table.

histograms  Histograms of many columns at once, quantised to a few characters each
measured    What a report says, measured with bounded memory
page        The page: data, style and script in one HTML file
"""

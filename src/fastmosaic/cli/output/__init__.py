"""How results are printed.

aligned    Text in columns: what takes how much room, and lines that do not get too long
cells      Values of columns as JSON has them, and as texts
console    What the command prints: tables for people on a terminal, plain text in a pipe, or JSON
prefixes   Thousands of names as a few groups: those that begin, or end, with the same words
"""

"""How results are printed.

aligned    Tables in pipes: lines of aligned columns, and what a column of a table is
changes    Changes of tables as text
console    Output of commands: tables on a terminal, plain text in a pipe, or JSON
drawn      Tables on terminals, drawn by rich
values     Values as text and as JSON
"""

"""What a caller asks for: columns, filters, rows.

durations       Durations as text: as commands print them and conditions accept them
filters         Filters as Arrow expressions: which columns, row groups and rows they concern
formula         Formulas: how a new column is computed from others, as in SQL
formula_syntax  The syntax of formulas, parsed by sqlglot
functions       The functions of formulas
keys            Rows by key: the keys that a caller looks up, and which rows of a table have them
literals        Values in a condition, and what they are in the type of a column
query           Query: the columns and rows that a caller asks for, checked against a schema
rows            Rows by number: selections of rows, and batches that have rows but no columns
selection       Columns that a caller selects by name or by glob
syntax          The syntax of --where, parsed by sqlglot
terms           Terms of formulas: Arrow expressions of known types
where           The language of --where: conditions as in SQL, converted to Arrow expressions
"""

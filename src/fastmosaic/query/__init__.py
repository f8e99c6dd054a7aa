"""What a caller asks for: columns, filters, rows.

filters     Filters, decided by Arrow: which columns one names, which row groups it may match, which rows
literals    Values in a condition: what is written, and what it is of the type of a column
selection   Columns that a user names, one by one or by globs
where       The language of --where: conditions as in SQL, made into Arrow expressions
"""

"""What a caller asks for: columns, filters, rows.

filters     Filters as Arrow expressions: which columns, row groups and rows they concern
literals    Values in a condition: what is written, and what it is of the type of a column
query       Query: the columns and rows that a caller asks for, checked against a schema
rows        Rows by number: selections of rows, and batches that have rows but no columns
selection   Columns that a caller selects by name or by glob
where       The language of --where: conditions as in SQL, made into Arrow expressions
"""

"""Widening types, unions of schemas, fitting a batch to a schema.

conform   Batches made to fit the schema of a file: columns by name, types that the format has
union     The columns of many files as one schema: the union, with types that hold every value
uniting   Files of any format as one table: one schema for all, and batches made to fit it
"""

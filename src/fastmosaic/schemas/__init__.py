"""Schemas of files that belong together: common types, unions, fitting batches to a schema.

fit     Convert record batches from one schema to another
joined  Columns of files that have the same rows, such as a base file and its column files
union   One schema for the files of a dataset
widen   Types that hold the values of two types, and schemas that hold those of many files
"""

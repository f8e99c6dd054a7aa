"""pandas and Polars.

description  The document that describes a pandas DataFrame in the metadata of a file
pandas       read_pandas and write_pandas: frames of pandas, with their index and their dtypes
polars       scan_polars: a dataset as a Polars LazyFrame, with projection, predicate and limit pushdown
"""

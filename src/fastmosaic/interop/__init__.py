"""NumPy, pandas and Polars.

description  The document that describes a pandas DataFrame in the metadata of a file
matrix       read_matrix: columns of files as one NumPy array of one dtype
numbers      Values of Arrow arrays as numbers of one NumPy dtype: the rule for each type
pandas       read_pandas and write_pandas: frames of pandas, with their index and their dtypes
polars       scan_polars: a dataset as a Polars LazyFrame, with projection, predicate and limit pushdown
"""

"""NumPy, pandas, Polars and PyTorch.

blocks       Blocks of a dataset for training: row groups that are read as rows of matrices
description  The document that describes a pandas DataFrame in the metadata of a file
matrix       read_matrix: columns of files as one NumPy array of one dtype
matrix_reading  Columns of files on their way into a matrix
matrix_rows  Which rows of row groups a matrix consists of, and where they go
matrix_target  The matrix that columns are written into, and what nulls become in it
numbers      Values of Arrow arrays as numbers of one NumPy dtype: the rule for each type
order        The order of rows in training: which rows each numbered batch of an epoch consists of
pandas       read_pandas and write_pandas: frames of pandas, with their index and their dtypes
polars       scan_polars: a dataset as a Polars LazyFrame, with projection, predicate and limit pushdown
torch        MosaicIterable: batches of tensors for training with PyTorch
"""

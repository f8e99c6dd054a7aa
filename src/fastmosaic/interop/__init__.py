"""pandas and Polars.

pandas   read_pandas and write_pandas: frames of pandas, with their index and their dtypes
polars   scan_polars: a data set as a lazy frame of Polars, which pushes columns, rows and limits down
"""

"""Many files as one table: find, plan, read, write.

arrow        MosaicDataset: many files as one pyarrow dataset, for Arrow, DuckDB and Polars
discovery    Which files a user means: by a path, a directory, a glob, or a list of these
distinct     Estimates how many distinct values a column has, with a small sketch that can be merged
files        One file of a dataset: its metadata, read once, and reading row groups of it
fileset      Many files as one table: open them, read, count and take rows
hive         Hive partitions: directories named `key=value`, and the columns that they stand for
hive_split   Batches taken apart by the values of partition columns
plan         Which files and row groups a query reads, and in what portions
profile      What columns hold, and how they are stored: measured row group by row group, and merged
tasks        Divide a query among processes: what each reads, and what it needs to know for that
write        write_dataset: a table in many files, which appear together
"""

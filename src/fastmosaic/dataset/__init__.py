"""Many files as one table: find, plan, read, write.

arrow        MosaicDataset: many files as one pyarrow dataset, for Arrow, DuckDB and Polars
discovery    Which files a user means: by a path, a directory, a glob, or a list of these
distinct     How many different values a column has: a sketch of it that is small and can be merged
fileset      Many files as one table: which files and row groups a query needs, and reading them
hive         Hive partitions: directories named `key=value`, and the columns that they stand for
hive_split   Batches taken apart by the values of partition columns
profile      What columns hold, and how they are stored: measured row group by row group, and merged
tasks        A query shared out to processes: what each reads, and all that it needs to know for that
write        write_dataset: a table in many files, which appear together
"""

"""Many files as one table: find, plan, read, write.

arrow        MosaicDataset: many files as one pyarrow dataset, for Arrow, DuckDB and Polars
bounds       Minimum and maximum of many columns
compact      compact: join small files and row groups of a directory
concat       concat: merge many files into one, by copying row groups where that is possible
discovery    Find the files that a path, a directory, a glob or a list of these stands for
distinct     Estimates how many distinct values a column has, with a small sketch that can be merged
files        One file of a dataset: its metadata, read once, and reading row groups of it
fileset      Many files as one table: open them, read, count and take rows
filtered     Read only the rows that may match a filter: its columns first, the others where rows match
found        Found: a file that was found and is not open
hive         Hive partitions: directories named `key=value` and the columns they stand for
hive_split   Split batches by the values of partition columns
joined_files  Files with the same rows, such as a base file and its column files, read as one
leaves       Leaves of columns: a struct counts as its fields
lookup       lookup: rows of files, directories and tables by key
numbers      The numbers of the rows that match a filter
open_files   Rows to files: a few open files for partitions, and bounded memory
plan         Which files and row groups a query reads, and in what portions
profile      Profiles of columns: their content and how they are stored
snapshot     Snapshot: a table at one of its versions
table_files  Files of a table: which file has which column, known without opening it
tasks        Divide a query among processes: what each reads, and what it needs to know for that
version      A version of a table: which files it has, and which file provides which column
write        write_dataset: a directory of files that appear together; DatasetWriter: the files alone
"""

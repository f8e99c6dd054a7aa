"""`spark.read.format("mosaic")`: Spark's Python data source API.

commit    How the tasks of a Spark job write one data set, of which all appears, or nothing
load      What the data source loads: columns, files and row groups by its options, and the reading
options   Options of the data source: their names and what their texts mean
source    The data source "mosaic" of Spark: `spark.read.format("mosaic")`, `df.write.format("mosaic")`
stream    Mosaic files as the source of a stream: those that have appeared in a directory
write     write: a DataFrame as a data set
"""

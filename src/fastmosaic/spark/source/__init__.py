"""`spark.read.format("mosaic")`: Spark's Python data source API.

commit    the commit protocol: many tasks write one dataset
limited_stream  the same with limits for batches, since Spark 4.2
load      plan what the data source reads
options   options of the data source: their names and how their strings are parsed
source    MosaicDataSource, which Spark finds as format "mosaic"
stream    read the new files of a directory as a stream
write     write: write a DataFrame as a dataset
"""

"""`fastmosaic.spark.read`: DataFrames that Spark's planner prunes.

aggregates   answer count, min and max from metadata
expressions  Spark's predicates and aggregates, from the JVM
plan         plan scans: columns, files, row groups, splits; scans() and its reports
proxies      Python objects that implement Spark's DataSource V2 interfaces
pushdown     Spark's filters as Arrow expressions
read         read: create the DataFrame
runtime      which columns may filter a scan at run time
"""

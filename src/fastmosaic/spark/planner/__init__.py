"""`fastmosaic.spark.read`: a table that Spark's planner prunes.

aggregates   Aggregates of whole columns, answered by what the files say of themselves
jvm          What of Spark's JVM is used that is not for the public: class names, and how they are called
proxies      Python objects in the driver that Spark's planner talks to, through the interfaces of its connectors
pushdown     Spark's filters as Arrow expressions, to skip files and row groups
read         Mosaic files as a DataFrame whose columns, files and row groups Spark's planner chooses
"""

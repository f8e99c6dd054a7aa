"""`fastmosaic.spark.catalog`: the tables below a directory as tables of Spark SQL.

catalog     catalog: put a catalog into a session
conditions  conditions of DELETE and OVERWRITE as exact Arrow expressions
jvm         objects of Spark's JVM that a catalog needs: names, exceptions, table definitions
lake        a directory whose directories are namespaces and tables
proxies     Python objects that implement Spark's catalog interfaces
tables      tables of a lake at a version, and new ones
task        write rows inside Spark's tasks
writes      Python objects that implement Spark's interfaces of tables that can be changed
"""

"""Jobs over files: Python tasks read and write them, and no row enters the JVM.

columns        add_columns: compute new columns of a table
compact        compact: join small files and row groups of a dataset or a table
concat         concat: write files to another directory as fewer, larger ones
convert        convert: convert files between Mosaic and other formats
delete         delete: delete rows of a table
fingerprint    whether a function is the one of an earlier run
fold           fold: rewrite files of a table together with their column files
profile        profile: describe the columns of a dataset and how they are stored
records        listed files, and records of finished work items
report         reports of the jobs
rewrite        work items that read files and write new ones
run            run Python functions on work items as Spark tasks
sql_columns    columns that Spark SQL computes, aligned with the rows of each base file
table_job      jobs that change a table: tasks write files, the driver commits them once
table_rewrite  rewrite files of a table, one task for each new file
vacuum         vacuum: remove what versions of a table do not name any more
verify         verify: check every file of a dataset
"""

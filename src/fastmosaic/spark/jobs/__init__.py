"""Jobs over files: Python tasks read and write them, and no row enters the JVM.

compact   compact: join small files and row groups of a dataset
convert   convert: convert files between Mosaic and other formats
profile   profile: describe the columns of a dataset and how they are stored
records   listed files, and records of finished work items
report    reports of the jobs
rewrite   work items that read files and write new ones
run       run Python functions on work items as Spark tasks
verify    verify: check every file of a dataset
"""

"""Jobs over files: Python tasks move them, and no row enters the JVM.

compact   compact: small files and row groups of a data set made into large ones, by Spark tasks
convert   convert: files of one format made into files of another, by Spark tasks
profile   profile: what the columns of a data set hold, and how it is stored, by Spark tasks
report    What the jobs over files report
rewrite   Work items that read files and write others: what `convert` and `compact` have in common
run       Spark runs Python functions on work items: small things in, small things out
verify    verify: every file of a data set checked, by Spark tasks
"""

"""One module per command or family of commands.

completion   completion: the script by which a shell completes words of the command
convert      convert: files of one format into another
diff         diff: whether two tables are the same, and where they are not
pages        pages, dictionary and column-size: how columns are stored
rows         head, cat and count: the rows of files
schema       schema: the columns of files, also if there are a hundred thousand
stats        stats: what the columns hold, and how they are stored
structure    meta, footer and buckets: how files are built
verify       verify: whether files are what their writers wrote
"""

"""One module per command or family of commands.

clean          clean: remove what writers that were killed have left behind
compact        compact: join small files of a directory or a table
completion     completion: print the script that lets a shell complete words
concat         concat: merge Mosaic files into one
convert        convert: convert files between formats
diff           diff: compare two tables
pages          pages, dictionary and column-size: how columns are stored
report         report: one self-contained HTML page about files
rows           head, cat and count: the rows of files
schema         schema: the columns of files
spark          spark: jobs over many files
stats          stats: the content of columns, and how they are stored
structure      meta, footer and buckets: the structure of files
table          table: change tables, and list their versions
table_actions  What the commands of `table` do
verify         verify: check files for damage
view           view: look at files in a browser
"""

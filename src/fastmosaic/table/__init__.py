"""Tables: what changes a directory of Mosaic files safely.

changes       What operations do to a version, also after other writers have committed theirs
column_files  Column files: new columns of base files, written beside them
columns       New columns: how their values are computed from others, or looked up by key
commit        Commit a change: the next version, created only if nobody else was faster
create        Create tables: new ones, or of the files that a directory contains
declare       Declare columns: those that a table has even if no file has them
overwrite     Overwrite rows: all of them, those of some partitions, or those that match a filter
progress      Progress of long operations
rewrite       Rewrite files: delete rows, merge small files, fold column files into base files
rows          Rows for a table: checked against its columns, and written as base files
store         The objects of a table in its directory: versions, schemas and data files
table         MosaicTable
vacuum        Remove old versions, and files that no version names
verify        Check a table: its versions, and all files of one of them
write         Write rows by many processes, and commit them together
"""

"""Paths and URIs: read byte ranges, write whole files.

create          Files that are created whole, and only if there is none of that name
debris          What writers that were killed have left behind, and its removal
direct          Files that appear under their final names at once, for storage that cannot rename
fsspec_handler  Filesystems of fsspec as filesystems of pyarrow
listing         Directory listings: the files below a directory, on any filesystem
location        Paths, URIs and filesystems of pyarrow or fsspec
moves           The list of files that a commit moves, so that the next process can go on
remote          A filesystem of pyarrow that repeats requests which fail
replace         Local files and directories: replace one in a single step, make, remove and sync them
retry           Retries for transient failures of remote storage
s3              The S3 filesystem of pyarrow as one of s3fs
secrets         Credentials in URIs, which never appear in names, messages and tracebacks
sink            Output files, which appear under their name when they are complete
source          Input files, read by byte ranges from any thread
staging         Files written to a staging directory, which appear in a directory together
target          A directory that files are written to: what it contains, and the names of new files
"""

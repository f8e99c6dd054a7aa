"""Bytes to Arrow and back: no I/O, no paths, no threads.

_array        Kudu's array data block, and the run-length coder inside it, without the GIL
_crc          CRC-32C of any bytes, without the GIL
_decode       From the bytes of a bucket to Arrow arrays, column by column, without the GIL
_encode       From Arrow arrays to the pages of a bucket, column by column, without the GIL
_hash         Hashes of Arrow values, without the GIL: the same in every process and on every machine
_index        A walk over the row group index, without the GIL
_schema       Loops over the bytes of a schema block: column names, type descriptors, column order
annex         The annex: what a file says beyond version 1 of the format, where its readers do not look
array_block   Kudu's array data block: a column of arrays in one piece of bytes
bucket        The columns of a bucket, and its bytes, in either of two layouts
footer        The footer: the last 32 bytes of a file, its version and its feature flags
hashes        Stable 64-bit hashes of Arrow values, which are the same in every process
index         The row group index: where the buckets of each row group are, and their statistics
list_blocks   List columns that are stored as array data blocks: all lists of a row group in one piece
metadata      Metadata of a file, as `read_metadata` returns it: row groups, buckets and statistics
names         Column names: packed in memory, front coded and byte-pair encoded in a file
nested        List and map columns, and the flat columns they are stored as
schema        The schema block: columns, their buckets, their original order
statistics    Minimum and maximum of a column, as the format defines them
types         Arrow types and the type descriptors of the schema block; how one value lies in bytes
user_schema   What users attach to a schema, and the format has no place for: metadata, extension types
wire          Integers, strings, checksums and compressed blocks, as they are stored in a file
"""

"""Bytes to Arrow and back: no I/O, no paths, no threads.

_array        Kudu's array data block and its run-length encoding, without the GIL
_choice       Predict which page of a column is the smallest after compression, without the GIL
_collect      Take the values of Arrow arrays that are not null, without the GIL
_crc          CRC-32C of any bytes, without the GIL
_decode       Decode the bytes of a bucket to Arrow arrays, column by column, without the GIL
_dictionary   Find the distinct values of a column, sort them, and pack indices, without the GIL
_encode       Encode flat columns as the pages of a bucket, and compress them, without the GIL
_hash         Hashes of Arrow values, without the GIL: the same in every process and on every machine
_index        Walk over the row group index, and make Python values of its statistics
_matrix       Decode pages of numbers into a matrix of one type, without the GIL
_range        Find minimum and maximum of a column, as the format defines them, without the GIL
_schema       Loops over the bytes of a schema block: column names, type descriptors, column order
_zstd         zstd frames: the vendored library for the kernels, and for Python
annex         The annex: optional sections that version 1 of the format has no place for
array_block   Kudu's array data block: a column of arrays in one block of bytes
bucket        The columns of a bucket, encoded in one of two layouts
column_set    The columns of a file or a dataset by name, and fields inside structs by path
column_statistics  Statistics of columns as Python values, decoded when they are asked for
columns       Columns of a bucket, decoded to Arrow arrays one portion of rows after another
distinct_values  Distinct values of arrays of plain types, by all of their bits, for dictionaries
file_schema   The columns of a file as the user sees them, and which stored columns they need
fixed_sizes   Lists of a fixed size, which take memory for lists that are null
footer        The footer: the last 32 bytes of a file, its version and its feature flags
hashes        Stable 64-bit hashes of Arrow values, which are the same in every process
index         The row group index: where the buckets of each row group are, and their statistics
list_blocks   List columns that are stored as array data blocks: all lists of a row group in one block
metadata      Metadata of a file, as `read_metadata` returns it: row groups, buckets and statistics
names         Column names: packed in memory, front coded and byte-pair encoded in a file
nested        List and map columns, and the flat columns they are stored as
paths         Paths to fields inside structs, and types that contain only some of the fields
plain_arrays  Arrays of any Arrow type as arrays of plain types, and the parts of nested arrays
schema        The schema block: columns, their buckets, and their original order
shred         Columns of plain types, and the columns that a file stores for them
types         Arrow types, their type descriptors in the schema block, and how single values are encoded
user_arrays   Arrays of plain types as arrays of the types that the user had
user_schema   The user's schema: types and metadata that the schema block of a file cannot store
wire          Integers, strings, checksums and compressed blocks, as they are stored in a file
"""

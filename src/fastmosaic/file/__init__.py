"""One file: reading, writing, verifying, what is stored.

batches    Data to write, as a stream of batches: from Arrow, data frames, databases
concat     concatenate: merge files into one, by copying row groups where that is possible
dictionaries  Dictionaries of the user: their values, in the order in which the user had them
encode     Encoding batches as a row group: what goes to which bucket, and how it is laid out
fetch      Which bytes of a file columns of row groups need, and reading them in rounds
fill       Decode columns of numbers straight into a matrix
frames     FrameCache: decompressed frames of open files, the ones used last
key_index  The key index of a file: which rows have a key, by the hash of the key
layout     What the writer decides by cost: monolithic or paged buckets, where row groups end
merged_columns  The columns of a file that others are merged into
opening    Open a file: the steps from its last bytes to its metadata
options    The options of the writer: names, types, defaults, checks and text forms
pending    Rows of the next row group: batches as they came, or rows collected from them
reader     MosaicFile: an open file, and reading columns, row groups and rows of it
row_group  Row groups as bytes: finished by an encoder, or copied from another file
scan       Read columns of row groups: fetch the bytes, decode them
stored     What is stored, without decoding it: the pages of columns, their bytes, the sections of the annex
verify     verify: check structure, checksums, values and statistics of a file
verify_bucket  Check the data of one bucket: its blocks, values and statistics
writer     MosaicWriter: batches in, row groups out, and a file that appears only when it is whole
"""

"""One file: reading, writing, verifying, what is stored.

layout   What the writer decides by cost: monolithic or paged buckets, where row groups end
options  The options of the writer: names, types, defaults, checks and text forms
reader   MosaicFile: an open file, and which of its columns, row groups and rows are wanted
scan     Reading columns of row groups: plan all of it, read it in at most two rounds, decode it
stored   What is stored, without decoding it: the pages of columns, their bytes, the sections of the annex
verify   verify: whether a file is what its writer wrote, as far as that can be known
writer   MosaicWriter: batches in, row groups out, and a file that appears only when it is whole
"""

"""Parquet, ORC, Arrow, CSV and JSON lines as streams of batches.

compare   How two tables differ: in their columns, and in their rows, which are read side by side
inputs    What a command reads: files of one format, as one table
read      Files of several formats as streams of batches
text      CSV and JSON lines as batches, and what types their columns have
write     Files of several formats that are written batch by batch, and appear when they are whole
"""

"""Parquet, ORC, Arrow, CSV and JSON lines as streams of batches.

compare   Compare two tables: their columns and their rows
find      Find the input files of a command, and their format
inputs    The input of a command: files of one format, read as one table
read      Read files of several formats as streams of batches
text      Read CSV and JSON lines as batches, and infer the types of their columns
write     Write files of several formats batch by batch
"""

"""Parquet, ORC, Arrow, CSV and JSON lines as streams of batches.

compare    Compare two tables: their columns and their rows
find       Find the input files of a command, and their format
inputs     The input of a command: files of one format, read as one table
leaves     Types and values at the leaves of columns: inside structs, lists and maps
listed     The columns of files one by one, with their sizes and conflicts
read       Read files of several formats as streams of batches
supported  Which types a format supports, and the types that replace others
text       Read CSV and JSON lines as batches, and infer the types of their columns
values     Values of Arrow arrays as JSON, and as text that people read
write      Write files of several formats batch by batch
"""

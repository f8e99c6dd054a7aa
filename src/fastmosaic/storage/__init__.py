"""Paths and URIs: byte ranges in, whole files out.

location   Where things are: paths, URIs and filesystems, of pyarrow or fsspec
retry      What may fail on the way to a server, tried again
sink       Bytes out: what is written appears whole under its name, or not at all
source     Bytes in: open what a user names, and read byte ranges of it
staging    Files that are written aside and then appear in a directory together
"""

"""Bytes and Arrow arrays, in both directions: no I/O, no paths, no threads."""

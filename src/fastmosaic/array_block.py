"""Kudu's array data block on its own: encode and decode columns of arrays without a file."""

from .format.array_block import decode, encode, rle_decode, rle_encode

__all__ = ["decode", "encode", "rle_decode", "rle_encode"]

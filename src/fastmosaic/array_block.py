"""Encode and decode Kudu's array data blocks, independently of files."""

from .format.array_block import decode, encode, rle_decode, rle_encode

__all__ = ["decode", "encode", "rle_decode", "rle_encode"]

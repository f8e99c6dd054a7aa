"""Read and write the Mosaic file format: very wide tables, fast, through Arrow."""

from .api import read_metadata, read_schema, read_table, write_table
from .errors import (
    ColumnNotFoundError,
    CorruptFileError,
    MosaicError,
    SchemaMismatchError,
    UnsupportedError,
)
from .format.metadata import BucketMetaData, ColumnStatistics, FileMetaData, RowGroupMetaData
from .reader import MosaicFile
from .writer import MosaicWriter

__all__ = [
    "BucketMetaData",
    "ColumnNotFoundError",
    "ColumnStatistics",
    "CorruptFileError",
    "FileMetaData",
    "MosaicError",
    "MosaicFile",
    "MosaicWriter",
    "RowGroupMetaData",
    "SchemaMismatchError",
    "UnsupportedError",
    "read_metadata",
    "read_schema",
    "read_table",
    "write_table",
]

__version__ = "0.1.0"

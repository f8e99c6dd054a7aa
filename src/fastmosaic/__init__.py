"""Read and write the Mosaic file format: very wide tables, fast, through Arrow."""

import typing

from .api import read_metadata, read_schema, read_table, write_table
from .dataset_writer import WriteProgress, WriteReport, WrittenFile, write_dataset
from .errors import (
    ColumnNotFoundError,
    CorruptFileError,
    MosaicError,
    SchemaMismatchError,
    UnsupportedError,
)
from .format.metadata import BucketMetaData, ColumnStatistics, FileMetaData, RowGroupMetaData
from .pandas_frames import read_pandas, write_pandas
from .polars_source import scan_polars
from .reader import MosaicFile
from .verify import Problem, VerifyReport, verify
from .version import __version__ as __version__
from .writer import MosaicWriter

if typing.TYPE_CHECKING:
    from .dataset import MosaicDataset

__all__ = [
    "BucketMetaData",
    "ColumnNotFoundError",
    "ColumnStatistics",
    "CorruptFileError",
    "FileMetaData",
    "MosaicDataset",
    "MosaicError",
    "MosaicFile",
    "MosaicWriter",
    "Problem",
    "RowGroupMetaData",
    "SchemaMismatchError",
    "UnsupportedError",
    "VerifyReport",
    "WriteProgress",
    "WriteReport",
    "WrittenFile",
    "read_metadata",
    "read_pandas",
    "read_schema",
    "read_table",
    "scan_polars",
    "verify",
    "write_dataset",
    "write_pandas",
    "write_table",
]


def __getattr__(name: str) -> typing.Any:
    # It needs pyarrow.dataset, which takes longer to import than everything else together.
    if name == "MosaicDataset":
        from .dataset import MosaicDataset

        return MosaicDataset
    raise AttributeError(f"module 'fastmosaic' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__

"""Read and write the Mosaic file format: very wide tables, fast, through Arrow."""

import typing

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
from .version import __version__ as __version__
from .writer import MosaicWriter

if typing.TYPE_CHECKING:
    from .dataset import MosaicDataset
    from .dataset_writer import WriteProgress, WriteReport, WrittenFile, write_dataset
    from .pandas_frames import read_pandas, write_pandas
    from .polars_source import scan_polars
    from .verification import Problem, VerifyReport, verify

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


# What is not needed to read or write a file is imported on use: that takes a third of the time, and
# pyarrow.dataset, which the first of these needs, ten times as long as all the rest.
_ON_USE = {
    "MosaicDataset": "dataset",
    "Problem": "verification",
    "VerifyReport": "verification",
    "WriteProgress": "dataset_writer",
    "WriteReport": "dataset_writer",
    "WrittenFile": "dataset_writer",
    "read_pandas": "pandas_frames",
    "scan_polars": "polars_source",
    "verify": "verification",
    "write_dataset": "dataset_writer",
    "write_pandas": "pandas_frames",
}


def __getattr__(name: str) -> typing.Any:
    if name in _ON_USE:
        import importlib

        return getattr(importlib.import_module(f".{_ON_USE[name]}", __name__), name)
    raise AttributeError(f"module 'fastmosaic' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__

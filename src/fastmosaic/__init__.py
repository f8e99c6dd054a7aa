"""Read and write the Mosaic file format: very wide tables, fast, through Arrow."""

import typing

from .api import read_metadata, read_schema, read_table, write_table
from .errors import (
    ColumnNotFoundError,
    ConflictError,
    CorruptFileError,
    MemoryLimitError,
    MosaicError,
    SchemaMismatchError,
    UnsupportedError,
)
from .file.reader import MosaicFile
from .format.column_statistics import ColumnStatistics
from .format.metadata import BucketMetaData, FileMetaData, RowGroupMetaData
from .version import __version__ as __version__

if typing.TYPE_CHECKING:
    from .dataset.arrow import MosaicDataset
    from .dataset.compact import CompactionReport, compact
    from .dataset.concat import concat
    from .dataset.lookup import lookup
    from .dataset.open_files import WrittenFile
    from .dataset.write import WriteProgress, WriteReport, write_dataset
    from .file.concat import ConcatReport
    from .file.verify import VerifyReport, verify
    from .file.verify_bucket import Problem
    from .file.writer import MosaicWriter
    from .interop.matrix import read_matrix
    from .interop.pandas import read_pandas, write_pandas
    from .interop.polars import scan_polars
    from .table.commit import TableChange
    from .table.progress import TableProgress
    from .table.table import MosaicTable, VersionInfo
    from .table.vacuum import VacuumReport
    from .table.verify import TableReport

__all__ = [
    "BucketMetaData",
    "ColumnNotFoundError",
    "ColumnStatistics",
    "CompactionReport",
    "ConcatReport",
    "ConflictError",
    "CorruptFileError",
    "FileMetaData",
    "MemoryLimitError",
    "MosaicDataset",
    "MosaicError",
    "MosaicFile",
    "MosaicTable",
    "MosaicWriter",
    "Problem",
    "RowGroupMetaData",
    "SchemaMismatchError",
    "TableChange",
    "TableProgress",
    "TableReport",
    "UnsupportedError",
    "VacuumReport",
    "VerifyReport",
    "VersionInfo",
    "WriteProgress",
    "WriteReport",
    "WrittenFile",
    "compact",
    "concat",
    "lookup",
    "read_matrix",
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


# What is not needed to read a file is imported on use: that takes less than half of the time, and
# pyarrow.dataset, which the first of these needs, ten times as long as all the rest.
_ON_USE = {
    "CompactionReport": "dataset.compact",
    "ConcatReport": "file.concat",
    "MosaicDataset": "dataset.arrow",
    "MosaicTable": "table.table",
    "MosaicWriter": "file.writer",
    "Problem": "file.verify_bucket",
    "TableChange": "table.commit",
    "TableProgress": "table.progress",
    "TableReport": "table.verify",
    "VacuumReport": "table.vacuum",
    "VerifyReport": "file.verify",
    "VersionInfo": "table.table",
    "WriteProgress": "dataset.write",
    "WriteReport": "dataset.write",
    "WrittenFile": "dataset.open_files",
    "compact": "dataset.compact",
    "concat": "dataset.concat",
    "lookup": "dataset.lookup",
    "read_matrix": "interop.matrix",
    "read_pandas": "interop.pandas",
    "scan_polars": "interop.polars",
    "verify": "file.verify",
    "write_dataset": "dataset.write",
    "write_pandas": "interop.pandas",
}


def __getattr__(name: str) -> typing.Any:
    import importlib

    if name == "torch":  # requires PyTorch, so it is not among the public names of this module
        return importlib.import_module(".torch", __name__)
    if name in _ON_USE:
        return getattr(importlib.import_module(f".{_ON_USE[name]}", __name__), name)
    raise AttributeError(f"module 'fastmosaic' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__

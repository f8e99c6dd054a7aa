"""Mosaic files as a DataFrame whose columns, files and row groups Spark's planner chooses.

The end of each file is read once, by `read`, in the driver. Planning a query then takes no I/O,
and tasks get what they need to know of their files along with their split.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyarrow import types

from ...dataset.fileset import File, FileSet, Partitioning, Query
from ...dataset.tasks import Scan, Split, share_out
from ...errors import UnsupportedError
from ...query.selection import selected
from ...schemas.fit import Fits
from ...schemas.union import Fixed
from ..schemas import arrow_for_spark, from_spark, to_spark
from ..sessions import check, has_jvm
from .aggregates import Aggregate, answer
from .jvm import Jvm, is_known
from .proxies import Table
from .pushdown import Predicate, to_expression

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["ScanReport", "read", "scans"]

# Bytes of a value in a row of Spark, where the type does not tell; as Spark itself guesses.
STRING_BYTES: Final = 20
ROW_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class ScanReport:
    """What a planned scan reads, and of how much; `None` where that was not looked up."""

    name: str
    columns: int
    total_columns: int
    files: int
    total_files: int
    row_groups: int
    total_row_groups: int | None
    num_rows: int
    num_bytes: int
    filters: tuple[str, ...] = ()
    limit: int | None = None

    def __str__(self) -> str:
        groups = f"{self.row_groups}"
        if self.total_row_groups is not None:
            groups += f" of {self.total_row_groups}"
        parts = [
            f"columns {self.columns} of {self.total_columns}",
            f"files {self.files} of {self.total_files}",
            f"row groups {groups}",
            f"rows {self.num_rows}",
            f"bytes {self.num_bytes}",
        ]
        if self.filters:
            parts.append(f"filters [{', '.join(self.filters)}]")
        if self.limit is not None:
            parts.append(f"limit {self.limit}")
        return f"mosaic {self.name}: {', '.join(parts)}"


_recent: deque[ScanReport] = deque(maxlen=100)


def scans() -> list[ScanReport]:
    """The last scans that Spark planned in this process, the newest at the end.

    `explain` plans too. An aggregate that metadata answers reads no row groups and no bytes.
    """
    return list(_recent)


def read(
    spark: SparkSession,
    path: Any,
    *,
    columns: Sequence[str] | None = None,
    schema: pa.Schema | StructType | None = None,
    partitioning: Partitioning = "hive",
    unify: bool = True,
    skip_corrupt: bool = False,
    filesystem: Any = None,
) -> DataFrame:
    """A DataFrame on Mosaic files; only what a query needs is read of them.

    Spark's planner prunes columns, files and row groups, and has row counts and sizes; `count()`
    and, where statistics allow, `min` and `max` of whole columns are answered from metadata. Where
    Spark's planner cannot be reached (Spark Connect, versions of Spark that this package does not
    know), this is `spark.read.format("mosaic")`, with a warning: that one reads `columns`, or all.

    Parameters
    ----------
    spark : SparkSession
    path : path, URI or list of them
        A directory with all files below it, a glob, a file, or a list of these.
    columns : list of str, optional
        Names, or patterns such as `sensor_*`, of the columns of the DataFrame; by default all.
    schema : pyarrow.Schema or StructType, optional
        The columns and types. By default the union of all files.
    partitioning : "hive", pyarrow.Schema or None
        Whether directories called `key=value` are columns.
    unify : bool
        Whether files may differ.
    skip_corrupt : bool
        Whether files that cannot be opened are left out, with a warning that names them.
    filesystem : pyarrow or fsspec filesystem, optional
        Where the paths are, for the driver and for the workers.
    """
    check(spark)
    if schema is not None and not isinstance(schema, pa.Schema):
        schema = from_spark(schema)
    reason = _why_plain(spark)
    if reason is not None:
        warnings.warn(
            f"{reason}, so it does not prune columns: name those to load by columns=", stacklevel=2
        )
        return _read_plainly(
            spark, path, columns, schema, partitioning, unify, skip_corrupt, filesystem
        )
    files = FileSet(
        path,
        filesystem=filesystem,
        schema=schema,
        partitioning=partitioning,
        unify=unify,
        skip_corrupt=skip_corrupt,
    )
    if columns is None:
        wanted = files.columns.to_arrow()
    else:
        names = selected(list(columns), files.columns.names())
        wanted = pa.schema([files.columns.field(name) for name in names])
    try:
        wanted = arrow_for_spark(wanted)
        _check_times(spark, wanted)
    except UnsupportedError as error:
        error.add_note("columns= can leave it out")
        raise
    jvm = Jvm(spark)
    struct = jvm.struct(wanted)
    return jvm.data_frame(Table(jvm, Relation(jvm, files, wanted, _name(path)), struct), struct)


def _check_times(spark: SparkSession, schema: pa.Schema) -> None:
    """Raise for a time of day where Spark has that type switched off: most queries would fail."""
    setting = "spark.sql.timeType.enabled"
    if spark.conf.get(setting, "false") == "true":
        return
    for name, type in zip(schema.names, schema.types, strict=True):
        if types.is_time(type):
            raise UnsupportedError(f"column {name!r}: Spark has TIME only if {setting} is true")


def _why_plain(spark: SparkSession) -> str | None:
    if not has_jvm(spark):
        return "Spark Connect has no planner in this process"
    if not is_known(spark.version):
        return f"fastmosaic does not know the planner of Spark {spark.version}"
    return None


def _read_plainly(
    spark: SparkSession,
    path: Any,
    columns: Sequence[str] | None,
    schema: pa.Schema | None,
    partitioning: Partitioning,
    unify: bool,
    skip_corrupt: bool,
    filesystem: Any,
) -> DataFrame:
    """By `spark.read.format("mosaic")`, whose options are texts."""
    from ..source.source import MosaicDataSource

    if filesystem is not None or isinstance(partitioning, pa.Schema):
        raise UnsupportedError(
            "without Spark's planner, a path is a URI instead of one in filesystem=, and the types "
            "of partitions are given by schema="
        )
    spark.dataSource.register(MosaicDataSource)
    reader = spark.read.format("mosaic").options(
        partitioning="none" if partitioning is None else partitioning,
        unify=str(unify),
        skip_corrupt=str(skip_corrupt),
    )
    if schema is not None:
        if columns is not None:
            names = selected(list(columns), schema.names)
            schema = pa.schema([schema.field(name) for name in names])
        reader = reader.schema(to_spark(schema))
    elif columns is not None:
        reader = reader.option("columns", json.dumps(list(columns)))
    paths = path if isinstance(path, list | tuple) else [path]
    return reader.load([os.fspath(one) for one in paths])


def _name(path: Any) -> str:
    if isinstance(path, list | tuple):
        return f"{_name(path[0])} and {len(path) - 1} more" if len(path) > 1 else _name(path[0])
    return os.fspath(path) if isinstance(path, str | os.PathLike) else type(path).__name__


class Relation:
    """Files as a table of Spark."""

    def __init__(self, jvm: Jvm, files: FileSet, schema: pa.Schema, name: str) -> None:
        self.name = name
        self.files = files
        self.schema = schema
        self._jvm = jvm
        self.key = _identity(files, schema)

    def plan(
        self, names: Sequence[str] | None, predicates: Sequence[Predicate | None], limit: int | None
    ) -> PlannedScan:
        schema = self.schema
        if names is not None:
            schema = pa.schema([schema.field(name) for name in names])
        expression, needed = to_expression(predicates, self.files.columns.field)
        query = Query(schema, schema.names, expression, needed)
        max_bytes, min_splits = self._jvm.split_sizes()
        scan, splits = share_out(self.files, query, max_bytes=max_bytes, min_splits=min_splits)
        if limit is not None:
            splits = _first(splits, limit, self.files, Fits(schema, self.files.partitions))
        filters = tuple(str(one) for one in predicates if one is not None)
        report = self._report(len(schema), splits, filters, limit)
        _recent.append(report)
        return PlannedScan(self.key, scan, splits, report)

    def _report(
        self, columns: int, splits: Sequence[Split], filters: tuple[str, ...], limit: int | None
    ) -> ScanReport:
        parts = [part for split in splits for part in split.parts]
        return ScanReport(
            name=self.name,
            columns=columns,
            total_columns=len(self.schema),
            files=len({part.found.name for part in parts}),
            total_files=len(self.files.files),
            row_groups=sum(len(part.groups) for part in parts),
            total_row_groups=self._total_row_groups(),
            num_rows=sum(split.num_rows for split in splits),
            num_bytes=sum(split.size for split in splits),
            filters=filters,
            limit=limit,
        )

    def _total_row_groups(self) -> int | None:
        if _is_lazy(self.files):
            return None
        return sum(file.metadata.num_row_groups for file in self.files.files)

    def aggregate(self, aggregates: Sequence[Aggregate]) -> list[pa.Scalar] | None:
        return answer(self.files, self.schema, aggregates)

    def report_metadata(self) -> None:
        """Note a scan that read nothing."""
        _recent.append(self._report(0, [], (), None))


# ---- scans


class PlannedScan:
    """A scan that tasks can run."""

    def __init__(self, table: str, scan: Scan, splits: Sequence[Split], report: ScanReport) -> None:
        self._table = table
        self._scan = scan
        self._splits = splits
        self.report = report
        self.schema = scan.schema
        self.num_rows = report.num_rows
        # Values that compress to nothing still take their place in memory.
        self.size = max(report.num_bytes, report.num_rows * _row_bytes(scan.schema), 1)

    @property
    def key(self) -> str:
        digest = hashlib.blake2b(self._table.encode(), digest_size=16)
        digest.update(self.schema.serialize())
        for split in self._splits:
            for part in split.parts:
                digest.update(f"{part.found.name} {part.groups}".encode())
        return digest.hexdigest()

    @property
    def description(self) -> str:
        return str(self.report)

    def command(self) -> ReadSplits:
        return ReadSplits(self._scan)

    def splits(self) -> Sequence[Split]:
        return self._splits


class ReadSplits:
    """What a task does: batches with a pickled split each, in; the rows of the splits, out."""

    def __init__(self, scan: Scan) -> None:
        self._scan = scan

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for value in batch.column(0):
                yield from self._scan.read(pickle.loads(value.as_buffer()))


def _row_bytes(schema: pa.Schema) -> int:
    return ROW_BYTES + sum(
        STRING_BYTES if _has_no_width(type) else max(1, type.bit_width // 8)
        for type in schema.types
    )


def _has_no_width(type: pa.DataType) -> bool:
    return types.is_nested(type) or types.is_string(type) or types.is_binary(type)


def _first(splits: Sequence[Split], num_rows: int, files: FileSet, fits: Fits) -> list[Split]:
    """As much of the splits as has so many rows."""
    by_name: dict[str, File] = {file.name: file for file in files.files}
    kept: list[Split] = []
    left = num_rows
    for split in splits:
        parts = []
        size = rows = 0
        for part in split.parts:
            file = by_name[part.found.name]
            positions = fits.of_block(file.metadata.schema_block).positions
            groups = []
            for group in part.groups:
                if left > rows:
                    groups.append(group)
                    rows += file.metadata.rows_of(group)
                    size += file.metadata.projected_bytes(group, positions)
            if groups:
                parts.append(replace(part, groups=tuple(groups)))
        if parts:
            kept.append(Split(tuple(parts), rows, size))
        left -= rows
    return kept


def _is_lazy(files: FileSet) -> bool:
    """Whether files are opened only when a query needs them."""
    return isinstance(files.columns, Fixed)


def _identity(files: FileSet, schema: pa.Schema) -> str:
    """The same for tables of the same columns of the same files, as long as no file changes."""
    digest = hashlib.blake2b(schema.serialize(), digest_size=16)
    for file in files.files:
        digest.update(f"\0{file.name}\0{file.found.size}".encode())
        if file.is_local:
            status = os.stat(file.found.path)
            digest.update(f"\0{status.st_mtime_ns}\0{status.st_size}".encode())
        elif not _is_lazy(files):
            digest.update(file.metadata.index)
    return digest.hexdigest()

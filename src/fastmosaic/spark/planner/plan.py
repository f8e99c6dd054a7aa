"""Plan scans: which columns, files and row groups a query reads, and how tasks share them."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
from pyarrow import types

from ...dataset.fileset import FileSet
from ...dataset.tasks import Split, SplitScan, share_out
from ...format.paths import leaves
from ...query.query import Query
from ...schemas.fit import Fits
from ..origin import ORIGIN
from ..schemas import with_fields_of
from ..task import NumberedReader, PlannedReader
from .aggregates import Aggregate, Answers, answer
from .pushdown import Predicate, to_expression, to_row_filter
from .runtime import runtime_columns

__all__ = ["PlannedScan", "ScanPlanner", "ScanReport", "scans"]

# Bytes of a value in a row of Spark where the type has no fixed width, as Spark itself assumes.
STRING_BYTES: Final = 20
ROW_BYTES: Final = 8
# What predicates get as the column that tells where rows are from: they cannot be pushed down.
_UNKNOWN: Final = ORIGIN.with_type(pa.struct([]))


@dataclass(frozen=True, slots=True)
class ScanReport:
    """What a planned scan reads, compared with what the files contain.

    `fields` counts the fields inside structs in place of the structs. `total_row_groups` is None if
    not all files were opened, which a `schema=` makes unnecessary.
    """

    name: str
    columns: int
    total_columns: int
    fields: int
    total_fields: int
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
        parts = [f"columns {self.columns} of {self.total_columns}"]
        if self.total_fields != self.total_columns:
            parts.append(f"fields {self.fields} of {self.total_fields}")
        parts += [
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
    """Return reports of the last 100 scans that Spark planned in this process, newest last.

    `DataFrame.explain` plans scans, too. An aggregate that is answered from metadata is reported
    as a scan of no row groups and no bytes.
    """
    return list(_recent)


class ScanPlanner:
    """Plans scans of files that were opened, without I/O and without the JVM.

    Parameters
    ----------
    files : FileSet
    schema : pyarrow.Schema
        The columns of the table, with types that Spark accepts.
    name : str
        The name of the table in plans and reports.
    split_sizes : callable
        Returns the maximum bytes of a split and the minimum number of splits.
    """

    def __init__(
        self,
        files: FileSet,
        schema: pa.Schema,
        name: str,
        split_sizes: Callable[[], tuple[int, int]],
    ) -> None:
        self.name = name
        self.schema = schema
        self.key = _identity(files, schema)
        self._files = files
        self._split_sizes = split_sizes
        self._total_fields = _num_fields(schema)

    def plan(
        self,
        schema: pa.Schema | None,
        predicates: Sequence[Predicate | None],
        limit: int | None,
    ) -> PlannedScan:
        """Plan a scan of rows that match `predicates`.

        `schema` contains the columns to read, which may have only some of the fields of their
        structs; None stands for all columns.
        """
        if schema is None:
            schema = self.schema
        asked = schema
        if self.has_origin and ORIGIN.name in schema.names:
            schema = schema.remove(schema.get_field_index(ORIGIN.name))
        expression, needed = to_expression(predicates, self._field)
        query = Query(schema, expression=expression, needed=needed)
        # Tasks drop rows that Spark would drop, so that they need not become rows of the JVM.
        matching, compared = to_row_filter(predicates, self._field_for_spark)
        if asked is not schema:
            matching = None  # rows keep their numbers
        kept = None if matching is None else Query.filtered(schema, matching, compared)
        max_bytes, min_splits = self._split_sizes()
        scan, splits = share_out(
            self._files,
            query,
            max_bytes=max_bytes,
            min_splits=min_splits,
            # The first rows of a row group are in one part of it.
            row_bytes=_row_bytes(schema) if limit is None else 0,
            kept=kept,
        )
        if limit is not None:
            splits = _first(splits, limit, scan, Fits(schema, self._files.partitions))
        filters = tuple(str(one) for one in predicates if one is not None)
        report = self._report(schema, splits, filters, limit)
        _recent.append(report)
        # Scans with different filters return different rows. Text of an expression may be shortened.
        key = self.key if matching is None else f"{self.key} {[*predicates]!r}"
        size = self._size(schema, scan, report, splits)
        return PlannedScan(key, self._files, scan, splits, report, size, asked)

    @cached_property
    def has_origin(self) -> bool:
        """Whether queries can ask where rows are from: no column has that name."""
        return ORIGIN.name not in self.schema.names

    def part_of(self, struct: dict[str, Any]) -> pa.Schema:
        """Return the columns and fields of the JSON form of a StructType."""
        schema = self.schema
        if self.has_origin and any(one["name"] == ORIGIN.name for one in struct["fields"]):
            schema = schema.append(ORIGIN)
        return with_fields_of(schema, struct)

    def _field(self, name: str) -> pa.Field:
        return _UNKNOWN if self._is_origin(name) else self._files.columns.field(name)

    def _field_for_spark(self, name: str) -> pa.Field:
        return _UNKNOWN if self._is_origin(name) else self.schema.field(name)

    def _is_origin(self, name: str) -> bool:
        return name == ORIGIN.name and self.has_origin

    def narrowest(self) -> pa.Schema:
        """Return one column, the one whose values need the least space in a row."""
        return pa.schema([min(self.schema, key=lambda field: _value_bytes(field.type))])

    def aggregate(self, aggregates: Iterable[Aggregate | None]) -> Answers | None:
        """Return the values of aggregates from metadata; None if metadata does not have them all."""
        return answer(self._files, self.schema, aggregates)

    def note_metadata_scan(self) -> None:
        """Report a scan that was answered from metadata."""
        _recent.append(self._report(pa.schema([]), [], (), None))

    def _report(
        self,
        schema: pa.Schema,
        splits: Sequence[Split],
        filters: tuple[str, ...],
        limit: int | None,
    ) -> ScanReport:
        parts = [part for split in splits for part in split.parts]
        return ScanReport(
            name=self.name,
            columns=len(schema),
            total_columns=len(self.schema),
            fields=_num_fields(schema),
            total_fields=self._total_fields,
            files=len({part.found.place for part in parts}),
            total_files=len(self._files.files),
            row_groups=len({(part.found.place, group) for part in parts for group in part.groups}),
            total_row_groups=self._total_row_groups(),
            num_rows=sum(split.num_rows for split in splits),
            num_bytes=sum(split.size for split in splits),
            filters=filters,
            limit=limit,
        )

    def _size(
        self, schema: pa.Schema, scan: SplitScan, report: ScanReport, splits: Sequence[Split]
    ) -> int:
        """Return the size of a scan by which Spark chooses how to join.

        As for Spark's own file formats, it is the share of the stored bytes that the columns have in a
        row. The same join of the same data is then planned in the same way, whatever its format.
        Columns that do not compress well count with the bytes that are read.
        """
        groups: dict[tuple[tuple[str, str], int], int] = {}
        for split in splits:
            for part in split.parts:
                for file in scan.file_of(part).parts:
                    for group in part.groups:
                        groups[file.found.place, group] = file.metadata.bytes_of(group)
        share = sum(groups.values()) * _row_bytes(schema) // self._row_bytes
        return max(report.num_bytes, share, 1)

    @cached_property
    def _row_bytes(self) -> int:
        return _row_bytes(self.schema)

    def _total_row_groups(self) -> int | None:
        if self._files.is_lazy:
            return None
        return sum(file.metadata.num_row_groups for file in self._files.files)


class PlannedScan:
    """A scan that tasks can run."""

    def __init__(
        self,
        table: str,
        files: FileSet,
        scan: SplitScan,
        splits: Sequence[Split],
        report: ScanReport,
        size: int,
        schema: pa.Schema,
    ) -> None:
        """`schema` contains the columns of the scan, and maybe the one that tells where rows are from."""
        self._table = table
        self._files = files
        self._scan = scan
        self.splits = splits
        self.report = report
        self.schema = schema
        self.num_rows = report.num_rows
        self.size = size

    @property
    def key(self) -> str:
        """An identity that scans of the same columns and row groups share."""
        digest = hashlib.blake2b(self._table.encode(), digest_size=16)
        digest.update(self.schema.serialize())
        for split in self.splits:
            for part in split.parts:
                digest.update(f"{part.found.place} {part.groups} {part.rows}".encode())
        return digest.hexdigest()

    def runtime_columns(self) -> list[str]:
        """Return the columns that may filter the scan at run time."""
        return runtime_columns(self._files, self._scan, self.splits)

    def reader(self) -> PlannedReader | NumberedReader:
        """Return the function that tasks run."""
        if self.schema is self._scan.schema:
            return PlannedReader(self._scan)
        return NumberedReader(self._scan, self.schema)


def _num_fields(schema: pa.Schema) -> int:
    nested = [field for field in schema if types.is_nested(field.type)]
    return len(schema) + sum(sum(1 for _ in leaves(field)) - 1 for field in nested)


def _row_bytes(schema: pa.Schema) -> int:
    return ROW_BYTES + sum(map(_value_bytes, schema.types))


def _value_bytes(type: pa.DataType) -> int:
    if types.is_struct(type):
        return sum(_value_bytes(field.type) for field in type)
    if types.is_nested(type) or types.is_string(type) or types.is_binary(type):
        return STRING_BYTES
    return max(1, type.bit_width // 8)


def _first(splits: Sequence[Split], num_rows: int, scan: SplitScan, fits: Fits) -> list[Split]:
    """Return the row groups that contain the first `num_rows` rows of the splits."""
    kept: list[Split] = []
    left = num_rows
    for split in splits:
        parts = []
        size = rows = 0
        for part in split.parts:
            file = scan.file_of(part)
            groups = []
            for group in part.groups:
                if left > rows:
                    groups.append(group)
                    rows += file.metadata.rows_of(group)
                    size += file.read_bytes(fits, [group])
            if groups:
                parts.append(replace(part, groups=tuple(groups)))
        if parts:
            kept.append(Split(tuple(parts), rows, size))
        left -= rows
    return kept


def _identity(files: FileSet, schema: pa.Schema) -> str:
    """Return a key that is equal for the same columns of the same files until a file changes."""
    digest = hashlib.blake2b(schema.serialize(), digest_size=16)
    for file in files.files:
        digest.update(f"\0{file.found.place}\0{file.found.size}".encode())
        if file.found.entry is not None:  # files of a table do not change
            digest.update(file.found.entry.snapshot.version.commit.encode())
        elif file.is_local:
            status = os.stat(file.found.path)
            digest.update(f"\0{status.st_mtime_ns}\0{status.st_size}".encode())
        elif not files.is_lazy:
            digest.update(file.metadata.index)
    return digest.hexdigest()

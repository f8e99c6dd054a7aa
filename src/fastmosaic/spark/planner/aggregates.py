"""Answer aggregates of whole columns from the metadata of files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
from pyarrow import types

from ...dataset.fileset import FileSet
from ...dataset.joined_files import ReadableFile
from ...format.paths import Path, at_path
from ...query.query import Query
from ...schemas.widen import widened

__all__ = ["Aggregate", "Answers", "answer", "known_bounds", "order"]


class Aggregate(NamedTuple):
    """`count`, `min` or `max` of a column or a field; `count` of rows if `path` is None."""

    function: str
    path: Path | None

    def __str__(self) -> str:
        return f"{self.function}({'*' if self.path is None else '.'.join(self.path)})"


Answers: TypeAlias = list[tuple[Aggregate, pa.Scalar]]


def answer(
    files: FileSet, schema: pa.Schema, aggregates: Iterable[Aggregate | None]
) -> Answers | None:
    """Return the values with the types of `schema`; None if metadata lacks one of them.

    If it lacks the first one, the others are not asked for: each takes several calls into the JVM.
    """
    asked: list[Aggregate] = []
    for aggregate in aggregates:
        if aggregate is None:
            return None
        asked.append(aggregate)
        if len(asked) == 1 and _answer(files, schema, asked) is None:
            return None
    return _answer(files, schema, asked)


def _answer(files: FileSet, schema: pa.Schema, aggregates: Sequence[Aggregate]) -> Answers | None:
    keys = set(files.partitions.names)
    needed = {path[0] for _, path in aggregates if path is not None and path[0] not in keys}
    query = Query(pa.schema([files.columns.field(name) for name in sorted(needed)]))
    groups = [(planned.file, group) for planned in files.plan(query) for group in planned.groups]
    found: dict[Path, ColumnSummary | None] = {}
    answers: Answers = []
    for aggregate in aggregates:
        function, path = aggregate
        if path is None:
            num_rows = sum(file.metadata.rows_of(group) for file, group in groups)
            answers.append((aggregate, pa.scalar(num_rows, pa.int64())))
            continue
        if path not in found:
            type = at_path(files.columns.field(path[0]), path).type
            found[path] = _summarize(files, path, type, groups)
        summary = found[path]
        wanted = at_path(schema.field(path[0]), path).type
        value = None if summary is None else summary.value(function, wanted)
        if value is None:
            return None
        answers.append((aggregate, value))
    return answers


class ColumnSummary(NamedTuple):
    """Count and bounds of a column over all row groups."""

    num_values: int
    bounds: list[pa.Scalar] | None  # None if some are missing

    def value(self, function: str, type: pa.DataType) -> pa.Scalar | None:
        if function == "count":
            return pa.scalar(self.num_values, pa.int64())
        if self.bounds is None:
            return None
        choose = min if function == "min" else max
        try:
            value = choose(self.bounds, key=order, default=pa.scalar(None, type))
            return value.cast(type)
        except (pa.ArrowInvalid, OverflowError):
            return None


def order(bound: pa.Scalar) -> Any:
    """Return what a bound is compared by."""
    # Compare times as integers: datetime has no nanoseconds and ends with the year 9999.
    if not types.is_temporal(bound.type):
        return bound.as_py()
    return bound.cast(pa.int32() if types.is_date32(bound.type) else pa.int64()).as_py()


def _has_exact_bounds(type: pa.DataType) -> bool:
    """Bounds of floats leave out NaN; bounds of strings may be truncated by the writer."""
    return (
        types.is_integer(type)
        or types.is_boolean(type)
        or types.is_date32(type)
        or types.is_timestamp(type)
        or types.is_duration(type)
        or types.is_decimal(type)
    )


def _summarize(
    files: FileSet, path: Path, type: pa.DataType, groups: Sequence[tuple[ReadableFile, int]]
) -> ColumnSummary | None:
    count = 0
    bounds: list[pa.Scalar] | None = [] if _has_exact_bounds(type) else None
    for file, group in groups:
        known = known_bounds(files, path, type, file, group)
        if known is None:
            return None
        num_values, *extremes = known
        count += num_values
        if bounds is not None and num_values:
            low, high = extremes
            # The format does not guarantee that the minimum is below the maximum.
            if low is None or high is None or order(low) > order(high):
                bounds = None
            else:
                bounds += [low, high]
    return ColumnSummary(count, bounds)


def known_bounds(
    files: FileSet, path: Path, type: pa.DataType, file: ReadableFile, group: int
) -> tuple[int, pa.Scalar | None, pa.Scalar | None] | None:
    """Return value count, minimum and maximum of a column in a row group; None if unknown."""
    metadata = file.metadata
    num_rows = metadata.rows_of(group)
    partition = files.partitions.get_field_index(path[0])
    if partition >= 0:
        value = file.values[partition]
        return (num_rows, value, value) if value.is_valid else (0, None, None)
    part = file.part_with(path[0])
    metadata, columns = part.metadata, part.columns
    if not columns.contains(path):
        return 0, None, None
    found = columns.leaf(path)
    # Bounds can be cast only if casting keeps the order of values.
    if found is None or widened(found[2].type, type) != type:
        return None
    position = found[0]
    for statistic in metadata.statistics(group, {position}):
        bounds = columns.restored(position, *metadata.bounds(statistic))
        low, high = (_cast(bound, type) for bound in bounds)
        return num_rows - statistic.null_count, low, high
    return None


def _cast(bound: pa.Scalar | None, type: pa.DataType) -> pa.Scalar | None:
    try:
        return None if bound is None else bound.cast(type)
    except pa.ArrowInvalid:
        return None

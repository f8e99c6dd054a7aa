"""Answer aggregates of whole columns from the metadata of files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import types

from ...dataset.files import File
from ...dataset.fileset import FileSet
from ...query.query import Query
from ...schemas.widen import widened

__all__ = ["Aggregate", "answer"]


class Aggregate(NamedTuple):
    """`count`, `min` or `max` of a column, or `count` of rows if `column` is None."""

    function: str
    column: str | None

    def __str__(self) -> str:
        return f"{self.function}({self.column or '*'})"


def answer(
    files: FileSet, schema: pa.Schema, aggregates: Sequence[Aggregate]
) -> list[pa.Scalar] | None:
    """Return the values with the types of `schema`; None if metadata lacks one of them."""
    groups = [
        (planned.file, group)
        for planned in files.plan(Query(pa.schema([])))
        for group in planned.groups
    ]
    found: dict[str, ColumnSummary | None] = {}
    values = []
    for function, column in aggregates:
        if column is None:
            num_rows = sum(file.metadata.rows_of(group) for file, group in groups)
            values.append(pa.scalar(num_rows, pa.int64()))
            continue
        if column not in found:
            found[column] = _summarize(files, files.columns.field(column), groups)
        summary = found[column]
        value = None if summary is None else summary.value(function, schema.field(column).type)
        if value is None:
            return None
        values.append(value)
    return values


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
            value = choose(self.bounds, key=_order, default=pa.scalar(None, type))
            return value.cast(type)
        except (pa.ArrowInvalid, OverflowError):
            return None


def _order(bound: pa.Scalar) -> Any:
    # Compare times as integers: datetime has no nanoseconds and ends with the year 9999.
    is_time = types.is_timestamp(bound.type) or types.is_date32(bound.type)
    if not is_time:
        return bound.as_py()
    return bound.cast(pa.int64() if types.is_timestamp(bound.type) else pa.int32()).as_py()


def _has_exact_bounds(type: pa.DataType) -> bool:
    """Bounds of floats leave out NaN; bounds of strings may be truncated by the writer."""
    return (
        types.is_integer(type)
        or types.is_boolean(type)
        or types.is_date32(type)
        or types.is_timestamp(type)
        or types.is_decimal(type)
    )


def _summarize(
    files: FileSet, field: pa.Field, groups: Sequence[tuple[File, int]]
) -> ColumnSummary | None:
    count = 0
    bounds: list[pa.Scalar] | None = [] if _has_exact_bounds(field.type) else None
    for file, group in groups:
        known = _known(files, field, file, group)
        if known is None:
            return None
        num_values, *extremes = known
        count += num_values
        if bounds is not None and num_values:
            low, high = extremes
            # The format does not guarantee that the minimum is below the maximum.
            if low is None or high is None or _order(low) > _order(high):
                bounds = None
            else:
                bounds += [low, high]
    return ColumnSummary(count, bounds)


def _known(
    files: FileSet, field: pa.Field, file: File, group: int
) -> tuple[int, pa.Scalar | None, pa.Scalar | None] | None:
    """Return value count, minimum and maximum of a column in a row group; None if unknown."""
    metadata = file.metadata
    num_rows = metadata.rows_of(group)
    partition = files.partitions.get_field_index(field.name)
    if partition >= 0:
        value = file.values[partition]
        return (num_rows, value, value) if value.is_valid else (0, None, None)
    position = metadata.schema_block.find(field.name)
    if position < 0:
        return 0, None, None
    # Bounds can be cast only if casting keeps the order of values.
    if widened(metadata.schema_block.field(position).type, field.type) != field.type:
        return None
    for statistic in metadata.statistics(group, {position}):
        low, high = (_cast(bound, field.type) for bound in metadata.bounds(statistic))
        return num_rows - statistic.null_count, low, high
    return None


def _cast(bound: pa.Scalar | None, type: pa.DataType) -> pa.Scalar | None:
    try:
        return None if bound is None else bound.cast(type)
    except pa.ArrowInvalid:
        return None

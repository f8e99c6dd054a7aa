"""What the data source loads: columns, files and row groups by its options, and the reading."""

from __future__ import annotations

import decimal
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyarrow import types

from ...dataset.fileset import FileSet, Query
from ...dataset.tasks import Scan, Split, share_out
from ...query.selection import selected
from ..planner.pushdown import from_datasource, to_expression
from ..schemas import arrow_for_spark, cast_for_spark
from .options import ReadOptions

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

# A batch crosses to the JVM as a whole.
MAX_BATCH_BYTES: Final = 32 << 20


def opened(
    source: str | list[str], options: ReadOptions, schema: pa.Schema | None = None
) -> FileSet:
    """The files; with `schema`, which a user gave, they have its columns and types."""
    partitioning: Any = options.partitioning
    return FileSet(
        source,
        schema=schema,
        partitioning=partitioning,
        unify=options.unify,
        skip_corrupt=options.skip_corrupt,
    )


def chosen(files: FileSet, options: ReadOptions) -> pa.Schema:
    """The columns that the options choose."""
    if options.columns is None:
        return files.columns.to_arrow()
    names = selected(options.columns, files.columns.names())
    return pa.schema([files.columns.field(name) for name in names])


class Columns:
    """What tasks read of their splits, as Spark wants it."""

    def __init__(self, scan: Scan, query: Query) -> None:
        self._scan = scan
        self._query = query
        fields = [query.schema.field(name) for name in query.names]
        self._schema = arrow_for_spark(pa.schema(fields))

    def read(self, split: Split | None) -> Iterator[pa.RecordBatch]:
        if split is None:  # Spark makes one partition of none
            return
        for batch in self._scan.read(split):
            for part in _cut(batch):
                if self._query.expression is None:
                    yield cast_for_spark(part, self._schema)
                else:
                    for kept in self._query.finish([part]).to_batches():
                        yield cast_for_spark(kept, self._schema)


def planned(
    files: FileSet, options: ReadOptions, pushed: Sequence[Filter] = ()
) -> tuple[Columns, list[Split]]:
    """What to read, as splits, and how."""
    names = None if options.columns is None else chosen(files, options).names
    filters = None if options.filters is None else _typed(options.filters, files)
    query = files.query(names, filters)
    # Rows are left out by the filters of the user; by those of Spark, which it applies itself, only
    # row groups.
    pruning = query
    expression, needed = to_expression(map(from_datasource, pushed), files.columns.field)
    if expression is not None:
        both = expression if query.expression is None else expression & query.expression
        fields = {one.name: one for one in (*query.needed, *needed)}
        pruning = Query(query.schema, query.names, both, tuple(fields.values()))
    scan, splits = share_out(files, pruning, max_bytes=options.max_split_bytes)
    return Columns(scan, query), splits


def _typed(filters: list[Any], files: FileSet) -> list[Any]:
    """Filters with values of the types of their columns: JSON has no dates, times or decimals."""
    return [
        [
            (column, operator, _value(value, files.columns.field(column)))
            for column, operator, value in all_of
        ]
        for all_of in filters
    ]


def _value(value: Any, field: pa.Field) -> Any:
    if isinstance(value, list):
        return [_value(one, field) for one in value]
    if types.is_decimal(field.type) and isinstance(value, str | int | float):
        return decimal.Decimal(str(value))
    if not isinstance(value, str) or not (types.is_temporal(field.type)):
        return value
    try:
        return pa.scalar(value).cast(field.type).as_py()
    except pa.ArrowInvalid as error:
        raise ValueError(f"filters: {value!r} is no {field.type}: {error}") from None


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch in parts of bounded size."""
    parts = min(max(1, batch.num_rows), 1 + batch.nbytes // MAX_BATCH_BYTES)
    size = -(-batch.num_rows // parts)
    if parts == 1:
        yield batch
    else:
        for start in range(0, batch.num_rows, size):
            yield batch.slice(start, size)

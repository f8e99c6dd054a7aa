"""Plan what the data source reads: open the files, choose columns, share row groups out to tasks."""

from __future__ import annotations

import decimal
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import types

from ...dataset.fileset import FileSet
from ...dataset.found import Found
from ...dataset.tasks import Split, share_out
from ...format.paths import at_path, united
from ...query.query import Query
from ..schemas import arrow_for_spark
from ..task import SplitReader
from .options import LoadOptions

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter


def open_files(
    source: str | list[str] | list[Found], options: LoadOptions, schema: pa.Schema | None = None
) -> FileSet:
    """Open the files. A `schema` given by the user replaces their columns and types."""
    partitioning: Any = options.partitioning
    return FileSet(
        source,
        schema=schema,
        partitioning=partitioning,
        unify=options.unify,
        skip_corrupt=options.skip_corrupt,
        memory_limit=options.memory_limit,
        strict=options.strict,
        follow_links=options.follow_links,
    )


def selected_schema(files: FileSet, options: LoadOptions) -> pa.Schema:
    """Return the schema of the columns that the options select, with the user's types."""
    return files.query(options.columns).result


def plan_load(
    files: FileSet, options: LoadOptions, pushed: Sequence[Filter] = ()
) -> tuple[SplitReader, list[Split]]:
    """Return the splits that tasks read, and the reader that reads them."""
    # Not at the top: tasks import this module, and have no use for the planner.
    from ..planner.pushdown import from_datasource, to_expression, to_row_filter

    filters = None if options.filters is None else _typed(options.filters, files)
    query = Query.of(files.columns, options.columns, filters)
    # The user's filters drop rows. Filters that Spark pushed skip row groups, and rows as far as that
    # saves work: Spark applies them to the rows itself.
    pruning = query
    kept = None
    predicates = [from_datasource(one) for one in pushed]
    matching, compared = to_row_filter(predicates, files.columns.field)
    if matching is not None:
        kept = Query.filtered(query.schema, matching, compared)
    expression, needed = to_expression(predicates, files.columns.field)
    if expression is not None:
        both = expression if query.expression is None else expression & query.expression
        pruning = Query(query.schema, query.narrow, both, _joined(query.needed, needed))
    scan, splits = share_out(files, pruning, max_bytes=options.max_split_bytes, kept=kept)
    return SplitReader(scan, query, arrow_for_spark(selected_schema(files, options))), splits


def _joined(one: Sequence[pa.Field], other: Sequence[pa.Field]) -> tuple[pa.Field, ...]:
    """Return the columns of both, with the fields of structs that either has."""
    fields: dict[str, pa.Field] = {}
    for field in (*one, *other):
        known = fields.setdefault(field.name, field)
        fields[field.name] = known.with_type(united(known.type, field.type))
    return tuple(fields.values())


def _typed(filters: list[Any], files: FileSet) -> list[Any]:
    """Convert values to the types of their columns: JSON has no dates, times or decimals."""
    return [
        [
            (column, operator, _value(value, _type_of(column, files)))
            for column, operator, value in all_of
        ]
        for all_of in filters
    ]


def _type_of(column: str, files: FileSet) -> pa.DataType:
    """Return the type of a column, or of a field of a struct."""
    path = files.columns.path(column) or (column,)
    return at_path(files.columns.field(path[0]), path).type


def _value(value: Any, type: pa.DataType) -> Any:
    if isinstance(value, list):
        return [_value(one, type) for one in value]
    if types.is_decimal(type) and isinstance(value, str | int | float):
        return decimal.Decimal(str(value))
    try:
        if types.is_uint64(type) and isinstance(value, int):
            return pa.scalar(value, type)
        if types.is_duration(type) and isinstance(value, int):
            return pa.scalar(value, pa.int64()).cast(type)
        if types.is_temporal(type) and isinstance(value, str):
            return pa.scalar(value).cast(type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError) as error:
        raise ValueError(f"filters: {value!r} is not a valid {type}: {error}") from None
    return value

"""Query: the columns and rows that a caller asks for, checked against a schema.

The same query is used for one file and for many. A schema tells which columns exist, and the
metadata of files tells which row groups can match.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field as dataclass_field, replace
from typing import Any, TypeAlias

import pyarrow as pa

from ..errors import SchemaMismatchError
from ..format.column_set import ColumnSet
from ..format.file_schema import FileSchema
from ..format.metadata import FileMetaData
from ..format.paths import Path, flat_leaves, united
from ..format.plain_arrays import narrowed
from ..format.user_schema import Attached
from ..memory import Memory
from ..schemas.widen import widened
from . import filters as filtering
from .rows import Rows, concatenated, picked, rows_without_columns, table_without_columns
from .selection import expanded

__all__ = ["Query", "fields_of"]

_Leaf: TypeAlias = tuple[Path, pa.DataType]
_Known: TypeAlias = tuple[FileSchema, tuple[pa.Field, ...]]


@dataclass(slots=True)  # a frozen one takes microseconds longer to make
class Query:
    """The columns and rows to read, and how to turn them into the result.

    The rows of the result are those that `rows` selects, of these the ones that match the filter,
    and of these the first `limit`.
    """

    schema: pa.Schema  # the columns to read: those wanted, and those that only the filter needs
    narrow: pa.Schema | None = None  # the columns wanted, if these are not all of `schema`
    expression: Any = None  # the filter, a pyarrow.compute.Expression
    needed: tuple[pa.Field, ...] = ()  # the columns of the filter, with the fields that it uses
    attached: Attached | None = None  # types and metadata to put on the result
    rows: Rows | None = None
    limit: int | None = None
    is_exact: bool = True  # otherwise the filter only skips row groups; the caller filters the rows
    _leaves: dict[_Known, tuple[dict[int, _Leaf], list[_Leaf]]] = dataclass_field(
        default_factory=dict, repr=False, compare=False
    )

    @classmethod
    def of(
        cls,
        table: ColumnSet,
        columns: Iterable[str] | None = None,
        filters: Any = None,
        *,
        attached: Attached | None = None,
        rows: Rows | None = None,
        limit: int | None = None,
    ) -> Query:
        """Check what a caller asks of a table.

        Parameters
        ----------
        table : ColumnSet
            The columns that exist.
        columns : iterable of str, optional
            Names, paths or globs of the columns wanted, in this order; by default all columns.
        filters : pyarrow.compute.Expression or list, optional
            Which rows are wanted, in any form that `pyarrow.parquet.read_table` accepts.
        attached : Attached, optional
            Types and metadata to put on the result.
        rows : Rows, optional
            Numbers of the rows to consider; by default all.
        limit : int, optional
            Maximum number of rows.
        """
        schema = table.to_arrow() if columns is None else table.select(expanded(columns, table))
        limit = None if limit is None else max(0, limit)
        if filters is None:
            return cls(schema, None, None, (), attached, rows, limit)
        expression = filtering.to_expression(filters, table.path)
        made = cls.filtered(schema, expression, fields_of(table, expression))
        made.attached, made.rows, made.limit = attached, rows, limit
        return made

    @classmethod
    def filtered(cls, schema: pa.Schema, expression: Any, needed: tuple[pa.Field, ...]) -> Query:
        """Return the query for columns of the rows that match an expression.

        `needed` are the columns that the expression refers to.
        """
        read = _united(schema, needed)
        return cls(read, None if read is schema else schema, expression, needed)

    @property
    def wanted(self) -> pa.Schema:
        """The columns wanted, with plain types."""
        return self.schema if self.narrow is None else self.narrow

    @property
    def result(self) -> pa.Schema:
        """The schema of the result."""
        return self.wanted if self.attached is None else self.attached.schema(self.wanted)

    # ---- which row groups

    def matching(self, groups: Sequence[Sequence[filtering.Statistics]]) -> list[int]:
        """Return the indices of the row groups that may contain a match, given their statistics."""
        if self.expression is None or not any(groups):
            return list(range(len(groups)))
        return filtering.matching(self.expression, groups, pa.schema(self.needed))

    def statistics(
        self,
        metadata: FileMetaData,
        columns: FileSchema,
        group: int,
        constants: Mapping[str, pa.Scalar] | None = None,
        needed: tuple[pa.Field, ...] | None = None,
    ) -> list[filtering.Statistics]:
        """Return what is known about the columns of the filter in one row group of a file.

        `columns` are those of the file, as the user sees them or as they are stored. `constants` are
        the values of columns that are the same in all rows of the file. `needed` are those columns of
        the filter to consider, by default all.
        """
        num_rows = metadata.rows_of(group)
        known: list[filtering.Statistics] = []
        fields = self.needed if needed is None else needed
        for field in fields:
            if constants is not None and field.name in constants:
                value = constants[field.name]
                known.append(filtering.constant((field.name,), field.type, value, num_rows))
        bounded, missing = self._leaves_in(columns, fields)
        for path, type in missing:
            if constants is None or path[0] not in constants:
                known.append(filtering.constant(path, type, pa.scalar(None, type), num_rows))
        for statistic in metadata.statistics(group, bounded) if bounded else ():
            path, type = bounded[statistic.position]
            try:
                bounds = [
                    bound if bound is None or bound.type == type else bound.cast(type)
                    for bound in columns.restored(statistic.position, *metadata.bounds(statistic))
                ]
            except pa.ArrowInvalid:  # e.g. a time outside the range of a finer unit
                continue
            known.append(filtering.Statistics(path, type, num_rows, statistic.null_count, *bounds))
        return known

    def _leaves_in(
        self, columns: FileSchema, fields: tuple[pa.Field, ...]
    ) -> tuple[dict[int, _Leaf], list[_Leaf]]:
        """Return the leaves of the filter whose bounds are useful, by position, and missing ones.

        Bounds of a file hold for the table as well if values keep their order when they are cast.
        """
        key = columns, fields
        if key not in self._leaves:
            bounded: dict[int, _Leaf] = {}
            missing: list[_Leaf] = []
            for field in fields:
                for path, leaf in flat_leaves(field):
                    found = columns.leaf(path)
                    if found is not None and widened(found[2].type, leaf.type) == leaf.type:
                        bounded[found[0]] = path, leaf.type
                    elif found is None and not columns.contains(path):
                        missing.append((path, leaf.type))
            self._leaves[key] = bounded, missing
        return self._leaves[key]

    # ---- what was read

    def finish(self, batches: Sequence[pa.RecordBatch], memory: Memory | None = None) -> pa.Table:
        """Return the rows of `batches` that match, with the columns wanted."""
        if self.expression is not None:
            batches = [self._matching(batch) for batch in batches]
        table = pa.Table.from_batches(batches, schema=self.wanted)
        return table if self.attached is None else self.attached.put_on(table, memory)

    def _matching(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch that match, with the columns wanted."""
        names = [field.name for field in self.needed]
        # First the columns of the filter alone: Arrow would filter these columns, too.
        mask = filtering.mask_of(batch.select(names), self.expression)
        if self.narrow is not None:
            batch = batch.select(self.narrow.names)
        count = mask.true_count
        if not batch.num_columns:
            return rows_without_columns(count)
        if count < batch.num_rows:
            batch = filtering.filter_batch(batch, mask)
        return batch if self.narrow is None else narrowed(batch, self.narrow)

    def finish_each(self, batches: Iterable[pa.RecordBatch], memory: Memory) -> pa.Table:
        """Return the rows that match, in the memory of one batch besides those of the result."""
        tables = [self.finish([])]
        last: pa.RecordBatch | None = None
        for batch in batches:
            if batch is not last:  # a batch of equal rows may come many times
                found, last = self.finish([batch]), batch
            if found.num_rows:
                memory.take(found.nbytes)
                tables.append(found)
        return concatenated(tables)

    def take(self, numbers: pa.Int64Array, read: Callable[[Query], pa.Table]) -> pa.Table:
        """Return rows by number, in the given order, of what `read` returns for other queries.

        There must not be a filter.
        """
        rows, places = picked(numbers)
        if places is None:
            return read(replace(self, rows=rows))
        if not len(self.wanted):
            read(replace(self, rows=rows))  # checks the numbers
            return table_without_columns(len(numbers))
        # Arrow takes rows of all plain types, but not of all types that users have.
        table = read(replace(self, rows=rows, attached=None)).take(places)
        return table if self.attached is None else self.attached.put_on(table)

    def accepts(self, sample: pa.RecordBatch, num_rows: int, memory: Memory | None = None) -> bool:
        """Return whether `num_rows` rows that are equal to those of `sample` are in the result.

        Raise MemoryLimitError if the result keeps them all in `memory`, which has no room for them.
        """
        if self.expression is None:
            return True
        found = self.finish([sample])
        if found.num_rows and memory is not None:
            memory.check(found.nbytes * num_rows // found.num_rows)
        return bool(found.num_rows)

    def finish_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of one batch that match, with the columns wanted."""
        if self.expression is not None and self.is_exact:
            batch = self._matching(batch)
        return batch if self.attached is None else self.attached.put_on(batch)


def fields_of(table: ColumnSet, expression: Any, *, is_filter: bool = True) -> tuple[pa.Field, ...]:
    """Return the columns of `table` that an expression refers to, with the fields that it uses."""
    conflicts: dict[str, SchemaMismatchError] = {}

    def field(name: str) -> pa.Field:
        try:
            return table.field(name)
        except SchemaMismatchError as error:  # the column may not be needed
            conflicts[name] = error
            return pa.field(name, pa.null())

    try:
        found = filtering.fields_of(
            expression, table.occurring, field, table.similar, is_filter=is_filter
        )
    except ValueError:
        if conflicts:
            raise next(iter(conflicts.values())) from None
        raise
    for one in found:
        if one.name in conflicts:
            raise conflicts[one.name]
    return found


def _united(schema: pa.Schema, needed: Sequence[pa.Field]) -> pa.Schema:
    """Return the columns of `schema` and those that are `needed`; `schema` if it has them all."""
    more: dict[int, pa.Field] = {}  # by index in the result
    for field in needed:
        index = schema.get_field_index(field.name)
        if index < 0:
            more[len(schema) + len(more)] = field
        elif (known := schema.field(index)).type != field.type:
            both = united(known.type, field.type)
            if both != known.type:
                more[index] = known.with_type(both)
    if not more:
        return schema
    kept = (more.pop(index, field) for index, field in enumerate(schema))
    return pa.schema([*kept, *more.values()])

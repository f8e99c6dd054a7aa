"""Query: the columns and rows that a caller asks for, checked against a schema.

The same query is used for one file and for many. A schema tells which columns exist, and the
metadata of files tells which row groups can match.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field as dataclass_field
from typing import Any

import pyarrow as pa

from ..errors import SchemaMismatchError
from ..format.metadata import FileMetaData
from ..format.schema import SchemaBlock
from ..format.user_schema import Attached
from ..memory import Memory
from ..schemas.union import DatasetSchema
from ..schemas.widen import widened
from . import filters as filtering
from .rows import Rows, concatenated, one_batch
from .selection import expanded

__all__ = ["Query", "columns_of"]


@dataclass(slots=True)  # a frozen one takes microseconds longer to make
class Query:
    """The columns and rows to read, and how to turn them into the result.

    The rows of the result are those that `rows` selects, of these the ones that match the filter,
    and of these the first `limit`.
    """

    schema: pa.Schema  # the columns to read: those wanted, then those that only the filter needs
    names: list[str] | None = None  # of the columns wanted, if these are not all of `schema`
    expression: Any = None  # the filter, a pyarrow.compute.Expression
    needed: tuple[pa.Field, ...] = ()  # the columns of the filter
    attached: Attached | None = None  # types and metadata to put on the result
    rows: Rows | None = None
    limit: int | None = None
    _bounded: dict[SchemaBlock, dict[int, pa.Field]] = dataclass_field(
        default_factory=dict, repr=False, compare=False
    )

    @classmethod
    def of(
        cls,
        table: DatasetSchema,
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
        table : DatasetSchema
            The columns that exist.
        columns : iterable of str, optional
            Names or globs of the columns wanted, in this order; by default all columns.
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
        expression = filtering.to_expression(filters)
        needed = tuple(map(table.field, columns_of(table, expression)))
        names = schema.names
        known = set(names)
        extra = [field for field in needed if field.name not in known]
        if not extra:
            return cls(schema, None, expression, needed, attached, rows, limit)
        schema = pa.schema([*schema, *extra])
        return cls(schema, names, expression, needed, attached, rows, limit)

    @property
    def wanted(self) -> pa.Schema:
        """The columns wanted, as they are stored."""
        if self.names is None:
            return self.schema
        return pa.schema([self.schema.field(name) for name in self.names])

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
        self, metadata: FileMetaData, group: int, constants: Mapping[str, pa.Scalar] | None = None
    ) -> list[filtering.Statistics]:
        """Return what is known about the columns of the filter in one row group of a file.

        `constants` are the values of columns that are the same in all rows of the file.
        """
        num_rows = metadata.rows_of(group)
        known: list[filtering.Statistics] = []
        for field in self.needed:
            if constants is not None and field.name in constants:
                known.append(filtering.constant(field, constants[field.name], num_rows))
            elif metadata.schema_block.find(field.name) < 0:
                known.append(filtering.constant(field, pa.scalar(None, field.type), num_rows))
        bounded = self._bounds_kept(metadata.schema_block)
        for statistic in metadata.statistics(group, bounded) if bounded else ():
            field = bounded[statistic.position]
            try:
                bounds = [
                    bound if bound is None or bound.type == field.type else bound.cast(field.type)
                    for bound in metadata.bounds(statistic)
                ]
            except pa.ArrowInvalid:  # e.g. a time outside the range of a finer unit
                continue
            known.append((field, num_rows, statistic.null_count, *bounds))
        return known

    def _bounds_kept(self, block: SchemaBlock) -> dict[int, pa.Field]:
        """Return the columns of the filter, by position, whose bounds hold for the table as well.

        These are the columns whose values keep their order when they are cast.
        """
        if block not in self._bounded:
            found = ((block.find(field.name), field) for field in self.needed)
            self._bounded[block] = {
                position: field
                for position, field in found
                if position >= 0 and widened(block.field(position).type, field.type) == field.type
            }
        return self._bounded[block]

    # ---- what was read

    def finish(self, batches: Sequence[pa.RecordBatch]) -> pa.Table:
        """Return the rows of `batches` that match, with the columns wanted."""
        table = pa.Table.from_batches(batches, schema=self.schema)
        if self.expression is not None:
            table = filtering.filter_table(table, self.expression)
            if self.names is not None:
                table = table.select(self.names)
        return table if self.attached is None else self.attached.put_on(table)

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
        if self.expression is not None:
            return one_batch(self.finish([batch]))
        return batch if self.attached is None else self.attached.put_on(batch)


def columns_of(table: DatasetSchema, expression: Any, *, is_filter: bool = True) -> list[str]:
    """Return the names of the columns of `table` that an expression refers to."""
    conflicts: list[SchemaMismatchError] = []

    def field(name: str) -> pa.Field:
        try:
            return table.field(name)
        except SchemaMismatchError as error:  # the column may not be needed
            conflicts.append(error)
            return pa.field(name, pa.null())

    try:
        return filtering.columns_of(
            expression, table.occurring, field, table.similar, is_filter=is_filter
        )
    except ValueError:
        if conflicts:
            raise conflicts[0] from None
        raise

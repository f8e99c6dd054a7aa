"""Rows for a table: check them against its columns, and write them as new base files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa

from ..dataset.fileset import FileSet
from ..dataset.open_files import WrittenFile
from ..dataset.snapshot import Snapshot
from ..dataset.version import BaseFile
from ..dataset.write import DEFAULT_MAX_BYTES_PER_FILE, DatasetWriter
from ..errors import SchemaMismatchError
from ..file.options import WriteOptions
from ..schemas.fit import Fits, plain_schema
from .changes import State
from .store import TableStore


@dataclass(frozen=True, slots=True)
class Fitting:
    """The columns that rows are stored with, and how to convert batches to them."""

    schema: pa.Schema
    fits: Fits | None


def fitting_of(schema: pa.Schema, files: FileSet, snapshot: Snapshot) -> Fitting:
    """Check the columns of data against those of the table."""
    known = files.schema
    extra = [name for name in schema.names if known.get_field_index(name) < 0]
    if extra:
        raise SchemaMismatchError(
            "the table does not contain this column; add it with add_columns first, or leave it out",
            file=snapshot.name,
            column=extra[0],
        )
    present = set(schema.names)
    for name in files.partitions.names:
        if name not in present:
            raise SchemaMismatchError(
                "the data lacks the partition column", file=snapshot.name, column=name
            )
    for field in known:
        if not field.nullable and field.name not in present:
            raise SchemaMismatchError(
                "the data lacks the column, which must not be null",
                file=snapshot.name,
                column=field.name,
            )
    fields = [field for field in known if field.name in present]
    target = pa.schema(fields, known.metadata)
    for field in fields:
        index = schema.get_field_index(field.name)
        if index < 0:
            raise SchemaMismatchError(
                "the data contains the column more than once", column=field.name
            )
    if schema.equals(target):
        return Fitting(target, None)
    return Fitting(target, Fits(plain_schema(target), advice=""))


@dataclass(frozen=True, slots=True)
class RowWriter:
    """Writes rows as new base files of a table. It can be sent to other processes.

    schema        the columns that the rows are stored with, and the partition columns
    digest        of the columns, without partition columns: their schema is in the store
    added         the version that the rows were prepared for
    partitioning  names of the columns that are directories
    options       arguments of `DatasetWriter`
    """

    store: TableStore
    schema: pa.Schema
    digest: str
    added: int
    partitioning: tuple[str, ...]
    options: Mapping[str, Any]

    @classmethod
    def of(
        cls,
        store: TableStore,
        schema: pa.Schema,
        known: set[str],
        added: int,
        partitioning: Sequence[str],
        **options: Any,
    ) -> RowWriter:
        """Store the schema of the files, unless its digest is `known`."""
        own = _without_keys(schema, partitioning)
        digest = store.put_schema(own, known, cast("WriteOptions", options))
        return cls(store, schema, digest, added, tuple(partitioning), options)

    def write(self, batches: Iterable[pa.RecordBatch], prefix: str | None = None) -> list[BaseFile]:
        """Write batches that have the schema; return the files, whose names begin with `prefix`.

        If this fails, no file is left. Without rows there is no file.
        """
        files = _write_files(
            self.store, self.schema, batches, self.partitioning, prefix=prefix, **self.options
        )
        return [
            BaseFile(one.path, one.num_bytes, one.num_rows, self.digest, self.added)
            for one in files
        ]


def write_rows(
    store: TableStore,
    state: State,
    fitting: Fitting,
    items: Iterator[Any],
    *,
    partitioning: Sequence[str],
    options: WriteOptions,
    max_rows_per_file: int | None = None,
    max_bytes_per_file: int | None = DEFAULT_MAX_BYTES_PER_FILE,
    added: int | None = None,
) -> list[BaseFile]:
    """Write rows as new base files; return them. If this fails, no file is left.

    `items` are tables and record batches. The files were added by a writer of the version `state`, or of the
    version `added`.
    """
    files = _write_files(
        store,
        fitting.schema,
        _batches(items, fitting.fits),
        partitioning,
        max_rows_per_file=max_rows_per_file,
        max_bytes_per_file=max_bytes_per_file,
        **options,
    )
    if not files:
        return []
    digest = store.put_schema(_without_keys(fitting.schema, partitioning), state.digests, options)
    number = state.number if added is None else added
    return [BaseFile(one.path, one.num_bytes, one.num_rows, digest, number) for one in files]


def _batches(items: Iterable[Any], fits: Fits | None) -> Iterator[pa.RecordBatch]:
    for item in items:
        for batch in item.to_batches() if isinstance(item, pa.Table) else [item]:
            yield from [batch] if fits is None else fits(batch)


def _write_files(
    store: TableStore,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    partitioning: Sequence[str],
    **options: Any,
) -> Sequence[WrittenFile]:
    with (
        store.new_files() as open_file,
        DatasetWriter(
            open_file, schema, partitioning=list(partitioning) or None, **options
        ) as writer,
    ):
        is_empty = True
        for batch in batches:
            is_empty &= not batch.num_rows
            writer.write_batch(batch)
        return () if is_empty else writer.finish()


def _without_keys(schema: pa.Schema, keys: Sequence[str]) -> pa.Schema:
    return pa.schema([field for field in schema if field.name not in keys], schema.metadata)

"""Create tables: new ones, or of the files that a directory contains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from ..dataset.discovery import discover
from ..dataset.fileset import FileSet
from ..dataset.found import Found
from ..dataset.hive_split import Splitter
from ..dataset.snapshot import Snapshot
from ..dataset.table_files import DatasetFile
from ..dataset.version import BaseFile, Version, checked_path
from ..errors import CorruptFileError
from ..file.batches import open_batches
from ..file.options import WriteOptions
from ..schemas.fit import plain_schema
from .changes import State
from .commit import first_version
from .rows import Fitting, write_rows
from .store import TableStore


def existing_files(store: TableStore) -> list[Found]:
    """Return the files that a directory contains, except those of a table that never was complete."""
    try:
        found = discover(store.path, store.filesystem)
    except FileNotFoundError:
        return []
    return [] if store.is_creating() else found  # files of a new table come after its mark


def adopt(
    store: TableStore,
    existing: Sequence[Found],
    data: Any,
    partitioning: str | Sequence[str] | None,
) -> Snapshot:
    """Make the files of a directory version 1."""
    if not existing:
        raise ValueError(
            f"{store.name} contains no files; pass a schema or data to make a new table"
        )
    if data is not None:
        raise FileExistsError(
            f"{store.name} contains files; make it a table without data, then append the data"
        )
    files = FileSet(existing)
    keys = tuple(files.partitions.names)
    given = (partitioning,) if isinstance(partitioning, str) else tuple(partitioning or keys)
    if given != keys:
        raise ValueError(f"the directories of {store.name} have the keys {list(keys)}")
    paths = [_path_in(store, file) for file in files.files]
    entries = []
    digests: dict[Any, str] = {}
    for path, file in zip(paths, files.files, strict=True):
        metadata = file.metadata
        key = metadata.schema_block, metadata.user_schema
        if key not in digests:
            options: WriteOptions = {
                "num_buckets": metadata.num_buckets,
                "compression": metadata.compression,
                "array_layout": metadata.schema_block.array_layout,
            }
            digests[key] = store.put_schema(metadata.schema, set(), options)
        entries.append(BaseFile(path, file.parts[0].size, metadata.num_rows, digests[key], 0))
    declared = store.put_schema(files.schema, set()) if keys else None
    version = first_version(
        summary={"files": len(entries), "rows": sum(one.rows for one in entries)},
        files=tuple(entries),
        schema=declared,
        partitioning=keys,
    )
    return _first(store, version)


def _path_in(store: TableStore, file: DatasetFile) -> str:
    """Return the path of a file inside the table; raise ValueError if a version cannot contain it."""
    try:
        return checked_path(file.found.path.removeprefix(store.path).lstrip("/"))
    except CorruptFileError as error:
        raise ValueError(
            f"{file.name}: this name cannot be that of a file of a table; rename the file"
        ) from error


def create_new(
    store: TableStore,
    data: Any,
    partitioning: str | Sequence[str] | None,
    options: WriteOptions,
) -> Snapshot:
    """Make a new table, with rows if there are any."""
    names = (partitioning,) if isinstance(partitioning, str) else tuple(partitioning or ())
    items: Iterator[Any] = iter(())
    if isinstance(data, pa.Schema):
        schema = data
    else:
        schema, items = open_batches(data)
    state = begin_new(store, schema, names)
    files = write_rows(
        store,
        state,
        Fitting(schema, None),
        items,
        partitioning=names,
        options=options,
        added=0,
    )
    return finish_new(store, state, files)


def begin_new(store: TableStore, schema: pa.Schema, partitioning: Sequence[str]) -> State:
    """Begin to make a new table: return the state for which to write its first rows.

    Nobody sees the table until `finish_new`, or ever if there is no such call.
    """
    check_columns(schema, partitioning)
    store.begin_creation()
    digest = store.put_schema(schema, set())
    empty = first_version(summary={}, files=(), schema=digest, partitioning=tuple(partitioning))
    return State(store.at(empty))


def check_columns(schema: pa.Schema, partitioning: Sequence[str]) -> None:
    """Raise if a table cannot have these columns, or not these partition columns."""
    if not len(schema):
        raise ValueError("a table must have a column")
    Splitter(plain_schema(schema), partitioning)


def finish_new(store: TableStore, state: State, files: Sequence[BaseFile]) -> Snapshot:
    """Make the first version of a new table, with its first rows."""
    version = first_version(
        summary={"files": len(files), "rows": sum(one.rows for one in files)},
        files=tuple(files),
        schema=state.version.schema,
        partitioning=state.version.partitioning,
    )
    snapshot = _first(store, version, files)
    store.end_creation()
    return snapshot


def _first(store: TableStore, version: Version, written: Sequence[BaseFile] = ()) -> Snapshot:
    store.settle(written, set())
    try:
        store.add(version)
    except FileExistsError:
        store.discard(one.path for one in written)
        raise FileExistsError(
            f"{store.name} is a table already: another process has made it at the same time"
        ) from None
    return store.at(version)

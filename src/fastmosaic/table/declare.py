"""Declare columns: those that a table has even if no file has them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa

from ..dataset.fileset import FileSet
from ..dataset.version import Version
from ..errors import ConflictError
from ..schemas.fit import plain_schema
from .changes import Change, State
from .columns import check_new

# `TableStore.put_schema`: stores columns unless their digest is known, and returns it.
PutSchema: TypeAlias = Callable[[pa.Schema, set[str]], str]


def columns_in_order(state: State, files: FileSet | None = None) -> pa.Schema:
    """Return all columns: those that the table was created with in that order, then the others.

    `files` are those of the version, if they are known.
    """
    schema = (FileSet(state.snapshot) if files is None else files).schema
    if state.version.schema is None:
        return schema
    declared = state.columns.schema_file(state.version.schema).columns.names()
    present = {one.name: one for one in schema}
    first = {name: present[name] for name in declared if name in present}
    return pa.schema(list((first | present).values()), schema.metadata)


def declaring(state: State, schema: pa.Schema, put: PutSchema) -> State:
    """Return the state with these columns declared, which are all that it has."""
    return state.replaced(schema=put(schema, state.digests), schema_added=state.number)


def check_declarable(fields: pa.Schema, files: FileSet) -> None:
    """Raise if columns cannot be added without values."""
    check_new(fields.names, files, replace=False)
    if len(set(fields.names)) < len(fields):
        raise ValueError("the schema contains a column twice")
    for one in fields:
        if not one.nullable:
            raise ValueError(
                f"column {one.name!r} must be nullable: it is null in all rows that there are"
            )
    plain_schema(fields)  # raises if a file cannot store a type


@dataclass
class DeclareColumns(Change):
    """Add columns that are null in all rows that there are, without touching a file."""

    operation = "add columns"
    fields: pa.Schema
    put: PutSchema
    summary: dict[str, Any] = field(default_factory=dict)

    def apply(self, read: State, now: State) -> Version | None:
        files = FileSet(now.snapshot)
        for name in self.fields.names:
            if files.columns.find(name) is not None:
                raise ConflictError(
                    "another writer has added the column; nothing was committed",
                    file=now.snapshot.name,
                    column=name,
                )
        known = columns_in_order(now, files)
        self.summary = {"columns": self.fields.names}
        schema = pa.schema([*known, *self.fields], known.metadata)
        return declaring(now, schema, self.put).version

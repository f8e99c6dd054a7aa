"""Schema metadata, field metadata and extension types, which the schema block cannot store.

They are stored as an Arrow IPC schema message with the metadata of the schema, and those fields
that have metadata or an extension type, themselves or inside a list or map. Except for extension
types, the type of a field is the one that the file stores.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeVar

import pyarrow as pa
from pyarrow import types as arrow_types

from ..errors import CorruptFileError, UnsupportedError
from .types import storage_type

# The key under which Arrow stores an extension type that is not registered.
_EXTENSION_NAME: Final = b"ARROW:extension:name"

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)


def encode(schema: pa.Schema) -> bytes | None:
    """Encode metadata and extension types of `schema`; return None if there are none."""
    fields = [_kept(field) for field in schema if _has_attached(field)]
    if not fields and not schema.metadata:
        return None
    message: pa.Buffer = pa.schema(fields, schema.metadata).serialize()
    return message.to_pybytes()


def decode(message: bytes) -> Attached:
    """Decode a message; extension types that are not registered are ignored."""
    try:
        given = pa.ipc.read_schema(pa.py_buffer(message))
        _check_names(given)
        return Attached(given)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptFileError(f"the metadata in the annex is damaged: {error}") from error


def _check_names(fields: Iterable[pa.Field]) -> None:
    """Raise UnicodeDecodeError if a name is not UTF-8: Arrow notices it only when asked for it."""
    for field in fields:
        str(field.name)
        _check_names(field.type.field(i) for i in range(field.type.num_fields))


class Attached:
    """Metadata and extension types, to be restored on what is read from a file."""

    __slots__ = ("given",)

    def __init__(self, given: pa.Schema) -> None:
        self.given = given  # only the fields that have metadata or an extension type

    def field(self, field: pa.Field) -> pa.Field:
        """Return a field of the file as the user passed it to the writer."""
        index = self.given.get_field_index(field.name)
        if index < 0:
            return field
        given = _kept(self.given.field(index))
        fits = _stored(given.type) == field.type
        return pa.field(
            field.name, given.type if fits else field.type, field.nullable, given.metadata
        )

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """Return `schema` as the user passed it to the writer."""
        if not self.given.names:
            return schema.with_metadata(self.given.metadata)
        return pa.schema(map(self.field, schema), self.given.metadata)

    def put_on(self, rows: Rows) -> Rows:
        """Return rows of the file with the types and metadata that the user passed."""
        if not rows.num_columns and rows.num_rows:
            return rows  # Arrow would lose the number of rows
        if not self.given.names:
            return rows.replace_schema_metadata(self.given.metadata)
        schema = self.schema(rows.schema)
        columns = [
            _as_type(column, field) for column, field in zip(rows.columns, schema, strict=True)
        ]
        made: Rows = type(rows).from_arrays(columns, schema=schema)
        return made


def agreed(messages: Iterable[bytes | None]) -> Attached | None:
    """Return what all files of a dataset agree on, with the schema metadata of the first file."""
    first, *others = dict.fromkeys(messages)
    if not others:
        return None if first is None else decode(first)
    metadata = None if first is None else decode(first).given.metadata
    if None in (first, *others):
        return None if metadata is None else Attached(pa.schema([], metadata))
    schemas = [decode(message).given for message in (first, *others) if message is not None]
    fields = [
        field
        for field in schemas[0]
        if all(
            (index := other.get_field_index(field.name)) >= 0
            and other.field(index).equals(field, check_metadata=True)
            for other in schemas[1:]
        )
    ]
    return Attached(pa.schema(fields, metadata))


def _as_type(column: Any, field: pa.Field) -> Any:
    if column.type == field.type:
        return column
    try:
        return column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise CorruptFileError(
            f"the values do not fit {field.type}: {error}", column=field.name
        ) from error


def _has_attached(field: pa.Field) -> bool:
    return (
        bool(field.metadata)
        or isinstance(field.type, pa.BaseExtensionType)
        or any(map(_has_attached, _inside(field.type)))
    )


def _inside(arrow: pa.DataType) -> list[pa.Field]:
    if arrow_types.is_map(arrow):
        return [arrow.key_field, arrow.item_field]
    return [arrow.value_field] if hasattr(arrow, "value_field") else []


def _kept(field: pa.Field) -> pa.Field:
    """Return the field with its stored type, except for extension types."""
    if isinstance(field.type, pa.BaseExtensionType) or _EXTENSION_NAME in (field.metadata or {}):
        return field
    if arrow_types.is_map(field.type):
        return field.with_type(pa.map_(_kept(field.type.key_field), _kept(field.type.item_field)))
    if hasattr(field.type, "value_field"):
        return field.with_type(pa.list_(_kept(field.type.value_field)))
    stored = _stored(field.type)
    return field if stored is None else field.with_type(stored)


def _stored(arrow: pa.DataType) -> pa.DataType | None:
    try:
        return storage_type(arrow)
    except UnsupportedError:
        return None

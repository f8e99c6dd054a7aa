"""Types and values at the leaves of columns: inside structs, lists and maps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa
from pyarrow import types

from ..format.paths import Path
from ..format.plain_arrays import list_type
from ..format.types import is_list

Change = Callable[[Path, pa.DataType], pa.DataType]


def changed(type: pa.DataType, change: Change, path: Path = ()) -> pa.DataType:
    """Return a type with other types inside: what `change` returns for their paths.

    A type that `change` returns as it is may have others inside that change. Paths are those of
    `format.paths`: a list has no name, and a map has `key` and `value`.
    """
    new = change(path, type)
    if new != type:
        return new
    if types.is_struct(type):
        return pa.struct([_changed(field, change, (*path, field.name)) for field in type])
    if types.is_map(type):
        key = _changed(type.key_field, change, (*path, "key"))
        item = _changed(type.item_field, change, (*path, "value"))
        return pa.map_(key, item, type.keys_sorted)
    if is_list(type):
        return list_type(type, _changed(type.value_field, change, path))
    return type


def _changed(field: pa.Field, change: Change, path: Path) -> pa.Field:
    return field.with_type(changed(field.type, change, path))


def leaf_values(column: pa.ChunkedArray, path: Path = ()) -> Iterator[tuple[Path, pa.ChunkedArray]]:
    """Yield the values at the leaves of structs and lists, without those of other leaves."""
    if types.is_struct(column.type):
        for field, child in zip(column.type, column.flatten(), strict=True):
            yield from leaf_values(child, (*path, field.name))
    elif types.is_list(column.type):
        chunks = [chunk.flatten() for chunk in column.chunks]
        yield from leaf_values(pa.chunked_array(chunks, column.type.value_type), path)
    else:
        yield path, column


def retyped(
    schema: pa.Schema, given: Mapping[Path, pa.DataType], *, leaves: bool = False
) -> pa.Schema:
    """Return a schema in which the columns or fields at the given paths have other types.

    With `leaves`, these are the types of leaves: of the elements if there is a list at the path.
    """
    columns = {path[0] for path in given}

    def change(path: Path, type: pa.DataType) -> pa.DataType:
        return type if leaves and types.is_nested(type) else given.get(path, type)

    fields = (
        _changed(field, change, (field.name,)) if field.name in columns else field
        for field in schema
    )
    return pa.schema(fields, schema.metadata)

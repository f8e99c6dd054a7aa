"""Leaves of columns: a struct counts as its fields, and a list of structs as a list for each field."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyarrow import types

from ..format.plain_arrays import list_type
from ..format.types import is_list, is_simple


def fields_of(type: pa.DataType) -> list[pa.Field]:
    """Return the fields of the structs in a type, or key and value of a map that contains some.

    >>> [field.name for field in fields_of(pa.list_(pa.struct([("x", pa.int8())])))]
    ['x']
    """
    if is_simple(type):  # as most of ten thousand columns
        return []
    if isinstance(type, pa.BaseExtensionType):
        return fields_of(type.storage_type)
    if types.is_struct(type):
        return list(type)
    if types.is_map(type):
        pair = [type.key_field.with_name("key"), type.item_field.with_name("value")]
        return pair if any(fields_of(one.type) for one in pair) else []
    if is_list(type) or types.is_dictionary(type) or types.is_run_end_encoded(type):
        return fields_of(type.value_type)
    return []


def leaf_schema(schema: pa.Schema) -> pa.Schema:
    """Return the leaves of all columns, named by their paths; `schema` if these are its columns.

    >>> leaf_schema(pa.schema([("items", pa.list_(pa.struct([("x", pa.int8())])))]))
    items.x: list<item: int8>
      child 0, item: int8
    """
    if not any(fields_of(type) for type in schema.types):
        return schema
    return pa.schema([leaf for field in schema for leaf in _leaves(field, field.name)])


def _leaves(field: pa.Field, path: str) -> Iterator[pa.Field]:
    type = field.type
    fields = fields_of(type)
    if not fields:
        yield field.with_name(path).remove_metadata()
    elif isinstance(type, pa.BaseExtensionType):
        yield from _leaves(field.with_type(type.storage_type), path)
    elif types.is_dictionary(type) or types.is_run_end_encoded(type):
        yield from _leaves(field.with_type(type.value_type), path)
    elif is_list(type):
        element = type.value_field
        for leaf in _leaves(element, path):
            yield leaf.with_type(list_type(type, leaf.with_name(element.name)))
    else:
        for child in fields:
            for leaf in _leaves(child, f"{path}.{child.name}"):
                yield leaf.with_type(pa.list_(leaf.type)) if types.is_map(type) else leaf


def leaf_columns(column: pa.ChunkedArray) -> Iterator[pa.ChunkedArray]:
    """Yield the values of the leaves of a column of a plain type.

    A leaf inside a list or map has the list or map itself, which is null in the same rows.
    """
    if is_simple(column.type):
        yield column
    elif types.is_struct(column.type) and len(column.type):
        for child in column.flatten():
            yield from leaf_columns(child)
    else:
        for _ in _leaves(pa.field("", column.type), ""):
            yield column

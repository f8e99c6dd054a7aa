"""Arrays of any Arrow type as arrays of plain types, and the parts that nested arrays are made of.

Users have values in dictionaries, views, large or fixed-size lists and extension types. A file has
none of these: `to_plain` converts to the types of `types.plain_type`. It walks through lists, maps and
structs itself, because Arrow's casts do not support all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import pyarrow as pa
from pyarrow import types

from .types import is_list, is_view, plain_type

OFFSET: Final = pa.int32()


def to_plain(array: pa.Array, plain: pa.DataType) -> pa.Array:
    """Convert an array of any type to a plain type.

    Fields of structs are matched by name, and fields that the array lacks are null. Raise
    `pa.ArrowInvalid` or `pa.ArrowNotImplementedError` if a value does not fit.
    """
    if array.type == plain:
        return array
    if isinstance(array.type, pa.BaseExtensionType):
        return to_plain(array.storage, plain)
    if types.is_dictionary(array.type):
        return to_plain(_decoded(array), plain)
    if types.is_run_end_encoded(array.type):
        return to_plain(_expanded(array), plain)
    if types.is_null(array.type):
        return pa.nulls(len(array), plain)
    if types.is_struct(array.type) and types.is_struct(plain):
        return _struct_to_plain(array, plain)
    if types.is_map(array.type) and types.is_map(plain):
        parts = list_parts(array)
        keys, items = parts.elements.flatten()
        inner = [to_plain(keys, plain.key_type), to_plain(items, plain.item_type)]
        return map_of(plain, parts, inner)
    if is_list(array.type) and types.is_list(plain):
        parts = list_parts(array)
        return list_of(plain, parts, to_plain(parts.elements, plain.value_type))
    return array.cast(plain)


def narrowed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the columns of `schema`, which may have fewer fields in their structs."""
    columns = [to_plain(batch.column(field.name), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _struct_to_plain(array: pa.Array, plain: pa.DataType) -> pa.Array:
    given = {field.name: index for index, field in enumerate(array.type)}
    children = array.flatten()
    inner = [
        to_plain(children[given[field.name]], field.type)
        if field.name in given
        else pa.nulls(len(array), field.type)
        for field in plain
    ]
    return struct_of(plain, len(array), array.is_valid() if array.null_count else None, inner)


def _decoded(array: pa.Array) -> pa.Array:
    """Return the values of a dictionary array."""
    values = array.dictionary
    if not types.is_primitive(values.type) and not types.is_string(values.type):
        # Arrow does not decode dictionaries of views, structs and others.
        return to_plain(values, plain_type(values.type)).take(array.indices)
    return pa.DictionaryArray.from_arrays(array.indices, values).dictionary_decode()


def _expanded(array: pa.Array) -> pa.Array:
    """Return the values of a run-end encoded array, one for each row."""
    import pyarrow.compute as pc

    values = array.values
    if types.is_primitive(values.type):
        return pc.run_end_decode(array)
    numbers = pa.array(range(len(values)), pa.int64())
    runs = pa.RunEndEncodedArray.from_buffers(
        pa.run_end_encoded(array.type.run_end_type, pa.int64()),
        len(array),
        [None],
        0,
        array.offset,
        [array.run_ends, numbers],
    )
    return to_plain(values, plain_type(values.type)).take(pc.run_end_decode(runs))


class ListParts(NamedTuple):
    """The parts of a list or map array.

    validity  the bitmap of the lists that are not null; None if no list is null
    offsets   of 32 bits each; the first one is 0
    elements  of all lists; those of a map are structs of a key and a value
    """

    length: int
    validity: pa.Buffer | None
    offsets: pa.Buffer
    elements: pa.Array


def list_parts(array: pa.Array) -> ListParts:
    """Take a list or map array apart, without copying if possible."""
    if types.is_map(array.type):
        array = map_as_list(array)
    if types.is_list(array.type) and array.offset == 0 and len(array):
        offsets = array.buffers()[1]
        ends = pa.Array.from_buffers(OFFSET, len(array) + 1, [None, offsets])
        if ends[0].as_py() == 0 and ends[-1].as_py() == len(array.values):
            return ListParts(len(array), validity_of(array), offsets, array.values)
    import pyarrow.compute as pc

    lengths = pc.fill_null(pc.list_value_length(array), 0).cast(pa.int64())
    ends = pa.concat_arrays([pa.array([0], OFFSET), pc.cumulative_sum(lengths).cast(OFFSET)])
    offsets = ends.buffers()[1]
    return ListParts(len(array), validity_of(array), offsets, _flattened(array, ends[-1].as_py()))


def _flattened(array: pa.Array, count: int) -> pa.Array:
    """Return the `count` elements of all lists that are not null."""
    if not count:
        return array.values[:0]  # Arrow cannot flatten lists of some types without elements
    if types.is_list(array.type) or types.is_large_list(array.type):
        first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
        if last - first == count:
            return array.values[first:last]
    if has_dictionary(array.type.value_type):
        # Arrow cannot concatenate dictionaries that contain NaN, or returns other values.
        values = to_plain(array.values, plain_type(array.type.value_type))
        kind = list_type(array.type, pa.field("item", values.type))
        num_buffers = 1 if types.is_fixed_size_list(kind) else 3 if is_view(kind) else 2
        buffers = array.buffers()[:num_buffers]
        array = pa.Array.from_buffers(kind, len(array), buffers, -1, array.offset, [values])
    return array.flatten()


def has_dictionary(arrow: pa.DataType) -> bool:
    if isinstance(arrow, pa.BaseExtensionType):
        return has_dictionary(arrow.storage_type)
    inner = [arrow.field(number).type for number in range(arrow.num_fields)]
    return types.is_dictionary(arrow) or any(map(has_dictionary, inner))


def list_type(like: pa.DataType, element: pa.Field) -> pa.DataType:
    """Return a list type of the same kind with other elements."""
    if types.is_fixed_size_list(like):
        return pa.list_(element, like.list_size)
    for is_kind, make in (
        (types.is_large_list, pa.large_list),
        (types.is_list_view, pa.list_view),
        (types.is_large_list_view, pa.large_list_view),
    ):
        if is_kind(like):
            return make(element)
    return pa.list_(element)


def map_as_list(array: pa.Array) -> pa.Array:
    """Return a map array as a list of entries, because Arrow's list functions reject maps."""
    entries = pa.StructArray.from_arrays([array.keys, array.items], ["key", "value"])
    validity, offsets = array.buffers()[:2]
    return pa.Array.from_buffers(
        pa.list_(entries.type),
        len(array),
        [validity, offsets],
        array.null_count,
        array.offset,
        [entries],
    )


def validity_of(array: pa.Array) -> pa.Buffer | None:
    """Return the validity bitmap of an array, which begins with its first row."""
    if not array.null_count:
        return None
    return array.buffers()[0] if array.offset == 0 else array.is_valid().buffers()[1]


def list_of(arrow: pa.DataType, parts: ListParts, elements: pa.Array) -> pa.Array:
    """Return a list array with the lists of `parts` and other elements."""
    buffers = [parts.validity, parts.offsets]
    return pa.Array.from_buffers(arrow, parts.length, buffers, -1, 0, [elements])


def map_of(arrow: pa.DataType, parts: ListParts, inner: Sequence[pa.Array]) -> pa.Array:
    """Return a map array with the lists of `parts`, and other keys and values."""
    fields = [arrow.key_field, arrow.item_field]
    return list_of(arrow, parts, struct_of(pa.struct(fields), len(inner[0]), None, inner))


def struct_of(
    arrow: pa.DataType, length: int, valid: pa.Array | None, children: Iterable[pa.Array]
) -> pa.Array:
    """Return a struct array, whose rows are null where `valid` is false."""
    validity = None if valid is None else valid.buffers()[1]
    inner = [
        child if field.nullable or not child.null_count else _required(child, valid)
        for field, child in zip(arrow, children, strict=True)
    ]
    return pa.Array.from_buffers(arrow, length, [validity], -1, 0, inner)


def _required(array: pa.Array, valid: pa.Array | None) -> pa.Array:
    """Return a field that is declared not null without nulls, if it has none where `valid` is true.

    Parquet's writer rejects nulls in such a field even where the struct around it is null.
    """
    import pyarrow.compute as pc

    if valid is None or pc.and_(array.is_null(), valid).true_count:
        return array  # whoever checks for nulls shall find them
    return _without_validity(array)


def _without_validity(array: pa.Array) -> pa.Array:
    arrow = array.type
    if isinstance(arrow, pa.BaseExtensionType):
        return arrow.wrap_array(_without_validity(array.storage))
    if types.is_dictionary(arrow):
        indices = _without_validity(array.indices)
        return pa.DictionaryArray.from_arrays(indices, array.dictionary, ordered=arrow.ordered)
    if types.is_struct(arrow):
        return struct_of(arrow, len(array), None, [array.field(i) for i in range(len(arrow))])
    if types.is_map(arrow):
        parts = list_parts(array)._replace(validity=None)
        return map_of(arrow, parts, parts.elements.flatten())
    if types.is_run_end_encoded(arrow) or types.is_null(arrow):
        return array  # they have none
    count = _BUFFERS.get(arrow.id)
    buffers, children = array.buffers()[1:count], None if count is None else [array.values]
    return pa.Array.from_buffers(arrow, len(array), [None, *buffers], 0, array.offset, children)


# How many buffers the arrays of lists have themselves.
_BUFFERS: Final = {
    pa.list_(pa.null()).id: 2,
    pa.large_list(pa.null()).id: 2,
    pa.list_(pa.null(), 1).id: 1,
    pa.list_view(pa.null()).id: 3,
    pa.large_list_view(pa.null()).id: 3,
}

"""Arrays of plain types as arrays of the types that the user had: the inverse of `to_plain`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import pyarrow as pa
from pyarrow import types

from ..memory import Memory
from .distinct_values import bits, can_hash, distinct, numbered
from .fixed_sizes import check_lengths
from .plain_arrays import (
    OFFSET,
    has_dictionary,
    list_of,
    list_parts,
    map_of,
    struct_of,
    validity_of,
)
from .types import is_list

_GAP_BYTES: Final = 8  # for each element of fixed-size lists, while their gaps are filled


class Dictionaries(Protocol):
    """The values of dictionaries in a file, in the order in which the user had them."""

    def find(self, path: tuple[str, ...]) -> pa.Array | None:
        """Return the values of the dictionary at `path`: a column, and the fields inside it."""

    def fitted(self, type: pa.DataType, path: tuple[str, ...]) -> pa.DataType:
        """Return the type of the dictionary at `path`, if the user had it as `type`."""


def to_user(
    array: pa.Array,
    user: pa.DataType,
    path: tuple[str, ...],
    dictionaries: Dictionaries | None,
    memory: Memory,
) -> pa.Array:
    """Convert an array of a plain type to the type that the user had.

    `path` is where the array is, for its dictionary. Raise `pa.ArrowInvalid` if a value does not
    fit, and `MemoryLimitError` if fixed-size lists take more than `memory` has.
    """
    if array.type == user:
        return array
    if isinstance(user, pa.BaseExtensionType):
        storage = to_user(array, user.storage_type, path, dictionaries, memory)
        return user.wrap_array(storage)
    if types.is_dictionary(user):
        return _as_dictionary(array, user, path, dictionaries, memory)
    if types.is_run_end_encoded(user):
        import pyarrow.compute as pc

        values = to_user(array, user.value_type, path, dictionaries, memory)
        return pc.run_end_encode(values, run_end_type=user.run_end_type)
    if types.is_null(user):
        if array.null_count < len(array):
            raise pa.ArrowInvalid("a column of type null contains values")
        return pa.nulls(len(array))

    def inside(child: pa.Array, field: pa.Field) -> pa.Array:
        return to_user(child, field.type, (*path, field.name), dictionaries, memory)

    if types.is_struct(user):
        children = [
            inside(child, field) for child, field in zip(array.flatten(), user, strict=True)
        ]
        return struct_of(user, len(array), array.is_valid() if array.null_count else None, children)
    if types.is_map(user):
        parts = list_parts(array)
        keys, items = parts.elements.flatten()
        inner = [inside(keys, user.key_field), inside(items, user.item_field)]
        return map_of(user, parts, inner)
    if is_list(user):
        return _as_list(array, user, inside, memory)
    made = array.cast(user)
    if types.is_float16(user) and not bits(made.cast(array.type)).equals(bits(array)):
        raise pa.ArrowInvalid("there are values that need more than 16 bits")
    return made


def _as_list(
    array: pa.Array,
    user: pa.DataType,
    inside: Callable[[pa.Array, pa.Field], pa.Array],
    memory: Memory,
) -> pa.Array:
    """Convert a list array to a list of another kind."""
    import pyarrow.compute as pc

    field = user.value_field
    if types.is_fixed_size_list(user):
        size = user.list_size
        check_lengths(array, size)
        elements = array.flatten()
        if array.null_count and size:
            # A list that is null has elements, too, however few bytes the file has for it.
            width = max(1, _width(array.type.value_type))
            memory.check(len(array) * (size * (width + _GAP_BYTES) + _GAP_BYTES))
            memory.take(array.null_count * size * width)
            elements = _with_gaps(array, elements, size)
            if has_dictionary(field.type) and not types.is_nested(elements.type):
                # Arrow has filled gaps with zeros, which are not in the dictionary.
                own = pa.repeat(pa.scalar(True), (len(array) - array.null_count) * size)
                none = pa.scalar(None, elements.type)
                elements = pc.if_else(_with_gaps(array, own, size), elements, none)
        inner = inside(elements, field)
        return pa.Array.from_buffers(user, len(array), [validity_of(array)], -1, 0, [inner])
    parts = list_parts(array)
    inner = inside(parts.elements, field)
    if types.is_list(user):
        return list_of(user, parts, inner)
    starts = pa.Array.from_buffers(OFFSET, len(array) + 1, [None, parts.offsets])
    mask = array.is_null() if array.null_count else None
    if types.is_large_list(user):
        return pa.LargeListArray.from_arrays(starts.cast(pa.int64()), inner, type=user, mask=mask)
    wide = pa.int64() if types.is_large_list_view(user) else OFFSET
    starts = starts.cast(wide)
    sizes = pc.subtract(starts[1:], starts[:-1])
    kind = pa.LargeListViewArray if types.is_large_list_view(user) else pa.ListViewArray
    return kind.from_arrays(starts[:-1], sizes, inner, type=user, mask=mask)


def _with_gaps(array: pa.Array, elements: pa.Array, size: int) -> pa.Array:
    """Return the elements of lists of one size, with others in place of lists that are null."""
    import pyarrow.compute as pc

    fixed = pa.list_(elements.type, size)
    lists = pa.Array.from_buffers(fixed, len(elements) // size, [None], 0, 0, [elements])
    ranks = pc.cumulative_sum(pc.cast(array.is_valid(), pa.int64()))  # among valid lists, from 1
    none = pa.scalar(None, pa.int64())
    return lists.take(pc.if_else(array.is_valid(), pc.subtract(ranks, 1), none)).values


def _width(arrow: pa.DataType) -> int:
    """Return the bytes of a value in Arrow's buffers, or a guess where they vary."""
    try:
        return int(arrow.bit_width) // 8
    except ValueError:
        return 4


def _as_dictionary(
    array: pa.Array,
    user: pa.DataType,
    path: tuple[str, ...],
    dictionaries: Dictionaries | None,
    memory: Memory,
) -> pa.Array:
    """Encode values by the dictionary that the user had; others are appended to it."""
    import pyarrow.compute as pc

    known = None if dictionaries is None else dictionaries.find(path)
    if known is None or known.type != array.type:
        known = pa.nulls(0, array.type)
    if not can_hash(array.type):
        values, indices = numbered(array, known)
    else:
        indices = pc.index_in(bits(array), value_set=bits(known), skip_nulls=True)
        values = known
        if indices.null_count > array.null_count:
            more = distinct(array.filter(pc.and_(indices.is_null(), array.is_valid())))
            values = pa.concat_arrays([known, more])
            indices = pc.index_in(bits(array), value_set=bits(values), skip_nulls=True)
    return pa.DictionaryArray.from_arrays(
        indices.cast(user.index_type),
        to_user(values, user.value_type, path, None, memory),
        ordered=user.ordered,
    )

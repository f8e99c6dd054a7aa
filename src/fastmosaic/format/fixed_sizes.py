"""Lists of a fixed size, which take memory for lists that are null.

A file stores them as lists of any size, in which a null takes no space. So a small file can have rows
that take any amount of memory with the type of the user.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyarrow import types

from .plain_arrays import list_parts, list_type

_PORTION_ELEMENTS: Final = 8 << 20  # of fixed-size lists that are converted at a time


def portions(batch: pa.RecordBatch, user: pa.Schema, step: int = 1) -> Iterator[pa.RecordBatch]:
    """Yield parts of a batch whose columns fit into memory with the types of `user`.

    A null list of a fixed size has elements that take memory, but no space in a file. The parts
    have a multiple of `step` rows.
    """
    elements = sum(map(_fixed_elements, user.types))
    if not elements:
        yield batch
        return
    num_rows = max(step, _PORTION_ELEMENTS // elements // step * step)
    for start in range(0, batch.num_rows, num_rows):
        yield batch.slice(start, num_rows)


def without_sizes(user: pa.DataType) -> pa.DataType:
    """Return a type in which lists of a fixed size are lists of any size.

    Values that fit this type, and have the sizes that `check_sizes` checks, fit `user`.
    """
    if not _fixed_elements(user):
        return user
    if isinstance(user, pa.BaseExtensionType):
        return without_sizes(user.storage_type)
    if types.is_dictionary(user):
        return pa.dictionary(user.index_type, without_sizes(user.value_type), user.ordered)
    if types.is_run_end_encoded(user):
        return pa.run_end_encoded(user.run_end_type, without_sizes(user.value_type))

    def inside(field: pa.Field) -> pa.Field:
        return field.with_type(without_sizes(field.type))

    if types.is_struct(user):
        return pa.struct([inside(field) for field in user])
    if types.is_map(user):
        return pa.map_(inside(user.key_field), inside(user.item_field), user.keys_sorted)
    kind = pa.list_(pa.null()) if types.is_fixed_size_list(user) else user
    return list_type(kind, inside(user.value_field))


def check_sizes(array: pa.Array, user: pa.DataType) -> None:
    """Raise `pa.ArrowInvalid` if lists in an array of a plain type have other sizes than in `user`."""
    if not _fixed_elements(user):
        return
    if isinstance(user, pa.BaseExtensionType):
        check_sizes(array, user.storage_type)
    elif types.is_dictionary(user) or types.is_run_end_encoded(user):
        check_sizes(array, user.value_type)
    elif types.is_struct(user):
        for child, field in zip(array.flatten(), user, strict=True):
            check_sizes(child, field.type)
    elif types.is_map(user):
        for child, field in zip(
            list_parts(array).elements.flatten(), (user.key_field, user.item_field), strict=True
        ):
            check_sizes(child, field.type)
    else:
        if types.is_fixed_size_list(user):
            check_lengths(array, user.list_size)
        check_sizes(list_parts(array).elements, user.value_type)


def _fixed_elements(arrow: pa.DataType) -> int:
    """Return how many elements lists of a fixed size have in a row."""
    if isinstance(arrow, pa.BaseExtensionType):
        return _fixed_elements(arrow.storage_type)
    if types.is_dictionary(arrow):
        return _fixed_elements(arrow.value_type)
    inside = sum(_fixed_elements(arrow.field(i).type) for i in range(arrow.num_fields))
    if types.is_fixed_size_list(arrow):
        return max(1, int(arrow.list_size)) * max(1, inside)
    return inside


def check_lengths(array: pa.Array, size: int) -> None:
    import pyarrow.compute as pc

    if pc.any(pc.not_equal(array.value_lengths(), size)).as_py():
        raise pa.ArrowInvalid(f"there are lists that do not have {size} elements")

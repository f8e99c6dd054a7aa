"""Distinct values of arrays of plain types, by all of their bits, for dictionaries.

Arrow itself considers all NaN to be equal, and cannot hash lists, maps and structs.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyarrow import types

from .plain_arrays import OFFSET, list_parts

_NUMBERED_ROWS: Final = 1 << 18  # nested values that are looked up at a time


def distinct(values: pa.Array) -> pa.Array:
    """Return the distinct values of an array of a plain type, without null, in order."""
    import pyarrow.compute as pc

    if can_hash(values.type):
        return pc.unique(bits(values.drop_null())).view(values.type)
    return numbered(values, values[:0])[0]


def is_subsequence(part: pa.Array, whole: pa.Array) -> bool:
    """Return whether distinct values are all among those of `whole`, in the same order."""
    import pyarrow.compute as pc

    if can_hash(part.type):
        numbers = pc.index_in(bits(part), value_set=bits(whole))
    else:
        numbers = numbered(part, whole)[1]
    if numbers.null_count or pc.any(pc.greater_equal(numbers, len(whole))).as_py():
        return False
    return bool(pc.all(pc.greater(numbers[1:], numbers[:-1])).as_py() is not False)


def is_distinct(values: pa.Array) -> bool:
    """Return whether all values of an array of a plain type differ from each other and from null."""
    return not values.null_count and len(distinct(values)) == len(values)


def can_hash(arrow: pa.DataType) -> bool:
    return not types.is_nested(arrow)


def bits(array: pa.Array) -> pa.Array:
    """Return scalars in a type in which Arrow compares all of their bits.

    Arrow considers all NaN to be equal.
    """
    arrow = array.type
    if types.is_decimal(arrow) or types.is_interval(arrow):
        return array.view(pa.binary(arrow.bit_width // 8))
    if types.is_floating(arrow) or types.is_temporal(arrow):
        return array.view(pa.int32() if arrow.bit_width == 32 else pa.int64())
    return array


def numbered(array: pa.Array, known: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return distinct values, the known ones first, and the number of each value among them."""
    parts = []
    for start in range(0, max(1, len(array)), _NUMBERED_ROWS):
        known, numbers = _numbered_part(array.slice(start, _NUMBERED_ROWS), known)
        parts.append(numbers)
    return known, pa.concat_arrays(parts)


def _numbered_part(array: pa.Array, known: pa.Array) -> tuple[pa.Array, pa.Array]:
    import pyarrow.compute as pc

    together = pa.concat_arrays([known, array])
    none = pa.scalar(None, pa.int32())
    found = pc.if_else(together.is_valid(), _codes(together), none).dictionary_encode()
    places = pa.arange(0, len(together))
    groups = pa.table({"number": found.indices, "place": places}).filter(pc.field("number") >= 0)
    first = groups.group_by("number").aggregate([("place", "min")]).sort_by("number")
    return together.take(first["place_min"].combine_chunks()), found.indices[len(known) :]


def _codes(array: pa.Array) -> pa.Array:
    """Return numbers that are equal where values have the same bits, or are both null."""
    import pyarrow.compute as pc

    if types.is_struct(array.type):
        codes = pc.cast(array.is_valid(), pa.int32())
        for child in array.flatten():
            inside = _codes(child)
            count = pa.scalar((pc.max(inside).as_py() or 0) + 1, pa.int64())
            pairs = pc.add(pc.multiply(codes.cast(pa.int64()), count), inside.cast(pa.int64()))
            codes = pairs.dictionary_encode().indices
        return codes
    if types.is_nested(array.type):
        # The numbers of its elements tell a list from others, as the letters of a text do.
        parts = list_parts(array)
        ends = pa.Array.from_buffers(OFFSET, parts.length + 1, [None, parts.offsets])
        offsets = pc.multiply(ends.cast(pa.int64()), pa.scalar(4, pa.int64())).buffers()[1]
        letters = _codes(parts.elements).buffers()[1]
        buffers = [parts.validity, offsets, letters]
        array = pa.Array.from_buffers(pa.large_binary(), parts.length, buffers)
    return bits(array).dictionary_encode(null_encoding="encode").indices

"""How many different values a column has: a sketch of it that is small and can be merged.

A sketch is the smallest hashes of the values, sorted. While they are fewer than its size, they are
all there are; then the largest of them tells how thick they lie. The error of that is about one by
the square root of the size: a sixteenth for 256 hashes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from pyarrow import types

_WORD: Final = pa.uint64()
_NAN: Final = 0x7FF8_0000_0000_0000
_MIX: Final = ((30, 0xBF58_476D_1CE4_E5B9), (27, 0x94D0_49BB_1331_11EB), (31, 1))

EMPTY: Final = pa.nulls(0, _WORD)  # without an import of pandas


def has_sketch(type: pa.DataType) -> bool:
    return not types.is_nested(type)


def words(values: pa.Array) -> pa.Array:
    """A number for each of `values`, which are distinct and not null: the same for the same value.

    That of a string is Python's own hash of it, which Spark has all its workers make alike.
    """
    import pyarrow.compute as pc

    kind = values.type
    if types.is_floating(kind):
        wide = values.cast(pa.float64())
        numbers = pc.add(wide.filter(pc.invert(pc.is_nan(wide))), 0.0).view(_WORD)  # no -0.0
        if len(numbers) < len(values):
            return pa.concat_arrays([numbers, pa.array([_NAN], _WORD)])
        return numbers
    if types.is_boolean(kind):
        return values.cast(pa.uint8()).cast(_WORD)
    if types.is_integer(kind) or types.is_temporal(kind):
        plain = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[kind.bit_width]
        return values.view(plain).cast(pa.int64()).view(_WORD)
    if types.is_decimal(kind):
        values = values.cast(pa.string())
    return pa.array(map(hash, values.cast(pa.binary()).to_pylist()), pa.int64()).view(_WORD)


def mixed(numbers: pa.Array) -> pa.Array:
    """Numbers made to look random, each in its own way (the end of SplitMix64)."""
    import pyarrow.compute as pc

    for shift, factor in _MIX:
        shifted = pc.shift_right(numbers, pa.scalar(shift, _WORD))
        numbers = pc.multiply(pc.bit_wise_xor(numbers, shifted), pa.scalar(factor, _WORD))
    return numbers


def smallest(hashes: Sequence[pa.Array], size: int) -> pa.Array:
    """The sketch of all these hashes."""
    import pyarrow.compute as pc

    every = hashes[0] if len(hashes) == 1 else pa.concat_arrays(hashes)
    distinct = every.unique()
    return distinct.take(pc.array_sort_indices(distinct)[:size])


def estimate(sketch: pa.Array, size: int) -> int:
    """How many different values there were."""
    if len(sketch) < size:
        return len(sketch)
    return round((size - 1) * 2**64 / (sketch[-1].as_py() + 1))

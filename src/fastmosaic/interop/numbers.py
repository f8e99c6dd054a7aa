"""Values of Arrow arrays as numbers of one NumPy dtype: the rule for each type, and its errors.

    booleans                        0 or 1
    integers, floats                the value
    decimals                        the value, by way of float64 if the dtype is a float
    dates                           days since 1970-01-01
    timestamps, times, durations    the number in the unit of the column
    dictionaries, run-end encoded   those of their values
    strings, binary                 positions among the categories, if there are any

A finite value that the dtype cannot represent is an error, and so is NaN in an integer dtype. Floats are
rounded to narrower floats.

NumPy is optional, and imported when it is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa
from pyarrow import types

from ..errors import SchemaMismatchError, UnsupportedError

if TYPE_CHECKING:
    import numpy as np

    Numbers: TypeAlias = np.ndarray[Any, np.dtype[Any]]

Categories: TypeAlias = bool | Mapping[str, Sequence[Any]]

DTYPES: Final = (
    *("float16", "float32", "float64"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
)


def import_numpy() -> Any:
    """Return the module numpy."""
    try:
        import numpy
    except ImportError as error:
        raise ImportError("numpy is not installed: pip install numpy") from error
    return numpy


def value_type(type: pa.DataType) -> pa.DataType:
    """Return the type of the values, without extension, dictionary or run-end encoding."""
    while True:
        if isinstance(type, pa.BaseExtensionType):
            type = type.storage_type
        elif types.is_dictionary(type) or types.is_run_end_encoded(type):
            type = type.value_type
        else:
            return type


def is_number(type: pa.DataType) -> bool:
    """Return whether values of a type, as `value_type` returns it, are numbers by the rule."""
    return bool(
        types.is_null(type)
        or types.is_boolean(type)
        or types.is_integer(type)
        or types.is_floating(type)
        or types.is_decimal(type)
        or (types.is_temporal(type) and not types.is_interval(type))
    )


def is_text(type: pa.DataType) -> bool:
    """Return whether values of a type can be categories."""
    return bool(
        types.is_string(type)
        or types.is_large_string(type)
        or types.is_string_view(type)
        or types.is_binary(type)
        or types.is_large_binary(type)
        or types.is_binary_view(type)
        or types.is_fixed_size_binary(type)
    )


def check_type(field: pa.Field, categories: Categories) -> None:
    """Raise an error if the values of a column cannot be numbers."""
    type = value_type(field.type)
    has_categories = categories is True or (categories and field.name in categories)
    if is_number(type):
        if isinstance(categories, Mapping) and has_categories:
            raise SchemaMismatchError(
                f"the column is {field.type}; only columns of strings or bytes have categories",
                column=field.name,
            )
    elif not is_text(type):
        raise UnsupportedError(
            f"the column is {field.type}, which is not a number; leave it out of columns=",
            column=field.name,
        )
    elif not has_categories:
        raise SchemaMismatchError(
            f"the column is {field.type}, which is not a number; leave it out of columns=, or pass "
            "categories=True to read codes",
            column=field.name,
        )


def decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the values of a column without extension, dictionary or run-end encoding."""
    import pyarrow.compute as pc

    while True:
        type = column.type
        if isinstance(type, pa.BaseExtensionType):
            chunks = [chunk.storage for chunk in column.chunks]
            column = pa.chunked_array(chunks, type.storage_type)
        elif types.is_dictionary(type):
            chunks = [chunk.dictionary_decode() for chunk in column.chunks]
            column = pa.chunked_array(chunks, type.value_type)
        elif types.is_run_end_encoded(type):
            chunks = [pc.run_end_decode(chunk) for chunk in column.chunks]
            column = pa.chunked_array(chunks, type.value_type)
        else:
            return column


def codes_of(column: pa.ChunkedArray, values: Sequence[Any] | None) -> pa.ChunkedArray:
    """Return the positions of values among `values`, by default their distinct values in order.

    A value that is not among them is null.
    """
    import pyarrow.compute as pc

    plain = column.cast(pa.large_string() if _is_string(column.type) else pa.large_binary())
    if values is None:
        distinct = pc.drop_null(pc.unique(plain))
        known = distinct.take(pc.array_sort_indices(distinct))
    else:
        known = pa.array(values, plain.type)
    return pc.index_in(plain, value_set=known, skip_nulls=True)


def _is_string(type: pa.DataType) -> bool:
    return bool(types.is_string(type) or types.is_large_string(type) or types.is_string_view(type))


def numbers_of(array: pa.Array, dtype: Any) -> tuple[Numbers, Numbers | None]:
    """Return the values of an array as numbers, zero if null, and which are null, if any are."""
    np = import_numpy()
    nulls = None
    if array.null_count:
        nulls = array.is_null().to_numpy(zero_copy_only=False)
    type = array.type
    if types.is_null(type):
        return np.zeros(len(array), np.int8), nulls
    if types.is_decimal(type):
        array = _decimals(array, dtype)
    elif types.is_date(type):
        array = array.cast(pa.date32()).view(pa.int32())
    elif types.is_time32(type):
        array = array.view(pa.int32())
    elif types.is_temporal(type):
        array = array.view(pa.int64())
    if nulls is not None:
        zero = pa.scalar(0, array.type) if not types.is_boolean(array.type) else pa.scalar(False)
        array = array.fill_null(zero)
    return array.to_numpy(zero_copy_only=False), nulls


def _decimals(array: pa.Array, dtype: Any) -> pa.Array:
    if dtype.kind == "f":
        return array.cast(pa.float64())
    try:
        return array.cast(pa.uint64() if dtype == "uint64" else pa.int64())
    except pa.ArrowInvalid as error:
        raise ValueError(f"contains decimals that are not integers of {dtype}: {error}") from error


def converted(values: Numbers, dtype: Any) -> Numbers:
    """Return numbers as numbers of `dtype`; raise ValueError about those that it cannot represent."""
    np = import_numpy()
    if values.dtype == dtype or not len(values):
        return values.astype(dtype, copy=False)
    if dtype.kind == "f":
        with np.errstate(over="ignore", invalid="ignore"):
            made = values.astype(dtype)
        if np.isinf(made).any():
            _refuse(values, np.isinf(made) & np.isfinite(values), dtype)
        return made
    if values.dtype.kind == "f":
        _refuse(values, np.isnan(values), dtype)
        limits = np.iinfo(dtype)
        _refuse(
            values,
            (values < limits.min) | (values >= 2.0 ** (limits.bits - (limits.min < 0))),
            dtype,
        )
        _refuse(values, np.trunc(values) != values, dtype)
    elif values.dtype.kind != "b":
        limits = np.iinfo(dtype)
        low, high = int(values.min()), int(values.max())
        if low < limits.min or high > limits.max:
            raise ValueError(_misfit(low if low < limits.min else high, dtype))
    return values.astype(dtype)


def _refuse(values: Numbers, wrong: Numbers, dtype: Any) -> None:
    """Raise ValueError if any value is wrong."""
    if wrong.any():
        raise ValueError(_misfit(values[wrong.argmax()], dtype))


def _misfit(value: Any, dtype: Any) -> str:
    return f"contains {value}, which {dtype} cannot represent; pass another dtype="

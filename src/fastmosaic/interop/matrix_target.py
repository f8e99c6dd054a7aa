"""The matrix that columns are written into, and what nulls become in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import pyarrow as pa

from ..errors import SchemaMismatchError
from ..format.bucket import Matrix
from . import numbers
from .numbers import import_numpy

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

Nulls: TypeAlias = Literal["nan", "raise", "mask"] | float


def fill_value(nulls: Nulls, dtype: Any) -> Any:
    """Return what nulls become, as a scalar of the dtype; None if they are an error."""
    np = import_numpy()
    if isinstance(nulls, str):
        if nulls not in ("nan", "raise", "mask"):
            raise ValueError(f"nulls must be 'nan', 'raise', 'mask' or a number, not {nulls!r}")
        if nulls == "mask":
            return dtype.type(0)
        return dtype.type(np.nan) if nulls == "nan" and dtype.kind == "f" else None
    try:
        return numbers.converted(np.array([nulls]), dtype)[0]
    except (ValueError, TypeError):
        raise ValueError(f"nulls={nulls!r} is not a number that {dtype} can represent") from None


@dataclass(frozen=True, slots=True)
class MatrixTarget:
    """The matrix, its mask, and what nulls become: a number of its dtype, or None for an error."""

    out: Array
    mask: Array | None
    fill: Any
    nulls: Nulls

    @classmethod
    def of(cls, out: Array, mask: Array | None, nulls: Nulls) -> MatrixTarget:
        return cls(out, mask, fill_value(nulls, out.dtype), nulls)

    def matrix(self) -> Matrix:
        """Return the matrix as the kernel writes it."""
        fill = None if self.fill is None else self.fill.tobytes()
        return Matrix(self.out, self.mask, fill)

    def put(self, values: pa.Array, name: str, place: int, at: Any) -> None:
        """Write values to rows `at`, a slice or row numbers, of a column."""
        if values.null_count and self.fill is None:
            raise self.has_nulls(name)
        dtype = self.out.dtype
        try:
            found, are_null = numbers.numbers_of(values, dtype)
            made = numbers.converted(found, dtype)
        except ValueError as error:
            raise SchemaMismatchError(f"the column {error}", column=name) from error
        if are_null is not None:
            made = import_numpy().where(are_null, self.fill, made)
            if self.mask is not None:
                self.mask[at, place] = are_null
        self.out[at, place] = made

    def put_nulls(self, name: str, place: int, at: Any) -> None:
        """Write nulls to rows `at` of a column."""
        if self.fill is None:
            raise self.has_nulls(name)
        self.out[at, place] = self.fill
        if self.mask is not None:
            self.mask[at, place] = True

    def has_nulls(self, name: str) -> SchemaMismatchError:
        advice = ""
        if self.nulls != "raise":
            advice = f"; {self.out.dtype} has no NaN, so pass a number as nulls="
        return SchemaMismatchError(f"the column contains nulls{advice}", column=name)

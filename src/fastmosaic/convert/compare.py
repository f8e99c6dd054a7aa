"""Compare two tables: their columns, and their rows, which are read side by side."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field as dataclass_field
from typing import Any, Final

import pyarrow as pa
from pyarrow import types

from ..errors import UnsupportedError
from ..format.types import plain_type
from ..schemas.fit import Fits
from ..schemas.widen import widened
from .inputs import Input, open_input
from .values import json_values, readable_leaves

_NUM_SHOWN: Final = 3  # rows of a column that differs


@dataclass(frozen=True)
class Comparison:
    """How two tables differ."""

    columns: SchemaDifference
    rows: RowDifference | None  # None if only columns were compared

    @property
    def differ(self) -> bool:
        """Whether there is any difference."""
        return self.columns.differ or (self.rows is not None and self.rows.differ)

    def to_dict(self) -> dict[str, Any]:
        """Return the differences as values of JSON."""
        rows = None if self.rows is None else self.rows.to_dict()
        return {"differ": self.differ, "columns": self.columns.to_dict(), "rows": rows}


def compare(
    one: str | os.PathLike[str],
    other: str | os.PathLike[str],
    *,
    rows: bool = True,
    strict: bool = False,
    types: Mapping[str, pa.DataType] | None = None,
) -> Comparison:
    """Compare two tables in files of any supported format.

    Parameters
    ----------
    one, other : path, URI, directory or glob
        Files of one format on each side; the formats of both sides may differ.
    rows : bool, default True
        Compare the rows, in order, as well as the columns.
    strict : bool, default False
        Types must be exactly equal, and metadata and nullability count. Otherwise, types that Mosaic
        stores in the same way, such as string and large_string, are equal.
    types : dict of str to pyarrow.DataType, optional
        Types of columns in CSV and JSON files, by name or glob.

    Returns
    -------
    Comparison
        `differ` tells whether there is a difference; `columns`, `rows` and `to_dict()` which.

    Examples
    --------
    >>> import tempfile, pyarrow as pa, fastmosaic as fm
    >>> from fastmosaic.convert.compare import compare
    >>> with tempfile.TemporaryDirectory() as path:
    ...     fm.write_table(pa.table({"x": [1, 2], "y": [1, 2]}), f"{path}/a.mosaic")
    ...     fm.write_table(pa.table({"x": [1, 3]}), f"{path}/b.mosaic")
    ...     found = compare(f"{path}/a.mosaic", f"{path}/b.mosaic")
    >>> found.differ, [field.name for field in found.columns.only_one], list(found.rows.columns)
    (True, ['y'], ['x'])
    """
    a, b = (open_input([os.fspath(path)], types=types, whole=True) for path in (one, other))
    columns = SchemaDifference.of(a.schema, b.schema, strict=strict)
    if not rows:
        return Comparison(columns, None)
    difference = RowDifference(columns.common)
    difference.compare(a, b, lambda step: None, is_enough=False)
    return Comparison(columns, difference)


@dataclass
class SchemaDifference:
    """How two schemas differ."""

    only_one: list[pa.Field]
    only_other: list[pa.Field]
    types: list[tuple[pa.Field, pa.Field]]
    order: tuple[str, str] | None  # the first columns at different places
    metadata: list[str]  # other differences, in words
    common: pa.Schema  # the types as which rows are compared
    incomparable: list[str]
    strict: bool

    @classmethod
    def of(cls, one: pa.Schema, other: pa.Schema, *, strict: bool) -> SchemaDifference:
        both = [name for name in one.names if other.get_field_index(name) >= 0]
        known = set(both)
        pairs = [(one.field(name), other.field(name)) for name in both]
        there = [name for name in other.names if name in known]
        order = next(((a, b) for a, b in zip(both, there, strict=True) if a != b), None)
        fields = []
        incomparable = []
        for a, b in pairs:
            type = common_type(a.type, b.type)
            if type is None:
                incomparable.append(a.name)
            else:
                fields.append(pa.field(a.name, type))
        return cls(
            only_one=[field for field in one if field.name not in known],
            only_other=[field for field in other if field.name not in known],
            types=[(a, b) for a, b in pairs if not is_same_type(a.type, b.type, strict)],
            order=order,
            metadata=_metadata(one, other, pairs),
            common=pa.schema(fields),
            incomparable=incomparable,
            strict=strict,
        )

    @property
    def differ(self) -> bool:
        found = self.only_one or self.only_other or self.types or self.order
        return bool(found or (self.strict and self.metadata))

    def to_dict(self) -> dict[str, Any]:
        return {
            "only_in_a": {field.name: str(field.type) for field in self.only_one},
            "only_in_b": {field.name: str(field.type) for field in self.only_other},
            "types": {a.name: [str(a.type), str(b.type)] for a, b in self.types},
            "order": None if self.order is None else list(self.order),
            "metadata": self.metadata,
            "not_compared": self.incomparable,
        }


def is_same_type(one: pa.DataType, other: pa.DataType, strict: bool) -> bool:
    """Return whether types are equal or, unless `strict`, hold the same values."""
    if strict or one == other:
        return bool(one == other)
    try:
        return bool(_nullable(plain_type(one)) == _nullable(plain_type(other)))
    except UnsupportedError:
        return False


def _nullable(plain: pa.DataType) -> pa.DataType:
    """Return a plain type in which all fields of structs, and elements of lists, may be null."""
    if types.is_struct(plain):
        return pa.struct([(field.name, _nullable(field.type)) for field in plain])
    if types.is_map(plain):
        return pa.map_(_nullable(plain.key_type), _nullable(plain.item_type))
    return pa.list_(_nullable(plain.value_type)) if types.is_list(plain) else plain


def common_type(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Return a type as which values of both can be compared, or None."""
    if types.is_null(one) or types.is_null(other):
        one, other = (other, other) if types.is_null(one) else (one, one)
    try:
        one, other = _nullable(plain_type(one)), _nullable(plain_type(other))
    except UnsupportedError:
        return one if one == other else None
    if wide := widened(one, other):
        return wide
    if all(types.is_integer(type) or types.is_decimal(type) for type in (one, other)):
        scales = [type.scale for type in (one, other) if types.is_decimal(type)]
        return pa.decimal256(76, max(0, *scales))
    if all(map(_is_number, (one, other))):
        return pa.float64()
    for date, moment in ((one, other), (other, one)):
        if types.is_date32(date) and types.is_timestamp(moment) and moment.tz is None:
            return moment
    return None


def _is_number(type: pa.DataType) -> bool:
    return bool(types.is_integer(type) or types.is_floating(type) or types.is_decimal(type))


def _metadata(
    one: pa.Schema, other: pa.Schema, pairs: Sequence[tuple[pa.Field, pa.Field]]
) -> list[str]:
    found = []
    mine, theirs = one.metadata or {}, other.metadata or {}
    if keys := [key for key in {**mine, **theirs} if mine.get(key) != theirs.get(key)]:
        shown = ", ".join(sorted(key.decode(errors="replace") for key in keys))
        found.append(f"metadata of the schema differs: {shown}")
    for what, fields in (
        ("metadata", [a.name for a, b in pairs if (a.metadata or {}) != (b.metadata or {})]),
        ("nullability", [a.name for a, b in pairs if a.nullable != b.nullable]),
    ):
        if fields:
            more = f" and {len(fields) - 3} more" if len(fields) > 3 else ""
            found.append(f"{what} of columns differs: {', '.join(fields[:3])}{more}")
    return found


# ---- rows


@dataclass
class _Difference:
    """The rows in which a column differs: their number, and the first few with both values."""

    num_rows: int = 0
    first: list[tuple[int, Any, Any]] = dataclass_field(default_factory=list)


class RowDifference:
    """How the rows of two tables differ, in the columns that both have."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self.counts = [0, 0]
        self.columns: dict[str, _Difference] = {}

    @property
    def differ(self) -> bool:
        return bool(self.columns) or self.counts[0] != self.counts[1]

    def compare(
        self, one: Input, other: Input, advance: Callable[[int], object], *, is_enough: bool
    ) -> None:
        """Read both tables; with `is_enough`, only up to the first difference."""
        counts = [source.num_rows for source in (one, other)]
        if is_enough and None not in counts and counts[0] != counts[1]:
            self.counts = [count or 0 for count in counts]
            return
        for start, a, b in aligned(
            self._batches(one, 0, advance), self._batches(other, 1, advance)
        ):
            self._compare(start, a, b)
            if is_enough and self.columns:
                return

    def _batches(
        self, source: Input, side: int, advance: Callable[[int], object]
    ) -> Iterator[pa.RecordBatch]:
        fits = Fits(self._schema, advice="")
        for batch in source.batches(self._schema.names, None, advance):
            self.counts[side] += batch.num_rows
            yield from fits(batch)

    def _compare(self, start: int, one: pa.RecordBatch, other: pa.RecordBatch) -> None:
        for name, a, b in zip(self._schema.names, one.columns, other.columns, strict=True):
            if a.equals(b):
                continue
            rows = differing(a, b)
            if not rows:
                continue
            found = self.columns.setdefault(name, _Difference())
            found.num_rows += len(rows)
            for row in rows[: max(0, _NUM_SHOWN - len(found.first))]:
                found.first.append((start + row, _shown(a, row), _shown(b, row)))

    def to_dict(self) -> dict[str, Any]:
        return {
            "rows": {"a": self.counts[0], "b": self.counts[1]},
            "columns": {
                name: {
                    "rows": one.num_rows,
                    "first": [{"row": row, "a": a, "b": b} for row, a, b in one.first],
                }
                for name, one in self.columns.items()
            },
        }


def aligned(
    one: Iterator[pa.RecordBatch], other: Iterator[pa.RecordBatch]
) -> Iterator[tuple[int, pa.RecordBatch, pa.RecordBatch]]:
    """Yield batches of the same rows of both, with the number of the first row.

    Both are read to their ends, even if one is longer.
    """
    start = 0
    a: pa.RecordBatch | None = None
    b: pa.RecordBatch | None = None
    while True:
        a = next(_filled(one), None) if a is None else a
        b = next(_filled(other), None) if b is None else b
        if a is None or b is None:
            break
        size = min(a.num_rows, b.num_rows)
        yield start, a.slice(0, size), b.slice(0, size)
        start += size
        a = a.slice(size) if a.num_rows > size else None
        b = b.slice(size) if b.num_rows > size else None
    for rest in (one, other):
        for _ in rest:
            pass


def _filled(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return (batch for batch in batches if batch.num_rows)


def differing(one: pa.Array, other: pa.Array) -> list[int]:
    """Return the rows in which two arrays of one type differ."""
    import pyarrow.compute as pc

    if types.is_nested(one.type) or types.is_interval(one.type):
        pairs = zip(*(json_values(each, object_of=list) for each in (one, other)), strict=True)
        return [row for row, (a, b) in enumerate(pairs) if not _is_same(a, b)]
    unequal = pc.fill_null(pc.not_equal(one, other), False)
    if types.is_floating(one.type):
        both_nan = pc.and_(pc.is_nan(one), pc.is_nan(other))
        unequal = pc.and_not(unequal, pc.fill_null(both_nan, False))
    unequal = pc.or_(unequal, pc.xor(one.is_null(), other.is_null()))
    return list(pc.indices_nonzero(unequal).to_pylist())


def _is_same(one: Any, other: Any) -> bool:
    """Whether values are equal; NaN is equal to NaN."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_is_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(one[key], other[key]) for key in one)
    return bool(one == other or (one != one and other != other))  # noqa: PLR0124 - NaN


def _shown(array: pa.Array, row: int) -> Any:
    if types.is_temporal(array.type) or types.is_nested(array.type):
        # Python's types have no nanoseconds, and no years beyond 9999.
        return json_values(array.slice(row, 1), readable_leaves)[0]
    return array[row].as_py()

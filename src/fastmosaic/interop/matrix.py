"""read_matrix: columns of files as one NumPy array of one dtype.

NumPy is optional, and imported when it is needed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import pyarrow as pa

from ..dataset.discovery import is_many
from ..dataset.fileset import FileSet, Partitioning
from ..file.reader import MosaicFile, Readable
from ..memory import Memory, MemoryLimit
from .matrix_reading import MatrixReading
from .matrix_target import MatrixTarget, Nulls, fill_value
from .numbers import DTYPES, Categories, import_numpy

if TYPE_CHECKING:
    import numpy as np

    from ..dataset.arrow import MosaicDataset

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

__all__ = ["read_matrix"]


def read_matrix(
    source: Readable | Sequence[str | os.PathLike[str]] | MosaicFile | MosaicDataset,
    columns: Sequence[str] | None = None,
    *,
    dtype: Any = "float32",
    nulls: Nulls = "nan",
    order: Literal["F", "C"] = "F",
    filters: Any = None,
    rows: Sequence[int] | Array | None = None,
    out: Array | None = None,
    categories: Categories = False,
    schema: pa.Schema | None = None,
    partitioning: Partitioning = "hive",
    unify: bool = True,
    follow_links: bool = False,
    filesystem: object = None,
    use_threads: bool = True,
    memory_limit: MemoryLimit = None,
    strict: bool = True,
) -> Any:
    """Read columns into one NumPy array with a row for each row and a column for each column.

    Parameters
    ----------
    source : path, URI, binary file object, buffer, list of paths, MosaicFile or MosaicDataset
        One file, or many as a directory, a glob, a list or a table.
    columns : list of str, optional
        Names or globs such as `price_*`, in this order; by default all columns.
    dtype : dtype, default "float32"
        A float or integer dtype. Booleans become 0 and 1, decimals their value, dates the days since
        1970-01-01, and timestamps, times and durations the number in their unit. A value that
        the dtype cannot represent, such as NaN in an integer dtype, is an error that names the
        column; floats and large integers are rounded to floats.
    nulls : "nan", "raise", "mask" or number, default "nan"
        What nulls become: NaN, which requires a float dtype if there are any; an error; a number; or 0
        with a mask that tells where they are.
    order : "F" or "C", default "F"
        The order in memory: column by column, which is faster, or row by row.
    filters : pyarrow.compute.Expression or list of tuples or list of lists of tuples, optional
        Which rows to read, as in `MosaicFile.read`.
    rows : sequence of int, optional
        Numbers of rows to read, in this order; a number may occur several times. With `filters`, they
        are counted among the rows that match.
    out : numpy.ndarray, optional
        A writable array of the right shape and dtype to read into, such as a `numpy.memmap` or pinned
        memory. After an error, its contents are undefined.
    categories : bool or dict, default False
        Read columns of strings or bytes as codes instead of raising an error: positions among the
        distinct values in ascending order, or, for the columns of a dict, in the list
        of values there. A value that is not in the list is treated as null.
    schema, partitioning, unify, follow_links
        As in `MosaicDataset`.
    filesystem : pyarrow or fsspec filesystem, optional
        The filesystem of the path `source`.
    use_threads : bool, default True
        Decode on all cores.
    memory_limit, strict
        As in `MosaicFile`. The limit includes the array unless it is `out`.

    Returns
    -------
    numpy.ndarray, or a pair of them with `nulls="mask"`
        The matrix; the mask is a boolean array of the same shape, True where a value is null.

    Examples
    --------
    >>> import pyarrow as pa, fastmosaic as fm
    >>> sink = pa.BufferOutputStream()
    >>> fm.write_table(pa.table({"id": [1, 2], "x": [0.5, None], "ok": [True, False]}), sink)
    >>> fm.read_matrix(sink.getvalue(), ["x", "ok"])
    array([[0.5, 1. ],
           [nan, 0. ]], dtype=float32)
    """
    np = import_numpy()
    target = _dtype(dtype)
    if order not in ("F", "C"):
        raise ValueError(f"order must be 'F' or 'C', not {order!r}")
    fill_value(nulls, target)  # checks it
    of_many = {"partitioning": partitioning, "unify": unify, "follow_links": follow_links}
    opening = {"filesystem": filesystem, "memory_limit": memory_limit, "strict": strict}
    with _opened(source, schema, opening, of_many) as opened:
        reading = MatrixReading(opened, columns, filters, categories, use_threads)
        memory = Memory(memory_limit)
        selected = reading.select(None if rows is None else _row_numbers(rows), memory)
        shape = selected.num_rows, reading.num_columns
        if out is not None:
            _check_out(out, shape, target)
        cost = (target.itemsize if out is None else 0) + (nulls == "mask")
        memory.take(shape[0] * shape[1] * cost)
        made = np.empty(shape, target, order=order) if out is None else out
        mask = np.zeros(shape, bool, order=order) if nulls == "mask" else None
        reading.fill(selected, MatrixTarget.of(made, mask, nulls), memory)
    return made if mask is None else (made, mask)


def _dtype(dtype: Any) -> Any:
    made = import_numpy().dtype(dtype)
    if made.name not in DTYPES or not made.isnative:
        raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, not {dtype!r}")
    return made


def _row_numbers(rows: Any) -> Any:
    np = import_numpy()
    made = np.asarray(rows)
    if made.ndim != 1 or (made.size and made.dtype.kind not in "iu"):
        raise ValueError("rows must be a sequence of row numbers")
    if made.size and made.max() > np.iinfo(np.int64).max:
        raise IndexError(f"row {made.max()} is out of range")
    return made.astype(np.int64)


def _check_out(out: Any, shape: tuple[int, int], dtype: Any) -> None:
    np = import_numpy()
    if not isinstance(out, np.ndarray):
        raise TypeError(f"out must be a numpy.ndarray, not {type(out).__name__}")
    if out.shape != shape or out.dtype != dtype:
        raise ValueError(
            f"out has shape {out.shape} and dtype {out.dtype}, but the result has shape {shape} and "
            f"dtype {dtype}"
        )
    if not out.flags.writeable:
        raise ValueError("out is read-only")


@contextmanager
def _opened(
    source: Any, schema: pa.Schema | None, opening: dict[str, Any], of_many: dict[str, Any]
) -> Iterator[MosaicFile | FileSet]:
    """Provide what to read, and close it if it was opened here."""
    if isinstance(source, MosaicFile):
        yield source
        return
    files = getattr(source, "_files", None)
    if isinstance(files, FileSet):  # a MosaicDataset, without importing what Arrow needs for it
        yield files
        return
    if schema is None and not is_many(source, opening["filesystem"]):
        try:
            file = MosaicFile(source, **opening)
        except IsADirectoryError:
            pass
        else:
            with file:
                yield file
            return
    yield FileSet(source, schema=schema, **opening, **of_many)

"""Read and write pandas DataFrames, with their index and their dtypes.

Arrow converts between tables and DataFrames, with a description of the DataFrame that `description`
stores in the file. Some dtypes are restored here, because Arrow does not: those that are Arrow types,
those of an index, and those of categories.

pandas is optional, and imported when it is needed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

import pyarrow as pa
from pyarrow import types

from ..dataset.discovery import is_many
from ..dataset.fileset import FileSet, Partitioning
from ..errors import SchemaMismatchError, located
from ..file.options import WriteOptions, accepts_options, check_names
from ..file.reader import MosaicFile, Readable
from ..file.writer import MosaicWriter, Writable
from ..memory import MemoryLimit
from . import description as describing
from .description import Description, import_pandas, index_columns

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["read_pandas", "write_pandas"]

TypesMapper: TypeAlias = Callable[[pa.DataType], Any]


def read_pandas(
    source: Readable | Sequence[str | os.PathLike[str]],
    columns: Sequence[Any] | None = None,
    *,
    filters: Any = None,
    partitioning: Partitioning = "hive",
    unify: bool = True,
    follow_links: bool = False,
    filesystem: object = None,
    use_threads: bool = True,
    types_mapper: TypesMapper | None = None,
    memory_limit: MemoryLimit = None,
    strict: bool = True,
) -> pd.DataFrame:
    """Read Mosaic files into a pandas DataFrame, with the index that `write_pandas` stored.

    Parameters
    ----------
    source : path, URI, binary file object, buffer, or list of paths
        One file, or many as a directory, a glob or a list.
    columns : list, optional
        The columns to read, in this order, by their names in pandas. By default all columns.
        `info.name` reads the key `name` of a column `info` of dicts, and globs such as `price_*`
        select several columns. The columns of the index are always read.
    filters : pyarrow.compute.Expression or list of tuples or list of lists of tuples
        The rows to read, as in `MosaicFile.read`. A RangeIndex is not stored row by row, so with
        filters, or with many files, the result has a new one that starts at 0.
    partitioning : "hive", pyarrow.Schema or None, default "hive"
        Read directories called `key=value` as columns.
    unify : bool, default True
        Accept files with different schemas and read their union.
    follow_links : bool, default False
        Follow links in a local directory that lead out of it. By default they are an error.
    filesystem : pyarrow or fsspec filesystem, optional
        The filesystem of the path `source`.
    use_threads : bool, default True
        Decode on all cores.
    types_mapper : function from pyarrow.DataType to a pandas dtype or None, optional
        Chooses dtypes instead of those of the original DataFrame; `pandas.ArrowDtype` keeps all
        values in Arrow.
    memory_limit, strict
        As in `MosaicFile`. The limit is for the values in Arrow, before pandas converts them.

    Returns
    -------
    pandas.DataFrame

    Examples
    --------
    >>> import pandas as pd, pyarrow as pa, fastmosaic as fm
    >>> days = pd.date_range("2026-03-01", periods=3, name="day")
    >>> sink = pa.BufferOutputStream()
    >>> fm.write_pandas(pd.DataFrame({"price": [9.0, 10.0, 11.0], "kind": list("aba")}, days), sink)
    >>> fm.read_pandas(sink.getvalue(), columns=["price"], filters=[("kind", "=", "a")])["price"]
    day
    2026-03-01     9.0
    2026-03-03    11.0
    Name: price, dtype: float64
    """
    import_pandas()
    opening = {"filesystem": filesystem, "memory_limit": memory_limit, "strict": strict}
    of_many = {"partitioning": partitioning, "unify": unify, "follow_links": follow_links}
    rows = _open(source, opening, of_many)
    name = str(source) if isinstance(source, str | os.PathLike) else None
    try:
        with located(file=name, part="pandas metadata"):
            description = describing.decode(_metadata(rows))
        names = _names(rows, columns, description)
        table = rows.read(names, filters=filters, use_threads=use_threads)
    finally:
        if isinstance(rows, MosaicFile):
            rows.close()
    is_whole = filters is None and not (isinstance(rows, FileSet) and len(rows.files) > 1)
    return _frame(table, description, is_whole, use_threads, types_mapper)


@accepts_options
def write_pandas(
    df: pd.DataFrame,
    where: Writable,
    *,
    index: bool | None = None,
    filesystem: object = None,
    **options: Unpack[WriteOptions],
) -> None:
    """Write a pandas DataFrame to a Mosaic file; `read_pandas` restores it.

    Parameters
    ----------
    df : pandas.DataFrame
    where : path, URI or writable binary file object
    index : bool, optional
        Store the index as columns. By default, all indexes are stored except a RangeIndex, of which
        only start, stop and step are stored. False drops the index.
    filesystem : pyarrow or fsspec filesystem, optional
        The filesystem of the path `where`.
    **options
        The options of `MosaicWriter`.

    Examples
    --------
    >>> import pandas as pd, pyarrow as pa, fastmosaic as fm
    >>> sink = pa.BufferOutputStream()
    >>> sizes = pd.Categorical(["s", "l"], categories=["s", "m", "l"], ordered=True)
    >>> fm.write_pandas(pd.DataFrame({"size": sizes}, index=["x", "y"]), sink)
    >>> fm.read_pandas(sink.getvalue())["size"].max()
    'l'
    """
    check_names(options, write_pandas)
    pd = import_pandas()
    if not isinstance(df, pd.DataFrame):
        raise TypeError(f"expected a pandas.DataFrame, not {type(df).__name__}")
    _check_names(df.columns)
    if index is None and df.index.nlevels > 1:
        index = True  # a level may be a range, which must not be left out alone
    table = pa.Table.from_pandas(
        df, preserve_index=index, nthreads=None if options.get("use_threads", True) else 1
    )
    description = table.schema.pandas_metadata
    dtypes = describing.dtypes_of(df, table.column_names, description)
    if table.num_columns:  # a table without columns has lost its number of rows
        encoded = describing.encode(description, dtypes)
        table = table.replace_schema_metadata({describing.KEY: encoded})
    schema = _without_large_strings(table.schema, dtypes)
    with MosaicWriter(where, schema, filesystem=filesystem, **options) as writer:
        writer.write_table(table)


def _check_names(columns: Any) -> None:
    """Raise if two columns would have the same name in the file, where names are strings."""
    names = columns.map(str)
    if not names.is_unique:
        twice = list(dict.fromkeys(names[names.duplicated()]))
        raise SchemaMismatchError(
            f"{len(twice)} column names of the DataFrame are not unique as strings: "
            + ", ".join(map(repr, twice[:5]))
            + (", ..." if len(twice) > 5 else "")
        )


def _without_large_strings(schema: pa.Schema, dtypes: Mapping[str, Any]) -> pa.Schema:
    """Return the schema with the type `string` for `large_string`, except for Arrow dtypes.

    pandas converts both to the same dtype, but the file would have to list the second one for each
    column of strings.
    """
    pd = import_pandas()
    fields = [
        field.with_type(pa.string())
        if types.is_large_string(field.type) and not isinstance(dtypes[field.name], pd.ArrowDtype)
        else field
        for field in schema
    ]
    return pa.schema(fields, schema.metadata)


# ---- reading


def _open(source: Any, opening: dict[str, Any], of_many: dict[str, Any]) -> MosaicFile | FileSet:
    if not is_many(source, opening["filesystem"]):
        with suppress(IsADirectoryError):
            return MosaicFile(source, **opening)
    return FileSet(source, **of_many, **opening)


def _metadata(rows: MosaicFile | FileSet) -> dict[bytes, bytes]:
    attached = rows.metadata.attached if isinstance(rows, MosaicFile) else rows.attached
    return {} if attached is None else attached.given.metadata or {}


def _names(
    rows: MosaicFile | FileSet, columns: Sequence[Any] | None, description: Description
) -> list[str] | None:
    """Return the columns to read: the requested ones, and those of the index that exist."""
    if columns is None:
        return None
    if isinstance(columns, str):
        raise TypeError(f"columns must be a list of names, not a str: [{columns!r}]")
    asked = [_stored_name(one) for one in columns]
    return [*asked, *(name for name in index_columns(description) if _has(rows, name))]


def _stored_name(name: Any) -> str:
    """Return the name that Arrow gives to a column."""
    return str(tuple(map(_stored_name, name)) if isinstance(name, tuple) else name)


def _has(rows: MosaicFile | FileSet, name: str) -> bool:
    columns = rows.metadata.columns if isinstance(rows, MosaicFile) else rows.columns
    return columns.find(name) is not None


# ---- from Arrow to pandas


def _frame(
    table: pa.Table,
    description: Description,
    is_whole: bool,
    use_threads: bool,
    types_mapper: TypesMapper | None,
) -> pd.DataFrame:
    """Convert a table to a DataFrame as described."""
    description = describing.understood(description, table.column_names)
    stored = [name for name in index_columns(description) if name in table.column_names]
    others = [name for name in table.column_names if name not in stored]
    frame = _converted(table.select(others), description, use_threads, types_mapper)
    # Arrow would take these for columns, and restore their labels.
    unlabelled = {**description, "column_indexes": []}
    levels = (
        _converted(table.select(stored), unlabelled, use_threads, types_mapper) if stored else None
    )
    index = _index(description, stored, levels, table.num_rows, is_whole)
    if len(frame) != len(index):  # a table without columns has lost its number of rows
        return frame.reindex(index)
    frame.index = index
    return frame


def _index(
    description: Description,
    stored: Sequence[str],
    levels: pd.DataFrame | None,
    num_rows: int,
    is_whole: bool,
) -> pd.Index:
    """Return the index; `levels` are those that are `stored` as columns, in this order."""
    pd = import_pandas()
    names = {column["field_name"]: column["name"] for column in description["columns"]}
    found = []
    for level in description["index_columns"]:
        if isinstance(level, dict):
            index = pd.RangeIndex(level["start"], level["stop"], level["step"], name=level["name"])
            if is_whole and len(index) == num_rows:
                found.append(index)
            elif not stored:
                found.append(pd.RangeIndex(num_rows, name=level["name"]))
        elif levels is not None and level in stored:
            values = levels.iloc[:, stored.index(level)]
            found.append(pd.Index(values).rename(names.get(level)))
    if not found:
        return pd.RangeIndex(num_rows)
    return pd.MultiIndex.from_arrays(found) if len(found) > 1 else found[0]


def _converted(
    table: pa.Table, description: Description, use_threads: bool, types_mapper: TypesMapper | None
) -> pd.DataFrame:
    """Convert columns, with the dtypes of Arrow and of categories that are described."""
    pd = import_pandas()
    if types_mapper is not None:
        return _to_pandas(table, description, use_threads, types_mapper)
    marked = {column["field_name"]: column for column in description["columns"]}
    held = [name for name in table.column_names if describing.is_of_arrow(marked.get(name, {}))]
    others = [name for name in table.column_names if name not in set(held)]
    rest, categoricals = _without_categories(table.select(others), marked)
    frame = _to_pandas(rest, description, use_threads, None)
    for place, values in categoricals.items():
        frame.isetitem(place, values)
    if not held:
        return frame
    values = _to_pandas(table.select(held), description, use_threads, pd.ArrowDtype)
    if not others:
        return values
    place_of = {name: place for place, name in enumerate([*others, *held])}
    order = [place_of[name] for name in table.column_names]
    return pd.concat([frame, values], axis=1).iloc[:, order]


def _without_categories(
    table: pa.Table, marked: Mapping[str, Description]
) -> tuple[pa.Table, dict[int, pd.Categorical]]:
    """Convert columns whose categories have a dtype that Arrow does not restore.

    Return them by place, and the table with other values in their place.
    """
    categoricals = {}
    for place, field in enumerate(table.schema):
        if not types.is_dictionary(field.type):
            continue
        column = table.column(place)
        dtype = describing.category_dtype(marked.get(field.name, {}))
        values = None if dtype is None else _categorical(column, dtype)
        if values is not None:
            categoricals[place] = values
            column = pa.nulls(table.num_rows, pa.bool_())
        elif types.is_nested(field.type.value_type):  # pandas has no categories of dicts or lists
            chunks = [chunk.dictionary.take(chunk.indices) for chunk in column.chunks]
            column = pa.chunked_array(chunks, field.type.value_type)
        else:
            continue
        table = table.set_column(place, field.name, column)
    return table, categoricals


def _categorical(column: pa.ChunkedArray, dtype: Any) -> pd.Categorical | None:
    """Convert a column of dictionaries to categories of a dtype; return None if they do not fit."""
    pd = import_pandas()
    column = column.unify_dictionaries() if _differ(column) else column
    values = column.chunk(0).dictionary
    try:
        if dtype is pd.ArrowDtype:
            dtype = pd.ArrowDtype(values.type)
        if hasattr(dtype, "__from_arrow__"):
            categories = pd.Index(dtype.__from_arrow__(values))
        else:
            categories = pd.Index(values.to_pandas(), dtype=dtype)
    except (pa.ArrowException, ValueError, TypeError, LookupError, AttributeError):
        return None  # the categories of another file
    codes = pa.chunked_array([chunk.indices for chunk in column.chunks]).fill_null(-1)
    return pd.Categorical.from_codes(codes.to_numpy(), categories, ordered=column.type.ordered)


def _differ(column: pa.ChunkedArray) -> bool:
    """Return whether the chunks of a column have different dictionaries."""
    first = column.chunk(0).dictionary
    return not all(chunk.dictionary.equals(first) for chunk in column.chunks)


def _to_pandas(
    table: pa.Table, description: Description, use_threads: bool, types_mapper: TypesMapper | None
) -> pd.DataFrame:
    columns = set(table.column_names)
    described = {
        **description,
        "index_columns": [],
        "columns": [one for one in description["columns"] if one["field_name"] in columns],
    }
    metadata = {describing.KEY: json.dumps(described)}
    return table.replace_schema_metadata(metadata).to_pandas(
        use_threads=use_threads, types_mapper=types_mapper
    )

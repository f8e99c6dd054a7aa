"""Read and write pandas DataFrames, with their index and their dtypes.

Arrow describes a DataFrame in a JSON document, which the annex stores as metadata of the schema: the
columns of the index and the dtype of each column. For ten thousand columns, that would be a megabyte
to read with every query. So columns whose dtype Arrow chooses anyway are left out of the document.

A second document restores types that the format stores as other types, such as unsigned integers and
categories: it contains these types as an Arrow schema, which of them each column has, and the
categories as a Mosaic file.

pandas is optional, and imported when it is needed.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, Unpack

import pyarrow as pa
from pyarrow import types

from ..dataset.discovery import is_many
from ..dataset.fileset import FileSet, Partitioning
from ..errors import CorruptFileError, MosaicError, SchemaMismatchError, UnsupportedError, located
from ..file.options import WriteOptions, accepts_options, check_names
from ..file.reader import MosaicFile, Readable
from ..file.writer import MosaicWriter, Writable
from ..format.types import storage_type
from ..memory import MemoryLimit

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["read_pandas", "write_pandas"]

_DESCRIPTION: Final = b"pandas"  # the metadata key that Arrow uses
_TYPES: Final = b"fastmosaic:types"
_CATEGORIES: Final = "categories"
_COLUMN: Final = {"name", "field_name", "pandas_type", "numpy_type"}
_RANGE: Final = {"name", "start", "stop", "step"}

# The dtypes that Arrow chooses for columns without a description.
_USUAL_DTYPES: Final = frozenset(
    {
        *("bool", "int8", "int16", "int32", "int64", "float32", "float64", "object", "str"),
        *("uint8", "uint16", "uint32"),
        *("datetime64[s]", "datetime64[ms]", "datetime64[us]", "datetime64[ns]"),
    }
)
# The suffix of dtypes that are Arrow types; pandas can only parse some of these names.
_ARROW_DTYPE: Final = "[pyarrow]"
_OF_ARROW: Final = {b"dtype": b"arrow"}  # marks such a dtype where its name does not

Description: TypeAlias = dict[str, Any]


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
    types_mapper: Callable[[pa.DataType], Any] | None = None,
    memory_limit: MemoryLimit = None,
    strict: bool = True,
) -> pd.DataFrame:
    """Read Mosaic files into a pandas DataFrame, with the index that `write_pandas` stored.

    Parameters
    ----------
    source : path, URI, binary file object, buffer, or list of paths
        One file, or many as a directory, a glob or a list.
    columns : list, optional
        The columns to read, in this order, by their names in pandas. By default all columns. The
        columns of the index are always read.
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
    _import_pandas()
    opening = {"filesystem": filesystem, "memory_limit": memory_limit, "strict": strict}
    of_many = {"partitioning": partitioning, "unify": unify, "follow_links": follow_links}
    rows = _open(source, opening, of_many)
    name = str(source) if isinstance(source, str | os.PathLike) else None
    try:
        with located(file=name, part="pandas metadata"):
            metadata = _metadata(rows)
            description = _description(metadata)
        names = _names(rows, columns, description)
        table = rows.read(names, filters=filters, use_threads=use_threads)
    finally:
        if isinstance(rows, MosaicFile):
            rows.close()
    is_whole = filters is None and not (isinstance(rows, FileSet) and len(rows.files) > 1)
    of_arrow: set[str] = set()
    if types_mapper is None:
        with located(file=name, part="pandas metadata"):
            typed = _decode_types(metadata, table.column_names)
        table = _with_types(table, description, typed)
        of_arrow = _of_arrow_dtype(description, typed)
    return _frame(table, description, of_arrow, is_whole, use_threads, types_mapper)


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
    pd = _import_pandas()
    if not isinstance(df, pd.DataFrame):
        raise TypeError(f"expected a pandas.DataFrame, not {type(df).__name__}")
    _check_names(df.columns)
    if index is None and df.index.nlevels > 1:
        index = True  # a level may be a range, which must not be left out alone
    table = pa.Table.from_pandas(
        df, preserve_index=index, nthreads=None if options.get("use_threads", True) else 1
    )
    # The columns of the index follow all others.
    of_arrow = {
        field.name: dtype
        for field, dtype in zip(table.schema, df.dtypes, strict=False)
        if isinstance(dtype, pd.ArrowDtype)
    }
    unnamed = {name for name, dtype in of_arrow.items() if not _has_name(dtype)}
    description = _shortened(table.schema.pandas_metadata, unnamed)
    metadata = {_DESCRIPTION: json.dumps(description).encode()}
    changed = [field.name for field in table.schema if _is_changed(field, of_arrow)]
    if changed or unnamed:
        typed = dict.fromkeys((*changed, *unnamed))
        metadata[_TYPES] = _encode_types(table.select(typed), unnamed)
    if table.num_columns:  # a table without columns has lost its number of rows
        table = table.replace_schema_metadata(metadata)
    with MosaicWriter(where, table.schema, filesystem=filesystem, **options) as writer:
        writer.write_table(table)


def _import_pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ImportError("pandas is not installed: pip install 'fastmosaic[pandas]'") from error
    return pandas


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


# ---- what a file says of the frame that it was


def _description(metadata: dict[bytes, bytes]) -> Description:
    """Return Arrow's description of a DataFrame, or an empty one if there is none."""
    if _DESCRIPTION not in metadata:
        return {"index_columns": [], "columns": [], "column_indexes": []}
    try:
        description: Description = json.loads(metadata[_DESCRIPTION])
        is_right = all(column.keys() >= _COLUMN for column in description["columns"]) and all(
            isinstance(level, str) or level.keys() >= _RANGE
            for level in description["index_columns"]
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        is_right = False
    if not is_right:
        raise CorruptFileError("the description of the DataFrame is invalid")
    return description


def _shortened(description: Description, without: Container[str] = ()) -> Description:
    """Return the description without columns whose dtype Arrow chooses anyway."""
    index = set(_index_columns(description))
    columns = [
        {**column, "numpy_type": "object"} if column["field_name"] in without else column
        for column in description["columns"]
        if column["numpy_type"] not in _USUAL_DTYPES
        or column["name"] != column["field_name"]
        or column["field_name"] in index
    ]
    return {**description, "columns": columns}


def _index_columns(description: Description) -> list[str]:
    return [level for level in description["index_columns"] if isinstance(level, str)]


def _is_changed(field: pa.Field, of_arrow: Container[str]) -> bool:
    """Whether the file stores a column as another type, which would show in pandas."""
    try:
        if storage_type(field.type) == field.type:
            return False
    except UnsupportedError:
        return False  # the writer raises an error about it
    if types.is_large_string(field.type) or types.is_large_binary(field.type):
        return field.name in of_arrow
    return not isinstance(field.type, pa.BaseExtensionType)


def _has_name(dtype: Any) -> bool:
    """Whether pandas can parse the name of a dtype."""
    pd = _import_pandas()
    try:
        return bool(pd.api.types.pandas_dtype(str(dtype)) == dtype)
    except (TypeError, NotImplementedError):
        return False


def _encode_types(table: pa.Table, of_arrow: Container[str]) -> bytes:
    """Encode the types and categories of the columns of `table`, and which are Arrow dtypes."""
    numbers: dict[str, int] = {}
    columns = {
        name: numbers.setdefault(_encode_type(column, name in of_arrow), len(numbers))
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
    return json.dumps({"types": [*numbers], "columns": columns}).encode()


def _encode_type(column: pa.ChunkedArray, of_arrow: bool) -> str:
    field = pa.field("", column.type, metadata=_OF_ARROW if of_arrow else None)
    encoded = {"schema": _to_text(pa.schema([field]).serialize())}
    if types.is_dictionary(column.type):
        chunks = column.chunks or [pa.array([], column.type)]
        sink = pa.BufferOutputStream()
        categories = pa.table([chunks[0].dictionary], [_CATEGORIES])
        with MosaicWriter(sink, categories.schema, annex=False) as writer:
            writer.write_table(categories)
        encoded[_CATEGORIES] = _to_text(sink.getvalue())
    return json.dumps(encoded)


@dataclass(frozen=True, slots=True)
class _Type:
    """The type of a column in the DataFrame, and its categories, if any."""

    field: pa.Field
    categories: pa.Array | None

    @classmethod
    def decode(cls, text: str) -> _Type:
        encoded = json.loads(text)
        (field,) = pa.ipc.read_schema(_to_buffer(encoded["schema"]))
        if not types.is_dictionary(field.type):
            return cls(field, None)
        # Arrow's own formats would allocate memory without checking sizes.
        with MosaicFile(_to_buffer(encoded[_CATEGORIES])) as file:
            categories = file.read()[_CATEGORIES].combine_chunks()
        if types.is_null(field.type.value_type):  # no categories; the format has no type null
            return cls(field, pa.nulls(0))
        return cls(field, categories.cast(field.type.value_type))

    @property
    def is_of_arrow(self) -> bool:
        return bool(self.field.metadata == _OF_ARROW)


def _to_text(buffer: pa.Buffer) -> str:
    return base64.b64encode(buffer).decode()


def _to_buffer(text: str) -> pa.Buffer:
    return pa.py_buffer(base64.b64decode(text, validate=True))


def _decode_types(metadata: dict[bytes, bytes], names: Iterable[str]) -> dict[str, _Type]:
    """Return the types of columns that the file stores as other types."""
    if _TYPES not in metadata:
        return {}
    decoded: dict[int, _Type] = {}
    found = {}
    try:
        document = json.loads(metadata[_TYPES])
        columns = document["columns"]
        for name in names:
            if name not in columns:
                continue
            number = columns[name]
            if number not in decoded:
                decoded[number] = _Type.decode(document["types"][number])
            found[name] = decoded[number]
    except (
        *(pa.ArrowException, MosaicError, OSError),
        *(ValueError, LookupError, TypeError, RecursionError),
    ) as error:
        raise CorruptFileError(f"the types of the DataFrame are invalid: {error}") from error
    return found


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
    return [*asked, *(name for name in _index_columns(description) if _has(rows, name))]


def _stored_name(name: Any) -> str:
    """Return the name that Arrow gives to a column."""
    return str(tuple(map(_stored_name, name)) if isinstance(name, tuple) else name)


def _has(rows: MosaicFile | FileSet, name: str) -> bool:
    if isinstance(rows, MosaicFile):
        return rows.metadata.schema_block.find(name) >= 0
    return rows.columns.has(name)


def _with_types(table: pa.Table, description: Description, typed: Mapping[str, _Type]) -> pa.Table:
    """Return the table with the types and categories of the DataFrame."""
    known = {
        column["field_name"]: _CATEGORY
        for column in description["columns"]
        if column["pandas_type"] == "categorical"
    }
    known.update(typed)
    if known.keys().isdisjoint(table.column_names):
        return table
    columns = {
        name: _as_type(column, known[name]) if name in known else column
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
    return pa.table(columns)


# Of a frame that Arrow described but we did not write: which there are is not known.
_CATEGORY: Final = _Type(pa.field("", pa.dictionary(pa.int32(), pa.string())), None)


def _as_type(column: pa.ChunkedArray, typed: _Type) -> pa.ChunkedArray:
    """Convert values to a type; if they do not fit, return them as they are, or as categories."""
    type = typed.field.type
    if types.is_null(type) and column.null_count == len(column):
        return pa.chunked_array([pa.nulls(len(column))])
    try:
        if not types.is_dictionary(type):
            return column.cast(type)
        if typed.categories is not None:
            return _coded(column, typed.categories, type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        pass  # from another file, with another type or other categories
    if not types.is_dictionary(type):
        return column
    found = column.unique().drop_null()
    return _coded(column, found.sort(), pa.dictionary(pa.int32(), found.type))


def _coded(column: pa.ChunkedArray, categories: pa.Array, type: pa.DataType) -> pa.ChunkedArray:
    import pyarrow.compute as pc

    codes = pc.index_in(column, value_set=categories.cast(column.type))
    if codes.null_count > column.null_count:
        raise pa.ArrowInvalid("some values are not among the categories")
    indices = codes.combine_chunks().cast(type.index_type)
    coded = pa.DictionaryArray.from_arrays(indices, categories, ordered=type.ordered)
    return pa.chunked_array([coded])


def _frame(
    table: pa.Table,
    description: Description,
    of_arrow: set[str],
    is_whole: bool,
    use_threads: bool,
    types_mapper: Callable[[pa.DataType], Any] | None,
) -> pd.DataFrame:
    """Convert a table to a DataFrame as described."""
    pd = _import_pandas()
    description = _understood(description, table.column_names)
    stored = [level for level in _index_columns(description) if level in table.column_names]
    ranges = [level for level in description["index_columns"] if isinstance(level, dict)]
    levels = [
        level
        for level in description["index_columns"]
        if level in stored or (is_whole and level in ranges)
    ]
    of_arrow = of_arrow.difference(stored)
    others = [name for name in table.column_names if name not in of_arrow]
    held = [name for name in table.column_names if name in of_arrow]
    frame = _to_pandas(table.select(others), description, levels, use_threads, types_mapper)
    if not stored:
        rows = _range(ranges, table.num_rows, is_whole)
        frame = frame.set_axis(rows) if len(frame) == len(rows) else frame.reindex(rows)
    if not held:
        return frame
    values = _to_pandas(table.select(held), description, [], use_threads, pd.ArrowDtype)
    values = values.set_axis(frame.index)
    if not len(frame.columns):
        return values
    joined = [*(name for name in others if name not in stored), *held]
    place = {name: i for i, name in enumerate(joined)}
    order = [place[name] for name in table.column_names if name in place]
    return pd.concat([frame, values], axis=1).iloc[:, order]


def _to_pandas(
    table: pa.Table, description: Description, levels: list[Any], use_threads: bool, mapper: Any
) -> pd.DataFrame:
    columns = set(table.column_names)
    described = {
        **description,
        "index_columns": levels,
        "columns": [one for one in description["columns"] if one["field_name"] in columns],
    }
    metadata = {_DESCRIPTION: json.dumps(described)}
    return table.replace_schema_metadata(metadata).to_pandas(
        use_threads=use_threads, types_mapper=mapper
    )


def _understood(description: Description, names: Iterable[str]) -> Description:
    """Return the description of the columns `names`, without dtypes that pandas cannot parse."""
    pd = _import_pandas()
    wanted = set(names)
    columns = [one for one in _shortened(description)["columns"] if one["field_name"] in wanted]
    unknown = set()
    for dtype in {one["numpy_type"] for one in columns}:
        try:
            pd.api.types.pandas_dtype(dtype)
        except (TypeError, NotImplementedError):
            unknown.add(dtype)
    return {
        **description,
        "columns": [
            {**one, "numpy_type": "object"} if one["numpy_type"] in unknown else one
            for one in columns
        ],
    }


def _of_arrow_dtype(description: Description, typed: Mapping[str, _Type]) -> set[str]:
    """Return the columns whose dtype is an Arrow type."""
    named = (
        column["field_name"]
        for column in description["columns"]
        if column["numpy_type"].endswith(_ARROW_DTYPE)
    )
    return {*named, *(name for name, one in typed.items() if one.is_of_arrow)}


def _range(ranges: Sequence[Description], num_rows: int, is_whole: bool) -> pd.RangeIndex:
    """Return the RangeIndex of a DataFrame."""
    pd = _import_pandas()
    if not ranges:
        return pd.RangeIndex(num_rows)
    (level,) = ranges
    index = pd.RangeIndex(level["start"], level["stop"], level["step"], name=level["name"])
    if is_whole and len(index) == num_rows:
        return index
    return pd.RangeIndex(num_rows, name=level["name"])

"""The document that describes a pandas DataFrame in the metadata of a file.

It is Arrow's JSON document with the columns of the index and the dtype of each column, without the
columns whose dtype Arrow chooses anyway. For ten thousand columns, those would be a megabyte to read
with every query.

The file restores the Arrow type of each column, with its categories. Two things Arrow cannot say are
added to the document: which columns keep their values in Arrow, as `pandas.ArrowDtype`, if pandas cannot
parse the name of such a dtype; and the dtype of categories, if it is not the one that Arrow chooses.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ..errors import CorruptFileError, UnsupportedError

if TYPE_CHECKING:
    import pandas as pd

Description: TypeAlias = dict[str, Any]

KEY: Final = b"pandas"  # the metadata key that Arrow uses
_COLUMN: Final = {"name", "field_name", "pandas_type", "numpy_type"}
_RANGE: Final = {"name", "start", "stop", "step"}

_UNITS: Final = ("s", "ms", "us", "ns")
# The dtypes that Arrow chooses for columns without a description.
_USUAL_DTYPES: Final = frozenset(
    {
        *("bool", "int8", "int16", "int32", "int64", "float32", "float64", "object", "str"),
        *("uint8", "uint16", "uint32", "uint64", "float16"),
        *(f"{kind}64[{unit}]" for kind in ("datetime", "timedelta") for unit in _UNITS),
    }
)
# The suffix of dtypes that are Arrow types; pandas can only parse some of these names.
_ARROW_DTYPE: Final = "[pyarrow]"
# What we add to the description of a column.
_OF_ARROW: Final = {"dtype": "arrow"}
_CATEGORIES: Final = "categories"
# The labels of columns that Arrow stores as strings and does not restore.
_LOST_LABELS: Final = frozenset({"bool", "timedelta64", "categorical", "interval", "period"})


def import_pandas() -> Any:
    """Return the module pandas, with its Arrow types registered."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError("pandas is not installed: pip install 'fastmosaic[pandas]'") from error
    # Registers the types of periods and intervals; pandas.read_parquet does the same.
    import pandas.core.arrays.arrow.extension_types

    return pandas


# ---- writing


def dtypes_of(df: pd.DataFrame, names: Sequence[str], description: Description) -> dict[str, Any]:
    """Return the dtype of each column of the table that Arrow made of `df` and described."""
    levels = df.index.levels if df.index.nlevels > 1 else [df.index]
    # The columns of the index follow all others, and a range is not a column.
    dtypes = dict(zip(names, df.dtypes, strict=False))
    for name, level in zip(description["index_columns"], levels, strict=False):
        if isinstance(name, str):
            dtypes[name] = level.dtype
    return dtypes


def encode(description: Description, dtypes: Mapping[str, Any]) -> bytes:
    """Encode the description of a table whose columns have these dtypes in pandas."""
    for level in description["column_indexes"]:
        kind = level["pandas_type"]
        if kind in _LOST_LABELS:
            raise UnsupportedError(
                f"the column labels of the DataFrame are of type {kind}, which cannot be restored; "
                "convert them to strings, for example with df.columns.astype(str)"
            )
    columns = [{**one, **_marks(dtypes[one["field_name"]])} for one in description["columns"]]
    return json.dumps(_shortened({**description, "columns": columns})).encode()


def _marks(dtype: Any) -> Description:
    """Return what has to be said about a dtype."""
    pd = import_pandas()
    if isinstance(dtype, pd.ArrowDtype) and not _has_name(dtype):
        return {"numpy_type": "object", **_OF_ARROW}
    if isinstance(dtype, pd.CategoricalDtype):
        name = str(dtype.categories.dtype)
        if name == "object" or name not in _USUAL_DTYPES:
            return {_CATEGORIES: name}
    return {}


def _has_name(dtype: Any) -> bool:
    """Return whether pandas can parse the name of a dtype."""
    pd = import_pandas()
    try:
        return bool(pd.api.types.pandas_dtype(str(dtype)) == dtype)
    except (TypeError, NotImplementedError):
        return False


def _shortened(description: Description) -> Description:
    """Return the description without columns whose dtype Arrow chooses anyway."""
    index = set(index_columns(description))
    columns = [
        column
        for column in description["columns"]
        if column["numpy_type"] not in _USUAL_DTYPES
        or column["name"] != column["field_name"]
        or column["field_name"] in index
        or _CATEGORIES in column
        or is_of_arrow(column)
    ]
    return {**description, "columns": columns}


# ---- reading


def decode(metadata: Mapping[bytes, bytes]) -> Description:
    """Return the description in the metadata of a schema, or an empty one if there is none."""
    if KEY not in metadata:
        return {"index_columns": [], "columns": [], "column_indexes": []}
    try:
        description: Description = json.loads(metadata[KEY])
        is_right = all(column.keys() >= _COLUMN for column in description["columns"]) and all(
            isinstance(level, str) or level.keys() >= _RANGE
            for level in description["index_columns"]
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        is_right = False
    if not is_right:
        raise CorruptFileError("the description of the DataFrame is invalid")
    return description


def understood(description: Description, names: Iterable[str]) -> Description:
    """Return the description of the columns `names`, without dtypes that pandas cannot parse."""
    pd = import_pandas()
    wanted = set(names)
    columns = [one for one in _shortened(description)["columns"] if one["field_name"] in wanted]
    changes: dict[str, Description] = {}
    for dtype in {one["numpy_type"] for one in columns}:
        changes[dtype] = {}
        if dtype.endswith(_ARROW_DTYPE):
            changes[dtype] = {"numpy_type": "object", **_OF_ARROW}
            continue
        try:
            pd.api.types.pandas_dtype(dtype)
        except (TypeError, NotImplementedError):
            changes[dtype] = {"numpy_type": "object"}
    return {**description, "columns": [{**one, **changes[one["numpy_type"]]} for one in columns]}


def index_columns(description: Description) -> list[str]:
    """Return the columns that contain levels of the index."""
    return [level for level in description["index_columns"] if isinstance(level, str)]


def is_of_arrow(column: Description) -> bool:
    """Return whether the dtype of a column is an Arrow type."""
    return column.items() >= _OF_ARROW.items()


def category_dtype(column: Description) -> Any:
    """Return the dtype of the categories of a column, or None if Arrow chooses it."""
    pd = import_pandas()
    name = column.get(_CATEGORIES)
    if not isinstance(name, str):
        return None
    try:
        return pd.ArrowDtype if name.endswith(_ARROW_DTYPE) else pd.api.types.pandas_dtype(name)
    except (TypeError, NotImplementedError):
        return None

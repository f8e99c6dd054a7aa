"""The hidden column `_metadata`, which tells the file that a row is from and its number in it.

Name and fields are those that Spark gives to the rows of its own file formats.
"""

from __future__ import annotations

import os
from typing import Final
from urllib.parse import quote

import pyarrow as pa

from ..dataset.found import Found

__all__ = ["ORIGIN", "origin_of"]

ORIGIN: Final = pa.field(
    "_metadata",
    pa.struct(
        [
            pa.field("file_path", pa.string(), nullable=False),
            pa.field("file_name", pa.string(), nullable=False),
            pa.field("file_size", pa.int64(), nullable=False),
            pa.field("row_index", pa.int64(), nullable=False),
        ]
    ),
    nullable=False,
)
# Characters besides letters and digits that Spark does not encode in the path of a URI.
_KEPT: Final = "/=:@!$&'()*+,;~"


def origin_of(found: Found, size: int, numbers: pa.Array, type: pa.StructType) -> pa.Array:
    """Return the values of the column, with the fields of `type`, for rows of a file."""
    name = found.name.rpartition("/")[2]
    place = found.name
    if found.filesystem is None:
        place = f"file://{quote(os.path.abspath(found.path), safe=_KEPT)}"
    constants = {"file_path": place, "file_name": name, "file_size": size}
    arrays = [
        numbers
        if field.name not in constants
        else pa.repeat(pa.scalar(constants[field.name], field.type), len(numbers))
        for field in type
    ]
    return pa.StructArray.from_arrays(arrays, fields=list(type))

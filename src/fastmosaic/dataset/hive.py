"""Hive partitions: directories named `key=value`, and the columns that they stand for.

parse      the keys and texts in the directories of one file
resolve    the columns of all files, and their values in each
directory  the directories for given values: what `parse` and `resolve` take back
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import pyarrow as pa

from ..errors import SchemaMismatchError, UnsupportedError
from ..storage.listing import unquoted

NULL: Final = "__HIVE_DEFAULT_PARTITION__"

# What Hive escapes, what Windows forbids, and what marks a wildcard. A percent sign is among them,
# so what was escaped is told from what was there.
RESERVED: Final = frozenset("/\\:=%?#*\"'<>|[]{}^`")
INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,18}")
DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
SUPPORTED: Final = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_date,
    pa.types.is_timestamp,
)


def parse(directories: Sequence[str], name: str) -> dict[str, str | None]:
    """The keys of the file `name`, which lies in `directories`, and their values as text.

    Directories without `key=` are just directories.
    """
    keys: dict[str, str | None] = {}
    for segment in directories:
        raw_key, equals, raw_value = segment.partition("=")
        if not raw_key or not equals:
            continue
        key = _decode(raw_key, name)
        # Before decoding: a string that looks like it is escaped.
        value = None if raw_value == NULL else _decode(raw_value, name)
        if keys.setdefault(key, value) != value:
            raise SchemaMismatchError(
                f"{name}: the partition {key!r} is both {keys[key]!r} and {value!r}"
            )
    return keys


def resolve(
    found: Sequence[tuple[str, Mapping[str, str | None]]], schema: pa.Schema | None
) -> tuple[pa.Schema, list[tuple[pa.Scalar, ...]]]:
    """The partition columns of files, and the values of each file in their order.

    `found` has the name of each file and what `parse` found. Types are those of `schema`, and keys
    that it lacks are left out; without it, they are the narrowest that lose nothing of the texts.
    """
    if not found:
        return pa.schema([]), []
    _check_same_keys(found)
    fields = []
    columns = []
    for key in found[0][1]:
        if schema is not None and key not in schema.names:
            continue
        texts = [keys[key] for _, keys in found]
        distinct = dict.fromkeys(text for text in texts if text is not None)
        arrow = _infer(distinct) if schema is None else schema.field(key).type
        scalars = _scalars(key, distinct, arrow, found)
        fields.append(pa.field(key, arrow))
        columns.append([scalars[text] for text in texts])
    rows = list(zip(*columns, strict=True)) if columns else [()] * len(found)
    return pa.schema(fields), rows


def directory(names: Sequence[str], values: Sequence[pa.Scalar]) -> str:
    """The relative directory for values of the partition columns `names`: `a=1/b=x`."""
    segments = []
    for name, given in zip(names, values, strict=True):
        if not name:
            raise ValueError("a partition column must have a name")
        value = given.value if isinstance(given, pa.DictionaryScalar) else given
        text = _encode(_text(name, value)) if value.is_valid else NULL
        segments.append(f"{_encode(name)}={text}")
    return "/".join(segments)


def check_type(name: str, arrow: pa.DataType) -> None:
    """Raise if no value of the partition column could name a directory."""
    values = arrow.value_type if pa.types.is_dictionary(arrow) else arrow
    if not any(is_kind(values) for is_kind in SUPPORTED):
        raise UnsupportedError(
            f"the partition column {name!r} is of type {arrow}, which has no text for the names of "
            "directories; cast it to a string"
        )


def _check_same_keys(found: Sequence[tuple[str, Mapping[str, str | None]]]) -> None:
    first, expected = found[0]
    for name, keys in found:
        if keys.keys() != expected.keys():
            key = min(keys.keys() ^ expected.keys())
            has, lacks = (name, first) if key in keys else (first, name)
            raise SchemaMismatchError(f"{has} has the partition {key!r}, and {lacks} does not")


def _infer(texts: Iterable[str]) -> pa.DataType:
    texts = list(texts)
    if not texts:
        return pa.string()
    if all(map(INTEGER.fullmatch, texts)):
        numbers = [int(text) for text in texts]
        for bits, arrow in ((31, pa.int32()), (63, pa.int64())):
            if -1 << bits <= min(numbers) and max(numbers) < 1 << bits:
                return arrow
    elif all(map(_is_date, texts)):
        return pa.date32()
    return pa.string()


def _is_date(text: str) -> bool:
    try:
        return bool(DATE.fullmatch(text) and datetime.date.fromisoformat(text))
    except ValueError:
        return False


def _scalars(
    key: str,
    texts: Iterable[str],
    arrow: pa.DataType,
    found: Sequence[tuple[str, Mapping[str, str | None]]],
) -> dict[str | None, pa.Scalar]:
    """Each text as a value, and None as null."""
    texts = list(texts)
    scalars: dict[str | None, pa.Scalar] = {None: pa.scalar(None, arrow)}
    if not texts:
        return scalars
    try:
        scalars.update(zip(texts, pa.array(texts, pa.string()).cast(arrow), strict=True))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        for name, keys in found:
            text = keys[key]
            if text is not None and not _casts(text, arrow):
                raise SchemaMismatchError(
                    f"{name}: {text!r} of the partition {key!r} is no value of type {arrow}"
                ) from None
        raise
    return scalars


def _casts(text: str, arrow: pa.DataType) -> bool:
    try:
        pa.array([text], pa.string()).cast(arrow)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True


def _text(name: str, value: pa.Scalar) -> str:
    """A value as text that casts back to it."""
    arrow = value.type
    check_type(name, arrow)
    if pa.types.is_timestamp(arrow) and arrow.tz is not None:
        # In local time the hour at the end of summer comes twice.
        value = value.cast(pa.timestamp(arrow.unit, "UTC"))
    text: str = value.cast(pa.string()).as_py()
    if not text:
        raise ValueError(
            f"an empty string in the partition column {name!r}: as the name of a directory it "
            "cannot be told from null"
        )
    if not _casts(text, value.type) or pa.scalar(text).cast(value.type) != value:
        raise ValueError(f"{text} in the partition column {name!r} cannot name a directory")
    return text


def _encode(text: str) -> str:
    # Names that start with these are hidden; Windows drops a dot or space from the end.
    last = len(text) - 1
    return "".join(
        "".join(f"%{byte:02X}" for byte in character.encode())
        if character in RESERVED
        or not character.isprintable()
        or (place == 0 and character in "._")
        or (place == last and character in ". ")
        else character
        for place, character in enumerate(text)
    )


def _decode(text: str, name: str) -> str:
    try:
        decoded = unquoted(text, errors="strict")
        decoded.encode()  # the name of a local file may be any bytes
    except UnicodeError:
        raise SchemaMismatchError(f"{name}: the directory of {text!r} is not UTF-8") from None
    return decoded

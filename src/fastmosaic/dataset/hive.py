"""Hive partitions: directories named `key=value`, and the columns that they stand for.

parse      returns the keys and texts in the directories of one file
resolve    returns the partition columns of all files, and their values in each file
directory  returns the directories for given values: the inverse of `parse` and `resolve`
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

# Characters that Hive escapes, that Windows forbids, or that are wildcards. The percent sign is one
# of them, so that escapes are unambiguous.
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
    """Return the partition keys of the file `name` in `directories`, with their values as text.

    Directories that are not named `key=value` are ignored.
    """
    keys: dict[str, str | None] = {}
    for segment in directories:
        raw_key, equals, raw_value = segment.partition("=")
        if not raw_key or not equals:
            continue
        key = _decode(raw_key, name)
        # Compared before decoding, because a string with this text is stored with escapes.
        value = None if raw_value == NULL else _decode(raw_value, name)
        if keys.setdefault(key, value) != value:
            raise SchemaMismatchError(
                f"the partition {key!r} has two values, {keys[key]!r} and {value!r}", file=name
            )
    return keys


def resolve(
    found: Sequence[tuple[str, Mapping[str, str | None]]], schema: pa.Schema | None
) -> tuple[pa.Schema, list[tuple[pa.Scalar, ...]]]:
    """Return the schema of the partition columns, and their values for each file.

    `found` contains the name of each file and the result of `parse`. With a `schema`, types are
    taken from it, and keys that it does not contain are dropped. Otherwise they are inferred:
    integers, dates, or else strings, whichever represents all texts exactly.
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
    """Return the relative directory for values of the partition columns `names`: `a=1/b=x`."""
    segments = []
    for name, given in zip(names, values, strict=True):
        if not name:
            raise ValueError("the name of a partition column must not be empty")
        value = given.value if isinstance(given, pa.DictionaryScalar) else given
        text = escaped(_text(name, value)) if value.is_valid else NULL
        segments.append(f"{escaped(name)}={text}")
    return "/".join(segments)


def check_type(name: str, arrow: pa.DataType) -> None:
    """Raise UnsupportedError if values of this type cannot name directories."""
    values = arrow.value_type if pa.types.is_dictionary(arrow) else arrow
    if not any(is_kind(values) for is_kind in SUPPORTED):
        raise UnsupportedError(
            f"the partition column {name!r} has type {arrow}, whose values cannot name directories; "
            "cast it to a string"
        )


def _check_same_keys(found: Sequence[tuple[str, Mapping[str, str | None]]]) -> None:
    first, expected = found[0]
    for name, keys in found:
        if keys.keys() != expected.keys():
            key = min(keys.keys() ^ expected.keys())
            has, lacks = (name, first) if key in keys else (first, name)
            raise SchemaMismatchError(
                f"{has} has a partition key {key!r}, but {lacks} does not; all files of a dataset "
                "must have the same keys"
            )


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
    """Return the value for each text, and null for None."""
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
                    f"the value {text!r} of the partition {key!r} is not a valid {arrow}",
                    file=name,
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
    """Return text that can be cast back to the value."""
    arrow = value.type
    check_type(name, arrow)
    if pa.types.is_timestamp(arrow) and arrow.tz is not None:
        # In local time, one hour in autumn occurs twice.
        value = value.cast(pa.timestamp(arrow.unit, "UTC"))
    text: str = value.cast(pa.string()).as_py()
    if not text:
        raise ValueError(
            f"the partition column {name!r} contains an empty string, which as the name of a "
            "directory is the same as null"
        )
    if not _casts(text, value.type) or pa.scalar(text).cast(value.type) != value:
        raise ValueError(
            f"the value {text} in the partition column {name!r} cannot name a directory"
        )
    return text


def escaped(text: str) -> str:
    """Return text as the name of a directory that is not hidden and that all systems accept."""
    # Names that start with a dot or underscore are hidden; Windows drops a final dot or space.
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
        decoded.encode()  # the name of a local file may consist of any bytes
    except UnicodeError:
        raise SchemaMismatchError(
            f"the name {text!r} of a partition directory is not valid UTF-8", file=name
        ) from None
    return decoded

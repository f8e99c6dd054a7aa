"""Read CSV and JSON lines as batches, and infer the types of their columns.

Arrow infers types from the first block of a file. That is not enough for wide tables, whose columns are
often empty there, or for JSON, where a field may first occur anywhere.
"""

from __future__ import annotations

import io
import re
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import pyarrow as pa
from pyarrow import types

from ..errors import CorruptFileError, SchemaMismatchError
from ..format.paths import Path
from ..schemas.union import Fixed
from .leaves import changed, leaf_values, retyped

# Parsed at a time. Arrow reads about thirty of them ahead.
BLOCK_BYTES: Final = 8 << 20

_CSV_VALUE: Final = re.compile(
    r"In CSV column #(\d+): (?:Row #(\d+): )?CSV conversion error to (.+?): (.*)", re.DOTALL
)
_LEADING_ZERO: Final = re.compile(rb"(?<![0-9A-Za-z.:_/-])[+-]?0[0-9]")
_FRACTIONAL: Final = r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d\.\d{1,9}Z?"
_MAX_SHOWN: Final = 200
_CSV_TYPES: Final = {pa.float16(): pa.float32()}  # as which Arrow reads a type that it lacks


@dataclass(frozen=True, slots=True)
class Dialect:
    """The dialect of a CSV file."""

    delimiter: str = ","
    has_header: bool = True  # otherwise, columns are called f0, f1, ...


DEFAULT_DIALECT: Final = Dialect()


class ValueMismatchError(SchemaMismatchError):
    """A value in text does not have the type that was inferred or given for its column."""


@contextmanager
def open_text(
    source: Any,
    format: str,
    schema: pa.Schema | None = None,
    columns: Sequence[str] | None = None,
    dialect: Dialect = DEFAULT_DIALECT,
) -> Iterator[Any]:
    """Open a reader of the rows of a stream.

    `schema` contains the types of columns, and for JSON all fields. `columns` selects columns; then
    `schema` must contain all columns of a CSV file, in its order.
    """
    with _translated(None if columns is None or schema is None else schema.names):
        reader = (_open_csv if format == "csv" else _open_json)(source, schema, columns, dialect)
    with reader:
        yield reader


def rows(reader: Any, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a reader; `names` are the columns of its file."""
    with _translated(names):
        yield from reader


def read_schema(
    open_stream: Callable[[], AbstractContextManager[Any]],
    format: str,
    given: Callable[[Sequence[str]], Mapping[str, pa.DataType]],
    dialect: Dialect = DEFAULT_DIALECT,
    *,
    whole: bool = True,
) -> pa.Schema:
    """Infer the columns of a file; `given` returns known types of some of the columns it is passed.

    Types are inferred from the first block. With `whole`, fields of JSON and their types are inferred
    from the whole file, and CSV columns without a value in the first block get their types from the
    first block in which they have one.

    Text such as 2024-01-31 is a date in both formats, and text such as 2024-01-31 12:00:00.5 a
    timestamp. A CSV column that is inferred as integers but
    contains values with leading zeros, such as zip codes, causes a `LeadingZerosWarning`.
    """
    if format == "json":
        with open_stream() as stream, _translated(None):
            blocks = _blocks_of_lines(stream)
            schema = _schema_of_blocks(blocks if whole else islice(blocks, 1))
        paths = Fixed(schema).paths()
        return with_types(schema, given(list(dict.fromkeys([*schema.names, *paths]))))
    with open_stream() as stream, open_text(stream, format, dialect=dialect) as reader:
        check_names(reader.schema.names)
        known = given(reader.schema.names)
        schema = with_types(reader.schema, known)
    integers = [one.name for one in schema if types.is_integer(one.type) and one.name not in known]
    zeros = _with_leading_zeros(open_stream, integers, dialect)
    unknown = [field.name for field in schema if types.is_null(field.type)]
    if whole and unknown:
        later, more = _found_later(open_stream, unknown, dialect)
        schema = with_types(schema, later)
        zeros += more
    if zeros:
        shown = ", ".join(map(repr, zeros[:5])) + (", ..." if len(zeros) > 5 else "")
        columns = f"column {shown}" if len(zeros) == 1 else f"{len(zeros)} columns ({shown})"
        warnings.warn(
            f"leading zeros are lost in {columns}, which is read as integers; use --type "
            f"'{zeros[0]}=string' to keep them",
            LeadingZerosWarning,
            stacklevel=2,
        )
    return schema


class LeadingZerosWarning(UserWarning):
    """A column of text is read as integers, although some of its values have leading zeros."""


def with_types(schema: pa.Schema, given: Mapping[str, pa.DataType]) -> pa.Schema:
    """Return the schema with the types given for columns, or for fields by their paths.

    Columns that it lacks are added.
    """
    columns = Fixed(schema)
    paths = {name: columns.path(name) for name in given}
    known = {path: given[name] for name, path in paths.items() if path is not None}
    new = [pa.field(name, given[name]) for name, path in paths.items() if path is None]
    schema = retyped(schema, known)
    return pa.schema([*schema, *new], schema.metadata)


def check_names(names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise SchemaMismatchError(f"it has the column {twice!r} more than once")


# ---- CSV


def _open_csv(
    source: Any, schema: pa.Schema | None, columns: Sequence[str] | None, dialect: Dialect
) -> Any:
    from pyarrow import csv

    column_types = None
    if schema is not None:
        column_types = {field.name: _CSV_TYPES.get(field.type, field.type) for field in schema}
    return csv.open_csv(
        source,
        read_options=csv.ReadOptions(
            block_size=BLOCK_BYTES,
            use_threads=False,
            autogenerate_column_names=not dialect.has_header,
        ),
        parse_options=csv.ParseOptions(delimiter=dialect.delimiter, newlines_in_values=True),
        convert_options=_conversion(
            column_types=column_types, include_columns=columns, include_missing_columns=True
        ),
    )


def _conversion(**options: Any) -> Any:
    from pyarrow import csv

    # Only an empty field without quotes is null: "NA" may be a name.
    return csv.ConvertOptions(
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        **options,
    )


def _found_later(
    open_stream: Callable[[], AbstractContextManager[Any]], names: Sequence[str], dialect: Dialect
) -> tuple[dict[str, pa.DataType], list[str]]:
    """Return the types of CSV columns, each by the first block in which it has a value.

    Also return the columns that are inferred as integers, but have leading zeros in that block.
    """
    found: dict[str, pa.DataType] = {}
    zeros: list[str] = []
    for batch in _as_text(open_stream, names, dialect):
        values = {
            name: column
            for name, column in zip(names, batch.columns, strict=True)
            if column.null_count < len(column) and name not in found
        }
        if values:
            later = _types_of(pa.table(values))
            found |= later
            zeros += [
                name
                for name, type in later.items()
                if types.is_integer(type) and _has_leading_zeros(values[name])
            ]
            if len(found) == len(names):
                break
    return found, zeros


def _as_text(
    open_stream: Callable[[], AbstractContextManager[Any]], names: Sequence[str], dialect: Dialect
) -> Generator[pa.RecordBatch]:
    """Yield columns of a CSV file as text."""
    wanted = pa.schema([pa.field(name, pa.string()) for name in names])
    with (
        open_stream() as stream,
        open_text(stream, "csv", wanted, names, dialect) as reader,
    ):
        yield from rows(reader, names)


def _with_leading_zeros(
    open_stream: Callable[[], AbstractContextManager[Any]], names: Sequence[str], dialect: Dialect
) -> list[str]:
    """Return the CSV columns that have values such as 007 in the first block."""
    if not names:
        return []
    with open_stream() as stream:
        # Cheaper than to parse the block again, which few files need.
        if not _LEADING_ZERO.search(stream.read(BLOCK_BYTES)):
            return []
    with closing(_as_text(open_stream, names, dialect)) as batches:
        first = next(batches, None)
    if first is None:
        return []
    columns = zip(names, first.columns, strict=True)
    return [name for name, column in columns if _has_leading_zeros(column)]


def _has_leading_zeros(column: pa.Array) -> bool:
    import pyarrow.compute as pc

    return bool(pc.any(pc.match_substring_regex(column, r"^[+-]?0[0-9]")).as_py())


def _types_of(table: pa.Table) -> dict[str, pa.DataType]:
    """Return the types that Arrow infers for texts."""
    from pyarrow import csv

    text = io.BytesIO()
    csv.write_csv(table, text)
    options = csv.ReadOptions(block_size=text.tell(), use_threads=False)
    text.seek(0)
    schema = csv.read_csv(text, read_options=options, convert_options=_conversion()).schema
    return {field.name: field.type for field in schema}


# ---- JSON


def _open_json(
    source: Any, schema: pa.Schema | None, columns: Sequence[str] | None, _: Dialect
) -> Any:
    from pyarrow import json

    behavior = "infer"
    if schema is not None and columns is not None:
        schema = pa.schema([schema.field(name) for name in columns])
        behavior = "ignore"
    if schema is not None:
        schema = pa.schema([field.with_type(changed(field.type, _as_in_json)) for field in schema])
    return json.open_json(
        source,
        read_options=json.ReadOptions(block_size=BLOCK_BYTES, use_threads=False),
        parse_options=json.ParseOptions(
            explicit_schema=schema, newlines_in_values=False, unexpected_field_behavior=behavior
        ),
    )


def _as_in_json(_: Path, type: pa.DataType) -> pa.DataType:
    """Return the type as which Arrow reads values of a type from JSON; they are cast later.

    Arrow expects dates and times to be numbers, and does not read all types.
    """
    has_zone = types.is_timestamp(type) and type.tz is not None
    if types.is_date(type) or types.is_time(type) or has_zone:
        return pa.string()
    if types.is_duration(type):
        return pa.int64()
    return pa.float64() if types.is_float16(type) else type


def _blocks_of_lines(stream: Any) -> Iterator[bytes]:
    """Yield the text of a stream, cut at ends of lines."""
    rest = b""
    while block := stream.read(BLOCK_BYTES):
        end = block.rfind(b"\n") + 1
        lines = rest + block[:end]
        rest = block[end:] if end else rest + block
        if end and lines.strip():
            yield lines
    if rest.strip():
        yield rest


def _schema_of_blocks(blocks: Iterable[bytes]) -> pa.Schema:
    """Return the fields of all lines; texts that are dates or timestamps have these types."""
    schemas = []
    forms: dict[Path, set[pa.DataType | None]] = {}  # of texts, in each block; None for any others
    for lines in blocks:
        table = _read_lines(lines)
        # Arrow takes dates for timestamps, and timestamps with fractions of a second for text.
        moments = [
            _with_texts(field) for field in table.schema if _with_texts(field).type != field.type
        ]
        texts = _leaves_of(_read_lines(lines, pa.schema(moments))) if moments else {}
        for path, values in _leaves_of(table).items():
            if types.is_timestamp(values.type):
                form = pa.date32() if _are_dates(texts[path]) else values.type
            elif types.is_string(values.type):
                form = _fractional(values)
            else:
                continue
            forms.setdefault(path, set()).add(form)
        schemas.append(pa.schema(map(_with_texts, table.schema)))
    if not schemas:
        raise CorruptFileError("the file is empty")
    united = pa.unify_schemas(schemas, promote_options="permissive")
    found = {path: _common_form(seen) for path, seen in forms.items()}
    known = {path: type for path, type in found.items() if type is not None}
    return retyped(united, known, leaves=True)


def _with_texts(field: pa.Field) -> pa.Field:
    """Return a field with text in place of timestamps."""
    return field.with_type(
        changed(field.type, lambda _, type: pa.string() if types.is_timestamp(type) else type)
    )


def _leaves_of(table: pa.Table) -> dict[Path, pa.ChunkedArray]:
    pairs = zip(table.column_names, table.columns, strict=True)
    return {path: leaf for name, column in pairs for path, leaf in leaf_values(column, (name,))}


def _common_form(forms: set[pa.DataType | None]) -> pa.DataType | None:
    """Return the type of texts that have one form in each block, or None if they stay text."""
    if None in forms or forms == {pa.date32()}:
        return None if None in forms else pa.date32()
    moments: list[Any] = [pa.timestamp("s") if form == pa.date32() else form for form in forms]
    if len({moment.tz for moment in moments}) > 1:
        return None
    units = ("s", "ms", "us", "ns")
    return max(moments, key=lambda moment: units.index(moment.unit))


def _fractional(texts: pa.ChunkedArray) -> pa.DataType | None:
    """Return the type of texts if all of them are timestamps with fractions of a second."""
    import pyarrow.compute as pc

    first = next((text.as_py() for text in texts if text.is_valid), "")
    if not re.fullmatch(_FRACTIONAL, first):
        return None
    if not pc.all(pc.match_substring_regex(texts, f"^{_FRACTIONAL}$")).as_py():
        return None
    zones = pc.ends_with(texts, "Z")
    if pc.any(zones).as_py() != pc.all(zones).as_py():
        return None
    has_zone = bool(pc.any(zones).as_py())
    digits = pc.max(pc.utf8_length(texts)).as_py() - len("2024-01-31 12:00:00.") - has_zone
    unit = "ms" if digits <= 3 else "us" if digits <= 6 else "ns"
    type = pa.timestamp(unit, "UTC" if has_zone else None)
    try:
        texts.cast(type)
    except pa.ArrowInvalid:  # a month 13, or a year beyond the range of nanoseconds
        return None
    return type


def _are_dates(texts: pa.ChunkedArray) -> bool:
    import pyarrow.compute as pc

    return bool(pc.all(pc.equal(pc.utf8_length(texts), len("2024-01-31"))).as_py())


def _read_lines(lines: bytes, schema: pa.Schema | None = None) -> pa.Table:
    """Parse lines of JSON; with a schema, only its fields."""
    from pyarrow import json

    # A line is longer than a block only if it is the only one.
    options = json.ReadOptions(block_size=max(len(lines), 1), use_threads=False)
    behavior = "infer" if schema is None else "ignore"
    return json.read_json(
        io.BytesIO(lines),
        read_options=options,
        parse_options=json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=behavior),
    )


# ---- what went wrong


@contextmanager
def _translated(names: Sequence[str] | None) -> Iterator[None]:
    """Translate errors of Arrow, with the name of the column if it is known."""
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowKeyError) as error:
        message = str(error)
        if message.startswith("straddling object"):
            message = f"a row of it is longer than {BLOCK_BYTES:,} bytes"
        found = _CSV_VALUE.match(message)
        if found is None or names is None or int(found[1]) >= len(names):
            raise CorruptFileError(_shortened(message)) from error
        name = names[int(found[1])]
        row = f" in row {found[2]}" if found[2] else ""
        value = _shortened(found[4].removeprefix("invalid value "))
        raise ValueMismatchError(
            f"read as {found[3]}, but there is {value}{row}", column=name
        ) from error


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_SHOWN else f"{line[:_MAX_SHOWN]}..."

"""CSV and JSON lines as batches, and what types their columns have.

Arrow takes the types of its first block for those of the file. That is not enough for wide tables,
whose columns are often empty there, nor for JSON, where a field may come up anywhere.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyarrow import types

from ..errors import CorruptFileError, SchemaMismatchError

# That are parsed at a time. Arrow reads some thirty of them ahead.
BLOCK_BYTES: Final = 8 << 20

_CSV_VALUE: Final = re.compile(
    r"In CSV column #(\d+): (?:Row #(\d+): )?CSV conversion error to (.+?): (.*)", re.DOTALL
)
_MAX_SHOWN: Final = 200


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a CSV file is written."""

    delimiter: str = ","
    has_header: bool = True  # otherwise its columns are f0, f1, ...


DEFAULT_DIALECT: Final = Dialect()


class ValueMismatchError(SchemaMismatchError):
    """A value in text is not of the type that its column was found or said to have."""


@contextmanager
def open_text(
    source: Any,
    format: str,
    schema: pa.Schema | None = None,
    columns: Sequence[str] | None = None,
    dialect: Dialect = DEFAULT_DIALECT,
) -> Iterator[Any]:
    """A reader of the rows of a stream.

    `schema` has the types of columns, and of JSON also all its fields. `columns` are those that
    are wanted; then `schema` has all of a CSV file, in its order.
    """
    with _translated(None if columns is None or schema is None else schema.names):
        reader = (_open_csv if format == "csv" else _open_json)(source, schema, columns, dialect)
    with reader:
        yield reader


def rows(reader: Any, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The batches of a reader of a file whose columns are `names`."""
    with _translated(names):
        yield from reader


def read_schema(
    open_stream: Callable[[], AbstractContextManager[Any]],
    format: str,
    given: Callable[[Sequence[str]], Mapping[str, pa.DataType]],
    dialect: Dialect = DEFAULT_DIALECT,
) -> pa.Schema:
    """The columns of a file, by all of its text; `given` knows types of some of those it names.

    JSON is read as a whole. Of CSV, it is columns without a value in the first block whose types
    are found later, in the first block where they have one.
    """
    if format == "json":
        with open_stream() as stream, _translated(None):
            schemas = [_schema_of_lines(lines) for lines in _blocks_of_lines(stream)]
            if not schemas:
                raise CorruptFileError("it is empty")
            schema = pa.unify_schemas(schemas, promote_options="permissive")
        return with_types(schema, given(schema.names))
    with open_stream() as stream, open_text(stream, format, dialect=dialect) as reader:
        check_names(reader.schema.names)
        schema = with_types(reader.schema, given(reader.schema.names))
    unknown = [field.name for field in schema if types.is_null(field.type)]
    return with_types(schema, _found_later(open_stream, unknown, dialect)) if unknown else schema


def with_types(schema: pa.Schema, given: Mapping[str, pa.DataType]) -> pa.Schema:
    """The schema with types of its columns, and columns it lacks, as given."""
    known = set(schema.names)
    return pa.schema(
        [
            *(pa.field(field.name, given.get(field.name, field.type)) for field in schema),
            *(pa.field(name, type) for name, type in given.items() if name not in known),
        ]
    )


def check_names(names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise SchemaMismatchError(f"it has the column {twice!r} more than once")


# ---- CSV


def _open_csv(
    source: Any, schema: pa.Schema | None, columns: Sequence[str] | None, dialect: Dialect
) -> Any:
    from pyarrow import csv

    column_types = None if schema is None else {field.name: field.type for field in schema}
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

    # Nothing but an empty field without quotes is null: "NA" may be a name.
    return csv.ConvertOptions(
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        **options,
    )


def _found_later(
    open_stream: Callable[[], AbstractContextManager[Any]], names: Sequence[str], dialect: Dialect
) -> dict[str, pa.DataType]:
    """The types of CSV columns, each by the first block in which it has a value."""
    found: dict[str, pa.DataType] = {}
    wanted = pa.schema([pa.field(name, pa.string()) for name in names])
    with (
        open_stream() as stream,
        open_text(stream, "csv", wanted, names, dialect) as reader,
    ):
        for batch in rows(reader, names):
            values = {
                name: column
                for name, column in zip(names, batch.columns, strict=True)
                if column.null_count < len(column) and name not in found
            }
            if values:
                found.update(_types_of(pa.table(values)))
                if len(found) == len(names):
                    break
    return found


def _types_of(table: pa.Table) -> dict[str, pa.DataType]:
    """The types that Arrow takes texts for."""
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
        # Dates and times are texts in JSON, which Arrow takes for numbers: they are cast later.
        schema = pa.schema(
            [
                field.with_type(pa.string()) if _is_day_or_time(field.type) else field
                for field in schema
            ]
        )
    return json.open_json(
        source,
        read_options=json.ReadOptions(block_size=BLOCK_BYTES, use_threads=False),
        parse_options=json.ParseOptions(
            explicit_schema=schema, newlines_in_values=False, unexpected_field_behavior=behavior
        ),
    )


def _is_day_or_time(type: pa.DataType) -> bool:
    return bool(types.is_date(type) or types.is_time(type))


def _blocks_of_lines(stream: Any) -> Iterator[bytes]:
    """The text of a stream, cut at ends of lines."""
    rest = b""
    while block := stream.read(BLOCK_BYTES):
        end = block.rfind(b"\n") + 1
        lines = rest + block[:end]
        rest = block[end:] if end else rest + block
        if end and lines.strip():
            yield lines
    if rest.strip():
        yield rest


def _schema_of_lines(lines: bytes) -> pa.Schema:
    from pyarrow import json

    # A line is longer than a block only if there is but that one.
    options = json.ReadOptions(block_size=max(len(lines), 1), use_threads=False)
    return json.read_json(io.BytesIO(lines), read_options=options).schema


# ---- what went wrong


@contextmanager
def _translated(names: Sequence[str] | None) -> Iterator[None]:
    """Errors of Arrow as ours, with the name of the column where it is known."""
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

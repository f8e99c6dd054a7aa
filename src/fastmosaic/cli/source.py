"""The source of `convert`, `table create` and `table append`: its options, its columns and its rows."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pyarrow as pa

from ..convert import read as formats
from ..convert.inputs import Input, matching, open_input
from ..convert.supported import schema_for
from ..convert.text import LeadingZerosWarning, with_types
from ..errors import UnsupportedError
from ..schemas.union import Fixed
from .arguments import (
    add_at,
    add_columns,
    add_dialect,
    add_follow_links,
    add_memory_limit,
    add_stored,
    add_types,
    add_where,
    dialect,
)
from .exit import complain


def add_source_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what to read of the source, and how."""
    parser.add_argument(
        "--from",
        dest="source_format",
        choices=formats.SUFFIXES,
        help="format of SRC (default: determined by the name or the content)",
    )
    add_at(parser, what="SRC, a table")
    add_columns(parser)
    add_stored(parser)
    add_where(parser)
    add_memory_limit(parser)
    add_types(
        parser,
        "types of columns or fields by name or glob, e.g. 'temp_*=float': text is parsed as this "
        "type, other values are cast without loss; may be repeated",
    )
    add_dialect(parser)
    add_follow_links(parser)


def open_source(arguments: argparse.Namespace, known: pa.Schema | None = None) -> Input:
    """Open the source that arguments describe; `known` columns in text have these types."""
    with _showing_warnings():
        return open_input(
            arguments.paths,
            arguments.source_format,
            types=dict(arguments.types),
            known=known,
            dialect=dialect(arguments),
            whole=True,
            follow_links=arguments.follow_links,
            stored=arguments.stored,
            version=arguments.at,
        )


def target_schema(
    source: Input,
    columns: Sequence[str] | None,
    format: str,
    given: Sequence[tuple[str, pa.DataType]],
) -> pa.Schema:
    """Return the schema with which the rows of a source are written."""
    schema = source.schema_of(columns)
    if given and source.format not in formats.TEXT:
        types = {
            name: type for pattern, type in given for name in matching([pattern], source.columns)
        }
        chosen = Fixed(schema)
        schema = with_types(
            schema, {name: type for name, type in types.items() if chosen.has(name)}
        )
    return schema_for(format, schema)


class SourceRows:
    """Reads the rows of a source with the schema of the target, and counts them."""

    def __init__(self, source: Input, arguments: argparse.Namespace, format: str) -> None:
        self._source = source
        self._columns = source.select(arguments.columns)
        self._where: str | None = arguments.where
        self.schema = target_schema(source, self._columns, format, arguments.types)
        self.num_rows = 0

    def read(self, advance: Any) -> Generator[pa.RecordBatch]:
        rows = self._source.batches(self._columns, self._where, advance, schema=self.schema)
        with closing(rows) as batches:
            for batch in batches:
                self.num_rows += batch.num_rows
                if batch.num_rows:
                    yield batch


@contextmanager
def advising() -> Iterator[None]:
    """Add what to do to errors about types."""
    try:
        yield
    except UnsupportedError as error:
        error.message += "; use --type to cast a column, or -c to leave it out"
        raise


@contextmanager
def _showing_warnings() -> Iterator[None]:
    """Print warnings about leading zeros as lines on stderr."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LeadingZerosWarning)
        yield
    for one in caught:
        if issubclass(one.category, LeadingZerosWarning):
            complain(f"warning: {one.message}")
        else:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)

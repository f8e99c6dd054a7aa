"""convert: convert files between formats."""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Final

import pyarrow as pa

from ...convert import read as formats
from ...convert.find import STANDARD
from ...convert.inputs import Input, matching, open_input
from ...convert.supported import schema_for
from ...convert.text import LeadingZerosWarning, with_types
from ...convert.write import check_options, open_target
from ...dataset.write import write_dataset
from ...errors import UnsupportedError, printable
from ...query.selection import NameList
from ...schemas.union import Fixed
from ...storage.secrets import redacted
from ..arguments import (
    Commands,
    add_at,
    add_columns,
    add_command,
    add_dialect,
    add_follow_links,
    add_json,
    add_memory_limit,
    add_stored,
    add_types,
    add_where,
    dialect,
)
from ..exit import OK, complain
from ..output.console import Console
from ..output.values import human_size
from ..target import (
    add_writer_options,
    check_absent,
    check_apart,
    ending_on_signals,
    is_directory,
    naming,
    target_format,
    writer_options,
)

_EXAMPLES: Final = (
    "convert events.parquet events.mosaic --stats id,time",
    "convert 'logs/*.csv' days/ --type 'sensor_*=double' --partition-by day",
    """convert wide.mosaic - --to csv -c id,'temp_*' --where "id < 100" """,
)
_NOTES: Final = """\
A file gets its final name only when it is complete: after an error or Ctrl-C, an existing file is
unchanged. Types that the target format lacks are converted to wider types without loss; if that
is not possible, the error names the column. Use --type to cast a column, or -c to leave it out.
"""


def add(commands: Commands) -> None:
    """Register the `convert` command."""
    parser = add_command(
        commands,
        "convert",
        "convert files from one format to another",
        "Convert between Mosaic, Parquet, ORC, Arrow, CSV and JSON lines.",
        _EXAMPLES,
        _NOTES,
    )
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="SRC",
        help="files, directories, globs or URIs; - is standard input",
    )
    parser.add_argument(
        "target",
        metavar="DST",
        help="a file, a directory (ending in /) for many files, or - for standard output",
    )
    parser.add_argument(
        "--from",
        dest="source_format",
        choices=formats.SUFFIXES,
        help="format of SRC (default: determined by the name or the content)",
    )
    parser.add_argument(
        "--to",
        dest="target_format",
        choices=formats.SUFFIXES,
        help="format of DST (default: determined by the name)",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace DST if it exists")
    add_at(parser)
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
    add_writer_options(parser)
    add_json(parser)
    parser.set_defaults(run=_run)


@dataclass(frozen=True, slots=True)
class _Report:
    """The result of a conversion."""

    target: str
    source_format: str
    target_format: str
    rows: int
    columns: int
    files_in: int
    files_out: int
    bytes_in: int
    bytes_out: int
    seconds: float


def _run(arguments: argparse.Namespace) -> int:
    started = time.monotonic()
    console = Console(arguments)
    target = arguments.target
    format = target_format(arguments)
    if not is_directory(arguments):  # a directory is checked when it is written
        check_absent(target, arguments.overwrite)
    with ending_on_signals():
        with _showing_warnings():
            source = open_input(
                arguments.paths,
                arguments.source_format,
                types=dict(arguments.types),
                dialect=dialect(arguments),
                whole=True,
                follow_links=arguments.follow_links,
                stored=arguments.stored,
                version=arguments.at,
            )
        if is_directory(arguments):
            check_apart(source, arguments)
        columns = source.select(arguments.columns)
        schema = _schema(source, columns, format, arguments.types)
        options = writer_options(arguments, source, format, schema)
        batches = _Counted(source, columns, arguments.where, schema)
        with (
            _advising(),
            naming(target),
            console.progress("converting", source.num_bytes or None) as advance,
            closing(batches.read(advance)) as rows,
        ):
            check_options(format, schema, options)
            if is_directory(arguments):
                num_files, num_bytes = _write_files(rows, arguments, schema, options)
            else:
                num_files, num_bytes = 1, _write_file(rows, target, format, schema, options)
    report = _Report(
        target=redacted(target),
        source_format=source.format,
        target_format=format,
        rows=batches.num_rows,
        columns=len(schema),
        files_in=len(source.files),
        files_out=num_files,
        bytes_in=source.num_bytes,
        bytes_out=num_bytes,
        seconds=round(time.monotonic() - started, 3),
    )
    if console.is_json:
        console.document(asdict(report))
    elif target != STANDARD:
        console.line(_line(report, console))
    return OK


def _line(report: _Report, console: Console) -> str:
    sizes = human_size(report.bytes_out)
    if report.bytes_in:
        share = 100 * report.bytes_out / report.bytes_in
        sizes = f"{human_size(report.bytes_in)} → {sizes} ({share:.{1 if share < 100 else 0}f} %)"
    files = f" in {console.cell(report.files_out)} files" if report.files_out > 1 else ""
    return (
        f"{printable(report.target)}: {console.cell(report.rows)} rows, "
        f"{console.cell(report.columns)} columns{files}, {sizes}, {report.seconds:.2f} s"
    )


def _schema(
    source: Input,
    columns: Sequence[str] | None,
    format: str,
    given: Sequence[tuple[str, pa.DataType]],
) -> pa.Schema:
    """Return the schema of the target."""
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


class _Counted:
    """Reads the rows of the source with the schema of the target, and counts them."""

    def __init__(
        self,
        source: Input,
        columns: Sequence[str] | None,
        where: str | None,
        schema: pa.Schema,
    ) -> None:
        self._source = source
        self._columns = columns
        self._where = where
        self._schema = schema
        self.num_rows = 0

    def read(self, advance: Any) -> Generator[pa.RecordBatch]:
        rows = self._source.batches(self._columns, self._where, advance, schema=self._schema)
        with closing(rows) as batches:
            for batch in batches:
                self.num_rows += batch.num_rows
                if batch.num_rows:
                    yield batch


def _write_file(
    rows: Iterator[pa.RecordBatch],
    target: str,
    format: str,
    schema: pa.Schema,
    options: Mapping[str, Any],
) -> int:
    where = sys.stdout.buffer if target == STANDARD else target
    file = open_target(format, where, None, schema, options)
    try:
        for batch in rows:
            file.write(batch)
        return file.close()
    except BaseException:
        file.abandon()
        raise


def _write_files(
    rows: Iterator[pa.RecordBatch],
    arguments: argparse.Namespace,
    schema: pa.Schema,
    options: Mapping[str, Any],
) -> tuple[int, int]:
    limits: dict[str, Any] = {
        "max_rows_per_file": arguments.file_rows,
        "max_bytes_per_file": arguments.file_bytes,
    }
    keys = arguments.partition_by
    try:
        report = write_dataset(
            rows,
            arguments.target,
            schema=schema,
            partitioning=None if keys is None else matching(keys, NameList(schema.names)),
            existing="overwrite" if arguments.overwrite else "error",
            **{name: value for name, value in limits.items() if value is not None},
            **options,
        )
    except FileExistsError as error:
        raise FileExistsError(
            f"{redacted(arguments.target)} contains files; use --overwrite to replace all of them"
        ) from error
    return len(report.files), report.num_bytes


@contextmanager
def _advising() -> Iterator[None]:
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

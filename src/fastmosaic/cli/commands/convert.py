"""convert: convert files between formats."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any, Final

import pyarrow as pa

from ...convert import read as formats
from ...convert.find import STANDARD
from ...convert.inputs import matching
from ...convert.write import check_options, open_target
from ...dataset.write import write_dataset
from ...display.text import human_size
from ...errors import printable
from ...query.selection import NameList
from ...storage.secrets import redacted
from ..arguments import (
    Commands,
    add_command,
    add_json,
)
from ..exit import OK
from ..output.console import Console
from ..source import SourceRows, add_source_options, advising, open_source
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
        "--to",
        dest="target_format",
        choices=formats.SUFFIXES,
        help="format of DST (default: determined by the name)",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace DST if it exists")
    add_source_options(parser)
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
        source = open_source(arguments)
        if is_directory(arguments):
            check_apart(source, arguments)
        batches = SourceRows(source, arguments, format)
        schema = batches.schema
        options = writer_options(arguments, source, format, schema)
        with (
            advising(),
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

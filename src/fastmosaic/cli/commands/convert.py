"""convert: files of one format into another."""

from __future__ import annotations

import argparse
import errno
import os
import signal
import sys
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from types import FrameType
from typing import Any, Final

import pyarrow as pa

from ...convert import read as formats
from ...convert.inputs import STANDARD, Input, matching, open_input
from ...convert.text import with_types
from ...convert.write import check_options, open_target, schema_for
from ...dataset.write import write_dataset
from ...errors import UnsupportedError
from ...query.selection import split_names
from ...schemas.fit import Fits
from ...storage.location import as_arrow, locate
from ..arguments import Commands, add_columns, add_command, add_json, add_where, positive
from ..exit import OK, size
from ..output.console import Console, human_size, printable
from ..text_options import add_dialect, add_types, dialect

_EXAMPLES: Final = (
    "convert events.parquet events.mosaic --stats id,time",
    "convert 'logs/*.csv' days/ --type 'sensor_*=double' --partition-by day",
    """convert wide.mosaic - --to csv -c id,'temp_*' --where "id < 100" """,
)
_NOTES: Final = """\
A file appears under its name when it is complete: until then, and after an error or Ctrl-C, what
was there before stays as it is. Types that the target lacks become wider ones that hold every
value, or are an error; --type casts a column, -c leaves others out.
"""
# Options by the words of the command, and the formats that have them.
_MOSAIC: Final = ("mosaic",)
_OPTIONS: Final = {
    "compression": ("--compression", ("mosaic", "parquet", "orc", "arrow")),
    "compression_level": ("--level", ("mosaic", "parquet", "arrow")),
    "write_statistics": ("--stats", _MOSAIC),
    "row_group_size": ("--row-group-size", _MOSAIC),
    "row_group_bytes": ("--row-group-bytes", _MOSAIC),
    "num_buckets": ("--buckets", _MOSAIC),
    "page_size_threshold": ("--page-size-threshold", _MOSAIC),
    "array_layout": ("--array-layout", _MOSAIC),
    "use_dictionary": ("--no-dictionary", _MOSAIC),
    "checksum": ("--no-checksum", _MOSAIC),
    "annex": ("--no-annex", _MOSAIC),
}
_TO_PIPES: Final = frozenset({"csv", "json", "arrow"})
# Of a disk that takes no more; the system does not say of which file.
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


def add(commands: Commands) -> None:
    """Let the command have this."""
    parser = add_command(
        commands,
        "convert",
        "convert files of one format to another",
        "Convert Mosaic, Parquet, ORC, Arrow, CSV and JSON lines to one another.",
        _EXAMPLES,
        _NOTES,
    )
    parser.add_argument(
        "paths", nargs="+", metavar="SRC", help="files, directories or globs; - is standard input"
    )
    parser.add_argument(
        "target", metavar="DST", help="a file; a directory, for many; - is standard output"
    )
    parser.add_argument(
        "--from",
        dest="source_format",
        choices=formats.SUFFIXES,
        help="the format of SRC; by default by its name, or its bytes",
    )
    parser.add_argument(
        "--to",
        dest="target_format",
        choices=formats.SUFFIXES,
        help="the format of DST; by default by its name",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace DST if it exists")
    add_columns(parser)
    add_where(parser)
    add_types(
        parser,
        "what columns are to be, by name or glob, such as 'temp_*=float': they are read as that "
        "from text, and cast without loss from other formats; may be repeated",
    )
    add_dialect(parser)
    _add_options(parser)
    add_json(parser)
    parser.set_defaults(run=_run)


def _add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the writer, None unless they are given; the writer has the defaults."""
    group = parser.add_argument_group("how it is written")
    group.add_argument("--compression", metavar="CODEC", help="zstd, none, or others of DST")
    group.add_argument(
        "--level",
        dest="compression_level",
        type=int,
        metavar="N",
        help="of the compression; of zstd, 1 is fast and 19 is small",
    )
    group = parser.add_argument_group("how Mosaic is written")
    group.add_argument(
        "--stats",
        dest="write_statistics",
        action="append",
        metavar="NAMES",
        help="columns that get statistics, by name or glob, or all",
    )
    group.add_argument(
        "--row-group-size", type=positive, metavar="ROWS", help="the most rows in a row group"
    )
    group.add_argument(
        "--row-group-bytes", type=size, metavar="SIZE", help="of a row group, such as 64m"
    )
    group.add_argument(
        "--buckets",
        dest="num_buckets",
        type=positive,
        metavar="N",
        help="that columns are cut into",
    )
    group.add_argument(
        "--page-size-threshold",
        type=_threshold,
        metavar="SIZE",
        help="of a column, from which it gets a page, 0 for all; by default by cost",
    )
    group.add_argument(
        "--array-layout", choices=("columns", "block"), help="how lists of scalars are stored"
    )
    for option, name in (("dictionary", "use_dictionary"), ("checksum", None), ("annex", None)):
        group.add_argument(
            f"--no-{option}",
            dest=name or option,
            action="store_false",
            default=None,
            help=f"write no {option}",
        )
    group = parser.add_argument_group("a directory of Mosaic files")
    group.add_argument(
        "--partition-by", type=split_names, metavar="NAMES", help="make key=value/ of them"
    )
    group.add_argument("--file-rows", type=positive, metavar="ROWS", help="the most of a file")
    group.add_argument("--file-bytes", type=size, metavar="SIZE", help="of a file, about")


def _threshold(text: str) -> int:
    return 0 if text == "0" else size(text)


@dataclass(frozen=True, slots=True)
class _Report:
    """What was done."""

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
    is_directory = _is_directory(arguments)
    format = _target_format(arguments, is_directory)
    _check_target(arguments, is_directory)
    with _ending_on_signals():
        source = open_input(
            arguments.paths,
            arguments.source_format,
            types=dict(arguments.types),
            dialect=dialect(arguments),
            whole=True,
        )
        if is_directory:
            _check_apart(source, arguments)
        columns = source.select(arguments.columns)
        schema = _schema(source, columns, format, arguments.types)
        options = _options(arguments, source, format, schema)
        batches = _Counted(source, columns, arguments.where, schema)
        with (
            _advising(),
            _naming(target),
            console.progress("convert", source.num_bytes or None) as advance,
            closing(batches.read(advance)) as rows,
        ):
            check_options(format, schema, options)
            if is_directory:
                num_files, num_bytes = _write_files(rows, arguments, schema, options)
            else:
                num_files, num_bytes = 1, _write_file(rows, target, format, schema, options)
    report = _Report(
        target=target,
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
        f"{printable(report.target)}: {console.cell(report.rows)} rows of "
        f"{console.cell(report.columns)} columns{files}, {sizes}, {report.seconds:.2f} s"
    )


# ---- where to


def _is_directory(arguments: argparse.Namespace) -> bool:
    target = arguments.target
    parted = arguments.partition_by or arguments.file_rows or arguments.file_bytes
    return bool(parted) or target.endswith("/") or os.path.isdir(target)


def _target_format(arguments: argparse.Namespace, is_directory: bool) -> str:
    target = arguments.target
    format = arguments.target_format or formats.format_of(target)
    if is_directory and format not in (None, "mosaic"):
        raise ValueError(f"{target}: a directory is written as mosaic; {format} is one file")
    if is_directory:
        return "mosaic"
    if format is None:
        known = ", ".join(formats.SUFFIXES)
        raise ValueError(f"{target}: its name does not tell the format; --to does: {known}")
    if target == STANDARD and format not in _TO_PIPES:
        raise ValueError(f"{format} is not written to standard output, but to a file")
    if target == STANDARD and arguments.json:
        raise ValueError("--json and the rows would both go to standard output")
    return str(format)


def _check_target(arguments: argparse.Namespace, is_directory: bool) -> None:
    """Raise if something is in the way of a file; a data set looks for itself."""
    target = arguments.target
    if target == STANDARD or is_directory or arguments.overwrite:
        return
    found = locate(target, None)
    assert found is not None
    name, filesystem, path = found
    if filesystem is None:
        exists = os.path.lexists(path) and (os.path.isfile(path) or not os.path.exists(path))
    else:
        exists = as_arrow(filesystem).get_file_info(path).type.name != "NotFound"
    if exists:
        raise FileExistsError(f"{name} exists; --overwrite replaces it")


def _check_apart(source: Input, arguments: argparse.Namespace) -> None:
    """Raise if a directory that is to be replaced holds files that are read, and perhaps others."""
    target = os.path.realpath(arguments.target)
    if not arguments.overwrite or [os.path.realpath(one) for one in arguments.paths] == [target]:
        return
    for one in source.files:
        if one.filesystem is None and os.path.realpath(one.path).startswith(f"{target}{os.sep}"):
            raise ValueError(
                f"{arguments.target} would be replaced as a whole, but {one.name} in it is read"
            )


# ---- as what


def _schema(
    source: Input,
    columns: Sequence[str] | None,
    format: str,
    given: Sequence[tuple[str, pa.DataType]],
) -> pa.Schema:
    """The schema of the target."""
    schema = source.schema_of(columns)
    if given and source.format not in formats.TEXT:
        types = {
            name: type for pattern, type in given for name in matching([pattern], source.names())
        }
        kept = {name: type for name, type in types.items() if name in set(schema.names)}
        schema = with_types(schema, kept)
    return schema_for(format, schema)


def _options(
    arguments: argparse.Namespace, source: Input, format: str, schema: pa.Schema
) -> dict[str, Any]:
    """Options of the writer."""
    given = {name: getattr(arguments, name) for name in _OPTIONS}
    options = {name: value for name, value in given.items() if value is not None}
    for name in options:
        word, owners = _OPTIONS[name]
        if format not in owners:
            raise ValueError(f"{word} is for {' and '.join(owners)}, not for {format}")
    if statistics := options.get("write_statistics"):
        is_all = statistics == ["all"]
        options["write_statistics"] = is_all or matching(statistics, schema.names)
    if format == "arrow":
        options |= _arrow_options(arguments.target, options)
        options.pop("compression_level", None)
    elif format == "orc" and options.get("compression") == "none":
        options["compression"] = "uncompressed"
    elif format == "csv" and source.format != "csv":
        options = {"delimiter": arguments.delimiter, "include_header": not arguments.no_header}
        options = {name: value for name, value in options.items() if value is not None}
    return options


def _arrow_options(target: str, given: Mapping[str, Any]) -> dict[str, Any]:
    options: dict[str, Any] = {"stream": target == STANDARD or target.endswith(".arrows")}
    codec = given.get("compression", "zstd")
    level = given.get("compression_level")
    options["compression"] = (
        None if codec == "none" else codec if level is None else pa.Codec(codec, level)
    )
    return options


# ---- doing it


class _Counted:
    """The rows of the source as those of the target, and how many there were."""

    def __init__(
        self, source: Input, columns: Sequence[str] | None, where: str | None, schema: pa.Schema
    ) -> None:
        self._source = source
        self._columns = columns
        self._where = where
        self._schema = schema
        self.num_rows = 0

    def read(self, advance: Any) -> Generator[pa.RecordBatch]:
        fits = Fits(self._schema, advice="use --type to choose another type")
        with closing(self._source.batches(self._columns, self._where, advance)) as batches:
            for batch in batches:
                for part in fits(batch):
                    self.num_rows += part.num_rows
                    if part.num_rows:
                        yield part


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
            partitioning=None if keys is None else matching(keys, schema.names),
            existing="overwrite" if arguments.overwrite else "error",
            **{name: value for name, value in limits.items() if value is not None},
            **options,
        )
    except FileExistsError as error:
        raise FileExistsError(
            f"{arguments.target} has files in it; --overwrite replaces all of them"
        ) from error
    return len(report.files), report.num_bytes


@contextmanager
def _ending_on_signals() -> Iterator[None]:
    """Let a process that is told to end clean up first, as Ctrl-C does."""

    def end(number: int, frame: FrameType | None) -> None:
        sys.exit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _advising() -> Iterator[None]:
    """Let errors about types say what to do."""
    try:
        yield
    except UnsupportedError as error:
        error.message += "; --type can cast a column, -c leave it out"
        raise


@contextmanager
def _naming(target: str) -> Iterator[None]:
    """Let errors of the disk name the file that was to be written, not one beside it."""
    try:
        yield
    except OSError as error:
        is_beside = str(error.filename or "").endswith(".tmp")
        if is_beside or (error.filename is None and error.errno in _FULL):
            error.filename = target
        raise

"""The target of `convert` and `concat`: its format, its writer's options, and what a failure leaves."""

from __future__ import annotations

import argparse
import errno
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, get_args

import pyarrow as pa

from ..convert import read as formats
from ..convert.find import STANDARD
from ..convert.inputs import Input, matching
from ..dataset.compact import DEFAULT_COMPACT_BYTES
from ..file.concat import Mode
from ..file.options import OPTIONS, Option, OptionKind
from ..query.selection import split_names
from ..schemas.union import Fixed
from ..storage.debris import is_debris_name
from ..storage.location import as_arrow, locate
from ..storage.secrets import redacted
from ..storage.target import check_no_table
from .arguments import Options, positive, size

# Formats other than Mosaic that have an option, too.
_OTHER_FORMATS: Final = {
    "compression": ("parquet", "orc", "arrow"),
    "compression_level": ("parquet", "arrow"),
}
_TO_PIPES: Final = frozenset({"csv", "json", "arrow"})
# Errors of a full disk, for which the system does not name the file.
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


# ---- options


def add_writer_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the writers; those that are not given are None."""
    offered = [option for option in OPTIONS.values() if option.flag]
    general = parser.add_argument_group("writing")
    mosaic = parser.add_argument_group("writing Mosaic files")
    for option in offered:
        if not option.is_compatibility:
            add_option(general if option.name in _OTHER_FORMATS else mosaic, option)
    directory = parser.add_argument_group("writing a directory of Mosaic files")
    directory.add_argument(
        "--partition-by",
        type=split_names,
        metavar="NAMES",
        help="partition by these columns (key=value/ directories)",
    )
    directory.add_argument(
        "--file-rows", type=positive, metavar="ROWS", help="maximum rows per file"
    )
    directory.add_argument(
        "--file-bytes", type=size, metavar="SIZE", help="approximate maximum size of a file"
    )
    compatible = parser.add_argument_group("compatibility with other Mosaic writers")
    for option in offered:
        if option.is_compatibility:
            add_option(compatible, option)


def add_mode(parser: Options) -> None:
    """Add `--mode`: how commands merge files."""
    parser.add_argument(
        "--mode",
        choices=get_args(Mode),
        default="auto",
        help="copy: copy all row groups, and refuse files that differ; rewrite: copy none "
        "(default: auto)",
    )


def add_target_size(parser: Options) -> None:
    """Add `--target-size`, the size of files that commands merge small ones into."""
    parser.add_argument(
        "--target-size",
        type=size,
        default=DEFAULT_COMPACT_BYTES,
        metavar="SIZE",
        help="approximate size of the new files, for example 64m (default: 256m)",
    )


def add_option(group: argparse._ArgumentGroup, option: Option) -> None:
    """Add an option of the Mosaic writer; None if it is not given."""
    if option.flag.startswith("--no-"):
        group.add_argument(
            option.flag, dest=option.name, action="store_false", default=None, help=option.help
        )
        return
    more: dict[str, Any] = {"type": _parser(option)}
    if option.name == "compression":  # other formats have other codecs
        more = {}
    elif option.kind == OptionKind.COLUMNS:  # names and globs, which need the schema
        more = {"action": "append"}
    group.add_argument(
        option.flag, dest=option.name, metavar=option.metavar, help=option.help, **more
    )


def _parser(option: Option) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        try:
            return option.parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse


def writer_options(
    arguments: argparse.Namespace, source: Input, format: str, schema: pa.Schema
) -> dict[str, Any]:
    """Return the options for the writer of `format`."""
    given = {name: getattr(arguments, name, None) for name in OPTIONS}
    options = {name: value for name, value in given.items() if value is not None}
    for name in options:
        owners = ("mosaic", *_OTHER_FORMATS.get(name, ()))
        if format not in owners:
            known = " and ".join(owners)
            raise ValueError(f"{OPTIONS[name].flag} is an option of {known}, not of {format}")
    if statistics := options.get("write_statistics"):
        is_all = statistics == ["all"]
        options["write_statistics"] = is_all or matching(statistics, Fixed(schema))
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


# ---- place


def is_directory(arguments: argparse.Namespace) -> bool:
    """Return whether the target is a directory of files."""
    target = arguments.target
    is_split = arguments.partition_by or arguments.file_rows or arguments.file_bytes
    return bool(is_split) or target.endswith("/") or os.path.isdir(target)


def target_format(arguments: argparse.Namespace) -> str:
    """Return the format of the target; raise ValueError if it cannot be written there."""
    target = arguments.target
    format = arguments.target_format or formats.format_of(target)
    if is_directory(arguments):
        if format not in (None, "mosaic"):
            raise ValueError(
                f"{redacted(target)}: only Mosaic is written as a directory of files; {format} is one file"
            )
        return "mosaic"
    if format is None:
        known = ", ".join(formats.SUFFIXES)
        raise ValueError(
            f"{redacted(target)}: cannot determine the format from the name; use --to with one of {known}"
        )
    if target == STANDARD and format not in _TO_PIPES:
        raise ValueError(f"{format} cannot be written to standard output; name a file")
    if target == STANDARD and sys.stdout.isatty():
        raise ValueError(
            "standard output is a terminal; redirect it to a file or a pipe, or use `cat` to see rows"
        )
    if target == STANDARD and arguments.json:
        raise ValueError("--json cannot be used when the rows go to standard output")
    return str(format)


def check_absent(target: str, overwrite: bool) -> None:
    """Raise FileExistsError if the target is a file that must not be replaced.

    A table is a ValueError that says how to append to it.
    """
    if target == STANDARD:
        return
    found = locate(target, None)
    assert found is not None
    name, filesystem, path = found
    check_no_table(name, filesystem, path)
    if overwrite:
        return
    if filesystem is None:
        exists = os.path.lexists(path) and (os.path.isfile(path) or not os.path.exists(path))
    else:
        exists = as_arrow(filesystem).get_file_info(path).type.name != "NotFound"
    if exists:
        raise FileExistsError(f"{name} exists; use --overwrite to replace it")


def check_apart(source: Input, arguments: argparse.Namespace) -> None:
    """Raise ValueError if replacing the target directory would delete some of the source files."""
    target = os.path.realpath(arguments.target)
    if not arguments.overwrite or [os.path.realpath(one) for one in arguments.paths] == [target]:
        return
    for one in source.files:
        if one.filesystem is None and os.path.realpath(one.path).startswith(f"{target}{os.sep}"):
            raise ValueError(
                f"--overwrite would replace the directory {arguments.target}, which contains the "
                f"source file {one.name}"
            )


# ---- failure


@contextmanager
def ending_on_signals() -> Iterator[None]:
    """Clean up before a signal ends the process, as Ctrl-C does."""

    def end(number: int, frame: FrameType | None) -> None:
        sys.exit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def naming(target: str) -> Iterator[None]:
    """Let errors of the disk name the target, not the temporary file next to it."""
    try:
        yield
    except OSError as error:
        is_beside = is_debris_name(os.path.basename(str(error.filename or "")))
        if is_beside or (error.filename is None and error.errno in _FULL):
            error.filename = redacted(target)
        raise

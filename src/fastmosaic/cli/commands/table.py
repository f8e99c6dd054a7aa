"""table: change tables, and list their versions."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any, Final

from ...file.options import OPTIONS
from ...query.selection import split_names
from ...table.vacuum import DEFAULT_AGE
from ..arguments import (
    CommandParser,
    Commands,
    add_command,
    add_follow_links,
    add_json,
    add_memory_limit,
    add_pager,
    add_where,
    complete_columns,
    duration,
    positive,
    size,
    wrapped,
)
from ..source import add_source_options
from ..target import add_mode, add_option, add_target_size

_DESCRIPTION: Final = """\
Change a directory of Mosaic files safely: each change makes a new version, and readers see one
version. The other commands read the newest version of a table, or an earlier one with --at.
"""
_LANGUAGE: Final = """\
A FORMULA uses SQL syntax: + - * / %, || for text, comparisons, and, or, not, is null, in (...), like,
between, case when ... then ... else ... end, cast(x as type) and functions: abs, ceil, coalesce,
concat, cos, day, exp, floor, greatest, hour, if, ifnull, isnan, least, length, ln, log, log2, lower,
ltrim, minute, month, nullif, pow, round, rtrim, second, sin, sqrt, substring, tan, trim, upper and
year. Their meaning is that of DuckDB: 1 / 2 is 0.5, and an overflow of integers is an error.
"""

# Options of the writer: for new files, for column files, and for files that replace others.
_NEW: Final = (
    *("compression", "compression_level", "write_statistics", "use_dictionary"),
    *("row_group_size", "row_group_bytes", "num_buckets", "array_layout"),
)
_COLUMNS: Final = (
    *("compression", "compression_level", "write_statistics", "use_dictionary"),
    *("num_buckets", "array_layout"),
)
_REPLACING: Final = (
    *("compression", "compression_level", "row_group_size", "row_group_bytes"),
    *("num_buckets", "array_layout"),
)


def add(commands: Commands) -> None:
    """Register the `table` command."""
    parser = commands.add_parser(
        "table",
        help="change tables: append, add columns, delete, compact",
        description=wrapped(_DESCRIPTION),
        epilog="Run `fastmosaic table COMMAND --help` for options and examples.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    family: Commands = parser.add_subparsers(required=True, metavar="COMMAND", title="commands")
    for register in (
        *(_add_create, _add_log, _add_append, _add_add, _add_drop, _add_delete),
        *(_add_compact, _add_fold, _add_vacuum, _add_restore),
    ):
        register(family)


def _command(
    commands: Commands,
    name: str,
    summary: str,
    description: str,
    examples: Sequence[str],
    notes: str = "",
) -> CommandParser:
    """Register a command for a table."""
    given = [f"table {name} {example}" for example in examples]
    parser = add_command(commands, name, summary, description, given, notes)
    parser.add_argument("table", metavar="TABLE", help="the directory or URI of a table")
    return parser


def _add_changing(parser: argparse.ArgumentParser, action: str, *options: str) -> None:
    """Add what all commands have that change a table, and options of the writer."""
    parser.add_argument(
        "--single-writer",
        action="store_true",
        help="accept storage where a change could be lost if others change the table at the same time",
    )
    if options:
        writing = parser.add_argument_group("writing files")
        for name in options:
            add_option(writing, OPTIONS[name])
    add_json(parser)
    parser.set_defaults(run=_run, action=action, writing=options)


def _run(arguments: argparse.Namespace) -> int:
    from . import table_actions  # what it imports takes long, and other commands do not need it

    act: Callable[[argparse.Namespace], int] = getattr(table_actions, arguments.action)
    return act(arguments)


# ---- commands


def _add_create(commands: Commands) -> None:
    parser = _command(
        commands,
        "create",
        "make a table, or make a directory of files a table",
        "Make a new table with the rows of SRC. Without SRC, the Mosaic files of the directory become "
        "the first version; they are not changed.",
        ["features events.parquet --partition-by day", "existing-directory"],
    )
    _add_source(parser, "*")
    parser.add_argument(
        "--partition-by",
        type=split_names,
        metavar="NAMES",
        help="partition by these columns (key=value/ directories)",
    )
    add_source_options(parser)
    _add_changing(parser, "create", *_NEW)


def _add_append(commands: Commands) -> None:
    parser = _command(
        commands,
        "append",
        "append rows",
        "Append the rows of SRC. Columns are matched by name. Columns that SRC lacks are null; columns "
        "that the table lacks are an error.",
        ["features monday.parquet", "features 'logs/*.csv' --where \"id > 0\""],
    )
    _add_source(parser, "+")
    add_source_options(parser)
    parser.add_argument("--file-rows", type=positive, metavar="ROWS", help="maximum rows per file")
    parser.add_argument(
        "--file-bytes", type=size, metavar="SIZE", help="approximate maximum size of a file"
    )
    _add_changing(parser, "append", *_NEW)


def _add_source(parser: argparse.ArgumentParser, count: str) -> None:
    parser.add_argument(
        "paths",
        nargs=count,
        metavar="SRC",
        help="files, directories, globs or URIs of any format; - is standard input",
    )


def _add_log(commands: Commands) -> None:
    parser = _command(
        commands,
        "log",
        "list the versions",
        "List the versions of a table, the newest first.",
        ["features", "features --limit 5 --json"],
    )
    parser.add_argument("--limit", type=positive, metavar="N", help="only the newest N")
    add_json(parser)
    add_pager(parser)
    parser.set_defaults(run=_run, action="log")


def _add_add(commands: Commands) -> None:
    parser = _command(
        commands,
        "add",
        "add columns, computed or joined by key",
        "Add columns to all rows, without rewriting the files that are there: computed by formulas, or "
        "joined from other files by key. Rows without a key in these files get null.",
        [
            'features "ratio = a / b" "kind = coalesce(kind, \'none\')" --replace',
            "features --values names.parquet --on id",
        ],
        _LANGUAGE,
    )
    parser.add_argument(
        "formulas", nargs="*", metavar="NAME=FORMULA", help='e.g. "ratio = round(a / b, 2)"'
    )
    parser.add_argument(
        "--values",
        "--from",
        dest="values",
        action="append",
        metavar="SRC",
        help="files, a directory, a glob or a URI of any format, with keys and the new columns; "
        "may be repeated",
    )
    parser.add_argument(
        "--on", type=split_names, metavar="NAMES", help="the key columns of --values"
    )
    parser.add_argument("--replace", action="store_true", help="replace columns that exist")
    add_follow_links(parser)
    add_memory_limit(parser)
    _add_changing(parser, "add_columns", *_COLUMNS)


def _add_drop(commands: Commands) -> None:
    parser = _command(
        commands,
        "drop",
        "drop columns",
        "Drop columns. Files are not rewritten: `table fold` does that, to free the space.",
        ["features ratio 'temp_*'"],
    )
    columns: Any = parser.add_argument(
        "columns", nargs="+", metavar="NAME", help="columns by name or glob"
    )
    columns.completer = complete_columns
    _add_changing(parser, "drop")


def _add_delete(commands: Commands) -> None:
    parser = _command(
        commands,
        "delete",
        "delete rows",
        "Delete the rows that match a condition. Files that contain such rows are rewritten.",
        ["features --where \"day < '2024-01-01'\""],
    )
    add_where(parser, is_required=True)
    _add_changing(parser, "delete", *_REPLACING)


def _add_compact(commands: Commands) -> None:
    parser = _command(
        commands,
        "compact",
        "merge small files",
        "Merge small files of each partition into larger ones. Row groups are copied without decoding "
        "them if that is possible. The order of rows stays.",
        ["features", "features --target-size 64m"],
    )
    add_target_size(parser)
    add_mode(parser)
    _add_changing(parser, "compact", *_REPLACING)


def _add_fold(commands: Commands) -> None:
    parser = _command(
        commands,
        "fold",
        "rewrite files together with their added columns",
        "Rewrite each file that has column files as one file with all columns.",
        ["features"],
    )
    _add_changing(parser, "fold", *_REPLACING)


def _add_vacuum(commands: Commands) -> None:
    parser = _command(
        commands,
        "vacuum",
        "remove old versions, and files that no version uses",
        "Remove versions that are too old, and files that no other version uses.",
        ["features --dry-run", "features --older-than 30d --keep 10"],
        "AGE must be longer than the longest change: its files belong to no version until it is "
        "complete.",
    )
    add_vacuum_options(parser)
    _add_changing(parser, "vacuum")


def add_vacuum_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what `vacuum` removes."""
    parser.add_argument(
        "--older-than",
        type=duration,
        default=DEFAULT_AGE.total_seconds(),
        metavar="AGE",
        help="age, e.g. 90m, 12h or 7d, of what is removed (default: 7d)",
    )
    parser.add_argument(
        "--keep",
        type=positive,
        default=1,
        metavar="N",
        help="keep the newest N versions, however old they are (default: 1)",
    )
    parser.add_argument("--dry-run", action="store_true", help="print only, remove nothing")


def _add_restore(commands: Commands) -> None:
    parser = _command(
        commands,
        "restore",
        "return to an earlier version",
        "Return to the state of an earlier version, as a new version.",
        ["features 12"],
    )
    parser.add_argument("version", type=positive, metavar="VERSION", help="see `table log`")
    _add_changing(parser, "restore")

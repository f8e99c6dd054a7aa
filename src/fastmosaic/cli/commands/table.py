"""table: change tables, and list their versions."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
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
    for command in _COMMANDS:
        command.add(family)


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


@dataclass(frozen=True, slots=True)
class _Command:
    """A command for a table.

    action    the function of `table_actions` that runs it
    examples  what comes after the name of the command
    options   adds arguments of its own
    writing   options of the writer
    changes   whether it changes the table
    """

    name: str
    action: str
    summary: str
    description: str
    examples: tuple[str, ...]
    options: Callable[[CommandParser], None] = lambda parser: None
    writing: tuple[str, ...] = ()
    notes: str = ""
    changes: bool = True

    def add(self, commands: Commands) -> None:
        examples = [f"table {self.name} {example}" for example in self.examples]
        parser = add_command(
            commands, self.name, self.summary, self.description, examples, self.notes
        )
        parser.add_argument("table", metavar="TABLE", help="the directory or URI of a table")
        self.options(parser)
        if self.changes:
            parser.add_argument(
                "--single-writer",
                action="store_true",
                help="accept storage where a change could be lost if others change the table at the same time",
            )
        if self.writing:
            group = parser.add_argument_group("writing files")
            for name in self.writing:
                add_option(group, OPTIONS[name])
        add_json(parser)
        parser.set_defaults(run=_run, action=self.action, writing=self.writing)


def _run(arguments: argparse.Namespace) -> int:
    from . import table_actions  # what it imports takes long, and other commands do not need it

    act: Callable[[argparse.Namespace], int] = getattr(table_actions, arguments.action)
    return act(arguments)


# ---- arguments of single commands


def _create_options(parser: CommandParser) -> None:
    _add_source(parser, "*")
    parser.add_argument(
        "--partition-by",
        type=split_names,
        metavar="NAMES",
        help="partition by these columns (key=value/ directories)",
    )
    add_source_options(parser)


def _append_options(parser: CommandParser) -> None:
    _add_source(parser, "+")
    add_source_options(parser)
    parser.add_argument("--file-rows", type=positive, metavar="ROWS", help="maximum rows per file")
    parser.add_argument(
        "--file-bytes", type=size, metavar="SIZE", help="approximate maximum size of a file"
    )


def _add_source(parser: argparse.ArgumentParser, count: str) -> None:
    parser.add_argument(
        "paths",
        nargs=count,
        metavar="SRC",
        help="files, directories, globs or URIs of any format; - is standard input",
    )


def _log_options(parser: CommandParser) -> None:
    parser.add_argument("--limit", type=positive, metavar="N", help="only the newest N")
    add_pager(parser)


def _add_options(parser: CommandParser) -> None:
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


def _drop_options(parser: CommandParser) -> None:
    columns: Any = parser.add_argument(
        "columns", nargs="+", metavar="NAME", help="columns by name or glob"
    )
    columns.completer = complete_columns


def _delete_options(parser: CommandParser) -> None:
    add_where(parser, is_required=True)


def _compact_options(parser: CommandParser) -> None:
    add_target_size(parser)
    add_mode(parser)


def _restore_options(parser: CommandParser) -> None:
    parser.add_argument("version", type=positive, metavar="VERSION", help="see `table log`")


# ---- commands

_COMMANDS: Final = (
    _Command(
        "create",
        "create",
        "make a table, or make a directory of files a table",
        "Make a new table with the rows of SRC. Without SRC, the Mosaic files of the directory become "
        "the first version; they are not changed.",
        ("features events.parquet --partition-by day", "existing-directory"),
        _create_options,
        _NEW,
    ),
    _Command(
        "log",
        "log",
        "list the versions",
        "List the versions of a table, the newest first.",
        ("features", "features --limit 5 --json"),
        _log_options,
        changes=False,
    ),
    _Command(
        "append",
        "append",
        "append rows",
        "Append the rows of SRC. Columns are matched by name. Columns that SRC lacks are null; columns "
        "that the table lacks are an error.",
        ("features monday.parquet", "features 'logs/*.csv' --where \"id > 0\""),
        _append_options,
        _NEW,
    ),
    _Command(
        "add",
        "add_columns",
        "add columns, computed or joined by key",
        "Add columns to all rows, without rewriting the files that are there: computed by formulas, or "
        "joined from other files by key. Rows without a key in these files get null.",
        (
            'features "ratio = a / b" "kind = coalesce(kind, \'none\')" --replace',
            "features --values names.parquet --on id",
        ),
        _add_options,
        _COLUMNS,
        _LANGUAGE,
    ),
    _Command(
        "drop",
        "drop",
        "drop columns",
        "Drop columns. Files are not rewritten: `table fold` does that, to free the space.",
        ("features ratio 'temp_*'",),
        _drop_options,
    ),
    _Command(
        "delete",
        "delete",
        "delete rows",
        "Delete the rows that match a condition. Files that contain such rows are rewritten.",
        ("features --where \"day < '2024-01-01'\"",),
        _delete_options,
        _REPLACING,
    ),
    _Command(
        "compact",
        "compact",
        "merge small files",
        "Merge small files of each partition into larger ones. Row groups are copied without decoding "
        "them if that is possible. The order of rows stays.",
        ("features", "features --target-size 64m"),
        _compact_options,
        _REPLACING,
    ),
    _Command(
        "fold",
        "fold",
        "rewrite files together with their added columns",
        "Rewrite each file that has column files as one file with all columns.",
        ("features",),
        writing=_REPLACING,
    ),
    _Command(
        "vacuum",
        "vacuum",
        "remove old versions, and files that no version uses",
        "Remove versions that are too old, and files that no other version uses.",
        ("features --dry-run", "features --older-than 30d --keep 10"),
        add_vacuum_options,
        notes="AGE must be longer than the longest change: its files belong to no version until it is "
        "complete.",
    ),
    _Command(
        "restore",
        "restore",
        "return to an earlier version",
        "Return to the state of an earlier version, as a new version.",
        ("features 12",),
        _restore_options,
    ),
)

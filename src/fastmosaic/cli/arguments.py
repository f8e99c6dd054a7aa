"""Arguments that several commands take."""

from __future__ import annotations

import argparse
from typing import Any, TypeAlias

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def add_paths(parser: argparse.ArgumentParser, what: str = "files, directories or globs") -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help=what)


def add_columns(parser: argparse.ArgumentParser) -> None:
    option: Any = parser.add_argument(
        "-c",
        "--columns",
        action="append",
        metavar="NAMES",
        help="columns by name or glob, such as id,'sensor_temp_*'; may be repeated",
    )
    option.completer = complete_columns


def add_where(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-w",
        "--where",
        metavar="CONDITION",
        help="""rows to take, such as "price > 9.5 and (kind = 'a' or kind is null)" """,
    )


def add_pager(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--no-pager", action="store_true", help="do not page what is long")


def complete_columns(prefix: str, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """Columns of the files that stand before the cursor, for the shell."""
    from ..fileset import FileSet

    paths = getattr(parsed_args, "paths", None) or []
    done, comma, last = prefix.rpartition(",")
    try:
        names = FileSet(list(paths)).columns.names()
    except Exception:  # noqa: BLE001 - a shell that completes wants no message
        return []
    return [f"{done}{comma}{name}" for name in names if name.startswith(last)]

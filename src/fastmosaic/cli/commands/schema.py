"""schema: the columns of files."""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from ...convert.inputs import Input, open_input
from ...convert.listed import ListedColumn, entries_of, measure
from ...display.prefixes import Group, grouped
from ..arguments import (
    Commands,
    add_at,
    add_columns,
    add_command,
    add_json,
    add_pager,
    add_paths,
    add_stored,
    whole,
)
from ..exit import NO, OK
from ..output.aligned import Column
from ..output.console import Console

_MAX_LISTED: Final = 200  # more columns are summarized on a terminal
_MAX_EXAMPLES: Final = 3
_MAX_EXAMPLE: Final = 24  # characters of each

_Some = TypeVar("_Some")

_DESCRIPTION = """\
Print the columns of files: position, type and name. The fields of structs follow their column, with
the position of the column: as a tree on a terminal, and by their paths, such as info.name, in a
pipe.

In a pipe, there is one line for each column and field. On a terminal, more than 200 of them are
summarized by the words their names start with, unless options choose columns. If files have
different schemas, the result is their union, with the number of files that contain a column and
with types that have no common type. The exit status is 1 if no column matches.
"""

_EXAMPLES = (
    "schema sales.mosaic",
    "schema wide.mosaic --grep 'temp.*_max$' -i",
    "schema wide.mosaic --sort size --limit 20",
    "schema wide.mosaic -c 'vehicle_*' --summary --sizes",
    "schema warehouse --types",
    "schema nested.mosaic -c 'info.*' --sizes",
)


def add(commands: Commands) -> None:
    """Register the `schema` command."""
    parser = add_command(
        commands, "schema", "print columns: names, types, sizes", _DESCRIPTION, _EXAMPLES
    )
    add_paths(parser)
    add_at(parser)
    which = parser.add_argument_group("choosing columns")
    add_columns(which)
    which.add_argument(
        "-g", "--grep", type=_regex, metavar="REGEX", help="columns and fields whose names match"
    )
    which.add_argument(
        "-i", "--ignore-case", action="store_true", help="let --grep ignore upper and lower case"
    )
    which.add_argument("--limit", type=whole, metavar="N", help="only the first N")
    add_stored(which)
    order = parser.add_argument_group("order")
    order.add_argument(
        "--sort",
        choices=("position", "name", "size"),
        help="sort columns; by size, the largest first (this reads a part of the files)",
    )
    order.add_argument("--reverse", action="store_true", help="reverse the order")
    form = parser.add_argument_group("output")
    forms = form.add_mutually_exclusive_group()
    forms.add_argument("--list", action="store_true", help="one line for each column")
    forms.add_argument(
        "--summary", action="store_true", help="one line for names that start with the same words"
    )
    forms.add_argument("--types", action="store_true", help="one line for each type")
    form.add_argument(
        "--sizes", action="store_true", help="print sizes in bytes (this reads a part of the files)"
    )
    add_pager(form)
    add_json(form)
    parser.set_defaults(run=_run)


def _regex(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"invalid regular expression {text!r}: {error}") from error
    return text


def _run(arguments: argparse.Namespace) -> int:
    console = Console(arguments)
    files = open_input(
        arguments.paths,
        follow_links=arguments.follow_links,
        stored=arguments.stored,
        version=arguments.at,
    )
    names = files.select(arguments.columns)  # a wrong name is an error before all are listed
    entries = entries_of(files)
    answer = _Answer(console, files, len(entries), arguments)
    entries = _chosen(entries, names, arguments)
    if arguments.sizes or arguments.sort == "size":
        with console.progress("measuring", files.num_bytes) as advance:
            measure(entries, files, advance)
    if arguments.types:
        answer.types(entries)
    elif arguments.summary or (console.is_terminal and _is_too_long(entries, arguments)):
        answer.summary(entries)
    else:
        answer.listing(entries)
    return OK if entries else NO


def _is_too_long(entries: Sequence[ListedColumn], arguments: argparse.Namespace) -> bool:
    choices = (arguments.columns, arguments.grep, arguments.sort, arguments.limit)
    is_chosen = any(choice is not None for choice in choices)
    num_lines = sum(1 for entry in entries for _ in entry.walk())
    return num_lines > _MAX_LISTED and not arguments.list and not is_chosen


def _chosen(
    entries: list[ListedColumn], names: Sequence[str] | None, arguments: argparse.Namespace
) -> list[ListedColumn]:
    if names is not None:
        entries = _wanted(entries, set(names).__contains__)
    if arguments.grep is not None:
        flags = re.IGNORECASE if arguments.ignore_case else 0
        entries = _wanted(entries, re.compile(arguments.grep, flags).search)
    return entries


def _wanted(
    entries: Iterable[ListedColumn], is_wanted: Callable[[str], object]
) -> list[ListedColumn]:
    found = (entry.chosen(is_wanted) for entry in entries)
    return [entry for entry in found if entry is not None]


# ---- output


class _Answer:
    """Prints the columns in one of three forms."""

    def __init__(
        self, console: Console, files: Input, num_columns: int, arguments: argparse.Namespace
    ) -> None:
        self._console = console
        self._files = files
        self._num_columns = num_columns
        self._limit: int | None = arguments.limit
        self._sort: str | None = arguments.sort
        self._reverse: bool = arguments.reverse

    def listing(self, entries: list[ListedColumn]) -> None:
        shown = self._first(self._sorted(entries))
        if self._console.is_json:
            self._document("columns", [entry.to_dict() for entry in shown])
            return
        with_sizes = _has_sizes(entries)
        columns = [
            Column.number("#"),
            *([Column.number("size")] if with_sizes else []),
            Column("type"),
            Column.name("name"),
        ]
        rows = [
            [
                None if branch and self._is_for_people else entry.position,
                *([self._size(entry.size)] if with_sizes else []),
                f"{entry.full_type}{self._remark(entry, parent)}",
                f"{branch}{entry.label}" if self._is_for_people else entry.name,
            ]
            for entry, parent, branch in self._lines(shown)
        ]
        self._console.table(columns, rows, header=False, footer=self._footer(entries, len(shown)))

    def _sorted(self, entries: Iterable[ListedColumn]) -> list[ListedColumn]:
        """Sort columns, and the fields of each."""
        keys: dict[str, Callable[[ListedColumn], Any]] = {
            "position": lambda entry: entry.position,  # the same for all fields of a column
            "name": lambda entry: entry.label,
            "size": lambda entry: (-(entry.size or 0), entry.label),
        }
        found = sorted(entries, key=keys[self._sort or "position"])
        return [
            replace(entry, fields=self._sorted(entry.fields)) if entry.fields else entry
            for entry in found
        ]

    def _lines(
        self, entries: Sequence[ListedColumn], parent: ListedColumn | None = None, indent: str = ""
    ) -> Iterator[tuple[ListedColumn, ListedColumn | None, str]]:
        """Yield columns and fields with the branch of the tree in front of each.

        Only a terminal shows columns that were not chosen themselves.
        """
        lines = self._console.branches
        for place, entry in enumerate(entries):
            is_last = place == len(entries) - 1
            branch = "" if parent is None else indent + lines[is_last]
            if self._is_for_people or not entry.is_context:
                yield entry, parent, branch
            below = "" if parent is None else indent + lines[2 + is_last]
            yield from self._lines(entry.fields, entry, below)

    def _remark(self, entry: ListedColumn, parent: ListedColumn | None) -> str:
        num_files = len(self._files.files)
        if entry.is_key:
            return " (partition)"
        if entry.num_files in (None, num_files, parent and parent.num_files):
            return ""
        return f" (in {entry.num_files} of {num_files} files)"

    def types(self, columns: Sequence[ListedColumn]) -> None:
        entries = _leaves(columns)
        by_type: dict[str, list[ListedColumn]] = {}
        for entry in entries:
            by_type.setdefault(entry.full_type, []).append(entry)
        shown = self._ordered([_Line(name, members) for name, members in by_type.items()])
        if self._console.is_json:
            self._document("types", [line.to_dict("type") for line in shown])
            return
        rows = [
            [
                *self._measures(line),
                *([self._console.bar(len(line.members) / len(entries))] * self._is_for_people),
                line.name,
                line.members[0].name,
            ]
            for line in shown
        ]
        heads = [
            *_measures(entries),
            *([Column("share", whole=True)] * self._is_for_people),
            Column("type"),
            Column.name("example"),
        ]
        self._console.table(heads, rows, footer=self._footer(columns, len(shown), "type"))

    def summary(self, columns: Sequence[ListedColumn]) -> None:
        entries = _leaves(columns)
        lines = []
        for group in grouped([entry.name for entry in entries]):
            members = [entries[index] for index in group.members]
            lines.append(_Line(_name_of(group, members), members, group))
        shown = self._ordered(lines)
        if self._console.is_json:
            self._document("groups", [line.to_dict("names") for line in shown])
            return
        rows = [
            [*self._measures(line), line.name, self._types_of(line), self._varying(line)]
            for line in shown
        ]
        heads = [*_measures(entries), Column.name("names"), Column("types"), Column("with")]
        footer = self._footer(columns, len(shown), "group")
        self._console.table(
            heads, rows, footer=f"{footer}; use --list to print all, -c or --grep to choose"
        )

    @property
    def _is_for_people(self) -> bool:
        return self._console.is_terminal

    def _ordered(self, lines: list[_Line]) -> list[_Line]:
        keys: dict[str, Callable[[_Line], Any]] = {
            "size": lambda line: (-(line.size or 0), line.name),
            "name": lambda line: line.name,
            "position": lambda line: line.members[0].position,
        }
        most = keys.get(self._sort or "", lambda line: (-len(line.members), line.name))
        return self._first(sorted(lines, key=most))

    def _first(self, sorted_ones: list[_Some]) -> list[_Some]:
        return (sorted_ones[::-1] if self._reverse else sorted_ones)[: self._limit]

    def _size(self, size: int | None) -> str | None:
        return None if size is None else self._console.size(size)

    def _measures(self, line: _Line) -> list[Any]:
        count = len(line.members)
        return [count] if line.size is None else [count, self._size(line.size)]

    def _types_of(self, line: _Line) -> str:
        cell = self._console.cell
        counts = list(line.num_by_type.items())
        if len(counts) == 1:
            return counts[0][0]
        most = ", ".join(f"{cell(count)} {type}" for type, count in counts[:_MAX_EXAMPLES])
        rest = sum(count for _, count in counts[_MAX_EXAMPLES:])
        return f"{most}, {cell(rest)} others" if rest else most

    def _varying(self, line: _Line) -> str:
        """Return the different parts of the first few names of a group."""
        assert line.group is not None
        if len(line.members) == 1:
            return ""
        dots = self._console.ellipsis
        parts = [line.group.varying(entry.name) for entry in line.members[:_MAX_EXAMPLES]]
        text = ", ".join(
            part if len(part) <= _MAX_EXAMPLE else part[:_MAX_EXAMPLE] + dots for part in parts
        )
        return text if len(line.members) <= _MAX_EXAMPLES else f"{text}, {dots}"

    def _footer(self, entries: Sequence[ListedColumn], num_shown: int, what: str = "") -> str:
        cell = self._console.cell
        num_files, num_rows = len(self._files.files), self._files.num_rows
        total = self._console.count(len(entries), "column")
        if len(entries) < self._num_columns:
            total = f"{cell(len(entries))} of {cell(self._num_columns)} columns"
        num_fields = sum(1 for entry in entries if entry.fields for _ in entry.leaves())
        if num_fields:
            total += f" with {self._console.count(num_fields, 'field')}"
        if what:
            total += f" in {self._console.count(num_shown, what)}"
        elif num_shown < len(entries):
            total = f"{cell(num_shown)} of {total}"
        rows = "" if num_rows is None else f", {self._console.count(num_rows, 'row')}"
        files = f", {cell(num_files)} files" if num_files > 1 else ""
        return f"{total}{rows}{files}"

    def _document(self, key: str, value: Any) -> None:
        self._console.document(
            {
                "format": self._files.format,
                "num_files": len(self._files.files),
                "num_rows": self._files.num_rows,
                "num_columns": self._num_columns,
                key: value,
            }
        )


@dataclass(frozen=True, slots=True)
class _Line:
    """Columns that are summarized in one line."""

    name: str
    members: list[ListedColumn]
    group: Group | None = None

    @property
    def size(self) -> int | None:
        return sum(entry.size or 0 for entry in self.members) if _has_sizes(self.members) else None

    @property
    def num_by_type(self) -> dict[str, int]:
        return dict(Counter(entry.full_type for entry in self.members).most_common())

    def to_dict(self, key: str) -> dict[str, Any]:
        return {
            key: self.name,
            "num_columns": len(self.members),
            **({} if self.group is None else {"types": self.num_by_type}),
            **({} if self.size is None else {"size": self.size}),
            "examples": [entry.name for entry in self.members[:_MAX_EXAMPLES]],
        }


def _leaves(entries: Iterable[ListedColumn]) -> list[ListedColumn]:
    """Return the columns, with their fields in place of structs."""
    return [leaf for entry in entries for leaf in entry.leaves()]


def _name_of(group: Group, members: Sequence[ListedColumn]) -> str:
    if len(members) == 1:
        return members[0].name
    return group.label


def _measures(entries: Sequence[ListedColumn]) -> list[Column]:
    return [Column.number("columns"), *([Column.number("size")] if _has_sizes(entries) else [])]


def _has_sizes(entries: Iterable[ListedColumn]) -> bool:
    return any(entry.size is not None for entry in entries)

"""Changes of tables as text."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from ...convert.values import compact
from .console import Console

_MAX_NAMES: Final = 5  # columns that are named


def local_time(moment: datetime) -> str:
    """Return a time in the zone of the user."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def described(console: Console, operation: str, summary: Mapping[str, Any]) -> str:
    """Describe a change in a few words; the summary is what another writer has put there."""
    facts = _Facts(console, summary)
    match operation:
        case "create":
            text = f"created with {facts.rows} in {facts.files}"
        case "append":
            text = f"appended {facts.rows} in {facts.files}"
        case "add columns":
            text = f"added {facts.columns} to {facts.files}"
        case "drop columns":
            text = f"dropped {facts.columns}"
        case "delete":
            text = f"deleted {facts.rows}"
        case "compact":
            text = f"merged {facts.count('files_before', 'file')} into {facts.after}"
        case "fold":
            text = f"folded {facts.count('files_before', 'file')}"
        case "restore":
            text = f"restored version {facts.number('version')}"
        case "vacuum":
            text = f"removed {facts.count('versions', 'version')}"
        case _:
            return facts.plain(operation)
    if copied := facts.number("row_groups_copied"):
        text += f", {console.count(copied, 'row group')} copied"
    if late := facts.number("files_without_values"):
        text += f"; {console.count(late, 'file')} appended meanwhile without values"
    if left := facts.number("left_to_other_writers"):
        text += f"; {console.count(left, 'group')} of files left to other writers"
    return text


class _Facts:
    """Numbers and names of a summary, which may lack some, or have others."""

    def __init__(self, console: Console, summary: Mapping[str, Any]) -> None:
        self._console = console
        self._summary = summary

    def number(self, key: str) -> int:
        value = self._summary.get(key)
        return value if isinstance(value, int) else 0

    def count(self, key: str, noun: str) -> str:
        return self._console.count(self.number(key), noun)

    @property
    def rows(self) -> str:
        return self.count("rows", "row")

    @property
    def files(self) -> str:
        return self.count("files", "file")

    @property
    def after(self) -> str:
        return self._console.cell(self.number("files_after"))

    @property
    def columns(self) -> str:
        names = self._summary.get("columns")
        if not isinstance(names, list) or not names:
            return "columns"
        shown = ", ".join(map(str, names[:_MAX_NAMES]))
        if len(names) > _MAX_NAMES:
            return f"{self._console.count(len(names), 'column')}: {shown}, {self._console.ellipsis}"
        return f"{'column' if len(names) == 1 else 'columns'} {shown}"

    def plain(self, operation: str) -> str:
        """Return the summary of an operation that is not known here."""
        told = ", ".join(f"{key}: {compact(value)}" for key, value in self._summary.items())
        return f"{operation}, {told}" if told else operation

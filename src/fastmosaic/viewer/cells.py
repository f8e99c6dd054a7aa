"""Cells as text: windows of rows that were read are kept for the next request."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa
from pyarrow import types

from ..convert.values import readable_texts
from ..errors import printable
from .errors import RequestError

if TYPE_CHECKING:
    from .tables import ViewedTable

MAX_CELL: Final = 200  # characters of a value in the grid
MAX_WHOLE: Final = 1_000_000  # characters of a value that is shown alone
MAX_CELLS: Final = 40_000  # of one request
MAX_COPIED: Final = 200_000  # cells
MAX_COPIED_TEXT: Final = 20_000_000  # characters

_WINDOW: Final = 128  # rows that are read together
_MAX_WINDOWS: Final = 4096  # windows of single columns that are kept

# None for null; a list of one text if the value was cut.
Cell: TypeAlias = str | list[str] | None


class CellCache:
    """The cells of a table; those that were read last are kept."""

    def __init__(self, table: ViewedTable) -> None:
        self._table = table
        self._kept: OrderedDict[tuple[str, int, int], list[Cell]] = OrderedDict()
        self._lock = threading.Lock()

    def read(
        self, positions: Sequence[int], start: int, stop: int, where: str
    ) -> tuple[list[int], list[list[Cell]]]:
        """Return the numbers of rows, and their cells by column.

        `start` and `stop` are places among the rows that match the condition `where`, or among all
        rows if it is empty.
        """
        numbers = list(self._table.row_numbers(start, stop, where))
        stop = start + len(numbers)
        columns: list[list[Cell]] = [[] for _ in positions]
        windows = range(start // _WINDOW, -(-stop // _WINDOW))
        with self._lock:
            self._load(positions, windows, where)
            for window in windows:
                first = window * _WINDOW
                inside = slice(max(0, start - first), max(0, stop - first))
                for cells, position in zip(columns, positions, strict=True):
                    self._kept.move_to_end((where, position, window))
                    cells += self._kept[where, position, window][inside]
            while len(self._kept) > _MAX_WINDOWS:
                self._kept.popitem(last=False)
        return numbers, columns

    def _load(self, positions: Sequence[int], windows: range, where: str) -> None:
        """Read what is not kept of some windows, at once: each read may decode whole pages."""
        missing = {
            position: [one for one in windows if (where, position, one) not in self._kept]
            for position in positions
        }
        missing = {position: lacking for position, lacking in missing.items() if lacking}
        if not missing:
            return
        first = min(lacking[0] for lacking in missing.values())
        end = max(lacking[-1] for lacking in missing.values()) + 1
        rows = self._table.row_numbers(first * _WINDOW, end * _WINDOW, where)
        names = [self._table.schema.field(position).name for position in missing]
        table = self._table.input.take(rows, names)
        for position, name in zip(missing, names, strict=True):
            cells = cells_of(table.column(name))
            for window in range(first, end):
                start = (window - first) * _WINDOW
                self._kept[where, position, window] = cells[start : start + _WINDOW]

    def to_tsv(self, positions: Sequence[int], start: int, stop: int, where: str) -> str:
        """Return complete values as lines with tabs, as spreadsheets paste them; nulls are empty."""
        rows = self._table.row_numbers(start, stop, where)
        names = [self._table.schema.field(position).name for position in positions]
        columns: list[list[str]] = []
        size = 0
        for name in names:  # one after another, so that too long ones are noticed early
            texts = _texts(self._table.input.take(rows, [name]).column(name), MAX_WHOLE)
            columns.append([_quoted(text or "") for text in texts])
            size += sum(map(len, columns[-1]))
            if size > MAX_COPIED_TEXT:
                raise RequestError(
                    f"the cells have more than {MAX_COPIED_TEXT // 1_000_000} million characters"
                )
        return "\n".join(map("\t".join, zip(*columns, strict=True)))

    def whole(self, position: int, row: int) -> dict[str, Any]:
        """Return one value completely, up to a limit that a page can show."""
        field = self._table.schema.field(position)
        column = self._table.input.take([row], [field.name]).column(field.name)
        (text,) = _texts(column, MAX_WHOLE)
        if text is None:
            return {"text": None, "is_cut": False}
        shown = "\n".join(map(printable, text[:MAX_WHOLE].split("\n")))
        return {"text": shown, "is_cut": len(text) > MAX_WHOLE}


def cells_of(column: pa.ChunkedArray) -> list[Cell]:
    """Return values as text of at most `MAX_CELL` characters, without control characters."""
    return [None if text is None else _cell(text) for text in _texts(column, MAX_CELL)]


def _cell(text: str) -> Cell:
    shown = printable(text[:MAX_CELL])
    return [shown] if len(text) > MAX_CELL else shown


def _quoted(text: str) -> str:
    """Return a value of TSV; quotes keep tabs and line ends together, as in spreadsheets."""
    if not any(mark in text for mark in '\t\n\r"'):
        return text
    return '"' + text.replace('"', '""') + '"'


def _texts(column: pa.ChunkedArray, limit: int) -> list[str | None]:
    """Return values as text; long ones may be cut behind `limit` characters."""
    import pyarrow.compute as pc

    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # too long for one array of its type
        array = pa.concat_arrays(array.chunks)
    if types.is_string(array.type) or types.is_large_string(array.type):
        array = pc.utf8_slice_codeunits(array, 0, limit + 1)
    elif types.is_binary(array.type) or types.is_large_binary(array.type):
        array = pc.binary_slice(array, 0, limit)  # two digits for each byte
    return readable_texts(array)

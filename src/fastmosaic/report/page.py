"""The page of a report: data, style and script in one HTML file that loads nothing.

The data is compressed JSON in base64. So nothing that a file says is part of the markup, whatever
its names and values contain; the script puts it into the page as text. The page allows itself
its own style and script only, by their hashes.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final

MAX_BYTES: Final = 5_000_000
# What is left out, in this order, if a page would be larger.
_OPTIONAL: Final = ("histogram", "min", "max", "distinct")
_OF_COLUMNS: Final = frozenset(
    {"name", "type", "encoding", "bytes", "nulls"}
)  # one for each column


def page(content: Mapping[str, Any]) -> bytes:
    """Return the HTML of a report; see `measured` for its content.

    If it would have more than `MAX_BYTES`, properties of columns are left out, and then the smallest
    columns, and the page says so.
    """
    left_out: list[str] = []
    columns = dict(content["columns"])
    total = kept = len(columns["name"])
    while True:
        shown = _largest(columns, kept) if kept < total else columns
        rest = [total - kept, sum(columns["bytes"]) - sum(shown["bytes"])]
        made = _page({**content, "columns": shown, "leftOut": left_out, "rest": rest})
        if len(made) <= MAX_BYTES or not kept:
            return made
        if len(left_out) < len(_OPTIONAL):
            name = _OPTIONAL[len(left_out)]
            del columns[name]
            left_out.append(name)
        else:  # names alone are too long
            kept = min(kept - 1, kept * MAX_BYTES * 9 // (len(made) * 10))


def _largest(columns: Mapping[str, Any], count: int) -> dict[str, Any]:
    """Return the columns with the most bytes, in their order; optional properties are left out."""
    sizes = columns["bytes"]
    chosen = sorted(sorted(range(len(sizes)), key=lambda place: -sizes[place])[:count])
    return {
        name: [values[place] for place in chosen] if name in _OF_COLUMNS else values
        for name, values in columns.items()
    }


def _page(content: Mapping[str, Any]) -> bytes:
    style, script, markup = (_read(f"page.{end}") for end in ("css", "js", "html"))
    text = json.dumps(content, ensure_ascii=True, separators=(",", ":"))
    data = base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()
    for name, value in {
        "STYLE_HASH": _hash(style),
        "SCRIPT_HASH": _hash(script),
        "STYLE": style,
        "SCRIPT": script,
        "DATA": data,
        "TITLE": html.escape(content["title"]),  # last: it may contain such a mark
    }.items():
        before, found, after = markup.partition(f"@@{name}@@")
        markup = before + value + after if found else markup
    return markup.encode("utf-8", "backslashreplace")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _read(name: str) -> str:
    return (files(__package__) / "static" / name).read_text(encoding="utf-8")

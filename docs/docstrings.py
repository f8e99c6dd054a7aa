"""For mkdocs: docstrings as mkdocstrings reads them.

An example at the end is a section of examples, with or without a title. Parameters that are
described together are described one by one, or all would get the default of the first.
"""

import re
from typing import Any

import griffe

TOGETHER = re.compile(r"^((?:\w+, )+\w+)(?: : .*)?\n((?:    .*\n?)+)", re.MULTILINE)


class Docstrings(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is None:
            return
        before, title, after = obj.docstring.value.partition("\nParameters\n----------\n")
        if title:
            after = TOGETHER.sub(one_by_one, after)
        text = before + title + after
        if "\nExamples\n--------\n" not in text:
            text = re.sub(r"\n\n(?=>>> )", "\n\nExamples\n--------\n", text, count=1)
        obj.docstring.value = text


def one_by_one(described: re.Match[str]) -> str:
    description = described[2].rstrip("\n") + "\n"
    return "".join(f"{name}\n{description}" for name in described[1].split(", "))

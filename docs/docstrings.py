"""An extension of mkdocs that prepares docstrings and signatures for mkdocstrings.

- An example at the end becomes a section of examples, with or without a title.
- Parameters that are described together are described one by one; otherwise all of them would get
  the default of the first.
- `**options` of `MosaicWriter`, which describes them, are replaced by the options themselves.
"""

import re
from typing import Any

import griffe

from fastmosaic.file.options import OPTIONS, WriteOptions

TOGETHER = re.compile(r"^((?:\w+, )+\w+)(?: : .*)?\n((?:    .*\n?)+)", re.MULTILINE)


class Docstrings(griffe.Extension):
    def on_function(self, *, func: griffe.Function, **kwargs: Any) -> None:
        if func.path.endswith("MosaicWriter.__init__"):
            del func.parameters["options"]
            for parameter in option_parameters():
                func.parameters.add(parameter)

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


def option_parameters() -> list[griffe.Parameter]:
    """Return the options of the writer as keyword-only parameters."""
    return [
        griffe.Parameter(
            name,
            annotation=getattr(type, "__name__", str(type)).replace("collections.abc.", ""),
            kind=griffe.ParameterKind.keyword_only,
            default=repr(option.default),
        )
        for name, option in OPTIONS.items()
        for type in [WriteOptions.__annotations__[name]]
    ]

"""The options of `MosaicWriter`: one table of names, types, defaults, checks and text forms.

This module is the only place that lists the options. Everything that writes Mosaic files builds on
it:

- A function that passes options on declares `**options: Unpack[WriteOptions]`, so that type
  checkers and editors know the keywords, and is decorated with `accepts_options`, so that `help`
  and `inspect.signature` show every option with its default.
- `completed(options)` checks names and values and fills in the defaults. An unknown name raises a
  TypeError that suggests the closest known one. `check_names` checks the names only.
- `OPTIONS` maps each name to an `Option`. A command-line parser uses its `flag`, `metavar`,
  `help`, `choices` and `parse`; a flag that starts with `--no-` sets the option to False. Settings
  that are strings, such as the options of a Spark data source, use `parse` and `to_text`.

The options with `is_compatibility` reproduce the bytes of the Apache writer. Most users never need
them, so documentation describes them last.

What an option does is documented in the docstring of `MosaicWriter`.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from operator import index
from typing import Any, Final, TypedDict, TypeVar, cast

from ..memory import parse_size

Function = TypeVar("Function", bound=Callable[..., Any])

_TRUTH: Final = {"true": True, "false": False}


class WriteOptions(TypedDict, total=False):
    """The keyword arguments that `MosaicWriter` accepts besides `where`, `schema`, `filesystem`."""

    compression: str | None
    compression_level: int | None
    write_statistics: bool | Sequence[str]
    use_dictionary: bool | Sequence[str]
    row_group_size: int | None
    row_group_bytes: int
    num_buckets: int
    array_layout: str
    layout: str
    write_key_index: str | Sequence[str] | None
    use_threads: bool
    page_size_threshold: int | None
    max_dict_entries: int | None
    max_dict_total_bytes: int | None
    checksum: bool
    annex: bool


class OptionKind(Enum):
    """What values an option accepts, and how they are written as text."""

    CHOICE = "choice"  # one of a few words
    INTEGER = "integer"
    SIZE = "size"  # a number of bytes; as text also 64k, 64m, 64g
    BOOLEAN = "boolean"  # as text true or false
    NAMES = "names"  # a name or a list of names; as text "a, b" or a JSON list
    COLUMNS = "columns"  # a boolean or a list of names; as text also "a, b" or a JSON list


@dataclass(frozen=True, slots=True)
class Option:
    """One option of the writer."""

    name: str
    kind: OptionKind
    default: Any
    help: str  # one line for a command line
    flag: str = ""  # of the command line; empty if the command line does not offer the option
    metavar: str = ""
    minimum: int = 0
    maximum: int | None = None
    choices: tuple[str, ...] = ()
    is_compatibility: bool = False  # reproduces the bytes of the Apache writer

    def check(self, value: Any) -> Any:
        """Return `value` in its usual form; raise TypeError or ValueError if it is invalid."""
        if value is None and (self.default is None or self.name == "compression"):
            return value
        match self.kind:
            case OptionKind.CHOICE:
                return self._check_choice(value)
            case OptionKind.INTEGER | OptionKind.SIZE:
                return self._check_number(value)
            case OptionKind.BOOLEAN:
                if not isinstance(value, bool):
                    raise TypeError(f"{self.name} must be True or False, not {value!r}")
            case OptionKind.NAMES:
                names = [value] if isinstance(value, str) else value
                if not isinstance(names, Sequence) or not all(
                    isinstance(one, str) for one in names
                ):
                    raise TypeError(f"{self.name} must be one or more column names, not {value!r}")
                if not names or len(set(names)) < len(names):
                    raise ValueError(f"{self.name} must name different columns, not {value!r}")
                return list(names)
            case OptionKind.COLUMNS:
                if isinstance(value, bool):
                    return value
                if isinstance(value, str) or not isinstance(value, Iterable):
                    raise TypeError(
                        f"{self.name} must be True, False or a list of column names, not {value!r}"
                    )
                return list(value)
        return value

    def _check_choice(self, value: Any) -> str:
        word = value.lower() if isinstance(value, str) else value
        if word not in self.choices:
            known = " or ".join(map(repr, self.choices))
            raise ValueError(f"{self.name} must be {known}, not {value!r}")
        return str(word)

    def _check_number(self, value: Any) -> int:
        try:
            number = index(value)
        except TypeError:
            raise TypeError(f"{self.name} must be an integer, not {value!r}") from None
        if number < self.minimum or (self.maximum is not None and number > self.maximum):
            limits = (
                f"at least {self.minimum}"
                if self.maximum is None
                else f"between {self.minimum} and {self.maximum}"
            )
            raise ValueError(f"{self.name} must be {limits}, not {number}")
        return number

    def parse(self, text: str) -> Any:
        """Return the value that `text` stands for; raise ValueError if it is invalid."""
        match self.kind:
            case OptionKind.CHOICE:
                value: Any = text
            case OptionKind.INTEGER:
                value = parse_integer(text)
            case OptionKind.SIZE:
                value = parse_size(text)
            case OptionKind.BOOLEAN:
                value = parse_boolean(text)
            case OptionKind.NAMES:
                value = parse_names(text)
            case OptionKind.COLUMNS:
                is_boolean = text.lower() in _TRUTH
                value = parse_boolean(text) if is_boolean else parse_names(text)
        return self.check(value)

    def to_text(self, value: Any) -> str:
        """Return text that `parse` turns back into `value`."""
        if value is None:
            return "none"
        if isinstance(value, str):
            return value
        import json

        return json.dumps(value if isinstance(value, bool | int) else list(value))


_TABLE: Final = (
    Option(
        "compression",
        OptionKind.CHOICE,
        "zstd",
        "compression codec: zstd or none",
        flag="--compression",
        metavar="CODEC",
        choices=("zstd", "none"),
    ),
    Option(
        "compression_level",
        OptionKind.INTEGER,
        None,
        "compression level; for zstd, 1 is fast and 19 is small",
        flag="--level",
        metavar="N",
        minimum=-131072,
        maximum=22,
    ),
    Option(
        "write_statistics",
        OptionKind.COLUMNS,
        False,
        "columns to store statistics for: names, globs, or all",
        flag="--stats",
        metavar="NAMES",
    ),
    Option(
        "use_dictionary",
        OptionKind.COLUMNS,
        True,
        "do not use dictionary encoding",
        flag="--no-dictionary",
    ),
    Option(
        "row_group_size",
        OptionKind.INTEGER,
        None,
        "maximum number of rows in a row group",
        flag="--row-group-size",
        metavar="ROWS",
        minimum=1,
    ),
    Option(
        "row_group_bytes",
        OptionKind.SIZE,
        256 << 20,
        "size of a row group before encoding, e.g. 64m",
        flag="--row-group-bytes",
        metavar="SIZE",
    ),
    Option(
        "num_buckets",
        OptionKind.INTEGER,
        100,
        "number of buckets that the columns are divided into",
        flag="--buckets",
        metavar="N",
        minimum=1,
    ),
    Option(
        "array_layout",
        OptionKind.CHOICE,
        "columns",
        "how lists of scalars are stored: columns or block",
        flag="--array-layout",
        metavar="LAYOUT",
        choices=("columns", "block"),
    ),
    Option(
        "layout",
        OptionKind.CHOICE,
        "auto",
        "what the file is made for: auto, or serving (few rows at a time)",
        choices=("auto", "serving"),
    ),
    Option(
        "write_key_index",
        OptionKind.NAMES,
        None,
        "column or columns to write a key index for, for lookups",
    ),
    Option("use_threads", OptionKind.BOOLEAN, True, "encode on all cores"),
    Option(
        "page_size_threshold",
        OptionKind.SIZE,
        None,
        "mean size of a column from which a bucket is paged; by default the cheaper layout wins",
        flag="--page-size-threshold",
        metavar="SIZE",
        is_compatibility=True,
    ),
    Option(
        "max_dict_entries",
        OptionKind.INTEGER,
        None,
        "maximum number of entries in a dictionary; by default what is smaller after compression",
        is_compatibility=True,
    ),
    Option(
        "max_dict_total_bytes",
        OptionKind.SIZE,
        None,
        "maximum size of a dictionary; by default what is smaller after compression",
        is_compatibility=True,
    ),
    Option(
        "checksum",
        OptionKind.BOOLEAN,
        True,
        "do not store zstd checksums",
        flag="--no-checksum",
        is_compatibility=True,
    ),
    Option(
        "annex",
        OptionKind.BOOLEAN,
        True,
        "do not write an annex (metadata, index checksums)",
        flag="--no-annex",
        is_compatibility=True,
    ),
)
# Of `layout="serving"`, unless the caller chooses others: few rows to decompress, each column alone, and
# few buckets, because each one that a read touches costs more than a column.
SERVING: Final[Mapping[str, Any]] = {
    "row_group_size": 4096,
    "page_size_threshold": 0,
    "num_buckets": 10,
}
OPTIONS: Final[Mapping[str, Option]] = {option.name: option for option in _TABLE}


def completed(
    options: Mapping[str, Any], function: Callable[..., Any] | None = None
) -> WriteOptions:
    """Return `options` checked and completed with the default of every other option.

    `function` is the one that was called. Its own parameters are candidates too when an unknown
    name is close to one of them.
    """
    check_names(options, function)
    given = {name: OPTIONS[name].check(value) for name, value in options.items()}
    defaults = {name: option.default for name, option in OPTIONS.items()}
    if given.get("layout") == "serving":
        defaults |= SERVING
    return cast(WriteOptions, defaults | given)


def check_names(options: Mapping[str, Any], function: Callable[..., Any] | None = None) -> None:
    """Raise TypeError if a name is not an option, with the closest known name as a hint."""
    for name in options:
        if name not in OPTIONS:
            known = {*OPTIONS, *(inspect.signature(function).parameters if function else ())}
            raise TypeError(unknown_option(name, known))


def unknown_option(name: str, known: Iterable[str]) -> str:
    """Return the message for an option that does not exist."""
    import difflib

    close = difflib.get_close_matches(name, sorted(known), 1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f"unknown option {name!r}{hint}"


def accepts_options(function: Function) -> Function:
    """Show the writer's options in the signature of a function that ends in `**options`."""
    own = inspect.signature(function)
    types = WriteOptions.__annotations__
    options = [
        inspect.Parameter(
            option.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=option.default,
            annotation=types[option.name],
        )
        for option in _TABLE
    ]
    parameters = [*own.parameters.values()][:-1] + options
    function.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    return function


def parse_integer(text: str) -> int:
    """Return the integer that `text` stands for."""
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"invalid number {text!r}") from None


def parse_boolean(text: str) -> bool:
    """Return True for "true" and False for "false", in any case."""
    if text.lower() not in _TRUTH:
        raise ValueError(f"invalid value {text!r}: expected true or false")
    return _TRUTH[text.lower()]


def parse_names(text: str) -> list[str]:
    """Return column names: `a, b`, or a JSON list if names contain commas or spaces."""
    if not text.lstrip().startswith("["):
        return [name.strip() for name in text.split(",") if name.strip()]
    import json

    names = json.loads(text)
    if not all(isinstance(name, str) for name in names):
        raise ValueError(f"invalid list of names {text!r}: expected strings")
    return list(names)

"""Options of the data source: their names and how their strings are parsed.

Spark passes options as strings and does not preserve the case of their names, so `maxRowsPerFile`,
`max_rows_per_file` and `maxrowsperfile` are the same option. A list of columns is written `a, b`, or
as a JSON list if names contain commas or spaces.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from ...file.options import (
    OPTIONS,
    parse_boolean,
    parse_integer,
    parse_names,
    unknown_option,
)
from ...memory import parse_size
from ...storage.location import URI
from ...storage.target import EXISTING

# A task reads about this much compressed data in a second.
DEFAULT_MAX_SPLIT_BYTES: Final = 32 << 20

# Options that Spark adds itself: the arguments of load and save, and the checkpoint of a stream.
PATH: Final = "path"
PATHS: Final = "paths"
# What Spark's own catalog adds when a table is created there, and only then with the path.
OWNER: Final = "owner"
SPARK_OPTIONS: Final = frozenset({PATH, PATHS, "checkpointlocation"})

Value = TypeVar("Value")


# ---- parsing strings


def _positive(parse: Callable[[str], int]) -> Callable[[str], int]:
    def parse_positive(text: str) -> int:
        number = parse(text)
        if number < 1:
            raise ValueError("must be at least 1")
        return number

    return parse_positive


def _word(**values: Value) -> Callable[[str], Value]:
    def parse_word(text: str) -> Value:
        if text.lower() not in values:
            raise ValueError(f"expected one of {', '.join(values)}")
        return values[text.lower()]

    return parse_word


def _filters(text: str) -> list[Any]:
    """Parse JSON into pyarrow.parquet's form of filters, which has tuples instead of lists."""
    filters = json.loads(text)
    if not isinstance(filters, list) or not filters:
        raise ValueError('expected a JSON list such as [["x", ">", 5], ["y", "in", [1, 2]]]')
    alternatives = filters if isinstance(filters[0][0], list) else [filters]
    for column, _, _ in (condition for all_of in alternatives for condition in all_of):
        if not isinstance(column, str):
            raise TypeError(f"{column!r} is not a column name")
    return [[tuple(condition) for condition in all_of] for all_of in alternatives]


# ---- the options


@dataclass(frozen=True, kw_only=True)
class LoadOptions:
    """Options of `spark.read.format("mosaic")`.

    columns          names, or patterns such as `sensor_*`, of the columns to load, or paths to fields
                     of structs, such as `info.name`; default: all
    filters          pyarrow.parquet's filters as JSON: `[["x", ">", 5], ["y", "in", [1, 2]]]` loads
                     rows that match all conditions; a list of such lists loads rows that match
                     one of them. Columns may be paths to fields of structs. Dates, times and
                     decimals are strings, durations are numbers
    partitioning     `hive` (default) turns directories named `key=value` into columns; `none`
                     ignores them
    unify            `true` (default) reads files with different schemas as their union; with
                     `false` a difference is an error
    skip_corrupt     `true` skips files that cannot be opened, with a warning; default `false`
    memory_limit     maximum memory of a batch in a task, such as `2g`; default: half of the memory of
                     the machine
    strict           `false` reads decimals and times outside the range of their type; default `true`
    follow_links     `true` follows links in a local directory that lead out of it; default
                     `false`: they are an error
    max_split_bytes  approximate bytes of the loaded columns that one task reads; default 32 MiB
    pushdown         `true` lets Spark's filters skip row groups, if the session sets
                     spark.sql.python.filterPushdown.enabled. Default `false`, because Spark keeps
                     the pushed filters with the DataFrame: a second query on the same DataFrame
                     may read too few rows. Enable it only for a DataFrame that is used once
    max_files_per_trigger  maximum number of files in a batch of a stream; default: no limit
    """

    columns: list[str] | None = None
    filters: list[Any] | None = None
    partitioning: str | None = "hive"
    unify: bool = True
    skip_corrupt: bool = False
    memory_limit: int | None = None
    strict: bool = True
    follow_links: bool = False
    max_split_bytes: int = DEFAULT_MAX_SPLIT_BYTES
    pushdown: bool = False
    max_files_per_trigger: int | None = None


@dataclass(frozen=True, kw_only=True)
class SaveOptions:
    """Options of `df.write.format("mosaic")`.

    existing      used instead of the save mode, because Spark allows only `append` and
                  `overwrite`: `error` raises if the directory contains files, `ignore` writes
                  nothing in that case
    partition_by  columns to partition by (`key=value` directories)
    staging       `true` (default) writes files to a staging directory until the job is complete
    max_rows_per_file, max_bytes_per_file, max_open_files
                  as for `write_dataset`
    and the options of `MosaicWriter`
    """

    existing: str | None = None
    partition_by: list[str] | None = None
    staging: bool = True
    max_rows_per_file: int | None = None
    max_bytes_per_file: int | None = None
    max_open_files: int | None = None
    of_writer: Mapping[str, Any] = field(default_factory=dict)

    def of_dataset(self) -> dict[str, Any]:
        """Return the options that were given, as arguments of `write_dataset`."""
        limits = {
            "max_rows_per_file": self.max_rows_per_file,
            "max_bytes_per_file": self.max_bytes_per_file,
            "max_open_files": self.max_open_files,
        }
        given = {name: value for name, value in limits.items() if value is not None}
        return {"partitioning": self.partition_by, **given, **self.of_writer}


# How the string of each option is parsed.
_LOAD: Final[Mapping[str, Callable[[str], Any]]] = {
    "columns": parse_names,
    "filters": _filters,
    "partitioning": _word(hive="hive", none=None),
    "unify": parse_boolean,
    "skip_corrupt": parse_boolean,
    "memory_limit": _positive(parse_size),
    "strict": parse_boolean,
    "follow_links": parse_boolean,
    "max_split_bytes": _positive(parse_size),
    "pushdown": parse_boolean,
    "max_files_per_trigger": _positive(parse_integer),
}
_SAVE: Final[Mapping[str, Callable[[str], Any]]] = {
    "existing": _word(**{word: word for word in (*EXISTING, "ignore")}),
    "partition_by": parse_names,
    "staging": parse_boolean,
    "max_rows_per_file": _positive(parse_integer),
    "max_bytes_per_file": _positive(parse_size),
    "max_open_files": _positive(parse_integer),
}
# Spark runs a task on each core, so tasks encode without threads.
_WRITER: Final[Mapping[str, Callable[[str], Any]]] = {
    name: option.parse for name, option in OPTIONS.items() if name != "use_threads"
}


def check_names(options: Mapping[str, str]) -> None:
    """Raise if an option is known neither for reading nor for writing."""
    known = _by_folded(_LOAD, _SAVE, _WRITER)
    for name in options:
        if _folded(name) not in known and name.lower() not in SPARK_OPTIONS:
            raise ValueError(unknown_option(name, known.values()))


def load_options(options: Mapping[str, str]) -> LoadOptions:
    """Parse the options of `spark.read.format("mosaic")`."""
    return LoadOptions(**_parse(_LOAD, options, "reading"))


def save_options(options: Mapping[str, str]) -> SaveOptions:
    """Parse the options of `df.write.format("mosaic")`."""
    values = _parse({**_SAVE, **_WRITER}, options, "writing")
    of_writer = {name: values.pop(name) for name in list(values) if name in _WRITER}
    return SaveOptions(**values, of_writer=of_writer)


def as_texts(options: Mapping[str, Any]) -> dict[str, str]:
    """Convert options for writing to strings for Spark. None means not given."""
    texts = {}
    for name, value in options.items():
        if name in _WRITER:
            if value is not None or name == "compression":
                texts[name] = OPTIONS[name].to_text(value)
        elif name not in _SAVE:
            raise TypeError(unknown_option(name, (*_SAVE, *_WRITER)))
        elif value is not None:
            if name == "partition_by":
                value = [value] if isinstance(value, str) else list(value)
            texts[name] = value if isinstance(value, str) else json.dumps(value)
    return texts


def sources(options: Mapping[str, str]) -> str | list[str]:
    """Return the paths given to `load` or `save`, as absolute paths or URIs."""
    if OWNER in options or (PATH not in options and PATHS not in options):
        raise ValueError(
            'missing path: use .load("directory") or .save("directory"). Spark\'s own catalog passes '
            "no location to data sources in Python, so CREATE TABLE USING mosaic does not work there: "
            "use fastmosaic.spark.catalog for tables in SQL"
        )
    if PATHS in options:
        return [absolute(path) for path in json.loads(options[PATHS])]
    return absolute(options[PATH])


def absolute(path: str) -> str:
    return path if URI.match(path) else os.path.abspath(path)


def _folded(name: str) -> str:
    return name.replace("_", "").lower()


def _by_folded(*tables: Mapping[str, Any]) -> dict[str, str]:
    return {_folded(name): name for table in tables for name in table}


def _parse(
    parsers: Mapping[str, Callable[[str], Any]], options: Mapping[str, str], purpose: str
) -> dict[str, Any]:
    known = _by_folded(parsers)
    others = _by_folded(_LOAD, _SAVE, _WRITER)
    values = {}
    for given, text in options.items():
        name = known.get(_folded(given))
        if name is not None:
            try:
                values[name] = parsers[name](text)
            except (ValueError, TypeError, IndexError) as error:
                raise ValueError(f"option {name}={text!r}: {error}") from None
        elif _folded(given) in others:
            raise ValueError(f"option {others[_folded(given)]!r} is not an option for {purpose}")
        elif given.lower() not in SPARK_OPTIONS:
            raise ValueError(unknown_option(given, known.values()))
    return values

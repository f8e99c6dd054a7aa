"""Options of the data source: their names and what their texts mean.

Spark hands on options as texts and does not keep the case of their names, so `maxRowsPerFile`,
`max_rows_per_file` and `maxrowsperfile` are one option. A list of columns is `a, b`, or a JSON list
where names have commas or spaces in them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, TypeVar

from ...storage.location import URI
from ...storage.staging import EXISTING

# About as much compressed data as a task reads in a second.
DEFAULT_MAX_SPLIT_BYTES: Final = 32 << 20

# What Spark itself adds: the argument of load and save, and of streams.
PATH: Final = "path"
PATHS: Final = "paths"
SPARKS_OWN: Final = frozenset({PATH, PATHS, "checkpointlocation"})

Options = TypeVar("Options")


# ---- the texts


def _names(text: str) -> list[str]:
    if not text.lstrip().startswith("["):
        return [name.strip() for name in text.split(",") if name.strip()]
    names = json.loads(text)
    if not all(isinstance(name, str) for name in names):
        raise ValueError("a list of names has texts in it")
    return list(names)


def _boolean(text: str) -> bool:
    truth = {"true": True, "false": False}
    if text.lower() not in truth:
        raise ValueError("it is true or false")
    return truth[text.lower()]


def _boolean_or_names(text: str) -> bool | list[str]:
    return _boolean(text) if text.lower() in ("true", "false") else _names(text)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError("it is at least 1")
    return number


def _partitioning(text: str) -> str | None:
    if text.lower() not in ("hive", "none"):
        raise ValueError("it is hive or none")
    return None if text.lower() == "none" else "hive"


def _existing(text: str) -> str:
    if text not in (*EXISTING, "ignore"):
        raise ValueError(f"it is one of {', '.join((*EXISTING, 'ignore'))}")
    return text


def _filters(text: str) -> list[Any]:
    """pyarrow.parquet's form of filters: JSON has lists where that has tuples."""
    filters = json.loads(text)
    if not isinstance(filters, list) or not filters:
        raise ValueError('it is a JSON list like [["x", ">", 5], ["y", "in", [1, 2]]]')
    alternatives = filters if isinstance(filters[0][0], list) else [filters]
    for column, _, _ in (condition for all_of in alternatives for condition in all_of):
        if not isinstance(column, str):
            raise TypeError(f"{column!r} is no name of a column")
    return [[tuple(condition) for condition in all_of] for all_of in alternatives]


# ---- the options


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """Options of `spark.read.format("mosaic")`.

    columns          names, or patterns such as `sensor_*`, of the columns to load
    filters          JSON of pyarrow.parquet's filters, `[["x", ">", 5], ["y", "in", [1, 2]]]`:
                     all of them hold for the rows that are loaded; a list of such lists: one does.
                     Dates, times and decimals are given as texts
    partitioning     `hive`: directories called `key=value` are columns; `none`: they are not
    unify            whether files may differ, and are read as the union of their columns
    skip_corrupt     whether files that cannot be opened are left out, with a warning
    max_split_bytes  how many bytes of the columns that are loaded one task reads, about
    pushdown         whether Spark's filters skip row groups, if the session has
                     spark.sql.python.filterPushdown.enabled. Off, because Spark keeps what it
                     pushed with the DataFrame: one that is used for a second query may then read
                     too few rows. Turn it on for a DataFrame that is used once
    max_files_per_trigger  of a stream: how many files one batch reads
    """

    columns: list[str] | None = None
    filters: list[Any] | None = None
    partitioning: str | None = "hive"
    unify: bool = True
    skip_corrupt: bool = False
    max_split_bytes: int = DEFAULT_MAX_SPLIT_BYTES
    pushdown: bool = False
    max_files_per_trigger: int | None = None


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    """Options of `df.write.format("mosaic")`.

    existing      in the place of the mode, which Spark lets be only append or overwrite: `error` if
                  there are files, or `ignore`, which then writes nothing
    partition_by  columns whose values become directories, `key=value`
    staging       whether files are written aside until the job is complete
    max_rows_per_file, max_bytes_per_file, max_open_files
                  as for `write_dataset`
    and those of `MosaicWriter`
    """

    existing: str | None = None
    partition_by: list[str] | None = None
    staging: bool = True
    max_rows_per_file: int | None = None
    max_bytes_per_file: int | None = None
    max_open_files: int | None = None
    compression: str | None = None
    compression_level: int | None = None
    checksum: bool | None = None
    annex: bool | None = None
    write_statistics: bool | list[str] | None = None
    use_dictionary: bool | list[str] | None = None
    row_group_size: int | None = None
    row_group_bytes: int | None = None
    num_buckets: int | None = None
    page_size_threshold: int | None = None
    max_dict_entries: int | None = None
    max_dict_total_bytes: int | None = None
    array_layout: str | None = None

    def of_files(self) -> dict[str, Any]:
        """The options that `write_dataset` takes, as far as they were given."""
        ours = ("existing", "partition_by", "staging")
        given = {
            one.name: value
            for one in fields(self)
            if one.name not in ours and (value := getattr(self, one.name)) is not None
        }
        return {"partitioning": self.partition_by, **given}


_READERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "columns": _names,
    "filters": _filters,
    "partitioning": _partitioning,
    "unify": _boolean,
    "skip_corrupt": _boolean,
    "max_split_bytes": _positive,
    "pushdown": _boolean,
    "max_files_per_trigger": _positive,
    "existing": _existing,
    "partition_by": _names,
    "staging": _boolean,
    "max_rows_per_file": _positive,
    "max_bytes_per_file": _positive,
    "max_open_files": _positive,
    "compression": str,
    "compression_level": int,
    "checksum": _boolean,
    "annex": _boolean,
    "write_statistics": _boolean_or_names,
    "use_dictionary": _boolean_or_names,
    "row_group_size": _positive,
    "row_group_bytes": int,
    "num_buckets": _positive,
    "page_size_threshold": int,
    "max_dict_entries": int,
    "max_dict_total_bytes": int,
    "array_layout": str,
}


def check_names(options: Mapping[str, str]) -> None:
    """Raise if there is an option that neither reading nor writing has."""
    known = {**_by_folded(ReadOptions), **_by_folded(WriteOptions)}
    for name in options:
        if _folded(name) not in known and name.lower() not in SPARKS_OWN:
            raise ValueError(_unknown(name, known))


def read_options(options: Mapping[str, str]) -> ReadOptions:
    return _parse(ReadOptions, options, "reading", _by_folded(WriteOptions))


def write_options(options: Mapping[str, str]) -> WriteOptions:
    return _parse(WriteOptions, options, "writing", _by_folded(ReadOptions))


def as_texts(options: Mapping[str, Any]) -> dict[str, str]:
    """Options of `WriteOptions` as Spark takes them; None is what is not given."""
    known = _by_folded(WriteOptions)
    texts = {}
    for name, value in options.items():
        if _folded(name) not in known:
            raise TypeError(_unknown(name, known))
        if value is None:
            if name == "compression":
                texts[name] = "none"
        elif isinstance(value, str):
            texts[name] = json.dumps([value]) if name == "partition_by" else value
        else:
            texts[name] = json.dumps(value if isinstance(value, bool | int) else list(value))
    return texts


def sources(options: Mapping[str, str]) -> str | list[str]:
    """The paths that were given to `load` or `save`, as any process will find them."""
    if PATHS in options:
        return [absolute(path) for path in json.loads(options[PATHS])]
    if PATH not in options:
        raise ValueError('there is no path: .load("directory"), .save("directory")')
    return absolute(options[PATH])


def absolute(path: str) -> str:
    return path if URI.match(path) else os.path.abspath(path)


def _folded(name: str) -> str:
    return name.replace("_", "").lower()


def _by_folded(kind: type) -> dict[str, str]:
    return {_folded(one.name): one.name for one in fields(kind)}


def _unknown(name: str, known: Mapping[str, str]) -> str:
    import difflib

    close = difflib.get_close_matches(_folded(name), known, n=1)
    hint = f"; did you mean {known[close[0]]!r}?" if close else f": {', '.join(known.values())}"
    return f"there is no option {name!r}{hint}"


def _parse(
    kind: type[Options], options: Mapping[str, str], purpose: str, others: Mapping[str, str]
) -> Options:
    known = _by_folded(kind)
    values = {}
    for given, text in options.items():
        name = known.get(_folded(given))
        if name is not None:
            try:
                values[name] = _READERS[name](text)
            except (ValueError, TypeError, IndexError) as error:
                raise ValueError(f"option {name}={text!r}: {error}") from None
        elif _folded(given) in others:
            raise ValueError(f"the option {others[_folded(given)]!r} is not one of {purpose}")
        elif given.lower() not in SPARKS_OWN:
            raise ValueError(_unknown(given, known))
    return kind(**values)

"""Options of the data source: their names and how their strings are parsed.

Spark passes options as strings and does not preserve the case of their names, so `maxRowsPerFile`,
`max_rows_per_file` and `maxrowsperfile` are the same option. A list of columns is written `a, b`, or
as a JSON list if names contain commas or spaces.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, TypeVar

from ...storage.location import URI
from ...storage.staging import EXISTING

# A task reads about this much compressed data in a second.
DEFAULT_MAX_SPLIT_BYTES: Final = 32 << 20

# Options that Spark adds itself: the arguments of load and save, and the checkpoint of a stream.
PATH: Final = "path"
PATHS: Final = "paths"
SPARK_OPTIONS: Final = frozenset({PATH, PATHS, "checkpointlocation"})

Options = TypeVar("Options")


# ---- parsing strings


def _names(text: str) -> list[str]:
    if not text.lstrip().startswith("["):
        return [name.strip() for name in text.split(",") if name.strip()]
    names = json.loads(text)
    if not all(isinstance(name, str) for name in names):
        raise ValueError("expected a list of strings")
    return list(names)


def _boolean(text: str) -> bool:
    truth = {"true": True, "false": False}
    if text.lower() not in truth:
        raise ValueError("expected true or false")
    return truth[text.lower()]


def _boolean_or_names(text: str) -> bool | list[str]:
    return _boolean(text) if text.lower() in ("true", "false") else _names(text)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError("must be at least 1")
    return number


def _partitioning(text: str) -> str | None:
    if text.lower() not in ("hive", "none"):
        raise ValueError("expected hive or none")
    return None if text.lower() == "none" else "hive"


def _existing(text: str) -> str:
    if text not in (*EXISTING, "ignore"):
        raise ValueError(f"expected one of {', '.join((*EXISTING, 'ignore'))}")
    return text


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

    columns          names, or patterns such as `sensor_*`, of the columns to load; default: all
    filters          pyarrow.parquet's filters as JSON: `[["x", ">", 5], ["y", "in", [1, 2]]]` loads
                     rows that match all conditions; a list of such lists loads rows that match
                     one of them. Dates, times and decimals are strings
    partitioning     `hive` (default) turns directories named `key=value` into columns; `none`
                     ignores them
    unify            `true` (default) reads files with different schemas as their union; with
                     `false` a difference is an error
    skip_corrupt     `true` skips files that cannot be opened, with a warning; default `false`
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
        """Return the options that were given, as arguments of `write_dataset`."""
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
    """Raise if an option is known neither for reading nor for writing."""
    known = {**_by_folded(LoadOptions), **_by_folded(SaveOptions)}
    for name in options:
        if _folded(name) not in known and name.lower() not in SPARK_OPTIONS:
            raise ValueError(_unknown(name, known))


def load_options(options: Mapping[str, str]) -> LoadOptions:
    return _parse(LoadOptions, options, "reading", _by_folded(SaveOptions))


def save_options(options: Mapping[str, str]) -> SaveOptions:
    return _parse(SaveOptions, options, "writing", _by_folded(LoadOptions))


def as_texts(options: Mapping[str, Any]) -> dict[str, str]:
    """Convert options of `SaveOptions` to strings for Spark; None means not given."""
    known = _by_folded(SaveOptions)
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
    """Return the paths given to `load` or `save`, as absolute paths or URIs."""
    if PATHS in options:
        return [absolute(path) for path in json.loads(options[PATHS])]
    if PATH not in options:
        raise ValueError('missing path: use .load("directory") or .save("directory")')
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
    hint = (
        f"; did you mean {known[close[0]]!r}?"
        if close
        else f"; known options: {', '.join(known.values())}"
    )
    return f"unknown option {name!r}{hint}"


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
            raise ValueError(f"option {others[_folded(given)]!r} is not an option for {purpose}")
        elif given.lower() not in SPARK_OPTIONS:
            raise ValueError(_unknown(given, known))
    return kind(**values)

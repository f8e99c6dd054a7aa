"""A version of a table: which files it consists of, and which file provides which column.

A table is a directory with a subdirectory `_mosaic`, which has one object for each version:

    _mosaic/00000000000000000007.json.zst   the whole state of version 7
    _mosaic/schema-<BLAKE2b-128>.mosaic     the columns of files: a Mosaic file without rows
    _columns/….mosaic                       column files
    ….mosaic                                base files

The rows of a table are those of its base files. A column file has the rows of one base file, in the
same row groups, and more columns, or other values for columns of the base file. A column comes from the
newest column file that has it, or else from the base file, or else it is null. Files that were written
before the column was dropped do not count.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, TypeVar

import pyarrow as pa

from ..errors import CorruptFileError, UnsupportedError
from ..format.wire import compress
from ..storage.location import TABLE_MARK, is_hidden

VERSIONS: Final = TABLE_MARK  # the directory of versions
COLUMNS: Final = "_columns"  # the directory of column files
CREATING: Final = "creating"  # an object there that exists until a new table has its first version

FORMAT: Final = 1
FEATURES: Final[frozenset[str]] = frozenset()  # that readers must know; none so far
# Two million files with short paths, before compression.
MAX_BYTES: Final = 512 << 20

_LEVEL: Final = 3
# JSON takes many times its size in memory, so that a small object must not become a large one. Names of
# files that differ only by a number are compressed to a hundredth.
_MAX_RATIO: Final = 512
_MIN_LIMIT: Final = 8 << 20
_NAME: Final = re.compile(r"([0-9]{20})\.json\.zst")
_DIGEST: Final = re.compile(r"[0-9a-f]{32}")
_DRIVE: Final = re.compile(r"[A-Za-z]:")
_SCHEMA: Final = re.compile(rf"{VERSIONS}/schema-[0-9a-f]{{32}}\.mosaic")
_MAX_INTEGER: Final = 2**63 - 1
_ABSENT: Final = object()

Value = TypeVar("Value")


def version_name(number: int) -> str:
    """Return the name of the object of a version, below the directory of the table."""
    return f"{VERSIONS}/{number:020d}.json.zst"


def version_number(name: str) -> int | None:
    """Return the number of the version that an object in the directory of versions contains."""
    found = _NAME.fullmatch(name)
    return None if found is None else int(found[1])


def schema_name(digest: str) -> str:
    """Return the name of the object that contains a schema, below the directory of the table."""
    return f"{VERSIONS}/schema-{digest}.mosaic"


def is_name_of_file(path: str) -> bool:
    """Return whether a Mosaic file at this path, relative to the table, may be one of a version."""
    if not path.endswith(".mosaic"):
        return False
    return _SCHEMA.fullmatch(path) is not None or any(
        _is_right(*_parted(path), is_column_file) for is_column_file in (False, True)
    )


@dataclass(frozen=True, slots=True)
class ColumnFile:
    """A file with columns for the rows of a base file."""

    path: str  # relative to the table
    size: int
    schema: str  # the digest of its columns
    added: int  # the version that its writer had read: columns dropped later do not count

    def to_dict(self) -> dict[str, Any]:
        """Return the file as it is in a version."""
        return {"path": self.path, "size": self.size, "schema": self.schema, "added": self.added}


@dataclass(frozen=True, slots=True)
class BaseFile:
    """A file with rows of a table, and the column files that belong to it, oldest first."""

    path: str
    size: int
    rows: int
    schema: str
    added: int
    digest: str | None = None  # of its end, as in the annex of its column files
    columns: tuple[ColumnFile, ...] = ()

    @property
    def parts(self) -> tuple[BaseFile | ColumnFile, ...]:
        """The file itself, then its column files."""
        return self, *self.columns

    def to_dict(self) -> dict[str, Any]:
        """Return the file as it is in a version."""
        document: dict[str, Any] = {
            "path": self.path,
            "size": self.size,
            "rows": self.rows,
            "schema": self.schema,
            "added": self.added,
        }
        if self.digest is not None:
            document["digest"] = self.digest
        if self.columns:
            document["columns"] = [one.to_dict() for one in self.columns]
        return document


@dataclass(frozen=True, slots=True)
class Version:
    """The state of a table.

    number        the number of the version
    parent        the number of the version before it, None for the first
    time          when it was made, in UTC
    operation     what made it, for example "append"
    summary       numbers and names about the operation, for people
    files         in the order of their rows
    dropped       names of columns that were dropped, with the version that dropped them
    schema        the digest of the columns that the table has even if no file has them: those that it
                  was created with, and those that were added without values
    schema_added  the version that the writer of `schema` had read: columns dropped later do not count
    partitioning  names of the columns that are directories
    commit        a random text that tells this version from others that were made at the same time
    """

    number: int
    parent: int | None
    time: datetime
    operation: str
    summary: Mapping[str, Any]
    files: tuple[BaseFile, ...]
    dropped: Mapping[str, int] = field(default_factory=dict)
    schema: str | None = None
    partitioning: tuple[str, ...] = ()
    commit: str = ""
    schema_added: int = 0

    @property
    def num_rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def paths(self) -> set[str]:
        """The paths of all files, and of the objects with their columns."""
        parts = [part for file in self.files for part in file.parts]
        digests = {part.schema for part in parts}
        if self.schema is not None:
            digests.add(self.schema)
        return {part.path for part in parts} | set(map(schema_name, digests))

    def dropped_since(self, added: int) -> frozenset[str]:
        """Return the columns that a file has lost that was added by a writer of version `added`."""
        return frozenset(name for name, number in self.dropped.items() if added < number)

    def encode(self) -> bytes:
        """Return the bytes of the object."""
        document = {
            "format": FORMAT,
            "features": sorted(FEATURES),
            "version": self.number,
            "parent": self.parent,
            "time": self.time.astimezone(UTC).isoformat(),
            "operation": self.operation,
            "summary": dict(self.summary),
            "commit": self.commit,
            "schema": self.schema,
            "schema_added": self.schema_added,
            "partitioning": list(self.partitioning),
            "dropped": dict(self.dropped),
            "files": [file.to_dict() for file in self.files],
        }
        text = json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        plain = text.encode("utf-8", "surrogatepass")
        data = compress(plain, _LEVEL, True)
        if len(plain) > _limit(len(data)):
            raise UnsupportedError(
                f"the version has {len(self.files):,} files, which take {len(plain):,} bytes; "
                "compact the table"
            )
        return data

    @classmethod
    def decode(cls, data: bytes | pa.Buffer, number: int) -> Version:
        """Decode the object of version `number`; raise CorruptFileError if it makes no sense."""
        document = _Fields(_parsed(data), "the version")
        known = document.integer("format")
        if known != FORMAT:
            raise UnsupportedError(f"the version has format {known}, which is newer than {FORMAT}")
        unknown = sorted(set(document.texts("features")) - FEATURES)
        if unknown:
            raise UnsupportedError(
                f"the version requires the features {', '.join(map(repr, unknown))}, "
                "which this release of fastmosaic does not know"
            )
        stated = document.integer("version")
        if stated != number:
            raise CorruptFileError(f"the object contains version {stated}, not {number}")
        parent = document.optional("parent", document.integer)
        if parent is not None and parent >= number:
            raise CorruptFileError(f"version {number} follows version {parent}")
        version = cls(
            number,
            parent,
            document.time("time"),
            document.text("operation"),
            document.mapping("summary"),
            tuple(_base_file(one, number) for one in document.objects("files")),
            document.numbers("dropped", number),
            document.optional("schema", document.digest),
            tuple(document.texts("partitioning")),
            document.text("commit"),
            document.integer("schema_added", number),
        )
        _check_unique([part.path for file in version.files for part in file.parts])
        if version.num_rows > _MAX_INTEGER:
            raise CorruptFileError(f"the version has {version.num_rows} rows")
        return version


def _base_file(fields: _Fields, number: int) -> BaseFile:
    return BaseFile(
        checked_path(fields.text("path")),
        fields.integer("size"),
        fields.integer("rows"),
        fields.digest("schema"),
        fields.integer("added", number),
        fields.optional("digest", fields.digest),
        tuple(_column_file(one, number) for one in fields.objects("columns", ())),
    )


def _column_file(fields: _Fields, number: int) -> ColumnFile:
    return ColumnFile(
        checked_path(fields.text("path"), is_column_file=True),
        fields.integer("size"),
        fields.digest("schema"),
        fields.integer("added", number),
    )


def checked_path(path: str, *, is_column_file: bool = False) -> str:
    """Return the path of a file; raise CorruptFileError unless it is where such files of a table are."""
    start, name = _parted(path)
    has_drive = not start and _DRIVE.match(name)
    if has_drive or not _is_inside(start) or _leads_elsewhere(name):
        raise CorruptFileError(f"the path {path!r} is not inside the table")
    if not _is_right(start, name, is_column_file):
        kind = "column" if is_column_file else "base"
        raise CorruptFileError(f"the path {path!r} is not one of a {kind} file")
    return path


def _is_right(start: str, name: str, is_column_file: bool) -> bool:
    return _is_place(start, is_column_file) and not is_hidden(name, False)


def _parted(path: str) -> tuple[str, str]:
    """Return the directories of a path, each with its slash, and the name of the file."""
    end = path.rfind("/") + 1
    return path[:end], path[end:]


# Many files are in the same directory.
@lru_cache(maxsize=1024)
def _is_inside(start: str) -> bool:
    """Return whether directories are inside the table."""
    return not _DRIVE.match(start) and not any(map(_leads_elsewhere, start.split("/")[:-1]))


@lru_cache(maxsize=1024)
def _is_place(start: str, is_column_file: bool) -> bool:
    """Return whether directories are those of base files, or of column files."""
    folders = start.split("/")[:-1]
    if is_column_file:
        if folders[:1] != [COLUMNS]:
            return False
        del folders[0]
    return not any(is_hidden(folder, True) for folder in folders)


@lru_cache(maxsize=1024)  # many files have the same columns
def _is_digest(text: str) -> bool:
    return _DIGEST.fullmatch(text) is not None


def _leads_elsewhere(name: str) -> bool:
    return name in ("", ".", "..") or "\\" in name or "\0" in name or not _is_possible(name)


def _is_possible(name: str) -> bool:
    """Return whether a file can have a name, in which bytes that are not UTF-8 are surrogates."""
    try:
        return name.isascii() or bool(name.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        return False


def _check_unique(paths: Sequence[str]) -> None:
    if len(set(paths)) < len(paths):
        path, _ = Counter(paths).most_common(1)[0]
        raise CorruptFileError(f"the version lists {path!r} twice")


def _parsed(data: bytes | pa.Buffer) -> Any:
    limit = _limit(len(data))
    try:
        with pa.input_stream(pa.py_buffer(data), compression="zstd") as stream:
            text = stream.read(limit + 1)
        if len(text) > limit:
            raise CorruptFileError(
                f"the version has more than {limit:,} bytes, compressed to {len(data):,}"
            )
        return json.loads(
            text.decode("utf-8", "surrogatepass"), parse_float=_finite, parse_constant=_finite
        )
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, CorruptFileError):
            raise
        raise CorruptFileError(f"the version is not compressed JSON: {error}") from error


def _limit(size: int) -> int:
    """Return how many bytes an object of `size` compressed bytes may contain."""
    return min(MAX_BYTES, max(_MIN_LIMIT, _MAX_RATIO * size))


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is not a number")
    return value


class _Fields:
    """The fields of a JSON object that is not trusted."""

    __slots__ = ("_document", "_what")

    def __init__(self, document: Any, what: str) -> None:
        if not isinstance(document, dict):
            raise CorruptFileError(f"{what} is not a JSON object")
        self._document: dict[str, Any] = document
        self._what = what

    def _get(self, key: str, kind: type[Value], default: Any = _ABSENT) -> Value:
        value = self._document.get(key, default)
        # JSON has these types and no others; a bool is not an integer.
        if type(value) is kind or (value is default and default is not _ABSENT):
            return value
        fact = "is missing" if value is _ABSENT else f"is not of type {_NAMES[kind]}"
        raise CorruptFileError(f"{key!r} of {self._what} {fact}")

    def optional(self, key: str, get: Callable[[str], Value]) -> Value | None:
        return None if self._document.get(key) is None else get(key)

    def integer(self, key: str, most: int = _MAX_INTEGER) -> int:
        value = self._document.get(key)
        if type(value) is int and 0 <= value <= most:
            return value
        raise CorruptFileError(f"{key!r} of {self._what} is {self._get(key, int)}")

    def text(self, key: str) -> str:
        return self._get(key, str)

    def digest(self, key: str) -> str:
        value = self.text(key)
        if not _is_digest(value):
            raise CorruptFileError(f"{key!r} of {self._what} is not a digest")
        return value

    def time(self, key: str) -> datetime:
        text = self.text(key)
        try:
            value = datetime.fromisoformat(text)
            in_utc = value.astimezone(UTC)
        except (ValueError, OverflowError) as error:
            raise CorruptFileError(f"{key!r} of {self._what} is not a time") from error
        if value.tzinfo is None:
            raise CorruptFileError(f"{key!r} of {self._what} has no time zone")
        return in_utc

    def texts(self, key: str) -> list[str]:
        values = self._get(key, list)
        if not all(isinstance(value, str) for value in values):
            raise CorruptFileError(f"{key!r} of {self._what} is not a list of texts")
        return values

    def objects(self, key: str, default: Any = _ABSENT) -> list[_Fields]:
        what = f"an entry of {key!r}"
        return [_Fields(value, what) for value in self._get(key, list, default)]

    def mapping(self, key: str) -> dict[str, Any]:
        return self._get(key, dict)

    def numbers(self, key: str, most: int) -> dict[str, int]:
        fields = _Fields(self.mapping(key), f"{key!r}")
        return {name: fields.integer(name, most) for name in fields._document}


_NAMES: Final[Mapping[type, str]] = {int: "integer", str: "text", list: "list", dict: "object"}

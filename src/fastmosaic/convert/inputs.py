"""What a command reads: files of one format, as one table.

Mosaic files are a data set: its columns and conditions decide what is read. Of other formats the
columns are chosen as far as the format allows, and rows are filtered batch by batch.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ..dataset.discovery import Found, discover
from ..dataset.fileset import FileSet
from ..dataset.hive import resolve
from ..errors import ColumnNotFoundError, CorruptFileError, MosaicError, SchemaMismatchError
from ..query.filters import filter_table
from ..query.rows import one_batch
from ..query.selection import GLOB, selected, split_names
from ..schemas.fit import Fits
from ..schemas.widen import unite
from ..storage.location import as_arrow
from . import read as formats, text
from .text import DEFAULT_DIALECT, Dialect

if TYPE_CHECKING:
    from pyarrow.compute import Expression

STANDARD: Final = "-"  # input or output, as other commands call it

_BATCH_ROWS: Final = 65536
_SPOOL_BYTES: Final = 1 << 20  # that are copied at a time

Advance = Callable[[int], object]


class Input(ABC):
    """Files that are read as one table."""

    format: str
    files: list[Found]
    num_bytes: int  # of the files
    num_rows: int | None  # None if it takes reading them
    fileset: FileSet | None = None  # of Mosaic files
    spool: Any = None  # what came out of a pipe, as long as it is needed

    @property
    @abstractmethod
    def schema(self) -> pa.Schema: ...

    def field(self, name: str) -> pa.Field:
        """The column called `name`; ColumnNotFoundError if there is none."""
        index = self.schema.get_field_index(name)
        if index < 0:
            raise ColumnNotFoundError.for_name(name, self.names())
        return self.schema.field(index)

    def names(self) -> list[str]:
        return list(self.schema.names)

    def select(self, patterns: Sequence[str] | None) -> list[str] | None:
        """The names of columns that patterns stand for: names and globs, with commas between.

        They come in the order in which they are named, each once; None stands for all columns.
        """
        return None if patterns is None else matching(patterns, self.names())

    def schema_of(self, columns: Sequence[str] | None) -> pa.Schema:
        """The schema of batches of these columns."""
        if columns is None:
            return self.schema
        return pa.schema([self.field(name) for name in columns], self.schema.metadata)

    def batches(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        advance: Advance | None = None,
    ) -> Generator[pa.RecordBatch]:
        """The rows that match the condition `where`; few of them are in memory at a time.

        `advance` is told how many more bytes of the files are done.
        """
        if columns is not None:
            for name in columns:
                self.field(name)
        from ..query.where import parse

        condition = None if where is None else parse(where)
        expression = None if condition is None else condition.expression(self.field)
        needed = () if condition is None else condition.names
        return self._batches(columns, expression, needed, advance or (lambda step: None))

    def count(self, where: str | None = None) -> int:
        """How many rows match."""
        if where is None and self.num_rows is not None:
            return self.num_rows
        return sum(batch.num_rows for batch in self.batches([], where))

    @abstractmethod
    def _batches(
        self,
        columns: Sequence[str] | None,
        expression: Expression | None,
        needed: Sequence[str],
        advance: Advance,
    ) -> Generator[pa.RecordBatch]:
        """The rows that match; `needed` are the columns of the expression."""


def open_input(
    paths: Sequence[str],
    format: str | None = None,
    *,
    types: Mapping[str, pa.DataType] | None = None,
    dialect: Dialect = DEFAULT_DIALECT,
    whole: bool = False,
) -> Input:
    """Files of one format by their paths, directories or globs; "-" is standard input.

    What comes out of a pipe is kept in a temporary file: most formats are read from their ends, and
    text is read twice. The format is given, or told by the end of a name, or by the bytes of the file.

    `types` are those of columns in text, by name or glob. Where none is given, text has the types
    of its beginning, or those of all of it if it is to be read as a `whole` first.
    """
    if format is not None:
        formats.check_format("format", format)
    spool = None
    if any(map(_is_pipe, paths)):
        if len(paths) > 1:
            raise ValueError("a pipe, or standard input, is read alone, without other files")
        spool, found = _spooled(paths[0])
        paths = [spool.name]
    else:
        found = discover(paths[0] if len(paths) == 1 else list(paths))
    known = _format_of(found, format)
    source: Input
    if known == "mosaic":
        source = _Mosaic(paths, found)
    else:
        source = _Others(found, known, types, dialect, whole)
    source.spool = spool
    return source


def _is_pipe(path: str) -> bool:
    """Whether it can be read but once: standard input, a pipe, a device."""
    if path == STANDARD:
        return True
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _spooled(path: str) -> tuple[Any, list[Found]]:
    """What comes out of a pipe, in a file that is gone when nobody holds it."""
    is_standard = path == STANDARD
    # How its name ends may tell its format, and how it is compressed.
    suffix = "" if is_standard else f"-{os.path.basename(path)}"
    spool = tempfile.NamedTemporaryFile(prefix="fastmosaic-", suffix=suffix)  # noqa: SIM115
    with open(0 if is_standard else path, "rb", closefd=not is_standard) as pipe:
        shutil.copyfileobj(pipe, spool, _SPOOL_BYTES)
    spool.flush()
    name = "standard input" if is_standard else path
    return spool, [Found(name, None, spool.name, spool.tell(), {})]


def matching(patterns: Sequence[str], names: Sequence[str]) -> list[str]:
    """Those of `names` that are meant by names and globs with commas between them."""
    known = set(names)
    chosen = selected(
        [one for given in patterns for one in ([given] if given in known else split_names(given))],
        names,
    )
    if not chosen:
        raise ValueError("no column is named")
    return chosen


def size_of(found: Found) -> int:
    """The bytes of a file."""
    if found.size is not None:
        return found.size
    if found.filesystem is None:
        return os.stat(found.path).st_size
    return int(as_arrow(found.filesystem).get_file_info(found.path).size)


def _format_of(found: Sequence[Found], given: str | None) -> str:
    if given is not None:
        return given
    kinds: dict[str | None, str] = {}  # each with the name of a file that has it
    for one in found:
        format = formats.format_of(one.name)
        if format is None:
            with _blaming(one.name):
                format = formats.format_by_content(one)
        kinds.setdefault(format, one.name)
    unknown = kinds.pop(None, None)
    if len(kinds) > 1:
        (one_format, one_name), (other_format, other_name), *_ = kinds.items()
        raise ValueError(
            f"files of one format are read together, but {one_name} is {one_format} and "
            f"{other_name} is {other_format}"
        )
    if unknown is not None:
        others = "".join(f"; {name} is {format}" for format, name in kinds.items())
        raise ValueError(
            f"{unknown}: neither its name nor its bytes tell the format{others}; "
            "convert --from reads it as one"
        )
    (format,) = kinds
    assert format is not None
    return format


@contextmanager
def _blaming(name: str) -> Iterator[None]:
    """Let errors in the block name the file that is read."""
    try:
        yield
    except MosaicError as error:
        error.locate(file=name)
        raise
    except (pa.ArrowException, ValueError) as error:
        raise CorruptFileError(str(error), file=name) from error
    except OSError as error:
        # Arrow's own say what is wrong with the bytes, and have no number.
        if error.errno is not None:
            raise
        raise CorruptFileError(str(error), file=name) from error


# ---- Mosaic


class _Mosaic(Input):
    """A data set of Mosaic files, or one of them."""

    def __init__(self, paths: Sequence[str], found: list[Found]) -> None:
        self.format = "mosaic"
        self.files = found
        self.fileset: FileSet = FileSet(paths[0] if len(paths) == 1 else list(paths))
        self.num_bytes = sum(file.size for file in self.fileset.files)
        self.num_rows = self.fileset.count_rows()

    @property
    def schema(self) -> pa.Schema:
        return self.fileset.schema

    def schema_of(self, columns: Sequence[str] | None) -> pa.Schema:
        return self.fileset.query(columns, None).result

    def field(self, name: str) -> pa.Field:
        return self.fileset.columns.field(name)

    def names(self) -> list[str]:
        return self.fileset.columns.names()

    def _batches(
        self,
        columns: Sequence[str] | None,
        expression: Expression | None,
        needed: Sequence[str],
        advance: Advance,
    ) -> Generator[pa.RecordBatch]:
        query = self.fileset.query(columns, expression)
        num_rows = sum(planned.num_rows for planned in self.fileset.plan(query))
        row_bytes = self.num_bytes / max(1, num_rows)
        yield from self.fileset.iter_batches(
            query, _BATCH_ROWS, progress=lambda count: advance(int(count * row_bytes))
        )


# ---- the others


class _Others(Input):
    """Files of a format that others made."""

    def __init__(
        self,
        found: list[Found],
        format: str,
        types: Mapping[str, pa.DataType] | None,
        dialect: Dialect,
        whole: bool,
    ) -> None:
        self.format = format
        self.files = found
        self.num_bytes = sum(map(size_of, found))
        self._dialect = dialect
        self._types = types
        self._partitions, values = resolve([(one.name, one.keys) for one in found], None)
        self._values = dict(zip((one.name for one in found), values, strict=True))
        self._own = {one.name: self._inspect(one, whole) for one in found}
        self._schema = self._united()
        self.num_rows = self._count()

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def _inspect(self, found: Found, whole: bool) -> pa.Schema:
        """The columns of a file."""

        @contextmanager
        def stream() -> Iterator[Any]:
            with formats.open_stream(found) as (opened, _):
                yield opened

        with _blaming(found.name):
            if self.format not in formats.TEXT:
                schema = formats.inspect(found, self.format, size_of(found))[0]
            elif whole:
                schema = text.read_schema(stream, self.format, self._typed, self._dialect)
            else:
                with (
                    stream() as opened,
                    text.open_text(opened, self.format, dialect=self._dialect) as reader,
                ):
                    schema = text.with_types(reader.schema, self._typed(reader.schema.names))
            text.check_names(schema.names)
            for key in found.keys:
                if schema.get_field_index(key) >= 0:
                    raise SchemaMismatchError(
                        f"column {key!r} is in the file and also a key in its path"
                    )
        return schema

    def _typed(self, names: Sequence[str]) -> dict[str, pa.DataType]:
        """The types that were given for columns, of which JSON may have more."""
        typed = {}
        for pattern, type in (self._types or {}).items():
            # A field of JSON need not be in every file, nor in its beginning.
            is_new = self.format == "json" and not GLOB.search(pattern)
            for name in split_names(pattern) if is_new else matching([pattern], names):
                typed[name] = type
        return typed

    def _united(self) -> pa.Schema:
        """The columns of all files, then those of their partitions."""
        distinct: list[tuple[pa.Schema, str]] = []
        for name, schema in self._own.items():
            if not any(schema.equals(other, check_metadata=True) for other, _ in distinct):
                distinct.append((schema, name))
        first = distinct[0][0]
        if len(distinct) == 1:
            return pa.schema([*first, *self._partitions], first.metadata)
        advice = "use --type to choose one" if self.format == "csv" else "convert one first"
        united = unite(distinct, advice=advice)
        is_agreed = all(schema.metadata == first.metadata for schema, _ in distinct)
        return pa.schema([*united, *self._partitions], first.metadata if is_agreed else None)

    def _count(self) -> int | None:
        total = 0
        for one in self.files:
            with _blaming(one.name):
                count = formats.count_rows(one, self.format)
            if count is None:
                return None
            total += count
        return total

    def _batches(
        self,
        columns: Sequence[str] | None,
        expression: Expression | None,
        needed: Sequence[str],
        advance: Advance,
    ) -> Generator[pa.RecordBatch]:
        result = self.schema_of(columns)
        extra = [name for name in dict.fromkeys(needed) if result.get_field_index(name) < 0]
        wanted = [*result.names, *extra]
        keys = set(self._partitions.names)
        fields = [self.field(name) for name in wanted if name not in keys]
        inside = pa.schema(fields, self._schema.metadata)
        for one in self.files:
            own = self._own[one.name]
            fits = Fits(inside, drop=True)
            schema = pa.schema([self.field(name) for name in own.names])
            chosen = [name for name in inside.names if own.get_field_index(name) >= 0]
            # Of JSON, no field may be left out unless it is known.
            is_all = self.format != "csv" and set(chosen) == set(own.names)
            with _explaining(one.name, self._types):
                for batch in formats.batches(
                    one,
                    self.format,
                    None,
                    schema,
                    columns=None if is_all else chosen,
                    dialect=self._dialect,
                    use_threads=True,
                    advance=advance,
                ):
                    for part in fits(batch):
                        yield _finished(self._with_keys(part, one, wanted), expression, result)

    def _with_keys(
        self, batch: pa.RecordBatch, found: Found, wanted: Sequence[str]
    ) -> pa.RecordBatch:
        if not self._partitions:
            return batch
        values = dict(zip(self._partitions.names, self._values[found.name], strict=True))
        arrays = [
            pa.repeat(values[name], batch.num_rows) if name in values else batch.column(name)
            for name in wanted
        ]
        if not arrays:
            return batch
        fields = [self.field(name) for name in wanted]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields, batch.schema.metadata))


@contextmanager
def _explaining(name: str, types: Mapping[str, pa.DataType] | None) -> Iterator[None]:
    """As `_blaming`, with what to do about a value of another type where `types` can be given."""
    try:
        with _blaming(name):
            yield
    except text.ValueMismatchError as error:
        if types is not None:
            error.message += f"; --type '{error.column}=string' would take it"
        raise


def _finished(
    batch: pa.RecordBatch, expression: Expression | None, result: pa.Schema
) -> pa.RecordBatch:
    """The rows of a batch that match, with the columns that are wanted."""
    if expression is not None:
        batch = one_batch(filter_table(pa.Table.from_batches([batch]), expression))
    return batch if batch.schema.names == result.names else batch.select(result.names)

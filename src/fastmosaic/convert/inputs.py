"""The input of a command: files of one format, read as one table.

Mosaic files form a dataset, which reads only the columns and row groups that are needed. For other
formats, columns are selected as far as the format allows, and rows are filtered batch by batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ..dataset.discovery import Found
from ..dataset.fileset import FileSet
from ..dataset.hive import resolve
from ..errors import ColumnNotFoundError, SchemaMismatchError
from ..query.filters import filter_table
from ..query.rows import one_batch
from ..query.selection import GLOB, Choices, NameList, selected, split_names
from ..schemas.fit import Fits
from ..schemas.widen import unite
from . import read as formats, text
from .find import find, naming_file, size_of
from .text import DEFAULT_DIALECT, Dialect

if TYPE_CHECKING:
    from pyarrow.compute import Expression

_BATCH_ROWS: Final = 65536
_ADVICE: Final = "use --type to choose another type"

Advance = Callable[[int], object]


class Input(ABC):
    """Files of one format that are read as one table."""

    format: str
    files: list[Found]
    num_bytes: int  # of the files
    num_rows: int | None  # None if only reading the files would tell
    fileset: FileSet | None = None  # only of Mosaic files
    spool: Any = None  # holds the content of a pipe as long as it is needed

    @property
    @abstractmethod
    def schema(self) -> pa.Schema: ...

    def field(self, name: str) -> pa.Field:
        """Return the column called `name`, or raise `ColumnNotFoundError`."""
        index = self.schema.get_field_index(name)
        if index < 0:
            raise ColumnNotFoundError.for_name(name, self.choices.similar(name))
        return self.schema.field(index)

    def names(self) -> list[str]:
        return list(self.schema.names)

    @property
    def choices(self) -> Choices:
        """The columns that can be selected."""
        return NameList(self.names())

    def select(self, patterns: Sequence[str] | None) -> list[str] | None:
        """Return the columns that match patterns: names and globs, separated by commas.

        They come in the order of the patterns, each once. None stands for all columns.
        """
        return None if patterns is None else matching(patterns, self.choices)

    def schema_of(self, columns: Sequence[str] | None) -> pa.Schema:
        """Return the schema of batches of these columns."""
        if columns is None:
            return self.schema
        return pa.schema([self.field(name) for name in columns], self.schema.metadata)

    def batches(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        advance: Advance | None = None,
        *,
        schema: pa.Schema | None = None,
    ) -> Generator[pa.RecordBatch]:
        """Yield the rows that match the condition `where`, a few at a time.

        `advance` is called with the number of bytes of the files that were processed since the last
        call. Batches have the schema `schema_of(columns)`, or `schema`, which must have the same
        columns; each batch is converted to it once.
        """
        if columns is not None:
            for name in columns:
                self.field(name)
        from ..query.where import parse

        condition = None if where is None else parse(where)
        expression = None if condition is None else condition.expression(self.field)
        needed = () if condition is None else condition.names
        return self._batches(columns, expression, needed, advance or (lambda step: None), schema)

    def count(self, where: str | None = None) -> int:
        """Return the number of rows that match."""
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
        schema: pa.Schema | None,
    ) -> Generator[pa.RecordBatch]:
        """Yield the rows that match; `needed` are the columns of the expression."""


def open_input(
    paths: Sequence[str],
    format: str | None = None,
    *,
    types: Mapping[str, pa.DataType] | None = None,
    dialect: Dialect = DEFAULT_DIALECT,
    whole: bool = False,
    follow_links: bool = False,
) -> Input:
    """Open files of one format by their paths, directories or globs; "-" is standard input.

    `types` are the types of columns in text, by name or glob. The types of other columns are
    inferred from the first block of each file, or from all of its text with `whole`. Links that
    lead out of a directory are an error, unless `follow_links`.
    """
    found = find(paths, format, follow_links=follow_links)
    source: Input
    if found.format == "mosaic":
        source = _MosaicInput(found.files, types)
    else:
        source = _OtherInput(found.files, found.format, types, dialect, whole)
    source.spool = found.spool
    return source


def matching(patterns: Sequence[str], choices: Choices) -> list[str]:
    """Return the columns that match names and globs, separated by commas."""
    asked = [[given] if choices.has(given) else split_names(given) for given in patterns]
    chosen = selected(chain.from_iterable(asked), choices)
    if not chosen:
        raise ValueError("no column is given")
    return chosen


class _MosaicInput(Input):
    """A dataset of Mosaic files."""

    def __init__(self, found: list[Found], types: Mapping[str, pa.DataType] | None) -> None:
        self.format = "mosaic"
        self.files = found
        self.fileset: FileSet = FileSet(found)
        self._advice = "" if types is None else _ADVICE
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

    @property
    def choices(self) -> Choices:
        return self.fileset.columns

    def _batches(
        self,
        columns: Sequence[str] | None,
        expression: Expression | None,
        needed: Sequence[str],
        advance: Advance,
        schema: pa.Schema | None,
    ) -> Generator[pa.RecordBatch]:
        query = self.fileset.query(columns, expression)
        num_rows = sum(planned.num_rows for planned in self.fileset.plan(query))
        row_bytes = self.num_bytes / max(1, num_rows)
        fits = Fits(query.result if schema is None else schema, advice=self._advice)
        for batch in self.fileset.iter_batches(
            query, _BATCH_ROWS, progress=lambda count: advance(int(count * row_bytes))
        ):
            yield from fits(batch)


class _OtherInput(Input):
    """Files of another format."""

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
        self._values = dict(zip((one.place for one in found), values, strict=True))
        self._own = {one.place: self._inspect(one, whole) for one in found}
        self._schema = self._united()
        self.num_rows = self._count()

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def _inspect(self, found: Found, whole: bool) -> pa.Schema:
        """Return the columns of a file."""

        @contextmanager
        def stream() -> Iterator[Any]:
            with formats.open_stream(found) as (opened, _):
                yield opened

        with naming_file(found.name):
            if self.format not in formats.TEXT:
                schema = formats.inspect(found, self.format, size_of(found))[0]
            else:
                schema = text.read_schema(
                    stream, self.format, self._typed, self._dialect, whole=whole
                )
            text.check_names(schema.names)
            for key in found.keys:
                if schema.get_field_index(key) >= 0:
                    raise SchemaMismatchError(
                        f"column {key!r} is in the file and also a key in its path"
                    )
        return schema

    def _typed(self, names: Sequence[str]) -> dict[str, pa.DataType]:
        """Return the types given for columns; in JSON, the columns need not be among `names`."""
        typed = {}
        choices = NameList(names)
        for pattern, type in (self._types or {}).items():
            # A field of JSON need not be in every file, or in its first block.
            is_new = self.format == "json" and not GLOB.search(pattern)
            for name in split_names(pattern) if is_new else matching([pattern], choices):
                typed[name] = type
        return typed

    def _united(self) -> pa.Schema:
        """Return the columns of all files, followed by the partition columns."""
        distinct: list[tuple[pa.Schema, str]] = []
        for one in self.files:
            schema = self._own[one.place]
            if not any(schema.equals(other, check_metadata=True) for other, _ in distinct):
                distinct.append((schema, one.name))
        first = distinct[0][0]
        if len(distinct) == 1:
            return pa.schema([*first, *self._partitions], first.metadata)
        advice = "use --type to choose one" if self.format == "csv" else "convert one of them first"
        united = unite(distinct, advice=advice)
        is_agreed = all(schema.metadata == first.metadata for schema, _ in distinct)
        return pa.schema([*united, *self._partitions], first.metadata if is_agreed else None)

    def _count(self) -> int | None:
        total = 0
        for one in self.files:
            with naming_file(one.name):
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
        schema: pa.Schema | None,
    ) -> Generator[pa.RecordBatch]:
        result = self.schema_of(columns) if schema is None else schema
        target = result
        if expression is not None:
            # The condition was bound to the columns as they are in the files.
            names = dict.fromkeys([*result.names, *needed])
            target = pa.schema([self.field(name) for name in names], self._schema.metadata)
        advice = "" if self._types is None else _ADVICE
        fits = Fits(target, self._partitions, drop=True, advice=advice)
        finish = Fits(result, drop=True, advice=advice)
        for one in self.files:
            with _explaining(one.name, self._types):
                for batch in self._read(one, target.names, advance):
                    for part in fits(batch, self._values[one.place]):
                        if expression is None:
                            yield part
                            continue
                        found = filter_table(pa.Table.from_batches([part]), expression)
                        yield from finish(one_batch(found))

    def _read(self, one: Found, names: Sequence[str], advance: Advance) -> Iterator[pa.RecordBatch]:
        """Yield batches of a file that contain at least those of the columns that it has."""
        own = self._own[one.place]
        schema = pa.schema([self.field(name) for name in own.names])
        chosen = [name for name in names if own.get_field_index(name) >= 0]
        # A field of JSON may only be left out if it is known.
        is_all = self.format != "csv" and set(chosen) == set(own.names)
        return formats.batches(
            one,
            self.format,
            None,
            schema,
            columns=None if is_all else chosen,
            dialect=self._dialect,
            use_threads=True,
            advance=advance,
        )


@contextmanager
def _explaining(name: str, types: Mapping[str, pa.DataType] | None) -> Iterator[None]:
    """Make errors name the file and, where the caller accepts `types`, say how to choose one."""
    try:
        with naming_file(name):
            yield
    except text.ValueMismatchError as error:
        if types is not None:
            error.message += f"; use --type '{error.column}=string' to read it as text"
        raise

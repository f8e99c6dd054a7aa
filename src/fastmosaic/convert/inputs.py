"""The input of a command: files of one format, read as one table.

Mosaic files form a dataset, which reads only the columns and row groups that are needed. For other
formats, columns are selected as far as the format allows, and rows are filtered batch by batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ..dataset.fileset import FileSet
from ..dataset.found import Found
from ..dataset.hive import resolve
from ..dataset.numbers import matching_numbers
from ..errors import SchemaMismatchError
from ..format.column_set import ColumnSet
from ..format.types import plain_type
from ..query.filters import filter_table, matching_rows
from ..query.literals import family_of
from ..query.query import Query
from ..query.rows import one_batch
from ..query.selection import GLOB, Choices, NameList, selected, split_names
from ..schemas.fit import Fits
from ..schemas.union import Fixed
from ..schemas.widen import unite
from . import read as formats, text
from .find import find, naming_file, size_of
from .text import DEFAULT_DIALECT, Dialect

if TYPE_CHECKING:
    from ..query.where import Condition

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

    @property
    @abstractmethod
    def columns(self) -> ColumnSet:
        """The columns, of which conditions and names can select some."""

    def names(self) -> list[str]:
        return self.columns.names()

    def select(self, patterns: Sequence[str] | None) -> list[str] | None:
        """Return the columns and fields that match names and globs, separated by commas.

        They come in the order of the patterns, each once. None stands for all columns.
        """
        return None if patterns is None else matching(patterns, self.columns)

    def schema_of(self, columns: Sequence[str] | None) -> pa.Schema:
        """Return the schema of batches of these columns, or fields of structs."""
        if columns is None:
            return self.schema
        return self.columns.select(columns).with_metadata(self.schema.metadata)

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
            self.columns.select(columns)
        from ..query.where import parse

        condition = None if where is None else parse(where)
        return self._batches(columns, condition, advance or (lambda step: None), schema)

    def count(self, where: str | None = None) -> int:
        """Return the number of rows that match."""
        if where is None and self.num_rows is not None:
            return self.num_rows
        return sum(batch.num_rows for batch in self.batches([], where))

    @abstractmethod
    def take(self, numbers: Sequence[int], columns: Sequence[str]) -> pa.Table:
        """Read rows by ascending numbers; as little else is read as the format permits."""

    def matching(self, where: str) -> Iterator[tuple[int, pa.Array]]:
        """Yield the numbers of the rows that match a condition, in portions.

        Each portion comes with the number of rows that were examined so far. Only the columns of
        the condition are read.
        """
        from ..query.where import parse

        return self._matching(parse(where))

    @abstractmethod
    def _matching(self, condition: Condition) -> Iterator[tuple[int, pa.Array]]:
        """Return what `matching` does; errors in the condition are raised at once."""

    @abstractmethod
    def _batches(
        self,
        columns: Sequence[str] | None,
        condition: Condition | None,
        advance: Advance,
        schema: pa.Schema | None,
    ) -> Generator[pa.RecordBatch]:
        """Return the rows that match; errors in the condition are raised before the first one."""


def open_input(
    paths: Sequence[str],
    format: str | None = None,
    *,
    types: Mapping[str, pa.DataType] | None = None,
    known: pa.Schema | None = None,
    dialect: Dialect = DEFAULT_DIALECT,
    whole: bool = False,
    follow_links: bool = False,
    stored: bool = False,
    version: int | None = None,
) -> Input:
    """Open files of one format by their paths, directories or globs; "-" is standard input.

    `types` are the types of columns in text, by name or glob; columns of text that are `known` have
    their known types. The types of other columns are inferred from the first block of each file, or
    from all of its text with `whole`. Links that
    lead out of a directory are an error, unless `follow_links`. With `stored`, the columns are
    those that Mosaic files store, as other readers see them. `version` is the one of a table to
    read, by default the newest.
    """
    found = find(paths, format, follow_links=follow_links, version=version)
    source: Input
    if found.format == "mosaic":
        source = _MosaicInput(found.files, types, stored)
    elif stored:
        raise ValueError(
            f"{found.files[0].name}: --stored requires Mosaic files, and the format is {found.format}"
        )
    else:
        source = _OtherInput(found.files, found.format, types, known, dialect, whole)
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

    def __init__(
        self, found: list[Found], types: Mapping[str, pa.DataType] | None, stored: bool
    ) -> None:
        self.format = "mosaic"
        self.files = found
        self.fileset: FileSet = FileSet(found, logical=not stored)
        self._advice = "" if types is None else _ADVICE
        self.num_bytes = sum(file.size for file in self.fileset.files)
        self.num_rows = self.fileset.count_rows()

    @property
    def schema(self) -> pa.Schema:
        return self.fileset.schema

    @property
    def columns(self) -> ColumnSet:
        return self.fileset.columns

    def schema_of(self, columns: Sequence[str] | None) -> pa.Schema:
        return self.fileset.query(columns, None).result

    def _batches(
        self,
        columns: Sequence[str] | None,
        condition: Condition | None,
        advance: Advance,
        schema: pa.Schema | None,
    ) -> Generator[pa.RecordBatch]:
        expression = None if condition is None else condition.expression(self.columns)
        query = self.fileset.query(columns, expression)
        return self._read(query, advance, schema)

    def take(self, numbers: Sequence[int], columns: Sequence[str]) -> pa.Table:
        return self.fileset.take(pa.array(numbers, pa.int64()), self.fileset.query(columns))

    def _matching(self, condition: Condition) -> Iterator[tuple[int, pa.Array]]:
        query = self.fileset.query([], condition.expression(self.columns))
        return matching_numbers(self.fileset, query)

    def _read(
        self, query: Query, advance: Advance, schema: pa.Schema | None
    ) -> Generator[pa.RecordBatch]:
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
        known: pa.Schema | None,
        dialect: Dialect,
        whole: bool,
    ) -> None:
        self.format = format
        self.files = found
        self.num_bytes = sum(map(size_of, found))
        self._dialect = dialect
        self._types = types
        kinds = {one.name: _in_text(one.type) for one in known or ()}
        self._known = {name: type for name, type in kinds.items() if type is not None}
        self._partitions, values = resolve([(one.name, one.keys) for one in found], None)
        self._values = dict(zip((one.place for one in found), values, strict=True))
        self._own = {one.place: self._inspect(one, whole) for one in found}
        self._schema = self._united()
        self._columns = Fixed(self._schema)
        self.num_rows = self._count()

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @property
    def columns(self) -> ColumnSet:
        return self._columns

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
        typed = {name: self._known[name] for name in names if name in self._known}
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
        condition: Condition | None,
        advance: Advance,
        schema: pa.Schema | None,
    ) -> Generator[pa.RecordBatch]:
        matches = None if condition is None else _Matches(condition, self._schema)
        result = self.schema_of(columns) if schema is None else schema
        return self._read(result, matches, advance)

    def take(self, numbers: Sequence[int], columns: Sequence[str]) -> pa.Table:
        target = self.schema_of(columns)
        fits = Fits(target, self._partitions, drop=True, advice="")
        held: list[pa.RecordBatch] = []
        start = 0  # of a portion, among all rows
        left = list(numbers)
        for one in self.files:
            if not left:
                break
            # Without them, the file is read from its beginning.
            sizes = formats.group_rows(one, self.format)
            for group, size in enumerate([None] if sizes is None else sizes):
                if not left:
                    break
                if size is not None and left[0] >= start + size:
                    start += size
                    continue
                groups = None if size is None else [group]
                with naming_file(one.name):
                    for batch in self._read_file(one, target, lambda step: None, groups):
                        end = start + batch.num_rows
                        own = left[: bisect_left(left, end)]
                        if own:
                            rows = pa.array([number - start for number in own], pa.int64())
                            held += fits(batch.take(rows), self._values[one.place])
                            left = left[len(own) :]
                        start = end
                        if not left:
                            break
        return pa.Table.from_batches(held, target)

    def _matching(self, condition: Condition) -> Iterator[tuple[int, pa.Array]]:
        matches = _Matches(condition, self._schema)
        # Without columns, only the number of rows matters.
        batches = self._batches(matches.names, None, lambda step: None, None)
        return self._numbered(matches, batches)

    def _numbered(
        self, matches: _Matches, batches: Iterator[pa.RecordBatch]
    ) -> Iterator[tuple[int, pa.Array]]:
        done = 0
        for batch in batches:
            numbers = pa.array([done + row for row in matches.rows(batch)], pa.int64())
            done += batch.num_rows
            yield done, numbers

    def _read(
        self, result: pa.Schema, matches: _Matches | None, advance: Advance
    ) -> Generator[pa.RecordBatch]:
        target = result
        if matches is not None:
            fields = {field.name: field for field in result}
            fields |= {name: self._columns.field(name) for name in matches.names}
            target = pa.schema(fields.values(), self._schema.metadata)
        advice = "" if self._types is None else _ADVICE
        fits = Fits(target, self._partitions, drop=True, advice=advice)
        finish = Fits(result, drop=True, advice=advice)
        for one in self.files:
            with _explaining(one.name, self._types):
                for batch in self._read_file(one, target, advance):
                    for part in fits(batch, self._values[one.place]):
                        if matches is None:
                            yield part
                        else:
                            yield from finish(matches(part))

    def _read_file(
        self, one: Found, target: pa.Schema, advance: Advance, groups: Sequence[int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches of a file that contain at least those columns of `target` that it has."""
        own = self._own[one.place]
        schema = pa.schema([self._columns.field(name) for name in own.names])
        chosen = [name for name in target.names if own.get_field_index(name) >= 0]
        # A field of JSON may only be left out if it is known.
        is_all = self.format != "csv" and set(chosen) == set(own.names)
        if self.format == "parquet":  # which can read fields of structs
            parts = [_parts(own.field(name), target.field(name)) for name in chosen]
            chosen = [path for part in parts for path in part]
            is_all = is_all and len(chosen) == len(own) and set(chosen) == set(own.names)
        return formats.batches(
            one,
            self.format,
            groups,
            schema,
            columns=None if is_all else chosen,
            dialect=self._dialect,
            use_threads=True,
            advance=advance,
        )


def _in_text(type: pa.DataType) -> pa.DataType | None:
    """Return the type as which text is read for a column of this type; None if it is inferred."""
    if family_of(type) == "text":
        return pa.string()
    return type if pa.types.is_primitive(type) or pa.types.is_decimal(type) else None


def _parts(own: pa.Field, wanted: pa.Field, path: str = "") -> list[str]:
    """Return the paths of the fields of `own` that `wanted` has; its own if it has them all."""
    path += own.name
    if own.type == wanted.type or not all(pa.types.is_struct(one.type) for one in (own, wanted)):
        return [path]
    both = [field for field in own.type if wanted.type.get_field_index(field.name) >= 0]
    if not both:
        return [path]  # only the whole struct tells where it is null
    inner = (_parts(one, wanted.type.field(one.name), f"{path}.") for one in both)
    return [part for parts in inner for part in parts]


class _Matches:
    """Finds the rows of batches that match a condition, which compares values of plain types."""

    def __init__(self, condition: Condition, schema: pa.Schema) -> None:
        columns = Fixed(schema)
        self.names = condition.columns(columns)
        self._schema = pa.schema(map(_plain, map(columns.field, self.names)))
        self._fits = Fits(self._schema, drop=True, advice="")
        self._expression = condition.expression(Fixed(self._schema))

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that match."""
        if not self.names:
            return one_batch(filter_table(pa.Table.from_batches([batch]), self._expression))
        rows = self.rows(batch)
        return batch if len(rows) == batch.num_rows else batch.take(pa.array(rows, pa.int64()))

    def rows(self, batch: pa.RecordBatch) -> list[int]:
        """Return the numbers of the rows that match."""
        if not self.names:  # true or false for all rows
            return list(range(self(batch).num_rows))
        plain = pa.Table.from_batches(self._fits(batch), self._schema)
        return matching_rows(plain, self._expression)


def _plain(field: pa.Field) -> pa.Field:
    # A column without values is comparable with values of any type.
    return field if pa.types.is_null(field.type) else field.with_type(plain_type(field.type))


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

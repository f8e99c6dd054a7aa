"""What is fuzzed: functions of an input that raise an exception if something is wrong.

A target may raise anything: the errors that the library is allowed to raise are caught inside. What
else it does by chance depends on the input alone, so that an input repeats a finding. It returns
the size of its largest result in bytes, which its time and memory may be proportional to.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
import zlib
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import annex_reference
import array_reference
import pyarrow as pa
import pyarrow.compute as pc
import reference
import strategies
import user_types

import fastmosaic as fm
from fastmosaic import array_block
from fastmosaic.cli import main
from fastmosaic.dataset.version import Version
from fastmosaic.file import stored
from fastmosaic.format import user_schema
from fastmosaic.format.annex import ANNEX_MAGIC, Annex
from fastmosaic.format.array_block import decode_lists, element_bits, open_lists
from fastmosaic.format.file_schema import FileSchema
from fastmosaic.format.schema import SchemaBlock
from fastmosaic.format.wire import crc32c
from fastmosaic.memory import Memory
from fastmosaic.storage.source import open_source

from . import model, mutate, tables, theirs, tokens

T = TypeVar("T")

MAX_CELLS = 20_000  # of tables that are compared one by one
MAX_RESULT = 64 << 20  # bytes of a table that a target reads
LIMIT = "FASTMOSAIC_MEMORY_LIMIT"
# Also with versions of the library that have no such limit.
TOO_LARGE = tuple(filter(None, [getattr(fm, "MemoryLimitError", None)]))


class Wrong(Exception):
    """Nothing was raised, but a result is wrong."""


_step = ""


def step(name: str) -> None:
    """Note what a target does next, so that a finding can say it."""
    global _step
    _step = name


def current_step() -> str:
    return _step


def attempt(act: Callable[[], T]) -> tuple[T | None, fm.MosaicError | None]:
    """Return the result of `act`, or the error that it is allowed to raise."""
    try:
        return act(), None
    except fm.MosaicError as error:
        str(error)
        sites.add(_site(error))
        return None, error


sites: set[str] = set()  # where the library raised errors since this was cleared


def _site(error: BaseException) -> str:
    trace = error.__traceback__
    place = ""
    while trace is not None:
        place += f"{trace.tb_lineno},"
        trace = trace.tb_next
    return f"{type(error).__name__} {place}"


@contextlib.contextmanager
def environment(**variables: str) -> Iterator[None]:
    """Set variables of the environment for a while."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def require(condition: object, what: str) -> None:
    if not condition:
        raise Wrong(what)


def valid(table: Any) -> Any:
    """Return a table, or raise if Arrow does not call it valid."""
    for batch in table.to_batches() if isinstance(table, pa.Table) else [table]:
        batch.validate(full=True)
    return table


def same(one: pa.Table, other: pa.Table, what: str) -> None:
    """Compare tables bit by bit."""
    if one.equals(other):
        return
    try:
        if all(map(_is_plain, other.schema.types)):
            strategies.assert_same(one, other)
        elif max(one.num_rows, other.num_rows) * one.num_columns < MAX_CELLS:
            _same_cells(one, other)
    except (AssertionError, pa.ArrowException) as error:
        raise Wrong(f"{what}: {str(error)[:200]}") from error


def _is_plain(arrow: pa.DataType) -> bool:
    """Return whether the format stores a type as it is."""
    is_split = annex_reference.is_split(arrow)
    return not is_split and annex_reference.stored_type(arrow) == arrow


def _same_cells(one: pa.Table, other: pa.Table) -> None:
    """Compare tables of any types; dictionaries may have other values that are not used."""
    assert one.schema.equals(other.schema), "schema"
    assert one.num_rows == other.num_rows, "rows"
    for field in other.schema:
        cells, expected = (user_types.column_cells(t[field.name]) for t in (one, other))
        assert cells == expected, f"column {field.name!r}"


# ---- reading


def read(data: bytes, rng: Random) -> int:
    """Read all, some columns, some rows, in batches; compare them with each other."""
    step("open")
    file, _ = attempt(lambda: fm.MosaicFile(data))
    if file is None:
        return 0
    with file:
        step("schema")
        schema, _ = attempt(lambda: file.schema)
        if schema is None:
            return 0
        threads = rng.random() < 0.3
        step("read")
        whole, _ = attempt(lambda: file.read(use_threads=threads))
        size = 0 if whole is None else valid(whole).nbytes
        for act in rng.sample([_projection, _filter, _batches, _row_group, _leaf, _stored], 2):
            size = max(size, act(file, schema.names, whole, rng, not threads))
    if whole is not None and rng.random() < 0.4:
        step("oracle")
        as_the_oracle(data, whole)
    return size


def _projection(
    file: fm.MosaicFile, names: list[str], whole: pa.Table | None, rng: Random, threads: bool
) -> int:
    step("projection")
    columns = rng.sample(names, min(len(names), rng.randrange(4)))
    part, error = attempt(lambda: file.read(columns, use_threads=threads))
    if whole is not None:
        require(part is not None, f"all columns can be read, but not {columns}: {error}")
        same(part, whole.select(columns), "a projection")
    return 0 if part is None else valid(part).nbytes


def _leaf(
    file: fm.MosaicFile, names: list[str], whole: pa.Table | None, rng: Random, threads: bool
) -> int:
    """Read one field of a struct."""
    step("leaf")
    paths, _ = attempt(lambda: file.metadata.columns.paths())
    if not paths:
        return 0
    path = rng.choice(paths)
    part, error = attempt(lambda: file.read([path], use_threads=threads))
    if whole is not None:
        require(part is not None, f"all columns can be read, but not {path!r}: {error}")
        require(part.num_rows == whole.num_rows, "a leaf has other rows")
    return 0 if part is None else valid(part).nbytes


def _stored(
    file: fm.MosaicFile, names: list[str], whole: pa.Table | None, rng: Random, threads: bool
) -> int:
    """Read the stored columns, which is possible whatever types the annex restores."""
    step("stored columns")
    source, _ = file._origin
    part, error = attempt(lambda: fm.read_table(source, logical=False, use_threads=threads))
    if whole is not None:
        require(part is not None, f"the file can be read, but not as it is stored: {error}")
        require(part.num_rows == whole.num_rows, "there are other rows as they are stored")
    return 0 if part is None else valid(part).nbytes


def _filter(
    file: fm.MosaicFile, names: list[str], whole: pa.Table | None, rng: Random, threads: bool
) -> int:
    step("filter")
    if not names:
        return 0
    name = rng.choice(names)
    condition = _condition(file.schema.field(name), rng)
    columns = rng.choice([None, names[:1]])
    part, error = attempt(lambda: file.read(columns, filters=condition, use_threads=threads))
    require(whole is None or part is not None, f"{name!r} can be read but not filtered: {error}")
    return 0 if part is None else valid(part).nbytes


def _condition(field: pa.Field, rng: Random) -> Any:
    kind = field.type
    is_plain = kind in strategies.FILTERED_TYPES
    if not is_plain or rng.random() < 0.2:
        return (
            pc.field(field.name).is_null()
            if rng.random() < 0.5
            else pc.field(field.name).is_valid()
        )
    value = strategies.array_of(kind, [rng.choice(strategies.edges(kind))])[0]
    operators = ["==", "!="] if pa.types.is_boolean(kind) else ["==", "!=", "<", ">=", "in"]
    operator = rng.choice(operators)
    return [(field.name, operator, [value] if operator == "in" else value)]


def _batches(
    file: fm.MosaicFile, names: list[str], whole: pa.Table | None, rng: Random, threads: bool
) -> int:
    step("batches")
    size = rng.choice([1, 3, 7, 64, 1000, 65536])
    wanted = 40 if whole is None else None
    if whole is not None and whole.num_rows > 400 * size:
        size = max(1, whole.num_rows // 100)
    made, error = attempt(
        lambda: list(islice(file.iter_batches(size, use_threads=threads), wanted))
    )
    if made is None:
        require(whole is None, f"the file can be read, but not in batches: {error}")
        return 0
    require(all(0 < batch.num_rows <= size for batch in made), "a batch has too many or no rows")
    if whole is not None:
        rows = sum(batch.num_rows for batch in made)
        require(rows == whole.num_rows, f"{rows} rows in batches, {whole.num_rows} in a table")
        if made and whole.num_columns:
            same(valid(pa.Table.from_batches(made)), whole, "batches")
    return sum(batch.nbytes for batch in made)


def _row_group(
    file: fm.MosaicFile, names: list[str], whole: pa.Table | None, rng: Random, threads: bool
) -> int:
    step("row group")
    if not file.num_row_groups:
        return 0
    number = rng.randrange(file.num_row_groups)
    part, error = attempt(lambda: file.read_row_group(number, use_threads=threads))
    if whole is not None:
        require(part is not None, f"the file can be read, but not row group {number}: {error}")
    return 0 if part is None else valid(part).nbytes


def as_the_oracle(data: bytes, table: pa.Table) -> None:
    """What we read is what the oracle reads, which takes too long for large tables."""
    if not _is_small(data, table):
        return
    if annex_reference.restores_types(data):
        _types_as_the_oracle(data, table)
        return
    try:
        schema, batches = reference.decode_file(data)
    except TypeError:
        return  # a map key that is nullable, which Arrow has not
    except ValueError as error:
        raise Wrong(f"the oracle refuses the file: {error}") from error
    plain = _without_extras(table)
    require(reference.same_schema(plain.schema, schema), "the oracle reads another schema")
    if not table.num_columns:
        rows = sum(batch.num_rows for batch in batches)
        require(rows == table.num_rows, "the oracle reads another number of rows")
        return
    ours = plain.to_batches() if table.num_rows else []
    oracles = [batch for batch in batches if batch.num_rows]
    require(len(ours) == len(oracles), "the oracle reads other row groups")
    require(all(map(reference.same_batch, ours, oracles)), "the oracle reads other values")


def _types_as_the_oracle(data: bytes, table: pa.Table) -> None:
    try:
        found = annex_reference.decode_table(data)
    except TypeError:
        return  # a map key that is nullable, which Arrow has not
    except (ValueError, LookupError, OverflowError) as error:
        # It reads dictionaries that are not needed.
        require(not fm.verify(data).ok, f"the oracle refuses the types: {error}")
        return
    require(found.schema.names == table.schema.names, "the oracle restores other columns")
    for field, given, cells in zip(found.schema, table.schema, found.columns, strict=True):
        require(given.type.equals(field.type), "the oracle restores another type")
        read = user_types.column_cells(table[field.name])
        require(read == cells, f"the oracle restores other values of {field.name!r}")


def _is_small(data: bytes, table: pa.Table) -> bool:
    if table.num_rows > 400 or table.num_columns > 60 or len(data) > 20_000:
        return False
    has_extensions = any(map(annex_reference.has_extension, table.schema.types))
    restores = annex_reference.restores_types(data)
    if (has_extensions and not restores) or (restores and table.nbytes > 20_000):
        return False
    try:
        parts = model.parse(data)
    except tokens.BROKEN:
        return False
    groups = parts.groups + (parts.dictionaries.groups if parts.dictionaries else [])
    counts = [count for group in groups for block in group.blocks for count in block.child_rows]
    counts += [value for part in parts.parts() for kind, value in part if kind == "uv"]
    # The oracle decodes the buckets of a row group even if it has no rows.
    is_known = all(0 < group.rows < 5000 for group in groups) and parts.num_groups is None
    # What could not be parsed may decompress to much more.
    is_known &= not any(block.frame.is_stored for group in groups for block in group.blocks)
    return is_known and max(counts, default=0) < 5000


def _without_extras(table: pa.Table) -> pa.Table:
    """Return a table without the metadata of the annex."""
    fields = [field.remove_metadata() for field in table.schema]
    if not fields:
        return table.replace_schema_metadata(None)
    return pa.Table.from_arrays(
        [
            column.cast(_bare(field.type))
            for column, field in zip(table.columns, fields, strict=True)
        ],
        schema=pa.schema([field.with_type(_bare(field.type)) for field in fields]),
    )


def _bare(arrow: pa.DataType) -> pa.DataType:
    """Return a type whose fields have no metadata."""
    if pa.types.is_map(arrow):
        fields = [arrow.key_field, arrow.item_field]
        return pa.map_(*(f.remove_metadata().with_type(_bare(f.type)) for f in fields))
    if pa.types.is_list(arrow):
        field = arrow.value_field
        return pa.list_(field.remove_metadata().with_type(_bare(field.type)))
    return arrow


# ---- verify


def verify(data: bytes, rng: Random) -> int:
    """`verify` reports what cannot be read, and what it calls fine can be read."""
    step("verify deep")
    deep = fm.verify(data, use_threads=rng.random() < 0.3)
    str(deep)
    step("verify shallow")
    shallow = fm.verify(data, deep=False)
    require(shallow.ok or not deep.ok, f"only the shallow check finds {shallow.problems[:1]}")
    step("read after verify")
    table, error = attempt(lambda: fm.read_table(data, use_threads=False))
    if isinstance(error, TOO_LARGE):
        return 0
    require(error is None or not deep.ok, f"verify finds no problem, but reading says: {error}")
    if table is None:
        return 0
    valid(table)
    require(not deep.ok or deep.num_rows == table.num_rows, "verify counts other rows")
    return table.nbytes


# ---- inspection


def inspect_file(data: bytes, rng: Random) -> int:
    """Metadata, pages, sizes, dictionaries and sections of the annex."""
    step("metadata")
    metadata, _ = attempt(lambda: fm.read_metadata(data))
    if metadata is None:
        return 0
    repr(metadata)
    source = open_source(data, None)
    step("annex sections")
    attempt(lambda: stored.annex_sections(source, metadata))
    for group in range(min(3, metadata.num_row_groups)):
        step("row group")
        attempt(lambda group=group: metadata.row_group(group).to_dict())
        step("sizes")
        attempt(lambda group=group: stored.stored_bytes(source, metadata, group))
        attempt(lambda group=group: stored.paged_sizes(source, metadata, group))
        step("columns")
        columns, _ = attempt(
            lambda group=group: list(stored.stored_columns(source, metadata, group))
        )
        for column in columns or ():
            for page in column.pages:
                step("entries")
                entries, _ = attempt(page.entries)
                require(entries is None or len(valid_array(entries)) == page.num_entries, "entries")
                step("counts")
                attempt(page.counts)
    return 0


def valid_array(array: pa.Array) -> pa.Array:
    array.validate(full=True)
    return array


# ---- the command

COMMANDS = [
    *("schema", "schema --json", "schema --sizes", "head", "head --json", "cat", "cat --json"),
    *(
        "head -n 3",
        "count",
        "stats",
        "stats --json",
        "meta",
        "meta --json",
        "footer",
        "footer --json",
    ),
    *("buckets", "buckets --json", "pages", "pages --json", "column-size", "column-size --json"),
    *("verify", "verify --json", "verify --shallow", "schema --by-prefix", "count --json"),
]
LONG = ("cat", "convert", "diff", "stats")  # commands that handle all rows, however many
MAX_PRINTED = 20_000  # rows
RAW = ("cat", "convert")  # commands whose output is data, which a program reads
CONDITIONS = [
    "is null",
    "is not null",
    "= 1",
    "> 'a'",
    "in (1, 2)",
    "< 1e400",
    "= date '2020-01-01'",
]


def command(data: bytes, rng: Random) -> int:
    """A command with a hostile file ends with a status and one line, and prints no controls."""
    path = _directory() / "input.mosaic"
    path.write_bytes(data)
    words = _words(path, data, rng)
    if words[0] in LONG or "--where" in words:
        metadata, _ = attempt(lambda: fm.read_metadata(data))
        if metadata is not None and metadata.num_rows > MAX_PRINTED:
            words = ["head", str(path)]
    step(f"command {words[0]}")
    out, err = _Stream(), _Stream()
    try:
        with (
            environment(FASTMOSAIC_DEBUG="1"),  # so that errors are raised
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            attempt(lambda: main(words))
    except SystemExit as stop:
        require(stop.code in (0, 2), f"status {stop.code}")
    except (ValueError, NotImplementedError, OSError) as error:
        # Arguments that do not fit the file, and tables that do not fit another format.
        if words[0] != "convert" and isinstance(error, pa.ArrowException | OSError):
            raise
    require("Traceback" not in err.text(), f"a traceback of {words[0]}")
    if words[0] not in RAW:
        _no_controls(out.text() + err.text(), words[0])
    return 16 * len(out.getvalue())


class _Stream(io.TextIOWrapper):
    """Standard output that is kept."""

    def __init__(self) -> None:
        self._kept = io.BytesIO()
        super().__init__(self._kept, encoding="utf-8", errors="backslashreplace")

    def getvalue(self) -> bytes:
        self.flush()
        return self._kept.getvalue()

    def text(self) -> str:
        return self.getvalue().decode()


def _words(path: Path, data: bytes, rng: Random) -> list[str]:
    names = ["a"]
    with contextlib.suppress(fm.MosaicError):
        names = fm.read_schema(data).names or names
    chosen = rng.choice(names)
    match rng.randrange(8):
        case 0:
            return [
                "dictionary",
                str(path),
                "-c",
                chosen,
                *rng.choice([[], ["--each"], ["--json"]]),
            ]
        case 1:
            quoted = '"' + chosen.replace('"', '""') + '"'
            return ["head", str(path), "--where", f"{quoted} {rng.choice(CONDITIONS)}"]
        case 2:
            return ["diff", str(path), str(path), *rng.choice([[], ["--schema"], ["--json"]])]
        case 3:
            target = _directory() / rng.choice(
                ["out.parquet", "out.csv", "out.jsonl", "out.mosaic"]
            )
            return ["convert", str(path), str(target), "--overwrite"]
        case 4:
            return ["cat", str(path), "-c", rng.choice([chosen, chosen[:1] + "*", "", ","])]
    words = rng.choice(COMMANDS).split()
    return [words[0], str(path), *words[1:]]


@cache
def _directory() -> Path:
    return Path(tempfile.mkdtemp(prefix="fastmosaic-fuzz-"))


def _no_controls(text: str, name: str) -> None:
    for char in set(text):
        code = ord(char)
        is_control = (code < 0x20 and char not in "\n\t") or 0x7F <= code < 0xA0
        is_hidden = code in (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
        require(not is_control and not is_hidden, f"{name} prints {char!r}")


# ---- array data blocks

BLOCK_TYPES = [
    *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()),
    *(pa.date32(), pa.time32("ms"), pa.timestamp("us", "UTC"), pa.decimal128(9, 2)),
    *(pa.decimal128(18, 4), pa.decimal128(38, 0), pa.string(), pa.binary(), pa.large_string()),
    *(pa.uint64(), pa.time64("ns"), pa.date64(), pa.dictionary(pa.int8(), pa.string())),
    *(pa.binary(4), pa.string_view(), pa.decimal256(30, 1), pa.uuid(), pa.float16()),
]


def block_form(arrow: pa.DataType) -> str | int:
    """Return the form of the elements in `array_reference`."""
    with contextlib.suppress(AttributeError):
        arrow = arrow.storage_type
    if pa.types.is_boolean(arrow):
        return "bool"
    if pa.types.is_decimal(arrow):
        return 4 if arrow.precision <= 9 else 8 if arrow.precision <= 18 else 16
    try:
        is_bytes = pa.types.is_fixed_size_binary(arrow)
        return "binary" if is_bytes or pa.types.is_dictionary(arrow) else arrow.bit_width // 8
    except ValueError:
        return "binary"


def blocks(data: bytes, rng: Random) -> int:
    """`array_block.decode` of a type and a block, whose checksum is right."""
    arrow = BLOCK_TYPES[data[0] % len(BLOCK_TYPES)] if data else pa.int32()
    body = data[1:]
    step("decode")
    made, _ = attempt(lambda: array_block.decode(body, arrow, checksum=False))
    whole = body + crc32c(body).to_bytes(4, "little")
    again, error = attempt(lambda: array_block.decode(whole, arrow))
    require((made is None) == (again is None), f"only with or without a checksum: {error}")
    step("some lists")
    size = _some_lists(body, arrow, made, rng)
    step("runs")
    width, count = rng.choice([1, 16, 64]), rng.choice([0, 1, 8, 100, 1 << 20, 1 << 40])
    attempt(lambda: array_block.rle_decode(body, width, count))
    if made is None:
        return size
    step("validate")
    if arrow != pa.date64():  # a block keeps its milliseconds, also those within a day
        valid_array(made)
    step("oracle of blocks")
    form = block_form(arrow)
    if len(made) < 2000 and len(made.values) < 2000:
        cells = array_reference.decode(body, form)
        lengths = [None if cell is None else len(cell) for cell in cells]
        require(lengths == made.value_lengths().to_pylist(), "the oracle reads other lengths")
        nulls = [element is None for cell in cells for element in cell or ()]
        require(nulls == made.values.is_null().to_pylist(), "the oracle reads other nulls")
    step("encode")
    encoded, _ = attempt(lambda: array_block.encode(made))
    if encoded is not None:
        step("decode again")
        back = array_block.decode(encoded, arrow)
        same(pa.table({"a": back}), pa.table({"a": made}), "encode and decode")
    return made.nbytes


def _some_lists(body: bytes, arrow: pa.DataType, made: pa.Array | None, rng: Random) -> int:
    """Some lists of a block are those of the whole block, if it can be decoded."""
    count = rng.choice([1, 3, 100, 1 << 20]) if made is None else len(made)
    edges = sorted({rng.randrange(count + 1) for _ in range(rng.choice([2, 4, 10]))})
    pairs = list(zip(edges[::2], edges[1::2], strict=False))
    ranges = memoryview(array("q", [edge for pair in pairs for edge in pair]))

    def decode() -> pa.Array:
        opened = open_lists(body, element_bits(arrow), checksum=False, ranges=ranges)
        return decode_lists(opened, pa.list_(arrow), Memory())

    some, error = attempt(decode)
    if made is not None:
        require(some is not None, f"all lists are decoded, but not some of them: {error}")
        parts = pa.chunked_array([made.slice(a, b - a) for a, b in pairs], made.type)
        same(pa.table({"a": some}), pa.table({"a": parts}), "some lists")
    elif some is not None and arrow != pa.date64():
        valid_array(some)
    return 0 if some is None else some.nbytes


# ---- names and types


def names(data: bytes, rng: Random) -> int:
    """The schema block: names, types and order are those that the oracle reads."""
    step("decode")
    block, _ = attempt(lambda: SchemaBlock.decode(data))
    if block is None or block.num_columns > 3000:
        return 0
    step("names")
    listed = block.names()
    step("to Arrow")
    schema, _ = attempt(block.to_arrow)
    step("find")
    for name in rng.sample(listed, min(5, len(listed))):
        require(block.name(block.find(name)) == name, f"{name!r} is not found")
        require(block.find(name) in block.occurring(f"x{name}y"), f"{name!r} does not occur")
        block.find(name + "x"), block.find("\udcff")
    require(block.find("") == -1, "the empty name is found")
    if schema is None:
        return 0
    require(schema.names == listed, "the schema has other names")
    step("oracle of names")
    if tokens.size_of_names(tokens.parsed(data, tokens.schema)) < 100_000:
        _names_as_the_oracle(data, schema)
    step("encode")
    made = None
    with contextlib.suppress(ValueError):  # documented: names that cannot be written
        made, _ = attempt(lambda: SchemaBlock.from_arrow(schema, block.num_buckets))
    if made is not None:
        require(made.names() == listed, "other names after encoding")
        require(SchemaBlock.decode(made.encode()).to_arrow() == made.to_arrow(), "encoded")
    return sum(map(len, listed)) * 4


def _names_as_the_oracle(data: bytes, schema: pa.Schema) -> None:
    try:
        read = reference.decode_schema(data)
    except TypeError:
        return
    except ValueError as error:
        raise Wrong(f"the oracle refuses the schema: {error}") from error
    fields = [reference.without_block(read.fields[i]) for i in read.order]
    require(reference.same_schema(schema, pa.schema(fields)), "the oracle reads another schema")


# ---- the annex


def annex(data: bytes, rng: Random) -> int:
    """The sections of an annex, whose checksum is right, and the metadata in it."""
    step("decode")
    trailer = Annex.TRAILER.pack(crc32c(data), len(data) + Annex.TRAILER.size, ANNEX_MAGIC)
    made, _ = attempt(lambda: Annex.decode(data + trailer))
    if made is None:
        return 0
    step("encode")
    require(Annex.decode(made.encode()) == made, "encode and decode")
    if made.attached is None and made.common is None:
        return 0
    step("metadata")
    restores = rng.random() < 0.7
    attached, _ = attempt(lambda: user_schema.decode(made.attached, made.common, restores))
    if attached is None:
        return 0
    for fields in ({"a": pa.int16()}, {"b.x": pa.string(), "b.__null__": pa.bool_()}):
        step("types on columns")
        block = SchemaBlock.from_arrow(pa.schema(fields), 1)
        columns = FileSchema(block, attached)
        attempt(columns.to_arrow)
        attempt(columns.paths)
    for columns in ({}, {"a": [1, None]}, {"a": ["x"], "b": [[1]]}, {"b": [b"0123456789abcdef"]}):
        table = pa.table(columns)
        step("metadata on a schema")
        attempt(lambda table=table: attached.schema(table.schema))
        step("metadata on a table")
        result, _ = attempt(lambda table=table: attached.put_on(table))
        require(result is None or valid(result).num_rows == table.num_rows, "other rows")
    return 0


# ---- versions of tables


def version(data: bytes, rng: Random) -> int:
    """The object of a version of a table, given the JSON text in it."""
    step("decode")
    made, _ = attempt(lambda: Version.decode(pa.compress(data, "zstd", asbytes=True), 7))
    if made is None:
        return 0
    step("encode")
    require(Version.decode(made.encode(), 7) == made, "encode and decode")
    for path in made.paths:
        parts = path.split("/")
        require(not {"", ".", ".."} & set(parts), f"{path!r} is not inside the table")
    return len(data) * 50


# ---- writing


def write(data: bytes, rng: Random) -> int:
    """What is written is read, by us and by the oracle; `verify` finds nothing."""
    table, options = tables.table(rng), tables.options(rng)
    if rng.random() < 0.5:
        table, options = tables.user_table(rng), {**options, "annex": True}
    step("write")
    made = _written_or_none(table, options)
    if made is None:
        return 0
    step("read back")
    same(valid(fm.read_table(made, use_threads=rng.random() < 0.5)), table, f"{options}")
    step("verify")
    report = fm.verify(made, use_threads=False)
    require(report.ok, f"verify: {report.problems[:1]}")
    step("oracle of files")
    if table.num_rows < 70 and table.num_columns < 10:
        as_the_oracle(made, fm.read_table(made))
    return table.nbytes


def _written_or_none(table: pa.Table, options: dict[str, Any]) -> bytes | None:
    """Return a file, or None if columns would be stored under the same name."""
    try:
        return _written(table, options)
    except ValueError as error:
        require("duplicate column name" in str(error), f"refused: {error}")
        return None


def _written(table: pa.Table, options: dict[str, Any]) -> bytes:
    wanted = dict(options)
    if wanted.get("write_statistics") is True:
        wanted["write_statistics"] = [
            field.name for field in table.schema if field.type in strategies.FILTERED_TYPES
        ]
    sink = io.BytesIO()
    fm.write_table(table, sink, **wanted)
    return sink.getvalue()


# ---- the Apache implementation

_theirs = theirs.Theirs()
their_deaths: dict[str, int] = {}  # how often it panicked or died, by message


def differential(data: bytes, rng: Random) -> int:
    """If both implementations accept a file, they read the same values."""
    step("read")
    ours, _ = attempt(lambda: fm.read_table(data, use_threads=False, logical=False))
    if ours is None or ours.nbytes > MAX_RESULT:
        return 0
    step("their read")
    them = _ask(lambda: _theirs.read(data))
    if them is None or not ours.num_columns:
        return ours.nbytes
    step("compare")
    if not ours.num_rows and them.num_columns < ours.num_columns:
        return 0  # they leave out the columns of buckets that a row group without rows lacks
    same(ours, them, "they read otherwise")
    return ours.nbytes


def exchange(data: bytes, rng: Random) -> int:
    """Each implementation reads what the other has written."""
    if rng.random() < 0.3:
        return _exchange_stored(tables.user_table(rng), rng)
    table = tables.table(rng, 130)
    plain = _without_extras(table) if table.num_columns else table.replace_schema_metadata(None)
    step("their read of ours")
    made = _written(table, {**tables.options(rng), "array_layout": "columns"})
    them = _theirs.read(made)
    if table.num_columns:
        same(them, plain, "they read what we wrote")
    if not table.num_columns:
        return 0  # an Arrow stream loses the number of rows
    step("our read of theirs")
    made = _theirs.write(plain, tables.their_options(rng))
    back = valid(fm.read_table(made))
    same(back, plain, "we read what they wrote")
    return table.nbytes


def _exchange_stored(table: pa.Table, rng: Random) -> int:
    """Both show the same stored columns."""
    step("write")
    options = {**tables.options(rng), "array_layout": "columns", "annex": True}
    made = _written_or_none(table, options)
    if made is None:
        return 0
    step("their read of stored columns")
    same(_theirs.read(made), fm.read_table(made, logical=False), "they read other columns")
    return table.nbytes


def _ask(act: Callable[[], T]) -> T | None:
    try:
        return act()
    except theirs.Refused:
        return None
    except theirs.Died as death:
        message = str(death)[:60]
        their_deaths[message] = their_deaths.get(message, 0) + 1
        return None


# ---- all of them


@dataclass(frozen=True)
class Target:
    name: str
    family: str  # of inputs
    run: Callable[[bytes, Random], int]
    share: float = 1.0  # of the time


MUTATORS: dict[str, Callable[[bytes, bytes, Random], bytes]] = {
    "files": mutate.file,
    "blocks": mutate.block,
    "schemas": mutate.schema,
    "annexes": mutate.annex,
    "versions": mutate.version,
    "seeds": mutate.seed,
}
TARGETS = [
    Target("read", "files", read, 3),
    Target("verify", "files", verify, 2),
    Target("inspect", "files", inspect_file),
    Target("command", "files", command, 1.5),
    Target("differential", "files", differential),
    Target("array blocks", "blocks", blocks),
    Target("names", "schemas", names),
    Target("annex", "annexes", annex, 0.5),
    Target("version", "versions", version, 0.5),
    Target("write", "seeds", write),
    Target("exchange", "seeds", exchange),
]


def execute(target: Target, data: bytes) -> int:
    """Run a target; what it chooses depends on the input alone."""
    with environment(**{LIMIT: str(MAX_RESULT)}):
        return target.run(data, Random(zlib.crc32(data)))


def close() -> None:
    """End the child process."""
    _theirs.close()
    sys.stdout.flush()

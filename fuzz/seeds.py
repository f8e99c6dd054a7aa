"""The inputs that fuzzing starts from: small files of all layouts and types, and the corpus."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import reference
import small_files

import fastmosaic as fm

from . import model, tokens
from .targets import BLOCK_TYPES

ROOT = Path(__file__).parent.parent
CORPUS = Path(__file__).parent / "corpus"
GOLDEN = ROOT / "tests" / "golden"
VECTOR_TYPES = {
    "int32": pa.int32(),
    "bool": pa.bool_(),
    "string": pa.string(),
    "binary": pa.binary(),
}
WITH_STATISTICS = ("id", "number", "text", "nanos", "a", "info", "took", "big")
MAX_START = 2500  # bytes of a file to start from


def starts() -> dict[str, list[bytes]]:
    """Return inputs by family, without the corpus."""
    files = list(_files())
    return {
        "files": files,
        "blocks": list(_blocks()),
        "schemas": list(dict.fromkeys(_schema(file) for file in files)),
        "annexes": [b"", *dict.fromkeys(_annex(file) for file in files)],
        "versions": list(_versions()),
        "seeds": [number.to_bytes(8) for number in range(4)],
    }


def corpus(directory: Path = CORPUS) -> dict[str, dict[str, bytes]]:
    """Return the inputs in a directory by family and name."""
    return {
        family.name: {path.name: path.read_bytes() for path in sorted(family.iterdir())}
        for family in sorted(directory.glob("*"))
        if family.is_dir()
    }


def _files() -> Iterator[bytes]:
    yield from small_files.FILES.values()
    for path in sorted(GOLDEN.glob("*.mosaic")):
        if path.stat().st_size <= MAX_START:
            yield path.read_bytes()
    tables = [pa.Table.from_batches([batch]) for batch in (small_files.SCALARS, small_files.NESTED)]
    tables.append(
        pa.table({"a": pa.array([1, 2], pa.int32()), "j": pa.array(["{}", "1"], pa.json_())})
    )
    tables.append(tables[0].slice(0, 5).replace_schema_metadata({"pandas": "{}"}))
    tables.append(pa.Table.from_batches([small_files.TYPED]))
    tables.append(tables[-1].select(["info", "kind", "map"]))
    tables.append(pa.table({f"c{i:02}": pa.array(["a"], pa.string_view()) for i in range(18)}))
    hidden = "\x1b[31m\x9bb\u202e"  # what a terminal must not see
    tables.append(pa.table({f"a{hidden}": [hidden, "b", hidden, hidden], "c": [1, 1, 2, 3]}))
    for table in tables:
        names = [name for name in table.schema.names if name in WITH_STATISTICS]
        for options in (
            {"write_statistics": names},
            {"compression": "none", "row_group_size": 3},
            {"page_size_threshold": 0, "num_buckets": 2, "array_layout": "block"},
            {"num_buckets": 1, "annex": False},
        ):
            with contextlib.suppress(fm.UnsupportedError):  # types that need an annex
                sink = io.BytesIO()
                fm.write_table(table, sink, **options)
                yield sink.getvalue()


def _blocks() -> Iterator[bytes]:
    for number, arrow in enumerate(BLOCK_TYPES):
        for lists in _lists(arrow):
            yield bytes([number]) + fm.array_block.encode(lists, checksum=False)
    vectors = json.loads((GOLDEN / "kudu_vectors.json").read_text())
    for vector in (*vectors["blocks"], *vectors["malformed"], *vectors["tolerated"]):
        if (arrow := VECTOR_TYPES.get(vector["element_type"])) and "block_hex" in vector:
            yield bytes([BLOCK_TYPES.index(arrow)]) + bytes.fromhex(vector["block_hex"])


def _lists(arrow: pa.DataType) -> Iterator[pa.Array]:
    """Return lists of a type, made of the bits of integers."""
    storage = arrow.storage_type if isinstance(arrow, pa.BaseExtensionType) else arrow
    try:
        values = pa.array([0, 1, None, 2, 3], pa.int64()).cast(pa.string()).cast(storage)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        width = storage.byte_width if pa.types.is_fixed_size_binary(storage) else 8
        try:
            values = pa.array([bytes(width), None, b"\1" * width, bytes(width), None], storage)
        except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError):
            values = pa.nulls(5, storage)
    if isinstance(arrow, pa.BaseExtensionType):
        values = pa.ExtensionArray.from_storage(arrow, values)
    offsets = pa.array([0, 2, 2, 2, 5], pa.int32())
    mask = pa.array([False, True, False, False])
    yield pa.ListArray.from_arrays(offsets, values, type=pa.list_(arrow), mask=mask)
    yield pa.ListArray.from_arrays(pa.array(range(6), pa.int32()), values, type=pa.list_(arrow))


def _versions() -> Iterator[bytes]:
    """Yield the JSON texts of versions of tables."""
    first: dict[str, object] = {"format": 1, "features": [], "version": 7, "parent": None}
    first |= {"time": "2026-11-18T10:00:00+00:00", "operation": "create", "summary": {}}
    first |= {"commit": "", "schema": None, "partitioning": [], "dropped": {}, "files": []}
    yield json.dumps(first).encode()
    column_file = {"path": "_columns/b.mosaic", "size": 9, "schema": "1" * 32, "added": 3}
    file = {"path": "k=v/a.mosaic", "size": 9, "rows": 1, "schema": "0" * 32, "added": 2}
    files = [{**file, "digest": "2" * 32, "columns": [column_file]}, {**file, "path": "c"}]
    more = {"parent": 6, "schema": "0" * 32, "partitioning": ["k"], "dropped": {"x": 5}}
    yield json.dumps({**first, **more, "files": files}).encode()


def _schema(file: bytes) -> bytes:
    return tokens.encode(model.parse(file).schema)


def _annex(file: bytes) -> bytes:
    sections = model.parse(file).annex or ()
    return b"".join(
        bytes([kind]) + reference.sized(tokens.encode(part or [("raw", bytes(8))]))
        for kind, part in sections
    )

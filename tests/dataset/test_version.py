"""Versions of a table: what is written is read, and what makes no sense is refused."""

import copy
import json
import random
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

import fastmosaic as fm
from fastmosaic.dataset.version import (
    BaseFile,
    ColumnFile,
    Version,
    schema_name,
    version_name,
    version_number,
)

A, B, C = "a" * 32, "b" * 32, "0123456789abcdef" * 2
VALID = {
    "format": 1,
    "features": [],
    "version": 7,
    "parent": 6,
    "time": "2026-11-18T10:00:00.123456+00:00",
    "operation": "append",
    "summary": {"rows": 3, "columns": ["x"]},
    "commit": "c",
    "schema": A,
    "schema_added": 2,
    "partitioning": ["day"],
    "dropped": {"old": 3},
    "files": [
        {
            "path": "day=mo/part-1.mosaic",
            "size": 1000,
            "rows": 10,
            "schema": A,
            "added": 1,
            "digest": C,
            "columns": [
                {"path": "_columns/part-2.mosaic", "size": 100, "schema": B, "added": 2},
                {"path": "_columns/part-3.mosaic", "size": 200, "schema": B, "added": 5},
            ],
        },
        {"path": "day=tu/part-4.mosaic", "size": 2000, "rows": 20, "schema": A, "added": 6},
    ],
}


def packed(document) -> bytes:
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    return pa.compress(text, "zstd", asbytes=True)


def decode(document, number=7) -> Version:
    return Version.decode(packed(document), number)


def changed(*path, **fields):
    """Return the valid document with other fields in the object at `path`."""
    document = copy.deepcopy(VALID)
    place = document
    for step in path:
        place = place[step]
    place.update(fields)
    return document


def without(key, *path):
    document = copy.deepcopy(VALID)
    place = document
    for step in path:
        place = place[step]
    del place[key]
    return document


# ---- what is written is read


def test_every_field_is_read():
    version = decode(VALID)
    assert (version.number, version.parent, version.operation) == (7, 6, "append")
    assert version.time == datetime(2026, 11, 18, 10, 0, 0, 123456, UTC)
    assert version.summary == {"rows": 3, "columns": ["x"]}
    assert (version.commit, version.schema, version.partitioning) == ("c", A, ("day",))
    assert version.schema_added == 2
    assert version.dropped == {"old": 3}
    assert version.files == (
        BaseFile(
            "day=mo/part-1.mosaic",
            1000,
            10,
            A,
            1,
            C,
            (
                ColumnFile("_columns/part-2.mosaic", 100, B, 2),
                ColumnFile("_columns/part-3.mosaic", 200, B, 5),
            ),
        ),
        BaseFile("day=tu/part-4.mosaic", 2000, 20, A, 6),
    )
    assert version.num_rows == 30
    assert version.paths == {
        "day=mo/part-1.mosaic",
        "_columns/part-2.mosaic",
        "_columns/part-3.mosaic",
        "day=tu/part-4.mosaic",
        schema_name(A),
        schema_name(B),
    }
    assert version.dropped_since(2) == {"old"}
    assert version.dropped_since(3) == frozenset()


def test_what_is_written_is_as_specified():
    written = decode(VALID).encode()
    with pa.input_stream(pa.py_buffer(written), compression="zstd") as stream:
        assert json.loads(stream.read()) == VALID
    assert decode(VALID) == Version.decode(written, 7)


def test_names_of_objects():
    assert version_name(7) == "_mosaic/00000000000000000007.json.zst"
    assert version_number("00000000000000000007.json.zst") == 7
    for name in (
        "7.json.zst",
        "00000000000000000007.json",
        "x00000000000000000007.json.zst",
        "latest",
    ):
        assert version_number(name) is None
    assert version_number("\u0660" * 19 + "\u0667.json.zst") is None


def test_optional_fields():
    assert decode(without("digest", "files", 0)).files[0].digest is None
    assert decode(without("columns", "files", 0)).files[0].columns == ()
    first = decode(
        changed(version=1, parent=None, dropped={}, files=[], schema=None, schema_added=0), 1
    )
    assert (first.parent, first.schema, first.files) == (None, None, ())
    assert Version.decode(first.encode(), 1) == first
    decode({**VALID, "unknown": 1})  # what must be known is among the features


@pytest.mark.parametrize(
    "path",
    [
        "x",
        "a b/c.mosaic",
        "k=12:00/x",
        "ä/日本",
        "_k=v/x.mosaic",
        "a%2F..",
        "\udcff.mosaic",
    ],
    ids=ascii,
)
def test_paths_inside_the_table(path):
    version = decode(changed("files", 1, path=path))
    assert version.files[1].path == path
    assert Version.decode(version.encode(), 7) == version


def test_times_of_other_zones():
    zone = timezone(timedelta(hours=2))
    version = decode(changed(time="2026-11-18T12:00:00+02:00"))
    assert version.time == datetime(2026, 11, 18, 12, tzinfo=zone)
    assert version.time.tzinfo is UTC


# ---- hostile objects

OUTSIDE = [
    "",
    ".",
    "..",
    "/",
    "/etc/passwd",
    "../x.mosaic",
    "a/../../x.mosaic",
    "a/./x.mosaic",
    "a//x.mosaic",
    "x/",
    "s3://bucket/x.mosaic",
    "file:///etc/passwd",
    "C:/x.mosaic",
    "c:x",
    "a\\..\\b",
    "\\\\host\\share",
    "a\0b",
    "\ud800.mosaic",
]


@pytest.mark.parametrize("path", OUTSIDE, ids=ascii)
def test_paths_outside_the_table_are_refused(path):
    with pytest.raises(fm.CorruptFileError, match="is not inside the table"):
        decode(changed("files", 1, path=path))
    with pytest.raises(fm.CorruptFileError, match="is not inside the table"):
        decode(changed("files", 0, "columns", 0, path=path))


@pytest.mark.parametrize(
    ("base", "column"),
    [
        ("_columns/x.mosaic", "x.mosaic"),
        ("_mosaic/x.mosaic", "_mosaic/x.mosaic"),
        (".x", "_columns/.x"),
        ("a/_b/x", "_columns/_b/x"),
        ("_x.mosaic", "_columns/_x.mosaic"),
        ("a/.hidden/x", "a/_columns/x"),
    ],
)
def test_files_are_where_such_files_are(base, column):
    with pytest.raises(fm.CorruptFileError, match="is not one of a base file"):
        decode(changed("files", 1, path=base))
    with pytest.raises(fm.CorruptFileError, match="is not one of a column file"):
        decode(changed("files", 0, "columns", 0, path=column))


REFUSED = {
    "a list": [],
    "a number": 7,
    "null": None,
    "another number": changed(version=8, parent=6),
    "a cycle": changed(parent=7),
    "a later parent": changed(parent=8),
    "a negative parent": changed(parent=-1),
    "negative size": changed("files", 0, size=-1),
    "huge size": changed("files", 0, size=2**63),
    "huge rows": changed("files", 0, rows=2**64),
    "huge rows together": changed("files", 0, rows=2**63 - 5),
    "a float": changed("files", 0, rows=1.0),
    "a boolean": changed("files", 0, rows=True),
    "a boolean version": changed(version=True),
    "a text": changed("files", 0, rows="1"),
    "null rows": changed("files", 0, rows=None),
    "added later": changed("files", 0, added=8),
    "column added later": changed("files", 0, "columns", 0, added=8),
    "dropped later": changed(dropped={"x": 8}),
    "dropped as text": changed(dropped={"x": "1"}),
    "dropped as a list": changed(dropped=["x"]),
    "a short digest": changed("files", 0, schema="a" * 31),
    "a long digest": changed("files", 0, schema="a" * 33),
    "an upper digest": changed("files", 0, schema="A" * 32),
    "a digest with a line end": changed("files", 0, digest="a" * 32 + "\n"),
    "a digest that is a path": changed(schema="../../../../etc/passwd"),
    "no digest": changed("files", 0, schema=None),
    "files as an object": changed(files={}),
    "a file as text": changed(files=["x"]),
    "columns as null": changed("files", 0, columns=None),
    "columns of numbers": changed("files", 0, columns=[1]),
    "operation as a number": changed(operation=1),
    "summary as a list": changed(summary=[]),
    "partitioning as text": changed(partitioning="day"),
    "partitioning of numbers": changed(partitioning=[1]),
    "features as text": changed(features="x"),
    "no time": changed(time="yesterday"),
    "a time without zone": changed(time="2026-11-18T10:00:00"),
    "a time before all": changed(time="0001-01-01T00:00:00+14:00"),
    "a time as a number": changed(time=0),
    "the same path twice": changed("files", 1, path="day=mo/part-1.mosaic"),
    "the same column file twice": changed("files", 0, "columns", 1, path="_columns/part-2.mosaic"),
    **{f"no {key}": without(key) for key in VALID},
    **{f"no {key} of a file": without(key, "files", 1) for key in VALID["files"][1]},
    **{
        f"no {key} of a column file": without(key, "files", 0, "columns", 0)
        for key in VALID["files"][0]["columns"][0]
    },
}
del REFUSED["no schema"], REFUSED["no parent"]  # they are the same as null


@pytest.mark.parametrize("what", REFUSED)
def test_what_makes_no_sense_is_refused(what):
    with pytest.raises(fm.CorruptFileError):
        decode(REFUSED[what])


def test_later_formats_and_features_are_named():
    with pytest.raises(fm.UnsupportedError, match="has format 2, which is newer"):
        decode({"format": 2})
    with pytest.raises(fm.UnsupportedError, match="requires the features 'deletes', 'x'"):
        decode(changed(features=["x", "deletes"]))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        packed(b""),
        packed(b"{"),
        packed(b"\xff\xff"),
        packed(b"[" * 1_000_000),
        packed(b'{"a":' * 100_000),
        packed(b"1" * 100_000),
        packed(b'{"summary": NaN}'),
        packed(json.dumps(VALID).replace('"rows": 3', '"rows": 1e999').encode()),
        packed(json.dumps(VALID).replace('"rows": 3', '"rows": -Infinity').encode()),
        packed(VALID)[:-5],
        packed(VALID)[:20],
        json.dumps(VALID).encode(),
        bytes(100),
    ],
    ids=range(15),
)
def test_what_is_no_compressed_json_is_refused(data):
    with pytest.raises(fm.CorruptFileError):
        Version.decode(data, 7)


BOMBS = {
    "lists": ("[", "[],", "0]"),
    "objects": ("[", '{"":0},', "0]"),
    "texts": ("[", '"ab",', '""]'),
    "spaces": ("", " ", "{}"),
    "files": ('{"files":[', '{"path":"x"},', "0]}"),
}
PROGRAM = """
import resource, sys
import fastmosaic as fm
from fastmosaic.dataset.version import Version
data = sys.stdin.buffer.read()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    Version.decode(data, 7)
except fm.CorruptFileError as error:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, error)
"""


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("size", [7 << 20, 600 << 20], ids=["7 MiB", "600 MiB"])
def test_a_small_object_does_not_become_a_large_one(bomb, size):
    """Seven million bytes are read, and take many times of that; more are refused at once."""
    start, middle, end = (part.encode() for part in BOMBS[bomb])
    piece = middle * ((1 << 20) // len(middle))
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(start)
        for _ in range(size // len(piece)):
            stream.write(piece)
        stream.write(end)
    data = sink.getvalue().to_pybytes()
    assert len(data) < 100_000
    child = subprocess.run(
        [sys.executable, "-c", PROGRAM], input=data, stdout=subprocess.PIPE, check=True
    )
    grown, _, message = child.stdout.decode().partition(" ")
    assert int(grown) < 300 << 10  # KiB
    assert (", compressed to" in message) == (size > 100 << 20)


def test_a_version_that_readers_would_refuse_is_not_written():
    files = tuple(BaseFile(f"{'long' * 1000}/{i}.mosaic", 1, 1, A, 1) for i in range(10_000))
    version = Version(7, 6, datetime.now(UTC), "append", {}, files)
    with pytest.raises(fm.UnsupportedError, match=r"10,000 files.*compact the table"):
        version.encode()


# ---- mutations

JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.sampled_from([*OUTSIDE, A, B, "day=mo/part-1.mosaic", "_columns/x", "\ud800", "\udc80"]),
    st.lists(st.integers(0, 9), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(0, 9), max_size=2),
)


def places(value, path=()):
    """Yield the paths of all values inside a value."""
    yield path
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, inner in items:
        yield from places(inner, (*path, key))


@given(st.lists(st.tuples(st.randoms(use_true_random=False), JUNK), min_size=1, max_size=3))
def test_mutations_are_refused_or_read(changes):
    document = copy.deepcopy(VALID)
    for choice, junk in changes:
        *path, key = choice.choice(list(places(document))[1:])
        place = document
        for step in path:
            place = place[step]
        if choice.random() < 0.2:
            del place[key]
        elif isinstance(place, list) and choice.random() < 0.3:
            place.append(copy.deepcopy(place[key]))
        else:
            place[key] = junk
        if not document:
            break
    text = json.dumps(document).encode()
    try:
        version = Version.decode(packed(text), 7)
    except fm.MosaicError:
        return
    assert Version.decode(version.encode(), 7) == version


def test_damaged_bytes_are_refused_or_read():
    data = bytearray(decode(VALID).encode())
    choice = random.Random(1)
    for _ in range(1000):
        damaged = bytearray(data)
        damaged[choice.randrange(len(data))] ^= 1 << choice.randrange(8)
        try:
            version = Version.decode(bytes(damaged), 7)
        except fm.MosaicError:
            continue
        assert version == decode(VALID)


# ---- in a table


def test_errors_name_the_object(tmp_path):
    table = fm.MosaicTable.create(tmp_path / "t", pa.table({"a": [1]}))
    table.append(pa.table({"a": [2]}))
    place = tmp_path / "t" / version_name(2)
    for data, kind in (
        (b"broken", fm.CorruptFileError),
        (packed(changed(version=2, parent=1, features=["x"])), fm.UnsupportedError),
        (packed(VALID), fm.CorruptFileError),
    ):
        place.write_bytes(data)
        for read in (
            lambda: fm.read_table(tmp_path / "t"),
            lambda: fm.MosaicTable(tmp_path / "t"),
            lambda: table.append(pa.table({"a": [3]})),
            table.history,
        ):
            with pytest.raises(kind, match=version_name(2)):
                read()
    assert fm.MosaicTable(tmp_path / "t", 1).read().num_rows == 1
    place.unlink()
    assert fm.read_table(tmp_path / "t").num_rows == 1

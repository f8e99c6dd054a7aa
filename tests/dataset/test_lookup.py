"""Rows by key: `lookup` of files, datasets and tables, with statistics, a key index, and neither."""

import random
from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from files import their_reader, written
from hypothesis import given, strategies as st

import fastmosaic as fm
from fastmosaic.errors import CorruptFileError
from fastmosaic.file.scan import Scanner
from fastmosaic.format.annex import KeySection

KINDS = [{}, {"write_statistics": ["id"]}, {"write_key_index": "id"}]
every_kind = pytest.mark.parametrize("options", KINDS, ids=["scan", "statistics", "index"])


def people(ids):
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "name": [None if i is None else f"n{i}" for i in ids],
            "list": [[i, i] if i is not None else None for i in ids],
        }
    )


def expected_rows(table, keys, missing):
    """The oracle: a dict of the first row of each key."""
    rows = {}
    for row in table.to_pylist():
        if row["id"] is not None:
            rows.setdefault(row["id"], row)
    null = dict.fromkeys(table.column_names)
    found = [rows.get(key) for key in keys]
    if missing == "skip":
        return [row for row in found if row is not None]
    return [null if row is None else row for row in found]


@every_kind
@given(data=st.data(), rng=st.builds(random.Random, st.integers(0, 1 << 32)))
def test_rows_are_those_of_the_keys_in_their_order(options, data, rng):
    ids = data.draw(st.lists(st.one_of(st.none(), st.integers(-20, 20)), max_size=60))
    keys = data.draw(st.lists(st.one_of(st.none(), st.integers(-25, 25)), max_size=12))
    if rng.random() < 0.5:
        ids.sort(key=lambda one: (one is None, one))
    table = people(ids)
    file = fm.MosaicFile(written(table, row_group_size=rng.choice([1, 7, 100]), **options))
    for missing in ("null", "skip"):
        found = file.lookup(keys, missing=missing, use_threads=False)
        assert found.to_pylist() == expected_rows(table, keys, missing)


@every_kind
def test_datasets_tables_lists_and_globs(options, tmp_path):
    ids = list(range(300))
    random.Random(3).shuffle(ids)
    whole = people(ids)
    paths = [tmp_path / f"{i}.mosaic" for i in range(3)]
    for i, path in enumerate(paths):
        fm.write_table(whole.slice(100 * i, 100), path, row_group_size=30, **options)
    keys = [299, 5, 1000, 5, 0]
    expected = expected_rows(whole, keys, "null")
    for source in (tmp_path, str(tmp_path / "*.mosaic"), paths, fm.MosaicDataset(tmp_path)):
        assert fm.lookup(source, keys).to_pylist() == expected
    assert fm.lookup(paths[0], ids[:3]).to_pylist() == whole.slice(0, 3).to_pylist()
    table = fm.MosaicTable.create(tmp_path / "table", whole.slice(0, 100), **options)
    table.append(whole.slice(100))
    table.add_columns({"twice": pc.field("id") * 2})
    found = fm.lookup(tmp_path / "table", keys, columns=["twice", "id"]).to_pylist()
    assert [row["twice"] for row in found] == [598, 10, None, 10, 0]


@pytest.mark.parametrize("form", ["table", "dict", "tuples", "frame", "batch"])
@pytest.mark.parametrize("options", [{}, {"write_key_index": ["a", "b"]}], ids=["scan", "index"])
def test_keys_of_several_columns(form, options):
    table = pa.table(
        {"a": [1, 1, 2, 2, None, 1], "b": ["x", "y", "x", None, "x", "y"], "row": range(6)}
    )
    rows = [(2, "x"), (1, "y"), (2, None), (9, "x"), (None, "x"), (1, "y")]
    columns = {"a": [a for a, _ in rows], "b": [b for _, b in rows]}
    keys = {
        "table": pa.table(columns),
        "dict": columns,
        "tuples": rows,
        "frame": pd.DataFrame(columns).convert_dtypes(),
        "batch": pa.record_batch(columns),
    }[form]
    file = fm.MosaicFile(written(table, **options))
    found = file.lookup(keys, key=["a", "b"], columns=["row"])
    assert found["row"].to_pylist() == [2, 1, None, None, None, 1]


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize(
    "values",
    [
        pa.array(["a", "ä", "", "bc"]),
        pa.array([b"a", b"\xff", b""]),
        pa.array([date(2020, 1, 1), date(1969, 1, 1)]),
        pa.array([1, 2], pa.timestamp("ns", "UTC")),
        pa.array([Decimal("1.50"), Decimal("-2.25")]),
        pa.array([1.5, -0.25, float("inf")]),
        pa.array([True, False]),
        pa.array([1, 2**64 - 1], pa.uint64()),
        pa.array(["x", "y", "x"]).dictionary_encode(),
        pa.array([1, -7], pa.int8()),
        pa.array([5, 6], pa.duration("ms")),
        pa.array(["u", "v"], pa.large_string()),
    ],
    ids=lambda values: str(values.type),
)
def test_keys_of_every_kind(values, indexed):
    table = pa.table({"key": values, "row": range(len(values))})
    options = {"write_key_index": "key"} if indexed else {}
    file = fm.MosaicFile(written(table, **options))
    found = file.lookup(values, key="key")
    listed = values.to_pylist()
    assert found["row"].to_pylist() == list(map(listed.index, listed))
    assert found["key"].to_pylist() == values.to_pylist()
    assert found.schema.field("key").type == values.type


def test_keys_in_every_form():
    file = fm.MosaicFile(written(people([4, 5, 6])))
    for keys in ([6, 4], (6, 4), np.array([6, 4]), pa.array([6, 4], pa.int8()),
                 pa.chunked_array([[6], [4]]), pd.Series([6, 4]), {"id": [6, 4]}, range(6, 3, -2)):  # fmt: skip
        assert file.lookup(keys)["name"].to_pylist() == ["n6", "n4"]
    assert file.lookup([]).num_rows == 0
    assert file.lookup([4, 7], columns=[]).num_rows == 2


def test_missing_keys():
    file = fm.MosaicFile(written(people([4, 5, 6])))
    with pytest.raises(KeyError, match=r"2 of 3 keys were not found: id = 7; id = 8"):
        file.lookup([7, 4, 8], missing="raise")
    assert file.lookup([5], missing="raise")["name"].to_pylist() == ["n5"]
    with pytest.raises(ValueError, match="missing must be 'null', 'raise' or 'skip', not 'no'"):
        file.lookup([4], missing="no")


def test_columns_that_must_not_be_null_get_rows_of_nulls():
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    file = fm.MosaicFile(written(pa.table({"id": [1]}, schema)))
    found = file.lookup([1, 2])
    assert found.schema.field("id").nullable
    found.validate(full=True)
    assert not file.lookup([1], missing="skip").schema.field("id").nullable


@pytest.mark.parametrize(
    ("keys", "key", "error", "told"),
    [
        (["4"], "id", fm.SchemaMismatchError, "keys have type string, but the column has type int64"),
        ([4.5], "id", fm.SchemaMismatchError, "keys have type double"),
        ([2**70], "id", fm.SchemaMismatchError, "column 'id'"),
        ([b"n4"], "name", fm.SchemaMismatchError, "keys have type binary"),
        ([4], "nope", fm.ColumnNotFoundError, "nope"),
        ([[4, 4]], "list", fm.SchemaMismatchError, "cannot be a key"),
        ([4], [], ValueError, "at least one column"),
        ([(4, 4)], ["id", "id"], ValueError, "twice"),
        ([4], ["id", "name"], ValueError, "expected a tuple of 2 values"),
        ({"id": [4]}, ["id", "name"], fm.ColumnNotFoundError, "name"),
        ({"id": [4], "name": []}, ["id", "name"], ValueError, "different lengths"),
        (4, "id", TypeError, "must be a list or an array"),
        ("n4", "name", TypeError, "must be a list or an array"),
    ],
)  # fmt: skip
def test_keys_that_are_refused(keys, key, error, told):
    for options in ({}, {"write_key_index": "id"}):
        with pytest.raises(error, match=told):
            fm.MosaicFile(written(people([4, 5, 6]), **options)).lookup(keys, key=key)


# What it costs


@pytest.fixture
def groups_read(monkeypatch):
    """Row groups that are read, with the stored columns."""
    read = []
    original = Scanner.read

    def noting(self, request, groups, memory):
        read.append((tuple(request.projection.schema.names), tuple(groups)))
        return original(self, request, groups, memory)

    monkeypatch.setattr(Scanner, "read", noting)
    return read


def test_statistics_skip_row_groups(groups_read):
    file = fm.MosaicFile(written(people(range(1000)), row_group_size=100, write_statistics=["id"]))
    assert file.lookup([950, 33])["name"].to_pylist() == ["n950", "n33"]
    assert groups_read == [(("id",), (0, 9)), (("id", "name", "list"), (0, 9))]


def test_an_index_finds_rows_without_reading_other_row_groups(groups_read):
    ids = list(range(1000))
    random.Random(0).shuffle(ids)
    file = fm.MosaicFile(written(people(ids), row_group_size=100, write_key_index="id"))
    groups = tuple(sorted({ids.index(33) // 100, ids.index(950) // 100}))
    assert file.lookup([950, 33, 5000])["name"].to_pylist() == ["n950", "n33", None]
    assert groups_read == [(("id",), groups), (("id", "name", "list"), groups)]


# The key index


def test_an_index_takes_twelve_bytes_a_row_and_others_skip_it():
    table = people(range(10_000))
    plain, indexed = written(table), written(table, write_key_index="id")
    section = fm.MosaicFile(indexed).metadata.annex.keys
    assert (section.names, section.count, len(section.blocks)) == (("id",), 10_000, 3)
    assert 120_000 <= len(indexed) - len(plain) <= 120_100
    assert their_reader(indexed).num_row_groups == 1
    assert fm.read_table(indexed).equals(table)
    report = fm.verify(indexed)
    assert report.ok, report
    assert "key index: 10000 keys match those of the rows" in report.checked


def test_equal_hashes_are_told_apart(monkeypatch):
    """All keys have the same hash: the rows are still the right ones."""
    from fastmosaic.file import key_index

    monkeypatch.setattr(
        key_index,
        "hash_values",
        lambda values: pa.array([7] * (len(values) - values.null_count), pa.uint64()),
    )
    table = people(range(9000))
    file = fm.MosaicFile(written(table, write_key_index="id", row_group_size=2000))
    assert file.lookup([8999, 0, 10_000])["name"].to_pylist() == ["n8999", "n0", None]


def index_offset(data):
    offset, section = fm.MosaicFile(data).metadata.key_index
    return offset, section.size


def test_a_damaged_index_is_refused():
    data = bytearray(written(people(range(500)), write_key_index="id"))
    offset, size = index_offset(bytes(data))
    for at in (offset, offset + size // 2, offset + size - 1):
        data[at] ^= 1
        with pytest.raises(CorruptFileError, match="block 0 of the key index does not match"):
            fm.MosaicFile(bytes(data)).lookup([3])
        report = fm.verify(bytes(data))
        assert [problem.part for problem in report.problems] == ["key index"]
        data[at] ^= 1
    assert fm.verify(bytes(data)).ok


def test_an_index_of_other_keys_is_noticed_by_verify(monkeypatch):
    """The checksums are right, but the index is not that of the rows."""
    from fastmosaic.file.key_index import KeyCollector

    original = KeyCollector.add

    def shifted(self, batch):
        original(
            self, batch.set_column(0, "id", pa.array([i + 1 for i in batch["id"].to_pylist()]))
        )

    with monkeypatch.context() as patch:
        patch.setattr(KeyCollector, "add", shifted)
        data = written(people(range(500)), write_key_index="id")
    (problem,) = fm.verify(data).problems
    assert "block 0 does not match the keys of the rows" in str(problem)
    # Rows that the index lists for a key have another one, and are not returned.
    assert fm.MosaicFile(data).lookup([3], missing="skip").num_rows == 0


@pytest.mark.parametrize("names", [None, "nope", ["id", "id"], [], "list", 5, [5]])
def test_indexes_that_are_refused(names):
    if names is None:
        with pytest.raises(ValueError, match="requires an annex"):
            written(people([1]), write_key_index="id", annex=False)
        return
    with pytest.raises((ValueError, TypeError, fm.MosaicError)):
        written(people([1]), write_key_index=names)


def test_sections_are_checked():
    section = KeySection(("a", "ä"), 5000, ((1, 2), (3, 4)))
    assert KeySection.decode(section.encode()) == section
    for damaged in (
        section.encode()[:-1],
        section.encode() + b"\0",
        b"\x00\x00",
        b"\x01\x01\xff\x00",
    ):
        with pytest.raises(CorruptFileError):
            KeySection.decode(damaged)


def test_merging_files_drops_or_rebuilds_the_index(tmp_path):
    ids = list(range(400))
    random.Random(1).shuffle(ids)
    for i in range(2):
        part = people(ids[200 * i : 200 * i + 200])
        fm.write_table(part, tmp_path / f"{i}.mosaic", write_key_index="id")
    merged, indexed = tmp_path / "out" / "merged.mosaic", tmp_path / "out" / "indexed.mosaic"
    merged.parent.mkdir()
    sources = [tmp_path / "0.mosaic", tmp_path / "1.mosaic"]
    fm.concat(sources, merged)
    assert fm.MosaicFile(merged).metadata.key_index is None
    report = fm.concat(sources, indexed, write_key_index="id")
    assert report.num_copied == 0
    assert fm.MosaicFile(indexed).metadata.annex.keys.count == 400
    with pytest.raises(fm.SchemaMismatchError, match="key index"):
        fm.concat(sources, tmp_path / "out" / "no.mosaic", mode="copy", write_key_index="id")
    for path in (merged, indexed):
        assert fm.verify(path).ok
        assert fm.lookup(path, ids[:5])["id"].to_pylist() == ids[:5]
    fm.compact(tmp_path / "out")
    assert fm.lookup(tmp_path / "out", ids[-5:])["id"].to_pylist() == ids[-5:]


# Files for serving


def test_a_file_for_serving_has_small_row_groups_and_pages():
    table = pa.table({f"c{i}": np.random.default_rng(i).random(9000) for i in range(20)})
    file = fm.MosaicFile(written(table, layout="serving"))
    assert [file.metadata.rows_of(group) for group in range(file.num_row_groups)] == [
        4096,
        4096,
        808,
    ]
    assert {one.layout for one in file.metadata.buckets(0)} == {"paged"}
    assert file.read().equals(table)
    assert fm.MosaicFile(written(table, layout="serving", row_group_size=5000)).num_row_groups == 2

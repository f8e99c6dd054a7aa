"""MosaicDataset as a pyarrow dataset: every member of it works, or says that it does not."""

import json
import pickle
import subprocess
import sys

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

import fastmosaic as fm
from fastmosaic import MosaicDataset
from fastmosaic.dataset import files as one_file
from fastmosaic.errors import ColumnNotFoundError
from fastmosaic.file import opening
from fastmosaic.storage.source import open_source


@pytest.fixture
def root(tmp_path):
    """Two partitions, four files with row groups of five rows; 0, 1, ... 39 in `x`."""
    for i in range(4):
        directory = tmp_path / f"k={i // 2}"
        directory.mkdir(exist_ok=True)
        x = pa.array(range(10 * i, 10 * i + 10), pa.int32() if i % 2 else pa.int64())
        table = pa.table(
            {"x": x, "s": [f"s{v.as_py()}" for v in x], "f": [v.as_py() / 4 for v in x]}
        )
        fm.write_table(table, directory / f"f{i}", row_group_size=5, write_statistics=["x"])
    return str(tmp_path)


@pytest.fixture
def dataset(root):
    return MosaicDataset(root)


@pytest.fixture
def reads(monkeypatch):
    """Columns and row groups of each read."""
    found = []
    original = one_file.Scanner

    class Recording(original):
        def read(self, request, groups, memory):
            found.extend(
                (column, group) for column in request.projection.schema.names for group in groups
            )
            return super().read(request, groups, memory)

    monkeypatch.setattr(one_file, "Scanner", Recording)
    return found


def xs(table):
    return table["x"].to_pylist()


# --- all members

CALLS = """
import json, os, pickle, sys
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import fastmosaic as fm

dataset = fm.MosaicDataset(sys.argv[1])
condition = pc.field("x") > 35
calls = {
    "schema": lambda: dataset.schema.names,
    "partition_expression": lambda: str(dataset.partition_expression),
    "files": lambda: len(dataset.files),
    "read": lambda: dataset.read(["x"], filters=condition).num_rows,
    "iter_batches": lambda: sum(batch.num_rows for batch in dataset.iter_batches(7)),
    "scanner": lambda: dataset.scanner(["x"], condition).to_table().num_rows,
    "to_table": lambda: dataset.to_table(filter=condition).num_rows,
    "to_batches": lambda: sum(b.num_rows for b in dataset.to_batches(filter=condition)),
    "head": lambda: dataset.head(3).num_rows,
    "take": lambda: dataset.take([39, 0])["x"].to_pylist(),
    "count_rows": lambda: dataset.count_rows(),
    "get_fragments": lambda: len(list(dataset.get_fragments())),
    "_get_fragments": lambda: len(list(dataset._get_fragments(None))),
    "filter": lambda: dataset.filter(condition).count_rows(),
    "replace_schema": lambda: dataset.replace_schema(dataset.schema),
    "sort_by": lambda: dataset.sort_by("x"),
    "join": lambda: dataset.join(dataset, "x"),
    "join_asof": lambda: dataset.join_asof(dataset, on="x", by="x", tolerance=1),
    "_scanner_options": lambda: len(dataset._scanner_options({})),
    "_scan_options": lambda: dataset._scan_options,
    "__reduce__": lambda: pickle.loads(pickle.dumps(dataset)).count_rows(),
    "__repr__": lambda: repr(dataset).rpartition(",")[0],
    "of pyarrow: dataset([dataset])": lambda: ds.dataset([dataset]).count_rows(),
    "of pyarrow: write_dataset": lambda: ds.write_dataset(
        dataset, sys.argv[1] + "/_copy", format="parquet"
    ),
    "of pyarrow: write_dataset by a reader": lambda: ds.write_dataset(
        dataset.scanner().to_reader(), sys.argv[1] + "/_copy", format="parquet"
    ),
}


def outcome(call):
    try:
        return call()
    except fm.UnsupportedError as error:
        return "unsupported: " + str(error)
    except TypeError as error:
        return "TypeError"


outcomes = {}
for name, call in calls.items():
    reading, writing = os.pipe()
    child = os.fork()  # so that a crash is that of a child
    if not child:
        os.write(writing, json.dumps(outcome(call)).encode())
        os._exit(0)
    os.close(writing)
    _, status = os.waitpid(child, 0)
    with open(reading) as pipe:
        outcomes[name] = json.loads(pipe.read()) if status == 0 else f"status {status}"
print(json.dumps(outcomes))
"""

WORKING = {
    "schema": ["x", "s", "f", "k"],
    "files": 4,
    "read": 4,
    "iter_batches": 40,
    "scanner": 4,
    "to_table": 4,
    "to_batches": 4,
    "head": 3,
    "take": [39, 0],
    "count_rows": 40,
    "__reduce__": 40,
    "__repr__": "<MosaicDataset: 4 files, 40 rows, 4 columns",
    "_scan_options": None,
    "of pyarrow: write_dataset": "TypeError",
    "of pyarrow: write_dataset by a reader": None,
}


def test_every_member_works_or_is_refused(root):
    done = subprocess.run(
        [sys.executable, "-c", CALLS, root], capture_output=True, text=True, check=True
    )
    outcomes = json.loads(done.stdout)
    refused = {
        name for name, outcome in outcomes.items() if str(outcome).startswith("unsupported: a Mos")
    }
    assert refused == {
        "partition_expression",
        "get_fragments",
        "_get_fragments",
        "_scanner_options",
        "filter",
        "replace_schema",
        "sort_by",
        "join",
        "join_asof",
        "of pyarrow: dataset([dataset])",
    }
    assert {name: outcomes[name] for name in outcomes.keys() - refused} == WORKING
    # pyarrow may get more members; these are of Cython.
    members = {*dir(ds.Dataset)} - {*dir(object), "__pyx_vtable__", "__setstate__"}
    assert members <= outcomes.keys()


def test_other_options_are_refused(dataset):
    for member in (dataset.scanner, dataset.to_table, dataset.count_rows, dataset.to_batches):
        with pytest.raises(TypeError, match="bogus"):
            member(bogus=1)
    with pytest.raises(TypeError, match="'bogus'"):
        dataset.head(1, bogus=1)
    with pytest.raises(TypeError, match="'bogus'"):
        dataset.take([1], bogus=1)
    options = {"batch_readahead": 1, "fragment_readahead": 2, "memory_pool": None}
    assert dataset.to_table(**options, cache_metadata=True).num_rows == 40
    assert dataset.count_rows(fragment_scan_options=None, batch_size=3) == 40
    for batch_size in (0, -1):
        with pytest.raises(ValueError, match="batch_size"):
            dataset.iter_batches(batch_size)
        with pytest.raises(ValueError, match="batch_size"):
            dataset.scanner(batch_size=batch_size)


# --- scanners


def test_columns_may_be_expressions(dataset, reads):
    columns = {"double": pc.field("x") * 2, "text": pc.field("s"), "one": pc.scalar(1)}
    condition = pc.field("k") == 1
    expected = [{"double": 2 * x, "text": f"s{x}", "one": 1} for x in range(20, 40)]
    assert dataset.to_table(columns, condition).to_pylist() == expected
    assert dataset.scanner(columns, condition).to_table().to_pylist() == expected
    assert dataset.head(3, columns, condition).to_pylist() == expected[:3]
    assert dataset.take([19, 0], columns, condition).to_pylist() == [expected[19], expected[0]]
    assert {column for column, _ in reads} == {"x", "s"}
    with pytest.raises(ColumnNotFoundError, match="'xx'"):
        dataset.to_table({"a": pc.field("xx")})
    with pytest.raises((TypeError, ValueError)):
        dataset.to_table({"a": pc.field("s") + 1})


def test_a_scanner_can_be_consumed_in_every_way(dataset):
    condition = [("x", "<", 7)]
    expected = list(range(7))
    scanner = dataset.scanner
    assert scanner(filter=condition).count_rows() == 7
    assert xs(scanner(["x"], condition).to_table()) == expected
    assert xs(scanner(["x"], condition).to_reader().read_all()) == expected
    assert xs(pa.Table.from_batches(scanner(["x"], condition).to_batches())) == expected
    assert xs(scanner(["x"], condition).head(3)) == expected[:3]
    assert xs(scanner(["x"], condition).take([3, 0])) == [3, 0]
    again = scanner(["x"], condition)
    assert again.to_table().equals(again.to_table())
    assert scanner(["f", "k"]).projected_schema.names == ["f", "k"]
    batches = list(scanner(["x"], batch_size=4).to_batches())
    assert max(batch.num_rows for batch in batches) <= 4
    assert sum(batch.num_rows for batch in batches) == 40


def test_a_scanner_that_is_dropped_leaves_nothing_behind(root):
    program = """
import sys
import pyarrow.compute as pc
import fastmosaic as fm
dataset = fm.MosaicDataset(sys.argv[1])
scanner = dataset.scanner()
batches = dataset.scanner(batch_size=1).to_batches()
next(batches)
reader = dataset.scanner(filter=pc.field("x") > 3).to_reader()
reader.read_next_batch()
iterator = dataset.iter_batches(1)
next(iterator)
del batches, reader, iterator
dataset.scanner(batch_size=1).head(1)
left = dataset.scanner(batch_size=1).to_reader()
left.read_next_batch()
print("done")
"""
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", program, root],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_filters_take_every_form(dataset):
    for form in (pc.field("x") == 7, [("x", "==", 7)], [[("x", "==", 7)], [("x", "<", 0)]]):
        assert xs(dataset.scanner(filter=form).to_table()) == [7]
        assert xs(dataset.to_table(filter=form)) == [7]
        assert xs(dataset.head(5, filter=form)) == [7]
        assert dataset.count_rows(form) == 1
    with pytest.raises(ValueError, match="does not match the types of its columns"):
        dataset.scanner(filter=pc.field("x") == "text")
    with pytest.raises(ValueError, match="position"):
        dataset.scanner(filter=pc.field(0) == 1)


def test_a_filter_is_found_without_a_look_at_every_column(tmp_path, monkeypatch):
    table = pa.table({f"column_{i:04d}": pa.array([i], pa.int32()) for i in range(2000)})
    for name, part in {"a": table, "b": table.slice(0, 1).drop_columns(["column_0000"])}.items():
        fm.write_table(part, tmp_path / name)
    dataset = MosaicDataset(tmp_path)
    made = []
    field = pa.field
    monkeypatch.setattr(
        pa, "field", lambda *args, **options: made.append(args) or field(*args, **options)
    )
    condition = (pc.field("column_0007") == 7) & (pc.field("column_1999") > 0)
    table = dataset.scanner(["column_0003"], condition).to_table()
    assert table.to_pylist() == [{"column_0003": 3}] * 2
    assert len(made) < 30


# --- reading only what is needed


def test_head_reads_the_first_row_groups(dataset, reads):
    assert xs(dataset.head(7, ["x"])) == list(range(7))
    assert reads == [("x", 0), ("x", 1)]
    reads.clear()
    assert xs(dataset.head(2, ["x"], pc.field("x") >= 15)) == [15, 16]
    assert reads == [("x", 1)]
    reads.clear()
    assert dataset.head(0, ["x"]).schema == pa.schema({"x": pa.int64()})
    assert dataset.head(0, ["x"], pc.field("x") > 1).schema == pa.schema({"x": pa.int64()})
    assert dataset.head(-3, ["x"]).num_rows == 0
    assert reads == []
    assert dataset.head(1000).num_rows == 40
    assert xs(dataset.head(1000, filter=pc.field("x") > 37)) == [38, 39]


def test_take_reads_the_row_groups_of_its_rows(dataset, reads):
    assert xs(dataset.take([39, 3, 38, 3], ["x"])) == [39, 3, 38, 3]
    assert reads == [("x", 0), ("x", 1)]  # of the first file, and of the last
    assert xs(dataset.take(pa.array([1, 12], pa.uint8()))) == [1, 12]
    assert xs(dataset.take([1, 0], filter=pc.field("x") > 20)) == [22, 21]
    assert dataset.take([]).num_rows == 0
    assert dataset.take([], filter=pc.field("x") > 20).schema == dataset.schema
    assert dataset.take([5, 0, 7], []).num_rows == 3
    assert dataset.take([5, 0], [], pc.field("x") > 20).num_rows == 2
    for indices in ([40], [-1], [0, 41]):
        with pytest.raises(IndexError):
            dataset.take(indices)
    for columns in (["x"], []):
        for indices in ([4], [-1]):
            with pytest.raises(IndexError):
                dataset.take(indices, columns, pc.field("x") > 35)


def test_rows_are_counted_without_reading(dataset, reads):
    assert dataset.count_rows() == 40
    assert dataset.count_rows(pc.field("k") == 1) == 20
    assert dataset.count_rows(pc.field("x") > 1000) == 0
    assert reads == []
    assert dataset.count_rows(pc.field("x") > 33) == 6
    assert reads == [("x", 0), ("x", 1)]


# --- the rest


def test_pickled_datasets_are_open(dataset, root, monkeypatch):
    dataset.read(["x"], filters=[("k", "==", 1)])
    copy = pickle.loads(pickle.dumps(dataset))
    opened = []
    original = one_file.open_source
    monkeypatch.setattr(
        one_file,
        "open_source",
        lambda path, *args, **options: opened.append(path) or original(path, *args, **options),
    )
    assert copy.schema == dataset.schema
    assert copy.count_rows() == 40
    assert copy.files == dataset.files
    assert opened == []
    assert xs(copy.to_table(["x"], pc.field("k") == 1)) == list(range(20, 40))
    assert len(opened) == 2
    given = MosaicDataset(root, schema=pa.schema({"x": pa.int16(), "k": pa.string()}))
    given.read(filters=[("x", ">", 3)])
    copy = pickle.loads(pickle.dumps(given))
    assert copy.to_table(filter=pc.field("k") == "0").equals(given.read(filters=[("k", "==", "0")]))


def test_one_schema_is_pickled_once(tmp_path):
    table = pa.table({f"column_{i:04d}": pa.array([1], pa.int8()) for i in range(1000)})
    for i in range(20):
        fm.write_table(table, tmp_path / str(i))
    block = opening.read_end(open_source(tmp_path / "0"))[0].schema_block.encode()
    alone, many = (
        len(pickle.dumps(MosaicDataset(source))) for source in (tmp_path / "0", tmp_path)
    )
    per_file = (many - alone) / 19
    assert per_file < len(block) / 2
    copy = pickle.loads(pickle.dumps(MosaicDataset(tmp_path)))
    assert len({id(file.metadata.schema_block) for file in copy._files.files}) == 1


def test_what_it_says_of_itself(dataset, root):
    assert repr(dataset).startswith("<MosaicDataset: 4 files, 40 rows, 4 columns, 1.")
    assert dataset.files == [f"{root}/k={i // 2}/f{i}" for i in range(4)]
    assert isinstance(dataset, ds.Dataset)
    assert dataset.schema == pa.schema(
        {"x": pa.int64(), "s": pa.string(), "f": pa.float64(), "k": pa.int32()}
    )


def test_sources_that_are_none(tmp_path):
    for source in (b"bytes", 5, None, pa.py_buffer(b"x"), [b"bytes"], [None]):
        with pytest.raises(TypeError):
            MosaicDataset(source)

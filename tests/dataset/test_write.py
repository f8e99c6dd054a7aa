"""Data sets written: partitions, sizes, bounds, and nothing half."""

import datetime
import itertools
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from contextlib import contextmanager, nullcontext
from dataclasses import FrozenInstanceError
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import s3fs
from hypothesis import given, strategies as st
from pyarrow import fs
from servers import s3_api
from strategies import FLAT_TYPES, assert_same

import fastmosaic as fm
from fastmosaic.dataset import hive as partitions
from fastmosaic.dataset.arrow import MosaicDataset
from fastmosaic.dataset.hive_split import Splitter
from fastmosaic.dataset.write import DatasetWriter, WriteProgress, write_dataset

TABLE = pa.table(
    {
        "id": pa.array(range(10), pa.int64()),
        "day": pa.array(["mo", "tu", None, "mo", "we", "tu", "mo", None, "mo", "we"]),
        "year": pa.array([2023, 2023, 2024, 2024, 2023, 2023, 2023, 2024, 2024, 2023], pa.int32()),
    }
)


def contents(base):
    """The rows of each directory, by its path."""
    found = {}
    for path in sorted(Path(base).rglob("*.mosaic")):
        rows = fm.read_table(path)
        found.setdefault(str(path.parent.relative_to(base)), []).append(rows)
    return {directory: pa.concat_tables(tables) for directory, tables in found.items()}


def ids(base):
    return {directory: rows["id"].to_pylist() for directory, rows in contents(base).items()}


def listing(base):
    return sorted(str(path.relative_to(base)) for path in Path(base).rglob("*"))


# ---- what can be written


SOURCES = {
    "table": lambda: TABLE,
    "chunked table": lambda: pa.concat_tables([TABLE.slice(0, 4), TABLE.slice(4)]),
    "batch": lambda: TABLE.to_batches()[0],
    "reader": lambda: TABLE.to_reader(3),
    "dataset": lambda: ds.dataset(TABLE),
    "scanner": lambda: ds.dataset(TABLE).scanner(batch_size=2),
    "pandas": lambda: TABLE.to_pandas(types_mapper=pd.ArrowDtype),
    "polars": lambda: pl.from_arrow(TABLE),
    "duckdb": lambda: duckdb.from_arrow(TABLE),
    "list of batches": lambda: TABLE.to_batches(3),
    "generator": lambda: (TABLE.slice(start, 3) for start in (0, 3, 6, 9)),
    "tables and batches": lambda: [TABLE.slice(0, 5), *TABLE.slice(5).to_batches()],
    "columns in another order": lambda: [TABLE.slice(0, 5), TABLE.slice(5).select([2, 0, 1])],
}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("partitioning", [None, "day"])
def test_sources(tmp_path, source, partitioning):
    report = write_dataset(SOURCES[source](), tmp_path / "data", partitioning=partitioning)
    assert report.num_rows == 10
    if partitioning is None:
        found = contents(tmp_path / "data")["."]
        if source == "polars":  # it has string views
            assert found.schema.types == pa.table(SOURCES[source]()).schema.types
            found = found.cast(TABLE.schema)
        assert_same(found, TABLE)
    else:
        assert ids(tmp_path / "data") == {
            "day=mo": [0, 3, 6, 8],
            "day=tu": [1, 5],
            "day=we": [4, 9],
            "day=__HIVE_DEFAULT_PARTITION__": [2, 7],
        }


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("data.parquet", "cannot write an object of type str"),
        ({"id": [1]}, "cannot write an object of type dict"),
        (3, "cannot write an object of type int"),
        ([{"id": 1}], "tables and record batches of pyarrow, not an object of type dict"),
        ([TABLE, 3], "not an object of type int"),
    ],
)
def test_other_sources_are_refused(tmp_path, data, message):
    with pytest.raises(TypeError, match=message):
        write_dataset(data, tmp_path / "data")
    assert listing(tmp_path) == []


def test_nothing_needs_a_schema(tmp_path):
    with pytest.raises(ValueError, match="pass schema="):
        write_dataset([], tmp_path / "data")
    write_dataset([], tmp_path / "data", schema=TABLE.schema)
    assert_same(contents(tmp_path / "data")["."], TABLE.slice(0, 0))


def test_a_table_without_columns(tmp_path):
    report = write_dataset(TABLE.select([]), tmp_path / "data", max_rows_per_file=4)
    assert [file.num_rows for file in report.files] == [4, 4, 2]
    assert [fm.read_table(file.path).num_rows for file in report.files] == [4, 4, 2]


@pytest.mark.parametrize(
    "second",
    [
        TABLE.rename_columns(["id", "day", "month"]),
        TABLE.set_column(0, "id", TABLE["id"].cast(pa.string())),
        TABLE.rename_columns(["id", "day", "month"]).slice(0, 0),
        TABLE.drop(["id"]),
    ],
)
def test_later_items_must_fit(tmp_path, second):
    with pytest.raises(fm.SchemaMismatchError, match=r"'year'|'id'"):
        write_dataset([TABLE, second], tmp_path / "data", max_rows_per_file=2)
    assert listing(tmp_path) == []


def test_data_must_fit_the_schema(tmp_path):
    schema = TABLE.schema.set(0, pa.field("id", pa.int32()))
    for data in (TABLE, TABLE.slice(0, 0), TABLE.to_reader()):
        with pytest.raises(fm.SchemaMismatchError, match="'id' has type int64"):
            write_dataset(data, tmp_path / "data", schema=schema)
    assert listing(tmp_path) == []
    schema = pa.schema([TABLE.schema.field(name) for name in ("year", "id", "day")])
    write_dataset(TABLE, tmp_path / "data", schema=schema)
    assert contents(tmp_path / "data")["."].schema.names == ["year", "id", "day"]


def test_types_that_the_format_lacks_are_stored_as_in_a_file(tmp_path):
    table = pa.table(
        {
            "key": pa.array(["a", "b", "a"]).dictionary_encode(),
            "wide": pa.array(["x", None, "z"], pa.large_string()),
            "count": pa.array([1, 2, 3], pa.uint8()),
        }
    )
    write_dataset(table, tmp_path, partitioning="key")
    assert contents(tmp_path)["key=a"].to_pydict() == {"wide": ["x", "z"], "count": [1, 3]}


# ---- partitions


def test_several_partition_columns(tmp_path):
    report = write_dataset(TABLE, tmp_path, partitioning=["year", "day"])
    assert ids(tmp_path) == {
        "year=2023/day=mo": [0, 6],
        "year=2023/day=tu": [1, 5],
        "year=2023/day=we": [4, 9],
        "year=2024/day=__HIVE_DEFAULT_PARTITION__": [2, 7],
        "year=2024/day=mo": [3, 8],
    }
    assert {file.num_rows for file in report.files} == {2}
    assert [file.partition for file in report.files][3] == {"year": 2024, "day": None}
    assert contents(tmp_path)["year=2023/day=mo"].schema.names == ["id"]


def test_partitions_over_many_batches_are_one_file_each(tmp_path):
    report = write_dataset(TABLE.to_reader(1), tmp_path, partitioning="day")
    assert len(report.files) == 4
    assert sum(map(len, ids(tmp_path).values())) == 10


def test_partitions_read_back(tmp_path):
    write_dataset(TABLE, tmp_path, partitioning=["day", "year"])
    table = MosaicDataset(tmp_path).to_table().select(TABLE.column_names).sort_by("id")
    assert_same(table, TABLE)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([True, False, None]),
        pa.array([-1, 0, None], pa.int8()),
        pa.array([datetime.date(2024, 2, 29), None, datetime.date(1969, 1, 1)]),
        pa.array(["a/b", "ü=%", "_x", ".y", "a b", "..", "null", "x" * 80]),
        pa.array([0.5, -1e300, None]),
        pa.array([datetime.datetime(2024, 2, 29, 1, 2, 3), None], pa.timestamp("us")),
    ],
    ids=lambda values: str(values.type),
)
def test_pyarrow_finds_the_same_partitions(tmp_path, values):
    table = pa.table({"key": values, "id": range(len(values))})
    report = write_dataset(table, tmp_path, partitioning="key")
    hive = ds.HivePartitioning(pa.schema({"key": values.type}))
    found = {}
    for file in report.files:
        relative = str(Path(file.path).parent.relative_to(tmp_path))
        assert ds.get_partition_keys(hive.parse(f"{relative}/x")) == file.partition
        found[file.partition["key"]] = fm.read_table(file.path)["id"].to_pylist()
    assert found == {value: [n] for n, value in enumerate(values.to_pylist())}


def test_names_of_partition_columns_are_checked_first(tmp_path):
    for partitioning, error, message in (
        ("dya", fm.ColumnNotFoundError, "partitioning: no column named 'dya'; did you mean 'day'"),
        (["day", "day"], ValueError, "contains a column twice: day, day"),
        (["day", "id", "year"], ValueError, "at least one must remain for the files"),
    ):
        with pytest.raises(error, match=message):
            write_dataset(TABLE, tmp_path / "data", partitioning=partitioning)
    assert listing(tmp_path) == []


@pytest.mark.parametrize("arrow", [*FLAT_TYPES, pa.list_(pa.int32())], ids=str)
def test_types_of_partition_columns_are_checked_first(tmp_path, arrow):
    """Those are refused which cannot name a directory, though there be no value yet."""
    example = {
        "list<item: int32>": [1],
        "decimal128(18, 4)": Decimal(1),
        "decimal128(19, -3)": Decimal(1000),
        "decimal128(38, 10)": Decimal(1),
        "binary": b"x",
        "string": "x",
        "time32[ms]": datetime.time(1),
        "date32[day]": datetime.date(2024, 1, 1),
        "bool": True,
    }.get(str(arrow), datetime.datetime(2024, 1, 1) if pa.types.is_timestamp(arrow) else 1)
    try:
        partitions.directory(["key"], [pa.scalar(example, arrow)])
    except fm.UnsupportedError:
        table = pa.table({"key": pa.nulls(2, arrow), "id": [1, 2]})
        with pytest.raises(fm.UnsupportedError, match="partition column 'key' has type"):
            write_dataset(table, tmp_path / "data", partitioning="key")
        assert listing(tmp_path) == []
    else:
        table = pa.table({"key": pa.array([example, None], arrow), "id": [1, 2]})
        assert len(write_dataset(table, tmp_path / "data", partitioning="key").files) == 2


def test_a_value_that_cannot_name_a_directory_stops_all(tmp_path):
    batches = [pa.record_batch({"key": [key], "id": [1]}) for key in ("a", "b", "")]
    with pytest.raises(ValueError, match="empty string"):
        write_dataset(batches, tmp_path / "data", partitioning="key")
    assert listing(tmp_path) == []


def addresses(parts):
    return [part.column(0).buffers()[1].address for _, part in parts]


def test_a_batch_is_rearranged_once(tmp_path):
    schema = pa.schema({"id": pa.int64(), "key": pa.string()})
    splitter = Splitter(schema, "key")
    mixed = pa.record_batch({"id": range(6), "key": list("abcabc")}, schema)
    parts = splitter.split(mixed)
    assert [part.column(0).to_pylist() for _, part in parts] == [[0, 3], [1, 4], [2, 5]]
    assert len(set(addresses(parts))) == 1
    assert addresses(parts)[0] != mixed.column(0).buffers()[1].address
    for keys in ("aaaaaa", "bbaacc"):
        sorted_batch = pa.record_batch({"id": range(6), "key": list(keys)}, schema)
        parts = splitter.split(sorted_batch)
        assert set(addresses(parts)) == {sorted_batch.column(0).buffers()[1].address}


@given(st.lists(st.tuples(*[st.sampled_from([None, "a", "b", "c"])] * 3), min_size=1, max_size=30))
def test_rows_of_a_partition_keep_their_order(rows):
    schema = pa.schema({"id": pa.int64(), "x": pa.string(), "y": pa.string(), "z": pa.string()})
    batch = pa.RecordBatch.from_pylist(
        [{"id": n, "x": x, "y": y, "z": z} for n, (x, y, z) in enumerate(rows)], schema
    )
    expected = {}
    for number, row in enumerate(rows):
        expected.setdefault(row, []).append(number)
    found = [
        (tuple(partition.values.values()), part.column(0).to_pylist())
        for partition, part in Splitter(schema, ["x", "y", "z"]).split(batch)
    ]
    assert found == list(expected.items())


# ---- sizes


def test_a_file_has_no_more_rows_than_asked_for(tmp_path):
    report = write_dataset(TABLE.to_reader(4), tmp_path, max_rows_per_file=3)
    assert [file.num_rows for file in report.files] == [3, 3, 3, 1]
    assert contents(tmp_path)["."]["id"].to_pylist() == list(range(10))


def noise(num_rows, columns=("a",)):
    rng = np.random.default_rng(num_rows)
    return pa.table({name: rng.integers(-(2**63), 2**63 - 1, num_rows) for name in columns})


@pytest.mark.parametrize("batch_rows", [1000, 1_000_000])
@pytest.mark.parametrize(
    "table",
    [
        noise(200_000),
        pa.table({"a": np.arange(800_000) % 1000 * 7}),
        pa.table({"a": [f"a longer text, {n * n}" for n in range(100_000)]}),
    ],
    ids=["noise", "repeating", "text"],
)
def test_a_file_is_about_as_large_as_asked_for(tmp_path, table, batch_rows):
    limit = 200_000
    report = write_dataset(table.to_reader(batch_rows), tmp_path, max_bytes_per_file=limit)
    sizes = [file.num_bytes for file in report.files]
    assert sizes == [Path(file.path).stat().st_size for file in report.files]
    assert len(sizes) > 1
    assert max(sizes) < 1.2 * limit
    assert min(sizes[:-1]) > 0.8 * limit
    assert_same(contents(tmp_path)["."].combine_chunks(), table)


def test_large_files_have_row_groups_as_asked_for(tmp_path):
    (file,) = write_dataset(noise(10_000), tmp_path, row_group_size=4000).files
    metadata = fm.read_metadata(file.path)
    assert [metadata.row_group(n).num_rows for n in range(3)] == [4000, 4000, 2000]


def test_names_are_unique_and_say_their_order(tmp_path):
    for _ in range(3):
        write_dataset(TABLE, tmp_path, max_rows_per_file=4, existing="append")
    names = sorted(os.listdir(tmp_path))
    parts = [re.fullmatch(r"part-([0-9]{20})-([0-9]{6})-([0-9a-f]{16}).mosaic", n) for n in names]
    assert [part[2] for part in parts] == ["000000", "000001", "000002"] * 3
    assert len({part[1] for part in parts}) == len({part[3] for part in parts}) == 3


@pytest.mark.parametrize("partitioning", [None, ["day", "year"]])
def test_no_rows_keep_the_schema(tmp_path, partitioning):
    report = write_dataset(TABLE.slice(0, 0), tmp_path, partitioning=partitioning)
    assert report.num_rows == 0
    ((directory, table),) = contents(tmp_path).items()
    if partitioning:
        null = "__HIVE_DEFAULT_PARTITION__"
        assert directory == f"day={null}/year={null}"
        assert table.schema.names == ["id"]
        assert report.files[0].partition == {"day": None, "year": None}
    else:
        assert_same(table, TABLE.slice(0, 0))


# ---- bounds


def open_files():
    return sum(
        ".mosaic" in os.readlink(f"/proc/self/fd/{name}")
        for name in os.listdir("/proc/self/fd")
        if os.path.lexists(f"/proc/self/fd/{name}")
    )


@contextmanager
def peak_memory():
    """What Arrow takes from here on, at its `max_memory`."""
    before = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(before)
    pa.set_memory_pool(pool)
    try:
        yield pool
    finally:
        pa.set_memory_pool(before)


def large(keys, num_rows=200_000):
    """For each key a batch so large that it does not wait for others."""
    for number, key in enumerate(keys):
        ids = pa.array([number], pa.int64()).take(pa.array(np.zeros(num_rows, np.int64)))
        filler = np.random.default_rng(number).integers(0, 2**62, num_rows)
        fillers = {f"filler_{n}": pa.array(filler) for n in range(12)}
        yield pa.record_batch({"key": pa.array([key] * num_rows), "id": ids, **fillers})


def test_few_files_are_open_at_once(tmp_path):
    counts = []
    report = write_dataset(
        large([*range(6), *range(6)]),
        tmp_path,
        partitioning="key",
        max_open_files=3,
        row_group_bytes=1 << 20,
        compression="none",
        progress=lambda _: counts.append(open_files()),
    )
    assert max(counts) == 3
    assert len(report.files) == 12
    assert {key: sorted(set(rows)) for key, rows in ids(tmp_path).items()} == {
        f"key={n}": [n, n + 6] for n in range(6)
    }


def test_the_file_that_waited_longest_is_closed(tmp_path):
    report = write_dataset(
        large("abacab"),
        tmp_path,
        partitioning="key",
        max_open_files=2,
        row_group_bytes=1 << 20,
        compression="none",
    )
    assert [(file.partition["key"], file.num_rows) for file in report.files] == [
        ("a", 600_000),
        ("b", 200_000),
        ("b", 200_000),
        ("c", 200_000),
    ]


def test_many_partitions_of_few_rows_do_not_become_many_files(tmp_path):
    table = pa.table({"key": [*range(300)] * 4, "id": range(1200)})
    report = write_dataset(table.to_reader(10), tmp_path, partitioning="key", max_open_files=2)
    assert len(report.files) == 300
    assert ids(tmp_path)["key=7"] == [7, 307, 607, 907]


def test_a_large_batch_is_taken_apart_in_pieces(tmp_path):
    """A table in one piece, of 80 MB, is not copied as a whole."""
    (batch,) = large("a", 800_000)
    batch = batch.set_column(0, "key", pa.array([n % 7 for n in range(800_000)]))
    with peak_memory() as pool:
        report = write_dataset(
            batch, tmp_path, partitioning="key", row_group_bytes=1 << 20, compression="none"
        )
    assert report.num_rows == 800_000
    assert 10 << 20 < pool.max_memory() < 64 << 20


@pytest.mark.parametrize("skewed", [False, True])
def test_memory_is_bounded_over_all_partitions(tmp_path, skewed):
    """160 MB go through 16 MB of buffers, whichever partitions the rows are of."""

    def batches():
        rng = np.random.default_rng(1)
        for _ in range(40):
            keys = rng.integers(0, 50, 50_000)
            if skewed:
                keys[rng.random(50_000) < 0.99] = 0
            data = {f"c{n}": rng.integers(0, 2**62, 50_000) for n in range(10)}
            yield pa.record_batch({"key": keys, **data})

    with peak_memory() as pool:
        report = write_dataset(
            batches(), tmp_path, partitioning="key", row_group_bytes=1 << 20, compression="none"
        )
    assert report.num_rows == 2_000_000
    assert report.num_bytes > 150_000_000
    assert 10 << 20 < pool.max_memory() < 64 << 20


# ---- the order of files


@pytest.mark.parametrize("first", ["append", "overwrite"])
def test_appended_files_come_after_earlier_ones(tmp_path, first):
    if first == "overwrite":
        write_dataset(TABLE, tmp_path)
    for number in range(6):
        table = pa.table({"number": [number] * 3, "row": [0, 1, 2]})
        existing = "append" if number else first
        write_dataset(table, tmp_path, existing=existing, max_rows_per_file=2)
    rows = fm.read_table(tmp_path)
    assert rows["number"].to_pylist() == [n for n in range(6) for _ in range(3)]
    assert rows["row"].to_pylist() == [0, 1, 2] * 6


def test_appended_files_come_after_earlier_ones_in_each_partition(tmp_path):
    for number in range(6):
        keys = ["a", "b"] if number % 2 else ["b", "a"]
        table = pa.table({"key": keys, "number": [number] * 2})
        write_dataset(table, tmp_path, partitioning="key", existing="append")
    rows = fm.read_table(tmp_path)
    assert rows["key"].to_pylist() == ["a"] * 6 + ["b"] * 6
    assert rows["number"].to_pylist() == [*range(6)] * 2


APPEND = """
    import sys, pyarrow as pa
    from fastmosaic.dataset.write import write_dataset

    for number in range(int(sys.argv[2])):
        table = pa.table({"key": ["a", "b"], "process": [int(sys.argv[3])] * 2, "n": [number] * 2})
        write_dataset(table, sys.argv[1], partitioning="key", existing="append")
"""


def appending(base, count, process):
    source = str(Path(fm.__file__).parent.parent)
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(APPEND), str(base), str(count), str(process)],
        env={**os.environ, "PYTHONPATH": source},
    )


def test_appends_of_other_processes_are_in_order(tmp_path):
    for process in range(3):
        assert appending(tmp_path / "data", 1, process).wait(60) == 0
    assert fm.read_table(tmp_path / "data")["process"].to_pylist() == [0, 1, 2] * 2


def test_concurrent_appends_lose_nothing(tmp_path):
    processes = [appending(tmp_path / "data", 10, process) for process in range(3)]
    assert [process.wait(120) for process in processes] == [0, 0, 0]
    rows = fm.read_table(tmp_path / "data")
    assert rows.num_rows == 60
    for process in range(3):
        own = rows.filter(pc.field("process") == process)
        assert own["n"].to_pylist() == [*range(10)] * 2
    assert all(not path.name.startswith("_") for path in (tmp_path / "data").iterdir())


def test_a_clock_that_is_behind_does_not_change_the_order(tmp_path):
    write_dataset(pa.table({"n": [0]}), tmp_path, existing="append")
    (path,) = tmp_path.iterdir()
    path.rename(tmp_path / f"part-3{path.name[6:]}")  # a thousand years from now
    for number in (1, 2):
        write_dataset(pa.table({"n": [number]}), tmp_path, existing="append")
    assert fm.read_table(tmp_path)["n"].to_pylist() == [0, 1, 2]


# ---- the files alone


def test_a_dataset_writer_writes_where_it_is_told(tmp_path):
    def open_file(path):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        return tmp_path / path

    with DatasetWriter(open_file, TABLE.schema, prefix="x", partitioning="day") as writer:
        for batch in TABLE.to_batches(max_chunksize=3):
            writer.write_batch(batch)
        assert writer.progress().num_rows == 10
        files = writer.finish()
    assert [file.path for file in files] == sorted(
        str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.mosaic")
    )
    assert ids(tmp_path)["day=mo"] == [0, 3, 6, 8]
    assert sum(file.num_rows for file in files) == 10


@pytest.mark.parametrize("fails", [True, False])
def test_a_dataset_writer_that_is_not_finished_leaves_no_open_file(tmp_path, fails):
    with (
        pytest.raises(RuntimeError, match="lost") if fails else nullcontext(),
        DatasetWriter(tmp_path.joinpath, TABLE.schema) as writer,
    ):
        writer.write_batch(TABLE.to_batches()[0])
        if fails:
            raise RuntimeError("lost")
    assert listing(tmp_path) == []


def test_a_file_in_a_staging_directory_has_its_name_at_once(tmp_path):
    names = []

    def look(_):
        names.extend(path.name for path in tmp_path.rglob("*") if path.is_file())

    report = write_dataset(TABLE.to_reader(2), tmp_path / "data", progress=look)
    assert set(names) == {Path(file.path).name for file in report.files}


# ---- the report, the progress


def test_the_report_says_what_was_written(tmp_path):
    report = write_dataset(TABLE, tmp_path / "data", partitioning="day", max_rows_per_file=3)
    assert [(file.num_rows, file.partition) for file in report.files] == [
        (2, {"day": None}),
        (3, {"day": "mo"}),
        (1, {"day": "mo"}),
        (2, {"day": "tu"}),
        (2, {"day": "we"}),
    ]
    assert [fm.read_metadata(file.path).num_rows for file in report.files] == [2, 3, 1, 2, 2]
    sizes = [Path(file.path).stat().st_size for file in report.files]
    assert [file.num_bytes for file in report.files] == sizes
    assert report.num_bytes == sum(sizes)
    assert 0 < report.seconds < 60
    assert repr(report).startswith(f"<WriteReport: 10 rows in 5 files, {sum(sizes):,} bytes, ")
    with pytest.raises(FrozenInstanceError):
        report.seconds = 1


def test_paths_are_as_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for given_path in ("data", Path("data"), "./data/", tmp_path / "data"):
        (file,) = write_dataset(TABLE, given_path, existing="overwrite").files
        assert file.path.startswith(f"{given_path}".rstrip("/") + "/part-20")
        assert fm.read_metadata(file.path).num_rows == 10


def test_progress_is_told_after_each_batch(tmp_path):
    seen = []
    report = write_dataset(TABLE.to_reader(4), tmp_path, max_rows_per_file=4, progress=seen.append)
    first, second = report.files[0].num_bytes, report.files[1].num_bytes
    assert seen == [
        WriteProgress(4, 1, first),
        WriteProgress(8, 2, first + second),
        WriteProgress(10, 3, first + second),
    ]


def test_an_error_in_progress_stops_all(tmp_path):
    def stop(so_far):
        if so_far.num_rows > 5:
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        write_dataset(TABLE.to_reader(2), tmp_path / "data", max_rows_per_file=1, progress=stop)
    assert listing(tmp_path) == []


# ---- options


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "none"},
        {"compression_level": 19},
        {"checksum": False},
        {"annex": False},
        {"write_statistics": ["a"]},
        {"use_dictionary": False},
        {"row_group_size": 100},
        {"row_group_bytes": 1000},
        {"num_buckets": 1},
        {"page_size_threshold": 0},
        {"max_dict_entries": 1},
        {"max_dict_total_bytes": 1},
        {"array_layout": "block"},
        {"use_threads": False},
    ],
    ids=str,
)
def test_options_reach_the_files(tmp_path, options):
    table = pa.table(
        {
            "a": [n % 10 for n in range(1000)],
            "b": ["text"] * 999 + ["other"],
            "c": [[n] for n in range(1000)],
        }
    )
    (file,) = write_dataset(table, tmp_path, **options).files
    sink = pa.BufferOutputStream()
    fm.write_table(table, sink, **options)
    assert Path(file.path).read_bytes() == sink.getvalue().to_pybytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"existing": "Overwrite"},
            "existing must be 'error', 'append' or 'overwrite', not 'Overwrite'",
        ),
        ({"max_rows_per_file": 0}, "max_rows_per_file must be at least 1, not 0"),
        ({"max_bytes_per_file": -1}, "max_bytes_per_file must be at least 1, not -1"),
        ({"max_open_files": 0}, "max_open_files must be at least 1"),
        ({"compression": "snappy"}, "compression must be 'zstd' or 'none', not 'snappy'"),
        ({"row_group_size": 0}, "row_group_size must be at least 1"),
        ({"write_statistics": ["dya"]}, "write_statistics: no column named 'dya'"),
    ],
    ids=str,
)
def test_wrong_options_are_told_before_anything_is_made(tmp_path, options, message):
    with pytest.raises((ValueError, KeyError), match=message):
        write_dataset(TABLE, tmp_path / "data", **options)
    assert listing(tmp_path) == []


# ---- existing data


def failing(error):
    yield TABLE
    raise error


def test_existing_data(tmp_path):
    write_dataset(TABLE, tmp_path)
    with pytest.raises(FileExistsError, match="use existing='append' to add files"):
        write_dataset(TABLE, tmp_path)
    write_dataset(TABLE, tmp_path, existing="append")
    assert MosaicDataset(tmp_path).count_rows() == 20
    write_dataset(TABLE.slice(2), tmp_path, existing="overwrite")
    assert MosaicDataset(tmp_path).count_rows() == 8


@pytest.mark.parametrize("existing", ["append", "overwrite"])
@pytest.mark.parametrize("error", [RuntimeError("lost"), KeyboardInterrupt()])
def test_an_error_leaves_all_as_it_was(tmp_path, existing, error):
    write_dataset(TABLE, tmp_path / "data")
    before = listing(tmp_path)
    with pytest.raises(type(error)):
        write_dataset(
            failing(error),
            tmp_path / "data",
            partitioning="day",
            existing=existing,
            max_open_files=1,
        )
    assert listing(tmp_path) == before


def test_a_data_set_can_be_rewritten_in_its_place(tmp_path):
    write_dataset(TABLE, tmp_path, max_rows_per_file=3)
    write_dataset(MosaicDataset(tmp_path), tmp_path, partitioning="year", existing="overwrite")
    assert ids(tmp_path) == {"year=2023": [0, 1, 4, 5, 6, 9], "year=2024": [2, 3, 7, 8]}
    write_dataset(MosaicDataset(tmp_path), tmp_path, existing="append")
    assert sorted(itertools.chain(*ids(tmp_path).values())) == sorted([*range(10)] * 2)


def test_a_parquet_data_set_becomes_one_of_ours(tmp_path):
    pq.write_to_dataset(TABLE, tmp_path / "parquet", partition_cols=["day"])
    parquet = ds.dataset(tmp_path / "parquet", partitioning="hive")
    write_dataset(parquet, tmp_path / "data", partitioning="day")
    assert {key: sorted(rows) for key, rows in ids(tmp_path / "data").items()} == {
        "day=mo": [0, 3, 6, 8],
        "day=tu": [1, 5],
        "day=we": [4, 9],
        "day=__HIVE_DEFAULT_PARTITION__": [2, 7],
    }


@pytest.mark.parametrize("kind", ["fsspec", "pyarrow"])
def test_other_filesystems(tmp_path, memory, kind):
    if kind == "fsspec":
        filesystem, base = memory, "/data"
    else:
        filesystem, base = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()), "data"
    write_dataset(TABLE, base, filesystem=filesystem)
    report = write_dataset(
        TABLE, base, partitioning="day", existing="overwrite", filesystem=filesystem
    )
    assert len(report.files) == 4
    found = [fm.read_table(file.path, filesystem=filesystem)["id"] for file in report.files]
    assert sorted(itertools.chain(*(column.to_pylist() for column in found))) == list(range(10))
    assert MosaicDataset(base, filesystem=filesystem).count_rows() == 10


@pytest.mark.parametrize("kind", ["pyarrow", "s3fs"])
def test_s3(kind):
    with s3_api() as port:
        url = f"http://127.0.0.1:{port}"
        s3 = s3fs.S3FileSystem(key="x", secret="y", endpoint_url=url, skip_instance_cache=True)
        base = f"{kind}/deep/data"
        s3.mkdir(kind)
        filesystem = s3
        if kind == "pyarrow":
            filesystem = fs.S3FileSystem(
                access_key="x", secret_key="y", endpoint_override=url, region="us-east-1"
            )
        options = {"filesystem": filesystem, "partitioning": "day"}
        write_dataset(TABLE, base, **options)
        with pytest.raises(FileExistsError, match="deep/data contains files"):
            write_dataset(TABLE, base, **options)
        report = write_dataset(TABLE, base, existing="append", **options)
        assert MosaicDataset(base, filesystem=filesystem).count_rows() == 20
        report = write_dataset(TABLE.slice(0, 2), base, existing="overwrite", **options)
        s3.invalidate_cache()
        paths = [path for path in s3.find(kind) if not path.endswith("/")]
        assert sorted(paths) == sorted(file.path for file in report.files)
        assert [s3.size(file.path) for file in report.files] == [
            file.num_bytes for file in report.files
        ]
        with pytest.raises(RuntimeError, match="lost"):
            write_dataset(failing(RuntimeError("lost")), f"{kind}/other", **options)
        assert not s3.exists(f"{kind}/other")


# ---- killed

KILLED = """
    import itertools, os, signal, sys
    import pyarrow as pa, pyarrow.dataset, fastmosaic as fm
    from fastmosaic.dataset.write import write_dataset

    existing, root = sys.argv[1:]

    def write(number):
        batches = (
            pa.record_batch({"id": range(start, start + 100), "write": [number] * 100})
            for start in range(0, 400, 100)
        )
        write_dataset(
            batches, f"{base}/data", existing=existing, max_rows_per_file=150, use_threads=False
        )

    def die_at(operation):
        # Python tells hooks of files that are opened, renamed, removed...
        count = 0

        def hook(event, arguments):
            nonlocal count
            if event == "open" or event.startswith("os."):
                count += 1
                if count == operation:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)

    def visible(where):
        for directory, names, found in os.walk(where):
            names[:] = [name for name in names if name[0] not in "._"]
            yield from (f"{directory}/{name}" for name in found if name[0] not in "._")

    def check(where):
        # The numbers of the writes whose rows are there; those of a writer that appends may be few.
        tables = [fm.read_table(path, use_threads=False) for path in visible(where)]
        assert all(table.num_rows in (400, 150, 100) for table in tables)
        ids = {}
        for table in tables:
            for number, id in zip(table["write"].to_pylist(), table["id"].to_pylist()):
                ids.setdefault(number, []).append(id)
        if existing == "append":
            assert sorted(ids.pop(0)) == list(range(400))
            assert all(len(set(found)) == len(found) for found in ids.values())
            return {0, *ids}
        assert len(ids) == 1 or (existing == "error" and not ids)
        assert all(sorted(found) == list(range(400)) for found in ids.values())
        return set(ids)

    interrupted = 0
    for operation in range(1, 200):
        base = f"{root}/{operation}"
        os.mkdir(base)
        if existing != "error":
            write_dataset(pa.table({"id": range(400), "write": [0] * 400}), f"{base}/data")
        child = os.fork()
        if child == 0:
            die_at(operation)
            write(operation)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        left = [name for _, names, found in os.walk(base) for name in names + found]
        interrupted += any(name[0] in "._" for name in left)
        check(f"{base}/data")
        if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
            break
    assert status == 0
    assert interrupted > 5 and operation > 10, (interrupted, operation)
    assert sorted(check(f"{base}/data")) == [0, operation][existing != "append":]
"""


@pytest.mark.parametrize("existing", ["error", "append", "overwrite"])
def test_killed_while_writing(tmp_path, existing):
    """Before whatever operation on files the writer is killed, the old or the new data is there."""
    source = str(Path(fm.__file__).parent.parent)
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(KILLED), existing, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": source},
        check=False,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr


# ---- what goes in comes out

KEYS = {
    "text": st.sampled_from(["a", "b/c", "_", "ä", None]),
    "number": st.sampled_from([0, -1, 7, None]),
    "flag": st.booleans(),
}


@given(
    rows=st.lists(st.fixed_dictionaries({**KEYS, "x": st.integers(0, 99)}), max_size=60),
    partitioning=st.lists(st.sampled_from(list(KEYS)), unique=True),
    max_rows=st.sampled_from([None, 1, 3, 10]),
    max_bytes=st.sampled_from([None, 1, 1200, 5000]),
    max_open=st.integers(1, 4),
    batch_rows=st.integers(1, 20),
    row_group_size=st.sampled_from([None, 2]),
)
def test_what_goes_in_comes_out(
    rows, partitioning, max_rows, max_bytes, max_open, batch_rows, row_group_size
):
    schema = pa.schema(
        {"text": pa.string(), "number": pa.int64(), "flag": pa.bool_(), "x": pa.int64()}
    )
    table = pa.Table.from_pylist(rows, schema)
    with tempfile.TemporaryDirectory() as base:
        report = write_dataset(
            table.to_reader(batch_rows),
            Path(base),
            partitioning=partitioning,
            max_rows_per_file=max_rows,
            max_bytes_per_file=max_bytes,
            max_open_files=max_open,
            row_group_size=row_group_size,
        )
        expected = {}
        for row in rows:
            key = tuple(row[name] for name in partitioning)
            rest = {name: row[name] for name in schema.names if name not in partitioning}
            expected.setdefault(key, []).append(rest)
        found = {}
        hive = ds.HivePartitioning(pa.schema([schema.field(name) for name in partitioning]))
        for file in report.files:
            key = tuple(file.partition.values())
            part = fm.read_table(file.path)
            assert part.num_rows == file.num_rows
            assert max_rows is None or part.num_rows <= max_rows
            keys = ds.get_partition_keys(hive.parse(str(Path(file.path).relative_to(base))))
            assert keys == file.partition
            found.setdefault(key, []).extend(part.to_pylist())
        if not rows:
            assert [file.num_rows for file in report.files] == [0]
        else:
            assert found == expected
        on_disk = {str(path) for path in Path(base).rglob("*") if path.is_file()}
        assert on_disk == {file.path for file in report.files}


def test_a_wide_table(tmp_path):
    names = [f"feature_{n}" for n in range(2000)]
    batch = pa.record_batch([pa.array(range(n, n + 100)) for n in range(2000)], names=names)
    keys = pa.array([n % 25 for n in range(100)])
    table = pa.Table.from_batches([batch]).append_column("key", keys)
    write_dataset(table, tmp_path, partitioning="key")
    found = contents(tmp_path)
    assert len(found) == 25
    assert_same(found["key=3"], table.filter(pc.field("key") == 3).drop(["key"]).combine_chunks())


# ---- what the writer of a file has for this


def test_flush_ends_a_row_group():
    sink = pa.BufferOutputStream()
    with fm.MosaicWriter(sink, pa.schema({"id": pa.int64()})) as writer:
        writer.flush()
        assert writer.num_bytes == 0
        writer.write(pa.record_batch({"id": range(100)}))
        assert writer.num_bytes == 0
        writer.flush()
        assert writer.num_bytes > 0
        writer.write(pa.record_batch({"id": [100]}))
    assert writer.num_bytes == sink.getvalue().size
    metadata = fm.read_metadata(sink.getvalue())
    assert [metadata.row_group(n).num_rows for n in range(2)] == [100, 1]
    with pytest.raises(ValueError, match="the writer is closed"):
        writer.flush()

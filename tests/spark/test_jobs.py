"""Jobs over files: convert, compact, verify, profile. Tables stay in Python; Spark runs the tasks."""

import datetime
import io
import json
import math
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
import pytest
from pyarrow import csv, feather, orc, parquet as pq
from spark_faults import LIMIT, Faulty, wait_for
from spark_jvm import PATH

import fastmosaic as fm
from fastmosaic.cli import main
from fastmosaic.dataset.arrow import MosaicDataset
from fastmosaic.dataset.profile import DISTINCT_EXACT
from fastmosaic.spark import app
from fastmosaic.spark.jobs.compact import compact
from fastmosaic.spark.jobs.convert import convert
from fastmosaic.spark.jobs.profile import profile
from fastmosaic.spark.jobs.verify import verify

pytest_plugins = ["spark_session"]
pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")

SOURCE = Path(__file__).parents[2] / "src"
ROWS = 200


def table(rows=ROWS, start=0):
    """Columns of types that all formats have."""
    numbers = range(start, start + rows)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "price": [None if i % 7 == 0 else i / 8 for i in numbers],
            "name": [None if i % 5 == 0 else f"name {i}" for i in numbers],
            "flag": [i % 3 == 0 for i in numbers],
            "day": [datetime.date(2024, 1, 1) + datetime.timedelta(i) for i in numbers],
        }
    )


WRITERS = {
    "data.parquet": lambda t, path: pq.write_table(t, path, row_group_size=70),
    "data.orc": orc.write_table,
    "data.feather": feather.write_feather,
    "data.arrow": lambda t, path: write_stream(t, path),
    "data.csv": csv.write_csv,
    "data.csv.gz": lambda t, path: csv.write_csv(t, pa.output_stream(path)),
    "data.jsonl": lambda t, path: path.write_text("".join(map(json_line, t.to_pylist()))),
    "data.mosaic": fm.write_table,
}


def write_stream(data, path):
    with pa.ipc.new_stream(path, data.schema) as writer:
        writer.write_table(data)


def json_line(row):
    return json.dumps(row, default=str) + "\n"


def rows_of(path, order="id"):
    """The rows of a data set, sorted."""
    return MosaicDataset(path).to_table().sort_by(order)


def visible(path):
    found = (file.relative_to(path) for file in Path(path).rglob("*") if file.is_file())
    return sorted(str(f) for f in found if not any(p.startswith(("_", ".")) for p in f.parts))


def nothing_hidden(path):
    inside = [f for f in Path(path).rglob("*") if f.name[0] in "._"]
    return not inside and not [f for f in Path(path).parent.iterdir() if f.name[0] in "._"]


def damage(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(data)


# ---- convert: formats


@pytest.mark.parametrize(
    "name",
    [
        name
        if name in ("data.parquet", "data.csv.gz", "data.mosaic")
        else pytest.param(name, marks=pytest.mark.exhaustive)
        for name in WRITERS
    ],
)
def test_every_format_becomes_mosaic(spark, tmp_path, name):
    WRITERS[name](table(), tmp_path / name)
    report = convert(spark, tmp_path / name, tmp_path / "out", write_statistics=["id"])
    out = rows_of(tmp_path / "out")
    if name.endswith(".jsonl"):
        out = out.cast(table().schema)  # JSON has no dates; Arrow takes them for timestamps
    assert out.equals(table())
    assert (report.rows, report.files_in, report.files_out) == (ROWS, 1, 1)
    assert report.bytes_in == (tmp_path / name).stat().st_size
    (file,) = visible(tmp_path / "out")
    assert report.bytes_out == (tmp_path / "out" / file).stat().st_size
    statistics = fm.read_metadata(tmp_path / "out" / file).row_group(0).statistics
    assert (statistics["id"].min, statistics["id"].max) == (0, ROWS - 1)
    assert nothing_hidden(tmp_path / "out")


@pytest.mark.parametrize(
    ("target", "read"),
    [
        ("parquet", pq.read_table),
        pytest.param("orc", orc.read_table, marks=pytest.mark.exhaustive),
        pytest.param("arrow", feather.read_table, marks=pytest.mark.exhaustive),
        ("csv", lambda path: csv.read_csv(path, convert_options=NULLS)),
        ("json", lambda path: pyarrow.json.read_json(path).cast(table().schema)),
    ],
)
def test_mosaic_becomes_other_formats(spark, tmp_path, target, read):
    (tmp_path / "in").mkdir()
    for part in range(3):
        fm.write_table(table(start=ROWS * part), tmp_path / "in" / f"{part}.mosaic")
    report = convert(spark, tmp_path / "in", tmp_path / "out", target_format=target)
    (file,) = visible(tmp_path / "out")
    assert read(tmp_path / "out" / file).sort_by("id").equals(table(3 * ROWS))
    assert (report.rows, report.files_in, report.files_out) == (3 * ROWS, 3, 1)
    # ... and may be replaced by the same again, though it is not a Mosaic file
    again = {"target_format": target, "existing": "overwrite"}
    assert convert(spark, tmp_path / "in", tmp_path / "out", **again).files_out == 1


NULLS = csv.ConvertOptions(
    null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
)


def test_text_keeps_na_and_empty_strings(spark, tmp_path):
    (tmp_path / "a.csv").write_text('land,text\nNA,""\n,x\n')
    convert(spark, tmp_path / "a.csv", tmp_path / "out")
    assert rows_of(tmp_path / "out", "text").to_pydict() == {
        "land": ["NA", None],
        "text": ["", "x"],
    }


@pytest.mark.parametrize("target", ["jsn", "parqet"])
def test_formats_that_cannot_be_written(spark, tmp_path, target):
    fm.write_table(table(), tmp_path / "a.mosaic")
    with pytest.raises((ValueError, NotImplementedError), match=r"'json'|'parquet'"):
        convert(spark, tmp_path / "a.mosaic", tmp_path / "out", target_format=target)
    assert not (tmp_path / "out").exists()


def test_an_empty_file_keeps_its_schema(spark, tmp_path):
    pq.write_table(table().slice(0, 0), tmp_path / "a.parquet")
    assert convert(spark, tmp_path / "a.parquet", tmp_path / "out").rows == 0
    assert MosaicDataset(tmp_path / "out").schema.equals(table().schema)


# ---- convert: schemas


def test_schemas_unite(spark, tmp_path):
    pq.write_table(pa.table({"id": pa.array([1], pa.int32()), "a": ["x"]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"id": pa.array([2], pa.int64()), "b": [0.5]}), tmp_path / "2.parquet")
    pq.write_table(pa.table({"id": [3], "a": pa.nulls(1)}), tmp_path / "3.parquet")
    convert(spark, str(tmp_path / "*.parquet"), tmp_path / "out")
    assert rows_of(tmp_path / "out").equals(
        pa.table({"id": [1, 2, 3], "a": ["x", None, None], "b": [None, 0.5, None]})
    )
    with pytest.raises(
        fm.SchemaMismatchError, match=r"column 'id' is int32 in .*1.parquet and int64"
    ):
        convert(spark, str(tmp_path / "*.parquet"), tmp_path / "checked", unify=False)
    assert not (tmp_path / "checked").exists()


def test_schema_conflicts_and_a_schema_that_settles_them(spark, tmp_path):
    pq.write_table(pa.table({"id": [1], "a": ["7"]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"id": [2], "a": [8]}), tmp_path / "2.parquet")
    source = str(tmp_path / "*.parquet")
    with pytest.raises(fm.SchemaMismatchError, match=r"'a' is string in .*1.parquet and int64 in"):
        convert(spark, source, tmp_path / "out")
    convert(spark, source, tmp_path / "out", schema=pa.schema({"a": pa.int64()}))
    assert rows_of(tmp_path / "out", "a").to_pydict() == {"a": [7, 8]}


def test_integers_and_floats_of_text_unite(spark, tmp_path):
    (tmp_path / "1.csv").write_text("x\n1\n")
    (tmp_path / "2.csv").write_text("x\n2.5\n")
    convert(spark, str(tmp_path / "*.csv"), tmp_path / "out")
    assert rows_of(tmp_path / "out", "x").to_pydict() == {"x": [1.0, 2.5]}


def test_types_of_the_source_are_kept(spark, tmp_path):
    wide = pa.table(
        {
            "small": pa.array([1, 2], pa.uint16()),
            "kind": pa.array(["a", "b"]).dictionary_encode(),
            "large": pa.array(["x", None], pa.large_string()),
            "list": [[1, None], []],
            "money": [Decimal("1.50"), None],
        }
    )
    pq.write_table(wide, tmp_path / "a.parquet")
    convert(spark, tmp_path / "a.parquet", tmp_path / "out")
    out = rows_of(tmp_path / "out", "small")
    assert out.to_pydict() == wide.to_pydict()
    assert out.schema == wide.schema


# ---- convert: where the rows go


def test_partitions_are_kept(spark, tmp_path):
    for year, kind in ((2023, "a%2Fb"), (2024, "c"), (2024, "__HIVE_DEFAULT_PARTITION__")):
        folder = tmp_path / "in" / f"year={year}" / f"kind={kind}"
        folder.mkdir(parents=True)
        pq.write_table(table(start=year), folder / "x.parquet")
    report = convert(spark, tmp_path / "in", tmp_path / "out")
    assert report.files_out == 3
    assert {str(Path(file).parent) for file in visible(tmp_path / "out")} == {
        "year=2023/kind=a%2Fb",
        "year=2024/kind=c",
        "year=2024/kind=__HIVE_DEFAULT_PARTITION__",
    }
    counts = rows_of(tmp_path / "out").group_by(["year", "kind"]).aggregate([("id", "min")])
    assert sorted(counts.to_pylist(), key=str) == [
        {"year": 2023, "kind": "a/b", "id_min": 2023},
        {"year": 2024, "kind": "c", "id_min": 2024},
        {"year": 2024, "kind": None, "id_min": 2024},
    ]


def noise(rows, start=0):
    """Rows that do not compress: about 104 bytes each."""
    text = [os.urandom(24).hex() for _ in range(rows)]
    other = [os.urandom(24).hex() for _ in range(rows)]
    return pa.table({"id": range(start, start + rows), "a": text, "b": other})


def test_files_come_near_the_target_size(spark, tmp_path):
    """One large file is cut, many small ones are joined."""
    target = 200_000
    data = noise(16_000)
    pq.write_table(data, tmp_path / "large.parquet", row_group_size=500, compression="zstd")
    for part in range(32):
        pq.write_table(data.slice(500 * part, 500), tmp_path / f"small-{part:02d}.parquet")
    for source in ("large.parquet", "small-*.parquet"):
        out = tmp_path / source[:5]
        report = convert(spark, str(tmp_path / source), out, target_file_bytes=target)
        sizes = [(out / file).stat().st_size for file in visible(out)]
        assert report.files_out == len(sizes) > 3
        assert all(target * 0.5 < size < target * 1.6 for size in sizes), sizes
        assert rows_of(out).equals(data)


def test_text_is_cut_as_it_is_written(spark, tmp_path):
    data = noise(20_000)
    csv.write_csv(data, tmp_path / "a.csv")
    convert(spark, tmp_path / "a.csv", tmp_path / "out", target_file_bytes=200_000)
    sizes = [(tmp_path / "out" / file).stat().st_size for file in visible(tmp_path / "out")]
    assert len(sizes) > 3
    assert sizes[0] < 400_000  # when it is not yet known how far the data shrinks
    assert all(150_000 < size < 300_000 for size in sizes[1:-1]), sizes
    assert rows_of(tmp_path / "out").equals(data)


def test_rows_are_sorted_within_files(spark, tmp_path):
    data = noise(4000).sort_by("a")
    pq.write_table(data, tmp_path / "a.parquet", row_group_size=100)
    convert(
        spark,
        tmp_path / "a.parquet",
        tmp_path / "out",
        sort_by=[("id", "descending")],
        target_file_bytes=100_000,
    )
    files = visible(tmp_path / "out")
    assert len(files) > 1
    for file in files:
        own = fm.read_table(tmp_path / "out" / file, columns=["id"]).column("id").to_pylist()
        assert own == sorted(own, reverse=True)
    assert rows_of(tmp_path / "out").equals(data.sort_by("id"))


def test_existing_files(spark, tmp_path):
    pq.write_table(table(), tmp_path / "a.parquet")
    pq.write_table(table(start=ROWS), tmp_path / "b.parquet")
    out = tmp_path / "out"
    convert(spark, tmp_path / "a.parquet", out)
    with pytest.raises(FileExistsError, match="contains files"):
        convert(spark, tmp_path / "b.parquet", out)
    convert(spark, tmp_path / "b.parquet", out, existing="append")
    assert rows_of(out).equals(table(2 * ROWS))
    convert(spark, tmp_path / "b.parquet", out, existing="overwrite")
    assert rows_of(out).equals(table(start=ROWS))
    assert nothing_hidden(out)


# ---- convert: bad input


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"src": "nowhere.parquet"}, FileNotFoundError, "nowhere.parquet"),
        ({"src": "none-*.parquet"}, FileNotFoundError, "none-"),
        ({"write_statistic": ["id"]}, ValueError, "unknown option 'write_statistic'; did you mean"),
        ({"write_statistics": ["idd"]}, KeyError, "no column named 'idd'; did you mean 'id'"),
        ({"sort_by": "naem"}, KeyError, "sort_by: no column named 'naem'; did you mean 'name'"),
        ({"source_format": "xlsx"}, ValueError, "invalid source_format 'xlsx'"),
        ({"on_error": "ignore"}, ValueError, "'raise' or 'skip'"),
        ({"existing": "replace"}, ValueError, "existing must be 'error', 'append' or 'overwrite'"),
        ({"target_format": "orc"}, ValueError, "one of the formats must be mosaic"),
        ({"target_file_bytes": 0}, ValueError, "at least 1"),
    ],
)
def test_wrong_arguments(spark, tmp_path, arguments, error, words):
    pq.write_table(table(), tmp_path / "a.parquet")
    source = tmp_path / arguments.get("src", "a.parquet")
    options = {name: value for name, value in arguments.items() if name != "src"}
    with pytest.raises(error, match=words):
        convert(spark, source, tmp_path / "out", **options)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.parquet"]


def test_unsupported_types_are_named(spark, tmp_path):
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])
    feather.write_feather(pa.table({"id": [1], "u": union}), tmp_path / "a.arrow")
    with pytest.raises(fm.UnsupportedError, match=r"a.arrow: column 'u'.*sparse_union"):
        convert(spark, tmp_path / "a.arrow", tmp_path / "out")


def bad_directory(path):
    """Two good files, and one of each thing that may be wrong."""
    path.mkdir()
    pq.write_table(table(), path / "good-1.parquet", row_group_size=20, use_dictionary=False)
    pq.write_table(table(start=ROWS), path / "good-2.parquet")
    (path / "empty.parquet").touch()
    (path / "notes.txt").write_text("hello")
    csv.write_csv(table(), path / "other.csv")
    # Good at its end, so that only reading it tells.
    pq.write_table(table(start=5000), path / "torn.parquet", row_group_size=20, compression="zstd")
    size = pq.read_metadata(path / "torn.parquet").row_group(0).column(0).total_compressed_size
    data = bytearray((path / "torn.parquet").read_bytes())
    for row_group in (5, 6):
        column = pq.read_metadata(path / "torn.parquet").row_group(row_group).column(2)
        start = column.dictionary_page_offset or column.data_page_offset
        data[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    assert size
    (path / "torn.parquet").write_bytes(data)


def test_bad_files_raise_by_name(spark, tmp_path):
    bad_directory(tmp_path / "in")
    for name in ("notes.txt", "other.csv", "empty.parquet", "torn.parquet"):
        with pytest.raises(ValueError, match=name):
            convert(spark, tmp_path / "in", tmp_path / "out")
        (tmp_path / "in" / name).unlink()
        assert not (tmp_path / "out").exists()
        assert [file.name for file in tmp_path.iterdir()] == ["in"]
    assert convert(spark, tmp_path / "in", tmp_path / "out").rows == 2 * ROWS


def test_bad_files_are_skipped_whole(spark, tmp_path):
    """Also a file that was cut into several items, of which only one met the damage."""
    bad_directory(tmp_path / "in")
    report = convert(
        spark, tmp_path / "in", tmp_path / "out", on_error="skip", target_file_bytes=3000
    )
    assert rows_of(tmp_path / "out").equals(table(2 * ROWS))
    assert sorted(Path(one.file).name for one in report.failures) == [
        "empty.parquet",
        "notes.txt",
        "other.csv",
        "torn.parquet",
    ]
    assert all(one.problem for one in report.failures)
    assert (report.files_in, report.rows) == (2, 2 * ROWS)
    assert nothing_hidden(tmp_path / "out")


# ---- no wide rows in the JVM


def test_wide_tables_do_not_enter_the_jvm(spark, tmp_path):
    """Spark runs no query of its own."""
    wide = pa.table({f"column-{i}": pa.array([i, None, i + 1], pa.int32()) for i in range(1000)})
    pq.write_table(wide, tmp_path / "a.parquet")
    queries = spark._jsparkSession.sharedState().statusStore().executionsCount()
    convert(spark, tmp_path / "a.parquet", tmp_path / "out")
    assert spark._jsparkSession.sharedState().statusStore().executionsCount() == queries
    assert rows_of(tmp_path / "out", "column-1").num_columns == 1000


# ---- crashes


SCRIPT = """
import sys
from spark_faults import Obstructed
from spark_jvm import CONF
from fastmosaic.spark.jobs.convert import convert
from fastmosaic.spark.sessions import session
src, dst, obstacle = sys.argv[1:]
spark = session("crash", "local[2]", **CONF)
convert(spark, src, dst, filesystem=Obstructed("5.parquet", obstacle, "all"), target_file_bytes=1000)
"""


def environment():
    return {**os.environ, "PYTHONPATH": PATH}


def write_files(path, count):
    path.mkdir()
    for part in range(count):
        pq.write_table(table(start=ROWS * part), path / f"{part}.parquet")
        os.utime(path / f"{part}.parquet", (10**9, 10**9))


def test_a_killed_driver_is_gone_on_with(spark, tmp_path):
    """Finished items are not done again, nothing was visible, and the result is exact."""
    write_files(tmp_path / "in", 8)
    (tmp_path / "obstacle").mkdir()
    words = [str(tmp_path / name) for name in ("in", "out", "obstacle")]
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, *words],
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )

    def is_one_left():
        assert process.poll() is None, process.stderr.read()
        return len(list(tmp_path.glob(".out.convert-*/_done/*.json"))) == 7

    wait_for("all items but one", is_one_left)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert not (tmp_path / "out").exists()
    (done,) = tmp_path.glob(".out.convert-*/_done")
    kept = {
        file
        for record in done.glob("*.json")
        for file, _, _ in json.loads(record.read_text())["files"]
    }
    stamps = {file: (done.parent / file).stat().st_mtime_ns for file in kept}

    report = convert(spark, tmp_path / "in", tmp_path / "out", target_file_bytes=1000)
    assert report.resumed == 7
    assert rows_of(tmp_path / "out").equals(table(8 * ROWS))
    assert (report.rows, report.files_out) == (8 * ROWS, len(visible(tmp_path / "out")))
    assert {file: (tmp_path / "out" / file).stat().st_mtime_ns for file in kept} == stamps
    shutil.rmtree(tmp_path / "obstacle")
    assert nothing_hidden(tmp_path / "out")


def test_tasks_that_fail_are_tried_again(spark, tmp_path):
    """One fails, in another the worker is killed; one that never works stops the job.

    Each attempt at a task repeats a read that fails twice.
    """
    write_files(tmp_path / "in", 4)
    notes = [tmp_path / name for name in ("first", "second")]
    for note in notes:
        note.mkdir()
    options = {"target_file_bytes": 1000}
    faulty = Faulty({"1.parquet": 4, "2.parquet": -1}, str(notes[0]))
    first = convert(spark, str(tmp_path / "in"), tmp_path / "a", filesystem=faulty, **options)
    assert sorted(file.name[:2] for file in notes[0].iterdir()) == [*["1."] * 4, "2."]
    assert (first.rows, first.failures) == (4 * ROWS, ())
    assert rows_of(tmp_path / "a").equals(table(4 * ROWS))
    faulty = Faulty({"3.parquet": 100}, str(notes[1]))
    with pytest.raises(RuntimeError, match=r"convert: a task failed repeatedly: .*disk is on fire"):
        convert(spark, str(tmp_path / "in"), tmp_path / "b", filesystem=faulty, **options)
    assert len(list(notes[1].iterdir())) == 3 * 3
    assert not (tmp_path / "b").exists()
    again = convert(spark, str(tmp_path / "in"), tmp_path / "b", **options)
    assert (again.rows, again.resumed) == (4 * ROWS, 3)
    assert rows_of(tmp_path / "b").equals(table(4 * ROWS))
    assert nothing_hidden(tmp_path / "a")


def test_a_worker_that_always_crashes_stops_the_job(spark, tmp_path):
    write_files(tmp_path / "in", 1)
    faulty = Faulty({"0.parquet": -100}, str(tmp_path))
    with pytest.raises(RuntimeError, match="convert: a task failed repeatedly: Python worker exit"):
        convert(spark, str(tmp_path / "in"), tmp_path / "out", filesystem=faulty)


@pytest.mark.exhaustive
def test_an_interrupted_append_is_not_doubled(spark, tmp_path):
    """As after a kill in the middle of the commit: some files are moved in, and noted."""
    write_files(tmp_path / "in", 8)
    out = tmp_path / "out"
    fm.write_table(table(start=10_000), tmp_path / "old.mosaic")
    convert(spark, tmp_path / "old.mosaic", out)
    options = {"existing": "append", "target_file_bytes": 1000}
    process_left = leave_half_committed(spark, tmp_path / "in", out, options)
    report = convert(spark, tmp_path / "in", out, **options)
    assert report.resumed == process_left
    expected = pa.concat_tables([table(8 * ROWS), table(start=10_000)])
    assert rows_of(out).equals(expected)
    assert not list(out.glob("_staging-*"))


def leave_half_committed(spark, source, out, options):
    """Do what `convert` does, but stop when three files are moved; how many items are finished."""
    script = """
import os
from fastmosaic.spark.sessions import session
from fastmosaic.spark.jobs.convert import convert
from spark_jvm import CONF
spark = session("crash", "local[2]", **CONF)
moved = []
from fastmosaic.storage import staging
storage = staging.storage_of(None)
class Dying:
    def __getattr__(self, name):
        return getattr(storage, name)
    def move(self, source, target):
        if len(moved) == 3:
            os.kill(os.getpid(), 9)
        moved.append(target)
        storage.move(source, target)
staging.storage_of = lambda filesystem: Dying()
convert(spark, {source!r}, {out!r}, **{options!r})
"""
    text = script.format(source=str(source), out=str(out), options=options)
    command = [sys.executable, "-W", "ignore", "-c", text]
    ended = subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert len(visible(out)) == 1 + 3
    return len(list(out.glob("_staging-convert-*/_done/*.json")))


# ---- compact


def small_files(path, count=24, rows=250):
    """Files of about 26 KB in two partitions, one file of 400 KB; all of their rows."""
    tables = []
    for part in range(count):
        folder = path / f"key={part % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        data = noise(rows, start=rows * part)
        options = {"write_statistics": ["id"], "num_buckets": 2, "row_group_size": 50}
        fm.write_table(data, folder / f"{part:02d}.mosaic", **options)
        tables.append(data.append_column("key", pa.array([part % 2] * rows, pa.int32())))
    data = noise(4000, start=100_000)
    fm.write_table(data, path / "key=1" / "large.mosaic")
    tables.append(data.append_column("key", pa.array([1] * 4000, pa.int32())))
    return pa.concat_tables(tables).sort_by("id")


def test_compact(spark, tmp_path):
    expected = small_files(tmp_path / "data")
    (tmp_path / "data" / "_SUCCESS").touch()
    large = (tmp_path / "data" / "key=1" / "large.mosaic").stat()
    report = compact(spark, tmp_path / "data", target_bytes=150_000)
    assert rows_of(tmp_path / "data").equals(expected)
    files = visible(tmp_path / "data")
    assert (report.files_in, report.files_kept, report.files_out) == (24, 1, len(files) - 1)
    assert report.rows == 24 * 250
    kept = (tmp_path / "data" / "key=1" / "large.mosaic").stat()
    assert (kept.st_ino, kept.st_mtime_ns) == (large.st_ino, large.st_mtime_ns)
    assert (tmp_path / "data" / "_SUCCESS").exists()
    for file in files:
        if not file.endswith("large.mosaic"):
            metadata = fm.read_metadata(tmp_path / "data" / file)
            assert 75_000 < (tmp_path / "data" / file).stat().st_size < 240_000
            assert (metadata.num_row_groups, metadata.num_buckets) == (1, 2)
            assert list(metadata.row_group(0).statistics) == ["id"]
    assert [file.name for file in tmp_path.iterdir()] == ["data"]
    # ... and then there is nothing left to do
    again = compact(spark, tmp_path / "data", target_bytes=150_000)
    assert (again.files_in, again.files_kept) == (0, len(files))
    assert visible(tmp_path / "data") == files


def test_compact_copies_row_groups_that_are_large_enough(spark, tmp_path):
    expected = small_files(tmp_path / "data")
    report = compact(spark, tmp_path / "data", target_bytes=150_000, row_group_bytes=1000)
    assert report.row_groups_copied == 24 * 5
    assert rows_of(tmp_path / "data").equals(expected)
    for file in visible(tmp_path / "data"):
        assert fm.verify(tmp_path / "data" / file).ok
        metadata = fm.read_metadata(tmp_path / "data" / file)
        if not file.endswith("large.mosaic"):
            assert metadata.row_group(0).num_rows == 50
            assert list(metadata.row_group(0).statistics) == ["id"]


def test_compact_keeps_permissions_and_links(spark, tmp_path):
    expected = small_files(tmp_path / "data")
    base, part = tmp_path / "data", tmp_path / "data" / "key=1"
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "precious").touch()
    (base / "_link").symlink_to(tmp_path / "outside")
    (part / "_file").symlink_to("../_SUCCESS")
    for path in base.rglob("*.mosaic"):
        path.chmod(0o604)
    base.chmod(0o2750)
    part.chmod(0o711)
    assert compact(spark, base, target_bytes=150_000).files_out
    assert rows_of(base).equals(expected)
    assert {stat.S_IMODE(path.stat().st_mode) for path in base.rglob("*.mosaic")} == {0o604}
    assert [stat.S_IMODE(path.stat().st_mode) for path in (base, part)] == [0o2750, 0o711]
    assert os.readlink(base / "_link") == str(tmp_path / "outside")
    assert os.readlink(part / "_file") == "../_SUCCESS"
    assert os.listdir(tmp_path / "outside") == ["precious"]
    (base / "key=9").symlink_to("key=1")  # it is read, but cannot be rewritten
    before = visible(base)
    with pytest.raises(fm.UnsupportedError, match="compact does not replace links"):
        compact(spark, base, target_bytes=150_000)
    assert visible(base) == before


def test_compact_leaves_all_as_it_is_when_a_file_is_damaged(spark, tmp_path):
    small_files(tmp_path / "data")
    damage(tmp_path / "data" / "key=0" / "04.mosaic", 100)
    before = {file: (tmp_path / "data" / file).read_bytes() for file in visible(tmp_path / "data")}
    with pytest.raises(fm.CorruptFileError, match=r"04.mosaic: row group 0, bucket"):
        compact(spark, tmp_path / "data", target_bytes=150_000)
    assert {file: (tmp_path / "data" / file).read_bytes() for file in before} == before
    assert visible(tmp_path / "data") == sorted(before)
    assert [file.name for file in tmp_path.iterdir()] == ["data"]


WATCHER = """
import json, os, sys
seen = set()
while not os.path.exists(sys.argv[2]):
    folder = os.open(sys.argv[1], os.O_RDONLY)
    names = tuple(sorted(os.listdir(folder)))
    # One that was replaced meanwhile is being removed.
    if os.fstat(folder).st_ino == os.stat(sys.argv[1]).st_ino:
        seen.add(names)
    os.close(folder)
print(json.dumps(sorted(seen)))
"""


def test_a_reader_sees_old_or_new_files_only(spark, tmp_path):
    """The directory is replaced in one step: its listing is that of before, or that of after."""
    (tmp_path / "data").mkdir()
    for part in range(10):
        fm.write_table(table(start=ROWS * part), tmp_path / "data" / f"{part}.mosaic")
    before = visible(tmp_path / "data")
    watcher = subprocess.Popen(
        [sys.executable, "-c", WATCHER, tmp_path / "data", tmp_path / "stop"],
        stdout=subprocess.PIPE,
        text=True,
    )
    compact(spark, tmp_path / "data")
    (tmp_path / "stop").touch()
    out, _ = watcher.communicate(timeout=LIMIT)
    after = visible(tmp_path / "data")
    assert len(after) == 1
    assert all(names in (before, after) for names in json.loads(out))
    assert before in json.loads(out)
    assert rows_of(tmp_path / "data").equals(table(10 * ROWS))


@pytest.mark.parametrize("name", ["nowhere", "file.mosaic"])
def test_compact_needs_a_directory(spark, tmp_path, name):
    fm.write_table(table(), tmp_path / "file.mosaic")
    with pytest.raises(OSError, match=name):
        compact(spark, tmp_path / name)


def test_the_working_directory_is_not_compacted(spark, tmp_path, monkeypatch):
    small_files(tmp_path / "data")
    before = visible(tmp_path / "data")
    monkeypatch.chdir(tmp_path / "data")
    with pytest.raises(fm.UnsupportedError, match="working directory"):
        compact(spark, ".", target_bytes=150_000)
    assert visible(tmp_path / "data") == before
    assert not list((tmp_path / "data").glob("_*"))


# ---- verify


def test_verify(spark, tmp_path):
    for name in ("a", "b", "c", "d"):
        fm.write_table(
            table(),
            tmp_path / f"{name}.mosaic",
            row_group_size=50,
            write_statistics=True,
            annex=name != "d",
        )
    damage(tmp_path / "b.mosaic", 20)
    (tmp_path / "c.mosaic").write_bytes((tmp_path / "c.mosaic").read_bytes()[:-10])
    forge_statistics(tmp_path / "d.mosaic")
    report = verify(spark, tmp_path)
    assert not report.ok
    assert [file.ok for file in report.files] == [True, False, False, False]
    assert [file.row_groups for file in report.files] == [4, 4, 0, 4]
    problems = [file.problem for file in report.files]
    assert problems[0] is None
    assert problems[1].startswith("row group 0, bucket 0, offset 0: ")
    assert problems[2] == "not a Mosaic file: it does not end in 'MOSA'"
    assert problems[3].startswith("row group 3, bucket ")
    assert "column 'id'" in problems[3]
    assert problems[3].endswith(": there are values outside the bounds of the statistics")
    rows = report.dataframe(spark).orderBy("file").collect()
    assert [(Path(row.file).name, row.ok) for row in rows] == [
        ("a.mosaic", True),
        ("b.mosaic", False),
        ("c.mosaic", False),
        ("d.mosaic", False),
    ]
    assert rows[1].problem == problems[1]
    # ... of which the metadata alone tell but one
    assert [file.ok for file in verify(spark, tmp_path, deep=False).files] == [
        True,
        True,
        False,
        True,
    ]


def forge_statistics(path):
    """Let the last row group say that no id of it is above 198; there is 199."""
    data = path.read_bytes()
    place = data.rindex((199).to_bytes(8, "big"))
    path.write_bytes(data[:place] + (198).to_bytes(8, "big") + data[place + 8 :])


def test_verify_goes_on_where_it_was(spark, tmp_path):
    """One of the files cannot be read at first."""
    (tmp_path / "data").mkdir()
    for name in ("a", "b", "c", "d"):
        fm.write_table(table(), tmp_path / "data" / f"{name}.mosaic")
    faulty = Faulty({"d.mosaic": 1000}, str(tmp_path))
    options = {"records": tmp_path / "records", "filesystem": faulty}
    with pytest.raises(RuntimeError, match="the disk is on fire"):
        verify(spark, str(tmp_path / "data"), **options)
    finished = len(list((tmp_path / "records").rglob("*.json")))
    options["filesystem"] = Faulty({}, str(tmp_path))
    report = verify(spark, str(tmp_path / "data"), **options)
    assert report.ok
    assert (report.resumed, report.rows) == (finished, 4 * ROWS)
    assert finished > 0
    assert not list((tmp_path / "records").iterdir())
    with pytest.raises(FileNotFoundError):
        verify(spark, tmp_path / "nowhere")


# ---- profile


def test_profile(spark, tmp_path):
    """Against what Arrow computes of the whole table."""
    count = 3000
    whole = pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "few": [f"v{i % 40}" for i in range(count)],
            "many": [None if i % 3 == 0 else f"name {i}" for i in range(count)],
            "float": [math.nan if i % 100 == 0 else i % 200 / 4 for i in range(count)],
            "one": ["same"] * count,
            "none": pa.nulls(count, pa.int32()),
            "flag": [i % 2 == 0 for i in range(count)],
            "day": pa.array([i % 20 for i in range(count)], pa.date32()),
            "money": [Decimal(i % 50) / 100 for i in range(count)],
            "list": [[i] for i in range(count)],
        }
    )
    (tmp_path / "k=1").mkdir()
    for part in range(3):
        fm.write_table(
            whole.slice(part * 1000, 1000), tmp_path / "k=1" / f"{part}.mosaic", row_group_size=400
        )
    report = profile(spark, tmp_path)
    assert (report.rows, report.files) == (count, 3)
    columns = {column.column: column for column in report.columns}
    assert list(columns) == whole.column_names
    for name, column in columns.items():
        values = whole.column(name)
        assert (column.rows, column.nulls) == (count, values.null_count)
        assert column.type == str(values.type)
        assert column.plain + column.const + column.dict + column.all_null == 9  # row groups
        if name == "list":
            assert (column.distinct, column.min, column.max) == (None, None, None)
            continue
        distinct = pc.count_distinct(values, mode="only_valid").as_py()
        if distinct <= DISTINCT_EXACT:
            assert column.distinct == distinct, name
        else:
            assert column.distinct == pytest.approx(distinct, rel=0.25), name
        bounds = pc.min_max(
            values if name != "float" else values.filter(pc.invert(pc.is_nan(values)))
        )
        texts = [None if one is None else one for one in (column.min, column.max)]
        assert texts == [bounds[end].cast(pa.string()).as_py() for end in ("min", "max")], name
    assert columns["one"].const == columns["none"].all_null == 9
    assert columns["few"].dict == columns["id"].plain == 9
    stored = sum(column.bytes for column in report.columns)
    files = [fm.read_metadata(tmp_path / "k=1" / f"{part}.mosaic") for part in range(3)]
    buckets = sum(f.row_group(i).total_compressed_size for f in files for i in range(3))
    assert 0.9 * buckets < stored <= buckets
    rows = {row["column"]: row for row in report.dataframe(spark).collect()}
    assert rows["few"]["distinct"] == 40
    assert rows["day"]["max"] == "1970-01-20"


def test_profile_of_some_columns(spark, tmp_path):
    fm.write_table(table(), tmp_path / "a.mosaic")
    (column,) = profile(spark, tmp_path, columns=["name"], records=tmp_path / "_records").columns
    assert (column.column, column.nulls, column.distinct) == ("name", ROWS // 5, ROWS * 4 // 5)
    with pytest.raises(fm.ColumnNotFoundError, match="did you mean 'name'"):
        profile(spark, tmp_path, columns=["nmae"])


def test_profile_names_a_damaged_file(spark, tmp_path):
    fm.write_table(table(), tmp_path / "a.mosaic")
    fm.write_table(table(), tmp_path / "b.mosaic")
    damage(tmp_path / "b.mosaic", 20)
    with pytest.raises(fm.CorruptFileError, match=r"b\.mosaic"):
        profile(spark, tmp_path)


# ---- from the shell


def test_the_command_line(spark, tmp_path, capsys):
    pq.write_table(table(), tmp_path / "a.parquet")
    pq.write_table(table(start=ROWS), tmp_path / "b.parquet")
    out = str(tmp_path / "out")
    words = ["spark", "convert", str(tmp_path / "a.parquet"), str(tmp_path / "b.parquet"), out]
    more = ["--statistics", "id,day", "--sort-by", "name", "--target-bytes", "64m"]
    assert main([*words, *more, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["rows"], report["files_in"], report["failures"]) == (2 * ROWS, 2, [])
    assert rows_of(out).equals(table(2 * ROWS))
    (file,) = visible(out)
    assert list(fm.read_metadata(f"{out}/{file}").row_group(0).statistics) == ["day", "id"]

    assert main(words) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("fastmosaic: ")
    assert printed.err.count("\n") == 1
    assert "contains files" in printed.err

    assert main(["spark", "convert", str(tmp_path / "b.parquet"), out, "--overwrite"]) == 0
    assert capsys.readouterr().out.startswith("converted 200 rows, 1 file to 1 file, ")
    assert main(["spark", "compact", out]) == 0
    assert capsys.readouterr().out.startswith("compacted 0 files to 0, 1 unchanged")
    assert main(["spark", "verify", out]) == 0
    assert capsys.readouterr().out.startswith("checked 1 file, 200 rows, ")
    assert main(["spark", "profile", out, "--columns", "name,day"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:5] == ["column", "type", "rows", "nulls", "distinct"]
    assert lines[1].split()[:5] == ["name", "string", "200", "40", "160"]

    damage(Path(out, *visible(out)), 20)
    assert main(["spark", "verify", out]) == 1
    assert "; 1 file damaged" in capsys.readouterr().out


def test_progress_is_shown_on_a_terminal(spark, tmp_path, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    write_files(tmp_path / "in", 8)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    convert(spark, tmp_path / "in", tmp_path / "out", target_file_bytes=5000)
    last = re.findall(r"convert.*?(\d+)/(\d+)", terminal.getvalue())[-1]
    assert last[0] == last[1]


@pytest.mark.parametrize(
    "words", [["--target-bytes", "many"], ["--overwrite", "--append"], ["--colour"]]
)
def test_wrong_words(words, capsys):
    with pytest.raises(SystemExit) as raised:
        main(["spark", "convert", "a", "b", *words])
    assert raised.value.code == 2
    printed = capsys.readouterr().err
    assert printed.startswith("fastmosaic: ")
    assert printed.count("\n") == 1


@pytest.mark.exhaustive
def test_spark_submit(tmp_path):
    """The same words, as an application of spark-submit; the workers import the package."""
    pq.write_table(table(), tmp_path / "a.parquet")
    submit = Path(sys.executable).parent / "spark-submit"
    words = ["convert", tmp_path / "a.parquet", tmp_path / "out", "--json"]
    variables = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(SOURCE),
        "PYTHONWARNINGS": "ignore",
    }
    ended = subprocess.run(
        [submit, "--master", "local[2]", "--conf", "spark.ui.enabled=false", app.__file__, *words],
        env=variables,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["rows"] == ROWS
    assert rows_of(tmp_path / "out").equals(table())

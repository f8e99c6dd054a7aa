"""Jobs that change tables: tasks write files, the driver commits once, whatever fails meanwhile."""

import functools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from living import data_files, everything, named
from pyarrow import fs as pafs
from pyspark.errors import AnalysisException, ArithmeticException, ParseException
from servers import s3_uris
from spark_faults import Counted, Faulty, Obstacle, Obstructed, wait_for
from spark_jvm import PATH

import fastmosaic as fm
import fastmosaic.spark as fs
from fastmosaic.cli import main

pytest_plugins = ["spark_session"]
pytestmark = [
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]

FILES, ROWS = 5, 40  # of a table, and of each of its files
SECRET = "a-secret-of-forty-characters-for-tests-1"
OLD = time.time() - 30 * 24 * 3600


def rows_of(number, count=ROWS):
    """The rows of the file `number`."""
    ids = range(number * ROWS, number * ROWS + count)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "a": pa.array([None if i % 7 == 3 else i / 4 for i in ids]),
            "b": pa.array([i % 5 for i in ids], pa.int32()),
            "text": [f"text {i}" for i in ids],
        }
    )


@pytest.fixture
def path(tmp_path):
    place = str(tmp_path / "t")
    table = fm.MosaicTable.create(place, rows_of(0), row_group_size=9)
    for number in range(1, FILES):
        table.append(rows_of(number), row_group_size=9)
    return place


def twice(batch):
    """A function of a module, which is sent by name."""
    return {"twice": pc.multiply(batch["id"], 2)}


def check_twice(path, ids=range(FILES * ROWS)):
    found = fm.read_table(path, columns=["id", "twice"]).to_pylist()
    assert found == [{"id": i, "twice": 2 * i} for i in ids]


def check_exact(path):
    """Nothing is left but what versions name; nor does vacuum find anything."""
    assert everything(path) == named(path)
    assert fm.MosaicTable(path).verify().ok


# ---- columns by a function


def test_a_function_computes_columns(spark, path):
    offset = 10  # of the closure
    report = fs.add_columns(
        spark,
        path,
        lambda batch: pa.record_batch({"more": pc.add(batch["b"], offset)}),
        inputs=["b"],
        write_statistics=True,
    )
    ids = range(FILES * ROWS)
    table = fm.read_table(path)
    assert table["more"].to_pylist() == [i % 5 + 10 for i in ids]
    assert table["id"].to_pylist() == list(ids)
    assert table.column_names == ["id", "a", "b", "text", "more"]
    assert (report.columns, report.version, report.files) == (("more",), FILES + 1, FILES)
    assert (report.rows, report.resumed, report.files_without_values) == (FILES * ROWS, 0, 0)
    sizes = [Path(path, one).stat().st_size for one in data_files(path) if "_columns" in one]
    assert (len(sizes), sum(sizes)) == (FILES, report.bytes_out)
    last = fm.MosaicTable(path).history()[-1]
    assert (last.operation, last.summary) == ("add columns", {"columns": ["more"], "files": FILES})
    check_exact(path)
    # ... with statistics: a filter skips row groups of the column file
    assert fm.read_table(path, columns=["id"], filters=[("more", "==", 14)]).num_rows == 40


def test_a_function_gets_its_inputs_and_nothing_else_is_read(spark, tmp_path):
    names = [f"x{i:03d}" for i in range(200)]
    values = np.random.default_rng(1)
    path = str(tmp_path / "wide")
    fm.MosaicTable.create(
        path, pa.table({name: values.random(20_000) for name in names}), num_buckets=50
    )
    (file,) = fm.MosaicTable(path).files
    notes = tmp_path / "notes"
    notes.mkdir()
    files = Counted(str(notes))
    table = fm.MosaicTable(path, filesystem=files, single_writer=True)

    def double(batch):
        assert batch.schema.names == ["x007"]
        return {"double": pc.multiply(batch["x007"], 2)}

    fs.add_columns(spark, table, double, inputs=["x007"])
    size = Path(path, file).stat().st_size
    assert 0 < files.bytes_of(file) < size / 10
    before = files.bytes_of(file)
    fs.add_columns(spark, table, {"half": "x007 / 2"})
    assert 0 < files.bytes_of(file) - before < size / 10
    found = fm.read_table(path, columns=["x007", "double", "half"])
    assert found["double"].to_numpy().tolist() == (found["x007"].to_numpy() * 2).tolist()
    assert found["half"].to_numpy().tolist() == (found["x007"].to_numpy() / 2).tolist()


def test_partitions_column_files_and_files_without_rows(spark, tmp_path):
    path = str(tmp_path / "t")
    day = ["mo", "mo", "tu", "we"]
    rows = pa.table(
        {
            "day": day,
            "id": pa.array([1, 2, 3, 4], pa.int64()),
            "kind": pa.array(["x", "y", "x", None]).dictionary_encode(),
            "point": [{"x": 1, "y": 2}, None, {"x": 3, "y": None}, {"x": 5, "y": 6}],
        }
    )
    table = fm.MosaicTable.create(path, rows, partitioning="day")
    table.add_columns({"b": pc.field("id") * 10})
    table.append(rows.slice(0, 0))
    table.delete([("id", "==", 4)])
    table.append(pa.table({"day": ["we"], "id": pa.array([5], pa.int64())}))

    def texts(batch):
        assert pa.types.is_dictionary(batch.schema.field("kind").type)
        days, kinds = batch["day"].to_pylist(), batch["kind"].to_pylist()
        each = zip(days, batch["b"].to_pylist(), kinds, strict=True)
        return {"all": [f"{d} {b} {kind}" for d, b, kind in each]}

    fs.add_columns(
        spark, path, texts, inputs=["day", "b", "kind"], schema=pa.schema({"all": "string"})
    )
    fs.add_columns(spark, path, {"sql": "concat_ws(' ', day, b, kind, point.x)", "one": "1"})
    found = fm.read_table(path, columns=["id", "all", "sql", "one"]).to_pylist()
    assert found == [
        {"id": 1, "all": "mo 10 x", "sql": "mo 10 x 1", "one": 1},
        {"id": 2, "all": "mo 20 y", "sql": "mo 20 y", "one": 1},
        {"id": 3, "all": "tu 30 x", "sql": "tu 30 x 3", "one": 1},
        {"id": 5, "all": "we None None", "sql": "we", "one": 1},
    ]
    fm.MosaicTable(path).vacuum(0)
    check_exact(path)


def test_columns_are_replaced_only_if_that_is_wanted(spark, path):
    fs.add_columns(spark, path, twice, inputs=["id"])
    before = everything(path)
    for values in (twice, {"twice": "id"}):
        with pytest.raises(ValueError, match="has a column 'twice' already; pass replace=True"):
            fs.add_columns(spark, path, values)
    assert everything(path) == before
    # The value before is an input.
    report = fs.add_columns(spark, path, {"twice": "twice + 1"}, replace=True)
    assert report.version == FILES + 2
    report = fs.add_columns(
        spark, path, lambda batch: {"twice": pc.subtract(batch["twice"], 1)}, replace=True
    )
    check_twice(path)


def test_a_function_that_is_wrong(spark, path):
    before = everything(path)
    with pytest.raises(RuntimeError, match=r"part-.*: KeyError: .*nope.*test_table_jobs.py, line"):
        fs.add_columns(spark, path, lambda batch: {"x": batch["nope"]}, inputs=["id"])
    with pytest.raises(RuntimeError, match="returned 1 rows for a batch of 9"):
        fs.add_columns(spark, path, lambda batch: {"x": [1]}, inputs=["id"])
    with pytest.raises(fm.SchemaMismatchError, match="columns 'y', but 'x' were expected"):
        fs.add_columns(
            spark, path, lambda batch: {"y": batch["id"]}, schema=pa.schema({"x": pa.int64()})
        )
    with pytest.raises(TypeError, match="expected a function, or a dictionary of names"):
        fs.add_columns(spark, path, "id * 2")
    with pytest.raises(TypeError, match="table must be a path, a URI or a MosaicTable"):
        fs.add_columns(spark, 7, twice)
    with pytest.raises(ValueError, match="inputs= and schema= are for functions"):
        fs.add_columns(spark, path, {"x": "id"}, inputs=["id"])
    with pytest.raises(fm.ColumnNotFoundError, match="idd"):
        fs.add_columns(spark, path, twice, inputs=["idd"])
    with pytest.raises(TypeError, match="did you mean 'compression'"):
        fs.add_columns(spark, path, twice, compresion="zstd")
    with pytest.raises(ValueError, match="open at version 1, which cannot be changed"):
        fs.add_columns(spark, fm.MosaicTable(path, 1), twice)
    assert everything(path) == before
    empty = fm.MosaicTable.create(f"{path}-empty", pa.schema({"id": pa.int64()}))
    with pytest.raises(ValueError, match="has no rows to add columns to"):
        fs.add_columns(spark, empty, twice)


# ---- columns by SQL


EXPRESSIONS = {
    "ratio": "id / (b + 1)",
    "whole": "id div 3",
    "cast": "cast(a as int)",
    "log": "log(id + 1)",
    "joined": "concat(text, null)",
    "kind": 'coalesce(nullif(text, "text 3"), "none")',
    "money": "cast(a as decimal(10, 2)) * 1.19",
    "moment": "timestamp'2024-01-01 00:00:00' + make_interval(0, 0, 0, id)",
    "day": "date_add(date'2024-01-01', b)",
    "list": "array(b, b + 1)",
    "pair": "named_struct('x', a, 'y', text)",
    "many": "aggregate(sequence(0, b), 0L, (s, x) -> s + x)",
}


def test_sql_is_that_of_spark(spark, path):
    """The same expressions on the same rows, without Mosaic."""
    report = fs.add_columns(spark, path, EXPRESSIONS)
    assert report.columns == tuple(EXPRESSIONS)
    rows = pa.concat_tables(map(rows_of, range(FILES)))
    expected = spark.createDataFrame(
        [tuple(row.values()) for row in rows.to_pylist()], "id long, a double, b int, text string"
    ).selectExpr("id", *(f"{text} as {name}" for name, text in EXPRESSIONS.items()))
    found = fs.read(spark, path).select("id", *EXPRESSIONS)
    assert [f.dataType for f in found.schema] == [f.dataType for f in expected.schema]
    assert sorted(found.collect()) == sorted(expected.collect())


def test_rows_of_many_batches_stay_in_order(spark, tmp_path):
    count = 70_000  # several batches, and row groups that end within them
    path = str(tmp_path / "t")
    ids = pa.array(np.random.default_rng(2).permutation(count))
    fm.MosaicTable.create(path, pa.table({"id": ids}), row_group_size=9_001)
    fs.add_columns(spark, path, {"next": "id + 1"})
    table = fm.read_table(path)
    assert table["next"].to_pylist() == [i + 1 for i in ids.to_pylist()]
    check_exact(path)


def test_division_by_zero_depends_on_the_session(spark, path):
    before = everything(path)
    with pytest.raises(ArithmeticException, match="DIVIDE_BY_ZERO"):
        fs.add_columns(spark, path, {"ratio": "a / b"})
    assert data_files(path) <= before  # what is finished belongs to no version
    assert fm.MosaicTable(path).version == FILES
    report = fs.add_columns(spark, path, {"ratio": "try_divide(id, b)"})
    nulls = fm.read_table(path)["ratio"].null_count
    assert (nulls, report.version) == (FILES * ROWS / 5, FILES + 1)
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        fs.add_columns(spark, path, {"other": "id / b"})
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    found = fm.read_table(path, columns=["ratio", "other"])
    assert found["other"].equals(found["ratio"])


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("idd + 1", AnalysisException, "UNRESOLVED_COLUMN"),
        ("id +", ParseException, "PARSE_SYNTAX_ERROR"),
        ("sum(id)", fm.UnsupportedError, "one value from the columns of one row"),
        (
            "lag(id) over (order by id)",
            fm.UnsupportedError,
            "one value from the columns of one row",
        ),
        ("explode(array(1, 2))", fm.UnsupportedError, "one value from the columns of one row"),
        ("interval 1 month", fm.UnsupportedError, "interval"),
        (7, TypeError, "expected an expression in Spark SQL"),
    ],
)
def test_expressions_that_are_wrong(spark, path, text, error, words):
    before = everything(path)
    with pytest.raises(error, match=words):
        fs.add_columns(spark, path, {"x": text})
    assert everything(path) == before


# ---- what fails, and what others do meanwhile


def slow_twice(directory, kind, wanted, batch):
    """A function that meets an obstacle in one file, and notes each that it has computed."""
    first = batch["id"][0].as_py()
    if first == wanted:
        Obstacle(directory, kind).meet()
    if first % ROWS == 0:
        Path(f"{directory}-computed", f"{first // ROWS}-{time.time_ns()}").touch()
    return twice(batch)


@pytest.fixture
def slow(tmp_path):
    """Makes functions with an obstacle in the file 2, which is open when the test ends."""
    made = []

    def make(kind="all"):
        directory = tmp_path / f"obstacle-{len(made)}"
        directory.mkdir()
        (tmp_path / f"{directory}-computed").mkdir()
        made.append(Obstacle(str(directory), kind))
        return made[-1], functools.partial(slow_twice, str(directory), kind, 2 * ROWS)

    yield make
    for one in made:
        one.open()


class Running(threading.Thread):
    """A job in a thread of its own."""

    def __init__(self, job, *arguments, **options):
        super().__init__()
        self._job = functools.partial(job, *arguments, **options)
        self.outcome = None
        self.start()

    def run(self):
        try:
            self.outcome = self._job()
        except Exception as error:  # noqa: BLE001 - it is raised in the test
            self.outcome = error

    def result(self):
        self.join()
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


def test_rows_that_are_appended_meanwhile_have_nulls(spark, path, slow):
    wall, function = slow()
    job = Running(fs.add_columns, spark, path, function, inputs=["id"])
    wait_for("the task", wall.arrivals)
    fm.MosaicTable(path).append(rows_of(FILES))
    wall.open()
    report = job.result()
    assert (report.files, report.files_without_values, report.version) == (FILES, 1, FILES + 2)
    assert "nulls in 1 file that others appended" in str(report)
    found = fm.read_table(path)["twice"]
    assert found.to_pylist() == [2 * i for i in range(FILES * ROWS)] + [None] * ROWS
    check_exact(path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda table: table.add_columns({"twice": pc.field("id")}), "has changed the column"),
        (lambda table: table.compact(), "has replaced the file"),
        (lambda table: table.delete([("id", "==", 3)]), "has replaced the file"),
    ],
    ids=["add", "compact", "delete"],
)
def test_a_conflict_leaves_nothing(spark, path, slow, change, words):
    wall, function = slow()
    job = Running(fs.add_columns, spark, path, function, inputs=["id"])
    wait_for("the task", wall.arrivals)
    change(fm.MosaicTable(path))
    before = fm.read_table(path)
    wall.open()
    with pytest.raises(fm.ConflictError, match=words):
        job.result()
    assert fm.read_table(path).equals(before)
    assert data_files(path) <= named(path)
    fm.MosaicTable(path).vacuum(0, keep_versions=100)  # removes the schema of the column files
    check_exact(path)


def test_vacuum_keeps_the_files_of_a_running_job(spark, path, slow):
    wall, function = slow()
    job = Running(
        fs.add_columns, spark, path, function, inputs=["id"], schema=pa.schema({"twice": "int64"})
    )
    wait_for("the task", wall.arrivals)
    wait_for(
        "the others", lambda: len(list(Path(path).glob("_staging-*/_done/*.json"))) == FILES - 1
    )
    finished = {one for one in data_files(path) if one.startswith("_columns/part")}
    assert len(finished) == FILES - 1
    orphan = Path(
        path, "_columns", "part-00000000000000000001-0123456789abcdef-0123456789abcdef.mosaic"
    )
    orphan.touch()  # of a job that has no staging directory any more
    report = fm.MosaicTable(path).vacuum(0)
    assert report.files == (str(orphan.relative_to(path)),)
    wall.open()
    job.result()
    check_twice(path)
    assert finished < data_files(path)
    check_exact(path)


@pytest.mark.parametrize("fault", [2, -1], ids=["fails twice", "kills its process"])
@pytest.mark.parametrize("values", [twice, {"twice": "id * 2"}], ids=["function", "sql"])
def test_tasks_that_fail_are_tried_again(spark, path, tmp_path, values, fault):
    notes = tmp_path / "notes"
    notes.mkdir()
    name = fm.MosaicTable(path).files[3]
    files = Faulty({name: fault}, str(notes))
    table = fm.MosaicTable(path, filesystem=files, single_writer=True)
    report = fs.add_columns(spark, table, values)
    assert len(list(notes.iterdir())) == abs(fault)
    assert (report.files, report.version, table.version) == (FILES, FILES + 1, FILES + 1)
    check_twice(path)
    fm.MosaicTable(path).vacuum(0)
    check_exact(path)


def test_a_damaged_file_is_named_and_nothing_is_left(spark, path):
    file = Path(path, fm.MosaicTable(path).files[1])
    data = bytearray(file.read_bytes())
    data[10] ^= 0xFF
    file.write_bytes(data)
    before = everything(path)
    with pytest.raises(fm.CorruptFileError, match=file.name):
        fs.add_columns(spark, path, twice)
    assert everything(path) == before
    with pytest.raises(fm.CorruptFileError, match=file.name):
        fs.compact(spark, path, mode="rewrite")
    assert data_files(path) <= before


# ---- a driver that is killed


SCRIPT = """
import os, signal, sys
from functools import partial
from spark_jvm import CONF
import fastmosaic as fm, fastmosaic.spark as fs
from fastmosaic.table.table import Changing
from spark_faults import Obstructed
what, path, obstacle, name, hook = sys.argv[1:]

def die(*arguments, **options):
    os.kill(os.getpid(), signal.SIGKILL)

commit = Changing.commit

def commit_and_die(*arguments):
    commit(*arguments)
    die()

if hook == "before":
    Changing.commit = die
elif hook == "after":
    Changing.commit = commit_and_die
spark = fs.session("crash", "local[2]", **CONF)
files = Obstructed(name, obstacle, "all")
table = fm.MosaicTable(path, filesystem=files, single_writer=True)
if what == "lambda":
    offset = 2
    fs.add_columns(spark, table, lambda batch: {"twice": [offset * i.as_py() for i in batch["id"]]}, inputs=["id"])
elif what == "sql":
    fs.add_columns(spark, table, {"id": "id + 1"}, replace=True)
elif what == "fold":
    fs.fold(spark, table)
elif what == "delete":
    fs.delete(spark, table, [("b", "==", 1)])
else:
    fs.compact(spark, table, target_bytes=int(what))
print("end")
"""


def start(what, path, obstacle, name="-", hook="-"):
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, what, path, str(obstacle), name, hook],
        env={**os.environ, "PYTHONPATH": PATH},
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def end(process):
    """Kill all of its processes, or see that it was killed."""
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def killed(process):
    """Wait until a driver has killed itself."""
    _, errors = process.communicate()
    assert process.returncode == -signal.SIGKILL, errors


def records_in(path):
    return sorted(Path(path).glob("_staging-*/_done/*.json"))


def age_all(path):
    for folder, folders, files in os.walk(path):
        for one in (*folders, *files):
            os.utime(os.path.join(folder, one), (OLD, OLD))


@pytest.mark.parametrize(
    "what",
    ["sql", *(pytest.param(one, marks=pytest.mark.exhaustive) for one in ("fold", "delete"))],
)
def test_a_killed_driver_is_gone_on_with(spark, path, tmp_path, what):
    """Finished files are not computed again, vacuum leaves them, and the result is exact."""
    if what == "fold":
        fm.MosaicTable(path).add_columns({"twice": pc.field("id") * 2})
    before = fm.read_table(path)
    version = fm.MosaicTable(path).version
    (tmp_path / "obstacle").mkdir()
    name = os.path.basename(fm.MosaicTable(path).files[-1])
    process = start(what, path, tmp_path / "obstacle", name)

    def is_one_left():
        assert process.poll() is None, process.stderr.read()
        return len(records_in(path)) == FILES - 1

    wait_for("all items but one", is_one_left)
    end(process)
    kept = {
        file: Path(path, file).stat().st_mtime_ns
        for record in records_in(path)
        for file, *_ in json.loads(record.read_text())["files"]
    }
    assert len(kept) == FILES - 1
    assert fm.MosaicTable(path).version == version
    assert fm.read_table(path).equals(before)
    fm.MosaicTable(path).vacuum(0, keep_versions=100)
    # Another writer does not matter, if it changes other files.
    fm.MosaicTable(path).append(rows_of(FILES))
    if what == "fold":
        report = fs.fold(spark, path)
    elif what == "delete":
        report = fs.delete(spark, path, [("b", "==", 1)])
    else:
        report = fs.add_columns(spark, path, {"id": "id + 1"}, replace=True)
    assert report.resumed == FILES - 1
    assert {file: Path(path, file).stat().st_mtime_ns for file in kept} == kept
    assert set(kept) <= fm.MosaicTable(path)._snapshot.version.paths
    added = 1 if what == "sql" else 0
    ids = [i + added for i in range((FILES + 1) * ROWS) if what != "delete" or i % 5 != 1]
    assert fm.read_table(path)["id"].to_pylist() == ids
    fm.MosaicTable(path).vacuum(0, keep_versions=100)
    check_exact(path)


@pytest.mark.parametrize("hook", [pytest.param("before", marks=pytest.mark.exhaustive), "after"])
def test_a_driver_that_is_killed_at_its_commit(spark, path, hook):
    """The call is repeated, but its effect is not."""
    killed(start("sql", path, "-", hook=hook))
    committed = hook == "after"
    assert fm.MosaicTable(path).version == FILES + committed
    report = fs.add_columns(spark, path, {"id": "id + 1"}, replace=True)
    assert (report.resumed, report.version) == (FILES, FILES + 1)
    assert (report.rows, report.columns) == (FILES * ROWS, ("id",))
    assert fm.read_table(path)["id"].to_pylist() == [i + 1 for i in range(FILES * ROWS)]
    check_exact(path)
    # Now it is a new call.
    assert fs.add_columns(spark, path, {"id": "id + 1"}, replace=True).version == FILES + 2
    assert fm.read_table(path)["id"].to_pylist() == [i + 2 for i in range(FILES * ROWS)]


@pytest.mark.exhaustive
def test_a_lambda_is_known_again_in_another_process(path):
    killed(start("lambda", path, "-", hook="before"))
    first = [record.name for record in records_in(path)]
    assert len(first) == FILES
    stamps = [record.stat().st_mtime_ns for record in records_in(path)]
    killed(start("lambda", path, "-", hook="before"))
    assert [record.name for record in records_in(path)] == first
    assert [record.stat().st_mtime_ns for record in records_in(path)] == stamps


@pytest.mark.exhaustive
def test_what_a_killed_driver_leaves_is_removed_when_it_is_old(spark, path):
    killed(start("lambda", path, "-", hook="before"))
    left = everything(path) - named(path)
    assert len(left) > FILES
    table = fm.MosaicTable(path)
    before = data_files(path)
    table.vacuum(0, keep_versions=100)
    age_all(Path(path, "_columns"))
    table.vacuum(0, keep_versions=100)
    assert data_files(path) == before
    age_all(path)
    fs.vacuum(spark, table, 3600, keep_versions=100)
    check_exact(path)


@pytest.mark.exhaustive
def test_clean_removes_the_records_of_a_killed_driver(path, capsys):
    killed(start("lambda", path, "-", hook="before"))
    assert main(["clean", "--older-than", "0", path]) == 0
    assert "_staging-columns-" in capsys.readouterr().out
    assert records_in(path) == []
    fm.MosaicTable(path).vacuum(0, keep_versions=100)
    check_exact(path)


@pytest.mark.exhaustive
def test_resume_can_be_turned_off(spark, path):
    killed(start("sql", path, "-", hook="before"))
    report = fs.add_columns(spark, path, {"id": "id + 1"}, replace=True, resume=False)
    assert report.resumed == 0
    check_exact(path)


# ---- compact, fold, vacuum, concat


def test_compact_copies_row_groups_of_a_table(spark, path):
    before = fm.read_table(path)
    report = fs.compact(spark, path, mode="copy")
    assert fm.read_table(path).equals(before)
    groups = FILES * -(-ROWS // 9)
    assert (report.files_in, report.files_out, report.files_kept) == (FILES, 1, 0)
    assert (report.row_groups_copied, report.version, report.rows) == (
        groups,
        FILES + 1,
        FILES * ROWS,
    )
    last = fm.MosaicTable(path).history()[-1]
    assert (last.operation, last.summary["row_groups_copied"]) == ("compact", groups)
    assert str(report).startswith(f"version {FILES + 1}: compacted {FILES} files to 1")
    check_exact(path)
    again = fs.compact(spark, path)
    assert (again.files_in, again.files_kept, again.version) == (0, 1, FILES + 1)


def test_compact_joins_the_files_of_a_partition_and_folds(spark, tmp_path):
    path = str(tmp_path / "t")
    rows = [
        rows_of(number).append_column("day", [["mo", "tu"][number % 2 :][:1] * ROWS])
        for number in range(4)
    ]
    table = fm.MosaicTable.create(path, rows[0], partitioning="day")
    for one in rows[1:]:
        table.append(one)
    table.add_columns({"twice": pc.field("id") * 2})
    table.drop_columns("text")
    expected = table.read().sort_by("id")
    report = fs.compact(spark, table)
    assert table.version == report.version == 7
    assert (report.files_in, report.files_out, report.row_groups_copied) == (4, 2, 0)
    assert table.read().sort_by("id").equals(expected)
    assert all(not file.columns for file in table._snapshot.version.files)
    check_exact(path)
    with pytest.raises(ValueError, match="target_bytes must be at least 1"):
        fs.compact(spark, table, target_bytes=0)


def test_compact_of_several_files_of_the_target_size(spark, path):
    expected = fm.read_table(path)
    size = sum(Path(path, one).stat().st_size for one in fm.MosaicTable(path).files)
    report = fs.compact(spark, path, target_bytes=int(size * 0.5))
    assert report.files_out == 2
    assert fm.read_table(path).equals(expected)


def test_fold(spark, path):
    table = fm.MosaicTable(path)
    table.add_columns({"twice": pc.field("id") * 2})
    table.drop_columns("text")
    table.append(pa.table({"id": [7]}))
    expected = table.read()
    report = fs.fold(spark, table, compression="zstd")
    assert (report.files_in, report.files_out, report.files_kept) == (FILES, FILES, 1)
    assert (report.rows, report.row_groups_copied) == (FILES * ROWS, 0)
    assert report.version == table.version == FILES + 4
    assert table.read().equals(expected)
    assert all(not file.columns for file in table._snapshot.version.files)
    assert fs.fold(spark, table).version == FILES + 4
    check_exact(path)


def test_delete(spark, path):
    fm.MosaicTable(path).add_columns({"twice": pc.field("id") * 2})
    files = fm.MosaicTable(path).files
    # Rows of file 1, all rows of file 2, and no row of the others.
    filters = (pc.field("twice") >= 2 * ROWS + 6) & (pc.field("id") < 3 * ROWS)
    report = fs.delete(spark, path, filters, write_statistics=["id"])
    ids = [i for i in range(FILES * ROWS) if not ROWS + 3 <= i < 3 * ROWS]
    check_twice(path, ids)
    table = fm.MosaicTable(path)
    assert (report.rows, report.files_rewritten, report.files_removed) == (2 * ROWS - 3, 1, 1)
    assert (report.version, report.resumed) == (FILES + 2, 0)
    assert [one in table.files for one in files] == [True, False, False, True, True]
    assert report.bytes_out == Path(path, table.files[1]).stat().st_size
    last = table.history()[-1]
    assert (last.operation, last.summary["rows"]) == ("delete", 2 * ROWS - 3)
    check_exact(path)
    assert fs.delete(spark, path, [("id", "<", 0)]).version == FILES + 2
    # Rows for which the condition is null stay, and columns stay without rows.
    assert fs.delete(spark, table, [("a", ">=", 0)]).rows == sum(i % 7 != 3 for i in ids)
    assert fm.read_table(path)["id"].to_pylist() == [i for i in ids if i % 7 == 3]
    fs.delete(spark, table, ~pc.field("a").is_valid())
    assert fm.read_table(path).num_rows == 0
    assert fm.read_table(path).column_names == ["id", "a", "b", "text", "twice"]
    with pytest.raises(fm.ColumnNotFoundError, match="nope"):
        fs.delete(spark, path, [("nope", "=", 1)])
    with pytest.raises(ValueError, match="which rows to delete"):
        fs.delete(spark, path, None)


def test_delete_of_partitions_reads_no_file(spark, tmp_path):
    rows = pa.table({"day": ["mo", "mo", "tu"], "id": [1, 2, 3]})
    path = str(tmp_path / "t")
    fm.MosaicTable.create(path, rows, partitioning="day")
    notes = tmp_path / "notes"
    notes.mkdir()
    files = Counted(str(notes))
    table = fm.MosaicTable(path, filesystem=files, single_writer=True)
    report = fs.delete(spark, table, [("day", "=", "mo")])
    assert (report.rows, report.files_rewritten, report.files_removed) == (2, 0, 1)
    assert [files.bytes_of(name) for name in table.files] == [0]
    assert fm.read_table(path).to_pylist() == [{"id": 3, "day": "tu"}]
    # A column that some files lack is null there.
    fm.MosaicTable(path).add_columns({"x": pc.field("id")})
    fm.MosaicTable(path).append(pa.table({"day": ["tu", "we"], "id": [4, 5]}))
    report = fs.delete(spark, path, pc.field("x").is_null() & (pc.field("day") == "tu"))
    assert (report.rows, report.files_removed) == (1, 1)
    assert fm.read_table(path)["id"].to_pylist() == [3, 5]


def test_a_delete_in_sql_runs_in_tasks(spark, path, tmp_path):
    """A worker that dies and files that fail are not those of the driver."""
    notes = tmp_path / "notes"
    notes.mkdir()
    names = fm.MosaicTable(path).files
    files = Faulty({names[1]: -1, names[3]: 2}, str(notes))
    fs.catalog(spark, "jobs", os.path.dirname(path), filesystem=files, single_writer=True)
    spark.sql("delete from jobs.t where b = 1")
    assert len(list(notes.iterdir())) == 3
    ids = [i for i in range(FILES * ROWS) if i % 5 != 1]
    assert fm.read_table(path)["id"].to_pylist() == ids
    assert fm.MosaicTable(path).version == FILES + 1


def test_a_delete_is_a_conflict_if_a_file_was_changed(spark, path, tmp_path):
    (tmp_path / "obstacle").mkdir()
    name = os.path.basename(fm.MosaicTable(path).files[2])
    obstacle = Obstacle(str(tmp_path / "obstacle"), "all")
    files = Obstructed(name, obstacle.directory, obstacle.kind)
    table = fm.MosaicTable(path, filesystem=files, single_writer=True)
    job = Running(lambda: fs.delete(spark, table, [("b", "==", 1)]))
    wait_for("the task", obstacle.arrivals)
    fm.MosaicTable(path).delete([("id", "==", 2 * ROWS + 1)])
    obstacle.open()
    with pytest.raises(fm.ConflictError, match="nothing was committed"):
        job.result()
    assert fm.read_table(path).num_rows == FILES * ROWS - 1
    check_exact(path)


@pytest.mark.parametrize("job", ["compact", "fold"])
def test_a_rewriting_job_gives_way(spark, path, tmp_path, job):
    """Files that another writer changes stay as they are."""
    fm.MosaicTable(path).add_columns({"twice": pc.field("id") * 2})
    (tmp_path / "obstacle").mkdir()
    name = os.path.basename(fm.MosaicTable(path).files[0])

    files = Obstructed(name, str(tmp_path / "obstacle"), "all")
    slowly = fm.MosaicTable(path, filesystem=files, single_writer=True)
    running = Running(getattr(fs, job), spark, slowly)
    wall = Obstacle(str(tmp_path / "obstacle"), "all")
    try:
        wait_for("the task", wall.arrivals)
        fm.MosaicTable(path).delete([("id", "==", 1)])
    finally:
        wall.open()
    report = running.result()
    assert report.left_to_other_writers == 1
    assert report.rows == (0 if job == "compact" else (FILES - 1) * ROWS)
    ids = [i for i in range(FILES * ROWS) if i != 1]
    check_twice(path, ids)
    check_exact(path)


def test_vacuum(spark, path, monkeypatch):
    from fastmosaic.spark.jobs import vacuum as module

    monkeypatch.setattr(module, "_FILES_PER_TASK", 2)
    table = fm.MosaicTable(path)
    table.compact()
    unused = set(table.files) ^ data_files(path)
    assert len(unused) == FILES
    report = fs.vacuum(spark, path, 0, dry_run=True)
    assert (set(report.files) - {one for one in everything(path) if "_mosaic" in one}) == unused
    assert unused <= everything(path)
    assert str(report).startswith(f"version {FILES + 1}: would remove {FILES} versions and")
    report = fs.vacuum(spark, path, 0)
    assert unused <= set(report.files)
    assert unused.isdisjoint(everything(path))
    assert len(report.versions) == FILES
    assert report.bytes > 0
    check_exact(path)
    with pytest.raises(ValueError, match="must not be negative"):
        fs.vacuum(spark, path, -1)


def test_concat_copies_to_another_directory(spark, tmp_path):
    for number in range(6):
        folder = tmp_path / "in" / f"day={number % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        fm.write_table(rows_of(number), folder / f"{number}.mosaic")
    source, target = tmp_path / "in", tmp_path / "out"
    report = fs.concat(spark, source, target, mode="copy")
    assert (report.files_in, report.files_out, report.row_groups_copied) == (6, 2, 6)
    assert report.rows == 6 * ROWS
    assert fm.read_table(target).sort_by("id").equals(fm.read_table(source).sort_by("id"))
    assert fm.read_table(source).sort_by("id")["id"].to_pylist() == list(range(6 * ROWS))
    with pytest.raises(FileExistsError, match="existing='append'"):
        fs.concat(spark, source, target)
    again = fs.concat(spark, source, target, existing="overwrite", mode="rewrite")
    assert again.row_groups_copied == 0
    assert fm.read_table(target).num_rows == 6 * ROWS
    table = fm.MosaicTable.create(source)
    with pytest.raises(ValueError, match=r"is a table; merge its files with"):
        fs.concat(spark, source, tmp_path / "other")
    assert not (tmp_path / "other").exists()
    assert table.version == 1


# ---- commands


def test_the_command_line(spark, path, capsys, tmp_path):
    assert main(["spark", "add-columns", path, "half = id / 2", "`a b` = b = 1", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["version"], document["columns"]) == (FILES + 1, ["half", "a b"])
    found = fm.read_table(path)
    assert found["half"].to_pylist() == [i / 2 for i in range(FILES * ROWS)]
    assert found["a b"].to_pylist() == [i % 5 == 1 for i in range(FILES * ROWS)]
    assert main(["spark", "delete", path, "--where", "half = 2"]) == 0
    assert "deleted 1 row, 1 file rewritten, 0 removed" in capsys.readouterr().out
    fm.MosaicTable(path).restore(FILES + 1)
    assert main(["spark", "fold", path]) == 0
    assert capsys.readouterr().out.startswith(f"version {FILES + 4}: folded {FILES} files, 0 unch")
    assert main(["spark", "compact", path, "--mode", "copy"]) == 0
    assert f"version {FILES + 5}: compacted {FILES} files to 1, 0 " in capsys.readouterr().out
    assert main(["spark", "vacuum", path, "--older-than", "0", "--keep", "2"]) == 0
    assert "removed " in capsys.readouterr().out
    assert fm.read_table(path).equals(found)
    assert len(fm.MosaicTable(path).history()) == 3  # two, and the mark of vacuum
    files = [str(Path(path, one)) for one in fm.MosaicTable(path).files]
    assert main(["spark", "concat", *files, str(tmp_path / "out")]) == 0
    assert "merged 1 file to 1" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["x"], ["=1"], ["x ="]])
def test_wrong_assignments(words, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["spark", "add-columns", "t", *words])
    assert "expected e.g. ratio = a / b" in capsys.readouterr().err


# ---- S3


@pytest.fixture(scope="module")
def s3():
    with s3_uris(SECRET) as uri_of:
        yield uri_of


def objects_of(uri):
    """The paths of all objects below a URI, relative to it."""
    filesystem, path = pafs.FileSystem.from_uri(uri)
    infos = filesystem.get_file_info(pafs.FileSelector(path, recursive=True))
    return {info.path.removeprefix(f"{path}/") for info in infos if info.is_file}


def test_a_table_in_an_object_store(spark, s3):
    uri = s3("table")
    table = fm.MosaicTable.create(uri, rows_of(0))
    for number in range(1, FILES):
        table.append(rows_of(number))
    assert fs.add_columns(spark, uri, twice, inputs=["id"]).version == FILES + 1
    assert fs.add_columns(spark, uri, {"half": "id / 2"}).version == FILES + 2
    report = fs.fold(spark, uri)
    assert (report.version, report.files_out) == (FILES + 3, FILES)
    deleted = fs.delete(spark, uri, [("id", "in", [3, ROWS])])
    assert (deleted.version, deleted.files_rewritten, deleted.rows) == (FILES + 4, 2, 2)
    fm.MosaicTable(uri).restore(FILES + 3)
    report = fs.compact(spark, uri, mode="copy")
    assert (report.version, report.files_out) == (FILES + 6, 1)
    assert report.row_groups_copied == FILES
    assert fs.compact(spark, uri).version == FILES + 6
    removed = fs.vacuum(spark, uri, 0)
    assert len(removed.versions) == FILES + 5
    table = fm.MosaicTable(uri)
    assert table.read(["id", "twice", "half"]).to_pylist() == [
        {"id": i, "twice": 2 * i, "half": i / 2} for i in range(FILES * ROWS)
    ]
    version = table._snapshot.version
    names = {f"_mosaic/{one.version:020d}.json.zst" for one in table.history()}
    assert objects_of(uri) == version.paths | names


def test_a_directory_in_an_object_store(spark, s3):
    """It cannot be compacted in place, which the error says, but written elsewhere."""
    uri, target = s3("plain"), s3("merged")
    for number in range(3):
        fm.write_dataset(rows_of(number), uri, existing="append")
    before = objects_of(uri)
    with pytest.raises(
        fm.UnsupportedError, match=r"cannot replace the files .* in one step"
    ) as error:
        fs.compact(spark, uri)
    assert SECRET not in str(error.value)
    with pytest.raises(fm.UnsupportedError, match="make the directory a table"):
        fm.compact(uri)
    report = fs.concat(spark, uri, target)
    assert (report.files_in, report.files_out, report.row_groups_copied) == (3, 1, 0)
    assert fm.read_table(target).equals(fm.read_table(uri))
    assert len(objects_of(target)) == 1
    assert objects_of(uri) == before

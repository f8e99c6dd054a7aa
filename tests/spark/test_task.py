"""What Spark sends to tasks: it runs in a new process, which imports what it needs and no more."""

import json
import pickle
import subprocess
import sys
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

import fastmosaic as fm
from fastmosaic.dataset.discovery import discover
from fastmosaic.dataset.fileset import FileSet
from fastmosaic.spark.jobs.profile import _profile
from fastmosaic.spark.jobs.records import list_files
from fastmosaic.spark.jobs.rewrite import Rewrite, RewriteItem, SourcePart
from fastmosaic.spark.jobs.verify import _verify
from fastmosaic.spark.planner.plan import ScanPlanner
from fastmosaic.spark.source.source import MosaicDataSource
from fastmosaic.storage.staging import Staging

SOURCE = Path(fm.__file__).parents[1]
TABLE = pa.table({"id": [1, 2, 3], "text": ["a", None, "c"]})

# A task: unpickles a function and its arguments, and reads all that the function returns.
TASK = """
import json, pickle, sys

function, *arguments = pickle.load(sys.stdin.buffer)
result = function(*arguments)
rows = result if isinstance(result, dict) else [row for b in result for row in b.to_pylist()]
start = "fastmosaic.spark."
print(json.dumps([rows, sorted(m[len(start) :] for m in sys.modules if m.startswith(start))]))
"""


def run(function, *arguments):
    """What a function returns in a new process, and the modules of `fastmosaic.spark` there."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", TASK],
        input=pickle.dumps((function, *arguments)),
        env={"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


@pytest.fixture
def path(tmp_path):
    fm.write_table(TABLE, tmp_path / "a.mosaic", row_group_size=2)
    return str(tmp_path / "a.mosaic")


def test_tasks_of_a_planned_scan(path):
    planner = ScanPlanner(FileSet(path), TABLE.schema, "t", lambda: (1 << 20, 1))
    planned = planner.plan(TABLE.select(["id"]).schema, [], None)
    splits = pa.RecordBatch.from_pydict({"split": [pickle.dumps(one) for one in planned.splits]})
    rows, modules = run(planned.reader(), [splits])
    assert rows == [{"id": 1}, {"id": 2}, {"id": 3}]
    assert modules == ["connection", "origin", "schemas", "task", "versions"]  # and not the planner


def test_batches_have_few_rows(tmp_path):
    table = pa.table({"id": range(150_000)})
    fm.write_table(table, tmp_path / "a.mosaic")
    planner = ScanPlanner(FileSet(tmp_path / "a.mosaic"), table.schema, "t", lambda: (1 << 20, 1))
    planned = planner.plan(None, [], None)
    splits = pa.RecordBatch.from_pydict({"split": [pickle.dumps(one) for one in planned.splits]})
    batches = list(planned.reader()([splits]))
    assert [batch.num_rows for batch in batches] == [50_000] * 3
    assert pa.Table.from_batches(batches).equals(table)


@pytest.mark.parametrize("imported", ["pyspark.worker", "pyspark"])
def test_modules_are_exempt_from_garbage_collection_in_workers(path, imported):
    """Spark's workers collect garbage after each task: that is to be fast, and only there."""
    planner = ScanPlanner(FileSet(path), TABLE.schema, "t", lambda: (1 << 20, 1))
    planned = planner.plan(None, [], None)
    splits = pa.RecordBatch.from_pydict({"split": [pickle.dumps(one) for one in planned.splits]})
    code = f"""
import gc, importlib, pickle, sys

reader, splits = pickle.load(sys.stdin.buffer)
importlib.import_module({imported!r})
rows = [sum(batch.num_rows for batch in reader([splits])) for _ in range(2)]
print(rows, gc.get_freeze_count() > 1000)
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        input=pickle.dumps((planned.reader(), splits)),
        env={"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        check=True,
    )
    assert done.stdout.decode() == f"[3, 3] {imported == 'pyspark.worker'}\n"


def test_tasks_of_the_data_source(path):
    source = MosaicDataSource({"path": path, "columns": "id", "filters": '[["id", ">", 1]]'})
    reader = source.reader(source.schema())
    (partition,) = reader.partitions()
    rows, modules = run(reader.read, partition)
    assert rows == [{"id": 2}, {"id": 3}]
    assert not [name for name in modules if name.startswith(("planner", "jobs"))]


def test_tasks_of_jobs(path, tmp_path):
    (listed,) = list_files(discover(path))
    files = FileSet(path)
    staging = Staging.begin(str(tmp_path / "out"), None, "error")
    rewrite = Rewrite(
        staging, TABLE.schema, "mosaic", 1 << 20, (), drops=False, skips=False, options={}
    )
    part = SourcePart(listed.found, "mosaic", None, listed.size)
    for work, item, rows in [
        (partial(_verify, True), listed, 3),
        (partial(_profile, TABLE.schema, files.partitions), [(files.files[0], [0, 1])], 3),
        (rewrite.run, RewriteItem(0, "", (part,)), None),
    ]:
        result, modules = run(work, item)
        assert result.get("rows") == rows
        assert not [name for name in modules if name.startswith(("planner", "source"))]
    ((file, count, _),) = result["files"]
    assert count == 3
    assert fm.read_table(f"{staging.root}/{file}").equals(TABLE)
    staging.abandon()

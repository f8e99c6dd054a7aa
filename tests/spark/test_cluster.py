"""On a cluster: whatever is killed, fails or comes twice, results are complete and exact."""

import functools
import os
import re
import signal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from living import everything, named
from spark_cluster import Cluster, listening, open_files
from spark_faults import Obstacle, Obstructed, wait_for

import fastmosaic as fm

# One cluster is enough.
pytestmark = pytest.mark.xdist_group("cluster")

FILES, FILE_ROWS = 12, 500
ITEMS = 4  # of three files each
OBSTRUCTED = "part-05"  # the last file of an item
ROWS, TASKS = 100_000, 4  # of a DataFrame
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "100ms",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster.running(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def obstacle(tmp_path):
    """Makes obstacles; they are open when the test ends, so that no task waits longer."""
    made = []

    def make(kind):
        directory = tmp_path / f"obstacle-{len(made)}"
        directory.mkdir()
        made.append(Obstacle(str(directory), kind))
        return made[-1]

    yield make
    for one in made:
        one.open()


def table_of(ids):
    """Rows by their ids; of 30 columns."""
    ids = list(ids)
    columns = {"id": pa.array(ids, pa.int64()), "key": pa.array([i % 7 for i in ids], pa.int64())}
    columns["text"] = pa.array([None if i % 5 == 0 else f"text {i}" for i in ids])
    for number in range(27):
        columns[f"x{number}"] = pa.array([i * 0.5 + number for i in ids])
    return pa.table(columns)


def files_of_ids():
    return [(f"part-{n:02d}", range(n * FILE_ROWS, (n + 1) * FILE_ROWS)) for n in range(FILES)]


@pytest.fixture
def parquet(tmp_path):
    directory = tmp_path / "parquet"
    directory.mkdir()
    for name, ids in files_of_ids():
        pq.write_table(table_of(ids), directory / f"{name}.parquet")
    return directory


@pytest.fixture
def out(tmp_path):
    """A directory in which the data set is to be all that there is."""
    directory = tmp_path / "out"
    directory.mkdir()
    return directory


def below(directory):
    return sorted(str(file.relative_to(directory)) for file in Path(directory).rglob("*"))


def leftovers(out):
    """What is in a directory besides the files of the data set `t`."""
    return [name for name in below(out) if name != "t" and not re.match(r"t/part.*\.mosaic$", name)]


# ---- jobs, which run in a driver


def convert(spark, src, dst, obstacle):
    from fastmosaic.spark import convert

    size = sum(file.stat().st_size for file in Path(src).iterdir())
    report = convert(
        spark,
        src,
        dst,
        filesystem=Obstructed(f"{OBSTRUCTED}.parquet", *obstacle),
        target_file_bytes=int(0.9 * size / ITEMS),
    )
    return {"rows": report.rows, "files": report.files_out, "resumed": report.resumed}


def query(spark, path, obstacle):
    from fastmosaic.spark import read, scans

    files = Obstructed(f"{OBSTRUCTED}.mosaic", *obstacle)
    read(spark, path, filesystem=files).createOrReplaceTempView("t")
    rows = spark.sql(
        "SELECT key, count(*), sum(x3), min(id), max(id) FROM t "
        f"WHERE id >= {2 * FILE_ROWS} GROUP BY key ORDER BY key"
    ).collect()
    scan = scans()[-1]
    return {"rows": [list(row) for row in rows], "columns": scan.columns, "files": scan.files}


def write(spark, dst, mode, obstacle):
    """Rows with an obstacle in the middle of a task."""
    from fastmosaic.spark import write

    meet = functools.partial(_meet_within, Obstacle(*obstacle))
    df = spark.range(0, ROWS, 1, TASKS).selectExpr("id", "id * 2 AS twice", "id % 7 AS key")
    write(df.mapInArrow(meet, df.schema), dst, mode=mode)


def _meet_within(obstacle, batches):
    from pyspark import TaskContext

    for number, batch in enumerate(batches):
        if number == ROWS // TASKS // 1000 - 2 and TaskContext.get().partitionId() == 1:
            obstacle.meet()
        yield batch


def add_columns(spark, path, obstacle):
    """A column by a function, with an obstacle in one file, and then one by SQL."""
    from fastmosaic.spark import add_columns, compact

    values = functools.partial(_meet_in_file, Obstacle(*obstacle))
    first = add_columns(spark, path, values, inputs=["id"], schema=pa.schema({"twice": pa.int64()}))
    second = add_columns(spark, path, {"half": "id / 2"})
    third = compact(spark, path)
    versions = [one.version for one in (first, second, third)]
    return {"versions": versions, "files": first.files, "resumed": first.resumed}


def _meet_in_file(obstacle, batch):
    if batch["id"][0].as_py() == 5 * FILE_ROWS:
        obstacle.meet()
    return {"twice": [2 * i for i in batch["id"].to_pylist()]}


def writers(pids, out):
    """The processes that have files open in a directory."""
    return [pid for pid in pids if any(file.startswith(f"{out}/") for file in open_files(pid))]


def arguments(obstacle):
    return [obstacle.directory, obstacle.kind]


# ---- what must come out


def check_converted(out, report):
    assert report["rows"] == FILES * FILE_ROWS
    assert leftovers(out) == []
    files = [name for name in below(out) if name.endswith(".mosaic")]
    assert len(files) == report["files"] == ITEMS
    table = fm.read_table(out / "t").sort_by("id")
    assert table.equals(table_of(range(FILES * FILE_ROWS)))


def check_written(out, ids=range(ROWS)):
    assert leftovers(out) == ["t/_SUCCESS"]
    check_rows(out / "t", ids)


def check_rows(path, ids):
    table = fm.read_table(path).sort_by("id")
    assert table.column("id").to_pylist() == list(ids)
    assert table.column("twice").to_pylist() == [i * 2 for i in ids]
    assert table.column("key").to_pylist() == [i % 7 for i in ids]


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table"
    path.mkdir()
    for name, ids in files_of_ids():
        fm.write_table(table_of(ids), path / f"{name}.mosaic")
    fm.MosaicTable.create(path)
    return path


def check_added(path, report, resumed=0):
    """One version for each change, the values of all rows, and no file that no version names."""
    assert report == {"versions": [2, 3, 4], "files": FILES, "resumed": resumed}
    ids = range(FILES * FILE_ROWS)
    found = fm.read_table(path, columns=["id", "twice", "half"])
    assert found["id"].to_pylist() == list(ids)
    assert found["twice"].to_pylist() == [2 * i for i in ids]
    assert found["half"].to_pylist() == [i / 2 for i in ids]
    fm.MosaicTable(path).vacuum(0, keep_versions=100)
    assert everything(path) == named(path)


# ---- a host dies


@pytest.mark.exhaustive
def test_add_columns_survives_a_host(cluster, obstacle, table):
    driver, wall = cluster.driver(), obstacle("all")
    driver.start(add_columns, str(table), arguments(wall))
    ((_, pid),) = driver.wait_for("a task", wall.arrivals)
    assert fm.MosaicTable(table).version == 1
    host = cluster.host_of(pid)
    cluster.turn_off(host)
    wall.open()
    cluster.turn_on(host)
    check_added(table, driver.result())
    assert len(wall.arrivals()) == 2  # it was done again


@pytest.mark.exhaustive
def test_convert_survives_a_host(cluster, obstacle, parquet, out):
    driver, wall = cluster.driver(), obstacle("all")
    driver.start(convert, str(parquet), str(out / "t"), arguments(wall))
    ((_, pid),) = driver.wait_for("a task", wall.arrivals)
    assert not (out / "t").exists()
    host = cluster.host_of(pid)
    cluster.turn_off(host)
    assert not cluster.pids(host)
    wall.open()
    cluster.turn_on(host)
    report = driver.result()
    check_converted(out, report)
    assert len(wall.arrivals()) == 2  # it was done again


@pytest.mark.exhaustive
def test_query_survives_a_host(cluster, obstacle, tmp_path):
    path = tmp_path / "mosaic"
    path.mkdir()
    for name, ids in files_of_ids():
        fm.write_table(table_of(ids), path / f"{name}.mosaic", write_statistics=["id"])
    driver, wall = cluster.driver(), obstacle("all")
    driver.start(query, str(path), arguments(wall))
    ((_, pid),) = driver.wait_for("a task", wall.arrivals)
    host = cluster.host_of(pid)
    cluster.turn_off(host)
    wall.open()
    cluster.turn_on(host)
    result = driver.result()
    ids = {
        key: [i for i in range(2 * FILE_ROWS, FILES * FILE_ROWS) if i % 7 == key]
        for key in range(7)
    }
    assert result["rows"] == [
        [key, len(own), sum(i * 0.5 + 3 for i in own), own[0], own[-1]] for key, own in ids.items()
    ]
    assert (result["columns"], result["files"]) == (3, FILES - 2)
    assert len(wall.arrivals()) == 2


@pytest.mark.exhaustive
def test_write_survives_a_host(cluster, obstacle, out):
    driver, wall = cluster.driver(), obstacle("all")
    driver.start(write, str(out / "t"), "error", arguments(wall))
    ((_, pid),) = driver.wait_for("a task", wall.arrivals)
    host = cluster.host_of(pid)
    cluster.turn_off(host)
    wall.open()
    cluster.turn_on(host)
    driver.result()
    check_written(out)
    assert len(wall.arrivals()) == 2


# ---- a Python process dies


def test_write_survives_its_python_process(cluster, obstacle, out):
    driver, wall = cluster.driver(), obstacle("all")
    driver.start(write, str(out / "t"), "error", arguments(wall))
    ((_, reader),) = driver.wait_for("a task", wall.arrivals)
    host = cluster.host_of(reader)
    (writer,) = driver.wait_for("a writer", lambda: writers(cluster.pids(host), out))
    assert writer != reader
    assert all(address.is_loopback for address in listening(cluster.pids()))
    os.kill(writer, signal.SIGKILL)
    wall.open()
    driver.result()
    check_written(out)
    assert [attempt for attempt, _ in wall.arrivals()] == [0, 1]


@pytest.mark.exhaustive
def test_convert_survives_its_python_process(cluster, obstacle, parquet, out):
    driver, wall = cluster.driver(), obstacle("all")
    driver.start(convert, str(parquet), str(out / "t"), arguments(wall))
    ((_, pid),) = driver.wait_for("a task", wall.arrivals)
    assert writers([pid], out)
    os.kill(pid, signal.SIGKILL)
    wall.open()
    check_converted(out, driver.result())
    assert [attempt for attempt, _ in wall.arrivals()] == [0, 1]


# ---- a task fails


@pytest.mark.exhaustive
def test_write_with_a_task_that_fails_twice(cluster, obstacle, out):
    wall = obstacle("fails")
    cluster.driver().run(write, str(out / "t"), "error", arguments(wall))
    check_written(out)
    assert [attempt for attempt, _ in wall.arrivals()] == [0, 1, 2]


@pytest.mark.exhaustive
def test_convert_with_a_task_that_fails_twice(cluster, obstacle, parquet, out):
    wall = obstacle("fails")
    report = cluster.driver().run(convert, str(parquet), str(out / "t"), arguments(wall))
    check_converted(out, report)
    assert [attempt for attempt, _ in wall.arrivals()] == [0, 1, 2]


# ---- the driver dies


@pytest.mark.exhaustive
def test_convert_goes_on_after_its_driver(cluster, obstacle, parquet, out):
    driver, wall = cluster.driver(), obstacle("all")
    driver.start(convert, str(parquet), str(out / "t"), arguments(wall))
    # All other items are finished, and it would commit as soon as the last is.
    driver.wait_for("the others", lambda: len(list(out.glob(".*/_done/*.json"))) == ITEMS - 1)
    ((_, pid),) = driver.wait_for("a task", wall.arrivals)
    driver.kill()
    wait_for("the end of the task", lambda: pid not in cluster.pids())
    assert not (out / "t").exists()
    wall.open()
    report = cluster.driver().run(convert, str(parquet), str(out / "t"), arguments(wall))
    check_converted(out, report)
    assert report["resumed"] == ITEMS - 1


@pytest.mark.exhaustive
def test_append_after_the_driver_of_another(cluster, obstacle, out):
    path = out / "t"
    before = range(-FILE_ROWS, 0)
    columns = {"id": before, "twice": [i * 2 for i in before], "key": [i % 7 for i in before]}
    fm.write_dataset(pa.table(columns), path)
    driver, wall = cluster.driver(), obstacle("all")
    driver.start(write, str(path), "append", arguments(wall))
    # Files of the other tasks are complete, but not where they would be seen.
    driver.wait_for("another", lambda: list(path.glob("_staging-*/part-*-0000[023]-*.mosaic")))
    driver.wait_for("a task", wall.arrivals)
    driver.kill()
    check_rows(path, before)
    # The task may go on for a while, beside the next.
    wall.open()
    cluster.driver().run(write, str(path), "append", arguments(wall))
    check_rows(path, range(-FILE_ROWS, ROWS))


@pytest.mark.exhaustive
def test_add_columns_goes_on_after_its_driver(cluster, obstacle, table):
    driver, wall = cluster.driver(), obstacle("all")
    driver.start(add_columns, str(table), arguments(wall))
    done = "_staging-columns-*/_done/*.json"
    driver.wait_for("the others", lambda: len(list(table.glob(done))) == FILES - 1)
    ((_, pid),) = driver.wait_for("a task", wall.arrivals)
    driver.kill()
    wait_for("the end of the task", lambda: pid not in cluster.pids())
    assert fm.MosaicTable(table).version == 1
    wall.open()
    report = cluster.driver().run(add_columns, str(table), arguments(wall))
    check_added(table, report, resumed=FILES - 1)


# ---- a task comes twice


@pytest.mark.exhaustive
def test_add_columns_with_speculation(cluster, obstacle, table):
    wall = obstacle("first")
    report = cluster.driver(**SPECULATION).run(add_columns, str(table), arguments(wall))
    let_go(cluster, wall, table)
    check_added(table, report)


@pytest.mark.exhaustive
def test_write_with_speculation(cluster, obstacle, out):
    wall = obstacle("first")
    cluster.driver(**SPECULATION).run(write, str(out / "t"), "error", arguments(wall))
    check_written(out)
    let_go(cluster, wall, out)
    check_written(out)


@pytest.mark.exhaustive
def test_convert_with_speculation(cluster, obstacle, parquet, out):
    wall = obstacle("first")
    report = cluster.driver(**SPECULATION).run(
        convert, str(parquet), str(out / "t"), arguments(wall)
    )
    check_converted(out, report)
    let_go(cluster, wall, out)
    check_converted(out, report)


def let_go(cluster, wall, out):
    """Let the attempt go on that was too slow, if Spark has not ended it yet, and wait for that."""
    assert [attempt for attempt, _ in wall.arrivals()] == [0, 1]
    wall.open()
    wait_for("the end of all writing", lambda: not writers(cluster.pids(), out))

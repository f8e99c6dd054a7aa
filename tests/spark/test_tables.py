"""Spark reads the newest version of a table, and of its files only those that have the columns."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from living import everything
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

import fastmosaic as fm
import fastmosaic.spark as fs

pytest_plugins = ["spark_session"]
pytestmark = [
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]

ROWS = pa.table(
    {
        "day": ["mo", "mo", "tu", "tu"],
        "id": pa.array([1, 2, 3, 4], pa.int64()),
        "a": [1.0, 2.0, 3.0, None],
    }
)


@pytest.fixture
def path(tmp_path):
    """A table with a column file for each base file, then rows without one, and a dropped column."""
    place = str(tmp_path / "t")
    table = fm.MosaicTable.create(place, ROWS, partitioning="day", write_statistics=True)
    table.add_columns({"twice": pc.field("id") * 2, "gone": pc.field("id")}, write_statistics=True)
    table.add_columns({"a": pc.field("a") + 10}, replace=True, write_statistics=True)
    table.append(pa.table({"day": ["we"], "id": pa.array([9], pa.int64())}), write_statistics=True)
    table.drop_columns("gone")
    return place


EXPECTED = [
    (1, 11.0, 2, "mo"),
    (2, 12.0, 4, "mo"),
    (3, 13.0, 6, "tu"),
    (4, None, 8, "tu"),
    (9, None, None, "we"),
]


def rows_of(frame):
    return sorted((tuple(row) for row in frame.collect()), key=str)


def test_all_columns_are_read(spark, path):
    frame = fs.read(spark, path)
    assert frame.columns == ["id", "a", "twice", "day"]
    assert rows_of(frame) == EXPECTED
    loaded = spark.read.format("mosaic").load(path)
    assert rows_of(loaded.select("id", "a", "twice", "day")) == EXPECTED


def test_columns_of_several_files_are_joined_and_filtered(spark, path):
    frame = fs.read(spark, path).filter("twice > 2 and a < 13").select("id", "a", "twice")
    assert rows_of(frame) == [(2, 12.0, 4)]
    report = fs.scans()[-1]
    assert report.columns == 3
    assert report.total_files == 3


def test_a_limit_reads_the_first_rows(spark, path):
    assert len(fs.read(spark, path).select("twice", "id").limit(3).collect()) == 3


def test_aggregates_are_those_of_the_newest_values(spark, path):
    fs.read(spark, path).createOrReplaceTempView("living")
    query = "select count(*), count(twice), min(twice), max(twice), max(id) from living"
    assert rows_of(spark.sql(query)) == [(5, 4, 2, 8, 9)]


def test_a_view_keeps_its_version(spark, path):
    frame = fs.read(spark, path)
    assert frame.count() == 5
    fm.MosaicTable(path).append(pa.table({"day": ["th"], "id": pa.array([10], pa.int64())}))
    assert frame.count() == 5
    assert fs.read(spark, path).count() == 6


@pytest.mark.parametrize("mode", ["error", "ignore", "append", "overwrite"])
def test_a_table_is_not_written(spark, path, mode):
    before = everything(path)
    frame = fs.read(spark, path)
    for target, keys in ((path, ["day"]), (f"{path}/day=mo", None)):
        with pytest.raises(
            PySparkException, match=r"is a table: append rows with MosaicTable\.append"
        ):
            fs.write(frame, target, mode=mode, partition_by=keys)
    assert everything(path) == before


@pytest.mark.parametrize("mode", ["append", "complete"])
def test_a_stream_is_not_written_to_a_table(spark, path, tmp_path, mode):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"id": 1}\n')
    frame = spark.readStream.schema("id long").json(str(tmp_path / "in"))
    before = everything(path)
    writer = (
        (frame.groupBy("id").count() if mode == "complete" else frame)
        .writeStream.format("mosaic")
        .outputMode(mode)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
    )
    with pytest.raises(PySparkException, match="is a table: append rows with"):
        writer.start(path).processAllAvailable()
    assert everything(path) == before


def test_a_table_is_not_a_stream(spark, path, tmp_path):
    query = (
        spark.readStream.format("mosaic")
        .load(path)
        .writeStream.format("memory")
        .queryName("living_stream")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        with pytest.raises(PySparkException, match="is a table, whose files may be replaced"):
            query.processAllAvailable()
    finally:
        query.stop()


def test_a_stream_appends_each_batch_to_a_table_once(spark, tmp_path):
    """By foreachBatch: an append is one commit, so a row with the number of the batch tells."""
    table = tmp_path / "events"
    fm.MosaicTable.create(
        table, pa.table({"id": pa.array([], "int64"), "batch": pa.array([], "int64")})
    )
    attempts = []

    def save(frame, batch):
        events = fm.MosaicTable(table)
        attempts.append(batch)
        if not events.read(columns=["batch"], filters=[("batch", "=", batch)]).num_rows:
            rows = frame.withColumn("batch", F.lit(batch)).toArrow()
            events.append(rows, write_statistics=["batch"])
        if attempts.count(1) == 1:
            raise RuntimeError("the driver ends before Spark notes that the batch is done")

    def run():
        query = (
            spark.readStream.schema("id long")
            .option("maxFilesPerTrigger", 1)
            .json(str(tmp_path / "incoming"))
            .writeStream.foreachBatch(save)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        finally:
            query.stop()

    (tmp_path / "incoming").mkdir()
    for number in range(3):
        (tmp_path / "incoming" / f"{number}.json").write_text(f'{{"id": {number}}}\n')
    with pytest.raises(PySparkException, match="the driver ends"):
        run()
    run()
    assert attempts == [0, 1, 1, 2]
    found = fm.MosaicTable(table).read().to_pydict()
    # Spark takes files of the same time in any order.
    assert {name: sorted(values) for name, values in found.items()} == {
        "id": [0, 1, 2],
        "batch": [0, 1, 2],
    }

"""Writing from Spark: what appears when, whatever fails; modes, partitions, streams."""

import datetime
import os
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

import fastmosaic as fm
from fastmosaic.spark.source.commit import StreamWriteJob, TaskMessage, TaskOutput
from fastmosaic.spark.source.options import save_options
from fastmosaic.spark.source.write import write

pytest_plugins = ["spark_session"]
pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")

EVERY_TYPE = (
    "b boolean, i8 byte, i16 short, i32 int, i64 long, f float, d double, s string, bin binary, "
    "small decimal(9,2), large decimal(38,10), day date, at timestamp, local timestamp_ntz, "
    "list array<int>, lists array<array<string>>, map map<string,double>"
)
ROW = (
    True,
    -128,
    -32768,
    2**31 - 1,
    -(2**63),
    0.5,
    -0.1,
    "Grüße",
    b"\x00\xff",
    Decimal("-1234567.89"),
    Decimal("1234567890123456789012345678.0123456789"),
    datetime.date(1, 1, 1),
    datetime.datetime(2024, 2, 29, 23, 59, 59, 999999, tzinfo=datetime.UTC),
    datetime.datetime(1969, 12, 31, 23, 59, 59, 1),
    [1, None, 3],
    [["a"], None, []],
    {"k": 1.5, "": None},
)


def visible(path):
    """The files of a data set, below its directory."""
    found = (file.relative_to(path) for file in Path(path).rglob("*") if file.is_file())
    return sorted(str(f) for f in found if not any(p.startswith(("_", ".")) for p in f.parts))


def hidden(path):
    """What is left besides the data and `_SUCCESS`, in the directory and next to it."""
    inside = [str(f.relative_to(path)) for f in Path(path).rglob("*") if f.name[0] in "._"]
    beside = [f.name for f in Path(path).parent.iterdir() if f.name[0] in "._"]
    return [name for name in inside + beside if name != "_SUCCESS"]


def ids(path):
    return sorted(fm.read_table(path, columns=["id"]).column("id").to_pylist())


def test_every_type_comes_back(spark, tmp_path):
    path = tmp_path / "t"
    df = spark.createDataFrame([ROW, (None,) * len(ROW)], EVERY_TYPE).coalesce(1)
    write(df, path)
    table = fm.read_table(path)
    # Without a zone, Python's datetimes of Arrow and Spark differ in the session's; it is UTC here.
    values = list(table.to_pylist()[0].values())
    values[-1] = dict(values[-1])
    assert values == list(ROW)
    assert set(table.to_pylist()[1].values()) == {None}
    assert table.schema.field("at").type == pa.timestamp("us", "UTC")
    assert table.schema.field("local").type == pa.timestamp("us")
    back = spark.read.format("mosaic").load(str(path))
    assert back.schema == df.schema
    assert back.collect() == df.collect()


def test_a_zone_of_the_session_does_not_move_an_instant(spark, tmp_path):
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        write(spark.sql("select timestamp'2024-07-01 00:00:00' as at"), tmp_path / "t")
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    (at,) = fm.read_table(tmp_path / "t").column("at").to_pylist()
    assert at == datetime.datetime(2024, 7, 1, 4, tzinfo=datetime.UTC)


@pytest.mark.since("4.3")  # earlier versions have no nanoseconds
def test_a_time_of_day_has_all_of_its_digits(spark, tmp_path):
    query = (
        "select time'12:34:56.789001' as t, cast(time'12:34:56.789' as time(3)) as ms, "
        "cast(time'00:00:00.000001' as time(9)) as ns"
    )
    spark.conf.set("spark.sql.timeType.enabled", "true")
    try:
        write(spark.sql(query), tmp_path / "t")
    finally:
        spark.conf.unset("spark.sql.timeType.enabled")
    table = fm.read_table(tmp_path / "t")
    assert table.schema.types == [pa.time64("us"), pa.time32("ms"), pa.time64("ns")]
    assert table.slice(0, 1).to_pylist() == [
        {
            "t": datetime.time(12, 34, 56, 789001),
            "ms": datetime.time(12, 34, 56, 789000),
            "ns": datetime.time(0, 0, 0, 1),
        }
    ]


def test_many_columns(spark, tmp_path):
    columns = {f"c{n:04d}": [n * row for row in range(20)] for n in range(300)}
    write(spark.createDataFrame(pa.table(columns)).coalesce(1), tmp_path / "t")
    table = fm.read_table(tmp_path / "t")
    assert table.num_columns == 300
    assert table.column("c0299").to_pylist() == [299 * n for n in range(20)]


def test_an_empty_frame_has_its_columns(spark, tmp_path):
    path = tmp_path / "t"
    write(spark.range(0).withColumn("x", F.lit("a")), path)
    assert fm.read_table(path).schema.names == ["id", "x"]
    assert len(visible(path)) == 1
    assert spark.read.format("mosaic").load(str(path)).count() == 0
    write(spark.range(0), path, mode="append")
    assert len(visible(path)) == 1


def test_partitions_without_rows_make_no_files(spark, tmp_path):
    write(spark.range(0, 3, 1, 8), tmp_path / "t")
    assert len(visible(tmp_path / "t")) == 3
    assert fm.read_table(tmp_path / "t").column("id").to_pylist() == [0, 1, 2]


def test_modes(spark, tmp_path):
    path = tmp_path / "t"
    write(spark.range(2), path)
    assert (path / "_SUCCESS").stat().st_size == 0
    with pytest.raises(PySparkException, match="contains files"):
        write(spark.range(9), path)
    with pytest.raises(PySparkException, match="contains files"):
        write(spark.range(9), path, mode="errorifexists")
    before = visible(path)
    write(spark.range(9), path, mode="ignore")
    assert visible(path) == before
    write(spark.range(5, 7), path, mode="append")
    assert ids(path) == [0, 1, 5, 6]
    assert set(before) < set(visible(path))
    write(spark.range(3), path, mode="overwrite")
    assert ids(path) == [0, 1, 2]
    write(spark.range(1), tmp_path / "new", mode="ignore")
    assert ids(tmp_path / "new") == [0]
    assert hidden(path) == []
    with pytest.raises(ValueError, match="invalid mode 'replace'"):
        write(spark.range(1), path, mode="replace")


def test_modes_of_save(spark, tmp_path):
    path = str(tmp_path / "t")
    for mode, expected in (("append", [0]), ("append", [0, 0]), ("overwrite", [0])):
        spark.range(1).write.format("mosaic").mode(mode).save(path)
        assert ids(path) == expected
    for existing in ("error", "ignore"):
        writer = spark.range(7).write.format("mosaic").mode("append").option("existing", existing)
        if existing == "error":
            with pytest.raises(PySparkException, match="contains files"):
                writer.save(path)
        else:
            writer.save(path)
        assert ids(path) == [0]
    # Spark itself lets no others through; should it do so one day, `write` can follow.
    with pytest.raises(PySparkException, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
        spark.range(1).write.format("mosaic").mode("error").save(path)
    with pytest.raises(PySparkException, match="contradict"):
        spark.range(1).write.format("mosaic").mode("overwrite").option("existing", "error").save(
            path
        )


def test_a_table_can_be_made_of_itself(spark, tmp_path):
    path = tmp_path / "t"
    write(spark.range(10), path)
    df = spark.read.format("mosaic").load(str(path))
    write(df.filter("id >= 5"), path, mode="overwrite")
    assert ids(path) == [5, 6, 7, 8, 9]


def test_partitions_become_directories(spark, tmp_path):
    path = tmp_path / "t"
    df = spark.range(0, 12, 1, 2).select(
        "id", (F.col("id") % 3).alias("k"), F.lit("a/b").alias("s")
    )
    write(df, path, partition_by=["s", "k"])
    directories = {str(Path(file).parent) for file in visible(path)}
    assert directories == {f"s=a%2Fb/k={k}" for k in range(3)}
    assert len(visible(path)) == 6
    back = spark.read.format("mosaic").load(str(path))
    assert back.columns == ["id", "s", "k"]
    assert {(r.id, r.k, r.s) for r in back.collect()} == {(i, i % 3, "a/b") for i in range(12)}
    with pytest.raises(PySparkException, match="is partitioned by s, k, but partition_by is k"):
        write(df, path, mode="append", partition_by="k")
    write(df, path, mode="append", partition_by=["s", "k"])
    assert len(ids(path)) == 24


def test_files_end_at_their_size(spark, tmp_path):
    write(spark.range(0, 100, 1, 2), tmp_path / "rows", max_rows_per_file=20)
    assert len(visible(tmp_path / "rows")) == 6
    assert fm.read_table(tmp_path / "rows").column("id").to_pylist() == list(range(100))
    df = spark.range(0, 8000, 1, 1).select(F.sha2(F.col("id").cast("string"), 512).alias("x"))
    write(df, tmp_path / "bytes", max_bytes_per_file=100_000)
    sizes = [(tmp_path / "bytes" / file).stat().st_size for file in visible(tmp_path / "bytes")]
    assert len(sizes) > 3
    assert max(sizes) < 120_000


def test_options_of_the_writer(spark, tmp_path):
    write(
        spark.range(0, 100, 1, 1).withColumn("a,b", F.lit(1)),
        tmp_path / "t",
        compression=None,
        write_statistics=["a,b"],
        row_group_size=40,
        num_buckets=2,
    )
    (file,) = visible(tmp_path / "t")
    with fm.MosaicFile(tmp_path / "t" / file) as opened:
        metadata = opened.metadata
        assert metadata.num_row_groups == 3
        assert metadata.compression == "none"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"max_rows_per_fil": 5},
            "unknown option 'max_rows_per_fil'; did you mean 'max_rows_per_file'",
        ),
        ({"columns": "id"}, "unknown option 'columns'"),
    ],
)
def test_misspelt_options_of_write(spark, tmp_path, options, message):
    with pytest.raises(TypeError, match=message):
        write(spark.range(1), tmp_path / "t", **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"maxRowsPerFil": "5"}, "'maxRowsPerFil'; did you mean 'max_rows_per_file'"),
        ({"columns": "id"}, "option 'columns' is not an option for writing"),
        ({"maxRowsPerFile": "0"}, "option max_rows_per_file='0': must be at least 1"),
        ({"checksum": "maybe"}, "expected true or false"),
        ({"annex": "maybe"}, "expected true or false"),
        ({"existing": "keep"}, "expected one of error, append, overwrite, ignore"),
        ({"compression": "lzo"}, "lzo"),
        ({"use_threads": "true"}, "unknown option 'use_threads'"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        save_options(options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"maxRowsPerFil": "5"}, "'maxrowsperfil'; did you mean 'max_rows_per_file'"),
        ({"write_statistics": "idd"}, "write_statistics: no column named 'idd'; did you mean 'id'"),
        ({"partition_by": "k"}, "partitioning: no column named 'k'"),
    ],
)
def test_wrong_options_leave_nothing(spark, tmp_path, options, message):
    writer = spark.range(1).write.format("mosaic").mode("append").options(**options)
    with pytest.raises(PySparkException, match=message):
        writer.save(str(tmp_path / "below" / "t"))
    assert list(tmp_path.iterdir()) == []


def test_types_that_the_format_lacks(spark, tmp_path):
    df = spark.range(1).selectExpr("id", "struct(interval '1' year as a) as s")
    with pytest.raises(PySparkException, match="column 's': type interval year is not supported"):
        write(df, tmp_path / "t")
    assert list(tmp_path.iterdir()) == []


def test_columns_may_differ_in_what_is_appended(spark, tmp_path):
    path = tmp_path / "t"
    write(spark.sql("select 1 as a, 'x' as b"), path)
    write(spark.sql("select 2L as a, 0.5D as c"), path, mode="append")
    rows = fm.read_table(path).sort_by("a").to_pylist()
    assert rows == [{"a": 1, "b": "x", "c": None}, {"a": 2, "b": None, "c": 0.5}]
    before = visible(path)
    with pytest.raises(PySparkException, match=r"column 'b' is string in .* and int32 in the Data"):
        write(spark.sql("select 2 as b"), path, mode="append")
    assert visible(path) == before
    assert hidden(path) == []


def test_a_file_that_is_no_mosaic_file_is_named(spark, tmp_path):
    (tmp_path / "notes.txt").write_text("not to be lost")
    with pytest.raises(PySparkException, match=r"notes\.txt"):
        write(spark.range(1), tmp_path, mode="overwrite")
    (tmp_path / "bad.mosaic").write_bytes(b"x" * 100)
    with pytest.raises(PySparkException, match=r"bad.mosaic.* not a Mosaic file"):
        write(spark.range(1), tmp_path, mode="append")
    assert visible(tmp_path) == ["bad.mosaic", "notes.txt"]


@pytest.mark.parametrize(
    ("mode", "staging"),
    [
        ("append", True),
        ("overwrite", False),
        ("error", True),
        pytest.param("append", False, marks=pytest.mark.exhaustive),
        pytest.param("overwrite", True, marks=pytest.mark.exhaustive),
        pytest.param("error", False, marks=pytest.mark.exhaustive),
    ],
)
def test_a_job_that_fails_leaves_what_was_there(spark, tmp_path, mode, staging):
    path = tmp_path / "t"
    if mode != "error":
        write(spark.range(3), path)
    bad = spark.range(0, 40, 1, 4).select(
        F.when(F.col("id") < 35, F.col("id")).otherwise(F.raise_error("on purpose")).alias("id")
    )
    with pytest.raises(PySparkException, match="on purpose"):
        write(bad, path, mode=mode, staging=staging, max_rows_per_file=2)
    if mode == "error":
        assert list(tmp_path.iterdir()) == []
    else:
        assert ids(path) == [0, 1, 2]
        assert hidden(path) == []


def test_without_staging(spark, tmp_path):
    path = tmp_path / "t"
    write(spark.range(0, 10, 1, 2), path, staging=False)
    assert ids(path) == list(range(10))
    assert len(visible(path)) == 2  # and not the one that would have stood for an empty frame
    write(spark.range(10, 12), path, staging=False, mode="append")
    assert ids(path) == list(range(12))
    write(spark.range(2), path, staging=False, mode="overwrite")
    assert ids(path) == [0, 1]
    with pytest.raises(PySparkException, match="contains files"):
        write(spark.range(2), path, staging=False)
    assert hidden(path) == []
    assert (path / "_SUCCESS").exists()


# ---- tasks that fail and succeed again


def failing(failures, how):
    """Lets attempts at a task fail in the middle of its rows."""

    def rows(batches):
        import os
        import signal

        from pyspark import TaskContext

        context = TaskContext.get()
        for number, batch in enumerate(batches):
            if context.partitionId() == 1 and number == 3 and context.attemptNumber() < failures:
                if how == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                raise RuntimeError("on purpose")
            yield batch

    return rows


@pytest.mark.parametrize(
    ("how", "staging"),
    [
        ("raise", True),
        ("kill", False),
        pytest.param("raise", False, marks=pytest.mark.exhaustive),
        pytest.param("kill", True, marks=pytest.mark.exhaustive),
    ],
)
def test_tasks_that_are_repeated_leave_no_row_twice(spark, tmp_path, how, staging):
    path = tmp_path / "t"
    options = {"max_rows_per_file": 10, "staging": staging}
    rows = "spark.sql.execution.arrow.maxRecordsPerBatch"
    spark.conf.set(rows, "10")
    try:
        df = spark.range(0, 100, 1, 2).mapInArrow(failing(2, how), "id long")
        write(df, path, **options)
        df = spark.range(0, 100, 1, 2).mapInArrow(failing(3, how), "id long")
        reason = "on purpose" if how == "raise" else "Python worker exited unexpectedly"
        with pytest.raises((PySparkException, Py4JJavaError), match=reason):
            write(df, path, mode="overwrite", **options)
    finally:
        spark.conf.unset(rows)
    assert ids(path) == list(range(100))
    assert len(visible(path)) == 10
    assert hidden(path) == []
    assert (path / "_SUCCESS").exists()


# ---- streams


@pytest.fixture
def stream(spark, tmp_path):
    """Runs a stream over JSON files to the end; each file is a batch."""
    incoming = tmp_path / "incoming"
    incoming.mkdir()

    def run(rows, path, *, mode="append", checkpoint="checkpoint", aggregate=False, **options):
        for number, some in enumerate(rows):
            text = "".join(f'{{"id": {row}}}\n' for row in some)
            (incoming / f"{len(list(incoming.iterdir()))}-{number}.json").write_text(text)
        df = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).json(str(incoming))
        if aggregate:
            df = df.groupBy().agg(F.count("*").alias("n"))
        query = (
            df.writeStream.format("mosaic")
            .outputMode(mode)
            .option("checkpointLocation", str(tmp_path / checkpoint))
            .options(**options)
            .trigger(availableNow=True)
            .start(str(path))
        )
        try:
            query.awaitTermination()
        finally:
            query.stop()

    return run


def forget(tmp_path, batch):
    """As if Spark had been killed before it wrote down that the sink has committed a batch."""
    for name in (f"{batch}", f".{batch}.crc"):
        (tmp_path / "checkpoint" / "commits" / name).unlink()


def test_a_stream_goes_on_from_its_checkpoint(stream, tmp_path):
    path = tmp_path / "t"
    stream([[1, 2], [3]], path)
    assert ids(path) == [1, 2, 3]
    stream([[4]], path)
    assert ids(path) == [1, 2, 3, 4]
    assert hidden(path) == ["_commits"]


def test_a_batch_that_comes_again_is_not_written_again(stream, tmp_path):
    path = tmp_path / "t"
    stream([[1, 2], [3]], path)
    forget(tmp_path, 1)
    before = visible(path)
    (marks,) = (path / "_commits").iterdir()
    (marks / "0").touch()  # as if the process had been killed before it removed this
    stream([], path)
    assert (visible(path), os.listdir(marks)) == (before, ["1"])
    stream([[4]], path)
    assert ids(path) == [1, 2, 3, 4]
    assert set(before) < set(visible(path))
    assert hidden(path) == ["_commits"]


def interrupt(path, batch):
    """As if the process had been killed in the commit of a batch, when it had moved some files."""
    (query,) = (path / "_commits").iterdir()
    staging = path / f"_staging-{query.name}"
    (staging / query.relative_to(path)).mkdir(parents=True)
    files = [f"{query.relative_to(path)}/{batch}", max(visible(path))]
    (path / files[0]).rename(staging / files[0])
    (staging / "_moving").write_text("\n".join(files))
    return staging, files[1]


@pytest.mark.parametrize("is_moved", [True, False])
def test_a_commit_that_was_interrupted_is_completed(stream, tmp_path, is_moved):
    path = tmp_path / "t"
    stream([[1, 2], [3]], path)
    forget(tmp_path, 1)
    staging, file = interrupt(path, 1)
    if not is_moved:
        (path / file).rename(staging / file)
    stream([[4]], path)
    assert ids(path) == [1, 2, 3, 4]
    assert (path / file).exists()  # another stream may have read it
    assert hidden(path) == ["_commits"]


def test_a_commit_that_was_interrupted_and_a_batch_that_fails(stream, tmp_path):
    """Spark aborts the batch when it is tried again, and a task fails: its commit has begun before."""
    path = tmp_path / "t"
    stream([[1, 2], [3]], path)
    forget(tmp_path, 1)
    staging, file = interrupt(path, 1)
    job = StreamWriteJob(
        TaskOutput(pa.schema({"id": pa.int64()}), save_options({})), str(path), False
    )
    job.abort([TaskMessage((), staging.name.removeprefix("_staging-")), None])
    assert ids(path) == [1, 2, 3]
    stream([[4]], path)
    assert ids(path) == [1, 2, 3, 4]
    assert (path / file).exists()
    assert hidden(path) == ["_commits"]


@pytest.mark.exhaustive
def test_two_queries_write_to_one_directory(stream, tmp_path):
    path = tmp_path / "t"
    stream([[1], [2]], path)
    stream([], path, checkpoint="another")
    assert ids(path) == [1, 1, 2, 2]


def test_a_stream_of_complete_results_replaces_them(stream, tmp_path):
    path = tmp_path / "t"
    stream([[1, 2], [3]], path, mode="complete", aggregate=True)
    assert fm.read_table(path).to_pydict() == {"n": [3]}
    stream([[4]], path, mode="complete", aggregate=True)
    assert fm.read_table(path).to_pydict() == {"n": [4]}
    assert len(visible(path)) == 1
    assert hidden(path) == []


@pytest.mark.exhaustive
def test_options_of_a_stream(stream, tmp_path):
    stream([[1, 2], [2]], tmp_path / "t", mode="append", aggregate=False, write_statistics="id")
    assert ids(tmp_path / "t") == [1, 2, 2]
    with pytest.raises(
        PySparkException, match="options existing and staging are not supported for streams"
    ):
        stream([[1]], tmp_path / "t", staging="false")

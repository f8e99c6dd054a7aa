"""Statements of SQL on tables of a catalog, compared with tables of Parquet where Spark has both."""

import os
import re
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from living import everything
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

import fastmosaic as fm
import fastmosaic.spark as fs

pytest_plugins = ["spark_session", "spark_lake"]
pytestmark = [
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]

ROWS = "(1, 'mo', 1.5d), (2, 'mo', double('NaN')), (3, 'tu', -0.0d), (4, null, null)"


@pytest.fixture
def parquet(spark):
    """Names of tables in Spark's own catalog, which are dropped in the end."""
    names = ["spark_catalog.default.t", "spark_catalog.default.u"]
    yield names[0]
    for name in names:
        spark.sql(f"drop table if exists {name}")


@pytest.fixture
def t(lake):
    lake.sql(
        "create table lake.t (id bigint, day string, a double) partitioned by (day)",
        f"insert into lake.t values {ROWS}",
    )
    return lake


# ---- the same as with Parquet

CREATE = "create table {t} (id bigint, a double, day string) {using} partitioned by (day)"
FIRST = "insert into {t} values (1, 1.5, 'mo'), (2, null, 'mo'), (3, 3.5, 'tu'), (4, 4.5, null)"
STATEMENTS = {
    "values": [FIRST],
    "columns by name": [FIRST, "insert into {t} (day, ID) values ('we', 9)"],
    "by name": [FIRST, "insert into {t} by name select 'we' as day, 9L as id, 2d as a"],
    "select": [FIRST, "insert into {t} select id + 10, a, day from {t} where day = 'mo'"],
    "a partition": [FIRST, "insert into {t} partition (day = 'tu') select 9, 2.5"],
    "nothing": [FIRST, "insert into {t} select * from {t} where id > 100"],
    "overwrite": [FIRST, "insert overwrite {t} values (9, 9.0, 'tu')"],
    "overwrite a partition": [FIRST, "insert overwrite {t} partition (day = 'mo') values (9, 9.0)"],
    "overwrite with nothing": [FIRST, "insert overwrite {t} select 1L, 1d, 'x' where false"],
    "truncate": [FIRST, "truncate table {t}"],
    "add columns": [FIRST, "alter table {t} add columns (n int, s struct<x:int,y:string>)"],
    "a new column": [
        FIRST,
        "alter table {t} add columns (n int)",
        "insert into {t} (id, n, day) values (9, 5, 'mo')",
    ],
}


@pytest.mark.parametrize("statements", STATEMENTS.values(), ids=STATEMENTS)
def test_tables_have_the_rows_of_parquet(lake, parquet, statements):
    if lake.spark.version.startswith("4.0") and re.search(
        r"\((day, ID|id, n, day)\)", statements[-1]
    ):
        # There, Spark has no nulls for columns that an insert into such a table leaves out.
        lake.sql(*(text.format(t="lake.t", using="") for text in (CREATE, *statements[:-1])))
        found = lake.error(statements[-1].format(t="lake.t"))
        assert found == "INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_FIND_DATA"
        return
    for one, using in ((parquet, "using parquet"), ("lake.t", "")):
        lake.sql(*(text.format(t=one, using=using) for text in (CREATE, *statements)))
    names = lake.spark.table(parquet).columns
    assert sorted(lake.spark.table("lake.t").columns) == sorted(names)
    both = [lake.sql(f"select {', '.join(names)} from {one}") for one in (parquet, "lake.t")]
    assert both[0] == both[1]


def test_a_table_overwrites_itself(lake):
    lake.sql(CREATE.format(t="lake.t", using=""), FIRST.format(t="lake.t"))
    lake.sql("insert overwrite lake.t select id + 1, a, day from lake.t where id < 3")
    assert lake.sql("select * from lake.t") == [(2, 1.5, "mo"), (3, None, "mo")]


def test_dynamic_partitions_are_those_of_parquet(lake, parquet):
    lake.spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        for one, using in ((parquet, "using parquet"), ("lake.t", "")):
            for text in (
                CREATE,
                FIRST,
                "insert overwrite {t} values (9, 9.0, 'tu'), (10, 1.0, 'we'), (11, 1.0, null)",
                "insert overwrite {t} partition (day = 'we') values (12, 0.0)",
            ):
                lake.sql(text.format(t=one, using=using))
    finally:
        lake.spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    query = "select id, a, day from "
    assert lake.sql(query + "lake.t") == lake.sql(query + parquet)
    assert [row[0] for row in lake.sql("select id from lake.t order by id")] == [1, 11, 12, 2, 9]


ERRORS = {
    "select * from {t}x": "TABLE_OR_VIEW_NOT_FOUND",
    "insert into {t}x values (1)": "TABLE_OR_VIEW_NOT_FOUND",
    "drop table {t}x": "TABLE_OR_VIEW_NOT_FOUND",
    "describe {t}x": "TABLE_OR_VIEW_NOT_FOUND",
    "alter table {t}x add columns (n int)": "TABLE_OR_VIEW_NOT_FOUND",
    "truncate table {t}x": "TABLE_OR_VIEW_NOT_FOUND",
    "create table {t} (id int) {using}": "TABLE_OR_VIEW_ALREADY_EXISTS",
    "create table {t} {using} as select 1 as x": "TABLE_OR_VIEW_ALREADY_EXISTS",
    "select missing from {t}": "UNRESOLVED_COLUMN.WITH_SUGGESTION",
    "insert into {t} values ('x', 'y', 'z')": None,
    "insert into {t} values (1)": "INSERT_COLUMN_ARITY_MISMATCH.NOT_ENOUGH_DATA_COLUMNS",
    "insert into {t} (id, id, day) values (1, 2, 'x')": "COLUMN_ALREADY_EXISTS",
    "alter table {t} add columns (ID int)": None,
}


@pytest.mark.parametrize("statement", ERRORS)
def test_errors_are_those_of_parquet(lake, parquet, statement):
    for one, using in ((parquet, "using parquet"), ("lake.t", "")):
        lake.sql(CREATE.format(t=one, using=using))
        found = lake.error(statement.format(t=one, using=using))
        assert ERRORS[statement] in (found, None)
    assert lake.sql("select * from lake.t") == []


def test_namespaces_that_are_missing_or_not_empty(lake):
    assert lake.error("create table lake.no.t (x int)") == "SCHEMA_NOT_FOUND"
    assert lake.error("create table lake.no.t as select 1 as x") == "SCHEMA_NOT_FOUND"
    assert lake.error("select * from lake.no.t") == "TABLE_OR_VIEW_NOT_FOUND"
    assert lake.error("show tables in lake.no") == "SCHEMA_NOT_FOUND"
    assert lake.error("drop namespace lake.no") == "SCHEMA_NOT_FOUND"
    assert lake.error("use lake.no") == "SCHEMA_NOT_FOUND"
    lake.sql("create namespace lake.ns", "create table lake.ns.t (x int)")
    assert lake.error("create namespace lake.ns") == "SCHEMA_ALREADY_EXISTS"
    assert lake.error("drop namespace lake.ns") == "SCHEMA_NOT_EMPTY"


# ---- names


def test_namespaces_are_directories(lake):
    lake.sql("create namespace lake.a.b comment 'what is in it'", "create table lake.a.b.t (x int)")
    assert os.path.isdir(lake.path / "a" / "b" / "t" / "_mosaic")
    assert lake.sql("show namespaces in lake") == [("a",)]
    assert lake.sql("show namespaces in lake.a") == [("a.b",)]
    assert lake.sql("show tables in lake.a.b") == [("a.b", "t", False)]
    assert ("Comment", "what is in it") in lake.sql("describe namespace lake.a.b")
    lake.sql("alter namespace lake.a.b set properties ('k' = 'v')")
    assert ("Properties", "((k,v))") in lake.sql("describe namespace extended lake.a.b")
    lake.sql("use lake.a.b", "insert into t values (7)")
    assert lake.sql("select * from t") == [(7,)]
    assert [one.name for one in lake.spark.catalog.listTables()] == ["t"]
    assert [one.name for one in lake.spark.catalog.listTables("lake.a.b")] == ["t"]
    lake.spark.catalog.setCurrentCatalog("spark_catalog")
    lake.sql("drop namespace lake.a cascade")
    assert lake.sql("show namespaces in lake") == []
    assert not os.listdir(lake.path)


NAMES = [
    "with.dot",
    "with space ",
    "back`tick",
    "ünï中",
    "a/b",
    ".hidden",
    "_under",
    "k=v",
    "50%",
    "A",
]


@pytest.mark.parametrize("name", NAMES)
def test_names_of_tables_and_columns(lake, name):
    quoted = f"`{name.replace('`', '``')}`"
    table = f"lake.{quoted}.{quoted}"
    lake.sql(
        f"create namespace lake.{quoted}",
        f"create table {table} ({quoted} int, day string) partitioned by (day)",
        f"insert into {table} values (5, 'mo')",
        f"insert overwrite {table} partition (day = 'mo') values (6)",
    )
    assert lake.sql(f"select {quoted} from {table} where {quoted} > 5") == [(6,)]
    assert [row[1] for row in lake.sql(f"show tables in lake.{quoted}")] == [name]
    assert len(lake.sql("show namespaces in lake")) == 1
    lake.sql(f"alter table {table} add columns ({quoted[:-1]}2` int)", f"drop table {table}")
    assert lake.sql(f"show tables in lake.{quoted}") == []


def test_partition_columns_with_odd_names_and_values(lake):
    lake.sql("create table lake.t (x int, `a.b/c` string) partitioned by (`a.b/c`)")
    lake.sql("insert into lake.t values (1, 'x/y=z'), (2, '__HIVE_DEFAULT_PARTITION__'), (3, null)")
    assert lake.sql("select x from lake.t where `a.b/c` = 'x/y=z'") == [(1,)]
    assert lake.sql("select x from lake.t where `a.b/c` is null") == [(3,)]
    lake.sql("delete from lake.t where `a.b/c` = '__HIVE_DEFAULT_PARTITION__'")
    assert lake.sql("select x from lake.t") == [(1,), (3,)]


def test_columns_are_found_in_any_case(t):
    assert t.sql("select ID, Day from lake.t where iD = 3 and DAY = 'tu'") == [(3, "tu")]
    t.sql("delete from lake.t where Id = 3", "alter table lake.t drop column A")
    t.sql("insert into lake.t (DAY, ID) values ('x', 9)")
    assert t.sql("select * from lake.t where id > 3") == [(4, None), (9, "x")]


def test_use_and_views(t):
    t.sql("use lake", "create temporary view v as select id from t where day = 'mo'")
    assert t.sql("show tables") == [("", "t", False)]
    t.sql("use spark_catalog", "create view pv as select id from lake.t where day = 'mo'")
    try:
        t.sql("insert into lake.t values (9, 'mo', 1)")
        assert t.sql("select * from v") == t.sql("select * from pv") == [(1,), (2,), (9,)]
    finally:
        t.sql("drop view pv", "drop view v")


def test_functions_of_the_catalog(t):
    catalog = t.spark.catalog
    assert "lake" in [one.name for one in catalog.listCatalogs()]
    assert catalog.tableExists("lake.t")
    assert not catalog.tableExists("lake.u")
    columns = {one.name: (one.dataType, one.isPartition) for one in catalog.listColumns("lake.t")}
    assert columns == {"id": ("bigint", False), "day": ("string", True), "a": ("double", False)}
    assert catalog.getTable("lake.t").tableType == "MANAGED"
    catalog.setCurrentCatalog("lake")
    assert catalog.currentCatalog() == "lake"
    assert t.spark.table("t").count() == 4


def test_describe(t, monkeypatch):
    assert t.sql("describe lake.t")[-3:] == [
        ("day", "string", None),
        ("day", "string", None),
        ("id", "bigint", None),
    ]
    found = {row[0]: row[1] for row in t.sql("describe extended lake.t")}
    assert found["Location"] == str(t.path / "t")
    assert found["Provider"] == "mosaic"
    for one in ("version=2", "rows=4", "files=3", "operation=append"):
        assert one in found["Table Properties"]
    assert "PARTITIONED BY (day)" in t.sql("show create table lake.t")[0][0]
    monkeypatch.chdir(t.path.parent)
    fs.catalog(t.spark, "relative", t.path.name)
    found = {row[0]: row[1] for row in t.sql("describe extended relative.t")}
    assert found["Location"] == str(t.path / "t")


def test_rename_and_drop(t):
    t.sql("create namespace lake.ns", "alter table lake.t rename to ns.u")
    assert t.sql("select count(*) from lake.ns.u") == [(4,)]
    assert t.error("select * from lake.t") == "TABLE_OR_VIEW_NOT_FOUND"
    t.sql("create table lake.w (x int)")
    assert t.error("alter table lake.w rename to ns.u") == "TABLE_OR_VIEW_ALREADY_EXISTS"
    t.sql("alter table lake.w rename to lake.ns.v", "alter table lake.ns.v rename to lake.w")
    with pytest.raises(PySparkException, match=r"there is no namespace no\.where in lake"):
        t.sql("alter table lake.w rename to no.where.u")
    t.sql("drop table lake.ns.u", "drop table lake.w purge", "drop table if exists lake.w")
    assert t.sql("show tables in lake") == []
    t.sql("create table lake.t (other string)")
    assert t.sql("select * from lake.t") == []
    assert sorted(os.listdir(t.path)) == ["ns", "t"]


def test_a_table_with_foreign_files_is_not_dropped(t):
    (t.path / "t" / "notes.txt").write_text("mine")
    with pytest.raises(PySparkException, match=r"notes\.txt is not a \.mosaic file"):
        t.sql("drop table lake.t")
    assert t.sql("select count(*) from lake.t") == [(4,)]


# ---- versions


def test_time_travel(t):
    times = [one.time for one in fm.MosaicTable(t.path / "t").history()]
    t.sql("delete from lake.t where id < 3", "alter table lake.t drop column a")
    assert t.sql("select * from lake.t") == [(3, "tu"), (4, None)]
    assert t.sql("select count(a) from lake.t version as of 2") == [(3,)]
    assert t.sql("select count(*) from lake.t version as of 1") == [(0,)]
    at = times[1].strftime("%Y-%m-%d %H:%M:%S.%f")
    assert t.sql(f"select count(*), max(id) from lake.t timestamp as of '{at}'") == [(4, 4)]
    newest = t.spark.read.option("versionAsOf", 3).table("lake.t")
    assert newest.columns == ["id", "day", "a"]
    with pytest.raises(PySparkException, match="no version that is as old"):
        t.sql("select * from lake.t timestamp as of '2020-01-01'")
    with pytest.raises(PySparkException, match="expected a number"):
        t.sql("select * from lake.t version as of 'x'")


def test_a_version_that_vacuum_has_removed(t):
    t.sql("delete from lake.t where id < 3")
    fm.MosaicTable(t.path / "t").vacuum(0)
    with pytest.raises(PySparkException, match="has no version 2: the oldest one is"):
        t.sql("select * from lake.t version as of 2")
    assert t.sql("select id from lake.t") == [(3,), (4,)]


def test_a_query_reads_one_version(t):
    frame = t.spark.table("lake.t")
    both = frame.select("id").union(frame.select("id"))
    t.sql("insert into lake.t values (9, 'mo', 1)")
    assert both.count() == 8
    assert t.sql("select count(*) from lake.t") == [(5,)]


def test_explain_writes_nothing(t):
    before = everything(t.path)
    t.sql("explain insert into lake.t values (9, 'mo', 1)")
    t.sql("explain create table lake.u as select 1 as x")
    assert everything(t.path) == before


def test_a_cached_table_is_not_stale(t):
    t.sql("cache table lake.t")
    try:
        assert t.sql("select count(*) from lake.t") == [(4,)]
        t.sql("insert into lake.t values (9, 'mo', 1)")
        assert t.sql("select max(id) from lake.t") == [(9,)]
    finally:
        t.spark.catalog.clearCache()


# ---- what is read


def test_only_needed_columns_files_and_row_groups_are_read(lake):
    rows = pa.table({"k": np.repeat(["a", "b"], 100), "x": np.arange(200), "y": np.arange(200)})
    fm.MosaicTable.create(
        lake.path / "t", rows, partitioning="k", row_group_size=25, write_statistics=True
    )
    assert lake.sql("select sum(y) from lake.t where k = 'b' and x >= 180") == [(3790,)]
    report = fs.scans()[-1]
    assert (report.name, report.columns, report.total_columns) == ("lake.t", 3, 3)
    assert (report.files, report.total_files, report.row_groups) == (1, 2, 1)
    lake.sql("select x from lake.t")
    assert fs.scans()[-1].columns == 1
    assert lake.sql("select count(*), max(x) from lake.t") == [(200, 199)]
    assert fs.scans()[-1].num_bytes == 0
    plan = lake.sql("explain select x from lake.t where k = 'a'")[0][0]
    assert "mosaic lake.t: columns 2 of 3, files 1 of 2" in plan


def test_the_hidden_column_tells_the_file(t):
    ((path,),) = t.sql("select distinct _metadata.file_path from lake.t where day = 'tu'")
    (expected,) = (one for one in fm.MosaicTable(t.path / "t").files if "day=tu" in one)
    assert path.endswith(f"{t.path}/t/{expected}")


def test_a_wide_table(lake):
    names = [f"f{number:05}" for number in range(10_000)]
    random = np.random.default_rng(1)
    rows = pa.table([pa.array(random.random(100)) for _ in names], names)
    fm.MosaicTable.create(lake.path / "wide", rows)
    size = os.path.getsize(next((lake.path / "wide").glob("*.mosaic")))
    expected = pc.sum(rows["f07000"]).as_py()
    assert lake.sql("select sum(f07000) from lake.wide") == [(pytest.approx(expected),)]
    report = fs.scans()[-1]
    assert (report.columns, report.total_columns) == (1, 10_000)
    assert report.num_bytes < size / 50


def test_joins_of_tables_at_different_versions(t):
    t.sql("insert into lake.t values (5, 'mo', 1)")
    query = """
        select count(*) from lake.t now left anti join lake.t version as of 2 then
        on now.id = then.id
    """
    assert t.sql(query) == [(1,)]


# ---- datasets and files


def test_datasets_and_files_are_read_only(lake):
    rows = pa.table({"day": ["mo", "tu"], "x": [1, 2]})
    fm.write_dataset(rows, lake.path / "ns" / "plain", partitioning="day")
    fm.write_table(rows, lake.path / "one.mosaic")
    assert lake.sql("show tables in lake") == [("", "one", False)]
    assert lake.sql("show tables in lake.ns") == [("ns", "plain", False)]
    assert lake.sql("select x from lake.ns.plain where day = 'tu'") == [(2,)]
    assert lake.sql("select * from lake.one") == [("mo", 1), ("tu", 2)]
    for statement in (
        "insert into lake.ns.plain values (3, 'we')",
        "insert overwrite lake.ns.plain values (3, 'we')",
        "delete from lake.ns.plain where x = 1",
        "truncate table lake.ns.plain",
        "alter table lake.ns.plain add columns (n int)",
        "replace table lake.ns.plain as select 1 as x",
    ):
        with pytest.raises(PySparkException, match=r"MosaicTable\.create"):
            lake.sql(statement)
    with pytest.raises(PySparkException, match="create a table as select"):
        lake.sql("insert into lake.one values ('we', 3)")
    with pytest.raises(PySparkException, match="without versions"):
        lake.sql("select * from lake.one version as of 1")
    fm.MosaicTable.create(lake.path / "ns" / "plain")
    lake.sql("insert into lake.ns.plain values (3, 'we')")
    assert lake.sql("select count(*) from lake.ns.plain") == [(3,)]
    lake.sql("drop table lake.one", "drop namespace lake.ns cascade")
    assert not os.listdir(lake.path)


def test_columns_that_python_has_added_and_dropped(t):
    table = fm.MosaicTable(t.path / "t")
    table.add_columns({"twice": pc.field("id") * 2})
    assert t.spark.table("lake.t").columns == ["id", "day", "a", "twice"]
    assert t.sql("select twice from lake.t where id = 3") == [(6,)]
    t.sql("insert into lake.t values (9, 'mo', 1, 100)", "alter table lake.t drop column a")
    t.sql("insert overwrite lake.t select * from lake.t where id = 9")
    assert t.sql("select * from lake.t") == [(9, "mo", 100)]
    assert fm.MosaicTable(t.path / "t").verify().ok


# ---- what cannot be done

REFUSED = {
    "create table lake.b (x int) using csv": "leave USING out",
    "create table lake.b (x int) location '/tmp/b'": "leave LOCATION out",
    "create table lake.b (x int) tblproperties ('k' = 'v')": "table properties",
    "create table lake.b (x int comment 'c')": "comments",
    "create table lake.b (x varchar(5))": "varchar",
    "create table lake.b (x string collate UNICODE)": "collations",
    "create table lake.b (x interval year to month)": "number of months",
    "create table lake.b (x variant)": "to_json",
    "create table lake.b (x int, y timestamp) partitioned by (days(y))": r"not by days\(y\)",
    "create table lake.b (x int, y array<int>) partitioned by (y)": "cannot name directories",
    "create table lake.b (x int) partitioned by (x)": "at least one must remain",
    "create table lake.b as select cast('x' as variant) as v": "to_json",
    "alter table lake.t rename column id to other": "cannot be renamed",
    "alter table lake.t alter column id comment 'c'": "comments",
    "alter table lake.t add columns (n int first)": "come last",
    "alter table lake.t add columns (n int not null)": "must be nullable",
    "alter table lake.t add columns (v variant)": "to_json",
    "alter table lake.t drop column day": "partition column",
    "alter table lake.t set tblproperties ('k' = 'v')": "table properties",
    "delete from lake.t where id % 2 = 0": "Cannot delete from table lake.t",
    "update lake.t set id = 1": "UPDATE",
}


@pytest.mark.parametrize("statement", REFUSED)
def test_what_is_not_supported_is_refused(lake, statement):
    lake.sql("create table lake.t (id bigint, day string) partitioned by (day)")
    with pytest.raises(PySparkException, match=REFUSED[statement]):
        lake.sql(statement)
    assert lake.sql("show tables in lake") == [("", "t", False)]
    assert os.listdir(lake.path) == ["t"]
    assert fm.MosaicTable(lake.path / "t").version == 1


@pytest.mark.parametrize(
    "statement",
    [
        "create table u using mosaic location '{path}'",
        "create table u using mosaic options (path '{path}')",
        "create table u using mosaic as select 1 as x",
    ],
)
def test_tables_of_sparks_own_catalog_are_refused(lake, statement):
    fm.write_dataset(pa.table({"x": [1]}), lake.path / "plain")
    with pytest.raises(PySparkException, match=r"use fastmosaic\.spark\.catalog"):
        lake.sql(statement.format(path=lake.path / "plain"))
    lake.sql("drop table if exists u")


def test_wrong_arguments(spark, tmp_path):
    for name in ("", "spark_catalog"):
        with pytest.raises(ValueError, match="cannot be the name of a catalog"):
            fs.catalog(spark, name, tmp_path)
    with pytest.raises(TypeError, match="nonsense"):
        fs.catalog(spark, "lake", tmp_path, nonsense=1)
    with pytest.raises(ValueError, match="not options of a table"):
        fs.catalog(spark, "lake", tmp_path, partition_by=["x"])
    with pytest.raises(ValueError, match="web server"):
        fs.catalog(spark, "lake", "http://127.0.0.1/x")


def test_each_session_has_its_own_catalogs(t):
    other = t.spark.newSession()
    with pytest.raises(PySparkException) as caught:
        other.sql("select * from lake.t")
    assert caught.value.getCondition() == "TABLE_OR_VIEW_NOT_FOUND"
    fs.catalog(other, "lake", t.path)
    assert other.sql("select * from lake.t").count() == 4
    assert t.sql("select count(*) from lake.t") == [(4,)]


def test_options_of_the_catalog_and_of_a_write(lake):
    fs.catalog(lake.spark, "lake", lake.path, write_statistics=True, row_group_size=10)
    lake.sql("create table lake.t as select id from range(0, 40, 1, 1)")
    assert lake.sql("select id from lake.t where id = 35") == [(35,)]
    assert fs.scans()[-1].row_groups == 1
    rows = lake.spark.range(0, 40, 1, 1)
    rows.writeTo("lake.u").option("row_group_size", "20").create()
    lake.sql("select id from lake.u where id = 35")
    assert fs.scans()[-1].num_rows == 20
    with pytest.raises(PySparkException, match="unknown option 'nonsense'"):
        rows.writeTo("lake.t").option("nonsense", "1").append()
    with pytest.raises(PySparkException, match="not options of a table"):
        rows.writeTo("lake.t").option("staging", "false").append()


@pytest.mark.since("4.2")  # PySpark 4.0 and 4.1 leave sockets to the garbage collector
def test_no_warnings(lake):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lake.spark.range(3).select(F.col("id")).writeTo("lake.w").create()
        assert lake.sql("select count(*) from lake.w") == [(3,)]

"""Reading a table gives the same rows through every door."""

import pickle
import subprocess
import sys

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import fastmosaic as fm
from fastmosaic.dataset.fileset import FileSet
from fastmosaic.dataset.tasks import share_out

COUNT = 60


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Three days; columns of base files, of column files, replaced, dropped, absent in some files."""
    path = str(tmp_path_factory.mktemp("doors") / "t")
    table = fm.MosaicTable.create(path, data(0, 40), partitioning="day", row_group_size=6)
    table.add_columns({"b": pc.field("a") * 2, "t": pc.field("id").cast(pa.string())})
    table.add_columns(
        lambda batch: {"s": [{"x": i.as_py(), "y": [str(i)]} for i in batch["id"]]}, inputs=["id"]
    )
    table.append(data(40, 50), row_group_size=6)
    table.add_columns({"a": pc.field("a") + 1000}, replace=True)
    table.append(data(50, COUNT).select(["day", "id", "gone"]))
    table.drop_columns("gone")
    return path


def data(start, end):
    ids = range(start, end)
    return pa.table(
        {
            "day": ["mo" if one % 3 == 0 else "tu" if one % 3 == 1 else None for one in ids],
            "id": ids,
            "a": [None if one % 11 == 0 else one for one in ids],
            "gone": ["gone"] * len(ids),
        }
    )


def expected():
    for i in range(COUNT):
        is_early = i < 40
        yield {
            "id": i,
            "a": None if i % 11 == 0 or i >= 50 else i + 1000,
            "b": 2 * i if is_early and i % 11 else None,
            "t": str(i) if is_early else None,
            "s": {"x": i, "y": [str(i)]} if is_early else None,
            "day": ["mo", "tu", None][i % 3],
        }


ROWS = list(expected())


def by_id(rows):
    return sorted(rows, key=lambda row: row["id"])


def shared(path, columns=None, filters=None, **options):
    """Read the splits of a query in another process, as Spark does."""
    files = FileSet(path, **options)
    query = files.query(columns, filters)
    scan, splits = share_out(files, query, max_bytes=1, min_splits=100)
    assert len(splits) > 0
    scan, splits = pickle.loads(pickle.dumps((scan, splits)))
    batches = [batch for split in splits for batch in scan.read(split)]
    assert sum(split.num_rows for split in splits) == sum(batch.num_rows for batch in batches)
    return query.finish(batches)


def polars(path, columns=None, filters=None):
    frame = fm.scan_polars(path)
    if filters is not None:
        import polars as pl

        ((name, _, value),) = filters
        frame = frame.filter(pl.col(name) > value)
    return (frame if columns is None else frame.select(columns)).collect().to_arrow()


def duck(path, columns=None, filters=None):
    dataset = fm.MosaicDataset(path)  # noqa: F841
    names = "*" if columns is None else ", ".join(columns)
    where = "" if filters is None else f" WHERE {filters[0][0]} > {filters[0][2]!r}"
    return duckdb.sql(f"SELECT {names} FROM dataset{where}").to_arrow_table()


def expression(filters):
    return None if filters is None else pc.field(filters[0][0]) > filters[0][2]


DOORS = {
    "read_table": lambda path, columns=None, filters=None: fm.read_table(
        path, columns=columns, filters=filters
    ),
    "one thread": lambda path, columns=None, filters=None: fm.read_table(
        path, columns=columns, filters=filters, use_threads=False
    ),
    "table": lambda path, columns=None, filters=None: fm.MosaicTable(path).read(
        columns, filters=filters
    ),
    "dataset": lambda path, columns=None, filters=None: fm.MosaicDataset(path).to_table(
        columns, filter=expression(filters)
    ),
    "pickled": lambda path, columns=None, filters=None: pickle.loads(
        pickle.dumps(fm.MosaicDataset(path))
    ).to_table(columns, filter=expression(filters)),
    "batches": lambda path, columns=None, filters=None: pa.Table.from_batches(
        fm.MosaicDataset(path).to_batches(columns, filter=expression(filters), batch_size=7)
    ),
    "scanner": lambda path, columns=None, filters=None: (
        fm.MosaicDataset(path).scanner(columns, filter=expression(filters)).to_table()
    ),
    "pandas": lambda path, columns=None, filters=None: pa.Table.from_pandas(
        fm.read_pandas(path, columns=columns, filters=filters), preserve_index=False
    ),
    "polars": polars,
    "duckdb": duck,
    "splits": shared,
}


def plain(table, names):
    """Return the rows; pandas has floats in place of integers with nulls."""
    rows = table.select(names).to_pylist()
    return [
        {name: int(value) if isinstance(value, float) else value for name, value in row.items()}
        for row in rows
    ]


@pytest.mark.parametrize("door", DOORS)
def test_all_columns(door, path):
    found = DOORS[door](path)
    assert sorted(found.schema.names) == ["a", "b", "day", "id", "s", "t"]
    rows = by_id(plain(found, list(ROWS[0])))
    if door == "pandas":  # lists become arrays and return as lists
        rows = [{**row, "s": row["s"] and {**row["s"], "y": list(row["s"]["y"])}} for row in rows]
    assert rows == ROWS


@pytest.mark.parametrize(
    ("columns", "filters"),
    [
        (["id"], None),
        (["b", "id"], None),
        (["id", "a"], [("id", ">", 30)]),
        (["id", "b"], [("b", ">", 20)]),
        (["id", "t"], [("a", ">", 1020)]),
        (["id", "day"], [("day", ">", "mo")]),
        (["t", "id", "a", "b"], [("t", ">", "2")]),
    ],
    ids=str,
)
@pytest.mark.parametrize("door", DOORS)
def test_some_columns_and_rows(door, columns, filters, path):
    def matches(row):
        return filters is None or (
            row[filters[0][0]] is not None and row[filters[0][0]] > filters[0][2]
        )

    found = DOORS[door](path, columns, filters)
    if door == "splits" and filters:
        found = found.filter(pc.field("id").isin([row["id"] for row in ROWS if matches(row)]))
    rows = by_id(plain(found, columns))
    assert rows == [{name: row[name] for name in columns} for row in ROWS if matches(row)]


def test_filters_on_columns_of_several_files(path):
    for filters, condition in (
        ((pc.field("a") > 1010) & (pc.field("b") < 60), lambda a, b: a > 1010 and b < 60),
        ((pc.field("a") < 1003) | (pc.field("b") > 70), lambda a, b: a < 1003 or b > 70),
    ):
        found = fm.read_table(path, columns=["id"], filters=filters)["id"].to_pylist()
        rows = [row for row in ROWS if row["a"] is not None and row["b"] is not None]
        kept = [row["id"] for row in rows if condition(row["a"], row["b"])]
        assert sorted(found) == kept
        assert fm.MosaicDataset(path).count_rows(filter=filters) == len(kept)


def test_fields_of_structs(path):
    found = fm.read_table(path, columns=["s.x", "id"], filters=[("s.x", ">", 35)])
    assert by_id(found.to_pylist()) == [{"s": {"x": i}, "id": i} for i in range(36, 40)]


def test_counts_heads_and_rows_by_number(path):
    dataset = fm.MosaicDataset(path)
    whole = dataset.to_table()
    assert dataset.count_rows() == COUNT
    assert dataset.count_rows(filter=pc.field("b") > 20) == sum(
        (row["b"] or 0) > 20 for row in ROWS
    )
    for columns in (["id", "a", "b"], ["b"], ["a", "day"]):
        assert dataset.head(17, columns=columns) == whole.select(columns).slice(0, 17)
        numbers = [59, 0, 30, 31, 30]
        assert dataset.take(numbers, columns=columns) == whole.select(columns).take(numbers)
    assert dataset.head(9, columns=[]).num_rows == 9
    assert dataset.to_table(columns=[]).num_rows == COUNT
    assert dataset.to_table(columns=["day"])["day"].to_pylist() == whole["day"].to_pylist()
    assert dataset.head(3, filter=pc.field("b") > 20, columns=["id"]).num_rows == 3


def test_stored_columns(path):
    found = fm.read_table(path, logical=False)
    assert found.schema.names == ["id", "a", "b", "t", "s.__null__", "s.x", "s.y", "day"]
    assert sorted(found["a"].drop_null().to_pylist()) == [row["a"] for row in ROWS if row["a"]]
    assert shared(path, ["s.x", "id"], logical=False).schema.names == ["s.x", "id"]


def test_a_limit_for_memory(path):
    assert fm.read_table(path, memory_limit="1 MB").num_rows == COUNT
    with pytest.raises(fm.MemoryLimitError):
        fm.read_table(path, memory_limit=100)
    with pytest.raises(fm.MemoryLimitError):
        fm.read_table(path, columns=["b"], memory_limit=100)


def test_a_pickled_dataset_is_pinned(tmp_path, monkeypatch):
    table = fm.MosaicTable.create(tmp_path / "t", pa.table({"id": [1]}))
    monkeypatch.chdir(tmp_path)
    pickled = pickle.dumps(fm.MosaicTable("t").dataset())
    table.append(pa.table({"id": [2]}))
    program = (
        "import pickle, sys; print(pickle.loads(sys.stdin.buffer.read()).to_table().to_pydict())"
    )
    child = subprocess.run(
        [sys.executable, "-c", program], input=pickled, stdout=subprocess.PIPE, cwd="/", check=True
    )
    assert child.stdout.decode().strip() == "{'id': [1]}"


def test_tables_and_files_in_one_list(path, tmp_path):
    fm.write_table(pa.table({"id": [1000], "day": ["su"], "b": [7]}), tmp_path / "x.mosaic")
    table = fm.MosaicTable.create(tmp_path / "t", pa.table({"id": [2000], "x": [1]}))
    table.add_columns({"b": pc.field("id")})
    found = fm.read_table([str(tmp_path / "t"), str(tmp_path / "x.mosaic")])
    assert found.to_pylist() == [
        {"id": 2000, "x": 1, "b": 2000, "day": None},
        {"id": 1000, "x": None, "b": 7, "day": "su"},
    ]


def test_a_table_as_its_files(path):
    """A glob reads files, as if there were no table."""
    names = fm.read_table(f"{path}/*/*.mosaic").schema.names
    assert "gone" in names
    assert "b" not in names

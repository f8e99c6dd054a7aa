"""What a command reads: which files, of which format, and which rows and columns of them."""

import datetime
import os
import shutil
import tempfile
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from files import write_lines, write_stream
from pyarrow import csv, feather, orc

import fastmosaic as fm
from fastmosaic.cli import main
from fastmosaic.convert import read as formats
from fastmosaic.convert.inputs import matching, open_input
from fastmosaic.dataset import discovery
from fastmosaic.errors import ColumnNotFoundError, CorruptFileError, SchemaMismatchError
from fastmosaic.query.selection import NameList
from fastmosaic.schemas.fit import Fit

DAYS = [datetime.date(2020, 1, day) for day in (1, 2, 3, 4)]
TABLE = pa.table(
    {
        "id": [1, 2, 3, 4],
        "price": [9.5, None, 1.25, 100.5],
        "kind": ["a", "b", None, "a,b"],
        "day": DAYS,
    }
)


WRITERS = {
    "t.mosaic": fm.write_table,
    "t.parquet": lambda table, path: pq.write_table(table, path, row_group_size=3),
    "t.orc": orc.write_table,
    "t.feather": feather.write_feather,
    "t.arrows": write_stream,
    "t.csv": csv.write_csv,
    "t.jsonl": write_lines,
}


@pytest.fixture(params=WRITERS)
def path(request, tmp_path):
    """TABLE in a file of each format."""
    path = tmp_path / request.param
    WRITERS[request.param](TABLE, path)
    return path


def rows_of(source, *arguments):
    return pa.Table.from_batches(list(source.batches(*arguments))).to_pylist()


def test_all_rows(path):
    source = open_input([str(path)], types={"day": pa.date32()}, whole=True)
    assert rows_of(source) == TABLE.to_pylist()
    assert source.names() == TABLE.column_names
    assert source.num_rows in (4, None)
    assert source.num_bytes == path.stat().st_size
    assert source.count() == 4


def test_some_columns_of_some_rows(path):
    source = open_input([str(path)])
    condition = "price > 2 and day < '2020-01-04'"
    assert rows_of(source, ["kind", "id"], condition) == [{"kind": "a", "id": 1}]
    assert source.count("price is null") == 1
    # No column at all still has its rows.
    assert sum(batch.num_rows for batch in source.batches([])) == 4


def test_bytes_that_are_done_come_to_those_of_the_file(path):
    done = []
    source = open_input([str(path)])
    list(source.batches(None, "id > 1", done.append))
    assert 0.9 * source.num_bytes <= sum(done) <= source.num_bytes


def test_unknown_columns(path):
    source = open_input([str(path)])
    with pytest.raises(ColumnNotFoundError, match="'prise'; did you mean 'price'"):
        source.batches(["prise"])
    with pytest.raises(ColumnNotFoundError, match="'prise'; did you mean 'price'"):
        source.batches(None, "prise > 2")


def test_only_the_columns_that_are_wanted_are_read(tmp_path):
    table = pa.table({"a": [1, 2], "b": [3, 4], "c": [5, 6]})
    for name in ("t.parquet", "t.orc", "t.feather", "t.arrows", "t.csv", "t.jsonl"):
        WRITERS[name](table, tmp_path / name)
        (found,) = open_input([str(tmp_path / name)]).files
        (batch,) = formats.batches(
            found, formats.format_of(name), None, table.schema, columns=["b"]
        )
        assert batch.to_pydict() == {"b": [3, 4]}


# ---- which format


@pytest.mark.parametrize("name", ["t.mosaic", "t.parquet", "t.orc", "t.feather"])
def test_the_bytes_tell_the_format_if_the_name_does_not(tmp_path, name):
    WRITERS[name](TABLE, tmp_path / name)
    shutil.move(tmp_path / name, tmp_path / "data")
    source = open_input([str(tmp_path / "data")])
    assert source.format == formats.format_of(name)
    assert source.count() == 4


def test_the_format_is_given(tmp_path):
    csv.write_csv(TABLE, tmp_path / "data.txt")
    with pytest.raises(ValueError, match=r"data\.txt: cannot determine the format"):
        open_input([str(tmp_path / "data.txt")])
    assert open_input([str(tmp_path / "data.txt")], "csv").count() == 4
    with pytest.raises(ValueError, match=r"invalid format 'parket' .*did you mean 'parquet'"):
        open_input([str(tmp_path / "data.txt")], "parket")


def test_files_of_two_formats(tmp_path):
    WRITERS["t.csv"](TABLE, tmp_path / "one.csv")
    WRITERS["t.orc"](TABLE, tmp_path / "two.orc")
    message = r"one\.csv is csv and .*two\.orc is orc"
    with pytest.raises(ValueError, match=message):
        open_input([str(tmp_path)])
    with pytest.raises(ValueError, match=message):
        open_input([str(tmp_path / "one.csv"), str(tmp_path / "two.orc")])
    (tmp_path / "two.orc").rename(tmp_path / "notes")
    (tmp_path / "notes").write_text("buy milk")
    with pytest.raises(ValueError, match=r"notes: cannot determine .*one\.csv is csv"):
        open_input([str(tmp_path)])


def test_no_files(tmp_path):
    (tmp_path / "_hidden.mosaic").write_text("")
    with pytest.raises(FileNotFoundError, match="contains no files, only hidden ones"):
        open_input([str(tmp_path)])
    with pytest.raises(FileNotFoundError):
        open_input([str(tmp_path / "*.mosaic")])
    with pytest.raises(FileNotFoundError):
        open_input([str(tmp_path / "nope.mosaic")])


@pytest.mark.parametrize("name", ["t.mosaic", "t.parquet", "t.orc", "t.feather", "t.arrows"])
def test_files_that_are_not_what_their_name_says(tmp_path, name):
    (tmp_path / name).write_bytes(b"this is no table, but some text" * 10)
    with pytest.raises(CorruptFileError, match=name.replace(".", r"\.")):
        open_input([str(tmp_path / name)])


# ---- several files


def test_files_of_several_schemas_are_one_table(tmp_path):
    first = pa.table({"id": pa.array([1], pa.int8()), "text": pa.array(["x"], pa.large_string())})
    second = pa.table({"id": pa.array([300], pa.int32()), "text": ["y"], "more": [True]})
    for name in ("parquet", "feather", "mosaic"):
        for part, table in (("a", first), ("b", second)):
            WRITERS[f"t.{name}"](table, tmp_path / f"{part}.{name}")
        source = open_input([str(tmp_path / f"*.{name}")])
        assert source.schema.field("id").type == pa.int32()
        assert rows_of(source) == [
            {"id": 1, "text": "x", "more": None},
            {"id": 300, "text": "y", "more": True},
        ]
        assert rows_of(source, ["more"], "id > 1") == [{"more": True}]


def test_types_that_nothing_joins(tmp_path):
    pq.write_table(pa.table({"id": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": ["x"]}), tmp_path / "b.parquet")
    message = r"'id' is int64 in .*a\.parquet and string in .*b\.parquet"
    with pytest.raises(SchemaMismatchError, match=message):
        open_input([str(tmp_path)])


@pytest.mark.parametrize("name", ["part.parquet", "part.mosaic", "part.csv"])
def test_partitions_are_columns(tmp_path, name):
    for year in (2020, 2021):
        directory = tmp_path / f"year={year}"
        directory.mkdir()
        WRITERS[f"t.{name.partition('.')[2]}"](pa.table({"id": [year * 10]}), directory / name)
    source = open_input([str(tmp_path)])
    assert rows_of(source, None, "year > 2020") == [{"id": 20210, "year": 2021}]
    assert rows_of(source, ["year"]) == [{"year": 2020}, {"year": 2021}]


def test_a_key_that_is_also_a_column(tmp_path):
    (tmp_path / "id=7").mkdir()
    pq.write_table(pa.table({"id": [1]}), tmp_path / "id=7" / "a.parquet")
    with pytest.raises(SchemaMismatchError, match="'id' is in the file and also a key"):
        open_input([str(tmp_path)])


def test_metadata_is_kept_where_files_agree(tmp_path):
    for name, note in (("a", "x"), ("b", "x"), ("c", "y")):
        table = pa.table({"id": [1]}).replace_schema_metadata({"note": note})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    agreed = open_input([str(tmp_path / "[ab].parquet")]).schema.metadata
    assert agreed is not None
    assert agreed[b"note"] == b"x"
    assert open_input([str(tmp_path)]).schema.metadata is None


# ---- text


def test_a_value_of_another_type_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("fastmosaic.convert.text.BLOCK_BYTES", 100)
    path = tmp_path / "t.csv"
    path.write_text("id,price\n" + "1,2\n" * 100 + "1,2.5\n")
    message = r"t\.csv: column 'price': read as int64, but there is '2\.5' in row 102"
    with pytest.raises(SchemaMismatchError, match=message):
        list(open_input([str(path)]).batches())
    with pytest.raises(SchemaMismatchError, match="--type 'price=string' to read it as text"):
        list(open_input([str(path)], types={}).batches(["price"]))
    source = open_input([str(path)], types={"pri*": pa.float64()})
    assert rows_of(source)[-1] == {"id": 1, "price": 2.5}
    # To count them, it does not matter what they are.
    assert open_input([str(path)]).count() == 101


def test_a_type_for_a_column_that_is_not_there(tmp_path):
    (tmp_path / "t.csv").write_text("id\n1\n")
    (tmp_path / "t.json").write_text('{"id": 1}\n')
    with pytest.raises(ColumnNotFoundError, match="'ids'; did you mean 'id'"):
        open_input([str(tmp_path / "t.csv")], types={"ids": pa.int8()})
    # JSON may have a field anywhere.
    source = open_input([str(tmp_path / "t.json")], types={"late": pa.int8()})
    assert rows_of(source) == [{"id": 1, "late": None}]


def test_a_name_twice(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,a\n1,2,3\n")
    with pytest.raises(SchemaMismatchError, match=r"t\.csv: it has the column 'a' more than once"):
        open_input([str(tmp_path / "t.csv")])


# ---- pipes


def feed(path, data):
    os.mkfifo(path)
    feeder = threading.Thread(target=lambda: path.write_bytes(data))
    feeder.start()
    return feeder


def test_a_pipe_is_read_once(tmp_path):
    feeder = feed(tmp_path / "pipe.csv", b"id,x\n1,a\n2,b\n")
    source = open_input([str(tmp_path / "pipe.csv")])
    feeder.join()
    assert source.names() == ["id", "x"]
    assert rows_of(source, ["x"], "id = 2") == [{"x": "b"}]
    assert rows_of(source, ["x"], "id = 1") == [{"x": "a"}]


def test_a_pipe_of_any_format(tmp_path):
    table = pa.table({"id": [1, 2]})
    pq.write_table(table, tmp_path / "t.parquet")
    fm.write_table(table, tmp_path / "t.mosaic")
    for number, name in enumerate(("t.parquet", "t.mosaic")):
        feeder = feed(tmp_path / f"pipe{number}", (tmp_path / name).read_bytes())
        source = open_input([str(tmp_path / f"pipe{number}")])
        feeder.join()
        assert rows_of(source, None, "id > 1") == [{"id": 2}]


def test_what_came_out_of_a_pipe_does_not_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    feeder = feed(tmp_path / "pipe.json", b'{"id": 1}\n')
    source = open_input([str(tmp_path / "pipe.json")])
    feeder.join()
    assert len(os.listdir(tmp_path)) == 2
    del source
    assert os.listdir(tmp_path) == ["pipe.json"]


def test_what_pipes_cannot_be(tmp_path):
    feeder = feed(tmp_path / "pipe", b"id\n1\n")
    with pytest.raises(
        ValueError, match="pipe: cannot determine the format from the name or the content"
    ):
        open_input([str(tmp_path / "pipe")])
    feeder.join()
    with pytest.raises(ValueError, match="cannot be combined"):
        open_input(["-", "other.csv"], "csv")


# ---- names of columns


def test_matching_columns():
    names = ["id", "temp_1", "temp_2", "a,b", "x*", "xy"]
    assert matching(["temp_*,id"], NameList(names)) == ["temp_1", "temp_2", "id"]
    assert matching(["id", "temp_2", "*"], NameList(names))[:3] == ["id", "temp_2", "temp_1"]
    assert matching(["a,b"], NameList(names)) == ["a,b"]
    assert matching(["x*"], NameList(names)) == ["x*"]
    assert matching(["?y", "temp_[!1]"], NameList(names)) == ["xy", "temp_2"]
    with pytest.raises(ColumnNotFoundError, match="no column named 'tmp_1'; did you mean 'temp_1'"):
        matching(["tmp_1"], NameList(names))
    with pytest.raises(ColumnNotFoundError, match=r"no column matches 'tmp_1\*'; did you mean"):
        matching(["tmp_1*"], NameList(names))
    with pytest.raises(ValueError, match="no column is given"):
        matching([" , "], NameList(names))


def test_files_are_listed_once(tmp_path, monkeypatch):
    for day in range(3):
        (tmp_path / f"day={day}").mkdir()
        fm.write_table(pa.table({"x": [day]}), tmp_path / f"day={day}" / "a.mosaic")
        pq.write_table(pa.table({"x": [day]}), tmp_path / f"day={day}" / "a.parquet")
    listings = []
    listed = discovery.entries_below

    def entries_below(*arguments, **options):
        listings.append(arguments)
        return listed(*arguments, **options)

    monkeypatch.setattr(discovery, "entries_below", entries_below)
    for format in ("mosaic", "parquet"):
        listings.clear()
        source = open_input([f"{tmp_path}/*/*.{format}"])
        found = pa.Table.from_batches(list(source.batches()))
        assert found.to_pydict() == {"x": [0, 1, 2], "day": [0, 1, 2]}
        assert source.count("x > 0") == 2
        assert len(listings) == 1


@pytest.mark.parametrize("target", ["out.mosaic", "out.parquet", "directory"])
def test_a_column_is_converted_once(tmp_path, monkeypatch, target):
    (tmp_path / "day=1").mkdir()
    table = pa.table(
        {"s": pa.array(["a", "b"]).dictionary_encode(), "u": pa.array([1, 2], "uint8")}
    )
    pq.write_table(table, tmp_path / "day=1" / "a.parquet")
    columns = []
    cast = Fit._cast

    def counted(self, array, field, file):
        columns.append(field.name)
        return cast(self, array, field, file)

    monkeypatch.setattr(Fit, "_cast", counted)
    words = ["convert", f"{tmp_path}/*/a.parquet", str(tmp_path / target), "--type", "u=int64"]
    assert main([*words, "--partition-by", "s"] if target == "directory" else words) == 0
    # The writer needs the dictionary of `s`, so it converts this column itself.
    assert columns == (["u"] if target == "out.parquet" else ["u", "s"])
    read = pq.read_table if target == "out.parquet" else fm.read_table
    expected = {"s": ["a", "b"], "u": [1, 2], "day": [1, 1]}
    found = read(str(tmp_path / target))
    assert found.select(["s", "u", "day"]).to_pydict() == expected


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_dates_and_times_come_back_from_text(tmp_path, suffix):
    table = TABLE.append_column("at", pa.array([0, 1500, None, -1], pa.timestamp("ms")))
    table = table.append_column("micro", pa.array([0, 1, None, -1], pa.timestamp("us")))
    table = table.append_column("zone", pa.array([0, 1, None, -1], pa.timestamp("us", "UTC")))
    fm.write_table(table, tmp_path / "a.mosaic")
    assert main(["convert", str(tmp_path / "a.mosaic"), str(tmp_path / f"b.{suffix}")]) == 0
    assert main(["convert", str(tmp_path / f"b.{suffix}"), str(tmp_path / "c.mosaic")]) == 0
    found = fm.read_table(tmp_path / "c.mosaic")
    assert found.schema.field("day").type == pa.date32()
    assert all(pa.types.is_timestamp(found.schema.field(n).type) for n in ("at", "micro", "zone"))
    assert found.to_pydict() == table.to_pydict()


def test_leading_zeros_are_reported_by_the_command(tmp_path, capsys):
    (tmp_path / "a.csv").write_text("zip,name\n00123,x\n")
    words = ["convert", str(tmp_path / "a.csv"), str(tmp_path / "a.mosaic")]
    assert main(words) == 0
    message = (
        "fastmosaic: warning: leading zeros are lost in column 'zip', which is read as integers"
    )
    assert message in capsys.readouterr().err
    assert fm.read_table(tmp_path / "a.mosaic")["zip"].to_pylist() == [123]
    assert main([*words, "--overwrite", "--type", "zip=string"]) == 0
    assert capsys.readouterr().err == ""
    assert fm.read_table(tmp_path / "a.mosaic")["zip"].to_pylist() == ["00123"]


NESTED = pa.table(
    {
        "id": range(1000),
        "info": [{"name": f"n{i}", "text": "x" * 100, "at": {"zip": i}} for i in range(1000)],
        "items": [[{"x": i, "y": "a"}] for i in range(1000)],
        "took": pa.array(range(1000), pa.duration("ms")),
        "half": pa.array([i / 2 for i in range(1000)], pa.float16()),
        "kind": pa.array(["abc"[i % 3] for i in range(1000)]).dictionary_encode(),
    }
)


@pytest.mark.parametrize("name", ["t.mosaic", "t.parquet", "t.feather", "t.arrows"])
def test_fields_of_structs(tmp_path, name):
    WRITERS[name](NESTED, tmp_path / name)
    source = open_input([str(tmp_path / name)])
    assert source.select(["info.*,id"]) == ["info.name", "info.text", "info.at.zip", "id"]
    assert source.schema_of(["info.at.zip", "items.x"]) == pa.schema(
        {
            "info": pa.struct({"at": pa.struct({"zip": pa.int64()})}),
            "items": pa.list_(pa.struct({"x": pa.int64()})),
        }
    )
    condition = "info.at.zip = 7 or took > interval '998 milliseconds' and kind = 'a' and half > 1"
    assert rows_of(source, ["info.name", "items.y"], condition) == [
        {"info": {"name": name}, "items": [{"y": "a"}]} for name in ("n7", "n999")
    ]
    with pytest.raises(ColumnNotFoundError, match=r"no column named 'info.nam'"):
        source.batches(["info.nam"])
    assert rows_of(source, ["info"], "id = 1") == NESTED.select(["info"]).slice(1, 1).to_pylist()


def test_only_the_fields_of_parquet_are_read(tmp_path, monkeypatch):
    pq.write_table(NESTED, tmp_path / "t.parquet")
    asked = []
    iter_batches = pq.ParquetFile.iter_batches

    def recorded(self, size, groups, columns, **options):
        asked.append(columns)
        return iter_batches(self, size, groups, columns, **options)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", recorded)
    source = open_input([str(tmp_path / "t.parquet")])
    found = list(source.batches(["info.at.zip", "items.x"]))
    assert found[0].to_pylist()[5] == {"info": {"at": {"zip": 5}}, "items": [{"x": 5}]}
    list(source.batches())
    list(source.batches(["id", "info"]))
    assert asked == [["info.at", "items"], None, ["id", "info"]]


def test_stored_columns(tmp_path):
    fm.write_table(NESTED, tmp_path / "t.mosaic")
    source = open_input([str(tmp_path / "t.mosaic")], stored=True)
    assert "info.__null__" in source.names()
    assert source.schema.field("took").type == pa.int64()
    assert source.count("took >= 998") == 2

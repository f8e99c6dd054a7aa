"""Files of several formats, read by their groups."""

import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv, ipc, orc

import fastmosaic as fm
from fastmosaic.convert import read as formats
from fastmosaic.dataset.discovery import discover

TABLE = pa.table({"id": range(10), "x": [i / 2 for i in range(10)], "word": list("abcdefghij")})


def write_arrow(table, path):
    with ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=4)


WRITERS = {
    "t.mosaic": lambda table, path: fm.write_table(table, path, row_group_size=4),
    "t.parquet": lambda table, path: pq.write_table(table, path, row_group_size=4),
    "t.arrow": write_arrow,
}


@pytest.fixture
def found(tmp_path, request):
    WRITERS[request.param](TABLE, tmp_path / request.param)
    (found,) = discover(str(tmp_path / request.param))
    return found


def test_formats_by_name():
    for name, format in (
        ("a.mosaic", "mosaic"),
        ("A.PARQUET", "parquet"),
        ("a.pq", "parquet"),
        ("a.orc", "orc"),
        ("a.feather", "arrow"),
        ("a.arrows", "arrow"),
        ("a.csv.gz", "csv"),
        ("a.ndjson.zst", "json"),
        ("a.parquet.gz", None),  # it is compressed inside
        ("a.csv.orc", "orc"),
        ("csv", None),
    ):
        assert formats.format_of(name) == format


def test_names_of_formats():
    formats.check_format("to", "orc")
    with pytest.raises(ValueError, match=r"invalid to 'parket' .*did you mean 'parquet'"):
        formats.check_format("to", "parket")


@pytest.mark.parametrize("found", WRITERS, indirect=True)
def test_groups(found):
    format = formats.format_of(found.name)
    assert formats.format_by_content(found) == format
    schema, groups = formats.inspect(found, format, 1000)
    assert schema.names == TABLE.column_names
    assert len(groups) == 3
    rows = [
        row for batch in formats.batches(found, format, [0, 2], schema) for row in batch.to_pylist()
    ]
    assert [row["id"] for row in rows] == [0, 1, 2, 3, 8, 9]
    done = []
    chosen = pa.Table.from_batches(
        list(
            formats.batches(
                found, format, None, schema, columns=["word"], use_threads=True, advance=done.append
            )
        )
    )
    assert chosen.to_pydict() == {"word": list("abcdefghij")}


def test_numbers_of_rows(tmp_path):
    pq.write_table(TABLE, tmp_path / "t.parquet")
    orc.write_table(TABLE, tmp_path / "t.orc")
    csv.write_csv(TABLE, tmp_path / "t.csv")
    counts = {
        one.name.rpartition(".")[2]: formats.count_rows(one, formats.format_of(one.name))
        for one in discover(str(tmp_path))
    }
    assert counts == {"parquet": 10, "orc": 10, "csv": None}


def test_compressed_text_is_counted_by_the_bytes_of_the_file(tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"id,x\n" + b"1,2\n" * 10_000))
    (found,) = discover(str(path))
    schema, groups = formats.inspect(found, "csv", path.stat().st_size)
    assert groups is None
    done = []
    (batch,) = formats.batches(found, "csv", None, schema, advance=done.append)
    assert batch.num_rows == 10_000
    assert sum(done) == path.stat().st_size


def test_neither_an_arrow_file_nor_a_stream(tmp_path):
    (tmp_path / "t.arrow").write_bytes(b"something else, of some length")
    (found,) = discover(str(tmp_path / "t.arrow"))
    with pytest.raises(pa.ArrowInvalid, match="neither an Arrow file nor an Arrow stream"):
        formats.inspect(found, "arrow", 30)
    assert formats.format_by_content(found) is None


def test_columns_with_dots_in_their_names(tmp_path):
    table = pa.table({"a.b": [1], "a": [{"b": 2, "c": 3}], "c": [4]})
    pq.write_table(table, tmp_path / "t.parquet")
    (found,) = discover(str(tmp_path / "t.parquet"))
    for names in (["a.b"], ["a"], ["c"]):
        (batch,) = formats.batches(found, "parquet", None, table.schema, columns=names)
        assert batch.select(names).to_pylist() == table.select(names).to_pylist()

"""Files that are not what the version of a table says: refused by name, never misread."""

import json
import os
import shutil
import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from living import base_file_of, column_file_of

import fastmosaic as fm
from fastmosaic.dataset.fileset import FileSet
from fastmosaic.dataset.version import Version, version_name
from fastmosaic.file.writer import MosaicWriter


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "t")


@pytest.fixture
def table(path):
    """Two files of the same size, rows and row groups, each with a column file."""
    table = fm.MosaicTable.create(path, pa.table({"id": [1, 2, 3, 4]}), row_group_size=2)
    table.append(pa.table({"id": [5, 6, 7, 8]}), row_group_size=2)
    table.add_columns({"b": pc.field("id") * 10})
    return table


def refused(path, culprit, message, columns=None):
    """Check that every way of reading refuses the file by name."""
    for read in (
        lambda: fm.read_table(path, columns=columns),
        lambda: fm.MosaicDataset(path).to_table(columns),
        lambda: fm.MosaicTable(path).read(columns),
        lambda: fm.MosaicTable(path).fold(),
    ):
        with pytest.raises(fm.CorruptFileError, match=message) as caught:
            read()
        assert Path(culprit).name in str(caught.value)


def edited(path, change):
    """Change the newest version as a hostile writer could."""
    version = fm.MosaicTable(path)._snapshot.version
    document = {
        "format": 1,
        "features": [],
        "version": version.number,
        "parent": version.parent,
        "time": version.time.isoformat(),
        "operation": version.operation,
        "summary": {},
        "commit": version.commit,
        "schema": version.schema,
        "schema_added": version.schema_added,
        "partitioning": list(version.partitioning),
        "dropped": dict(version.dropped),
        "files": [file.to_dict() for file in version.files],
    }
    change(document)
    text = json.dumps(document).encode()
    Path(path, version_name(version.number)).write_bytes(pa.compress(text, "zstd", asbytes=True))


def rewrite(path, table, base=None, **options):
    """Write a file in place of another one, as a column file if there is a base."""
    with MosaicWriter(path, table.schema, **options) as writer:
        writer.write_table(table)
        if base is not None:
            writer.belong_to(base)


def test_swapped_column_files(table, path):
    first, second = column_file_of(path, 0), column_file_of(path, 1)
    assert first.stat().st_size == second.stat().st_size
    data = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(data)
    refused(path, first, "a column file of another base file", ["b"])
    refused(path, first, "a column file of another base file")
    assert fm.read_table(path, columns=["id"])["id"].to_pylist() == list(range(1, 9))


def test_entries_of_two_base_files_are_swapped(table, path):
    def change(document):
        one, other = document["files"]
        one["columns"], other["columns"] = other["columns"], one["columns"]

    culprit = column_file_of(path, 1)
    edited(path, change)
    refused(path, culprit, "a column file of another base file", ["b"])


def test_swapped_base_files(table, path):
    first, second = base_file_of(path, 0), base_file_of(path, 1)
    data = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(data)
    refused(path, first, "another file of the same size, rows and columns")
    refused(path, first, "another file of the same size, rows and columns", ["id"])


def test_a_base_file_is_replaced_by_another_of_its_size(table, path):
    base = base_file_of(path, 0)
    size = base.stat().st_size
    fm.write_table(pa.table({"id": [4, 3, 2, 1]}), base, row_group_size=2)
    assert base.stat().st_size == size
    refused(path, base, "another file of the same size, rows and columns")


@pytest.mark.parametrize("end", [0, 1, 40, 100, -1])
def test_truncated_column_files(end, table, path):
    file = column_file_of(path)
    file.write_bytes(file.read_bytes()[:end])
    refused(path, file, ".", ["b"])


def test_a_longer_column_file(table, path):
    file = column_file_of(path)
    size = file.stat().st_size
    fm.write_table(pa.table({"b": range(4), "c": ["more"] * 4}), file)
    refused(path, file, rf"it has \d+ bytes, not {size}", ["b"])


def same_size(table, path, file):
    """Let the version say the size that a file has."""

    def change(document):
        for one in document["files"]:
            for part in (one, *one["columns"]):
                part["size"] = os.path.getsize(f"{path}/{part['path']}")

    edited(path, change)


def test_a_file_that_is_no_column_file(table, path):
    file = column_file_of(path)
    fm.write_table(pa.table({"b": range(4)}), file, row_group_size=2)
    same_size(table, path, file)
    refused(path, file, "it is not a column file", ["b"])
    fm.write_table(pa.table({"b": range(4)}), file, annex=False, row_group_size=2)
    same_size(table, path, file)
    refused(path, file, "it is not a column file", ["b"])


def test_a_column_file_of_another_table(table, path, tmp_path):
    other = fm.MosaicTable.create(tmp_path / "u", pa.table({"id": [9, 9, 9, 9]}), row_group_size=2)
    other.add_columns({"b": pc.field("id")})
    file = column_file_of(path)
    shutil.copy(column_file_of(tmp_path / "u"), file)
    same_size(table, path, file)
    refused(path, file, "a column file of another base file", ["b"])


def test_a_column_file_with_other_row_groups(table, path):
    base = fm.MosaicFile(column_file_of(path)).metadata.annex.base
    file = column_file_of(path)
    rewrite(file, pa.table({"b": range(4)}), base, row_group_size=3)
    same_size(table, path, file)
    refused(path, file, "its row groups are not those of")
    # Alone it has the right rows, in the right order.
    assert fm.read_table(path, columns=["b"])["b"].to_pylist()[:4] == [0, 1, 2, 3]


@pytest.mark.parametrize("count", [0, 3, 5])
def test_a_column_file_with_other_rows(count, table, path):
    base = fm.MosaicFile(column_file_of(path)).metadata.annex.base
    file = column_file_of(path)
    rewrite(file, pa.table({"b": pa.array(range(count), pa.int64())}), base, row_group_size=2)
    same_size(table, path, file)
    refused(path, file, f"it has {count} rows, not 4", ["b"])


@pytest.mark.parametrize(
    "columns", [{"c": [1] * 4}, {"b": ["x"] * 4}, {"b": [1] * 4, "c": [1] * 4}], ids=str
)
def test_a_column_file_with_other_columns(columns, table, path):
    base = fm.MosaicFile(column_file_of(path)).metadata.annex.base
    file = column_file_of(path)
    rewrite(file, pa.table(columns), base, row_group_size=2)
    same_size(table, path, file)
    refused(path, file, "it has other columns", ["b"])


def test_a_base_file_with_other_columns(table, path):
    base = base_file_of(path)
    fm.write_table(pa.table({"other": [1, 2, 3, 4]}), base, row_group_size=2)
    same_size(table, path, base)
    refused(path, base, "it has other columns")


def test_a_digest_that_the_base_file_does_not_have(table, path):
    def change(document):
        document["files"][0]["digest"] = "0" * 32

    base, file = base_file_of(path), column_file_of(path)
    edited(path, change)
    with pytest.raises(fm.CorruptFileError, match="another base file") as caught:
        fm.read_table(path, columns=["b"])
    assert file.name in str(caught.value)
    with pytest.raises(fm.CorruptFileError, match="another file of the same size") as caught:
        fm.read_table(path, columns=["id"])
    assert base.name in str(caught.value)


def test_a_version_that_lies_about_rows(table, path):
    def change(document):
        document["files"][0]["rows"] = 5

    base = base_file_of(path)
    edited(path, change)
    refused(path, base, "it has 4 rows, not 5", ["id"])


@pytest.mark.parametrize("find", [base_file_of, column_file_of])
def test_missing_files_are_missed_by_name(find, table, path):
    file = find(path)
    file.unlink()
    for columns in (None, ["id"] if find is base_file_of else ["b"]):
        with pytest.raises(FileNotFoundError, match=file.name):
            fm.read_table(path, columns=columns)
    others = ["b"] if find is base_file_of else ["id"]
    assert fm.read_table(path, columns=others).num_rows == 8


def test_missing_and_wrong_schemas_are_missed_by_name(table, path):
    (schema,) = {file.columns[0].schema for file in table._snapshot.version.files}
    place = Path(path, "_mosaic", f"schema-{schema}.mosaic")
    good = place.read_bytes()
    place.unlink()
    with pytest.raises(FileNotFoundError, match=schema):
        fm.read_table(path)
    fm.write_table(pa.table({"z": pa.array([], pa.int64())}), place)
    with pytest.raises(fm.CorruptFileError, match="it has other columns"):
        fm.read_table(path)
    place.write_bytes(good[:-1])
    with pytest.raises(fm.CorruptFileError, match=schema):
        fm.read_table(path)


def test_corrupt_files_are_skipped_if_asked(table, path):
    column_file_of(path, 0).write_bytes(b"broken")
    with pytest.warns(UserWarning, match="skipped 1 unreadable files"):
        found = FileSet(path, skip_corrupt=True).read()
    assert found["id"].to_pylist() == [5, 6, 7, 8]


def test_a_column_file_is_readable_by_itself(table, path):
    """It is an ordinary file: with an annex that names its base."""
    file = fm.MosaicFile(column_file_of(path))
    assert file.read()["b"].to_pylist() == [10, 20, 30, 40]
    base = base_file_of(path).read_bytes()
    (schema_offset,) = struct.unpack(">Q", base[-24:-16])
    assert file.metadata.annex.base.size == len(base)
    assert file.metadata.annex.base.num_rows == 4
    assert schema_offset < len(base)
    assert fm.verify(column_file_of(path)).ok


def test_a_version_is_read_as_it_was_written(table):
    version = table._snapshot.version
    assert Version.decode(version.encode(), version.number) == version

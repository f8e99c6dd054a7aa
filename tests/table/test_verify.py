"""MosaicTable.verify: what is damaged, missing, or not what a version names."""

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from living import base_file_of, column_file_of, named

import fastmosaic as fm

ROWS = pa.table({"id": range(100), "a": [float(n) for n in range(100)]})


@pytest.fixture
def path(tmp_path):
    """A table of three files of two row groups, each with a column file."""
    path = tmp_path / "t"
    table = fm.MosaicTable.create(path, ROWS.schema)
    for number in range(3):
        rows = ROWS.set_column(0, "id", [[number * 1000 + n for n in range(100)]])
        table.append(rows, row_group_size=50, compression="none")
    table.add_columns({"b": pc.field("a") * 2})
    return path


def problems(path, **options):
    """The problems of a table, by the paths of files."""
    report = fm.MosaicTable(path).verify(**options)
    assert report.ok == (not report.damaged)
    return {
        str(Path(one.file).relative_to(path)): [problem.message for problem in one.problems]
        for one in report.damaged
    }


def test_a_table_without_damage(path):
    report = fm.MosaicTable(path).verify()
    assert report.ok
    assert str(report) == "version 5: no problem"
    assert {str(Path(one.file).relative_to(path)) for one in report.files} == {
        one for one in named(path) if not one.endswith(".zst")
    } | {"_mosaic/00000000000000000005.json.zst"}
    assert sum(one.num_rows for one in report.files if "/part-" in one.file) == 600


def test_an_earlier_version_has_fewer_files(path):
    report = fm.MosaicTable(path, version=2).verify()
    assert report.version == 2
    assert len(report.files) == 4  # with the version, its schema and that of the file


def test_damaged_values(path):
    file = column_file_of(path)
    data = bytearray(file.read_bytes())
    data[20] ^= 1
    file.write_bytes(data)
    assert set(problems(path)) == {str(file.relative_to(path))}
    assert problems(path, deep=False) == {}


@pytest.mark.parametrize("find", [base_file_of, column_file_of])
def test_a_missing_file(path, find):
    file = find(path, 1)
    file.unlink()
    assert problems(path) == {str(file.relative_to(path)): ["the file is missing"]}


@pytest.mark.parametrize("deep", [False, True])
def test_a_column_file_of_another_base(path, deep):
    fm.MosaicTable(path).append(ROWS.slice(0, 90), row_group_size=45)
    first, second = column_file_of(path, 0), column_file_of(path, 1)
    shutil.copy(second, first)
    found = problems(path, deep=deep)
    (messages,) = found.values()
    assert set(found) == {str(first.relative_to(path))}
    assert "it is a column file of another base file" in messages[0]


def test_a_base_file_in_place_of_a_column_file(path):
    file = column_file_of(path)
    shutil.copy(base_file_of(path), file)
    (messages,) = problems(path).values()
    assert len(messages) == 1
    assert "bytes, not" in messages[0]


def test_a_base_file_that_was_replaced(path):
    file = base_file_of(path)
    fm.write_table(ROWS.slice(0, 60), file)
    found = problems(path)
    (messages,) = found.values()
    assert set(found) == {str(file.relative_to(path))}
    assert "bytes, not" in messages[0]


def test_the_digest_of_a_base_file(path):
    """Another file of the same size, rows and columns is told by its digest alone."""
    file = base_file_of(path)
    size = file.stat().st_size
    fm.write_table(
        ROWS.set_column(0, "id", [[n * 7 for n in range(100)]]),
        file,
        row_group_size=50,
        compression="none",
    )
    assert file.stat().st_size == size
    ((message,),) = problems(path).values()
    assert message.startswith("it is another file of the same size, rows and columns")


def test_row_groups_that_are_not_those_of_the_base(path):
    table = fm.MosaicTable(path)
    snapshot = table._snapshot
    file = column_file_of(path)
    column = fm.read_table(file)
    base = fm.MosaicFile(file).metadata.annex.base
    with fm.MosaicWriter(file, column.schema, row_group_size=20) as writer:
        writer.belong_to(base)
        writer.write(column)
    size = file.stat().st_size
    entry = snapshot.version.files[0].columns[0]
    object.__setattr__(entry, "size", size)
    report = table.verify()
    (damaged,) = report.damaged
    assert damaged.file.endswith(file.name)
    assert [one.message for one in damaged.problems] == [
        f"its row groups are not those of {snapshot.version.files[0].path}"
    ]
    assert damaged.file in str(report)


def test_a_schema_whose_content_is_not_its_name(path):
    schemas = sorted((path / "_mosaic").glob("schema-*"))
    one, other, _ = schemas
    shutil.copy(other, one)
    found = problems(path)
    assert "which is not its name" in found[f"_mosaic/{one.name}"][0]


def test_a_missing_schema(path):
    for one in (path / "_mosaic").glob("schema-*"):
        one.unlink()
    found = problems(path)
    assert len(found) == 3
    assert set(map(tuple, found.values())) == {("the file is missing",)}

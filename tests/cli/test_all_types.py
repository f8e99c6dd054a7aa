"""Every command, on tables of all types that can be written."""

import json
from pathlib import Path

import pyarrow as pa
from hypothesis import HealthCheck, assume, given, settings
from user_types import assert_same_table, user_tables

import fastmosaic as fm
from fastmosaic.cli import main
from fastmosaic.errors import UnsupportedError

shared = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
COMMANDS = [
    *("schema", "schema --sizes", "schema --stored", "schema --summary", "schema --types"),
    *("head", "head --stored", "cat", "cat --json", "stats", "stats --stored", "meta", "footer"),
    *("buckets", "pages", "column-size", "verify", "count"),
]


def write(table: pa.Table, path: Path) -> None:
    try:
        fm.write_table(table, path, row_group_size=7)
    except UnsupportedError as error:  # a column that is called like a field of another
        assume("would be stored as" not in str(error))
        raise


@shared
@given(table=user_tables())
def test_to_arrow_and_back(tmp_path, table):
    assume(table.num_rows)  # an Arrow file without batches has no dictionaries
    mosaic, arrow, back = (tmp_path / name for name in ("a.mosaic", "b.arrow", "c.mosaic"))
    write(table, mosaic)
    expected = fm.read_table(mosaic)
    assert main(["convert", str(mosaic), str(arrow), "--overwrite"]) == 0
    assert_same_table(pa.ipc.open_file(arrow).read_all(), expected)
    assert main(["convert", str(arrow), str(back), "--overwrite"]) == 0
    assert_same_table(fm.read_table(back), expected)
    assert main(["diff", "--strict", str(mosaic), str(arrow)]) == 0


@shared
@given(table=user_tables())
def test_every_command_prints(tmp_path, capsys, table):
    path = tmp_path / "a.mosaic"
    write(table, path)
    capsys.readouterr()
    for line in COMMANDS:
        name, *options = line.split()
        assert main([name, str(path), *options]) == 0, line
        assert not capsys.readouterr().err


@shared
@given(table=user_tables())
def test_sizes_add_up(tmp_path, capsys, table):
    path = tmp_path / "a.mosaic"
    write(table, path)
    metadata = fm.read_metadata(path)
    expected = sum(map(metadata.bytes_of, range(metadata.num_row_groups)))
    for words, key in ((["schema", "--sizes"], "size"), (["stats"], "bytes")):
        capsys.readouterr()
        assert main([words[0], str(path), *words[1:], "--json"]) == 0
        columns = json.loads(capsys.readouterr().out)["columns"]
        assert sum(one[key] for one in columns) == expected

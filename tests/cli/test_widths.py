"""All commands that print tables, on terminals of 80 and 140 columns."""

import re

import pyarrow as pa
import pytest
from terminal import on_terminal, plain

import fastmosaic as fm
from fastmosaic.cli.output.aligned import width

PREFIX = "sensor_temperature_of_the_engine_on_the_left"
LIST = pa.list_(pa.field("element", pa.timestamp("us", "Europe/Berlin")))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two files that differ, with names and values that are too long for a line."""
    folder = tmp_path_factory.mktemp("widths")
    columns = {
        "id": range(50),
        "note": [
            f"{i} words that go on and on until the line is full, and then some" for i in range(50)
        ],
        "times": pa.array([[i, None] for i in range(50)], LIST),
        **{f"{PREFIX}_{i:02d}": [i * 1e10 + j / 7 for j in range(50)] for i in range(30)},
    }
    table = pa.table(columns)
    fm.write_table(table, folder / "one.mosaic", row_group_size=20, write_statistics=True)
    changed = table.set_column(1, "note", [["changed"] * 50]).rename_columns(
        ["id", "note", "times", *(f"{PREFIX}_{i:02d}" for i in range(1, 31))]
    )
    fm.write_table(changed, folder / "a_file_with_quite_a_long_name.mosaic", array_layout="block")
    # Names that begin with an underscore are hidden from the commands that read the directory.
    living = fm.MosaicTable.create(folder / "_living", table)
    living.drop_columns([f"{PREFIX}_{i:02d}" for i in range(4)])
    living.add_columns({f"{PREFIX}_{i:02d}": i for i in range(4)})
    return folder


COMMANDS = [
    "schema one.mosaic",
    "schema . --sizes --sort size",
    "schema one.mosaic --summary",
    "schema one.mosaic --types",
    "head one.mosaic",
    "head one.mosaic -c id,note",
    "stats one.mosaic",
    "diff one.mosaic a_file_with_quite_a_long_name.mosaic",
    "meta one.mosaic",
    "meta .",
    "footer .",
    "buckets .",
    "pages .",
    "dictionary one.mosaic -c *",
    "dictionary . -c id,note --each",
    "column-size .",
    "column-size . --by-prefix",
    "verify -v .",
    "schema _living --at 1",
    "head _living",
    "stats _living",
    "meta _living",
    "column-size _living",
    "verify -v _living",
    "diff _living _living --at 1",
    "table vacuum _living --older-than 0 --dry-run",
]


@pytest.mark.parametrize("columns", [80, 140])
@pytest.mark.parametrize("line", COMMANDS)
def test_lines_fit_and_words_are_whole(folder, monkeypatch, line, columns):
    monkeypatch.chdir(folder)
    status, printed = on_terminal(*line.split(), columns=columns, env={"PAGER": "cat"})
    assert status in (0, 1)
    # What a bar leaves behind is overwritten.
    lines = [one.rpartition("\r")[2] for one in plain(printed).splitlines()]
    assert max(map(width, lines)) <= columns
    words = [word.strip(",:'\"") for one in lines for word in one.split()]
    for word in words:
        if "sensor" in word or "sens" in word[:6]:
            # Whole, or shortened in the middle so that its number is still there.
            assert re.fullmatch(rf"{PREFIX}_(\d\d|\*)|sens.*…(.*\d\d|.*\*)", word), word
        if word.startswith("timestamp"):
            assert word.startswith("timestamp[us") or word.endswith("…"), word

"""The demo runs, on a small table: files, figures, a picture, and commands that answer."""

import io
import re
import struct
import sys
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[1]))

import fastmosaic as fm
from demo import __main__ as demo, commands, comparing, growing, showing, spark

pytestmark = pytest.mark.xdist_group("demo")  # one process runs it


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What the demo prints in a pipe, and the folder that it leaves behind."""
    folder = tmp_path_factory.mktemp("demo")
    console = Console(file=io.StringIO(), width=showing.WIDTH)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparing, "WRITE_SECONDS", 0.01)
        patch.setattr(comparing, "TURN_SECONDS", 0.001)
        patch.setattr(commands, "show", lambda console, path: None)  # a test of its own
        table = demo.tell(console, 300, 20, folder)
    return table, console.file.getvalue(), folder


def test_both_files_hold_the_table(told):
    table, _, folder = told
    assert table.num_columns == 300
    assert fm.read_table(folder / "wide.mosaic").equals(table)
    assert pq.read_table(folder / "wide.parquet").equals(table)


def test_sizes_are_those_of_the_files(told):
    _, text, folder = told
    shown = re.findall(r"(Mosaic|Parquet) +(0\.\d+) MB", text)
    assert [name for name, _ in shown] == ["Mosaic", "Parquet"]
    for name, megabytes in shown:
        size = (folder / f"wide.{name.lower()}").stat().st_size
        assert float(megabytes) == pytest.approx(size / 1e6, rel=0.01)


def test_every_read_is_timed_in_both_formats(told):
    _, text, _ = told
    for what in ("write", "read 1 column", "read 10 columns", "read 100 columns", "read all 300"):
        assert re.search(rf"{what} +Mosaic +[\d.,]+ ms +[█▏▎▍▌▋▊▉]+", text), what
    assert len(re.findall(r"Parquet +[\d.,]+ ms", text)) == 5


def test_the_picture_is_a_png_that_can_be_read(told):
    _, text, folder = told
    picture = folder / "fastmosaic.png"
    data = picture.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", data[16:24])
    assert 1000 < width < 2000
    assert 300 < height < 1200
    assert 10_000 < len(data) < 300_000
    assert "fastmosaic.png" in text


def test_in_a_pipe_lines_are_plain_and_short(told):
    _, text, _ = told
    assert "\x1b" not in text
    tables = [
        line for line in text.splitlines() if not line.startswith(("$", "The same as a chart"))
    ]
    assert max(map(len, tables)) <= showing.WIDTH


def test_the_commands_answer(told, capfd):
    table, _, folder = told
    commands.show(Console(file=io.StringIO()), folder / "wide.mosaic")
    printed = capfd.readouterr().out
    assert re.search(rf"^ *0 +{table['category'][0]} +{table['number'][0]}$", printed, re.MULTILINE)
    matching = table.filter(pc.field("number") > 500_000)
    assert printed.rstrip().endswith(f"\n{matching.num_rows}")
    assert 0 < matching.num_rows < table.num_rows


def test_a_column_is_added_without_rewriting_the_table(told, tmp_path):
    table, *_ = told
    console = Console(file=io.StringIO(), width=showing.WIDTH)
    growing.show(console, table, tmp_path)
    text = console.file.getvalue()
    assert len(re.findall(r"(?:Mosaic|Parquet) +[\d.,]+ (?:ms|MB)", text)) == 4
    assert max(map(len, text.splitlines())) <= showing.WIDTH
    living = fm.MosaicTable(tmp_path / "growing")
    assert living.version == 2
    assert living.read().drop_columns("double").equals(table)
    growing.show(console, table, tmp_path)  # a second run begins anew
    assert fm.MosaicTable(tmp_path / "growing").version == 2


def test_another_table_is_noticed(told, monkeypatch, tmp_path):
    table, *_ = told

    class Forgetful(comparing.Parquet):
        def read(self, path, columns):
            return super().read(path, columns).slice(1)

    monkeypatch.setattr(comparing, "WRITE_SECONDS", 0.01)
    monkeypatch.setitem(comparing.FORMATS, "Parquet", Forgetful())
    with pytest.raises(AssertionError, match="Parquet returned a table that differs"):
        comparing.compare(table, tmp_path, lambda _: None)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ((10.0, 16.0), "1.6 times smaller"),
        ((16.0, 10.0), "1.6 times larger"),
        ((0.1, 17.0), "170 times smaller"),
    ],
)
def test_a_claim_follows_from_the_figures(values, words):
    pair = dict(zip(("Mosaic", "Parquet"), values, strict=True))
    assert showing.compared(pair, "smaller", "larger") == words


def test_bars_are_as_long_as_their_share():
    assert showing.bar(1.0, 36) == "█" * 36
    assert showing.bar(0.5, 36) == "█" * 18
    assert showing.bar(0.51, 20) == "█" * 10 + "▎"
    assert showing.bar(1e-6, 20) == "▏"


def test_bars_fit_a_narrow_terminal():
    console = Console(file=io.StringIO(), width=80)
    units = {"x" * 16: "ms"}
    console.print(showing.bars(console, {"x" * 16: {"Mosaic": 1.0, "Parquet": 2345.0}}, units))
    text = console.file.getvalue()
    lengths = [line.count("█") for line in text.splitlines() if "ms" in line]
    assert "…" not in text
    assert lengths == [0, 20]


def test_without_java_a_sentence_says_so(told, monkeypatch, tmp_path):
    table, *_ = told
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    console = Console(file=io.StringIO(), width=showing.WIDTH)
    spark.show(console, table)
    text = console.file.getvalue()
    assert text.startswith("The Spark part was skipped: ")
    assert "Java" in text
    assert max(map(len, text.splitlines())) <= showing.WIDTH

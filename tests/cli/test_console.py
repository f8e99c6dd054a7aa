"""What the command prints: on terminals of all kinds, in pipes, and as JSON."""

import argparse
import datetime
import decimal
import json
import os
import subprocess
import sys
import textwrap

import pytest
from terminal import acting, environment, plain

from fastmosaic.cli.output.aligned import Column, width
from fastmosaic.cli.output.console import Console
from fastmosaic.cli.output.drawn import shortened
from fastmosaic.convert.values import to_json
from fastmosaic.display.text import human_size
from fastmosaic.errors import printable


def table(count, *names, no_pager=False, **terminal):
    """Print a table of numbers and the names on a terminal; what appears there."""

    def act():
        console = Console(argparse.Namespace(no_pager=no_pager))
        rows = [[number, name] for number in range(count) for name in names]
        console.table([Column.number("#"), Column.name("name")], rows, footer="all of them")
        return 0

    status, printed = acting(act, **terminal)
    assert status == 0
    return printed


def in_a_pipe(code: str, *words: str, **env: str) -> bytes:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *words],
        capture_output=True,
        env=environment(env),
        check=True,
    )
    assert not done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("abc", 3),
        ("", 0),
        ("über", 4),
        ("温度", 4),
        ("e\u0301", 1),
        ("\uff57", 2),
        ("🚗", 2),
        ("한", 2),
    ],
)
def test_how_wide_a_text_is(text, expected):
    assert width(text) == expected


@pytest.mark.parametrize(
    ("text", "limit", "in_middle", "expected"),
    [
        ("sensor", 6, False, "sensor"),
        ("sensor_temp_12", 8, False, "sensor_…"),
        ("sensor_temp_12", 8, True, "sens…_12"),
        ("温度温度温度", 7, False, "温度温…"),
        ("温度温度温度", 7, True, "温度…度"),
        ("ab", 1, True, "…"),
    ],
)
def test_shortened(text, limit, in_middle, expected):
    assert shortened(text, limit, "…", in_middle) == expected


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (12_345, "12.3 kB"),
        (999_499, "999 kB"),
        (999_500, "1.00 MB"),
        (3_400_000, "3.40 MB"),
        (5 * 10**12, "5.00 TB"),
        (10**18, "1000 PB"),
    ],
)
def test_sizes_for_people(size, expected):
    assert human_size(size) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("naïve 温度", "naïve 温度"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("two\nlines\t", r"two\nlines\t"),
        ("\u202eright to left", r"\u202eright to left"),
        ("half \udc80", r"half \udc80"),
        ("\x9b31m", r"\x9b31m"),
    ],
)
def test_no_text_takes_over_the_terminal(text, expected):
    assert printable(text) == expected


def test_json_has_all_values():
    value = {
        1: [float("nan"), float("inf"), -float("inf"), 0.5],
        "when": (datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 12, 30)),
        "price": decimal.Decimal("1.10"),
        "raw": b"\x00\xff",
        "yes": True,
        "none": None,
    }
    assert json.loads(json.dumps(to_json(value), allow_nan=False)) == {
        "1": ["NaN", "Infinity", "-Infinity", 0.5],
        "when": ["2024-02-29", "2024-02-29T12:30:00"],
        "price": "1.10",
        "raw": "00ff",
        "yes": True,
        "none": None,
    }


def test_a_table_in_a_pipe_is_aligned(capsys):
    rows = [[1234567, "温度", "x"], [1, "e\u0301", None], [None, "a\tb", True]]
    Console(argparse.Namespace()).table(
        [Column.number("number"), "name", "flag"], rows, title="not here", footer="nor this"
    )
    assert capsys.readouterr().out.split("\n") == [
        " number  name  flag",
        "1234567  温度  x",
        "      1  e\u0301",
        r"         a\tb  yes",
        "",
    ]


def test_a_table_without_heads_has_as_many_lines_as_rows(capsys):
    console = Console(argparse.Namespace())
    console.table(["a", "b"], [["x", 1], ["long", 2]], header=False)
    assert capsys.readouterr().out == "x     1\nlong  2\n"
    console.table(["a", "b"], [], header=False)
    assert capsys.readouterr().out == ""


def test_facts_are_aligned(capsys):
    Console(argparse.Namespace()).facts([("rows", 5000), ("written by", "a\x1b"), ("none", None)])
    assert capsys.readouterr().out == "rows        5000\nwritten by  a\\x1b\nnone\n"


DOCUMENT = """
import argparse, sys
from fastmosaic.cli.output.console import Console
from fastmosaic.cli.exit import reported

document = ["é", "温", "🚗", "\\udc80"]
sys.exit(reported(lambda _: Console(argparse.Namespace()).document(document) or 0, None))
"""


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
def test_json_in_any_encoding(encoding):
    printed = in_a_pipe(DOCUMENT, PYTHONIOENCODING=encoding).decode(encoding)
    assert json.loads(printed) == ["é", "温", "🚗", "\udc80"]


BARS = """
import argparse, sys
from fastmosaic.cli.output.console import Console
from fastmosaic.cli.exit import reported

def run(_):
    console = Console(argparse.Namespace())
    for share in (0, 0.1, 0.5, 1, 2, -1):
        console.line("[" + console.bar(share) + "]")
    console.line("\\u6e29 " + console.ellipsis)
    return 0

sys.exit(reported(run, None))
"""


@pytest.mark.parametrize(
    ("env", "block", "end"),
    [
        ({"PYTHONIOENCODING": "utf-8"}, "█", "温 …"),
        ({"PYTHONIOENCODING": "ascii"}, "#", r"\u6e29 ..."),
        ({"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}, "#", r"\u6e29 ..."),
    ],
)
def test_bars(env, block, end):
    printed = in_a_pipe(BARS, **env).decode().split("\n")
    lengths = [0, 2, 10, 20, 20, 0]
    assert printed == [*(f"[{block * length}]" for length in lengths), end, ""]


# ---- terminals


@pytest.mark.parametrize("count", [3, 600])
@pytest.mark.parametrize("columns", [80, 140])
def test_rows_are_lines_that_fit(count, columns):
    """Names that are too long lose their middle: the first and last words are still there."""
    names = ["sensor_" * 30 + "end", "温度" * 80, "short"]
    lines = plain(table(count, *names, columns=columns, lines=2000)).split("\n")
    assert max(map(width, lines)) == columns
    shown = [line.split()[-1] for line in lines[2 : 2 + 3 * count]]
    assert len(set(shown)) == 3
    first, second, third = shown[:3]
    assert first.startswith("sensor_sensor_")
    assert first.endswith("_sensor_end")
    assert (second[:2], second[-2:], third) == ("温度", "温度", "short")
    assert first.count("…") == second.count("…") == 1


def wide_table(columns, texts):
    """A table of six numbers and as many texts, on a terminal."""

    def act():
        console = Console(argparse.Namespace())
        heads = [*(Column.number(f"number {i}") for i in range(6)), Column.name("the name"), "type"]
        console.table(heads, [[*range(1000, 1006), *texts]] * 2)
        return 0

    status, printed = acting(act, columns=columns)
    assert status == 0
    return plain(printed).splitlines()


def test_titles_are_broken_between_words():
    lines = wide_table(80, ["sensor_temperature_left", "string"])
    assert lines[0].split() == ["number"] * 6
    assert lines[1].split() == [*"012345", "the", "name", "type"]
    assert lines[3].split()[:6] == ["1,000", "1,001", "1,002", "1,003", "1,004", "1,005"]
    assert max(map(len, lines)) <= 80


def test_a_name_has_more_room_than_other_text():
    text = "timestamp[us, tz=Europe/Berlin] with words"
    line = wide_table(100, ["sensor_temperature_left", text])[3]
    assert "sensor_temperature_left" in line
    assert "timestamp[" in line
    assert line.rstrip().endswith("…")


def test_a_table_that_is_too_wide_is_a_list():
    lines = wide_table(50, ["sensor_" * 20 + "end", "string"])
    assert lines[0].split() == ["number", "0", "1,000"]
    assert lines[6].startswith("the name  sensor_")
    assert lines[6].rstrip().endswith("_end")
    assert lines[7].split() == ["type", "string"]
    assert not lines[8].strip()
    assert lines[9].split() == ["number", "0", "1,000"]
    assert max(map(len, lines)) <= 50


def test_a_value_that_would_fill_the_screen_is_cut():
    printed = table(1, "x" * 100_000)
    assert 70 < plain(printed).count("x") < 80


def test_text_is_broken_between_words():
    def act():
        console = Console(argparse.Namespace())
        console.line("a word " * 30)
        console.facts([("keys", "several words " * 10), ("file", "x" * 200)])
        return 0

    _, printed = acting(act, columns=80)
    lines = [line.rstrip() for line in plain(printed).splitlines()]
    assert max(map(len, lines)) <= 80
    assert {word for line in lines for word in line.split()} == {
        *("a", "word", "keys", "file", "several", "words", "x" * 73 + "…"),
    }


def test_numbers_are_for_people_on_a_terminal():
    def act():
        Console(argparse.Namespace()).table(["n", "size"], [[1234567, True]])
        return 0

    _, printed = acting(act)
    assert plain(printed).split()[-2:] == ["1,234,567", "yes"]


def test_names_cannot_move_the_cursor():
    printed = table(1, "a\x1b[2Jb\rc", "[bold]no markup[/bold] :car:")
    assert "\x1b[2J" not in printed
    assert r"a\x1b[2Jb\rc" in printed
    assert "[bold]no markup[/bold] :car:" in printed


def test_a_terminal_without_letters():
    assert table(2, "id", "x" * 100, env={"PYTHONIOENCODING": "ascii"}).isascii()


def test_a_dumb_terminal_gets_no_escapes_and_no_pager(tmp_path):
    env = {"TERM": "dumb", "PAGER": f"tee {tmp_path / 'paged'}"}
    assert "\x1b" not in table(100, "id", env=env)
    assert not (tmp_path / "paged").exists()


def test_what_is_longer_than_the_terminal_is_paged(tmp_path):
    env = {"PAGER": f"tee '{tmp_path / 'what is paged'}'"}
    printed = table(100, "id", lines=24, env=env)
    paged = plain((tmp_path / "what is paged").read_text())
    assert len(paged.splitlines()) == 104  # and heads, a rule, an empty line, a footer
    assert plain(printed) == paged


def test_what_is_short_is_not_paged(tmp_path):
    env = {"PAGER": f"tee {tmp_path / 'paged'}"}
    assert "all of them" in table(5, "id", lines=24, env=env)
    assert not (tmp_path / "paged").exists()


@pytest.mark.parametrize("pager", ["", "there-is-no-such-program"])
def test_without_a_pager_all_is_printed(pager):
    assert len(plain(table(100, "id", env={"PAGER": pager})).splitlines()) == 104


def test_a_pager_that_is_left_early():
    assert len(table(20_000, "id", env={"PAGER": "head -n 1"}).splitlines()) == 1


def test_a_table_in_paged_text_is_not_paged_again(tmp_path):
    def act():
        console = Console(argparse.Namespace())
        with console.paging():
            console.line("before")
            console.table(["n"], [[n] for n in range(100)])
            console.line("after")
        return 0

    acting(act, env={"PAGER": f"tee -a {tmp_path / 'paged'}"})
    paged = (tmp_path / "paged").read_text()
    assert paged.startswith("before")
    assert paged.endswith("after\n")


def test_no_pager_if_it_is_not_wanted(tmp_path):
    printed = table(100, "id", env={"PAGER": f"tee {tmp_path / 'paged'}"}, no_pager=True)
    assert not (tmp_path / "paged").exists()
    assert len(plain(printed).splitlines()) == 104


def copy():
    """Show progress on stderr, and print the answer to stdout."""
    console = Console(argparse.Namespace(json=True))
    with console.progress("copying", 100) as advance:
        for _ in range(10):
            advance(10)
        print("the answer", flush=True)
    return 0


def test_progress_is_on_stderr_and_the_answer_on_stdout():
    reading, writing = os.pipe()
    status, shown = acting(copy, stdout=writing)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        assert pipe.read() == "the answer\n"
    assert status == 0
    assert "copying" in shown
    assert "100/100" in plain(shown)


def test_progress_without_colours():
    reading, writing = os.pipe()
    _, shown = acting(copy, stdout=writing, env={"NO_COLOR": "1"})
    os.close(writing)
    os.close(reading)
    assert "copying" in shown
    assert "\x1b[3" not in shown


def test_no_progress_where_nobody_watches(capsys):
    assert copy() == 0
    assert capsys.readouterr() == ("the answer\n", "")

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
from terminal import environment, on_terminal, plain

from fastmosaic.cli.output.aligned import width
from fastmosaic.cli.output.console import Column, Console, human_size, printable, to_json

# Prints a table of the names in its arguments: number, name.
TABLE = """
import argparse, sys
from fastmosaic.cli.output.console import Column, Console

console = Console(argparse.Namespace())
count, *names = sys.argv[1:]
rows = [[number, name] for number in range(int(count)) for name in names]
console.table([Column("#", right=True), "name"], rows, footer="all of them")
"""


def script(code: str, *words: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(code), *words]


def in_a_pipe(code: str, *words: str, **env: str) -> bytes:
    done = subprocess.run(
        script(code, *words), capture_output=True, env=environment(env), check=True
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
        [Column("number", right=True), "name", "flag"], rows, title="not here", footer="nor this"
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


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1", "utf8"])
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


def test_bars():
    assert in_a_pipe(BARS, PYTHONIOENCODING="utf-8").decode().split("\n") == [
        "[]", "[██]", f"[{'█' * 10}]", f"[{'█' * 20}]", f"[{'█' * 20}]", "[]", "温 …", "",
    ]  # fmt: skip


def test_bars_where_there_are_no_blocks():
    assert in_a_pipe(BARS, PYTHONIOENCODING="ascii").decode().split("\n") == [
        "[]", "[##]", f"[{'#' * 10}]", f"[{'#' * 20}]", f"[{'#' * 20}]", "[]", r"\u6e29 ...", "",
    ]  # fmt: skip


def test_a_locale_without_letters():
    env = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    assert in_a_pipe(BARS, **env).decode("ascii").startswith("[]\n[##]\n")


# ---- terminals


@pytest.mark.parametrize("count", [3, 600])  # by rich, and longer than that
@pytest.mark.parametrize("columns", [80, 140])
def test_long_names_stay_whole_within_the_width(count, columns):
    names = ["sensor_" * 20 + "end", "温度" * 60]
    status, printed = on_terminal(
        script(TABLE, str(count), *names), columns=columns, env={"PAGER": "cat"}
    )
    lines = plain(printed).split("\n")
    assert status == 0
    assert max(map(width, lines)) <= columns
    for name in names:
        assert "".join(line.split()[-1] for line in lines if line.strip()).count(name) == count


def test_a_value_that_would_fill_the_screen_is_cut():
    status, printed = on_terminal(script(TABLE, "1", "x" * 100_000), env={"PAGER": "cat"})
    assert status == 0
    assert plain(printed).count("x") == 400
    assert "…" in printed


def test_numbers_are_for_people_on_a_terminal():
    code = """
    import argparse
    from fastmosaic.cli.output.console import Console
    Console(argparse.Namespace()).table(["n", "size"], [[1234567, True]])
    """
    status, printed = on_terminal(script(code))
    assert (status, plain(printed).split()[-2:]) == (0, ["1,234,567", "yes"])


def test_names_cannot_move_the_cursor():
    _, printed = on_terminal(script(TABLE, "1", "a\x1b[2Jb\rc", "[bold]no markup[/bold] :car:"))
    assert "\x1b[2J" not in printed
    assert r"a\x1b[2Jb\rc" in printed
    assert "[bold]no markup[/bold] :car:" in printed


def test_a_terminal_without_letters():
    status, printed = on_terminal(script(TABLE, "2", "id"), env={"PYTHONIOENCODING": "ascii"})
    assert status == 0
    assert printed.isascii()


def test_a_dumb_terminal_gets_no_escapes_and_no_pager(tmp_path):
    env = {"TERM": "dumb", "PAGER": f"tee {tmp_path / 'paged'}"}
    _, printed = on_terminal(script(TABLE, "100", "id"), env=env)
    assert "\x1b" not in printed
    assert not (tmp_path / "paged").exists()


def test_what_is_longer_than_the_terminal_is_paged(tmp_path):
    env = {"PAGER": f"tee '{tmp_path / 'what is paged'}'"}
    status, printed = on_terminal(script(TABLE, "100", "id"), lines=24, env=env)
    paged = plain((tmp_path / "what is paged").read_text())
    assert status == 0
    assert len(paged.splitlines()) == 104  # and heads, a rule, an empty line, a footer
    assert plain(printed) == paged


def test_folded_lines_count(tmp_path):
    """Ten rows of four lines each."""
    env = {"PAGER": f"tee {tmp_path / 'paged'}"}
    on_terminal(script(TABLE, "10", "x" * 300), lines=24, columns=80, env=env)
    assert plain((tmp_path / "paged").read_text()).count("x") == 3000


def test_what_is_short_is_not_paged(tmp_path):
    env = {"PAGER": f"tee {tmp_path / 'paged'}"}
    _, printed = on_terminal(script(TABLE, "5", "id"), lines=24, env=env)
    assert not (tmp_path / "paged").exists()
    assert "all of them" in printed


@pytest.mark.parametrize("pager", ["", "there-is-no-such-program"])
def test_without_a_pager_all_is_printed(pager):
    status, printed = on_terminal(script(TABLE, "100", "id"), env={"PAGER": pager})
    assert status == 0
    assert len(plain(printed).splitlines()) == 104


def test_a_pager_that_is_left_early():
    status, _ = on_terminal(script(TABLE, "20000", "id"), env={"PAGER": "head -n 1"})
    assert status == 0


@pytest.mark.parametrize(("less", "expected"), [(None, "FRSX"), ("-M", "-M")])
def test_options_of_less_are_the_users(tmp_path, less, expected):
    pager = tmp_path / "pager"
    pager.write_text('#!/bin/sh\ncat > /dev/null\necho "LESS is $LESS."\n')
    pager.chmod(0o755)
    env = {"PAGER": str(pager)} | ({} if less is None else {"LESS": less})
    _, printed = on_terminal(script(TABLE, "100", "id"), env=env)
    assert printed == f"LESS is {expected}.\n"


def test_a_table_in_paged_text_is_not_paged_again(tmp_path):
    code = """
    import argparse
    from fastmosaic.cli.output.console import Console
    console = Console(argparse.Namespace())
    with console.paging():
        console.line("before")
        console.table(["n"], [[n] for n in range(100)])
        console.line("after")
    """
    env = {"PAGER": f"tee -a {tmp_path / 'paged'}"}
    on_terminal(script(code), env=env)
    paged = (tmp_path / "paged").read_text()
    assert paged.startswith("before")
    assert paged.endswith("after\n")


def test_no_pager_if_it_is_not_wanted(tmp_path):
    code = TABLE.replace("Namespace()", "Namespace(no_pager=True)")
    _, printed = on_terminal(script(code, "100", "id"), env={"PAGER": f"tee {tmp_path / 'paged'}"})
    assert not (tmp_path / "paged").exists()
    assert len(plain(printed).splitlines()) == 104


PROGRESS = """
import argparse, time
from fastmosaic.cli.output.console import Console

console = Console(argparse.Namespace(json=True))
with console.progress("copying", 100) as advance:
    for _ in range(10):
        advance(10)
    print("the answer")
"""


def test_progress_is_on_stderr_and_the_answer_on_stdout():
    reading, writing = os.pipe()
    status, shown = on_terminal(script(PROGRESS), stdout=writing)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        assert pipe.read() == "the answer\n"
    assert status == 0
    assert "copying" in shown
    assert "100/100" in plain(shown)


def test_progress_without_colours():
    reading, writing = os.pipe()
    _, shown = on_terminal(script(PROGRESS), stdout=writing, env={"NO_COLOR": "1"})
    os.close(writing)
    os.close(reading)
    assert "copying" in shown
    assert "\x1b[3" not in shown


def test_no_progress_where_nobody_watches():
    assert in_a_pipe(PROGRESS) == b"the answer\n"

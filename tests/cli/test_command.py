"""The command as a whole: help, starting, statuses, and errors in one line."""

import argparse
import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from terminal import command, environment

import fastmosaic as fm
from fastmosaic import cli
from fastmosaic.cli.arguments import size
from fastmosaic.cli.exit import DEBUG, message_of, reported
from fastmosaic.errors import printable

ROOT = Path(__file__).parents[2]


def parsers(parser, name=""):
    """All commands and their parsers; those of `spark` and `table` by two words."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, inner in action.choices.items():
                yield from parsers(inner, f"{name} {word}".strip())
            return
    yield name, parser


PARSERS = dict(parsers(cli.make_parser()))
OWN = {name: parser for name, parser in PARSERS.items() if " " not in name}
TABLE = {name: parser for name, parser in PARSERS.items() if name.startswith("table ")}
TAKING_FILES = sorted(OWN.keys() - {"clean", "compact", "completion"})


# ---- words


def test_every_command_is_there():
    assert OWN.keys() == {
        *("schema", "meta", "footer", "buckets", "pages", "dictionary", "column-size"),
        *("head", "cat", "count", "convert", "concat", "compact", "verify", "stats", "diff"),
        *("completion", "clean", "report", "view"),
    }


def test_help_has_a_line_for_each_command():
    lines = cli.make_parser().format_help().splitlines()
    for name in (*OWN, "spark", "table"):
        described = [line for line in lines if re.match(rf"  {name}  +\S", line)]
        assert len(described) == 1, name
    assert max(map(len, lines)) < 80


@pytest.mark.parametrize("name", PARSERS)
def test_help_can_be_printed_everywhere(monkeypatch, name):
    monkeypatch.setenv("COLUMNS", "80")
    text = PARSERS[name].format_help()
    assert text.isascii()
    lines = [line for line in text.splitlines() if not line.startswith("  fastmosaic ")]
    assert max(map(len, lines)) < 80


def examples(parser):
    """The commands under `examples:`, as words."""
    _, _, text = (parser.epilog or "").partition("examples:\n")
    for line in text.split("\n\n")[0].splitlines():
        inner = re.search(r"\$\((.*)\)", line)
        lexer = shlex.shlex(inner[1] if inner else line, posix=True, punctuation_chars="|>")
        lexer.whitespace_split = True
        words = list(lexer)
        end = next((i for i, word in enumerate(words) if word in ("|", ">", ">>")), len(words))
        yield words[:end]


def test_every_command_for_tables_is_there():
    assert TABLE.keys() == {
        *("table create", "table log", "table append", "table add", "table drop", "table delete"),
        *("table compact", "table fold", "table vacuum", "table restore"),
    }


@pytest.mark.parametrize("name", [*OWN, *TABLE])
def test_help_describes_the_command_with_examples_that_are_valid(name):
    parser = PARSERS[name]
    assert parser.description
    found = list(examples(parser))
    assert found
    for program, *words in found:
        assert program == "fastmosaic"
        assert words[: len(name.split())] == name.split()
        assert callable(cli.make_parser().parse_args(words).run)


@pytest.mark.parametrize("name", sorted(PARSERS.keys() - {"completion"}))
def test_json_is_everywhere(name):
    assert "--json" in PARSERS[name]._option_string_actions


def test_without_words_there_is_help(capsys):
    assert cli.main([]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert err.startswith("usage: fastmosaic COMMAND")
    assert "  schema " in err


def test_help(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["--help"])
    assert ended.value.code == 0
    out, err = capsys.readouterr()
    assert not err
    assert "  schema " in out


def test_version_of_the_process():
    done = subprocess.run(
        command("--version"), capture_output=True, text=True, env=environment(), check=True
    )
    assert done.stdout == f"fastmosaic {fm.__version__}\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["shema", "x"], "unknown command 'shema'; did you mean schema?"),
        (["schema"], "the following arguments are required: PATH"),
        (["schema", "x", "--greb", "y"], "unrecognized arguments: --greb y; did you mean --grep?"),
        (
            ["head", "--colums", "id", "x"],
            "unrecognized arguments: --colums; did you mean --columns?",
        ),
        (["cat", "x", "--wehre=id"], "unrecognized arguments: --wehre=id; did you mean --where?"),
        (["count", "x", "--frobnicate"], "unrecognized arguments: --frobnicate"),
        (["spark", "verfy", "x"], "unknown command 'verfy'; did you mean verify?"),
        (
            ["spark", "verify", "x", "--shalow"],
            "unrecognized arguments: --shalow; did you mean --shallow?",
        ),
    ],
)
def test_wrong_words_are_one_line(capsys, words, message):
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    assert ended.value.code == 2
    out, err = capsys.readouterr()
    assert not out
    assert re.fullmatch(rf"fastmosaic: {re.escape(message)} \(see fastmosaic.* --help\)\n", err)


def test_the_script_is_the_command():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    module, _, function = project["project"]["scripts"]["fastmosaic"].partition(":")
    assert getattr(sys.modules[module], function) is cli.main


# ---- starting


HEAVY = {"argcomplete", "duckdb", "pandas", "polars", "pyarrow.dataset", "pyspark", "rich"}


@pytest.mark.parametrize("words", [["--version"], ["schema", "FILE"], ["schema", "nowhere"]])
def test_starting_loads_nothing_heavy(small, words):
    code = (
        "import atexit, sys; from fastmosaic.cli import main\n"
        f"atexit.register(lambda: print(sorted({HEAVY!r} & set(sys.modules)), file=sys.stderr))\n"
        "main(sys.argv[1:])"
    )
    words = [str(small) if word == "FILE" else word for word in words]
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    assert done.stderr.splitlines()[-1] == "[]"


# ---- statuses


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli") / "small.mosaic"
    fm.write_table(pa.table({"id": [1, 2, 3], "name": ["a", "b", None]}), path)
    return path


def test_a_pipe_that_is_closed(tmp_path):
    path = tmp_path / "wide.mosaic"
    fm.write_table(pa.table({f"column_{i:06d}": [1] for i in range(20_000)}), path)
    process = subprocess.Popen(
        command("schema", str(path)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 141


@pytest.mark.parametrize(
    ("redirection", "message"),
    [
        (">&-", "fastmosaic: standard output is closed\n"),
        ("> /dev/full", "fastmosaic: No space left on device\n"),
        (">&- 2>&-", ""),
    ],
)
def test_output_that_goes_nowhere(small, redirection, message):
    line = f"{shlex.join(command('schema', str(small)))} {redirection}"
    done = subprocess.run(
        line, shell=True, capture_output=True, text=True, env=environment(), check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (2, "", message)


def test_interrupting(tmp_path):
    """The command waits for what comes through a pipe, and nothing does."""
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    process = subprocess.Popen(
        command("schema", str(pipe)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        text=True,
    )
    writing = None
    while writing is None:
        with contextlib.suppress(OSError):  # until the command opens it
            writing = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    os.close(writing)
    assert (process.returncode, out, err) == (130, "", "fastmosaic: interrupted\n")


def test_a_traceback_for_those_who_want_it(monkeypatch):
    def fail(_):
        raise ValueError("of no use")

    monkeypatch.setenv(DEBUG, "1")
    with pytest.raises(ValueError, match="of no use"):
        reported(fail, argparse.Namespace())


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (FileNotFoundError(2, "No such file", "a b"), "a b: No such file"),
        (OSError(28, "No space left"), "No space left"),
        (OSError("two\nlines"), "two lines"),
        (fm.ColumnNotFoundError("no column 'x'"), "no column 'x'"),
        (fm.UnsupportedError("version 9"), "version 9"),
        (KeyError("x"), "KeyError: 'x'"),
        (AttributeError("no attribute"), "AttributeError: no attribute"),
        (MemoryError(), "MemoryError"),
    ],
)
def test_what_errors_say(error, message):
    assert message_of(error) == message


def test_an_error_cannot_take_over_the_terminal(capsys):
    def fail(_):
        raise ValueError("\x1b[2J gone")

    assert reported(fail, argparse.Namespace()) == 2
    assert capsys.readouterr().err == "fastmosaic: \\x1b[2J gone\n"
    assert printable("fine") == "fine"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1", 1), ("64m", 64 << 20), ("2K", 2048), ("1GB", 1 << 30), ("10b", 10)],
)
def test_sizes(text, expected):
    assert size(text) == expected


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5m", "m", "64x"])
def test_what_is_no_size(text):
    with pytest.raises(argparse.ArgumentTypeError, match="invalid size"):
        size(text)


# ---- errors of all commands


def words_for(name, path, tmp_path, small):
    """Words for a command that reads `path`."""
    match name:
        case "convert":
            return [name, path, str(tmp_path / "out.parquet")]
        case "concat":
            return [name, path, str(tmp_path / "out.mosaic")]
        case "diff":
            return [name, path, str(small)]
        case "report":
            return [name, path, "-o", str(tmp_path / "out.html")]
        case "dictionary":
            return [name, path, "-c", "id"]
    return [name, path]


def fails(capsys, words):
    """The one line of an error; the status is 2, and nothing else is printed."""
    assert cli.main(words) == 2
    out, err = capsys.readouterr()
    assert not out
    assert err.startswith("fastmosaic: ")
    assert err.count("\n") == 1
    return err


@pytest.mark.parametrize("name", TAKING_FILES)
def test_a_file_that_is_not_there(capsys, tmp_path, small, name):
    path = str(tmp_path / "nowhere.mosaic")
    err = fails(capsys, words_for(name, path, tmp_path, small))
    assert err == f"fastmosaic: {path}: No such file or directory\n"


@pytest.mark.parametrize("name", TAKING_FILES)
def test_a_directory_without_files(capsys, tmp_path, small, name):
    (tmp_path / "empty" / "_temporary").mkdir(parents=True)
    path = str(tmp_path / "empty")
    assert f"{path} contains no files" in fails(capsys, words_for(name, path, tmp_path, small))


@pytest.mark.parametrize("name", TAKING_FILES)
def test_a_glob_without_matches(capsys, tmp_path, small, name):
    path = str(tmp_path / "*.mosaic")
    err = fails(capsys, words_for(name, path, tmp_path, small))
    assert err == f"fastmosaic: {path}: No file matches\n"


# `view` shows the error in its page.
@pytest.mark.parametrize("name", sorted(set(TAKING_FILES) - {"verify", "view"}))
def test_a_file_that_is_damaged(capsys, tmp_path, small, name):
    path = tmp_path / "half.mosaic"
    path.write_bytes(small.read_bytes()[:-1])
    err = fails(capsys, words_for(name, str(path), tmp_path, small))
    assert f"{path}: not a Mosaic file: it does not end in 'MOSA'" in err
    assert sorted(one.name for one in tmp_path.iterdir()) == ["half.mosaic"]


@pytest.mark.parametrize("name", sorted(set(TAKING_FILES) - {"verify"}))
def test_a_directory_of_several_formats(capsys, tmp_path, small, name):
    folder = tmp_path / "mixed"
    folder.mkdir()
    (folder / "a.mosaic").write_bytes(small.read_bytes())
    (folder / "b.csv").write_text("id\n1\n")
    assert "b.csv" in fails(capsys, words_for(name, str(folder), tmp_path, small))


READING_MOSAIC = sorted(
    set(TAKING_FILES) - {"schema", "head", "cat", "count", "convert", "diff", "view"}
)


@pytest.mark.parametrize("name", READING_MOSAIC)
@pytest.mark.parametrize("suffix", [".parquet", ""])
def test_a_file_of_another_format(capsys, tmp_path, small, name, suffix):
    path = tmp_path / f"my table{suffix}"
    pq.write_table(pa.table({"id": [1]}), path)
    err = fails(capsys, words_for(name, str(path), tmp_path, small))
    assert f"{path} is a Parquet file, and this command reads Mosaic files only" in err
    advice = err.partition("convert it first: ")[2]
    program, *words = shlex.split(advice)
    assert program == "fastmosaic"
    assert cli.main(words) == 0
    assert cli.main(words_for(name, words[-1], tmp_path, small)) in (0, 1)


TAKING_COLUMNS = sorted(name for name, one in OWN.items() if "-c" in one._option_string_actions)


def test_commands_that_take_columns():
    assert {"schema", "head", "cat", "stats", "convert"} <= set(TAKING_COLUMNS)


@pytest.mark.parametrize("name", TAKING_COLUMNS)
@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("id,nmae", "no column named 'nmae'; did you mean 'name'?"),
        ("nam_*", "no column matches 'nam_*'"),
    ],
)
def test_columns_that_are_not_there(capsys, tmp_path, small, name, columns, message):
    words = [*words_for(name, str(small), tmp_path, small)[:2], "-c", columns]
    if name == "convert":
        words.append(str(tmp_path / "out.parquet"))
    if name == "diff":
        words.append(str(small))
    assert message in fails(capsys, words)
    assert not list(tmp_path.iterdir())

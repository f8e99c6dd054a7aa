"""Text of files on a terminal: nothing in it controls the terminal or hides what is there."""

import json
import subprocess
import unicodedata

import pyarrow as pa
import pytest
from pyarrow import csv
from terminal import acting, command, environment, on_terminal, plain

import fastmosaic as fm
from fastmosaic.cli import main, make_parser
from fastmosaic.errors import printable
from fastmosaic.spark.jobs.report import (
    ColumnProfile,
    ConvertReport,
    DatasetVerifyReport,
    Failure,
    ProfileReport,
    VerifiedFile,
)

# Every kind of character that a terminal may obey, or that hides or reorders what is beside it.
CONTROLS = [chr(code) for code in (*range(1, 0x20), *range(0x7F, 0xA0))]
DIRECTIONS = list("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
INVISIBLE = list("\u00ad\u200b\u200c\u200d\u2028\u2029\u2060\ufeff\ufff9\U000e0041\ue000\u0378")
HOSTILE = [*CONTROLS, *DIRECTIONS, *INVISIBLE]
# The last one would be stripped by `plain` if it were a sequence that rich prints.
TEXT = "\x1b]0;title\x07" + "".join(HOSTILE) + "\x9b2J"
LINE = TEXT.replace("\n", "").replace("\r", "")


def left_on(printed: str) -> set[str]:
    """The characters on a terminal that must not be there; rich itself moves the cursor."""
    text = plain(printed).replace("\r", "").replace("\n", "")
    return {
        char
        for char in text
        if unicodedata.category(char)[0] == "C" or unicodedata.category(char) in ("Zl", "Zp")
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files whose names, columns, values, metadata and partitions are hostile."""
    folder = tmp_path_factory.mktemp("hostile") / f"dir{LINE}"
    folder.mkdir()
    table = pa.table(
        {
            f"name{TEXT}": ["value", TEXT, None],
            f"list{TEXT}": [[TEXT], [], None],
            f"map{TEXT}": pa.array([[(TEXT, 1)], [], None], pa.map_(pa.string(), pa.int32())),
            "id": [1, 2, 3],
            f"struct{TEXT}": [{f"field{TEXT}": TEXT, "in": {f"x{TEXT}": TEXT}}, None, {}],
        }
    ).replace_schema_metadata({f"key{TEXT}": TEXT})
    fm.write_table(table, folder / f"a{LINE}.mosaic", write_statistics=["id", f"name{TEXT}"])
    other = table.set_column(3, "id", pa.array([1, 2, 4])).drop_columns([f"map{TEXT}"])
    other = other.append_column(f"more{TEXT}", pa.array([TEXT] * 3))
    changed = pa.array([{f"field{TEXT}": "x", f"new{TEXT}": 1}, None, None])
    other = other.set_column(3, f"struct{TEXT}", changed)
    fm.write_table(other, folder / f"b{LINE}.mosaic")
    damaged = bytearray((folder / f"a{LINE}.mosaic").read_bytes())
    damaged[40] ^= 0xFF
    (folder / f"damaged{LINE}").write_bytes(damaged)
    (folder / f"text{LINE}.txt").write_text(TEXT)
    csv.write_csv(
        pa.table({f"zip{LINE}": ["007", "123"], "text": [LINE, "x"]}), folder / f"c{LINE}.csv"
    )
    return folder


@pytest.fixture(scope="module")
def one(folder):
    return folder / f"a{LINE}.mosaic"


@pytest.fixture(scope="module")
def other(folder):
    return folder / f"b{LINE}.mosaic"


RUNS = {
    "schema": [
        (),
        ("--json",),
        ("--summary",),
        ("--types",),
        ("--sizes",),
        ("-c", f"x{TEXT}"),
        ("--stored",),
    ],
    "head": [
        (),
        ("--json",),
        ("--stored",),
        ("-c", f"name{TEXT}"),
        ("--where", f"\"x{TEXT}\" = '{TEXT}'"),
    ],
    "cat": [(), ("--json",), ("--no-header",), ("--where", f"x{TEXT} = 1")],
    "count": [(), ("--json",), ("--where", TEXT), ("--where", f'"struct{TEXT}" = 1')],
    "stats": [(), ("--json",), ("-c", f"name{TEXT}")],
    "diff": [(), ("--json",), ("--schema",)],
    "meta": [(), ("--json",)],
    "footer": [(), ("--json",)],
    "buckets": [(), ("--json",)],
    "pages": [(), ("--json",), ("-c", f"name{TEXT}")],
    "dictionary": [(), ("--json",)],
    "column-size": [(), ("--json",)],
    "verify": [(), ("--json",), ("--verbose",)],
    "convert": [("--to", "csv"), ("--to", "json")],
    "concat": [("--overwrite",), ("--overwrite", "--json"), ("--mode", "copy")],
    "compact": [(), ("--json",)],
    "clean": [(), ("--json",), ("--dry-run",)],
}


def test_every_command_is_tried():
    commands = next(action for action in make_parser()._actions if action.dest == "==SUPPRESS==")
    # Tests of their own look at the pages of view and report in a browser.
    pages = {"view", "report"}
    assert set(commands.choices) == {*RUNS, *pages, "spark", "table", "completion"}


def words_of(name, options, one, other, folder):
    """The arguments of runs of a command: with good files, with bad ones, with none."""
    merged = folder.parent / f"merged{LINE}.mosaic"
    rest = {"diff": [other], "convert": ["-"], "concat": [merged], "dictionary": [f"name{TEXT}"]}
    more = rest.get(name, [])
    yield [name, one, *more, *options]
    if name == "dictionary":
        return
    yield [name, folder / f"damaged{LINE}", *more, *options]
    yield [name, folder / f"text{LINE}.txt", *more, *options]
    yield [name, folder / f"c{LINE}.csv", *more, *options]
    yield [name, f"missing{TEXT}", *more, *options]
    if name == "concat":
        yield [name, one, other, merged, *options]
    elif name not in ("diff", "convert", "compact"):
        yield [name, one, other, *options]


@pytest.mark.parametrize(
    ("name", "options"), [(name, one) for name, runs in RUNS.items() for one in runs]
)
def test_no_command_prints_hostile_text(name, options, one, other, folder):
    for words in words_of(name, options, one, other, folder):
        for columns in (60, 200):
            _, printed = on_terminal(*words, columns=columns, env={"PAGER": ""})
            assert printed
            assert left_on(printed) == set(), (words, printed)


@pytest.mark.parametrize(
    "words",
    [
        (f"comm{TEXT}",),
        ("head", "x", f"--opt{TEXT}"),
        ("head", "x", "-n", TEXT),
        ("schema", "x", "-g", f"({TEXT}"),
        ("convert", "x", "y", "--to", TEXT),
        ("convert", "x", "y", "--type", TEXT),
    ],
    ids=["command", "option", "number", "regex", "choice", "type"],
)
def test_no_error_of_the_arguments_prints_hostile_text(words):
    def act():
        with pytest.raises(SystemExit):
            main(words)
        return 0

    _, printed = acting(act)
    assert printed.startswith("fastmosaic: ")
    assert left_on(printed) == set()


def test_a_pager_receives_no_hostile_text(one):
    env = {"PAGER": "cat"}
    _, printed = on_terminal("schema", one, "--list", lines=3, env=env)
    assert "name\\x1b]0;title\\x07" in printed
    assert left_on(printed) == set()


def in_a_process(*words, **env):
    """The status of the command in a process of its own, and what it prints on its terminal."""
    line = command(*map(str, words))
    return acting(lambda: subprocess.run(line, env=environment(env), check=False).returncode)


def test_a_traceback_has_no_hostile_text(tmp_path):
    path = tmp_path / f"x{LINE}"
    path.write_bytes(b"no file" * 9)
    status, printed = in_a_process("head", path, FASTMOSAIC_DEBUG="1")
    assert status == 1
    assert "Traceback" in printed
    assert left_on(printed) == set()


def test_a_warning_is_one_line_without_hostile_text(folder, tmp_path):
    path = folder / f"c{LINE}.csv"
    for words in (["cat", path], ["convert", path, tmp_path / "x.mosaic"]):
        status, printed = in_a_process(*words)
        assert status == 0
        assert printed.count("fastmosaic: warning: leading zeros are lost") == 1
        assert left_on(printed) == set()


def test_json_is_the_same_document_on_a_terminal_and_in_a_pipe(one):
    read = fm.read_table(one).to_pylist(maps_as_pydicts="strict")
    _, printed = on_terminal("head", one, "--json")
    assert json.loads(printed) == read
    _, printed = on_terminal("cat", one, "--json", columns=500)
    assert [json.loads(line) for line in printed.splitlines()] == read
    done = subprocess.run(
        command("head", str(one), "--json"), env=environment(), stdout=subprocess.PIPE, check=True
    )
    assert json.loads(done.stdout) == read
    assert left_on(done.stdout.decode()) == set()


def test_a_pipe_receives_the_values_unchanged(one, tmp_path):
    text = f"name{TEXT}"
    for words in (
        ["cat", str(one), "-c", text],
        ["convert", str(one), "-", "--to", "csv", "-c", text],
    ):
        done = subprocess.run(
            command(*words), env=environment(), stdout=subprocess.PIPE, check=True
        )
        assert f'"{TEXT}"'.encode() in done.stdout


def test_rows_are_not_converted_to_a_terminal(one):
    for format in ("csv", "json", "arrow"):
        status, printed = on_terminal("convert", one, "-", "--to", format)
        assert status == 2
        assert "standard output is a terminal; redirect it to a file or a pipe" in printed


def test_shells_are_offered_no_hostile_names(folder, tmp_path):
    (tmp_path / f"one{LINE}").touch()
    (tmp_path / "one_good").touch()
    line = f"fastmosaic head {tmp_path}/one"
    env = environment(
        {
            "_ARGCOMPLETE": "1",
            "COMP_LINE": line,
            "COMP_POINT": str(len(line)),
            "_ARGCOMPLETE_IFS": "\n",
        }
        | {"_ARGCOMPLETE_STDOUT_FILENAME": str(tmp_path / "out"), "_ARGCOMPLETE_SHELL": "bash"}
    )
    subprocess.run(command(), env=env, check=False)
    offered = (tmp_path / "out").read_text()
    assert "one_good" in offered
    assert left_on(offered) == set()


# ---- what Python programs print


def test_errors_escape_names_but_their_fields_do_not():
    error = fm.CorruptFileError(f"two\nlines{LINE}", file=TEXT, column=TEXT)
    assert left_on(str(error)) == set()
    assert str(error).count("\n") == 1
    assert (error.file, error.column) == (TEXT, TEXT)
    assert left_on(repr(error)) == set()


def test_reports_escape_names(one, folder):
    report = fm.verify(folder / f"damaged{LINE}")
    assert not report.ok
    assert LINE in report.file
    assert left_on(str(report)) == left_on(repr(report)) == set()
    with fm.MosaicFile(one) as file:
        assert left_on(repr(file)) == set()


def test_reports_of_jobs_escape_names():
    failure = Failure(TEXT, TEXT)
    profile = ColumnProfile(TEXT, "string", 1, 0, 1, TEXT, TEXT, 9, 1, 0, 0, 0, 0)
    reports = [
        ConvertReport(1, 1, 1, 1, 1, 0.1, 0, (failure,)),
        DatasetVerifyReport((VerifiedFile(TEXT, 1, 1, 1, TEXT),), 0.1, 0),
        ProfileReport((profile,), 1, 1, 1, 0.1, 0),
    ]
    for report in reports:
        assert left_on(str(report)) == left_on(repr(report)) == set()
        assert len(report.lines()) == 2 + (report is reports[2])
        assert left_on("".join(report.lines())) == set()


@pytest.mark.parametrize("char", [*HOSTILE, "\udc80", "\u00a0", "\u3000"])
def test_every_hostile_character_is_escaped(char):
    assert printable(f"a{char}b").isprintable()
    assert printable("grün 温度 👍 é") == "grün 温度 👍 é"

"""fastmosaic completion: the words that a real shell is told."""

import argparse
import stat
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from terminal import SOURCE, environment

import fastmosaic as fm
from fastmosaic.cli import main
from fastmosaic.cli.arguments import complete_columns

# Asks the function that bash would call when Tab is pressed at the end of each line.
ASK = """
eval "$(fastmosaic completion bash)" || exit 1
complete -p fastmosaic > /dev/null || exit 1
while IFS= read -r COMP_LINE; do
    COMP_POINT=${#COMP_LINE} COMP_TYPE=9 COMPREPLY=()
    _python_argcomplete fastmosaic
    (IFS=$'\\t'; echo "${COMPREPLY[*]}")
done
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A directory with the command, and some files."""
    folder = tmp_path_factory.mktemp("completion")
    script = folder / "bin" / "fastmosaic"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nPYTHONPATH={SOURCE} exec {sys.executable} -m fastmosaic "$@"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    odd = ["a b", "a:b", "a$b", "a,b", "c\x1b[31m"]
    fm.write_table(pa.table({name: [1] for name in odd}), folder / "odd.mosaic")
    wide = [f"sensor_{kind}_{i:04d}" for kind in ("temp", "press") for i in range(5000)]
    fm.write_table(pa.table({"id": [1]} | {name: [1.5] for name in wide}), folder / "wide.mosaic")
    pq.write_table(pa.table({"id": [1], "name": ["x"]}), folder / "table.parquet")
    (folder / "data").mkdir()
    fm.write_table(pa.table({"left": [1]}), folder / "data" / "a.mosaic")
    fm.write_table(pa.table({"right": [1]}), folder / "data" / "b.mosaic")
    table = fm.MosaicTable.create(folder / "table", pa.table({"id": [1], "name": ["x"]}))
    table.add_columns({"more": 1})
    return folder


@pytest.fixture(scope="module")
def ask(folder):
    path = f"{folder / 'bin'}:{environment()['PATH']}"

    def ask(*lines):
        done = subprocess.run(
            ["bash", "-c", ASK],
            input="".join(f"{line}\n" for line in lines),
            capture_output=True,
            text=True,
            cwd=folder,
            env=environment({"PATH": path}),
            check=True,
        )
        assert not done.stderr
        # What is the only way to go on gets a space after it.
        return [
            [word.rstrip() for word in line.split("\t") if word]
            for line in done.stdout.splitlines()
        ]

    return ask


def test_commands_choices_files_and_columns(ask):
    assert ask(
        "fastmosaic sch",
        "fastmosaic schema --sort ",
        "fastmosaic schema wi",
        "fastmosaic schema odd.mosaic -c a",
    ) == [
        ["schema"],
        ["position", "name", "size"],
        ["wide.mosaic"],
        [r"a\ b", "a:b", r"a\$b", "a,b"],
    ]


def test_commands_and_columns_of_tables(ask):
    assert ask(
        "fastmosaic tab",
        "fastmosaic table a",
        "fastmosaic table vacuum table --older",
        "fastmosaic table compact table --mode ",
        "fastmosaic table drop ta",
        "fastmosaic table drop table m",
        "fastmosaic table drop table more n",
        "fastmosaic head table -c m",
    ) == [
        ["table"],
        ["append", "add"],
        ["--older-than"],
        ["auto", "copy", "rewrite"],
        ["table.parquet", "table/"],
        ["more"],
        ["name"],
        ["more"],
    ]


@pytest.mark.parametrize(
    ("name", "prefix", "expected"),
    [
        ("odd.mosaic", "", ["a b", "a:b", "a$b", "a,b"]),
        ("odd.mosaic", "a b,", ["a b,a b", "a b,a:b", "a b,a$b"]),
        ("wide.mosaic", "i", ["id"]),
        ("wide.mosaic", "id,sensor_temp_000", [f"id,sensor_temp_000{i}" for i in range(10)]),
        ("data", "", ["left", "right"]),
        ("table.parquet", "na", ["name"]),
        ("nowhere.mosaic", "i", []),
    ],
)
def test_columns(folder, name, prefix, expected):
    arguments = argparse.Namespace(paths=[str(folder / name)])
    assert complete_columns(prefix, arguments) == expected
    assert complete_columns(prefix, argparse.Namespace(one=str(folder / name))) == expected
    assert complete_columns(prefix, argparse.Namespace(table=str(folder / name))) == expected


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("", ["id", "sensor_"]),
        ("sens", ["sensor_temp_", "sensor_press_"]),
        ("id,sens", ["id,sensor_temp_", "id,sensor_press_"]),
    ],
)
def test_of_ten_thousand_columns_the_next_words(folder, prefix, expected):
    arguments = argparse.Namespace(paths=[str(folder / "wide.mosaic")])
    assert complete_columns(prefix, arguments) == expected


@pytest.mark.parametrize(
    ("shell", "part"),
    [
        ("bash", "complete -o nospace -o default -o bashdefault -F _python_argcomplete fastmosaic"),
        ("zsh", "compdef _python_argcomplete fastmosaic"),
        ("fish", "complete --command fastmosaic"),
    ],
)
def test_scripts(capsys, shell, part):
    assert main(["completion", shell]) == 0
    out, err = capsys.readouterr()
    assert part in out
    assert not err


def test_an_unknown_shell(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["completion", "bahs"])
    assert ended.value.code == 2
    assert "did you mean bash?" in capsys.readouterr().err

"""Hostile files cost what they are: little processor time, and little memory beyond the result.

The files in tests/hostile are small and claim to be large, or the other way round.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from costs import assert_cheap

import fastmosaic as fm

HOSTILE = Path(__file__).parents[1] / "hostile"
FILES = sorted(path.stem for path in HOSTILE.glob("*.mosaic"))


def test_there_are_hostile_files():
    assert len(FILES) >= 10


@pytest.mark.parametrize("name", FILES)
def test_a_hostile_file_costs_what_it_is(name):
    assert_cheap(HOSTILE / f"{name}.mosaic")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("const_padded200KB", "200000 bytes after the values do not belong to anything"),
        ("forged_statistics", "there are values outside the bounds of the statistics"),
        ("hang", "the data ends before its last value"),
        ("zstdbucket", "the bucket declares 524288000 bytes, but its columns need"),
    ],
)
def test_verify_reports_what_is_wrong(name, problem):
    report = fm.verify(HOSTILE / f"{name}.mosaic")
    assert problem in str(report)
    assert not report.ok


@pytest.mark.parametrize(
    "name", ["bool_const", "const100M", "conststr", "nocol1", "nocol1000", "verify_4x60M"]
)
def test_a_valid_file_is_valid(name):
    path = HOSTILE / f"{name}.mosaic"
    assert fm.verify(path).ok
    file = fm.MosaicFile(path)
    assert next(file.iter_batches(7)).num_rows == 7


def test_what_was_written_is_read():
    table = fm.read_table(HOSTILE / "const100M.mosaic")
    assert table.num_rows == 100_000_000
    assert table.column("a").unique().to_pylist() == [7]


def test_a_process_ends_while_arrow_releases_its_memory():
    # Threads of Arrow's filter may hold the last batches when the interpreter ends.
    script = (
        "import sys, pyarrow.compute as pc, fastmosaic as fm\n"
        "data = fm.MosaicDataset(sys.argv[1])\n"
        "data.count_rows(pc.field('00').is_null())"
    )
    command = [sys.executable, "-c", script, HOSTILE / "verify_4x60M.mosaic"]
    system = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"}
    for _ in range(5):
        children = [subprocess.Popen(command, env=system) for _ in range(3)]
        assert [child.wait() for child in children] == [0, 0, 0]

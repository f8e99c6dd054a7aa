"""Several processes that change one table in a local directory, and others that read it."""

import subprocess
import sys
import textwrap

import pytest
import races

import fastmosaic as fm

LONG = pytest.mark.exhaustive


@pytest.mark.parametrize(
    ("seed", "writers", "changes", "vacuum_age"),
    [
        (1, 3, 20, 3600),
        pytest.param(2, 4, 250, 10, marks=LONG),
        pytest.param(3, 8, 120, 20, marks=LONG),
    ],
)
def test_random_changes(tmp_path, seed, writers, changes, vacuum_age):
    """Each version is what a model says about the changes in the order of the versions."""
    path = str(tmp_path / "t")
    fm.MosaicTable.create(path, races.first_rows(), partitioning="day")
    config = {"path": path, "seed": seed, "changes": changes, "vacuum_age": vacuum_age}
    notes, reads = races.run(config, writers, 2, tmp_path)
    counts = races.check(path, notes, reads)
    print(dict(counts))
    assert len(notes) == writers * changes
    assert counts["rebased"] > 0
    assert counts["reads"] > 0
    before = fm.read_table(path).sort_by("id")
    fm.MosaicTable(path).vacuum(0)
    assert fm.read_table(path).sort_by("id").equals(before)

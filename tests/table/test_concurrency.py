"""Several processes that change one table in a local directory, and others that read it."""

import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc
import pytest
import races

import fastmosaic as fm

LONG = pytest.mark.exhaustive

CREATOR = """
    import sys
    import pyarrow as pa, fastmosaic as fm

    root, number = sys.argv[1], int(sys.argv[2])
    print("ready", flush=True)
    sys.stdin.readline()
    for turn in range(10):
        data = pa.table({"writer": [number] * 3})
        try:
            fm.MosaicTable.create(f"{root}/{turn}", data)
        except FileExistsError as error:
            assert f"{root}/{turn}" in str(error)
        else:
            print(turn)
"""


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


def test_one_of_four_processes_makes_a_table(tmp_path):
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(CREATOR), str(tmp_path), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    winners = {}
    for number, process in enumerate(processes):
        printed, _ = process.communicate()
        assert process.returncode == 0
        for turn in map(int, printed.split()):
            assert winners.setdefault(turn, number) == number
    assert sorted(winners) == list(range(10))
    for turn, number in winners.items():
        path = tmp_path / str(turn)
        assert fm.read_table(path)["writer"].to_pylist() == [number] * 3
        fm.MosaicTable(path).vacuum(0)
        assert len(list(path.glob("*.mosaic"))) == 1
        assert not (path / "_mosaic" / "creating").exists()


def test_threads_that_share_a_table(tmp_path):
    """Each thread appends rows and adds a column by the same object."""
    path = str(tmp_path / "t")
    table = fm.MosaicTable.create(path, pa.table({"id": [0]}))

    def change(number):
        for turn in range(1, 6):
            table.append(pa.table({"id": [10 * number + turn]}))
            table.compact()
        while True:
            with suppress(fm.ConflictError):  # the files were merged meanwhile
                return table.add_columns({f"c{number}": pc.field("id") * number})

    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(change, range(1, 5)))
    assert len({one.version for one in done}) == 4
    found = fm.read_table(path).to_pydict()
    assert sorted(found["id"]) == [0, *(10 * n + turn for n in range(1, 5) for turn in range(1, 6))]
    for number in range(1, 5):
        pairs = zip(found["id"], found[f"c{number}"], strict=True)
        # Rows that were appended later have no value.
        assert all(value in (id * number, None) for id, value in pairs)
        assert number * (10 * number + 5) in found[f"c{number}"]
    before = fm.read_table(path)
    fm.MosaicTable(path).vacuum(0)
    assert fm.read_table(path).equals(before)

"""Processes that change and read one table at the same time, and a model of what they do.

meanwhile  what another writer does before a change is committed
run        start writers and readers, wait for them, and return what they report
replay     the rows of each version by the model, which knows rows, but no files
check      compare what was reported, and what is there, with the model
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import fastmosaic as fm
from fastmosaic.storage.debris import is_debris_name
from fastmosaic.table.store import TableStore

COLUMNS = ("x", "y", "z")
DAYS = ("mo", "tu")

Rows = dict[int, dict[str, Any]]  # by their ids, without nulls


def rows_of(table: pa.Table) -> Rows:
    found = {
        row["id"]: {name: value for name, value in row.items() if value is not None}
        for row in table.to_pylist()
    }
    assert len(found) == table.num_rows, "a row occurs twice"
    return found


def first_rows() -> pa.Table:
    return pa.table({"id": [1, 2, 3, 4], "day": ["mo", "mo", "tu", "tu"], "a": [1, 2, 3, 4]})


# ---- two writers


@contextmanager
def meanwhile(moment: str, action: Callable[[], object]) -> Iterator[None]:
    """Do `action`, that of another writer, before the next version is committed.

    "early" is just before the newest version is looked for, "late" before the next one is created.
    """
    pending = [action]

    def act() -> None:
        if pending:
            pending.pop()()

    with pytest.MonkeyPatch.context() as patch:
        if moment == "early":
            settle = TableStore.settle
            patch.setattr(TableStore, "settle", lambda *given: (act(), settle(*given)))
        else:
            add = TableStore.add
            patch.setattr(TableStore, "add", lambda *given: (act(), add(*given)))
        yield
    assert not pending


def names_on_disk(path: str) -> set[str]:
    """The paths of all Mosaic files, except schemas."""
    return {
        os.path.relpath(os.path.join(folder, name), path)
        for folder, _, names in os.walk(path)
        for name in names
        if name.endswith(".mosaic") and not name.startswith("schema-")
    }


def named(path: str) -> set[str]:
    """The paths of all files that the versions of a table name."""
    store = fm.MosaicTable(path)._store
    versions = map(store.read, store.versions())
    return {one.path for version in versions for file in version.files for one in file.parts}


# ---- in the processes


class Writer:
    """Makes random changes, and notes each with what became of it."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.number = config["number"]
        self.random = random.Random(f"{config['seed']} {self.number}")
        self.vacuum_age = config["vacuum_age"]
        self.table = open_table(config)
        self.count = 0

    def step(self) -> dict[str, Any]:
        self.count += 1
        tag = 1_000_000 * (self.number + 1) + 1000 * self.count
        kind = self.random.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        note: dict[str, Any] = {"kind": kind, "tag": tag}
        try:
            done = getattr(self, kind)(tag, note)
        except fm.ConflictError as error:
            return {**note, "conflict": str(error), "file": error.file, "column": error.column}
        except (fm.ColumnNotFoundError, fm.SchemaMismatchError, ValueError) as error:
            return {**note, "refused": str(error)}  # another writer has changed the columns before
        except FileNotFoundError as error:
            if kind != "restore":
                raise
            return {**note, "refused": str(error)}  # vacuum has removed the version
        if done is not None and done.committed:
            note |= {
                "version": done.version,
                "rebased": done.rebased,
                "summary": dict(done.summary),
            }
            assert self.table.version == done.version
            note["rows"] = list(rows_of(self.table.read()).items())
        return note

    def append(self, tag: int, note: dict[str, Any]) -> Any:
        names = [name for name in ("a", *COLUMNS) if self.random.random() < 0.7]
        present = self.table.refresh().schema.names
        rows = [
            {"id": tag + at, "day": self.random.choice(DAYS)}
            | {name: tag + at for name in names if name in present}
            for at in range(self.random.randint(1, 4))
        ]
        note["data"] = rows
        return self.table.append(pa.Table.from_pylist(rows))

    def add(self, tag: int, note: dict[str, Any], replace: bool = False) -> Any:
        name = note["name"] = self.random.choice(("a", *COLUMNS) if replace else COLUMNS)
        if self.random.random() < 0.5:
            return self.table.add_columns({name: pc.field("id") + tag}, replace=replace)
        return self.table.add_columns(
            lambda batch: {name: pc.add(batch["id"], tag)}, inputs=["id"], replace=replace
        )

    def replace(self, tag: int, note: dict[str, Any]) -> Any:
        return self.add(tag, note, replace=True)

    def drop(self, tag: int, note: dict[str, Any]) -> Any:
        return self.table.drop_columns(self.random.sample(COLUMNS, self.random.randint(1, 2)))

    def delete(self, tag: int, note: dict[str, Any]) -> Any:
        ids = sorted(rows_of(self.table.refresh().read(["id"])))
        note["ids"] = self.random.sample(ids, min(len(ids), self.random.randint(1, 4)))
        return self.table.delete([("id", "in", note["ids"])])

    def compact(self, tag: int, note: dict[str, Any]) -> Any:
        return self.table.compact(mode=self.random.choice(("auto", "rewrite")))

    def fold(self, tag: int, note: dict[str, Any]) -> Any:
        return self.table.fold()

    def restore(self, tag: int, note: dict[str, Any]) -> Any:
        newest = self.table.refresh().version
        return self.table.restore(max(1, newest - self.random.randint(1, 5)))

    def vacuum(self, tag: int, note: dict[str, Any]) -> None:
        report = self.table.vacuum(self.vacuum_age)
        files = [path for path in report.files if not is_debris_name(path.rpartition("/")[2])]
        note["removed"] = len(report.versions), len(files)
        if any(note["removed"]):  # it has marked this by a version
            note |= {"version": report.version, "rebased": 0}
            note["rows"] = list(rows_of(self.table.read()).items())


WEIGHTS = {
    "append": 10,
    "add": 5,
    "replace": 4,
    "drop": 2,
    "delete": 4,
    "compact": 3,
    "fold": 2,
    "restore": 1,
    "vacuum": 1,
}


def open_table(config: dict[str, Any]) -> fm.MosaicTable:
    return fm.MosaicTable(config["path"], filesystem=filesystem_of(config))


def filesystem_of(config: dict[str, Any]) -> Any:
    if "s3fs" not in config:
        return None
    import s3fs

    return s3fs.S3FileSystem(**config["s3fs"])


def read_once(config: dict[str, Any]) -> dict[str, Any]:
    """Read the newest version, by a table and without knowing that it is one."""
    table = open_table(config)
    found = rows_of(table.read())
    whole = rows_of(fm.read_table(config["path"], filesystem=filesystem_of(config)))
    return {
        "version": table.version,
        "rows": list(found.items()),
        "whole": list(whole.items()),
        "newest": table.refresh().version,
    }


def main(config: dict[str, Any]) -> None:
    """Write or read until told to end: so many changes, or when the file `stop` exists."""
    print("ready", flush=True)
    sys.stdin.readline()
    if config["kind"] == "reader":
        while not Path(config["stop"]).exists():
            print(json.dumps(read_once(config)), flush=True)
            time.sleep(0.05)
        return
    writer = Writer(config)
    for _ in range(config["changes"]):
        print(json.dumps(writer.step()), flush=True)


# ---- outside


def run(
    config: dict[str, Any], writers: int, readers: int, log: Path
) -> tuple[list[Any], list[Any]]:
    """Return the notes of writers and of readers."""
    stop = log / "stop"
    kinds = ["writer"] * writers + ["reader"] * readers
    processes = []
    for number, kind in enumerate(kinds):
        given = {**config, "kind": kind, "number": number, "stop": str(stop)}
        with open(log / f"{number}.jsonl", "w", encoding="utf-8") as output:
            process = subprocess.Popen(
                [sys.executable, __file__, json.dumps(given)],
                stdin=subprocess.PIPE,
                stdout=output,
                text=True,
            )
        processes.append(process)
    while not all((log / f"{number}.jsonl").stat().st_size for number in range(len(kinds))):
        assert all(process.poll() is None for process in processes)
        time.sleep(0.01)
    for process in processes:
        assert process.stdin is not None
        process.stdin.close()
    codes = [process.wait() for process in processes[:writers]]
    stop.touch()
    codes += [process.wait() for process in processes[writers:]]
    assert not any(codes), codes
    notes: dict[str, list[Any]] = {"writer": [], "reader": []}
    for number, kind in enumerate(kinds):
        lines = (log / f"{number}.jsonl").read_text(encoding="utf-8").splitlines()[1:]
        notes[kind] += map(json.loads, lines)
    return notes["writer"], notes["reader"]


def replay(notes: list[Any]) -> dict[int, Rows]:
    """Return the rows of each version, by the changes in the order of their versions."""
    states: dict[int, Rows] = {1: rows_of(first_rows())}
    dropped: dict[int, dict[str, int]] = {1: {}}  # names, and the versions that have dropped them
    done = {note["version"]: note for note in notes if "version" in note}
    assert len(done) == sum("version" in note for note in notes), "two changes made one version"
    assert sorted(done) == list(range(2, len(done) + 2)), "a version is missing"
    for version in sorted(done):
        note = done[version]
        read = version - 1 - note["rebased"]  # the version that it was prepared for
        rows = {id: dict(row) for id, row in states[version - 1].items()}
        hidden = dict(dropped[version - 1])
        match note["kind"]:
            case "append":
                for row in note["data"]:
                    rows[row["id"]] = {
                        name: value for name, value in row.items() if hidden.get(name, 0) <= read
                    }
            case "add" | "replace":
                for id in states[read]:
                    rows[id][note["name"]] = id + note["tag"]
            case "drop":
                for name in note["summary"]["columns"]:
                    hidden[name] = version
                    for row in rows.values():
                        row.pop(name, None)
            case "delete":
                for id in note["ids"]:
                    if id in states[read]:
                        del rows[id]
            case "restore":
                rows = states[note["summary"]["version"]]
                hidden = dropped[note["summary"]["version"]]
        states[version], dropped[version] = rows, hidden
    return states


def check(path: str, notes: list[Any], reads: list[Any], filesystem: Any = None) -> Counter[str]:
    """Compare each version, and each read, with the model; return how often what happened."""
    states = replay(notes)
    store = fm.MosaicTable(path, filesystem=filesystem)._store
    for note in notes:
        if "version" in note:
            assert dict(note["rows"]) == states[note["version"]], note
        if "conflict" in note:
            assert note["file"].startswith(store.name), note
            assert note["kind"] == "restore" or "/" in note["file"].removeprefix(store.name), note
            if "the column" in note["conflict"]:
                assert note["column"], note
    versions = list(states.values())
    for one in reads:
        assert dict(one["rows"]) == states[one["version"]], one["version"]
        later = versions[one["version"] - 1 : one["newest"]]
        assert dict(one["whole"]) in later, one["version"]
    for number in store.versions():
        table = fm.MosaicTable(path, number, filesystem=filesystem)
        assert rows_of(table.read()) == states[number], number
    assert max(store.versions()) == len(states)
    counts = Counter(f"{note['kind']} {_outcome(note)}" for note in notes)
    counts["versions"], counts["reads"] = len(states), len(reads)
    counts["rebased"] = sum(note.get("rebased", 0) > 0 for note in notes)
    counts["versions left"] = len(store.versions())
    return counts


def _outcome(note: dict[str, Any]) -> str:
    return next((word for word in ("conflict", "refused") if word in note), "done")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))

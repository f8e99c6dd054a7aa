"""Writers that are killed, a full disk: one of two versions is there, complete, and the next change works."""

import errno
import os
import random
import resource
import shutil
import subprocess
import sys
import textwrap
import time

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import fastmosaic as fm
from fastmosaic.storage.debris import is_debris_name
from fastmosaic.table.store import TableStore

# ---- killed

KILLED = """
    import os, shutil, signal, sys
    import pyarrow as pa, pyarrow.compute as pc, fastmosaic as fm
    from fastmosaic.dataset.version import version_name

    root, events, *wanted = sys.argv[1:]
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # one thread: the same steps each time

    def rows(day, *ids):
        return pa.table({"day": [day] * len(ids), "id": ids, "a": [10 * one for one in ids]})

    def plain(base):
        fm.write_dataset(rows("mo", 1, 2), f"{base}/t", partitioning=["day"])
        fm.write_dataset(rows("tu", 3), f"{base}/t", partitioning=["day"], existing="append")

    def simple(base):
        fm.MosaicTable.create(f"{base}/t", rows("mo", 1, 2), partitioning="day")
        table(base).append(rows("mo", 3))
        table(base).append(rows("tu", 4, 5))

    def rich(base):
        simple(base)
        table(base).add_columns({"b": pc.field("a") + 1})
        table(base).delete([("id", "=", 4)])
        table(base).append(rows("tu", 6))

    def table(base):
        return fm.MosaicTable(f"{base}/t")

    def create(base):
        fm.MosaicTable.create(f"{base}/t", pa.concat_tables([rows("mo", 1), rows("tu", 2)]),
                              partitioning="day")

    CASES = {
        "create": (lambda base: None, create),
        "adopt": (plain, lambda base: fm.MosaicTable.create(f"{base}/t")),
        "append": (rich, lambda base: table(base).append(
            pa.concat_tables([rows("mo", 7), rows("we", 8)]))),
        "add": (rich, lambda base: table(base).add_columns({"c": pc.field("a") * 2})),
        "replace": (rich, lambda base: table(base).add_columns(
            {"a": pc.field("a") * 2}, replace=True)),
        "drop": (rich, lambda base: table(base).drop_columns("b")),
        "delete": (rich, lambda base: table(base).delete([("id", "in", [1, 5])])),
        "copy": (simple, lambda base: table(base).compact(mode="copy")),
        "compact": (rich, lambda base: table(base).compact()),
        "fold": (rich, lambda base: table(base).fold()),
        "restore": (rich, lambda base: table(base).restore(2)),
        "vacuum": (rich, lambda base: table(base).vacuum(0)),
    }
    CHANGES = {"os.mkdir", "os.link", "os.rename", "os.remove", "os.rmdir", "os.chmod", "os.chown"}

    def is_step(event, arguments):
        if events == "all":
            return event == "open" or event.startswith(("os.", "fcntl."))
        writes = os.O_WRONLY | os.O_RDWR
        return event in CHANGES or (event == "open" and arguments[2] & writes)

    def die_at(step):
        count = 0

        def hook(event, arguments):
            nonlocal count
            if is_step(event, arguments):
                count += 1
                if count == step:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)

    def read(base):
        try:
            found = fm.read_table(f"{base}/t").sort_by("id")
        except FileNotFoundError:
            return None
        return {name: found[name].to_pylist() for name in sorted(found.column_names)}

    def history(base):
        return {
            one.version: fm.MosaicTable(f"{base}/t", one.version).read().to_pylist()
            for one in table(base).history()
        }

    def is_table(base):
        try:
            return bool(table(base).version)
        except FileNotFoundError:
            return False

    def check_exact(base):
        # Nothing but what versions name, and no temporary file.
        store = table(base)._store
        kept = {number: store.read(number).paths for number in store.versions()}
        expected = set().union(*kept.values()) | set(map(version_name, kept))
        found = {
            os.path.relpath(f"{folder}/{name}", f"{base}/t")
            for folder, _, names in os.walk(f"{base}/t") for name in names
        }
        assert found == expected, (found - expected, expected - found)

    def run(case):
        prepare, operate = CASES[case]
        template, ended = f"{root}/{case}/template", f"{root}/{case}/ended"
        os.makedirs(template)
        prepare(template)
        shutil.copytree(template, ended)
        operate(ended)
        before, after = read(template), read(ended)
        states = history(template) if is_table(template) else {}
        assert before is not None or case == "create"
        committed = 0
        for step in range(1, 2000):
            base = f"{root}/{case}/{step}"
            shutil.copytree(template, base)
            child = os.fork()
            if child == 0:
                die_at(step)
                operate(base)
                os._exit(0)
            status = os.waitpid(child, 0)[1]
            found = read(base)
            assert found in (before, after), (case, step, found)
            newer = is_table(base) and max(history(base), default=0) > max(states, default=0)
            assert found == (after if newer else before), (case, step, newer, found)
            if is_table(base) and case != "vacuum":
                assert states.items() <= history(base).items(), (case, step)
            committed += newer
            if not newer:
                operate(base)
                assert read(base) == after, (case, step)
            table(base).append(rows("th", 9))
            expected = read(base)
            assert expected["id"] == [*after["id"], 9], (case, step)
            table(base).vacuum(0)
            assert read(base) == expected, (case, step)
            check_exact(base)
            shutil.rmtree(base)
            if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
                break
        assert status == 0, (case, step, status)
        assert step > committed, (case, step, committed)
        print(f"{case}: {step - 1} kills, {committed} after the commit")

    for case in wanted:
        run(case)
"""
CASES = [
    ["create", "adopt", "append"],
    ["add", "replace", "drop"],
    ["delete", "copy", "compact"],
    ["fold", "restore", "vacuum"],
]


@pytest.mark.parametrize("events", ["changes", pytest.param("all", marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("cases", CASES, ids="-".join)
def test_a_killed_writer_leaves_one_of_two_versions(tmp_path, cases, events):
    """Killed before each operation that changes files, or before each one at all.

    The next writers go on from there, and vacuum leaves exactly what versions name.
    """
    script = [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path), events, *cases]
    done = subprocess.run(script, check=False, capture_output=True, text=True)
    print(done.stdout)
    assert done.returncode == 0, done.stderr


WORKER = """
    import sys
    import pyarrow as pa, pyarrow.compute as pc, fastmosaic as fm

    path, kind, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
    table = fm.MosaicTable(path)
    for turn in range(1, 10_000):
        if kind == "append":
            tag = 100_000 * number + 10 * turn
            table.append(pa.table({"id": [tag, tag + 1, tag + 2], "a": [tag] * 3}))
            print(tag, flush=True)
        else:
            table.compact()
            try:
                table.add_columns({"b": pc.field("id") * 2}, replace=True)
            except fm.ConflictError:
                pass
            table.fold()
            table.vacuum(3600)
"""


@pytest.mark.exhaustive
def test_writers_that_are_killed_at_any_time(tmp_path):
    """What a writer has been told about is there once; of what it has not, all or nothing."""
    path = str(tmp_path / "t")
    fm.MosaicTable.create(path, pa.table({"id": [0, 1, 2], "a": [0, 0, 0]}))
    chance = random.Random(1)
    kinds = ["append", "append", "append", "merge"]
    running, told = {}, {0}

    def start(slot, number):
        script = [sys.executable, "-c", textwrap.dedent(WORKER), path, kinds[slot], str(number)]
        running[slot] = subprocess.Popen(script, stdout=subprocess.PIPE, text=True)

    def kill(slot):
        process = running.pop(slot)
        assert process.poll() is None
        process.kill()
        told.update(int(line) for line in process.communicate()[0].splitlines())

    for slot in range(len(kinds)):
        start(slot, slot + 1)
    time.sleep(2)
    kills = 60
    for number in range(kills):
        time.sleep(chance.uniform(0, 1))
        slot = chance.randrange(len(kinds))
        kill(slot)
        start(slot, 10 + number)
    for slot in range(len(kinds)):
        kill(slot)
    table = fm.read_table(path)
    ids = table["id"].to_pylist()
    tags = set(table["a"].to_pylist())
    print(f"{len(tags)} appends, {len(tags - told)} of them without an answer, {kills + 4} kills")
    assert sorted(ids) == sorted(tag + at for tag in tags for at in range(3))
    assert told <= tags
    assert len(tags - told) <= kills + 4
    fm.MosaicTable(path).vacuum(0)
    assert fm.read_table(path).equals(table)
    assert not any(map(is_debris_name, files_below(path)))


def test_vacuum_leaves_what_is_not_its_own(tmp_path):
    """Files that no version could name, and directories that are not empty."""
    path = tmp_path / "t"
    data = pa.table({"day": ["mo", "tu", "we"], "id": [1, 2, 3]})
    table = fm.MosaicTable.create(path, data, partitioning="day")
    kept = {"README", "day=mo/notes.txt", "_archive/old.mosaic", ".hidden.mosaic", "_mosaic/other"}
    for name in kept:
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_bytes(b"mine")
    table.delete([("id", "<", 3)])
    table.vacuum(0)
    assert {name for name in kept if (path / name).read_bytes() == b"mine"} == kept
    assert sorted(one.name for one in path.glob("day=*")) == ["day=mo", "day=we"]
    assert read(path) == {"id": [3], "day": ["we"]}


# ---- a disk that is full or fails


def rows(*ids):
    return pa.table({"id": list(ids), "a": [10 * one for one in ids]})


CHANGES = {
    "append": lambda table: table.append(rows(7, 8)),
    "add": lambda table: table.add_columns({"c": pc.field("a") * 2}),
    "replace": lambda table: table.add_columns({"a": pc.field("a") * 2}, replace=True),
    "drop": lambda table: table.drop_columns("b"),
    "delete": lambda table: table.delete([("id", "in", [1, 4])]),
    "compact": lambda table: table.compact(),
    "fold": lambda table: table.fold(),
    "restore": lambda table: table.restore(2),
    "vacuum": lambda table: table.vacuum(0),
}


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A table at version 4."""
    path = tmp_path_factory.mktemp("template") / "t"
    table = fm.MosaicTable.create(path, rows(1, 2))
    table.append(rows(3, 4))
    table.add_columns({"b": pc.field("a") + 1})
    table.append(rows(5, 6))
    return path


def read(path):
    return fm.read_table(path).to_pydict()


def files_below(path):
    return [name for _, _, names in os.walk(path) for name in names]


class Failing:
    """Calls of a function, of which one fails."""

    def __init__(self, patch, owner, name, number):
        self.left = number
        self.function = getattr(owner, name)
        patch.setattr(owner, name, lambda *given, **options: self(*given, **options))

    def __call__(self, *given, **options):
        self.left -= 1
        if self.left == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self.function(*given, **options)


def failure_of(call):
    """Return the error that a call raises, or None."""
    try:
        call()
    except OSError as error:
        return error
    return None


def check_failed(path, change, code):
    """Make a change that may fail: nothing is committed, or all of it; return whether it failed."""
    version, before = fm.MosaicTable(path).version, read(path)
    error = failure_of(lambda: CHANGES[change](fm.MosaicTable(path)))
    if error is None:
        assert fm.MosaicTable(path).version == version + 1
        return False
    assert error.errno == code
    assert path in str(error), error
    assert fm.MosaicTable(path).version == version
    assert read(path) == before
    return True


def check_next(path, change, is_failed):
    """The change succeeds now, and nothing is left of the attempt."""
    assert not any(map(is_debris_name, files_below(path)))
    if is_failed:
        CHANGES[change](fm.MosaicTable(path))
    after = read(path)
    fm.MosaicTable(path).append(rows(9))
    fm.MosaicTable(path).vacuum(0)
    assert read(path)["id"] == [*after["id"], 9]


@pytest.mark.parametrize("what", ["fsync", "replace", "link"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_full_disk(tmp_path, template, change, what):
    """Each of the steps fails in turn. Directories that cannot be synced are no error."""
    failed = 0
    for number in range(1, 100):
        path = shutil.copytree(template, str(tmp_path / f"{number}"))
        with pytest.MonkeyPatch.context() as patch:
            failing = Failing(patch, os, what, number)
            is_failed = check_failed(path, change, errno.ENOSPC)
        if failing.left > 0:
            break  # all have failed in turn
        check_next(path, change, is_failed)
        failed += is_failed
    assert failed or (what == "replace" and change in {"drop", "restore", "vacuum"})


@pytest.mark.parametrize("change", CHANGES)
def test_files_that_cannot_grow(tmp_path, template, change):
    """The system refuses to write more than so many bytes to a file."""
    failed = 0
    _, most = limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    for limit in (0, 100, 200, 300, 400, 600, 1 << 20):
        path = shutil.copytree(template, str(tmp_path / f"{limit}"))
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most))
        try:
            is_failed = check_failed(path, change, errno.EFBIG)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        check_next(path, change, is_failed)
        failed += is_failed
    assert 1 < failed < 7


@pytest.mark.parametrize("number", range(1, 8))
def test_a_full_disk_while_a_table_is_made(tmp_path, monkeypatch, number):
    path = str(tmp_path / "t")
    with monkeypatch.context() as patch:
        Failing(patch, os, "fsync", number)
        error = failure_of(lambda: fm.MosaicTable.create(path, rows(1, 2)))
    if error is not None:
        assert path in str(error), error
        with pytest.raises(FileNotFoundError):
            fm.read_table(path)
        fm.MosaicTable.create(path, rows(1, 2))
    assert read(path) == rows(1, 2).to_pydict()
    fm.MosaicTable(path).vacuum(0)
    assert not any(map(is_debris_name, files_below(path)))


def test_a_function_that_fails_leaves_no_files(tmp_path):
    """Several files are written at the same time, of which one fails."""
    path = str(tmp_path / "t")
    table = fm.MosaicTable.create(path, rows(0))
    for number in range(1, 12):
        table.append(rows(number))

    def half(batch):
        if batch["id"][0].as_py() == 7:
            raise ZeroDivisionError("seven")
        return {"b": batch["a"]}

    before = set(files_below(path))
    with pytest.raises(ZeroDivisionError):
        table.add_columns(half)
    assert {name for name in set(files_below(path)) - before if "schema" not in name} == set()


def test_an_unknown_outcome_keeps_the_files(tmp_path, template, monkeypatch):
    """The version was created, but its writer was not told."""
    path = shutil.copytree(template, str(tmp_path / "t"))
    table = fm.MosaicTable(path)
    add = TableStore.add

    def without_answer(store, version):
        add(store, version)
        raise OSError("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(TableStore, "add", without_answer)
        with pytest.raises(OSError, match="no answer"):
            table.append(rows(7))
    assert read(path)["id"] == [1, 2, 3, 4, 5, 6, 7]
    assert table.append(rows(8)).version == 6
    assert read(path)["id"] == [1, 2, 3, 4, 5, 6, 7, 8]


# ---- power failures


def test_files_and_directories_are_synced_before_the_version(tmp_path, monkeypatch):
    """Also directories that another process has made, and perhaps not synced."""
    path = str(tmp_path / "t")
    data = pa.table({"year": [2026, 2026], "day": ["mo", "tu"], "id": [1, 2]})
    table = fm.MosaicTable.create(path, data, partitioning=["year", "day"])
    os.makedirs(f"{path}/year=2027/day=we")
    steps = []
    fsync, link = os.fsync, os.link

    def noted_fsync(handle):
        fsync(handle)
        steps.append(os.readlink(f"/proc/self/fd/{handle}"))

    def noted_link(source, target):
        link(source, target)
        steps.append("version")

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "link", noted_link)
    table.append(pa.table({"year": [2027], "day": ["we"], "id": [3]}))
    assert steps.count("version") == 1
    at = steps.index("version")
    folder = f"{path}/year=2027/day=we"
    assert {path, f"{path}/year=2027", folder} <= set(steps[:at])
    assert any(step.startswith(f"{folder}/") for step in steps[:at])
    assert steps[at - 1].startswith(f"{path}/_mosaic/")
    assert steps[at + 1 :] == [f"{path}/_mosaic"]

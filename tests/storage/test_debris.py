"""What killed writers leave behind: nothing reads it, the next writer removes it."""

import os
import pickle
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from pathlib import Path

import fsspec
import pyarrow as pa
import pytest
from pyarrow import fs
from servers import HOST, s3_api

import fastmosaic as fm
from fastmosaic.storage import debris as module
from fastmosaic.storage.debris import (
    MAX_AGE,
    MAX_JOB_AGE,
    debris_of,
    find_debris,
    is_debris_name,
    is_lockable,
    spool,
    sweep,
)
from fastmosaic.storage.direct import Direct
from fastmosaic.storage.moves import begin_moves, end_moves
from fastmosaic.storage.sink import open_sink
from fastmosaic.storage.staging import Staging

TABLE = pa.table({"id": [1, 2, 3]})


def run(script, *arguments):
    """Run a program with this package to its end."""
    source = str(Path(fm.__file__).parent.parent)
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(script), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": source},
        check=False,
        capture_output=True,
        text=True,
    )


def names(root):
    return sorted(str(path.relative_to(root)) for path in Path(root).rglob("*") if path.is_file())


def age(path, seconds):
    """Let a file, or all that is below a directory, look as if it had been written before."""
    then = time.time() - seconds
    for one in (Path(path), *Path(path).rglob("*")):
        os.utime(one, (then, then))


# ---- killed

KILLED = """
    import os, signal, sys
    import pyarrow as pa, fastmosaic as fm
    from fastmosaic.storage.debris import find_debris

    kind, root = sys.argv[1:]
    table = pa.table({"id": list(range(400))})

    def write(base):
        if kind == "file":
            fm.write_table(table, f"{base}/data/a.mosaic", use_threads=False)
        else:
            fm.write_dataset(
                table, f"{base}/data", existing=kind, max_rows_per_file=150, use_threads=False
            )

    def die_at(operation):
        count = 0

        def hook(event, arguments):
            nonlocal count
            if event == "open" or event.startswith(("os.", "fcntl.")):
                count += 1
                if count == operation:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)

    def read(base):
        for source in ("data", "data/*", "data/**", "data/.*", "data/_*", "data/**/.*", ".*"):
            try:
                rows = fm.MosaicDataset(f"{base}/{source}").read(use_threads=False).num_rows
            except FileNotFoundError:
                continue
            # Files that are appended become visible one by one.
            assert rows in ((400, 550, 700, 800) if kind == "append" else (400,)), (source, rows)

    left = 0
    for operation in range(1, 200):
        base = f"{root}/{operation}"
        os.makedirs(f"{base}/data")
        if kind != "error":
            fm.write_table(table, f"{base}/data/a.mosaic", use_threads=False)
        child = os.fork()
        if child == 0:
            die_at(operation)
            write(base)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        read(base)
        left += bool(find_debris(None, base))
        if kind == "error" and any(one.endswith(".mosaic") for one in os.listdir(f"{base}/data")):
            kind = "overwrite"
            write(base)
            kind = "error"
        else:
            write(base)
        assert not find_debris(None, base), (operation, find_debris(None, base))
        hidden = [
            name for _, folders, files in os.walk(base) for name in folders + files
            if name[0] in "._"
        ]
        assert not hidden, (operation, hidden)
        read(base) if kind != "append" else None
        if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
            break
    assert status == 0, status
    assert left > 3 and operation > 10, (left, operation)
"""


@pytest.mark.parametrize("kind", ["file", "error", "append", "overwrite"])
def test_the_next_writer_removes_what_a_killed_one_left(tmp_path, kind):
    """Whatever operation on files comes next when it is killed."""
    result = run(KILLED, kind, tmp_path)
    assert result.returncode == 0, result.stderr


WAITING = """
    import os, sys, pyarrow as pa, fastmosaic as fm
    kind, path = sys.argv[1:]

    def batches():
        yield pa.record_batch({"id": [1]})
        print("ready", flush=True)
        sys.stdin.read()
        yield pa.record_batch({"id": [2]})

    if kind == "file":
        with fm.MosaicWriter(path, pa.schema({"id": pa.int64()})) as writer:
            for batch in batches():
                writer.write(batch)
                writer.flush()
    elif kind == "spool":
        fm.write_table(batches(), path, schema=pa.schema({"id": pa.int64()}))
    else:
        fm.write_dataset(batches(), path, existing=kind, max_rows_per_file=1)
"""


class Waiting:
    """A writer in another process, in the middle of its work."""

    def __init__(self, kind, path, **environment):
        source = str(Path(fm.__file__).parent.parent)
        self.process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(WAITING), kind, str(path)],
            env={**os.environ, "PYTHONPATH": source, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout.readline() == b"ready\n"

    def end(self):
        self.process.communicate()
        return self.process.returncode

    def kill(self):
        self.process.kill()
        self.process.communicate()
        assert self.process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("kind", ["file", "error", "append", "overwrite"])
def test_a_living_writer_keeps_its_files(tmp_path, kind):
    base = tmp_path / "data"
    base.mkdir()
    path = base / "own.mosaic" if kind == "file" else base
    writer = Waiting(kind, path)
    (found,) = find_debris(None, str(tmp_path))
    assert found.is_alive
    age(found.path, 10 * MAX_JOB_AGE)
    for _ in range(2):
        if kind == "file":
            fm.write_table(TABLE, base / "own.mosaic")
        else:
            sweep(None, str(base))
            fm.write_dataset(TABLE, tmp_path / "other", existing="append")
    (again,) = find_debris(None, str(tmp_path))
    assert again.path == found.path
    assert not again.is_dead(0)
    assert not again.remove(None)
    assert writer.end() == 0
    assert fm.read_table(path).column("id").to_pylist() == [1, 2]
    assert find_debris(None, str(tmp_path)) == []


@pytest.mark.parametrize("kind", ["file", "append"])
def test_a_killed_writer_is_known_at_once(tmp_path, kind):
    base = tmp_path / "data"
    base.mkdir()
    writer = Waiting(kind, base / "own.mosaic" if kind == "file" else base)
    writer.kill()
    (found,) = find_debris(None, str(tmp_path))
    assert found.is_alive is False
    assert found.is_dead(10 * MAX_AGE)
    assert debris_of(None, str(base / "own.mosaic" if kind == "file" else base), "x") == [found]
    fm.write_table(TABLE, base / "new.mosaic")
    assert names(tmp_path) == ["data/new.mosaic"]


def test_the_content_of_a_pipe_is_removed_by_the_next_upload(tmp_path, monkeypatch):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    Waiting("spool", "memory://x.mosaic", TMPDIR=str(temporary)).kill()
    (left,) = temporary.iterdir()
    assert is_debris_name(left.name)
    living = Waiting("spool", "memory://x.mosaic", TMPDIR=str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    fm.write_table(TABLE, "memory://y.mosaic")
    assert left not in temporary.iterdir()
    assert len(list(temporary.iterdir())) == 1
    assert living.end() == 0
    assert list(temporary.iterdir()) == []
    with spool("-a.csv") as file:
        assert is_debris_name(os.path.basename(file.name))
        assert file.name.endswith("-a.csv")
    assert list(temporary.iterdir()) == []


def test_a_spool_is_locked_until_it_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    unlink, alive = os.unlink, []

    def look(path):
        alive.extend(one.is_alive for one in find_debris(None, str(tmp_path)))
        unlink(path)

    monkeypatch.setattr(os, "unlink", look)
    with spool() as file:
        file.write(b"1")
    assert alive == [True]
    file = spool()
    del file
    assert alive == [True, True]
    assert list(tmp_path.iterdir()) == []


def test_many_writers_at_once_do_not_disturb_each_other(tmp_path):
    """Each looks for debris while others make files, lock them and rename them."""
    errors = []

    def write(worker):
        try:
            for number in range(40):
                open_sink(str(tmp_path / f"{worker}-{number}.mosaic")).commit()
                if number % 10 == 0:
                    fm.write_dataset(TABLE, tmp_path / f"{worker}", existing="append")
        except BaseException as error:  # noqa: BLE001 - it is shown by the assertion
            errors.append(error)

    threads = [threading.Thread(target=write, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(names(tmp_path)) == 4 * 40 + 4 * 4


def test_what_was_removed_before_it_was_locked_is_made_again(tmp_path, monkeypatch):
    """Another writer may look between the two steps; it holds the lock while it removes."""
    keeps = module.keeps
    removed = []

    def too_late(path, handle):
        if len(removed) < 2:
            removed.append(path)
            (found,) = find_debris(None, os.path.dirname(path))
            assert found.path == path
            assert found.remove(None)
        return keeps(path, handle)

    for lock in ("fastmosaic.storage.debris.keeps", "fastmosaic.storage.sink.keeps"):
        monkeypatch.setattr(lock, too_late)
    fm.write_table(TABLE, tmp_path / "a.mosaic")
    assert len(removed) == 2
    removed.clear()
    fm.write_dataset(TABLE, tmp_path / "data")
    assert len(removed) == 2
    assert sorted(os.listdir(tmp_path)) == ["a.mosaic", "data"]


# ---- without locks


@pytest.fixture
def without_locks(monkeypatch):
    """As on a network filesystem."""
    for name in ("debris", "sink", "staging"):
        monkeypatch.setattr(f"fastmosaic.storage.{name}.is_lockable", lambda directory: False)


def test_without_locks_age_decides(tmp_path, without_locks):
    left = fm.MosaicWriter(tmp_path / "a.mosaic", TABLE.schema)
    left.write(TABLE)
    left.flush()
    staging = Staging.begin(tmp_path / "data", None, "append")
    staging.path("k=1/a.mosaic")
    found = find_debris(None, str(tmp_path))
    assert [one.is_alive for one in found] == [None, None]
    for one in found:
        age(one.path, MAX_AGE - 60)
    fm.write_table(TABLE, tmp_path / "b.mosaic")
    sweep(None, str(tmp_path / "data"))
    assert len(find_debris(None, str(tmp_path))) == 2
    for one in found:
        age(one.path, MAX_AGE + 60)
    Path(staging.root, "k=1", "b.mosaic").write_bytes(b"")  # a living writer has written
    fm.write_table(TABLE, tmp_path / "b.mosaic")
    sweep(None, str(tmp_path / "data"))
    (one,) = find_debris(None, str(tmp_path))
    assert one.path == staging.root
    age(staging.root, MAX_JOB_AGE + 60)
    fm.write_dataset(TABLE, tmp_path / "data", existing="append")
    assert find_debris(None, str(tmp_path)) == []
    left.abandon()


def test_only_local_disks_have_reliable_locks(tmp_path):
    assert is_lockable(str(tmp_path))
    assert not is_lockable("/proc")
    assert not is_lockable(str(tmp_path / "nowhere"))


# ---- jobs


def test_staging_directories_of_jobs_are_kept_for_longer(tmp_path):
    base = tmp_path / "data"
    shared = Staging.begin(base, None, "append", is_shared=True)
    resumable = Staging.begin(base, None, "append", identity="convert-0123456789abcdef")
    assert pickle.loads(pickle.dumps(shared)) == shared
    for staging in (shared, resumable):
        age(staging.root, MAX_JOB_AGE - 60)
    fm.write_dataset(TABLE, base, existing="append")
    assert [one.path for one in find_debris(None, str(base))] == sorted(
        [shared.root, resumable.root]
    )
    assert all(one.is_dead(MAX_AGE) for one in find_debris(None, str(base)))  # for `clean`
    for staging in (shared, resumable):
        age(staging.root, MAX_JOB_AGE + 60)
    # The job itself finds its files, however old they are.
    again = Staging.begin(base, None, "append", identity="convert-0123456789abcdef")
    assert [one.path for one in find_debris(None, str(base))] == [again.root]
    fm.write_dataset(TABLE, base, existing="append")
    assert [one.path for one in find_debris(None, str(base))] == [again.root]
    again.abandon()


def test_a_commit_that_was_interrupted_stays(tmp_path):
    """The stream continues after a month: no file is lost, and none is there twice."""
    base = tmp_path / "data"
    query = "01234567-89ab-cdef-0123-456789abcdef"
    files = [f"part-{number:020d}-{number}.mosaic" for number in (1, 2, 3)]
    staging = Staging.begin(base, None, "append", identity=query)
    for file in files:
        fm.write_table(TABLE, f"{staging.root}/{file}")
    begin_moves(None, staging.root, files)
    os.rename(f"{staging.root}/{files[0]}", base / files[0])
    age(staging.root, 30 * MAX_AGE)
    fm.write_dataset(TABLE, base, existing="append")  # another writer
    (left,) = find_debris(None, str(base))
    assert left.path == staging.root
    assert not left.is_dead(0, 0)
    staging.finish()
    assert fm.read_table(base).num_rows == 4 * TABLE.num_rows
    age(staging.root, 30 * MAX_AGE)
    fm.write_dataset(TABLE, base, existing="append")
    assert find_debris(None, str(base)) == []


def test_a_write_without_staging_is_removed_with_its_files(tmp_path):
    base = tmp_path / "data"
    fm.write_dataset(TABLE, base)
    before = names(base)
    write = Direct.begin(base, existing="append")
    for file in ("a", "k=1/b"):
        folder, _, name = file.rpartition("/")
        write.open(f"{folder}/{write.prefix}-{name}.mosaic".lstrip("/")).commit()
    # Until the write ends, or is removed, its files are not part of the dataset.
    for source in (base, f"{base}/*", f"{base}/**", tmp_path, f"{tmp_path}/d*"):
        assert fm.read_table(source, partitioning=None) == TABLE
    (found,) = find_debris(None, str(base))
    assert found.what == "unfinished write"
    assert len(found.files) == 2
    assert not found.is_dead(MAX_AGE)
    assert found.is_dead(0)
    found.remove(None)
    assert names(base) == before
    again = Direct.begin(base, existing="append")
    fm.write_table(TABLE, base / f"{again.prefix}-c.mosaic")
    assert fm.MosaicDataset(base).count_rows() == 3
    again.commit([f"{again.prefix}-c.mosaic"])
    assert fm.MosaicDataset(base).count_rows() == 6


# ---- remote


@pytest.fixture(scope="module")
def s3():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "key")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        with s3_api() as port:
            yield f"{HOST}:{port}"


@pytest.fixture(params=["pyarrow", "s3fs", "memory"])
def remote(request, s3):
    if request.param == "memory":
        return fsspec.filesystem("memory", skip_instance_cache=True)
    store = fs.S3FileSystem(
        endpoint_override=s3, scheme="http", region="us-east-1", allow_bucket_creation=True
    )
    store.create_dir("bucket")
    if request.param == "pyarrow":
        return store
    return fsspec.filesystem(
        "s3", endpoint_url=f"http://{s3}", skip_instance_cache=True, key="key", secret="secret"
    )


def test_staging_directories_of_object_stores_are_removed_by_age(remote, monkeypatch):
    base = f"bucket/{type(remote).__module__}"
    fm.write_dataset(TABLE, base, filesystem=remote)
    staging = Staging.begin(base, remote, "append")
    staging.open("k=1/a.mosaic").commit()
    direct = Direct.begin(base, remote, "append")
    direct.open(f"{direct.prefix}-a.mosaic").commit()
    found = find_debris(remote, base)
    assert {one.what for one in found} == {"staging directory", "unfinished write"}
    assert all(one.modified is not None and not one.is_dead(MAX_AGE) for one in found)
    fm.write_dataset(TABLE, base, filesystem=remote, existing="append")
    assert len(find_debris(remote, base)) == 2
    monkeypatch.setattr(module, "MAX_JOB_AGE", 0)
    fm.write_dataset(TABLE, base, filesystem=remote, existing="append")
    assert find_debris(remote, base) == []
    assert fm.read_table(base, filesystem=remote).num_rows == 3 * TABLE.num_rows
    kept = Staging.begin(base, remote, "append", identity="convert-0123456789abcdef")
    kept.open("k=1/b.mosaic").commit()
    begin_moves(remote, kept.root, ["k=1/b.mosaic"])
    fm.write_dataset(TABLE, base, filesystem=remote, existing="append")
    assert [one.path for one in find_debris(remote, kept.base_dir)] == [kept.root]
    end_moves(remote, kept.root)
    fm.write_dataset(TABLE, base, filesystem=remote, existing="append")
    assert find_debris(remote, base) == []


def test_a_file_on_another_filesystem(tmp_path, monkeypatch):
    class Elsewhere(fs.FileSystemHandler):
        """The local filesystem under another name."""

        local = fs.LocalFileSystem()

        def __getattr__(self, name):
            return getattr(self.local, name)

        def get_type_name(self):
            return "elsewhere"

        def get_file_info_selector(self, selector):
            return self.local.get_file_info(selector)

        def __eq__(self, other):
            return self is other

        __hash__ = None
        for name in (
            *("get_file_info", "create_dir", "delete_dir", "delete_dir_contents", "copy_file"),
            *("delete_root_dir_contents", "delete_file", "move", "open_input_stream"),
            *("open_input_file", "open_output_stream", "open_append_stream", "normalize_path"),
        ):
            exec(f"def {name}(self, *a, **k): return self.local.{name}(*a, **k)")  # noqa: S102

    elsewhere = fs.PyFileSystem(Elsewhere())
    path = str(tmp_path / "a.mosaic")
    left = fm.MosaicWriter(path, TABLE.schema, filesystem=elsewhere)
    (name,) = names(tmp_path)
    assert name.endswith(".fastmosaic-tmp")
    fm.write_table(TABLE, path, filesystem=elsewhere)
    assert names(tmp_path) == [name, "a.mosaic"]
    age(tmp_path / name, MAX_AGE + 60)
    fm.write_table(TABLE, path, filesystem=elsewhere)
    assert names(tmp_path) == ["a.mosaic"]
    left.abandon()


# ---- what is not debris

HEX = "0123456789abcdef"
KEPT = [
    *("a.mosaic", ".a.mosaic", ".a.mosaic.tmp", f".a.mosaic.{HEX}.tmp", "fastmosaic-notes"),
    *(f"a.mosaic.{HEX}.fastmosaic-tmp", f".a.{HEX[:-1]}.fastmosaic-tmp", ".a.fastmosaic-locked"),
    *(f".a.{HEX}.fastmosaic-tmp.bak", f".a.{HEX.upper()}.fastmosaic-tmp", "fastmosaic-tmp-x"),
    *("_staging-mine/a.mosaic", "_staging-2024/a", f"_staging-{HEX}/a", f"staging-{HEX * 2}/a"),
    *(f".data.{HEX * 2}/a", f".data.write-{HEX}.fastmosaic-staging/a", "_part-1", "_temporary/x"),
    *(f"_part-{'0' * 20}-{HEX}", f"part-{'0' * 20}-{HEX * 2}", "_SUCCESS", "_commits/q/1"),
    f".gone.write-{HEX * 2}.fastmosaic-staging.ending.old/a.mosaic",  # the only copy
]


def test_files_of_others_are_never_removed(tmp_path):
    for name in KEPT:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(b"precious")
    # A directory with the name of a file, a file with that of a directory, links with either.
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / f".a.{HEX}.fastmosaic-tmp").mkdir()
    (kept / f"_staging-write-{HEX * 2}").write_bytes(b"precious")
    (kept / "target").mkdir()
    (kept / "target" / "a").write_bytes(b"precious")
    (kept / f"_staging-job-{HEX * 2}").symlink_to("target")
    (kept / f".b.{HEX}.fastmosaic-locked").symlink_to("target/a")
    age(tmp_path, 10 * MAX_JOB_AGE)
    before = names(tmp_path)
    assert len(before) == len(KEPT) + 3
    assert find_debris(None, str(tmp_path)) == []
    for folder in (tmp_path, kept):
        fm.write_table(TABLE, folder / "new.mosaic")
    assert names(tmp_path) == sorted([*before, "new.mosaic", "kept/new.mosaic"])


def test_an_old_directory_is_debris_once_the_new_one_has_its_name(tmp_path):
    old = tmp_path / f".data.write-{HEX * 2}.fastmosaic-staging.ending.old"
    old.mkdir()
    assert find_debris(None, str(tmp_path)) == []
    (tmp_path / "data").mkdir()
    assert [one.path for one in find_debris(None, str(tmp_path))] == [str(old)]
    # Of a longer name, only the beginning is known.
    base = "x" * 50
    (tmp_path / f".{base[:40]}.write-{HEX * 2}.fastmosaic-staging.old").mkdir()
    (tmp_path / base[:40]).mkdir()
    assert len(find_debris(None, str(tmp_path))) == 1


def test_long_names_and_odd_ones(tmp_path):
    for name in ("x" * 250, "ä" * 120, "𝄞" * 60, "a\nb", "-", "=", "a.b.c"):
        path = tmp_path / name
        with fm.MosaicWriter(path, TABLE.schema) as writer:
            (one,) = find_debris(None, str(tmp_path))
            assert one.is_alive
            writer.write(TABLE)
        assert fm.read_table(path) == TABLE
        directory = tmp_path / "datasets" / name
        fm.write_dataset(TABLE, directory)
        fm.write_dataset(TABLE, directory, existing="overwrite")
    assert find_debris(None, str(tmp_path)) == []


def test_a_large_directory_is_not_listed_for_every_file(tmp_path, monkeypatch):
    for number in range(300):
        (tmp_path / f"{number}").touch()
    listed = []
    listdir = os.listdir

    def counting(path):
        listed.append(path)
        return listdir(path)

    monkeypatch.setattr(os, "listdir", counting)
    for _ in range(8):
        open_sink(tmp_path / "a.mosaic").commit()
    assert listed == [str(tmp_path)] * 2

"""Files written aside: they appear together, or not at all."""

import errno
import os
import pickle
import stat
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import fsspec
import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from pyarrow import fs
from servers import s3_api

import fastmosaic
from fastmosaic.dataset.arrow import MosaicDataset
from fastmosaic.storage import moves, replace, staging, target
from fastmosaic.storage.staging import Staging
from fastmosaic.storage.target import is_visible

NEW = {"a.mosaic": b"new a", "k=1/b.mosaic": b"new b", "k=2/c.mosaic": b"new c"}
OLD = {"old.mosaic": b"old", "k=1/old.mosaic": b"old 1", "j=1/deep=2/old.mosaic": b"old 2"}


def write(root, files):
    for name, data in files.items():
        path = Path(root, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def everything(root):
    """All files below a directory, hidden ones too."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in Path(root).rglob("*")
        if path.is_file()
    }


def visible(root):
    return {name: data for name, data in everything(root).items() if is_visible(name)}


def stage(base_dir, existing="error", files=NEW, filesystem=None):
    staging = Staging.begin(base_dir, filesystem, existing)
    for name, data in files.items():
        path = staging.path(name)
        if staging.filesystem is None:
            Path(path).write_bytes(data)
        elif isinstance(staging.filesystem, fs.FileSystem):
            with staging.filesystem.open_output_stream(path) as stream:
                stream.write(data)
        else:
            staging.filesystem.pipe_file(path, data)
    return staging


# ---- a new directory


@pytest.mark.parametrize("existing", ["error", "append", "overwrite"])
@pytest.mark.parametrize("there", [False, True])
def test_files_appear_together_in_a_new_directory(tmp_path, existing, there):
    base = tmp_path / "data"
    if there:
        base.mkdir()
    staging = stage(base, existing)
    assert not base.exists() or visible(base) == {}
    staging.commit(NEW)
    assert everything(base) == NEW
    assert os.listdir(tmp_path) == ["data"]


@pytest.mark.parametrize("existing", ["error", "append", "overwrite"])
def test_parents_are_made_and_removed_again(tmp_path, existing):
    base = tmp_path / "not" / "yet" / "there"
    stage(base, existing).abandon()
    assert os.listdir(tmp_path) == []
    stage(base, existing).commit(NEW)
    assert everything(base) == NEW


@pytest.mark.parametrize("existing", ["error", "append", "overwrite"])
def test_only_what_is_named_appears(tmp_path, existing):
    staging = stage(tmp_path / "data", existing, {**NEW, "failed/x.mosaic": b"x", ".tmp": b"y"})
    staging.commit(["k=1/b.mosaic"])
    assert everything(tmp_path) == {"data/k=1/b.mosaic": b"new b"}
    assert not (tmp_path / "data" / "failed").exists()


@pytest.mark.parametrize("existing", ["append", "overwrite"])
def test_a_file_that_was_not_written_cannot_appear(tmp_path, existing):
    write(tmp_path / "data", OLD)
    with pytest.raises(FileNotFoundError, match="lost"):
        stage(tmp_path / "data", existing).commit([*NEW, "lost.mosaic"])
    assert everything(tmp_path / "data") == OLD
    assert os.listdir(tmp_path) == ["data"]


@pytest.mark.parametrize("existing", ["error", "append", "overwrite"])
def test_to_abandon_leaves_nothing(tmp_path, existing):
    (tmp_path / "empty").mkdir()
    for name in ("empty", "new"):
        stage(tmp_path / name, existing).abandon()
    assert os.listdir(tmp_path) == ["empty"]
    assert os.listdir(tmp_path / "empty") == []


def test_to_abandon_after_commit_does_nothing(tmp_path):
    staging = stage(tmp_path / "data")
    staging.commit(NEW)
    staging.abandon()
    assert everything(tmp_path / "data") == NEW


def test_an_open_file_has_its_name_at_once_and_is_not_replaced(tmp_path):
    staging = Staging.begin(tmp_path / "data")
    sink = staging.open("k=1/b.mosaic")
    sink.write(b"new")
    assert os.listdir(f"{staging.root}/k=1") == ["b.mosaic"]
    sink.commit()
    with pytest.raises(FileExistsError, match=r"b\.mosaic"):
        staging.open("k=1/b.mosaic")
    staging.open("k=1/c.mosaic").abandon()
    assert everything(staging.root) == {"k=1/b.mosaic": b"new"}
    staging.commit(["k=1/b.mosaic"])
    assert everything(tmp_path) == {"data/k=1/b.mosaic": b"new"}


def test_names_of_new_files_sort_after_those_of_old_ones(tmp_path):
    first = Staging.begin(tmp_path / "data", existing="append")
    name = f"{first.prefix}-x.mosaic"
    for file in (name, "_hidden/part-99999999999999999999-x.mosaic", "k=1/other.mosaic"):
        write(tmp_path / "data", {file: b""})
    second = Staging.begin(tmp_path / "data", existing="append")
    assert first.prefix < second.prefix
    assert second.prefix.startswith("part-2")
    for one in (first, second):
        one.abandon()


def test_a_write_that_goes_on_has_the_names_that_it_began_with(tmp_path):
    first = Staging.begin(tmp_path / "data", existing="append", identity="job")
    write(first.root, {f"{first.prefix}-x.mosaic": b""})
    second = Staging.begin(tmp_path / "data", existing="append", identity="job")
    assert (second.root, second.prefix) == (first.root, first.prefix)


# ---- an existing one


def test_files_in_the_directory_are_an_error(tmp_path):
    write(tmp_path / "data", {"k=1/notes.txt": b""})
    with pytest.raises(FileExistsError, match=r"such as k=1/notes\.txt; use existing='append'"):
        Staging.begin(tmp_path / "data")
    assert everything(tmp_path) == {"data/k=1/notes.txt": b""}


def test_hidden_files_are_no_error_and_stay(tmp_path):
    hidden = {"_SUCCESS": b"", ".crc": b"1", "_staging-0123/x.mosaic": b"other"}
    write(tmp_path / "data", hidden)
    stage(tmp_path / "data").commit(NEW)
    assert everything(tmp_path / "data") == {**NEW, **hidden}


def test_visible_is_what_a_data_set_shows(tmp_path):
    names = ["a", "_b", ".c", "_d/a", ".e/a", "_f=1/a", ".g=1/a", "k=1/_h", "k=1/a", "k=1/_i/a"]
    for name in names:
        path = tmp_path / f"{name}.mosaic"
        path.parent.mkdir(exist_ok=True)
        fastmosaic.write_table(pa.table({"id": [1]}), path)
    dataset = MosaicDataset(tmp_path, partitioning=None)
    shown = {os.path.relpath(path, tmp_path) for path in dataset.files}
    assert shown == {"a.mosaic", "_f=1/a.mosaic", "k=1/a.mosaic"}
    assert visible(tmp_path).keys() == shown


def test_overwrite_replaces_everything(tmp_path):
    write(tmp_path / "data", {**OLD, "_SUCCESS": b"", ".hidden/x": b""})
    staging = stage(tmp_path / "data", "overwrite")
    assert visible(tmp_path / "data") == OLD
    staging.commit(NEW)
    assert everything(tmp_path) == {f"data/{name}": data for name, data in NEW.items()}
    assert sorted(os.listdir(tmp_path / "data")) == ["a.mosaic", "k=1", "k=2"]


def test_overwrite_spares_what_is_no_data_set(tmp_path):
    write(tmp_path / "data", OLD)
    staging = stage(tmp_path / "data", "overwrite")
    write(tmp_path / "data", {"k=1/thesis.tex": b"years"})
    with pytest.raises(ValueError, match=r"k=1/thesis\.tex is not a \.mosaic file"):
        staging.commit(NEW)
    with pytest.raises(ValueError, match=r"k=1/thesis\.tex is not a \.mosaic file"):
        Staging.begin(tmp_path / "data", existing="overwrite")
    assert everything(tmp_path) == {
        f"data/{name}": data for name, data in {**OLD, "k=1/thesis.tex": b"years"}.items()
    }


def test_append_adds(tmp_path):
    write(tmp_path / "data", {**OLD, "notes.txt": b""})
    stage(tmp_path / "data", "append").commit(NEW)
    assert everything(tmp_path / "data") == {**OLD, **NEW, "notes.txt": b""}


def test_append_does_not_replace_a_file(tmp_path):
    write(tmp_path / "data", {"k=1/b.mosaic": b"mine"})
    with pytest.raises(FileExistsError, match=r"b\.mosaic exists already"):
        stage(tmp_path / "data", "append").commit(NEW)
    assert everything(tmp_path / "data") == {"k=1/b.mosaic": b"mine"}
    assert os.listdir(tmp_path / "data") == ["k=1"]


def test_a_file_in_the_way_of_a_partition_is_an_error(tmp_path):
    write(tmp_path / "data", {"k=2": b"not a directory"})
    with pytest.raises(OSError, match="k=2"):
        stage(tmp_path / "data", "append").commit(NEW)
    assert everything(tmp_path / "data") == {"k=2": b"not a directory"}
    assert os.listdir(tmp_path / "data") == ["k=2"]


def test_the_permissions_of_the_directory_stay(tmp_path):
    for name, existing in (("full", "overwrite"), ("empty", "error")):
        base = tmp_path / name
        write(base, OLD if existing == "overwrite" else {})
        base.mkdir(exist_ok=True)
        base.chmod(0o2750)
        stage(base, existing).commit(NEW)
        assert stat.S_IMODE(base.stat().st_mode) == 0o2750


def test_a_link_stays_a_link(tmp_path):
    write(tmp_path / "elsewhere" / "data", OLD)
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere" / "data")
    stage(link, "overwrite").commit(NEW)
    assert link.is_symlink()
    assert everything(tmp_path / "elsewhere") == {f"data/{name}": NEW[name] for name in NEW}


def test_a_file_is_no_directory(tmp_path):
    write(tmp_path, {"data": b""})
    with pytest.raises(NotADirectoryError, match="data"):
        Staging.begin(tmp_path / "data", existing="append")


def test_wrong_arguments(tmp_path):
    with pytest.raises(
        ValueError, match="existing must be 'error', 'append' or 'overwrite', not 'replace'"
    ):
        Staging.begin(tmp_path, existing="replace")
    with pytest.raises(TypeError, match="not an object of type int"):
        Staging.begin(3)


# ---- others at the same time


def test_who_comes_second_does_not_overwrite(tmp_path):
    first, second = stage(tmp_path / "data"), stage(tmp_path / "data", files=OLD)
    first.commit(NEW)
    with pytest.raises(FileExistsError, match="another process has written files"):
        second.commit(OLD)
    assert everything(tmp_path) == {f"data/{name}": data for name, data in NEW.items()}


def test_appends_at_once_both_count(tmp_path):
    first, second = (stage(tmp_path / "data", "append", files) for files in (NEW, OLD))
    first.abandon()
    assert (tmp_path / "data").exists()
    first = stage(tmp_path / "data", "append", NEW)
    second.commit(OLD)
    first.commit(NEW)
    assert everything(tmp_path) == {f"data/{k}": v for k, v in {**OLD, **NEW}.items()}


def test_another_process_writes_and_a_third_commits(tmp_path):
    write(tmp_path / "data", OLD)
    staging = Staging.begin(tmp_path / "data", existing="overwrite")
    source = Path(fastmosaic.__file__).parent.parent
    for code in (
        "open(staging.path('k=1/b.mosaic'), 'wb').write(b'new b')",
        "staging.commit(['k=1/b.mosaic'])",
    ):
        program = f"import pickle, sys; staging = pickle.load(sys.stdin.buffer); {code}"
        environment = {**os.environ, "PYTHONPATH": str(source)}
        pickled = pickle.dumps(staging)
        subprocess.run([sys.executable, "-c", program], input=pickled, check=True, env=environment)
    assert everything(tmp_path) == {"data/k=1/b.mosaic": b"new b"}


def test_a_reader_finds_the_old_or_the_new(tmp_path):
    """While a directory is overwritten again and again, each listing is of one of its states."""
    base = tmp_path / "data"
    write(base, {"0.mosaic": b"0"})
    program = f"""
import os
for _ in range(20_000):
    names = os.listdir({str(base)!r})
    assert len(names) < 2, names
    if names == ["99.mosaic"]:
        break
"""
    reader = subprocess.Popen([sys.executable, "-c", program])
    for number in range(1, 100):
        name = f"{number}.mosaic"
        stage(base, "overwrite", {name: b""}).commit([name])
    assert reader.wait(60) == 0


# ---- where a directory cannot be replaced


@pytest.fixture
def others_dir():
    """A directory in which everyone can look around, unlike those that pytest makes."""
    with tempfile.TemporaryDirectory() as path:
        os.chmod(path, 0o755)
        yield Path(path)
        os.chmod(path, 0o755)


@contextmanager
def as_nobody():
    """Without the rights of root, if the tests have them."""
    user = os.geteuid()
    os.seteuid(65534 if user == 0 else user)
    try:
        yield
    finally:
        os.seteuid(user)


@pytest.mark.parametrize("existing", ["error", "overwrite"])
def test_a_parent_that_may_not_be_written(others_dir, existing):
    base = others_dir / "data"
    base.mkdir()
    if existing == "overwrite":
        write(base, {**OLD, "_SUCCESS": b""})
    for path in (base, *base.rglob("*")):
        os.chmod(path, 0o777)
    os.chmod(others_dir, 0o555)
    with as_nobody():
        staging = stage(base, existing)
        assert Path(staging.root).parent == base
        staging.commit(NEW)
    assert everything(others_dir) == {f"data/{name}": data for name, data in NEW.items()}


def test_a_directory_that_may_not_be_renamed(others_dir):
    """In a sticky directory, such as /tmp, only its owner may."""
    base = others_dir / "data"
    write(base, OLD)
    for path in (base, *base.rglob("*")):
        os.chmod(path, 0o777)
    os.chmod(others_dir, 0o1777)
    with as_nobody():
        stage(base, "overwrite").commit(NEW)
    assert everything(others_dir) == {f"data/{name}": data for name, data in NEW.items()}


def test_a_mount_point_is_not_replaced(tmp_path, monkeypatch):
    write(tmp_path / "data", OLD)
    monkeypatch.setattr(os.path, "ismount", lambda path: path == str(tmp_path / "data"))
    before = (tmp_path / "data").stat().st_ino
    stage(tmp_path / "data", "overwrite").commit(NEW)
    assert everything(tmp_path / "data") == NEW
    assert (tmp_path / "data").stat().st_ino == before


def test_the_working_directory_is_not_replaced(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stage(".").commit(NEW)
    assert everything(".") == NEW
    stage(".", "overwrite", OLD).commit(OLD)
    assert everything(".") == OLD


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EINVAL])
def test_without_an_exchange_of_names(tmp_path, monkeypatch, code):
    def missing(one, other, flags):
        raise OSError(code, "no such call")

    monkeypatch.setattr(replace, "renameat2", missing)
    write(tmp_path / "data", OLD)
    stage(tmp_path / "data", "overwrite").commit(NEW)
    assert everything(tmp_path) == {f"data/{name}": data for name, data in NEW.items()}


def test_without_an_exchange_the_old_directory_is_put_back(tmp_path, monkeypatch):
    def missing(one, other, flags):
        raise OSError(errno.ENOSYS, "no such call")

    rename = os.rename

    def failing(source, target):
        if Path(target).name == "data" and not source.endswith(".old"):
            raise OSError(errno.EIO, "disk")
        rename(source, target)

    monkeypatch.setattr(replace, "renameat2", missing)
    monkeypatch.setattr(os, "rename", failing)
    write(tmp_path / "data", OLD)
    with pytest.raises(OSError, match="disk"):
        stage(tmp_path / "data", "overwrite").commit(NEW)
    assert everything(tmp_path) == {f"data/{name}": data for name, data in OLD.items()}


# ---- interrupts


WATCHED = {module.__file__ for module in (moves, replace, staging, target)}


class Interrupter:
    """Raises KeyboardInterrupt before a certain line of the module is run."""

    def __init__(self, after):
        self.left = after

    def __call__(self, frame, event, _):
        if frame.f_code.co_filename not in WATCHED:
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self

    def run(self, function):
        """Whether it came to the end before the interrupt."""
        sys.settrace(self)
        try:
            function()
        except KeyboardInterrupt:
            return False
        finally:
            sys.settrace(None)
        return True


@pytest.mark.parametrize("exchange", [True, False])
@pytest.mark.parametrize("existing", ["error", "append", "overwrite"])
def test_an_interrupt_at_any_line_leaves_the_old_or_the_new(
    tmp_path, monkeypatch, existing, exchange
):
    if not exchange:

        def missing(one, other, flags):
            raise OSError(errno.ENOSYS, "no such call")

        monkeypatch.setattr(replace, "renameat2", missing)
    old = {} if existing == "error" else OLD
    new = {**old, **NEW} if existing == "append" else NEW
    seen = set()
    for after in range(1, 10_000):
        base = tmp_path / str(after) / "data"
        base.mkdir(parents=True)
        write(base, old)
        staging = stage(base, existing)
        finished = Interrupter(after).run(lambda staging=staging: staging.commit(NEW))
        found = visible(base)
        assert found in (old, new), after
        seen.add((finished, found == new))
        if finished:
            break
    assert seen >= {(False, False), (True, True)}
    assert after > 20


# ---- remote


class Failing(MemoryFileSystem):
    """Fails at one move, of many."""

    protocol = "failing"
    cachable = False
    fails_with = None

    def cp_file(self, path1, path2, **options):
        if self.fails_with is not None and "c.mosaic" in path1:
            raise self.fails_with
        super().cp_file(path1, path2, **options)


@pytest.mark.parametrize("existing", ["append", "overwrite"])
@pytest.mark.parametrize("error", [OSError("network"), KeyboardInterrupt()])
def test_moves_before_a_failed_one_are_taken_back(existing, error):
    storage = Failing()
    storage.store, storage.pseudo_dirs = {}, [""]
    storage.fails_with = error
    for name, data in OLD.items():
        storage.pipe_file(f"/data/{name}", data)
    staging = stage("/data", existing, filesystem=storage)
    with pytest.raises(type(error)):
        staging.commit(NEW)
    assert {name: storage.cat_file(name) for name in storage.find("/")} == {
        f"/data/{name}": data for name, data in OLD.items()
    }


@pytest.fixture(scope="module")
def s3_port():
    with s3_api() as port:
        yield port


@pytest.fixture(params=["pyarrow", "s3fs", "memory"])
def remote(request):
    """A filesystem, and all that is in it, as a function."""
    if request.param == "memory":
        memory = MemoryFileSystem()
        memory.store.clear()
        memory.pseudo_dirs[:] = [""]
        yield memory, "bucket", lambda: {k: memory.cat_file(k) for k in memory.find("/bucket")}
        memory.store.clear()
        return
    url = f"http://127.0.0.1:{request.getfixturevalue('s3_port')}"
    s3 = fsspec.filesystem(
        "s3",
        key="x",
        secret="y",
        endpoint_url=url,
        skip_instance_cache=True,
        use_listings_cache=False,
    )
    bucket = f"b{os.urandom(4).hex()}"
    s3.mkdir(bucket)

    def keys():
        found = s3.call_s3("list_objects_v2", Bucket=bucket).get("Contents", [])
        return {f"/{bucket}/{o['Key']}": s3.cat_file(f"{bucket}/{o['Key']}") for o in found}

    if request.param == "s3fs":
        cached = fsspec.filesystem("s3", key="x", secret="y", endpoint_url=url)
        yield cached, bucket, keys
    else:
        arrow = fs.S3FileSystem(
            access_key="x", secret_key="y", endpoint_override=url, region="us-east-1"
        )

        def without_markers():
            # When it deletes something, it makes an empty object for the directory above.
            found = keys()
            files = [key for key in found if not key.endswith("/")]
            markers = [key for key in found.keys() - files if any(f.startswith(key) for f in files)]
            return {key: data for key, data in found.items() if key not in markers}

        yield arrow, bucket, without_markers


def test_remote_files_appear_and_nothing_else_is_left(remote):
    filesystem, bucket, keys = remote

    def under(*contents):
        return {
            f"/{bucket}/deep/data/{name}": data
            for files in contents
            for name, data in files.items()
        }

    base = f"{bucket}/deep/data"
    staging = stage(base, "error", OLD, filesystem)
    assert not any(map(is_visible, (key.partition("/data/")[2] for key in keys())))
    staging.commit(OLD)
    assert keys() == under(OLD)
    with pytest.raises(FileExistsError, match="existing='append'"):
        Staging.begin(base, filesystem)
    stage(base, "append", {**NEW, "failed.mosaic": b""}, filesystem).commit(NEW)
    assert keys() == under(OLD, NEW)
    stage(base, "append", {"x.mosaic": b""}, filesystem).abandon()
    assert keys() == under(OLD, NEW)
    last = {"k=1/last.mosaic": b"last"}
    stage(base, "overwrite", last, filesystem).commit(last)
    assert keys() == under(last)


def test_remote_overwrite_spares_what_is_no_data_set(remote):
    filesystem, bucket, keys = remote
    stage(f"{bucket}/data", "append", {"notes.txt": b""}, filesystem).commit(["notes.txt"])
    with pytest.raises(ValueError, match=r"notes\.txt is not a \.mosaic file"):
        Staging.begin(f"{bucket}/data", filesystem, "overwrite")
    assert keys() == {f"/{bucket}/data/notes.txt": b""}


def test_to_abandon_a_remote_directory_leaves_nothing(remote):
    filesystem, bucket, keys = remote
    stage(f"{bucket}/data", "error", NEW, filesystem).abandon()
    Staging.begin(f"{bucket}/other", filesystem).abandon()
    assert keys() == {}


def test_a_listing_that_is_remembered_is_not_believed(s3_port):
    options = {"key": "x", "secret": "y", "endpoint_url": f"http://127.0.0.1:{s3_port}"}
    mine, theirs = (fsspec.filesystem("s3", **options, skip_instance_cache=True) for _ in range(2))
    bucket = f"b{os.urandom(4).hex()}"
    mine.mkdir(bucket)
    mine.pipe_file(f"{bucket}/other", b"")
    assert mine.ls(bucket) == [f"{bucket}/other"]
    stage(f"{bucket}/data", "error", OLD, theirs).commit(OLD)
    assert mine.ls(bucket) == [f"{bucket}/other"]
    with pytest.raises(FileExistsError, match="contains files"):
        Staging.begin(f"{bucket}/data", mine)


def test_a_remote_staging_can_be_pickled(remote):
    filesystem, bucket, keys = remote
    staging = pickle.loads(pickle.dumps(stage(f"{bucket}/data", "error", NEW, filesystem)))
    staging.commit(["a.mosaic"])
    assert keys() == {f"/{bucket}/data/a.mosaic": b"new a"}

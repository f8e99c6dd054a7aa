"""Files and directories that are replaced: owners, permissions and attributes stay, links, too."""

import errno
import os
import socket
import stat
import warnings
from contextlib import suppress

import pyarrow as pa
import pytest

import fastmosaic as fm
from fastmosaic.cli import main
from fastmosaic.storage.direct import Direct
from fastmosaic.storage.replace import keep_status

TABLE = pa.table({"id": [1, 2, 3]})
IS_ROOT = os.getuid() == 0
USER, GROUP = (12345, 23456) if IS_ROOT else (os.getuid(), os.getgid())


@pytest.fixture(autouse=True)
def umask():
    before = os.umask(0o027)
    yield
    os.umask(before)


def mode(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


def owner(path):
    status = os.stat(path)
    return status.st_uid, status.st_gid


def note(path):
    """Set an attribute, where the filesystem has attributes."""
    with suppress(OSError):
        os.setxattr(path, "user.origin", b"here")
    return noted(path)


def noted(path):
    try:
        return os.getxattr(path, "user.origin")
    except OSError:
        return None


def write_table(path):
    fm.write_table(TABLE, path)


def write_batches(path):
    with fm.MosaicWriter(path, TABLE.schema) as writer:
        writer.write(TABLE)


def convert(path):
    source = path.with_name("source.mosaic")
    fm.write_table(TABLE, source)
    assert main(["convert", str(source), str(path), "--to", "mosaic", "--overwrite"]) == 0


WRITERS = pytest.mark.parametrize("write", [write_table, write_batches, convert])


@WRITERS
def test_a_new_file_honours_the_umask(tmp_path, write):
    write(tmp_path / "a.mosaic")
    assert mode(tmp_path / "a.mosaic") == 0o640


@WRITERS
@pytest.mark.parametrize("bits", [0o600, 0o644, 0o666, 0o640, 0o444, 0o2664, 0o755, 0o000])
def test_a_replaced_file_keeps_its_status(tmp_path, write, bits):
    path = tmp_path / "a.mosaic"
    path.write_bytes(b"old")
    os.chown(path, USER, GROUP)
    before = note(path)
    os.chmod(path, bits)
    write(path)
    assert mode(path) == bits
    assert owner(path) == (USER, GROUP)
    assert noted(path) == before
    assert fm.read_table(path) == TABLE


def test_an_access_control_list_stays(tmp_path):
    path = tmp_path / "a.mosaic"
    path.write_bytes(b"old")
    # Version 2 of the entries: owner rw, user 1000 r, group none, mask r, others none.
    entries = [(1, 6, 0xFFFFFFFF), (2, 4, 1000), (4, 0, 0xFFFFFFFF), (16, 4, 0xFFFFFFFF)]
    entries.append((32, 0, 0xFFFFFFFF))
    packed = b"".join(
        tag.to_bytes(2, "little") + bits.to_bytes(2, "little") + who.to_bytes(4, "little")
        for tag, bits, who in entries
    )
    listed = (2).to_bytes(4, "little") + packed
    os.setxattr(path, "system.posix_acl_access", listed)
    write_table(path)
    assert os.getxattr(path, "system.posix_acl_access") == listed
    assert mode(path) == 0o640


def test_nobody_else_can_read_what_will_replace_a_private_file(tmp_path):
    path = tmp_path / "a.mosaic"
    path.write_bytes(b"old")
    path.chmod(0o600)
    with fm.MosaicWriter(path, TABLE.schema) as writer:
        writer.write(TABLE)
        writer.flush()
        (temporary,) = set(os.listdir(tmp_path)) - {"a.mosaic"}
        assert mode(tmp_path / temporary) == 0o600
    assert mode(path) == 0o600


def test_without_the_right_to_set_the_owner_rights_are_not_given_to_others(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    for path in (old, new):
        path.write_bytes(b"")
    os.chown(old, USER, GROUP)
    os.chmod(old, 0o6764)
    if IS_ROOT:
        os.chmod(tmp_path, 0o777)
        os.chown(new, 1, 1)
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # there are other threads, which the child does not need
            child = os.fork()
        if child == 0:
            status = 1
            try:
                os.chdir(tmp_path)  # the directories above may be closed to others
                os.setgroups([])
                os.setgid(1)
                os.setuid(1)
                keep_status("old", "new")
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert owner(new) == (1, 1)
        assert mode(new) == 0o744
    else:
        keep_status(str(old), str(new))
        assert mode(new) == 0o6764


# ---- directories


@pytest.mark.parametrize("bits", [0o700, 0o755, 0o2775])
def test_an_overwritten_directory_keeps_its_status(tmp_path, bits):
    base = tmp_path / "data"
    table = pa.table({"day": ["mo", "tu"], "x": [1, 2]})
    fm.write_dataset(table, base, partitioning="day")
    assert mode(base) == 0o750
    for path, rights in ((base, bits), (base / "day=mo", 0o2711)):
        os.chown(path, USER, GROUP)
        os.chmod(path, rights)
        before = note(path)
    more = pa.table({"day": ["mo", "we"], "x": [1, 2]})
    seen = []
    fm.write_dataset(
        more,
        base,
        partitioning="day",
        existing="overwrite",
        progress=lambda _: seen.extend(mode(path) for path in tmp_path.glob(".data.*")),
    )
    assert seen == [bits]  # nobody else can look into the new one
    assert owner(base) == owner(base / "day=mo") == (USER, GROUP)
    assert noted(base) == noted(base / "day=mo") == before
    assert mode(base) == bits
    assert mode(base / "day=mo") == 0o2711
    assert mode(base / "day=we") & 0o777 == 0o750
    (file,) = (base / "day=we").iterdir()
    assert mode(file) == 0o640
    if bits & stat.S_ISGID:
        assert os.stat(file).st_gid == GROUP
    assert fm.read_table(base).num_rows == 2
    assert os.listdir(tmp_path) == ["data"]


# ---- links


@WRITERS
def test_a_link_to_a_file_is_written_through(tmp_path, write):
    (tmp_path / "there").mkdir()
    target = tmp_path / "there" / "target.mosaic"
    target.write_bytes(b"old")
    target.chmod(0o604)
    link = tmp_path / "link.mosaic"
    link.symlink_to("there/target.mosaic")
    write(link)
    assert link.is_symlink()
    assert os.readlink(link) == "there/target.mosaic"
    assert fm.read_table(target) == TABLE
    assert mode(target) == 0o604
    assert os.listdir(tmp_path / "there") == ["target.mosaic"]


def test_a_link_to_nothing_is_written_through(tmp_path):
    link = tmp_path / "link.mosaic"
    link.symlink_to("target.mosaic")
    write_table(link)
    assert link.is_symlink()
    assert fm.read_table(tmp_path / "target.mosaic") == TABLE
    lost = tmp_path / "lost.mosaic"
    lost.symlink_to("nowhere/target.mosaic")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        write_table(lost)
    assert lost.is_symlink()


def test_links_in_a_circle_are_refused(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    (tmp_path / "self").symlink_to("self")
    for name in ("a", "self"):
        for write in (write_table, lambda path: fm.write_dataset(TABLE, path)):
            with pytest.raises(OSError, match=name) as caught:
                write(tmp_path / name)
            assert caught.value.errno == errno.ELOOP
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "self"]
    assert all(path.is_symlink() for path in tmp_path.iterdir())


def test_a_link_to_a_directory_is_no_file_but_a_dataset(tmp_path):
    (tmp_path / "there").mkdir()
    link = tmp_path / "link"
    link.symlink_to("there")
    with pytest.raises(IsADirectoryError):
        write_table(link)
    for existing in ("error", "append", "overwrite"):
        fm.write_dataset(TABLE, link, existing=existing)
    assert link.is_symlink()
    assert fm.read_table(tmp_path / "there") == TABLE
    assert sorted(os.listdir(tmp_path)) == ["link", "there"]


def test_a_link_to_a_device_is_written_through(tmp_path):
    link = tmp_path / "null"
    link.symlink_to(os.devnull)
    write_table(link)
    assert link.is_symlink()
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


def test_a_socket_is_not_replaced(tmp_path, monkeypatch):
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as server:
        monkeypatch.chdir(tmp_path)  # the whole path may be too long
        server.bind("socket")
        with pytest.raises(OSError, match="socket"):
            write_table(path)
    assert stat.S_ISSOCK(os.lstat(path).st_mode)


def test_other_names_of_a_replaced_file_keep_the_old_content(tmp_path):
    path, other = tmp_path / "a.mosaic", tmp_path / "b.mosaic"
    path.write_bytes(b"old")
    os.link(path, other)
    write_table(path)
    assert fm.read_table(path) == TABLE
    assert other.read_bytes() == b"old"


# ---- nothing is deleted through a link


def outside(tmp_path):
    fm.write_dataset(TABLE, tmp_path / "precious")
    return {path: path.read_bytes() for path in (tmp_path / "precious").iterdir()}


@pytest.fixture(params=["replaced", "moved"])
def base(request, tmp_path, monkeypatch):
    """A dataset whose directory is replaced, or which is written file by file."""
    path = tmp_path / "data"
    fm.write_dataset(TABLE, path)
    if request.param == "moved":
        monkeypatch.chdir(path)  # the working directory is not replaced
    return path


@pytest.mark.parametrize("name", ["_hidden", "sub/_hidden", "link.mosaic", "sub/.x"])
def test_overwriting_removes_links_but_nothing_behind_them(tmp_path, base, name):
    kept = outside(tmp_path)
    (base / "sub").mkdir()
    fm.write_table(TABLE, base / "sub" / "a.mosaic")
    (base / name).symlink_to(tmp_path / "precious")
    fm.write_dataset(TABLE, base, existing="overwrite")
    assert {path: path.read_bytes() for path in kept} == kept
    assert fm.read_table(base) == TABLE
    assert not any(path.is_symlink() for path in base.rglob("*"))


@pytest.mark.parametrize("is_direct", [False, True])
def test_a_directory_with_a_linked_one_is_not_overwritten(tmp_path, base, is_direct):
    kept = outside(tmp_path)
    (base / "k=1").symlink_to(tmp_path / "precious")
    before = sorted(os.listdir(base))
    write = (
        Direct.begin
        if is_direct
        else lambda base, **options: fm.write_dataset(TABLE, base, **options)
    )
    with pytest.raises(ValueError, match="k=1"):
        write(base, existing="overwrite")
    assert {path: path.read_bytes() for path in kept} == kept
    assert sorted(os.listdir(base)) == before

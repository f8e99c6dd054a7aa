"""Which files are meant by paths, directories, globs and lists, on every kind of filesystem."""

import errno
import io
import os
import pickle
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.fs
import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.spec import AbstractFileSystem

from fastmosaic.dataset.discovery import discover, is_many
from fastmosaic.errors import SchemaMismatchError

TREE = [
    "day=2/b.mosaic",
    "day=1/a.mosaic",
    "day=1/c.txt",
    "_key=x/day=3/d.mosaic",
    "top.mosaic",
    ".hidden",
    "_SUCCESS",
    "_a=file",
    ".dir/x.mosaic",
    "_dir/x.mosaic",
    ".dot=1/x.mosaic",
    "day=1/_temporary/x.mosaic",
    "day=1/.x.mosaic",
]
VISIBLE = [
    "_key=x/day=3/d.mosaic",
    "day=1/a.mosaic",
    "day=1/c.txt",
    "day=2/b.mosaic",
    "top.mosaic",
]


class Place:
    """A directory `ds` of some filesystem: how to name it, and how to put files there."""

    def __init__(self, root, filesystem, put):
        self.root = root
        self.filesystem = filesystem
        self.put = put

    def fill(self, names):
        for name in names:
            self.put(f"ds/{name}", name.encode())
        return self

    def discover(self, path, **options):
        return discover(self.root + path, self.filesystem, **options)

    def names(self, path, **options):
        """Names of the files found, below the root."""
        found = self.discover(path, **options)
        assert all(file.name.startswith(self.root) for file in found)
        return [file.name.removeprefix(self.root) for file in found]


class PlainFileSystem(AbstractFileSystem):
    """A filesystem of fsspec that lists one directory at a time, as most do."""

    protocol = "plain"
    cachable = False

    def __init__(self, root):
        super().__init__()
        self.root = str(root)
        self.listed = []

    def ls(self, path, detail=True, **kwargs):
        self.listed.append(path)
        local = LocalFileSystem()
        infos = local.ls(f"{self.root}/{path}", detail=True)
        if path == "ds/broken":
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return [{**i, "name": i["name"].removeprefix(self.root).lstrip("/")} for i in infos]

    def info(self, path, **kwargs):
        return {**LocalFileSystem().info(f"{self.root}/{path}"), "name": path}


def put_locally(root):
    def put(name, data):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    return put


def mock_place(root, filesystem, wrapped):
    def put(name, data):
        filesystem.create_dir(os.path.dirname(name))
        with filesystem.open_output_stream(name) as stream:
            stream.write(data)

    return Place(root, wrapped, put)


@pytest.fixture(
    params=[
        "local",
        "file uri",
        "pyarrow local",
        "pyarrow subtree",
        "fsspec local",
        "mock",
        "mock subtree",
        "memory",
        "memory uri",
        "pyarrow over fsspec",
        "plain",
    ]
)
def place(request, tmp_path, memory):
    put = put_locally(tmp_path)
    match request.param:
        case "local":
            return Place(f"{tmp_path}/", None, put)
        case "file uri":
            return Place(f"file://{tmp_path}/", None, put)
        case "pyarrow local":
            return Place(f"{tmp_path}/", pa.fs.LocalFileSystem(), put)
        case "pyarrow subtree":
            local = pa.fs.LocalFileSystem()
            return Place("", pa.fs.SubTreeFileSystem(str(tmp_path), local), put)
        case "fsspec local":
            return Place(f"{tmp_path}/", LocalFileSystem(), put)
        case "mock":
            mock = pa.fs._MockFileSystem()
            return mock_place("", mock, mock)
        case "mock subtree":
            inner = pa.fs._MockFileSystem()
            inner.create_dir("deep/er=1")
            subtree = pa.fs.SubTreeFileSystem("deep/er=1", inner)
            return mock_place("", subtree, subtree)
        case "memory":
            return Place("/", memory, lambda name, data: memory.pipe(f"/{name}", data))
        case "memory uri":
            return Place("memory://", None, lambda name, data: memory.pipe(f"/{name}", data))
        case "pyarrow over fsspec":
            wrapped = pa.fs.PyFileSystem(pa.fs.FSSpecHandler(memory))
            return Place("/", wrapped, lambda name, data: memory.pipe(f"/{name}", data))
        case "plain":
            return Place("", PlainFileSystem(tmp_path), put)


@pytest.fixture
def local(tmp_path):
    return Place(f"{tmp_path}/", None, put_locally(tmp_path))


@pytest.mark.parametrize("path", ["ds", "ds/"])
def test_a_directory_is_all_of_its_visible_files(place, path):
    place.fill(TREE)
    assert place.names(path) == [f"ds/{name}" for name in VISIBLE]


def test_what_is_found_can_be_opened(place):
    place.fill(TREE)
    for file in place.discover("ds"):
        if file.filesystem is None:
            data = Path(file.path).read_bytes()
        elif hasattr(file.filesystem, "open_input_file"):
            with file.filesystem.open_input_file(file.path) as stream:
                data = stream.read()
        elif isinstance(file.filesystem, PlainFileSystem):
            data = Path(file.filesystem.root, file.path).read_bytes()
        else:
            data = file.filesystem.cat_file(file.path)
        assert file.name.endswith("/ds/" + data.decode()) or file.name == "ds/" + data.decode()
        assert file.size is None or file.size == len(data)
        assert (file.size is None) == (file.filesystem is None)


def test_keys_of_a_directory_are_those_below_it(place):
    place.fill(["a=1/b=x%20y/f", f"a=2/b={'__HIVE_DEFAULT_PARTITION__'}/f"])
    assert [file.keys for file in place.discover("ds")] == [
        {"a": "1", "b": "x y"},
        {"a": "2", "b": None},
    ]
    assert [file.keys for file in place.discover("ds/a=1")] == [{"b": "x y"}]
    assert [file.keys for file in place.discover("ds", partitioned=False)] == [{}, {}]


def test_keys_of_globs_and_lists_are_those_of_the_whole_path(place):
    place.fill(["a=1/b=2/c=3/f"])
    expected = {"a": "1", "b": "2", "c": "3"}
    file = place.root + "ds/a=1/b=2/c=3/f"
    for path in ["ds/a=1/b=2/c=3/*", "ds/a=1/*", "ds/*/b=2", "ds/a=1/**/f"]:
        assert [file.keys for file in place.discover(path)] == [expected]
        assert [f.keys for f in place.discover(path, partitioned=False)] == [{}]
    for path in [file, place.root + "ds/a=1", place.root + "ds/a=1/b=2/"]:
        assert [file.keys for file in discover([path], place.filesystem)] == [expected]


def test_a_single_file_has_no_keys(place):
    place.fill(["a=1/f"])
    (found,) = place.discover("ds/a=1/f")
    assert found.keys == {}
    assert found.name == place.root + "ds/a=1/f"


def test_a_hidden_file_may_be_named(place):
    place.fill(["_dir/_x"])
    assert place.names("ds/_dir/_x") == ["ds/_dir/_x"]
    (found,) = discover([place.root + "ds/_dir/_x"], place.filesystem)
    assert found.name == place.root + "ds/_dir/_x"


def test_a_hidden_directory_may_be_named(place):
    place.fill(["_dir/.deep/x", "_dir/.deep/.y"])
    assert place.names("ds/_dir/.deep") == ["ds/_dir/.deep/x"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("ds/*.mosaic", ["top.mosaic"]),
        ("ds/t?p.mosaic", ["top.mosaic"]),
        ("ds/[s-u]op.mosaic", ["top.mosaic"]),
        ("ds/day=[!2]/*.mosaic", ["day=1/a.mosaic"]),
        ("ds/*/*.mosaic", ["day=1/a.mosaic", "day=2/b.mosaic"]),
        ("ds/day=*", ["day=1/a.mosaic", "day=1/c.txt", "day=2/b.mosaic"]),
        ("ds/day=*/", ["day=1/a.mosaic", "day=1/c.txt", "day=2/b.mosaic"]),
        ("ds/*", VISIBLE),
        ("ds/**", VISIBLE),
        ("d*/**/*.mosaic", [name for name in VISIBLE if name != "day=1/c.txt"]),
        ("ds/**/a.mosaic", ["day=1/a.mosaic"]),
        ("ds/**/day=3/*", ["_key=x/day=3/d.mosaic"]),
        ("ds/day=1/_*", ["day=1/_temporary/x.mosaic"]),
        ("ds/day=1/.*", ["day=1/.x.mosaic"]),
        ("ds/_d*/x.mosaic", ["_dir/x.mosaic"]),
        ("ds/_dir/*", ["_dir/x.mosaic"]),
        ("ds/**/_temporary/*", ["day=1/_temporary/x.mosaic"]),
    ],
)
def test_globs(place, pattern, expected):
    place.fill(TREE)
    assert place.names(pattern) == [f"ds/{name}" for name in expected]


@pytest.mark.parametrize(
    "pattern",
    ["ds/*.nope", "ds/top.mosaic/*", "nowhere/*", "ds/*/*/*/*/*", "ds/DAY=*", "ds/top.mosaic/**"],
)
def test_a_glob_without_a_match_is_an_error(place, pattern):
    place.fill(TREE)
    with pytest.raises(FileNotFoundError) as error:
        place.discover(pattern)
    assert place.root + pattern in str(error.value)


def test_doubled_slashes_in_a_local_glob_are_one(local):
    local.fill(TREE)
    assert local.names("ds/day=*//a.mosaic") == ["ds/day=1/a.mosaic"]


def test_what_is_there_is_no_glob(place):
    place.fill(["a[1].mosaic", "a1.mosaic", "d[1]/x", "d1/y"])
    assert place.names("ds/a[1].mosaic") == ["ds/a[1].mosaic"]
    assert place.names("ds/d[1]") == ["ds/d[1]/x"]
    assert place.names("ds/d[1]/x") == ["ds/d[1]/x"]
    assert place.names("ds/a[12].mosaic") == ["ds/a1.mosaic"]


def test_a_missing_path_is_an_error(place):
    place.fill(["f"])
    for source in ["ds/nope", "nope/nope", "ds/f/x"]:
        for wanted in (place.root + source, [place.root + source]):
            with pytest.raises(FileNotFoundError) as error:
                discover(wanted, place.filesystem)
            assert error.value.errno == errno.ENOENT
            assert error.value.filename == place.root + source


def test_a_directory_of_hidden_files_is_an_error(place):
    place.fill(["sub/_SUCCESS", "_dir/x"])
    with pytest.raises(FileNotFoundError, match="contains no files, only hidden ones") as error:
        place.discover("ds")
    assert place.root + "ds" in str(error.value)


def test_an_empty_directory_is_an_error(local, tmp_path):
    (tmp_path / "ds" / "empty").mkdir(parents=True)
    with pytest.raises(FileNotFoundError, match=r"ds contains no files$"):
        local.discover("ds")
    with pytest.raises(FileNotFoundError, match="No file matches"):
        local.discover("ds/*")


def test_an_empty_path_is_no_directory():
    with pytest.raises(FileNotFoundError):
        discover("")


def test_a_list_keeps_its_order(place):
    place.fill(TREE)
    paths = ["ds/top.mosaic", "ds/day=2", "ds/day=1/*.mosaic"]
    found = discover([place.root + path for path in paths], place.filesystem)
    names = ["ds/top.mosaic", "ds/day=2/b.mosaic", "ds/day=1/a.mosaic"]
    assert [file.name for file in found] == [place.root + name for name in names]
    assert len({id(file.filesystem) for file in found}) == 1


@pytest.mark.parametrize("other", ["ds/day=2/b.mosaic", "ds/day=2", "ds/*/b.mosaic"])
def test_a_file_twice_in_a_list_is_an_error(place, other):
    place.fill(TREE)
    with pytest.raises(ValueError, match=r"b\.mosaic occurs twice in the list"):
        discover((place.root + "ds/day=2/b.mosaic", place.root + other), place.filesystem)


def test_a_file_by_two_names_is_an_error(local, tmp_path, monkeypatch):
    local.fill(["f"])
    monkeypatch.chdir(tmp_path)
    for other in [tmp_path / "ds" / "f", "./ds/f", f"file://{tmp_path}/ds/f", "ds/../ds/f"]:
        with pytest.raises(ValueError, match=r"occurs twice in the list, also as ds/f$"):
            discover(["ds/f", other])


def test_equal_paths_of_different_filesystems_are_different_files(local, tmp_path, memory):
    local.fill(["f"])
    path = f"{tmp_path}/ds/f"
    memory.pipe(path, b"")
    found = discover([path, f"memory:/{path}"])
    assert [file.filesystem for file in found] == [None, memory]


@pytest.mark.parametrize("empty", [[], ()])
def test_an_empty_list_is_an_error(empty):
    with pytest.raises(ValueError, match="empty"):
        discover(empty)


@pytest.mark.parametrize("thing", [b"MOSA", io.BytesIO(), pa.py_buffer(b""), None, 7, ["x"]])
def test_lists_are_of_paths(local, tmp_path, thing):
    local.fill(["f"])
    with pytest.raises(TypeError, match=rf"{type(thing).__name__}.*one by one"):
        discover([tmp_path / "ds" / "f", thing])


@pytest.mark.parametrize("thing", [b"MOSA", io.BytesIO(), None, 7, {"x"}])
def test_sources_are_paths(thing):
    with pytest.raises(TypeError, match=type(thing).__name__):
        discover(thing)


def test_open_files_of_fsspec_are_paths(memory):
    memory.pipe("/ds/a=1/f", b"")
    found = discover(list(fsspec.open_files("memory://ds/*/f")))
    assert [(file.path, file.keys) for file in found] == [("/ds/a=1/f", {"a": "1"})]
    assert not is_many(fsspec.open("memory://ds/a=1/f"), None)


def test_relative_paths_stay_relative(local, tmp_path, monkeypatch):
    local.fill(["a=1/f"])
    monkeypatch.chdir(tmp_path)
    for source in ["ds", Path("ds"), "./ds", "*", "d?", "**/f"]:
        (found,) = discover(source)
        assert os.path.relpath(found.name) == os.path.join("ds", "a=1", "f")
        assert not os.path.isabs(found.path)
        assert os.path.samefile(found.path, tmp_path / "ds" / "a=1" / "f")


def test_the_directories_of_a_filesystem_are_not_those_of_the_user():
    mock = pa.fs._MockFileSystem()
    mock.create_dir("er=1/a=2")
    mock.open_output_stream("er=1/a=2/f").close()
    (found,) = discover("*", pa.fs.SubTreeFileSystem("er=1", mock))
    assert found.keys == {"a": "2"}
    assert found.path == "er=1/a=2/f"


def test_escapes_in_a_uri_are_read_once(tmp_path):
    put_locally(tmp_path)("my ds/a=x%20y/f", b"")
    (found,) = discover(f"file://{tmp_path}/my%20ds")
    assert found.keys == {"a": "x y"}
    assert found.name == f"file://{tmp_path}/my%20ds/a=x%20y/f"
    assert os.path.exists(found.path)


def test_conflicting_keys_are_an_error_that_names_the_file(place):
    place.fill(["a=1/a=2/f"])
    with pytest.raises(SchemaMismatchError, match=r"ds/a=1/a=2/f: .*'a'.*'1'.*'2'"):
        place.discover("ds")
    with pytest.raises(SchemaMismatchError, match=r"ds/a=1/a=2/f: .*'a'.*'1'.*'2'"):
        discover([place.root + "ds/a=1/a=2/f"], place.filesystem)
    assert place.names("ds", partitioned=False) == ["ds/a=1/a=2/f"]


def test_links_inside_of_the_directory_are_followed(local, tmp_path):
    local.fill(["f", "_aside/b=1/g"])
    os.symlink("_aside", tmp_path / "ds" / "a=1")
    os.symlink(tmp_path / "ds" / "f", tmp_path / "ds" / "link")
    os.symlink("ds", tmp_path / "named")  # a path that the user names may be a link itself
    for base in ("ds", "named"):
        assert local.names(base) == [f"{base}/a=1/b=1/g", f"{base}/f", f"{base}/link"]
        assert [file.keys for file in local.discover(f"{base}/a=*")] == [{"a": "1", "b": "1"}]
    assert local.names("ds/link") == ["ds/link"]
    assert local.names("ds/a=1") == ["ds/a=1/b=1/g"]


def test_links_out_of_the_directory_are_followed_if_asked_for(local, tmp_path):
    local.fill(["f", "sub/h"])
    local.put("elsewhere/b=1/g", b"")
    local.put("dst/x", b"")  # its path begins like that of the directory
    link = tmp_path / "ds" / "sub" / "a=1"
    for target, files in [
        ("elsewhere", ["ds/f", "ds/sub/a=1/b=1/g", "ds/sub/h"]),
        ("elsewhere/b=1/g", ["ds/f", "ds/sub/a=1", "ds/sub/h"]),
        ("dst", ["ds/f", "ds/sub/a=1/x", "ds/sub/h"]),
    ]:
        os.symlink(tmp_path / target, link)
        for pattern in ("ds", "ds/**", "ds/*/a*", "ds/sub"):
            with pytest.raises(ValueError, match=rf"ds/sub/a=1 is a link out .*{target}.*follow"):
                local.discover(pattern)
            local.discover(pattern, follow_links=True)
        assert local.names("ds", follow_links=True) == files
        # What no one asks for is not looked at.
        assert local.names("ds/f*") == ["ds/f"]
        os.unlink(link)


def test_links_among_each_other_end(local, tmp_path):
    local.fill(["a/f", "b/g"])
    os.symlink("../b", tmp_path / "ds" / "a" / "b")
    os.symlink("../a", tmp_path / "ds" / "b" / "a")
    assert local.names("ds") == ["ds/a/b/g", "ds/a/f", "ds/b/a/f", "ds/b/g"]
    # There are more ways through thirty directories than anyone could go.
    for one in range(30):
        (tmp_path / "ds" / "many" / str(one)).mkdir(parents=True)
        for other in range(30):
            os.symlink(f"../{other}", tmp_path / "ds" / "many" / str(one) / f"to-{other}")
    with pytest.raises(OSError, match="to-") as error:
        local.discover("ds")
    assert error.value.errno == errno.ELOOP


@pytest.mark.parametrize("target", ["ds", "ds/sub", "."])
def test_links_that_lead_back_are_not_followed_forever(local, tmp_path, target):
    local.fill(["f", "sub/deep/g"])
    os.symlink(tmp_path / target, tmp_path / "ds" / "sub" / "deep" / "back")
    local.put("other", b"")
    # What lies outside is found through the link, everything else once.
    outside = ["ds/sub/deep/back/other"] if target == "." else []
    follow = {"follow_links": target == "."}
    assert local.names("ds", **follow) == sorted(["ds/f", "ds/sub/deep/g", *outside])
    assert local.names("ds/**/[fg]", **follow) == ["ds/f", "ds/sub/deep/g"]


def test_broken_links_are_errors(local, tmp_path):
    local.fill(["f"])
    os.symlink(tmp_path / "nowhere", tmp_path / "ds" / "broken")
    for pattern in ["ds", "ds/*"]:
        with pytest.raises(FileNotFoundError) as error:
            local.discover(pattern)
        assert error.value.filename == f"{tmp_path}/ds/broken"
    assert local.names("ds/f*") == ["ds/f"]
    os.rename(tmp_path / "ds" / "broken", tmp_path / "ds" / "_broken")
    assert local.names("ds") == ["ds/f"]


def test_a_link_to_itself_is_an_error(local, tmp_path):
    local.fill(["f"])
    os.symlink("self", tmp_path / "ds" / "self")
    with pytest.raises(OSError, match="ds/self") as error:
        local.discover("ds")
    assert error.value.errno == errno.ELOOP
    assert local.names("ds/f*") == ["ds/f"]


def test_pipes_are_errors(local, tmp_path):
    local.fill(["f"])
    os.mkfifo(tmp_path / "ds" / "pipe")
    with pytest.raises(ValueError, match=r"ds/pipe is neither a file nor a directory"):
        local.discover("ds")
    assert local.names("ds/f*") == ["ds/f"]


def test_directories_that_cannot_be_listed_are_errors(tmp_path):
    put_locally(tmp_path)("ds/closed/f", b"")
    put_locally(tmp_path)("ds/g", b"")
    closed = tmp_path / "ds" / "closed"
    closed.chmod(0)
    # As root nothing is forbidden, so the process becomes nobody; it starts where it may look.
    code = (
        "import os, sys\n"
        "from fastmosaic.dataset.discovery import discover\n"
        "if os.geteuid() == 0: os.setgid(65534); os.setuid(65534)\n"
        "for source in sys.argv[1:]:\n"
        "    try: print(discover(source))\n"
        "    except PermissionError as error: print(error.filename)\n"
    )
    for folder in [tmp_path, tmp_path / "ds"]:
        folder.chmod(0o755)
    run = subprocess.run(
        [sys.executable, "-c", code, "ds", "ds/*", "ds/closed/f"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    closed.chmod(0o755)
    assert run.stdout.splitlines() == ["ds/closed", "ds/closed", "ds/closed/f"], run.stderr


def test_directories_of_fsspec_that_cannot_be_listed_are_errors(tmp_path):
    put_locally(tmp_path)("ds/broken/f", b"")
    put_locally(tmp_path)("ds/good/f", b"")
    with pytest.raises(PermissionError, match="ds/broken"):
        discover("ds", PlainFileSystem(tmp_path))
    assert len(discover("ds/g*", PlainFileSystem(tmp_path))) == 1


def test_errors_of_a_filesystem_are_errors_of_the_system(tmp_path):
    class Failing(PlainFileSystem):
        def ls(self, path, detail=True, **kwargs):
            raise RuntimeError("connection reset")

    put_locally(tmp_path)("ds/f", b"")
    with pytest.raises(OSError, match="ds: connection reset"):
        discover("ds", Failing(tmp_path))


def test_only_directories_that_can_match_are_listed(tmp_path):
    for name in ["ds/a=1/x/f", "ds/a=2/x/f", "ds/b=1/x/f"]:
        put_locally(tmp_path)(name, b"")
    filesystem = PlainFileSystem(tmp_path)
    assert len(discover("ds/a=*/x/*", filesystem)) == 2
    assert sorted(filesystem.listed) == ["ds", "ds/a=1", "ds/a=1/x", "ds/a=2", "ds/a=2/x"]


def test_files_that_appear_later_are_found(tmp_path):
    class Caching(PlainFileSystem):
        def ls(self, path, detail=True, **kwargs):
            if path not in self.dircache:
                self.dircache[path] = super().ls(path)
            return self.dircache[path]

        def invalidate_cache(self, path=None):
            self.dircache.pop(path, None)

    filesystem = Caching(tmp_path)
    filesystem.dircache = {}
    for count in (1, 2, 3):
        put_locally(tmp_path)(f"ds/a/{count}", b"")
        assert len(discover("ds", filesystem)) == count


def test_a_server_that_does_not_answer_is_no_missing_file():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/ds/"
        for source in [url, url + "*", url + "f", [url + "f"]]:
            with pytest.raises(OSError, match=r"127\.0\.0\.1") as error:
                discover(source)
            assert not isinstance(error.value, FileNotFoundError)


def test_markers_of_directories_are_not_files():
    class Store(AbstractFileSystem):
        """Lists keys as an object store does, with the markers that its console makes."""

        protocol = "store"
        cachable = False

        def info(self, path, **kwargs):
            return {"name": path, "size": 0, "type": "directory"}

        def find(self, path, detail=False, **kwargs):
            keys = ["b/ds/", "b/ds/a=1/", "b/ds/a=1/f", "b/ds/empty"]
            kinds = ["file", "file", "file", "directory"]
            return {
                key: {"name": key, "size": 0, "type": kind}
                for key, kind in zip(keys, kinds, strict=True)
            }

    assert [file.path for file in discover("b/ds", Store())] == ["b/ds/a=1/f"]


def test_filesystems_of_pyarrow_are_listed_once():
    class Counting(pa.fs.FSSpecHandler):
        calls = 0

        def get_type_name(self):
            return "counting"

        def get_file_info_selector(self, selector):
            Counting.calls += 1
            assert selector.recursive
            return [
                pa.fs.FileInfo("ds/a=1", pa.fs.FileType.Directory),
                pa.fs.FileInfo("ds/a=1/f", pa.fs.FileType.File, size=3),
                pa.fs.FileInfo("ds/a=2/f", pa.fs.FileType.File, size=4),
            ]

        def get_file_info(self, paths):
            return [pa.fs.FileInfo(path, pa.fs.FileType.Directory) for path in paths]

    found = discover("ds", pa.fs.PyFileSystem(Counting(None)))
    assert [(file.path, file.size) for file in found] == [("ds/a=1/f", 3), ("ds/a=2/f", 4)]
    assert Counting.calls == 2  # the directory, and its versions if it is a table


def test_remote_files_of_a_list_are_asked_for_at_once(tmp_path):
    together = threading.Barrier(4, timeout=60)

    class Slow(PlainFileSystem):
        def info(self, path, **kwargs):
            together.wait()
            return super().info(path)

    names = [f"ds/{i}" for i in range(4)]
    for name in names:
        put_locally(tmp_path)(name, b"")
    assert [file.name for file in discover(names, Slow(tmp_path))] == names


def test_is_many_local(local, tmp_path, monkeypatch):
    local.fill(["f", "a[1]", "d[1]/f"])
    root = f"{tmp_path}/ds"
    calls = []
    original = os.stat
    monkeypatch.setattr(os, "stat", lambda *a, **k: calls.append(a) or original(*a, **k))
    for source, expected in [
        (f"{root}/f", False),
        (Path(root, "f"), False),
        (root, True),
        (f"{root}/*", True),
        (f"{root}/nope", False),
        (f"{root}/a[1]", False),
        (f"{root}/a[2]", True),
        (f"{root}/d[1]", True),
        ([], True),
        ((root,), True),
        (io.BytesIO(), False),
        (b"MOSA", False),
        (pa.py_buffer(b""), False),
        ("", False),
        ("a\0b", False),
    ]:
        calls.clear()
        assert is_many(source, None) is expected, source
        assert len(calls) <= 1


def test_is_many_elsewhere_asks_no_server(local, tmp_path):
    class Silent(AbstractFileSystem):
        protocol = "silent"
        cachable = False

        def ls(self, path, detail=True, **kwargs):
            raise AssertionError("asked")

        info = find = ls

    for source, expected in [
        ("ds/f", False),
        ("ds", False),
        ("ds/", True),
        ("ds/*.mosaic", True),
        ("ds/a?", True),
        (["ds/f"], True),
    ]:
        assert is_many(source, Silent()) is expected, source
    local.fill(["a[1]"])
    assert not is_many(f"file://{tmp_path}/ds/a[1]", None)
    assert is_many(f"file://{tmp_path}/ds/a[2]", None)
    assert not is_many(f"{tmp_path}/ds/a[1]", pa.fs.LocalFileSystem())


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("http://[::1]:8080/x.mosaic", False),
        ("http://host/x.mosaic?token=a*b", False),
        ("http://host/x.mosaic?download", False),
        ("http://host/ds/", True),
        ("http://host/ds/*.mosaic", True),
        ("memory://ds/f?.mosaic", True),
        ("memory://ds/day=?/f", True),
        ("s3://bucket/x.mosaic?region=us-east-1", False),
        ("s3://bucket/*.mosaic?region=us-east-1", True),
    ],
)
def test_queries_are_no_wildcards(source, expected):
    assert is_many(source, None) is expected


def test_many_files_are_found_fast(tmp_path):
    for day in range(20):
        folder = tmp_path / f"day={day}"
        folder.mkdir()
        for i in range(250):
            (folder / f"{i}.mosaic").touch()
    start = time.process_time()
    found = discover(tmp_path)
    assert time.process_time() - start < 1
    assert len(found) == 5000
    assert len({id(file.keys) for file in found}) == 20


def test_a_file_goes_to_other_processes_by_its_absolute_path(tmp_path, monkeypatch):
    (tmp_path / "a.mosaic").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    (found,) = discover("a.mosaic")
    sent = pickle.loads(pickle.dumps(found))
    assert (sent.name, sent.path) == ("a.mosaic", str(tmp_path / "a.mosaic"))

"""Files that are created once: one writer wins, whatever others do and whatever fails."""

import errno
import math
import os
import re
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import fsspec
import pyarrow as pa
import pytest
import s3fs
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from pyarrow import fs
from servers import FOREVER, HOST, FileStore, Proxy, Server, no_settings, s3_api

import fastmosaic as fm
from fastmosaic.storage import create as module, replace, retry
from fastmosaic.storage.create import check_creatable, create
from fastmosaic.storage.debris import is_debris_name
from fastmosaic.storage.location import locate
from fastmosaic.storage.s3 import as_s3fs

OLD, NEW = b"old", b"new" * 1000
BUCKET = "bucket"
SECRET = "wJalrXUtnFEMI"
SIGNED = {"Authorization": "AWS4-HMAC-SHA256 Credential=key/20240101/us-east-1/s3/aws4_request"}


@pytest.fixture(autouse=True)
def no_hurry(monkeypatch):
    """Short pauses, as many attempts on a busy machine as on an idle one, and a trial in each test."""
    monkeypatch.setattr(retry, "RETRY_PAUSES", (0.01, 0.04))
    monkeypatch.setattr(retry, "RETRY_WITHIN", math.inf)
    monkeypatch.setattr(module, "_tried", set())


def wins(name, filesystem, path, data, **options):
    """Whether this call has created the file."""
    try:
        create(name, filesystem, path, data, **options)
    except FileExistsError:
        return False
    return True


def race(count, action):
    """The numbers of the threads whose action returns True, when all of them start at once."""
    barrier = threading.Barrier(count)

    def run(number):
        barrier.wait()
        return action(number)

    with ThreadPoolExecutor(count) as pool:
        return [number for number, won in enumerate(pool.map(run, range(count))) if won]


# ---- local


def no_links(*names):
    raise OSError(errno.EPERM, "no hard links")


def no_flags(one, other, flags):
    raise OSError(errno.EINVAL, "no such flag")


@pytest.fixture(params=["link", "rename"])
def way(request, monkeypatch):
    if request.param == "rename":
        monkeypatch.setattr(os, "link", no_links)
    return request.param


def test_a_file_is_created_once(tmp_path, way):
    path = tmp_path / "1.json"
    create("table", None, str(path), NEW)
    assert path.read_bytes() == NEW
    with pytest.raises(FileExistsError, match=r"\[Errno 17\] File exists: 'table'"):
        create("table", None, str(path), OLD)
    assert path.read_bytes() == NEW
    assert os.listdir(tmp_path) == ["1.json"]
    assert path.stat().st_nlink == 1


def test_a_file_that_appears_meanwhile_stays(tmp_path, way, monkeypatch):
    """It did not exist when the writer looked."""
    path = tmp_path / "1.json"
    path.write_bytes(OLD)
    monkeypatch.setattr(os.path, "lexists", lambda _: False)
    assert not wins("table", None, str(path), NEW)
    assert path.read_bytes() == OLD
    assert os.listdir(tmp_path) == ["1.json"]


def test_equal_content_counts_as_created(tmp_path):
    """Over a network filesystem, a link that was made may be reported as existing."""
    path = tmp_path / "1.json"
    path.write_bytes(NEW)
    assert wins("table", None, str(path), NEW)
    assert os.listdir(tmp_path) == ["1.json"]


@pytest.mark.parametrize("kind", ["directory", "dangling link"])
def test_other_things_of_that_name_stay(tmp_path, kind):
    path = tmp_path / "1.json"
    path.mkdir() if kind == "directory" else path.symlink_to(tmp_path / "nowhere")
    assert not wins("table", None, str(path), NEW)
    assert os.listdir(tmp_path) == ["1.json"]


def test_a_relative_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check_creatable("table", None, "")
    create("table", None, "1.json", NEW)
    assert Path("1.json").read_bytes() == NEW


def test_a_directory_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        create("table", None, str(tmp_path / "nowhere" / "1.json"), NEW)


def test_the_content_is_on_disk_before_the_name_is(tmp_path, monkeypatch):
    steps = []
    for step in ("fsync", "link", "unlink"):
        function = getattr(os, step)

        def noted(*arguments, step=step, function=function):
            steps.append(step)
            return function(*arguments)

        monkeypatch.setattr(os, step, noted)
    create("table", None, str(tmp_path / "1.json"), NEW)
    assert steps == ["fsync", "link", "unlink", "fsync"]


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP])
def test_neither_links_nor_a_rename_that_keeps_files(tmp_path, monkeypatch, code):
    def missing(one, other, flags):
        raise OSError(code, "no such flag")

    monkeypatch.setattr(os, "link", no_links)
    monkeypatch.setattr(replace, "renameat2", missing)
    path = str(tmp_path / "1.json")
    for call in (
        lambda: create("table", None, path, NEW),
        lambda: check_creatable("table", None, str(tmp_path)),
    ):
        with pytest.raises(fm.UnsupportedError, match="single_writer=True") as caught:
            call()
        assert caught.value.file == "table"
        assert os.listdir(tmp_path) == []
    assert wins("table", None, path, NEW, single_writer=True)
    assert not wins("table", None, path, OLD, single_writer=True)
    assert Path(path).read_bytes() == NEW
    assert os.listdir(tmp_path) == ["1.json"]


def test_a_failing_disk_is_not_taken_for_a_missing_feature(tmp_path, monkeypatch):
    def failing(*names):
        raise OSError(errno.EIO, "disk")

    monkeypatch.setattr(os, "link", failing)
    with pytest.raises(OSError, match="disk"):
        create("table", None, str(tmp_path / "1.json"), NEW, single_writer=True)
    assert os.listdir(tmp_path) == []


def test_a_local_filesystem_is_tried_once(tmp_path, way, monkeypatch):
    deep = tmp_path / "table" / "_mosaic"
    check_creatable("table", None, str(deep))
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(os, "link", no_links)
    monkeypatch.setattr(replace, "renameat2", no_flags)
    check_creatable("table", None, str(deep))


def test_one_of_two_threads_wins(tmp_path, way):
    for turn in range(50):
        path = tmp_path / f"{turn}.json"
        contents = [bytes([number]) * 100_000 for number in range(2)]
        won = race(2, lambda n, path=path, c=contents: wins("table", None, str(path), c[n]))
        assert [path.read_bytes()] == [contents[number] for number in won]
    assert len(os.listdir(tmp_path)) == 50


RACER = """
    import errno, os, sys
    from fastmosaic.storage.create import create

    way, directory, number = sys.argv[1:]
    if way == "rename":
        def no_links(*names):
            raise OSError(errno.EPERM, "no hard links")
        os.link = no_links
    data = number.encode() * 100_000
    print("ready", flush=True)
    sys.stdin.readline()
    for turn in range(100):
        try:
            create("table", None, f"{directory}/{turn}.json", data)
        except FileExistsError:
            continue
        print(turn, flush=True)
"""


def start(script, *arguments):
    """Start a program with this package, and wait until it is ready."""
    source = str(Path(fm.__file__).parent.parent)
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(script), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": source},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    return process


def test_one_of_eight_processes_wins(tmp_path, way):
    processes = [start(RACER, way, tmp_path, number) for number in range(8)]
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    winners = {}
    for number, process in enumerate(processes):
        printed, _ = process.communicate()
        assert process.returncode == 0
        for turn in map(int, printed.split()):
            assert winners.setdefault(turn, number) == number
    assert sorted(winners) == list(range(100))
    assert len(set(winners.values())) > 1
    assert len(os.listdir(tmp_path)) == 100  # and no temporary file
    for turn, number in winners.items():
        assert (tmp_path / f"{turn}.json").read_bytes() == str(number).encode() * 100_000


KILLED = """
    import errno, os, signal, sys
    from fastmosaic.storage.create import create
    from fastmosaic.storage.debris import is_debris_name

    way, root = sys.argv[1:]
    print("ready", flush=True)
    if way == "rename":
        def no_links(*names):
            raise OSError(errno.EPERM, "no hard links")
        os.link = no_links
    data = b"0123456789" * 300_000

    def die_at(operation):
        count = 0

        def hook(event, arguments):
            nonlocal count
            if event == "open" or event.startswith(("os.", "fcntl.", "ctypes.")):
                count += 1
                if count == operation:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)

    seen = set()
    for operation in range(1, 200):
        base = f"{root}/{operation}"
        os.mkdir(base)
        child = os.fork()
        if child == 0:
            die_at(operation)
            create("table", None, f"{base}/1.json", data)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        names = set(os.listdir(base))
        seen.add(("1.json" in names, len(names)))
        assert all(is_debris_name(name) for name in names - {"1.json"}), names
        if "1.json" in names:
            with open(f"{base}/1.json", "rb") as file:
                assert file.read() == data
        create("table", None, f"{base}/1.json", data)
        create("table", None, f"{base}/2.json", data)
        assert set(os.listdir(base)) == {"1.json", "2.json"}, os.listdir(base)
        with open(f"{base}/1.json", "rb") as file:
            assert file.read() == data
        if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
            break
    assert status == 0, status
    # Nothing; a temporary file; with links, both names; the file.
    assert seen == {(False, 0), (False, 1), (True, 1)} | ({(True, 2)} if way == "link" else set())
"""


@pytest.mark.parametrize("kind", ["link", "rename"])
def test_a_killed_writer_leaves_nothing_or_the_whole_file(tmp_path, kind):
    """Whatever operation on files comes next when it is killed; the next writer cleans up."""
    process = start(KILLED, kind, tmp_path)
    process.communicate()
    assert process.returncode == 0


# ---- S3


class Store:
    """moto, which looks for an object and writes it in two steps, one request at a time.

    without_condition  the condition is ignored    unnamed  an answer does not name the condition
    """

    def __init__(self, port):
        self.moto = Proxy(port)
        self.lock = threading.Lock()
        self.without_condition = self.unnamed = False

    def __call__(self, method, path, headers, body):
        if self.without_condition:
            headers = {n: value for n, value in headers.items() if n.lower() != "if-none-match"}
        with self.lock:
            status, answer_headers, data = self.moto(method, path, headers, body)
        if self.unnamed:
            data = re.sub(b"<Condition>.*?</Condition>", b"", data)
            if method != "HEAD":
                answer_headers["Content-Length"] = str(len(data))
        return status, answer_headers, data


@pytest.fixture(scope="module")
def server():
    with no_settings() as patch, s3_api() as port:
        patch.setenv("NO_PROXY", HOST)
        store = Store(port)
        assert store("PUT", f"/{BUCKET}", SIGNED, b"")[0] == 200
        with Server(store).running() as running:
            yield running


@pytest.fixture
def s3(server):
    for key in objects(server):
        server.backend("DELETE", f"/{BUCKET}/{quote(key)}", SIGNED, b"")
    server.reset()
    yield server
    server.backend.without_condition = server.backend.unnamed = False
    assert not server.plan.incomplete


def objects(server):
    """The keys in the bucket, past the server, which counts."""
    _, _, body = server.backend("GET", f"/{BUCKET}?list-type=2", SIGNED, b"")
    return set(re.findall(r"<Key>(.*?)</Key>", body.decode()))


def stored(server, key):
    return server.backend("GET", f"/{BUCKET}/{key}", SIGNED, b"")[2]


def by_s3fs(server, once=False, **config):
    """A filesystem of s3fs; with `once`, it does not try again by itself."""
    made = s3fs.S3FileSystem(
        key="key",
        secret=SECRET,
        endpoint_url=f"http://{server.address}",
        client_kwargs={"region_name": "us-east-1"},
        config_kwargs={**config, **({"retries": {"max_attempts": 0}} if once else {})},
        skip_instance_cache=True,
    )
    if once:
        made.retries = 1
    return made


def by_pyarrow(server, **options):
    return fs.S3FileSystem(
        access_key="key",
        secret_key=SECRET,
        region="us-east-1",
        endpoint_override=server.address,
        scheme="http",
        **options,
    )


CLIENTS = {"s3fs": by_s3fs, "pyarrow": by_pyarrow}
PATH = f"{BUCKET}/table/_mosaic/1.json"
KEY = PATH.removeprefix(f"{BUCKET}/")
every_client = pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)


@every_client
def test_an_object_is_created_once(s3, client):
    filesystem = client(s3)
    check_creatable("table", filesystem, f"{BUCKET}/table/_mosaic")
    assert objects(s3) == set()
    create("table", filesystem, PATH, NEW)
    with pytest.raises(FileExistsError, match=r"File exists: 'table'"):
        create("table", filesystem, PATH, OLD)
    assert stored(s3, KEY) == NEW
    assert objects(s3) == {KEY}
    assert wins("table", filesystem, PATH, NEW)  # nobody else has this content
    for single_writer in (False, True):
        assert not wins("table", filesystem, PATH, OLD, single_writer=single_writer)
    assert stored(s3, KEY) == NEW


def test_a_uri_of_s3(s3):
    uri = (
        f"s3://key:{SECRET}@{PATH}"
        f"?scheme=http&endpoint_override={HOST}%3A{s3.server_port}&region=us-east-1"
    )
    for data in (NEW, OLD):
        name, filesystem, path = locate(uri, None)
        assert SECRET not in name
        assert wins(name, filesystem, path, data) is (data == NEW)
    assert stored(s3, KEY) == NEW
    s3.inject("error", FOREVER, method="PUT", status=403)
    with pytest.raises(PermissionError, match="bucket/table") as caught:
        create(name, filesystem, f"{BUCKET}/table/2.json", NEW)
    assert SECRET not in f"{caught.value!r} {caught.value.__cause__!r}"


@every_client
def test_the_store_is_tried_once(s3, client):
    filesystem = client(s3)
    create("table", filesystem, PATH, NEW)
    s3.reset()
    create("table", filesystem, f"{BUCKET}/table/_mosaic/2.json", NEW)
    assert [(one.method, one.path) for one in s3.requests] == [
        ("PUT", f"/{BUCKET}/table/_mosaic/2.json")
    ]


@every_client
def test_one_of_eight_threads_creates_an_object(s3, client):
    filesystem = client(s3)
    for turn in range(5):
        path = f"{BUCKET}/table/{turn}.json"
        contents = [bytes([number]) * 10_000 for number in range(8)]
        won = race(8, lambda n, p=path, c=contents: wins("table", filesystem, p, c[n]))
        assert [stored(s3, f"table/{turn}.json")] == [contents[number] for number in won]
    assert objects(s3) == {f"table/{turn}.json" for turn in range(5)}


@every_client
def test_a_stale_listing_does_not_matter(s3, client):
    """s3fs remembers listings, here one from before the object existed."""
    filesystem = client(s3)
    check_creatable("table", filesystem, BUCKET)
    used = filesystem if client is by_s3fs else as_s3fs(filesystem)
    create("table", filesystem, f"{BUCKET}/table/_mosaic/0.json", OLD)
    assert used.ls(f"{BUCKET}/table/_mosaic")
    s3.backend("PUT", f"/{BUCKET}/{KEY}", SIGNED, NEW)
    assert not wins("table", filesystem, PATH, OLD)
    assert wins("table", filesystem, PATH, NEW)


FAULTS = {
    "500": ("error", {"status": 500}),
    "503": ("error", {"status": 503}),
    "409": ("error", {"status": 409}),
    "dropped connection": ("drop", {}),
    "lost answer": ("lost", {}),
}


@every_client
@pytest.mark.parametrize("fault", FAULTS)
def test_a_put_that_fails_once_succeeds(s3, client, fault):
    filesystem = client(s3)
    check_creatable("table", filesystem, BUCKET)
    kind, options = FAULTS[fault]
    s3.inject(kind, method="PUT", **options)
    create("table", filesystem, PATH, NEW)
    assert s3.plan.faults[0].times == 0
    assert stored(s3, KEY) == NEW
    assert objects(s3) == {KEY}


@pytest.mark.parametrize("fault", FAULTS)
def test_retries_of_this_package_alone_are_enough(s3, fault):
    filesystem = by_s3fs(s3, once=True)
    check_creatable("table", filesystem, BUCKET)
    kind, options = FAULTS[fault]
    s3.inject(kind, 2, method="PUT", **options)
    create("table", filesystem, PATH, NEW)
    assert stored(s3, KEY) == NEW
    assert kind == "lost" or s3.plan.faults[0].times == 0


def test_a_lost_answer_of_the_last_attempt_is_found(s3, monkeypatch):
    filesystem = by_s3fs(s3, once=True)
    check_creatable("table", filesystem, BUCKET)
    monkeypatch.setattr(retry, "RETRY_PAUSES", ())
    s3.inject("lost", method="PUT")
    create("table", filesystem, PATH, NEW)
    assert s3.plan.faults[0].times == 0
    assert stored(s3, KEY) == NEW


@pytest.mark.parametrize("once", [True, False])
def test_an_answer_after_the_client_gave_up_is_found(s3, once):
    filesystem = by_s3fs(s3, once, read_timeout=1.5)
    check_creatable("table", filesystem, BUCKET)
    s3.inject("late", method="PUT")
    create("table", filesystem, PATH, NEW)
    assert s3.plan.faults[0].times == 0
    assert stored(s3, KEY) == NEW


@every_client
@pytest.mark.parametrize("fault", ["500", "dropped connection", "lost answer"])
def test_a_put_that_fails_does_not_hide_another_writer(s3, client, fault):
    filesystem = client(s3)
    check_creatable("table", filesystem, BUCKET)
    s3.backend("PUT", f"/{BUCKET}/{KEY}", SIGNED, OLD)
    kind, options = FAULTS[fault]
    s3.inject(kind, method="PUT", **options)
    assert not wins("table", filesystem, PATH, NEW)
    assert stored(s3, KEY) == OLD


def test_a_put_that_keeps_failing_is_an_os_error(s3):
    filesystem = by_s3fs(s3, once=True)
    check_creatable("table", filesystem, BUCKET)
    s3.reset()
    s3.inject("error", FOREVER, method="PUT", status=500)
    with pytest.raises(OSError, match=r"^table: ") as caught:
        create("table", filesystem, PATH, NEW, single_writer=True)
    assert not isinstance(caught.value, FileExistsError)
    assert [one.method for one in s3.requests].count("PUT") == 3
    assert objects(s3) == set()


@every_client
def test_a_missing_bucket_is_named(s3, client):
    with pytest.raises(FileNotFoundError, match="No such file or directory: 'table'"):
        create("table", client(s3), "nowhere/1.json", NEW)


@every_client
def test_a_server_that_does_not_name_the_condition(s3, client):
    s3.backend.unnamed = True
    filesystem = client(s3)
    assert wins("table", filesystem, PATH, NEW)
    assert not wins("table", filesystem, PATH, OLD)
    assert stored(s3, KEY) == NEW


@every_client
@pytest.mark.parametrize("kind", ["ignores", "refuses"])
def test_a_server_without_conditions_is_refused(s3, client, kind):
    filesystem = client(s3)
    if kind == "ignores":
        s3.backend.without_condition = True
    else:
        s3.inject("error", FOREVER, method="PUT", status=501)
    for call in (
        lambda: create("table", filesystem, PATH, NEW),
        lambda: check_creatable("table", filesystem, f"{BUCKET}/table"),
    ):
        with pytest.raises(fm.UnsupportedError, match=r"conditional writes; .*single_writer=True"):
            call()
    assert objects(s3) == set()


@every_client
def test_a_single_writer_needs_no_conditions(s3, client):
    s3.backend.without_condition = True
    filesystem = client(s3)
    assert wins("table", filesystem, PATH, NEW, single_writer=True)
    assert not wins("table", filesystem, PATH, OLD, single_writer=True)
    assert stored(s3, KEY) == NEW
    assert objects(s3) == {KEY}


def test_a_trial_that_cannot_be_removed_is_debris(s3):
    filesystem = by_s3fs(s3, once=True)
    s3.inject("error", FOREVER, method="POST", status=403)
    s3.inject("error", FOREVER, method="DELETE", status=403)
    create("table", filesystem, PATH, NEW)
    (left,) = objects(s3) - {KEY}
    assert left.startswith("table/_mosaic/")
    assert is_debris_name(left.rpartition("/")[2])


# ---- the settings of pyarrow


def test_s3fs_has_the_settings_of_pyarrow(s3):
    made = as_s3fs(by_pyarrow(s3, session_token="token", connect_timeout=3, request_timeout=7))
    assert (made.key, made.secret, made.token, made.anon) == ("key", SECRET, "token", False)
    assert made.endpoint_url == f"http://{s3.address}"
    assert made.client_kwargs == {"region_name": "us-east-1"}
    assert made.config_kwargs == {
        "s3": {"addressing_style": "path"},
        "connect_timeout": 3,
        "read_timeout": 7,
    }
    assert as_s3fs(by_pyarrow(s3)) is as_s3fs(by_pyarrow(s3))
    assert as_s3fs(by_pyarrow(s3)) is not made


def test_s3fs_without_an_endpoint(s3, tmp_path):
    certificates = tmp_path / "ca.pem"
    certificates.write_text("")
    metadata = {"ACL": "bucket-owner-full-control", "Content-Type": "a/b", "other": "ignored"}
    made = as_s3fs(
        fs.S3FileSystem(
            anonymous=True,
            region="eu-west-1",
            proxy_options="http://me:p%40ss@proxy:80",
            tls_ca_file_path=str(certificates),
            default_metadata=metadata,
        )
    )
    assert (made.key, made.secret, made.token, made.anon) == (None, None, None, True)
    assert made.endpoint_url is None
    assert made.use_ssl
    assert made.client_kwargs == {"region_name": "eu-west-1", "verify": str(certificates)}
    assert made.config_kwargs["s3"] == {"addressing_style": "virtual"}
    assert set(made.config_kwargs["proxies"]) == {"http", "https"}
    assert made.config_kwargs["proxies"]["https"].endswith("@proxy:80")
    assert made.s3_additional_kwargs == {"ACL": "bucket-owner-full-control", "ContentType": "a/b"}
    plain = as_s3fs(fs.S3FileSystem(anonymous=True, region="eu-west-1", scheme="http"))
    assert not plain.use_ssl


def test_pyarrow_and_s3fs_address_an_object_alike(s3):
    filesystem = by_pyarrow(s3, default_metadata={"Content-Type": "application/x-test"})
    check_creatable("table", filesystem, BUCKET)
    s3.reset()
    create("table", filesystem, f"{BUCKET}/a b/1+2 %41.json", NEW)
    assert filesystem.open_input_file(f"{BUCKET}/a b/1+2 %41.json").read() == NEW
    _, headers, _ = s3.backend("HEAD", s3.requests[0].path, SIGNED, b"")
    assert headers["Content-Type"] == "application/x-test"


def test_a_role_is_not_passed_on(s3):
    filesystem = fs.S3FileSystem(role_arn="arn:aws:iam::1:role/x", region="us-east-1")
    for call in (
        lambda: create("table", filesystem, PATH, NEW),
        lambda: check_creatable("table", filesystem, BUCKET),
    ):
        with pytest.raises(fm.UnsupportedError, match=r"pass a filesystem of s3fs.*single_writer"):
            call()


def test_without_s3fs(s3, monkeypatch):
    monkeypatch.setitem(sys.modules, "s3fs", None)
    filesystem = by_pyarrow(s3)
    with pytest.raises(fm.UnsupportedError, match=r"pip install 'fastmosaic\[s3\]'; .*=True"):
        create("table", filesystem, PATH, NEW)
    assert wins("table", filesystem, PATH, NEW, single_writer=True)
    assert not wins("table", filesystem, PATH, OLD, single_writer=True)
    assert stored(s3, KEY) == NEW


# ---- other filesystems


@pytest.fixture
def memory():
    filesystem = MemoryFileSystem()
    before = dict(filesystem.store)
    filesystem.store.clear()
    yield filesystem
    filesystem.store.clear()
    filesystem.store.update(before)


def test_the_memory_of_fsspec(memory, monkeypatch):
    check_creatable("table", memory, "/table")
    assert wins("table", memory, "/table/1.json", NEW)
    assert not wins("table", memory, "/table/1.json", OLD)

    def looked_for(filesystem, path, **options):
        found = path in filesystem.store
        time.sleep(0.001)  # so that other threads look, too
        return found

    monkeypatch.setattr(MemoryFileSystem, "exists", looked_for)
    for turn in range(10):
        path = f"/table/_/{turn}.json"
        won = race(4, lambda n, path=path: wins("table", memory, path, bytes([n])))
        assert [memory.cat_file(path)] == [bytes([number]) for number in won]
    assert len(memory.store) == 11


def test_a_filesystem_that_looks_first_is_refused(memory):
    """It has the mode, but others may write between its two steps."""
    filesystem = DirFileSystem("/base", memory)
    with pytest.raises(fm.UnsupportedError, match=r"DirFileSystem cannot.*single_writer=True"):
        create("table", filesystem, "1.json", NEW)
    with pytest.raises(fm.UnsupportedError, match="DirFileSystem cannot"):
        check_creatable("table", filesystem, "")
    assert wins("table", filesystem, "1.json", NEW, single_writer=True)
    assert not wins("table", filesystem, "1.json", OLD, single_writer=True)
    assert memory.cat_file("/base/1.json") == NEW


class Ignoring(s3fs.S3FileSystem):
    """An older version, without the mode."""

    def pipe_file(self, path, value, **kwargs):
        raise AssertionError("not called")


def test_an_older_filesystem_without_the_mode_is_refused():
    with pytest.raises(fm.UnsupportedError, match="Ignoring cannot"):
        create("table", Ignoring(anon=True, skip_instance_cache=True), PATH, NEW)


def test_other_filesystems_of_pyarrow_need_a_single_writer():
    filesystem = fs._MockFileSystem()
    filesystem.create_dir("table")
    with pytest.raises(fm.UnsupportedError, match=r"MockFileSystem cannot.*single_writer=True"):
        create("table", filesystem, "table/1.json", NEW)
    with pytest.raises(fm.UnsupportedError, match="MockFileSystem cannot"):
        check_creatable("table", filesystem, "table")
    assert wins("table", filesystem, "table/1.json", NEW, single_writer=True)
    assert not wins("table", filesystem, "table/1.json", OLD, single_writer=True)
    assert filesystem.open_input_file("table/1.json").read() == NEW
    infos = filesystem.get_file_info(fs.FileSelector("table"))
    assert [info.path for info in infos] == ["table/1.json"]


def test_google_cloud_storage_by_pyarrow_is_refused():
    filesystem = fs.GcsFileSystem(anonymous=True, endpoint_override=f"{HOST}:1", scheme="http")
    with pytest.raises(fm.UnsupportedError, match=r"GcsFileSystem cannot.*gcsfs"):
        create("table", filesystem, PATH, NEW)


def test_a_web_server_is_read_only():
    with Server(FileStore()).running() as web:
        filesystem = fsspec.filesystem("http", skip_instance_cache=True)
        path = f"http://{web.address}/1.json"
        for options in ({}, {"single_writer": True}):
            with pytest.raises(fm.UnsupportedError, match="web server cannot be written") as caught:
                create(path, filesystem, path, NEW, **options)
            assert "single_writer" not in str(caught.value)
        with pytest.raises(fm.UnsupportedError):
            check_creatable(path, filesystem, f"http://{web.address}/")
        assert web.requests == []


def test_a_compressed_file_is_compared_as_it_is_stored():
    """pyarrow would decompress it by its name."""
    filesystem = fs._MockFileSystem()
    data = pa.compress(b"text" * 100, "gzip", asbytes=True)
    assert wins("table", filesystem, "1.json.gz", data, single_writer=True)
    assert wins("table", filesystem, "1.json.gz", data, single_writer=True)

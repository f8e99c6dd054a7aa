"""Tables in an object store: many processes, and a store that fails, answers late or not at all."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest
import races
import s3fs
from servers import HOST, LATE, FaultyStore, Server, no_settings, s3_api

import fastmosaic as fm
from fastmosaic.dataset.version import version_name
from fastmosaic.storage import create as create_module, retry

BUCKET = "bucket"
SECRET = "a-secret-of-forty-characters-for-tests-1"
PATH = f"{BUCKET}/t"


@pytest.fixture(scope="module")
def server():
    with no_settings() as patch, s3_api() as port:
        patch.setenv("NO_PROXY", HOST)
        with Server(FaultyStore(port, BUCKET)).running() as running:
            yield running


@pytest.fixture
def s3(server):
    server.backend.heal()
    server.backend.put_all({})
    yield server
    server.backend.heal()
    server.backend.without_condition = False
    create_module._tried.clear()


def options_of(server, **config):
    """The options of a filesystem of s3fs."""
    return {
        "key": "key",
        "secret": SECRET,
        "endpoint_url": f"http://{server.address}",
        "client_kwargs": {"region_name": "us-east-1"},
        "config_kwargs": config,
        "skip_instance_cache": True,
    }


def impatient(server, **config):
    """A filesystem that does not try again by itself."""
    made = s3fs.S3FileSystem(**options_of(server, retries={"max_attempts": 0}, **config))
    made.retries = 1
    return made


def uri_of(server):
    return (
        f"s3://key:{SECRET}@{PATH}"
        f"?scheme=http&endpoint_override={HOST}%3A{server.server_port}&region=us-east-1"
    )


def rows(*ids):
    return pa.table({"id": list(ids), "a": [10 * one for one in ids]})


def read(filesystem):
    return fm.read_table(PATH, filesystem=filesystem).to_pydict()


# ---- many processes


@pytest.mark.parametrize("client", ["s3fs", "uri"])
@pytest.mark.parametrize(
    ("seed", "writers", "changes"),
    [(1, 2, 6), pytest.param(2, 4, 60, marks=pytest.mark.exhaustive)],
)
def test_random_changes(s3, tmp_path, client, seed, writers, changes):
    filesystem = None
    config = {"path": uri_of(s3), "seed": seed, "changes": changes, "vacuum_age": 20}
    if client == "s3fs":
        config |= {"path": PATH, "s3fs": options_of(s3)}
        filesystem = s3fs.S3FileSystem(**options_of(s3))
    fm.MosaicTable.create(
        config["path"], races.first_rows(), partitioning="day", filesystem=filesystem
    )
    notes, reads = races.run(config, writers, 1, tmp_path)
    counts = races.check(config["path"], notes, reads, filesystem)
    print(client, dict(counts))
    assert len(notes) == writers * changes
    # In a short run, writers may happen to meet only in conflicts.
    assert counts["rebased"] > 0 or changes < 20
    assert not any(SECRET in str(note) for note in notes)
    table = fm.MosaicTable(config["path"], filesystem=filesystem)
    before = table.read()
    table.vacuum(0)
    assert table.read().equals(before)
    check_exact(s3, s3fs.S3FileSystem(**options_of(s3)))


# ---- faults


CHANGES = {
    "append": lambda table: table.append(rows(7, 8)),
    "add": lambda table: table.add_columns({"c": pc.field("a") * 2}),
    "drop": lambda table: table.drop_columns("b"),
    "delete": lambda table: table.delete([("id", "in", [1, 4])]),
    "compact": lambda table: table.compact(),
    "restore": lambda table: table.restore(2),
    "vacuum": lambda table: table.vacuum(0),
}


@pytest.fixture
def template(s3):
    """The objects of a table at version 4, and what it contains."""
    filesystem = impatient(s3)
    table = fm.MosaicTable.create(PATH, rows(1, 2), filesystem=filesystem)
    table.append(rows(3, 4))
    table.add_columns({"b": pc.field("a") + 1})
    table.append(rows(5, 6))
    return s3.backend.objects()


def steps(server, change):
    """Return the state after a change, and how many requests it takes."""
    filesystem = impatient(server)
    table = fm.MosaicTable(PATH, filesystem=filesystem)
    server.backend.fail("", 0, 0)
    CHANGES[change](table)
    count = server.backend.count
    return read(filesystem), count


def check_exact(server, filesystem):
    """The bucket contains what versions name, and nothing else."""
    store = fm.MosaicTable(PATH, filesystem=filesystem)._store
    kept = {number: store.read(number).paths for number in store.versions()}
    expected = set().union(*kept.values()) | set(map(version_name, kept))
    assert set(server.backend.names()) == {f"t/{one}" for one in expected}


# The last requests are those of the commit: look for the files, list versions, create one.
@pytest.mark.parametrize("fault", ["500", "lost"])
@pytest.mark.parametrize(
    ("change", "last"),
    [
        ("append", 3),
        ("add", 3),
        *(pytest.param(change, 1000, marks=pytest.mark.exhaustive) for change in CHANGES),
    ],
)
def test_a_store_that_fails(s3, template, monkeypatch, change, fault, last):
    """From each of the last requests on, until the writer has given up."""
    monkeypatch.setattr(retry, "RETRY_PAUSES", ())
    before = read(impatient(s3))
    after, count = steps(s3, change)
    outcomes = set()
    for first in range(max(1, count - last + 1), count + 1):
        s3.backend.put_all(template)
        filesystem = impatient(s3)
        table = fm.MosaicTable(PATH, filesystem=filesystem)
        s3.backend.fail(fault, first, 1000)
        error = failure_of(lambda table=table: CHANGES[change](table))
        s3.backend.heal()
        assert error is None or PATH in str(error), error
        found = read(filesystem)
        newest = fm.MosaicTable(PATH, filesystem=filesystem)
        is_committed = newest.version > 4
        outcomes.add((error is None, is_committed))
        assert is_committed or error is not None
        if is_committed and error is not None and change != "vacuum":
            assert "history()" in error.__notes__[0]
        assert found == (after if is_committed else before), first
        if not is_committed:
            CHANGES[change](newest)
        newest.append(rows(9))
        newest.vacuum(0)
        assert read(filesystem)["id"] == [*after["id"], 9], first
        check_exact(s3, filesystem)
    # If the answer about the version is lost, the writer cannot know that there is one.
    assert ((False, True) in outcomes) or (fault != "lost" and change != "vacuum")


def failure_of(call):
    try:
        call()
    except OSError as error:
        return error
    return None


@pytest.mark.parametrize(
    ("fault", "step"),
    [
        ("503", 10),
        ("lost", 10),
        ("late", 1000),
        *(pytest.param(fault, 1, marks=pytest.mark.exhaustive) for fault in ("503", "lost")),
        pytest.param("late", 4, marks=pytest.mark.exhaustive),
    ],
)
def test_a_request_that_fails_once(s3, template, monkeypatch, fault, step):
    """It is sent again, and nothing is done twice."""
    monkeypatch.setattr(retry, "RETRY_PAUSES", (0.001, 0.001))
    after, count = steps(s3, "add")
    for first in range(count, 0, -step):  # the last one creates the version
        s3.backend.put_all(template)
        table = fm.MosaicTable(PATH, filesystem=impatient(s3, read_timeout=LATE / 2))
        s3.backend.fail(fault, first, 1)
        CHANGES["add"](table)
        s3.backend.heal()
        assert table.version == 5
        assert read(impatient(s3)) == after


def test_vacuum_removes_temporary_objects(s3, template):
    """Also an object of a trial whose writer was killed; pyarrow tells times otherwise than s3fs."""
    for table in (fm.MosaicTable(PATH, filesystem=impatient(s3)), fm.MosaicTable(uri_of(s3))):
        left = {"t/_mosaic/.try.0123456789abcdef.fastmosaic-tmp": b"1", "t/part-0.mosaic": b"2"}
        s3.backend.put_all(template | left)
        assert set(table.vacuum(3600, dry_run=True).files) == set()
        assert {f"t/{path}" for path in table.vacuum(0).files} == set(left)
        check_exact(s3, impatient(s3))


# ---- without conditions


def test_a_store_without_conditional_puts(s3):
    s3.backend.without_condition = True
    filesystem = impatient(s3)
    with pytest.raises(fm.UnsupportedError, match="single_writer=True"):
        fm.MosaicTable.create(PATH, rows(1), filesystem=filesystem)
    assert s3.backend.objects() == {}
    fm.MosaicTable.create(PATH, rows(1), filesystem=filesystem, single_writer=True)
    for change in CHANGES.values():
        before = s3.backend.objects()
        with pytest.raises(fm.UnsupportedError, match="single_writer=True"):
            change(fm.MosaicTable(PATH, filesystem=filesystem))
        assert s3.backend.objects() == before
    table = fm.MosaicTable(PATH, filesystem=filesystem, single_writer=True)
    table.append(rows(2))
    assert read(filesystem)["id"] == [1, 2]

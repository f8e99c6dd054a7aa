import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from servers import no_settings, s3_uris
from serving import serving

import fastmosaic as fm
from fastmosaic.file.stored import stored_columns
from fastmosaic.storage.source import open_source
from fastmosaic.viewer.errors import StoppedError
from fastmosaic.viewer.tables import ViewedPaths

SECRET = "s3cr3t-of-the-viewer"

NUM_COLUMNS = 3000
ROWS = 300


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("viewer")


@pytest.fixture(scope="module")
def wide(folder):
    columns = {f"temp_{i:04d}": pa.array(range(i, i + ROWS)) for i in range(NUM_COLUMNS)}
    columns["text"] = pa.array([None, "", "x" * 1000] * (ROWS // 3))
    fm.write_table(pa.table(columns), folder / "wide.mosaic")
    return folder / "wide.mosaic"


@pytest.fixture(scope="module")
def damaged(folder, wide):
    content = bytearray(wide.read_bytes())
    content[len(content) // 3 : len(content) // 3 + 5000] = bytes(5000)
    (folder / "damaged.mosaic").write_bytes(content)
    return folder / "damaged.mosaic"


@pytest.fixture(scope="module")
def client(wide, damaged, folder):
    (folder / "no.mosaic").write_bytes(b"not a Mosaic file")
    with serving(wide, damaged, folder / "no.mosaic") as client:
        yield client


def test_meta_describes_a_table_and_names_all_sources(client, wide):
    meta = client.get("meta")
    assert meta["sources"][0]["name"] == str(wide)
    assert meta["table"]["rows"] == ROWS
    assert meta["table"]["columns"] == NUM_COLUMNS + 1
    assert meta["table"]["bytes"] == wide.stat().st_size


def test_cells_are_text_with_nulls_and_cut_values(client):
    found = client.get("cells", rows="0-2", columns="2999-3000")
    assert [column["name"] for column in found["columns"]] == ["temp_2999", "text"]
    assert found["columns"][0]["kind"] == "number"
    assert found["cells"] == [["2999", "3000", "3001"], [None, "", ["x" * 200]]]
    assert found["rows"] == [0, 1, 2]
    assert client.get("cell", row=2, column=NUM_COLUMNS)["text"] == "x" * 1000


def test_copied_cells_are_complete(client, tmp_path):
    found = client.get("tsv", rows="0-2", columns="2999-3000")["text"]
    assert found == "2999\t\n3000\t\n3001\t" + "x" * 1000
    table = pa.table({"a": ["a\tb", "\nc", 'd"', None], "b": [1.5, None, float("nan"), 2.0]})
    fm.write_table(table, tmp_path / "a.mosaic")
    with serving(tmp_path / "a.mosaic") as other:
        text = other.get("tsv", rows="0-9", columns="0-9")["text"]
        assert other.get("tsv", rows="2-9", columns="0-1", where="a = 'd\"'")["text"] == ""
    rows = list(csv.reader(io.StringIO(text), "excel-tab"))
    assert rows == [["a\tb", "1.5"], ["\nc", ""], ['d"', "NaN"], ["", "2.0"]]


def test_too_much_to_copy(client, monkeypatch):
    error = client.get("tsv", status=400, rows="0-299", columns="0-999")["error"]
    assert "200,000 cells" in error["message"]
    monkeypatch.setattr("fastmosaic.viewer.cells.MAX_COPIED_TEXT", 50_000)
    error = client.get("tsv", status=400, rows="0-299", columns=f"{NUM_COLUMNS}-{NUM_COLUMNS}")
    assert "million characters" in error["error"]["message"]


VALUES = {
    "big": (pa.array([2**63 - 1, -(2**53) - 1]), ["9223372036854775807", "-9007199254740993"]),
    "unsigned": (pa.array([2**64 - 1], pa.uint64()), ["18446744073709551615"]),
    "double": (
        pa.array([float("nan"), float("inf"), 0.1, 1e-300]),
        ["NaN", "Infinity", "0.1", "1e-300"],
    ),
    "nanoseconds": (
        pa.array([1700000000123456789], pa.timestamp("ns")),
        ["2023-11-14T22:13:20.123456789"],
    ),
    "binary": (pa.array([b"\x00\xff", b""]), ["00ff", ""]),
    "decimal": (
        pa.array([Decimal("123456789012345678901234567.80")], pa.decimal128(38, 2)),
        ["123456789012345678901234567.80"],
    ),
    "nested": (
        pa.array([{"x": 2**60, "y": ["a", None]}, None]),
        ['{x: 1152921504606846976, y: ["a", null]}', None],
    ),
    "bool": (pa.array([True, None]), ["true", None]),
    "duration": (pa.array([90061], pa.duration("s")), ["1 day 01:01:01"]),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_are_exact(tmp_path, name):
    values, expected = VALUES[name]
    fm.write_table(pa.table({name: values}), tmp_path / "a.mosaic")
    with serving(tmp_path / "a.mosaic") as other:
        assert other.get("cells", rows="0-9", columns="0-0")["cells"] == [expected]
        *_, profile = other.lines("column/0")
        assert profile["rows"] == len(values)


def test_cells_behind_the_end_do_not_exist(client):
    found = client.get("cells", rows="298-400", columns="0-0")
    assert found["rows"] == [298, 299]
    assert found["cells"] == [["298", "299"]]
    assert client.get("cells", rows="0-1", columns="9000-9001")["cells"] == []


def test_a_page_of_columns_and_its_place_in_a_selection(client):
    found = client.get("columns", q="00", **{"from": 10, "to": 12}, select="none;+g:temp_001*")
    assert found["total"] == sum("00" in f"{i:04d}" for i in range(NUM_COLUMNS))
    assert found["shown"] == 10
    assert [item["name"] for item in found["items"]] == ["temp_0010", "temp_0011"]
    assert [item["at"] for item in found["items"]] == [0, 1]


def test_cells_of_a_selection(client):
    found = client.get("cells", rows="0-0", columns="0-9", select="none;+i:5-6,9;-i:6")
    assert [column["id"] for column in found["columns"]] == [5, 9]


def test_a_filter_finds_rows_and_its_rows_are_shown(client):
    where = "temp_0001 >= 101 and temp_0001 < 104"
    *_, last = client.lines("filter", where=where)
    assert last == {"progress": 1.0, "found": 3, "shown": 3, "done": True}
    found = client.get("cells", rows="0-9", columns="1-1", where=where)
    assert found["rows"] == [100, 101, 102]
    assert found["cells"] == [["101", "102", "103"]]


def test_a_filter_that_matches_very_many_rows_keeps_the_first(client, monkeypatch):
    monkeypatch.setattr("fastmosaic.viewer.tables.MAX_MATCHES", 5)
    *_, last = client.lines("filter", where="temp_0001 >= 102")
    assert (last["found"], last["shown"]) == (ROWS - 101, 5)
    found = client.get("cells", rows="0-9", columns="1-1", where="temp_0001 >= 102")
    assert found["rows"] == [101, 102, 103, 104, 105]


def test_an_error_in_a_filter_is_answered(client):
    (line,) = client.lines("filter", where="temp_0001 >")
    assert line["error"]["kind"] == "WhereError"
    (line,) = client.lines("filter", where="tmp_0001 > 1")
    assert "tmp_0001" in line["error"]["message"]


def test_the_profile_of_a_column_for_the_rows_of_a_filter(client):
    *_, profile = client.lines("column/7", where="temp_0000 < 10")
    assert (profile["rows"], profile["nulls"], profile["distinct"]) == (10, 0, 10)
    assert (profile["min"], profile["max"]) == ("7", "16")
    assert sum(profile["histogram"]["counts"]) == 10
    assert profile["bytes"] > 0
    assert profile["encodings"]


def test_the_most_frequent_values_of_text(client):
    *_, profile = client.lines(f"column/{NUM_COLUMNS}")
    assert profile["nulls"] == ROWS // 3
    assert sorted(count for _, count in profile["values"]) == [ROWS // 3, ROWS // 3]


@pytest.mark.parametrize(
    ("path", "parameters"),
    [
        ("cells", {"rows": "0-100000", "columns": "0-100"}),
        ("cells", {"rows": "x", "columns": "0-1"}),
        ("columns", {"q": "(", "mode": "regex"}),
        ("columns", {"q": "a" * 2000}),
        ("columns", {"sort": "color"}),
        ("columns", {"select": "+x:y"}),
        ("columns", {"select": "+s:a;" * 301}),
        ("cell", {"row": 0, "column": 99999}),
        ("cell", {"row": 99999, "column": 0}),
        ("meta", {"source": "9"}),
        ("versions", {"source": "../../etc"}),
    ],
)
def test_invalid_requests_are_answered_with_the_reason(client, path, parameters):
    if path == "meta":
        assert client.get(path, **parameters)["error"]["kind"] == "RequestError"
    else:
        assert client.get(path, status=400, **parameters)["error"]["kind"] == "RequestError"


def test_a_damaged_file_is_an_answer_and_the_server_lives_on(client, folder):
    error = client.get("meta", source=2)["error"]
    assert error["kind"] == "CorruptFileError"
    assert error["file"] == str(folder / "no.mosaic")
    assert client.get("meta", source=1)["table"]["rows"] == ROWS
    failed = [
        client.request(f"api/cells?source=1&rows=0-0&columns={start}-{start + 499}")
        for start in range(0, NUM_COLUMNS, 500)
    ]
    assert {response.status for response, _ in failed} == {200, 422}
    assert client.get("cells", rows="0-0", columns="0-0")["cells"] == [["0"]]


# ---- security


def test_the_token_is_required(client):
    for base in ("/", "/x" + client.base[1:], client.base[:-2] + "/", ""):
        response, _ = client.request("api/meta", base=base)
        assert response.status == 404, base


def test_the_host_must_be_the_servers(client):
    for host in ("evil.example", f"evil.example:{client.port}", "127.0.0.1", "127.0.0.1:1"):
        response, _ = client.request("api/meta", headers={"Host": host})
        assert response.status == 421, host
    for host in ("localhost", "127.0.0.1", "[::1]"):
        response, _ = client.request("api/meta", headers={"Host": f"{host}:{client.port}"})
        assert response.status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_only_get_is_supported(client, method):
    response, _ = client.request("api/meta", method=method)
    assert response.status == 405
    assert response.getheader("access-control-allow-origin") is None


@pytest.mark.parametrize("path", ["", "api/meta", "nothing", "api/cells"])
def test_every_answer_has_the_headers(client, path):
    response, _ = client.request(path, headers={"Origin": "http://evil.example"})
    policy = response.getheader("content-security-policy")
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert response.getheader("x-content-type-options") == "nosniff"
    assert response.getheader("referrer-policy") == "no-referrer"
    assert response.getheader("cache-control") == "no-store"
    assert response.getheader("access-control-allow-origin") is None


@pytest.mark.parametrize("path", ["../tables.py", "%2e%2e/tables.py", "static/../../tables.py"])
def test_files_outside_of_the_page_are_unreachable(client, path):
    response, body = client.request(path)
    assert response.status == 404
    assert b"class" not in body


def test_a_link_out_of_a_directory_is_not_followed(tmp_path, wide):
    (tmp_path / "link.mosaic").symlink_to(wide)
    with serving(tmp_path) as client:
        assert "is a link out of the directory" in client.get("meta")["error"]["message"]


def test_all_modules_are_requested_at_once(client):
    """A module that the page does not name would be known only after another one has arrived."""
    _, page = client.request("")
    preloaded = re.findall(r'rel="modulepreload" href="(.*?)"', page.decode())
    sources = {name: client.request(name)[1].decode() for name in ["main.js", *preloaded]}
    imported = {
        found.removeprefix("./")
        for name, text in sources.items()
        if "/" not in name
        for found in re.findall(r'^import .*?"(\./.*?)";$', text, re.MULTILINE)
    }
    assert imported == set(preloaded)


# ---- formats and versions


def test_other_formats(tmp_path):
    import pyarrow.parquet as pq
    from pyarrow import csv, feather, orc

    table = pa.table({"id": range(1000), "kind": ["a", "b"] * 500})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=100)
    orc.write_table(table, tmp_path / "a.orc")
    feather.write_feather(table, tmp_path / "a.arrow", compression="uncompressed")
    csv.write_csv(table, tmp_path / "a.csv")
    names = ["a.parquet", "a.orc", "a.arrow", "a.csv"]
    with serving(*(tmp_path / name for name in names)) as client:
        for number, name in enumerate(names):
            assert client.get("meta", source=number)["table"]["rows"] == 1000, name
            found = client.get("cells", source=number, rows="640-641", columns="0-1")
            assert found["cells"] == [["640", "641"], ["a", "b"]], name
            where = "kind = 'b' and id > 990"
            found = client.get("cells", source=number, rows="0-9", columns="0-0", where=where)
            assert found["rows"] == [991, 993, 995, 997, 999], name
            *_, profile = client.lines("column/0", source=number, where=where)
            assert (profile["rows"], profile["min"]) == (5, "991")
        areas = client.get("sizes", source=0)["areas"]
        assert {area["name"] for area in areas} == {"id", "kind"}
        assert client.get("sizes", source=3, status=422)["error"]["kind"] == "UnsupportedError"


def test_versions_of_a_table(tmp_path):
    table = fm.MosaicTable.create(tmp_path / "t", pa.table({"id": [1, 2]}))
    table.append(pa.table({"id": [3]}))
    with serving(tmp_path / "t") as client:
        assert [one["version"] for one in client.get("versions")] == [2, 1]
        assert client.get("meta")["table"]["rows"] == 3
        assert client.get("meta", version=1)["table"]["rows"] == 2
        cells = client.get("cells", version=1, rows="0-9", columns="0-9")["cells"]
        assert cells == [["1", "2"]]
        assert client.get("cells", version=7, rows="0-9", columns="0-9", status=422)["error"]


def test_remote_files_and_tables(tmp_path):
    table = pa.table({"id": range(300), "kind": ["a", "b", "c"] * 100})
    with no_settings(), s3_uris(SECRET) as uri_of:
        fm.write_table(table, uri_of("a.mosaic"))
        made = fm.MosaicTable.create(uri_of("t"), table)
        made.append(table)
        with serving(uri_of("a.mosaic"), uri_of("t")) as client:
            meta = client.get("meta")
            assert SECRET not in json.dumps(meta)
            assert meta["table"]["rows"] == 300
            found = client.get("cells", rows="200-201", columns="0-1")
            assert found["cells"] == [["200", "201"], ["c", "a"]]
            *_, profile = client.lines("column/1", where="id < 4")
            assert profile["values"][0] == ["a", 2]
            assert [one["version"] for one in client.get("versions", source=1)] == [2, 1]
            assert client.get("meta", source=1)["table"]["rows"] == 600
            assert client.get("meta", source=1, version=1)["table"]["rows"] == 300
            assert {area["name"] for area in client.get("sizes")["areas"]} == {"id", "kind"}
        with serving(uri_of("nothing.mosaic")) as client:
            error = client.get("meta")["error"]
            assert SECRET not in json.dumps(error)


# ---- the command


def test_the_command_prints_a_url_and_stops_when_interrupted(wide, tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "fastmosaic", "view", "--no-browser", str(wide)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    url = process.stdout.readline().strip()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{32}/", url)
    from serving import Client

    assert Client(url).get("meta")["table"]["rows"] == ROWS
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "Traceback" not in errors
    assert list(tmp_path.iterdir()) == []


def test_work_ends_when_the_server_stops(tmp_path):
    """The sizes of columns, and the rows of a filter, are found in steps; a stop ends them."""
    fm.write_table(pa.table({"id": range(100)}), tmp_path / "a.mosaic", row_group_size=10)
    for work in (
        lambda table: table.sizes.sizes(),
        lambda table: table.matches("id > 5"),
    ):
        paths = ViewedPaths([str(tmp_path / "a.mosaic")])
        table = paths[0].at(None)
        paths.stop()
        with pytest.raises(StoppedError):
            work(table)


def test_a_stop_interrupts_work_without_a_trace(wide):
    """Nothing is printed, although a thread is at a step of a profile."""
    code = f"""
import sys, threading, time
sys.path.insert(0, {str(Path(__file__).parent.parent)!r})
from serving import Client
from fastmosaic.viewer import profile, server
from fastmosaic.viewer.tables import ViewedPaths
begun, original = threading.Event(), profile.stored_columns

def slowly(*arguments):
    begun.set()
    time.sleep(3)  # longer than the server waits
    yield from original(*arguments)

profile.stored_columns = slowly
made = server.ViewerServer(ViewedPaths([{str(wide)!r}]))
thread = threading.Thread(target=made.run)
thread.start()

def ask():
    try:
        Client(made.url).lines("column/7")
    except Exception:
        pass

asking = threading.Thread(target=ask)
asking.start()
begun.wait()
made.stop()
thread.join()
asking.join()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_another_address_than_loopback_is_warned_about(wide):
    process = subprocess.Popen(
        [sys.executable, "-m", "fastmosaic", "view", "--no-browser", "--host", "0.0.0.0", wide],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    process.stdout.readline()
    process.terminate()
    _, errors = process.communicate(timeout=60)
    assert "warning: listening on 0.0.0.0" in errors


# ---- what is read


@pytest.fixture
def reads(monkeypatch):
    """Offset and length of what is read from files."""
    from fastmosaic.storage.source import Source

    found = []
    original = Source.read_at

    def counted(self, offset, length):
        found.append((offset, length))
        return original(self, offset, length)

    monkeypatch.setattr(Source, "read_at", counted)
    return found


def pages_of(path, group, names):
    """The bytes of the pages of columns in a row group, which are in paged buckets."""
    metadata = fm.read_metadata(path)
    with open_source(str(path)) as source:
        positions = sorted(map(metadata.schema_block.find, names))
        stored = list(stored_columns(source, metadata, group, positions))
    buckets = metadata.row_group(group).buckets
    assert {buckets[one.bucket].layout for one in stored} <= {"paged"}
    return sum(one.stored_bytes for one in stored)


@pytest.mark.parametrize("num_columns", [400, 1200])
def test_only_what_is_on_screen_is_read(tmp_path, reads, num_columns):
    """The bytes of the pages on screen, whatever the width and the height of the file."""
    per_bucket = 20
    # Buckets contain neighbours by name. Here, neighbours on the screen are two buckets apart, so
    # that reading a gap between two pages would cost more than a further read.
    numbers = sorted(range(num_columns), key=lambda i: (i % (2 * per_bucket), i))
    names = [f"c_{i:04d}" for i in numbers]
    values = np.random.default_rng(num_columns).integers(0, 2**40, (num_columns, 2400))
    columns = dict(zip(names, map(pa.array, values), strict=True))
    path = tmp_path / "a.mosaic"
    fm.write_table(
        pa.table(columns), path, row_group_size=800, num_buckets=num_columns // per_bucket
    )
    table = ViewedPaths([str(path)])[0].at(None)

    def check(first, last, start, stop, *, group, new):
        """Show some cells; in a row group, only some columns are new."""
        reads.clear()
        rows, cells = table.cells.read(range(first, last), start, stop, "")
        assert [len(one) for one in cells] == [len(rows)] * (last - first)
        size = sum(length for _, length in reads)
        pages = pages_of(path, group, [names[i] for i in new])
        directories = 4 * per_bucket * len(new)  # where the pages of a bucket are
        assert pages <= size <= pages + directories

    check(0, 8, 0, 40, group=0, new=range(8))
    check(0, 8, 40, 80, group=0, new=[])  # scrolling on
    check(5, 10, 30, 70, group=0, new=[8, 9])
    check(0, 3, 2290, 2330, group=2, new=[0, 1, 2])
    check(0, 8, 0, 40, group=0, new=[])  # back again


def test_the_first_cells_are_read_while_the_browser_starts(wide, reads):
    paths = ViewedPaths([str(wide)])
    paths.prepare()
    reads.clear()
    rows, cells = paths[0].at(None).cells.read(range(20), 0, 40, "")
    assert (len(rows), len(cells)) == (40, 20)
    assert reads == []


def test_lists_and_searches_read_nothing(tmp_path, reads):
    fm.write_table(
        pa.table({f"c_{i}": [i] for i in range(500)}), tmp_path / "a.mosaic", write_statistics=True
    )
    table = ViewedPaths([str(tmp_path / "a.mosaic")])[0].at(None)
    reads.clear()
    for sort in ("position", "name", "nulls"):
        table.columns.entries(table.columns.found("c_1", "substring", sort, False)[:100], "")
    table.columns.tree("", 0, 100, "")
    assert reads == []

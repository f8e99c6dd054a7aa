import os
import re
import signal
import subprocess
import sys

import pyarrow as pa
import pytest
from serving import serving

import fastmosaic as fm

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
    assert last == {"progress": 1.0, "found": 3, "done": True}
    found = client.get("cells", rows="0-9", columns="1-1", where=where)
    assert found["rows"] == [100, 101, 102]
    assert found["cells"] == [["101", "102", "103"]]


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


def test_bytes_read_are_proportional_to_what_is_on_screen(wide, monkeypatch):
    from fastmosaic.storage import source as sources
    from fastmosaic.viewer.tables import ViewedPaths

    read = []
    original = sources.Source.read_at

    def counted(self, offset, length):
        read.append(length)
        return original(self, offset, length)

    monkeypatch.setattr(sources.Source, "read_at", counted)
    sizes = {}
    for count in (0, 5, 50):
        table = ViewedPaths([str(wide)])[0].at(None)
        read.clear()
        for start in range(0, 300, 40) if count else ():  # scrolling reads nothing twice
            table.cells.read(range(1000, 1000 + count), start, min(start + 40, ROWS), "")
        sizes[count] = sum(read)
    assert sizes[0] == 0
    assert 0 < sizes[5] < sizes[50]
    assert sizes[50] < wide.stat().st_size / 4

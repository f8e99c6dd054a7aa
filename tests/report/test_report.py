"""fastmosaic report: one self-contained page, also for 100,000 columns and hostile names."""

import base64
import gzip
import json
import random
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from browser import violations

import fastmosaic as fm
from fastmosaic.cli import main
from fastmosaic.report.page import MAX_BYTES, page as made_page

HOSTILE = [
    "</script><script>document.title='taken'</script>",
    '"><img src=x onerror="document.title=1">',
    "<!--",
    "@@DATA@@",
    "right\u202eto left",
    "bell\x07\x1b[31m",
    "line\nend\u2028",
]


def content_of(path):
    """The data of a page."""
    found = re.search(rb'id="data">([^<]*)<', path.read_bytes())
    return json.loads(gzip.decompress(base64.b64decode(found[1])))


def report(tmp_path, *arguments):
    target = tmp_path / "report.html"
    assert main(["report", *map(str, arguments), "-o", str(target), "--overwrite"]) == 0
    return target


@pytest.fixture(scope="module")
def sensors(tmp_path_factory):
    """Two row groups of 1,503 columns, three of them a struct, text and a list."""
    columns = {
        f"{part}_{what}_{i:03d}": pa.array([i + row * 0.5 for row in range(40)])
        for part in ("engine", "brake", "cabin")
        for what in ("temp", "load")
        for i in range(250)
    }
    columns["kind"] = pa.array(["a", "b", None, "c"] * 10)
    columns["place"] = pa.array([{"x": row, "y": 1.5} for row in range(40)])
    columns["tags"] = pa.array([[1], [], None, [2, 3]] * 10)
    path = tmp_path_factory.mktemp("sensors") / "sensors.mosaic"
    fm.write_table(pa.table(columns), path, row_group_size=20)
    return path


@pytest.fixture(scope="module")
def sensors_report(tmp_path_factory, sensors):
    return report(tmp_path_factory.mktemp("report"), sensors)


# ---- content


def test_what_a_report_contains(sensors, sensors_report):
    content = content_of(sensors_report)
    assert (content["rows"], content["readRows"], content["sampleRows"]) == (40, 40, 40)
    columns = content["columns"]
    assert len(columns["name"]) == 1504
    at = columns["name"].index("engine_temp_007")
    assert columns["types"][columns["type"][at]] == "double"
    assert (columns["nulls"][at], columns["distinct"][at]) == (0, 40)
    assert (columns["min"][at], columns["max"][at]) == ("7", "26.5")
    assert set(columns["histogram"][at * 12 : at * 12 + 12]) <= set("bcdef")
    kind = columns["name"].index("kind")
    assert (columns["nulls"][kind], columns["distinct"][kind]) == (10, 3)
    assert {"place.x", "place.y", "tags"} <= set(columns["name"])
    metadata = fm.read_metadata(sensors)
    stored = [metadata.row_group(i).total_compressed_size for i in (0, 1)]
    assert [one[1:] for one in content["rowGroups"]] == [[0, 20, stored[0]], [1, 20, stored[1]]]
    assert sum(columns["bytes"]) == sum(stored) == sum(one[3] for one in content["buckets"])


def test_a_dataset_and_a_table(tmp_path):
    data = pa.table({"day": [1, 1, 2], "x": [1.0, 2.0, None]})
    fm.write_dataset(data, tmp_path / "parts", partitioning=["day"])
    content = content_of(report(tmp_path, tmp_path / "parts"))
    assert (content["numFiles"], content["keys"], content["columns"]["name"]) == (2, ["day"], ["x"])
    table = fm.MosaicTable.create(tmp_path / "table", data.schema)
    table.append(data)
    table.append(data)
    content = content_of(report(tmp_path, tmp_path / "table"))
    assert (content["rows"], content["columns"]["nulls"]) == (6, [0, 2])
    content = content_of(report(tmp_path, tmp_path / "table", "--at", "2"))
    assert content["rows"] == 3


def test_no_rows_and_no_columns(tmp_path):
    fm.write_table(pa.table({"x": pa.array([], pa.int32())}), tmp_path / "empty.mosaic")
    content = content_of(report(tmp_path, tmp_path / "empty.mosaic"))
    assert (content["rows"], content["columns"]["min"]) == (0, [None])


def test_some_row_groups_of_many_are_read(tmp_path, sensors, monkeypatch):
    monkeypatch.setattr("fastmosaic.cli.commands.report.MAX_CELLS", 1503 * 20)
    target = tmp_path / "report.html"
    assert main(["report", str(sensors), "-o", str(target)]) == 0
    some = content_of(target)
    assert (some["rows"], some["readRows"], some["sampleRows"]) == (40, 20, 20)
    assert main(["report", str(sensors), "-o", str(target), "--overwrite", "--all-rows"]) == 0
    every = content_of(target)
    assert every["readRows"] == 40
    assert some["columns"]["bytes"] == every["columns"]["bytes"]  # sizes are always those of all


# ---- the command


def test_a_report_is_not_replaced_unless_told(tmp_path, sensors, capsys):
    target = tmp_path / "report.html"
    target.write_text("mine")
    assert main(["report", str(sensors), "-o", str(target)]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert target.read_text() == "mine"


def test_a_damaged_file_leaves_nothing(tmp_path, sensors, capsys):
    data = bytearray(sensors.read_bytes())
    data[100:20_000] = bytes(19_900)
    (tmp_path / "damaged.mosaic").write_bytes(data)
    assert (
        main(["report", str(tmp_path / "damaged.mosaic"), "-o", str(tmp_path / "report.html")]) != 0
    )
    assert "damaged.mosaic" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["damaged.mosaic"]


def test_other_formats_are_refused_with_advice(tmp_path, capsys):
    pq.write_table(pa.table({"x": [1]}), tmp_path / "x.parquet")
    assert main(["report", str(tmp_path / "x.parquet"), "-o", str(tmp_path / "report.html")]) == 2
    assert "fastmosaic convert" in capsys.readouterr().err


# ---- size


def test_100_000_columns_have_less_than_5_mb(tmp_path, page):
    """Random names of 12 letters and random doubles: little that could be compressed."""
    chance = random.Random(3)
    names = {"".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=12)) for _ in range(100_000)}
    columns = {name: pa.array([chance.gauss(0, 1) for _ in range(4)]) for name in sorted(names)}
    fm.write_table(pa.table(columns), tmp_path / "wide.mosaic")
    widest = report(tmp_path, tmp_path / "wide.mosaic")
    assert widest.stat().st_size < MAX_BYTES == 5_000_000
    content = content_of(widest)
    assert len(content["columns"]["name"]) == 100_000
    assert content["leftOut"] == []
    opened(page, widest)
    page.select_option("#order", "position")
    page.evaluate("document.getElementById('scroll').scrollTop = 1e9")
    page.wait_for_selector("tr[aria-rowindex='100001']")
    assert page.locator("#columns tr").count() < 60


def test_what_does_not_fit_is_left_out(tmp_path, sensors_report, monkeypatch):
    content = content_of(sensors_report)
    monkeypatch.setattr("fastmosaic.report.page.MAX_BYTES", len(made_page(content)) - 1)
    (tmp_path / "less.html").write_bytes(made_page(content))
    less = content_of(tmp_path / "less.html")
    assert less["leftOut"] == ["histogram"]
    assert "histogram" not in less["columns"]


def test_very_long_names_leave_only_the_largest_columns(tmp_path, monkeypatch):
    chance = random.Random(7)
    letters = "abcdefghijklmnopqrstuvwxyz0123456789_"
    names = ["".join(chance.choices(letters, k=300)) for _ in range(3000)]
    columns = {name: pa.array(["y" * (i % 40 * 20)]) for i, name in enumerate(names)}
    columns["large"] = pa.array(["x" * 10_000])
    fm.write_table(pa.table(columns), tmp_path / "a.mosaic")
    whole = content_of(report(tmp_path, tmp_path / "a.mosaic"))
    assert whole["rest"] == [0, 0]
    limit = 150_000
    monkeypatch.setattr("fastmosaic.report.page.MAX_BYTES", limit)
    target = report(tmp_path, tmp_path / "a.mosaic")
    assert limit * 0.5 < target.stat().st_size <= limit
    less = content_of(target)
    kept = less["columns"]
    assert "large" in kept["name"]
    assert {len(kept[name]) for name in ("name", "type", "encoding", "bytes", "nulls")} == {
        len(kept["name"])
    }
    every = dict(zip(whole["columns"]["name"], whole["columns"]["bytes"], strict=True))
    assert dict(zip(kept["name"], kept["bytes"], strict=True)).items() <= every.items()
    others, other_bytes = less["rest"]
    assert others == 3001 - len(kept["name"]) > 0
    assert other_bytes == sum(every.values()) - sum(kept["bytes"])
    assert min(kept["bytes"]) >= sorted(every.values())[others - 1]


# ---- in a browser


def opened(page, path):
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready]")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_is_accessible(page, sensors_report, scheme, width):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 800})
    opened(page, sensors_report)
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") == width


def test_the_page_shows_columns(page, sensors, sensors_report):
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    opened(page, sensors_report)
    assert requests == [sensors_report.as_uri()]
    assert page.title() == str(sensors)
    tree = page.locator("#columns button")
    assert tree.all_inner_texts()[:2] == ["▾ brake_*", "▾ brake_load_*"]
    assert page.locator("#columns svg").count() > 5
    tree.first.click()  # folds
    assert tree.all_inner_texts() == ["▸ brake_*", "▸ cabin_*", "▸ engine_*", "▸ place.*"]
    page.select_option("#order", "position")
    names = page.locator("#columns tbody tr:not(.gap) td:first-child")
    assert names.first.inner_text() == "engine_temp_000"
    assert names.count() < 60  # of 1,504
    page.evaluate("document.getElementById('scroll').scrollTop = 1e9")
    # Not wait_for_function: it may evaluate text later on, which the page's policy does not allow.
    page.wait_for_selector("tr[aria-rowindex='1505']")
    assert names.last.inner_text() == "tags"
    page.fill("#search", "BRAKE_load_1")
    assert page.inner_text("#count") == "100 columns"
    assert names.first.inner_text() == "brake_load_100"
    page.click("#treemap button >> nth=0")
    assert page.locator("#crumbs button").count() == 2
    page.select_option("#by", "bucket")
    metadata = fm.read_metadata(sensors)
    assert page.inner_text("#crumbs").startswith(f"{metadata.num_buckets} buckets")
    first = page.locator("#treemap [aria-label^=bucket]").first.get_attribute("aria-label")
    assert re.fullmatch(
        r"bucket \d+: [0-9.]+ k?B, \d+\.\d %, \d+ columns?, (paged|monolithic)", first
    )


def test_hostile_names_and_values_are_text(page, tmp_path):
    columns = {name: pa.array(HOSTILE) for name in HOSTILE}
    columns["group_1"] = columns["group_2"] = columns[HOSTILE[0]]
    path = tmp_path / "<img src=x onerror=alert(1)>@@SCRIPT@@.mosaic"
    fm.write_table(pa.table(columns), path)
    target = report(tmp_path, path)
    opened(page, target)
    assert page.title() == str(path)
    assert page.locator("img").count() == 0
    page.select_option("#order", "position")
    text = page.inner_text("#columns")
    assert HOSTILE[0] in text
    assert r"right\u202eto left" in text
    assert r"bell\x07\x1b[31m" in text
    assert b"onerror=alert(1)>" not in target.read_bytes()

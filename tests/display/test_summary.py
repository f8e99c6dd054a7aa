"""What objects say of themselves, as text and in notebooks."""

import random
import re
import shutil
from html import unescape

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from browser import violations

import fastmosaic as fm
from fastmosaic.display.summary import prefixes_of
from fastmosaic.display.text import human_size

HOSTILE = "<script>document.title='owned'</script>\x1b[31m\u202e"


def lines_of(shown):
    """The lines of the tables of a summary, each as a tuple of texts."""
    rows = re.findall(r"<tr><td.*?</tr>", shown)
    return [tuple(map(text_of, re.findall(r"<td[^>]*>(.*?)</td>", row))) for row in rows]


def text_of(html):
    return unescape(re.sub(r"<[^>]*>", "", html))


def wide(num_columns=10_000):
    names = [f"{'temp' if i % 5 else 'load'}_{i:05d}" for i in range(num_columns)]
    columns = {name: pa.array([1.5, 2.5]) for name in names}
    columns["kind"] = pa.array(["a", "b"])
    return pa.table(columns)


def size_of(*paths):
    return human_size(sum(path.stat().st_size for path in paths))


# ---- prefixes


def test_prefixes_are_counted_among_all_names():
    chance = random.Random(5)
    names = [
        f"{chance.choice(['engine', 'brake', 'cabin'])}_{chance.choice(['t', 'p'])}_{i}"
        for i in range(20_000)
    ]
    expected = {
        f"{part}_{kind}_*": sum(name.startswith(f"{part}_{kind}_") for name in names)
        for part in ("engine", "brake", "cabin")
        for kind in "tp"
    }
    assert dict(prefixes_of(names)) == expected


def test_a_rest_has_the_names_of_no_other_group():
    names = [f"a_b_{i}" for i in range(500)] + [f"a_{'xyz'[i % 3]}{i}" for i in range(100)]
    names += [f"other{i}x" for i in range(600)]
    found = dict(prefixes_of(names))
    assert found["a_b_*"] == 500
    assert sum(found.values()) == len(names)


def test_suffixes():
    chance = random.Random(3)
    words = {"".join(chance.choices("abcdefghijklmnop", k=8)) for _ in range(2000)}
    names = [f"{word}_{end}" for word in sorted(words) for end in ("min", "max")]
    assert sorted(prefixes_of(names)) == [("*_max", len(words)), ("*_min", len(words))]


@pytest.mark.parametrize("seed", range(20))
def test_every_name_is_counted_once(seed):
    chance = random.Random(seed)
    names = [
        "".join(chance.choices("ab_é9", k=chance.randrange(1, 9)))
        for _ in range(chance.choice([3, 50, 5000]))
    ]
    found = prefixes_of(names)
    assert sum(count for _, count in found) == len(names)


# ---- files


def test_a_file(tmp_path):
    path = tmp_path / "wide.mosaic"
    fm.write_table(wide(), path, row_group_size=1)
    size = size_of(path)
    file = fm.MosaicFile(path)
    text = f"<MosaicFile {path}: 2 rows, 10,001 columns, {size}, 2 row groups>"
    assert repr(file) == text
    shown = file._repr_html_()
    assert len(shown) < 4000
    assert lines_of(shown) == [
        ("double", "10,000"),
        ("string", "1"),
        ("temp_*", "8,000"),
        ("load_*", "2,000"),
        ("others", "1"),
    ]
    assert f"100 buckets · zstd · {human_size(sum_of_groups(file.metadata))} of data" in text_of(
        shown
    )
    file.close()
    path.unlink()
    assert repr(file) == text.replace(">", ", closed>")
    assert lines_of(file._repr_html_()) == lines_of(shown)


def sum_of_groups(metadata):
    groups = range(metadata.num_row_groups)
    return sum(metadata.row_group(i).total_compressed_size for i in groups)


def test_metadata(tmp_path):
    fm.write_table(pa.table({"id": [1], "at": [{"x": 1, "y": "a"}]}), tmp_path / "a.mosaic")
    metadata = fm.read_metadata(tmp_path / "a.mosaic")
    text = "<FileMetaData: 1 row, 2 columns (4 stored), 1 row group, 2 buckets, zstd>"
    assert re.sub(r"\d+ buckets?", "2 buckets", repr(metadata)) == text
    assert lines_of(metadata._repr_html_()) == [("id", "int64"), ("at", "struct")]
    file = fm.MosaicFile(tmp_path / "a.mosaic", logical=False)
    assert ": 1 row, 4 columns, " in repr(file)


def test_many_types_and_prefixes_are_some_lines(tmp_path):
    chance = random.Random(2)
    names = {"".join(chance.choices("abcdefghij", k=9)) for _ in range(3000)}
    types = [pa.decimal128(digits, 2) for digits in range(3, 38)]
    schema = pa.schema([(name, chance.choice(types)) for name in sorted(names)])
    fm.write_table(schema.empty_table(), tmp_path / "a.mosaic")
    shown = fm.MosaicFile(tmp_path / "a.mosaic")._repr_html_()
    assert len(lines_of(shown)) <= 16
    assert "28 types" in shown
    assert len(shown) < 4000


def test_no_columns_and_no_rows(tmp_path):
    fm.write_table(pa.schema([]).empty_table(), tmp_path / "a.mosaic")
    file = fm.MosaicFile(tmp_path / "a.mosaic")
    assert "0 rows, 0 columns" in repr(file)
    assert lines_of(file._repr_html_()) == []


def test_hostile_names_are_text(tmp_path, page):
    path = tmp_path / f"{HOSTILE.replace('/', '')}.mosaic"
    fm.write_table(pa.table({HOSTILE: [1], "<b>": [2], "x" * 5000: [4]}), path)
    shown = fm.MosaicFile(path)._repr_html_()
    assert "\x1b" not in shown
    assert len(shown) < 5000
    page.set_content(shown)
    assert page.title() == ""
    assert page.locator("script, td b").count() == 0
    cells = page.locator("td:first-child").all_inner_texts()
    assert cells[0] == r"<script>document.title='owned'</script>\x1b[31m\u202e"
    assert cells[1] == "<b>"


# ---- datasets and tables


def test_a_dataset(tmp_path):
    paths = [tmp_path / f"day={day}" / "a.mosaic" for day in (1, 2)]
    for path in paths:
        path.parent.mkdir()
        fm.write_table(pa.table({"id": [1, 2]}), path)
    dataset = fm.MosaicDataset(tmp_path)
    size = size_of(*paths)
    shutil.rmtree(tmp_path)
    assert repr(dataset) == f"<MosaicDataset: 2 files, 4 rows, 2 columns, {size}>"
    assert lines_of(dataset._repr_html_()) == [("id", "int64"), ("day", "int32")]
    assert "partitioned by day" in text_of(dataset._repr_html_())


def test_files_that_were_not_opened_stay_so(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.mosaic").write_bytes(b"damaged")
    dataset = fm.MosaicDataset(tmp_path, schema=pa.schema({"id": pa.int64()}))
    assert re.fullmatch(r"<MosaicDataset: 2 files, 1 column(, 14 B)?>", repr(dataset))
    assert "rows: not counted yet" in text_of(dataset._repr_html_())
    assert not any(file.is_open for file in dataset.file_set().files)


def test_files_without_a_common_type(tmp_path):
    fm.write_table(pa.table({"id": [1]}), tmp_path / "a.mosaic")
    fm.write_table(pa.table({"id": ["a"]}), tmp_path / "b.mosaic")
    dataset = fm.MosaicDataset(tmp_path)
    assert repr(dataset).startswith("<MosaicDataset: 2 files, 2 rows, 1 column")
    assert "no common type" in text_of(dataset._repr_html_())


def test_a_table(tmp_path):
    table = fm.MosaicTable.create(tmp_path / "t", pa.table({"id": [1, 2]}))
    table.add_columns({"double": pc.multiply(pc.field("id"), 2)})
    assert repr(table) == f"<MosaicTable {tmp_path / 't'}: version 2, 2 rows in 1 file>"
    files = [path for path in (tmp_path / "t").rglob("*.mosaic") if path.parent.name != "_mosaic"]
    for path in files:
        size = path.stat().st_size
        path.write_bytes(bytes(size))  # showing a table opens no file of it
    shown = table._repr_html_()
    assert lines_of(shown) == [("id", "int64"), ("double", "int64")]
    assert f"1 column file · {human_size(sum(path.stat().st_size for path in files))}" in text_of(
        shown
    )
    shutil.rmtree(tmp_path / "t")
    assert "version 2" in table._repr_html_()


# ---- in a browser


@pytest.mark.parametrize(("back", "text"), [("#fff", "#000"), ("#111", "#ddd")])
def test_it_suits_light_and_dark_notebooks(tmp_path, page, back, text):
    fm.write_table(wide(300), tmp_path / "wide.mosaic")
    shown = fm.MosaicFile(tmp_path / "wide.mosaic")._repr_html_()
    style = f"body {{ background: {back}; color: {text} }}"
    page.set_content(
        f"<!doctype html><html lang='en'><title>n</title><style>{style}</style>"
        f"<main><h1>Notebook</h1>{shown}</main>"
    )
    assert violations(page) == []
    color = page.evaluate("getComputedStyle(document.querySelector('td')).color")
    assert color == page.evaluate("getComputedStyle(document.body).color")

"""meta, footer, buckets, pages, dictionary and column-size, as typed."""

import io
import json
import struct
from collections import Counter
from pathlib import Path

import annex_reference
import mosaic
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import reference

import fastmosaic as fm
from fastmosaic.cli import main

FIXTURES = Path(__file__).parents[1] / "golden"
ROWS = 60
TABLE = pa.table(
    {
        "id": pa.array(range(ROWS), pa.int64()),
        "kind": ["north", "south", None] * (ROWS // 3),
        "one": ["same"] * ROWS,
        "none": pa.nulls(ROWS, pa.float64()),
        "tags": [["a", "b"], None, [], ["a"]] * (ROWS // 4),
    }
)


@pytest.fixture
def file(tmp_path):
    """Three row groups of 20 rows, three buckets, monolithic."""
    path = tmp_path / "data.mosaic"
    table = TABLE.replace_schema_metadata({"unit": "m"})
    fm.write_table(table, path, row_group_size=20, num_buckets=3, write_statistics=["id", "one"])
    return str(path)


@pytest.fixture
def run(capsys):
    """Run a command; what it printed, as lines or as JSON."""

    def run(*words, status=0):
        assert main([str(word) for word in words]) == status
        out, err = capsys.readouterr()
        assert err == "" or status
        return json.loads(out) if "--json" in words else out.splitlines()

    return run


@pytest.fixture
def fails(capsys):
    """The one line that a command complains with, and prints nothing else."""

    def fails(*words, status=2):
        assert main([str(word) for word in words]) == status
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("fastmosaic: ")
        assert err.count("\n") == 1
        return err

    return fails


def by_paimon(path, table=TABLE, **options):
    with path.open("wb") as sink:
        mosaic.write_table(table, sink, mosaic.WriterOptions(**options))
    return str(path)


def facts(lines):
    return {line[:17].strip(): line[17:].strip() for line in lines[: lines.index("")]}


# ---- meta


def test_meta(run, file):
    lines = run("meta", file)
    found = facts(lines)
    size = Path(file).stat().st_size
    assert found["file"] == file
    assert (found["size"], found["rows"], found["columns"]) == (str(size), "60", "5")
    assert (found["row groups"], found["buckets"], found["version"]) == ("3", "3", "1")
    assert found["writer"] == f"fastmosaic {fm.__version__}"
    assert found["statistics"] == "id, one"
    assert found["metadata keys"] == "unit"
    assert found["checksums"] == "footer and index, blocks, zstd frames"
    parts = ("data", "schema block", "row group index", "annex")
    assert sum(int(found[part]) for part in parts) == size - 32
    table = [line.split() for line in lines[lines.index("") + 2 :]]
    metadata = fm.read_metadata(file)
    sizes = [str(metadata.row_group(i).total_compressed_size) for i in range(3)]
    assert table == [[str(i), "20", sizes[i], "0", "3"] for i in range(3)]


def test_meta_of_a_file_of_paimon_mosaic(run, tmp_path):
    path = by_paimon(tmp_path / "theirs.mosaic", compression=0)
    found = facts(run("meta", path))
    assert (found["writer"], found["annex"], found["checksums"]) == ("unknown", "none", "none")
    assert (found["compression"], found["statistics"]) == ("none", "none")


def test_meta_of_array_blocks(run, tmp_path):
    fm.write_table(TABLE, tmp_path / "a.mosaic", array_layout="block")
    found = facts(run("meta", tmp_path / "a.mosaic"))
    assert (found["version"], found["array blocks"]) == ("129", "1")


def test_meta_of_a_directory(run, file, tmp_path):
    by_paimon(tmp_path / "theirs.mosaic")
    lines = run("meta", tmp_path)
    assert lines[0].split() == [
        *("file", "rows", "columns", "row", "groups", "buckets", "size", "codec", "writer"),
    ]
    assert [line.split()[:5] for line in lines[1:]] == [
        [file, "60", "5", "3", "3"],
        [str(tmp_path / "theirs.mosaic"), "60", "5", "1", "5"],
    ]
    document = run("meta", tmp_path, "--json")
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert document["total"] == {"files": 2, "rows": 120, "size": size}
    first, second = document["files"]
    assert first["checksums"] == ["footer and index", "blocks", "zstd frames"]
    assert [group["rows"] for group in first["row_groups"]] == [20, 20, 20]
    assert second["writer"] is None
    assert second["checksums"] == []


# ---- footer


def test_footer(run, file):
    data = Path(file).read_bytes()
    lines = run("footer", file)
    fields = [line.split() for line in lines[1 : lines.index("")]]
    index_offset, schema_offset, *_ = struct.unpack(">QQIIBBH4s", data[-32:])
    start = len(data) - 32
    assert [(int(one[0]), int(one[1]), one[2]) for one in fields] == [
        (start, 8, "index_offset"),
        (start + 8, 8, "schema_offset"),
        (start + 16, 4, "num_buckets"),
        (start + 20, 4, "num_row_groups"),
        (start + 24, 1, "compression"),
        (start + 25, 1, "version"),
        (start + 26, 2, "flags"),
        (start + 28, 4, "magic"),
    ]
    assert bytes.fromhex("".join("".join(one[3 : 3 + int(one[1])]) for one in fields)) == data[-32:]
    assert [one[-1] for one in fields[:4]] == [str(index_offset), str(schema_offset), "3", "3"]
    assert [fields[4][-2:], fields[6][-2:], fields[7][-1]] == [
        ["1", "zstd"],
        ["0x0001", "annex"],
        "MOSA",
    ]
    sections = [line.split() for line in lines[lines.index("") + 2 :]]
    assert [one[2:4] for one in sections] == [
        ["1", "checksums"],
        ["2", "schema"],
        ["3", "writer"],
        ["4", "blocks"],
    ]
    assert " ".join(sections[2][4:]) == f"fastmosaic {fm.__version__}"


def test_footer_of_many(run, tmp_path):
    fm.write_table(TABLE, tmp_path / "a.mosaic", array_layout="block")
    by_paimon(tmp_path / "b.mosaic")
    ours, theirs = run("footer", tmp_path, "--json")
    assert ours["flags"] == ["annex", "array_blocks"]
    assert [section["section"] for section in ours["annex"]["sections"]] == [
        *("checksums", "writer", "blocks"),
    ]
    assert (theirs["flags"], theirs["annex"]) == ([], None)
    values = {field["field"]: field["value"] for field in theirs["fields"]}
    assert (values["compression"], values["version"], values["magic"]) == (1, 1, "MOSA")
    lines = run("footer", tmp_path)
    assert lines[0] == str(tmp_path / "a.mosaic")
    assert str(tmp_path / "b.mosaic") in lines
    assert lines[-1] == "no annex"


def test_footer_shows_the_base_of_a_column_file(run, tmp_path):
    table = fm.MosaicTable.create(tmp_path / "t", pa.table({"a": [1, 2, 3]}))
    table.add_columns({"b": pc.field("a")})
    (added,) = (tmp_path / "t" / "_columns").iterdir()
    base = (tmp_path / "t" / table.files[0]).read_bytes()
    (record,) = run("footer", added, "--json")
    (section,) = [one for one in record["annex"]["sections"] if one["kind"] == 5]
    digest = annex_reference.identity(base).digest.hex()
    assert section["section"] == "base"
    assert section["size"] == 32
    assert section["text"] == f"rows 3, bytes {len(base)}, digest {digest}"


# ---- buckets


def test_buckets(run, file, tmp_path):
    records = run("buckets", file, "--json")
    assert [(one["row_group"], one["bucket"]) for one in records] == [
        (group, bucket) for group in range(3) for bucket in range(3)
    ]
    assert [one["columns"] for one in records[:3]] == [2, 2, 1]
    assert [(one["first"], one["last"]) for one in records[:3]] == [
        *(("id", "kind"), ("none", "one"), ("tags", "tags")),
    ]
    oracle = reference.open_file(Path(file).read_bytes())
    listed = [bucket for group in oracle.groups for bucket in group.buckets]
    assert [(one["offset"], one["bytes"], one["uncompressed"]) for one in records] == [
        (bucket.offset, bucket.size, bucket.raw_size) for bucket in listed
    ]
    assert {one["layout"] for one in records} == {"monolithic"}
    lines = run("buckets", file, "--row-group", 1)
    assert len(lines) == 1 + 3
    assert lines[3].split()[:2] == ["1", "2"]
    assert lines[3].split()[-2:] == ["tags", "tags"]


def test_buckets_that_are_paged(run, tmp_path):
    path = by_paimon(tmp_path / "a.mosaic", page_size_threshold=0, num_buckets=1)
    (record,) = run("buckets", path, "--json")
    data = Path(path).read_bytes()
    (bucket,) = reference.open_file(data).groups[0].buckets
    block = data[bucket.offset : bucket.offset + bucket.size]
    _, pages = reference.split_paged(block, 6, 5)
    assert (record["layout"], record["uncompressed"]) == ("paged", sum(map(len, pages)))


# ---- pages


def test_pages(run, file):
    records = run("pages", file, "--row-group", "0", "--json")
    shown = {
        one["column"]: (one["encoding"], one["nulls"], one["entries"], one["constant"])
        for one in records
    }
    assert list(shown) == ["id", "kind", "one", "none", "tags", "tags.item"]
    assert shown == {
        "id": ("plain", 0, None, None),
        "kind": ("dict", 6, 2, None),
        "one": ("const", 0, None, "same"),
        "none": ("all_null", 20, None, None),
        "tags": ("dict", 5, 3, None),
        "tags.item": ("dict", 0, 2, None),
    }
    assert (
        sum(one["bytes"] for one in records)
        == fm.read_metadata(file).row_group(0).total_compressed_size
    )
    assert all(one["is_share"] for one in records)
    lines = run("pages", file)
    assert lines[0].split() == [
        *("row", "group", "bucket", "column", "type", "encoding", "bytes", "raw"),
        *("bytes", "nulls", "entries"),
    ]
    assert len(lines) == 1 + 3 * 6
    assert lines[-2].split()[:5] == ["2", "2", "tags", "lengths", "dict"]


def test_pages_of_some_columns(run, file, fails):
    names = [line.split()[2] for line in run("pages", file, "-c", "t*,id", "--row-group", "1")[1:]]
    assert names == ["tags", "tags.item", "id"]
    names = [
        line.split()[2] for line in run("pages", file, "--bucket", "1", "--row-group", "1")[1:]
    ]
    assert names == ["one", "none"]
    assert "did you mean 'kind'" in fails("pages", file, "-c", "kin")
    assert "row group 3 does not exist: the file has 3" in fails("pages", file, "--row-group", "3")
    assert "bucket 3 does not exist: the file has 3" in fails("pages", file, "--bucket", "3")


def test_pages_of_array_blocks(run, tmp_path):
    fm.write_table(TABLE, tmp_path / "a.mosaic", array_layout="block")
    (record,) = run("pages", tmp_path / "a.mosaic", "-c", "tags", "--json")
    assert (record["encoding"], record["nulls"]) == ("array_block", 15)
    assert record["type"].startswith("list<")


def test_pages_of_a_directory_whose_files_differ(run, tmp_path):
    """Columns of one name and other types: each file is looked at by itself."""
    fm.write_table(pa.table({"a": [1], "b": [1]}), tmp_path / "x.mosaic")
    fm.write_table(pa.table({"a": [["t"]]}), tmp_path / "y.mosaic")
    lines = [line.split() for line in run("pages", tmp_path, "-c", "a*")]
    assert lines[0][0] == "file"
    assert [(Path(line[0]).name, line[3]) for line in lines[1:]] == [
        *(("x.mosaic", "a"), ("y.mosaic", "a"), ("y.mosaic", "a.item")),
    ]


# ---- dictionary


def test_dictionary(run, file):
    lines = [line.split() for line in run("dictionary", file, "-c", "kind")]
    assert lines == [
        ["count", "share", "value"],
        ["20", "50.0%", "north"],
        ["20", "50.0%", "south"],
    ]
    lines = [line.split() for line in run("dictionary", file, "-c", "one", "-c", "tags")]
    assert lines[1] == ["one", "60", "100.0%", "same"]
    # Lengths: of [a, b], [], [a]; then elements.
    assert {tuple(line[:2] + line[3:]) for line in lines[2:]} == {
        ("tags", "15", "2"),
        ("tags", "15", "0"),
        ("tags", "15", "1"),
        ("tags.item", "30", "a"),
        ("tags.item", "15", "b"),
    }


def test_each_dictionary(run, file):
    """Row 20 is the first of the second row group, and of no kind; entries are as they occur."""
    found = run("dictionary", file, "-c", "kind", "--each", "--json")
    assert [(one["row_group"], [tuple(e.values()) for e in one["entries"]]) for one in found] == [
        (0, [("north", 7), ("south", 7)]),
        (1, [("north", 7), ("south", 6)]),
        (2, [("south", 7), ("north", 6)]),
    ]
    assert {one["file"] for one in found} == {file}
    (second,) = run("dictionary", file, "-c", "kind", "--row-group", "1", "--json")
    assert second["entries"] == [{"value": "north", "count": 7}, {"value": "south", "count": 6}]


def test_dictionary_of_values_that_json_has_and_lacks(run, tmp_path):
    table = pa.table(
        {
            "float": pa.array([0.5, float("nan"), -0.0, 0.0] * 9, pa.float64()),
            "flag": [True, False] * 18,
            "raw": pa.array([b"\0\xff longer", b"abc longer"] * 18, pa.binary()),
            "day": pa.array([0, 1] * 18, pa.date32()),
        }
    )
    fm.write_table(table, tmp_path / "a.mosaic")
    found = run("dictionary", tmp_path / "a.mosaic", "-c", "*", "--json")
    values = {one["column"]: [e["value"] for e in one["entries"]] for one in found}
    # Sorted by their bytes, and the sign is the first bit.
    assert [str(value) for value in values["float"]] == ["0.0", "0.5", "NaN", "-0.0"]
    assert values["flag"] == [False, True]
    assert values["raw"] == [b"\0\xff longer".hex(), b"abc longer".hex()]
    assert values["day"] == ["1970-01-01", "1970-01-02"]


def test_no_dictionary(run, file, fails):
    assert "no dictionary found; pages: 3 plain" in fails("dictionary", file, "-c", "id", status=1)
    assert run("dictionary", file, "-c", "id", "--json", status=1) == []
    assert "-c" in fails("dictionary", file)


def test_control_characters_of_a_file_are_shown_not_obeyed(run, tmp_path):
    table = pa.table({"evil\x1b[2J": ["\x1b]0;title\x07 text", "b" * 20] * 20})
    fm.write_table(table, tmp_path / "a.mosaic")
    path = tmp_path / "a.mosaic"
    for words in (["pages", path], ["dictionary", path, "-c", "*"], ["column-size", path]):
        assert not any("\x1b" in line or "\x07" in line for line in run(*words))


# ---- column-size


def test_column_size(run, file):
    document = run("column-size", file, "--json")
    metadata = fm.read_metadata(file)
    data_bytes = sum(metadata.row_group(i).total_compressed_size for i in range(3))
    assert document["data_bytes"] == data_bytes
    sizes = {one["column"]: one["bytes"] for one in document["columns"]}
    assert sum(sizes.values()) == data_bytes
    assert list(sizes.values()) == sorted(sizes.values(), reverse=True)
    pages = run("pages", file, "--json")
    for name, size in sizes.items():  # those of what is inside are among them
        own = [one["bytes"] for one in pages if one["column"].partition(".")[0] == name]
        assert sum(own) == size
    assert sum(one["share"] for one in document["columns"]) == pytest.approx(1)


def test_column_size_in_another_order(run, file):
    def names(*words):
        return [line.split()[0] for line in run("column-size", file, *words)[1:]]

    assert names("--sort", "name") == ["id", "kind", "none", "one", "tags"]
    assert names("--sort", "position") == ["id", "kind", "one", "none", "tags"]
    assert names("--sort", "name", "--limit", "2") == ["id", "kind"]
    assert names("-c", "n*,o*", "--sort", "position") == ["none", "one"]


def test_column_size_by_prefix(run, tmp_path):
    names = [f"{word}_{i}" for word in ("engine", "wheel") for i in range(40)]
    table = pa.table({name: pa.array(range(i, i + 50)) for i, name in enumerate(names)})
    fm.write_table(table, tmp_path / "a.mosaic")
    document = run("column-size", tmp_path / "a.mosaic", "--by-prefix", "--json")
    columns = run("column-size", tmp_path / "a.mosaic", "--json")["columns"]
    groups = {one["prefix"]: one for one in document["prefixes"]}
    assert groups.keys() == {"engine_*", "wheel_*"}
    for word in ("engine", "wheel"):
        group = groups[f"{word}_*"]
        assert group["columns"] == 40
        own = [one["bytes"] for one in columns if one["column"].startswith(word)]
        assert group["bytes"] == sum(own)


def test_column_size_of_names_that_share_nothing(run, tmp_path):
    names = [*(f"engine_{i}" for i in range(40)), *(f"wheel_{i}" for i in range(40)), "x", "yes"]
    table = pa.table({name: [1, 2, 3] for name in names})
    fm.write_table(table, tmp_path / "a.mosaic")
    lines = [line.split() for line in run("column-size", tmp_path / "a.mosaic", "--by-prefix")[1:]]
    assert {tuple(line[:2]) for line in lines} == {
        ("engine_*", "40"),
        ("wheel_*", "40"),
        ("others", "2"),
    }


def test_column_size_of_several_files(run, file, tmp_path):
    other = by_paimon(tmp_path / "other.mosaic", TABLE.select(["kind", "id"]))
    sizes = {one["column"]: one["bytes"] for one in run("column-size", file, "--json")["columns"]}
    both = run("column-size", file, other, "--json")
    more = {one["column"]: one["bytes"] for one in run("column-size", other, "--json")["columns"]}
    assert {one["column"]: one["bytes"] for one in both["columns"]} == {
        name: size + more.get(name, 0) for name, size in sizes.items()
    }


# ---- all of them


ENCODINGS = ("plain", "const", "dict", "all_null")


def encodings(data, bucket, types, compression, num_rows):
    """Of the physical columns of a bucket, by the oracle."""
    flat = reference.flatten_types(types)
    block = reference.read_block(data, bucket, compression)
    if num_rows == 0:
        numbers = [reference.ALL_NULL] * len(flat)
    elif bucket.raw_size:
        stream = io.BytesIO(block)
        if len(flat) > len(types):
            num_counts = 2 + len(flat) - len(types)
            for _ in range(num_counts):
                reference.read_uv(stream)
        numbers = reference.read_bits(stream, 2, len(flat))
    else:
        _, pages = reference.split_paged(block, len(flat), len(types))
        numbers = [page[0] if page else reference.ALL_NULL for page in pages]
    return [ENCODINGS[number] for number in numbers]


@pytest.mark.parametrize(
    "name",
    [
        *("zero_columns", "zero_columns_three_rows", "zero_rows_zstd", "all_null_zstd"),
        *(
            "encodings_mono_none",
            "encodings_mono_zstd",
            "encodings_paged",
            "encodings_mixed_layout",
        ),
        *("nested_mono_zstd", "nested_paged", "nested_groups", "paged_and_monolithic"),
        *("row_groups_stats_zstd", "row_groups_paged", "unicode_names_zstd", "buckets_3"),
    ],
)
def test_all_that_is_printed_is_what_the_oracle_reads(run, name):
    path = FIXTURES / f"{name}.mosaic"
    data = path.read_bytes()
    file = reference.open_file(data)
    schema, batches = reference.decode_file(data)
    types = reference.bucket_types(file.schema)
    in_bucket = reference.bucket_columns(len(file.schema.fields), file.schema.num_buckets)

    (meta,) = run("meta", path, "--json")["files"]
    assert (meta["size"], meta["rows"]) == (len(data), sum(group.num_rows for group in file.groups))
    assert (meta["columns"], meta["buckets"]) == (len(schema), file.schema.num_buckets)
    assert [group["rows"] for group in meta["row_groups"]] == [one.num_rows for one in file.groups]
    (footer,) = run("footer", path, "--json")
    assert bytes.fromhex("".join(field["hex"] for field in footer["fields"])) == data[-32:]

    stored = {
        (number, bucket.bucket_id): bucket
        for number, group in enumerate(file.groups)
        for bucket in group.buckets
        if types[bucket.bucket_id]
    }
    printed = {
        (one["row_group"], one["bucket"]): one
        for one in run("buckets", path, "--json")
        if one["columns"]
    }
    assert printed.keys() == stored.keys()
    pages = run("pages", path, "--json")
    for place, bucket in stored.items():
        one = printed[place]
        assert (one["offset"], one["bytes"]) == (bucket.offset, bucket.size)
        assert one["layout"] == ("monolithic" if bucket.raw_size else "paged")
        names = [file.schema.fields[position].name for position in in_bucket[place[1]]]
        assert (one["columns"], one["first"], one["last"]) == (len(names), names[0], names[-1])
        own = [page for page in pages if (page["row_group"], page["bucket"]) == place]
        assert sum(page["bytes"] for page in own) == bucket.size
        batch = batches[place[0]]
        found = encodings(
            data, bucket, types[place[1]], file.compression, file.groups[place[0]].num_rows
        )
        assert Counter(page["encoding"] for page in own) == Counter(found)
        by_name = {page["column"]: page for page in own}
        for column, encoding in zip(names, found, strict=False):  # what is inside comes after
            page = by_name[column]
            assert (page["encoding"], page["rows"]) == (encoding, batch.num_rows), column
            assert page["nulls"] == batch[column].null_count, column
    sizes = {one["column"]: one["bytes"] for one in run("column-size", path, "--json")["columns"]}
    assert sizes.keys() == set(schema.names)
    assert sum(sizes.values()) == sum(bucket.size for bucket in stored.values())


@pytest.mark.parametrize(
    "command", ["meta", "footer", "buckets", "pages", "column-size", "dictionary"]
)
def test_what_is_no_file_of_ours(command, file, tmp_path, fails):
    words = ["-c", "*"] if command == "dictionary" else []
    data = Path(file).read_bytes()
    cut = tmp_path / "cut.mosaic"
    cut.write_bytes(data[:-10])
    assert f"{cut}: not a Mosaic file" in fails(command, cut, *words)
    cut.write_bytes(data[-60:])
    assert str(cut) in fails(command, cut, *words)
    cut.write_bytes(b"")
    assert "too few" in fails(command, cut, *words)
    assert "No such file" in fails(command, tmp_path / "absent.mosaic", *words)
    (tmp_path / "empty").mkdir()
    assert "contains no files" in fails(command, tmp_path / "empty", *words)


@pytest.mark.parametrize("command", ["pages", "column-size", "dictionary"])
def test_damaged_data(command, file, fails):
    data = bytearray(Path(file).read_bytes())
    data[3] ^= 0xFF
    Path(file).write_bytes(data)
    words = ["-c", "*"] if command == "dictionary" else []
    assert f"{file}: row group 0, bucket 0, offset 0: " in fails(command, file, *words)


def test_wrong_words(capsys, file):
    for words in (["column-size", file, "--limit", "0"], ["column-size", file, "--sort", "colour"]):
        with pytest.raises(SystemExit) as raised:
            main(words)
        assert raised.value.code == 2
        assert capsys.readouterr().err.count("\n") == 1


# ---- for people


@pytest.fixture
def shown(capsys, monkeypatch):
    """What a command prints on a terminal of 100 columns that has no colours."""

    def shown(*words):
        with monkeypatch.context() as patch:
            patch.setattr("sys.stdout.isatty", lambda: True)
            patch.setenv("TERM", "dumb")
            patch.setenv("COLUMNS", "100")
            assert main([str(word) for word in words]) == 0
        return capsys.readouterr().out

    return shown


def test_on_a_terminal_sizes_are_rounded_and_have_bars(shown, tmp_path):
    numbers = pa.array([i * 2654435761 % 2**31 for i in range(5000)], pa.int32())
    table = pa.table({"large": numbers, "small": [1] * 5000})
    fm.write_table(table, tmp_path / "a.mosaic", compression="none", num_buckets=1)
    lines = shown("column-size", tmp_path / "a.mosaic").splitlines()
    large = next(line for line in lines if line.startswith("large"))
    assert large.split() == ["large", "20.0", "kB", "99.96%", "█" * 20]
    small = next(line for line in lines if line.startswith("small"))
    assert "█" not in small
    assert lines[-3].rstrip() == "2 columns, 20.0 kB of 20.0 kB"


def test_on_a_terminal_files_are_named_below_their_directory(shown, tmp_path):
    fm.write_table(TABLE, tmp_path / "a.mosaic")
    fm.write_table(TABLE, tmp_path / "b.mosaic")
    out = shown("meta", tmp_path)
    assert f"in {tmp_path}" in out.replace("\n", "")
    assert [line.split()[0] for line in out.splitlines() if ".mosaic" in line] == [
        *("a.mosaic", "b.mosaic"),
    ]
    assert "2 files, 120 rows, " in out
    assert "A monolithic bucket is compressed as a whole" in shown("pages", tmp_path)


def test_on_a_terminal_long_names_of_a_bucket_are_cut(shown, tmp_path):
    fm.write_table(pa.table({"n" * 200: [1]}), tmp_path / "a.mosaic")
    assert "n" * 200 not in shown("buckets", tmp_path / "a.mosaic").replace("\n", "")

"""Files merged into one: what is copied, what is rewritten, and that nothing else changes."""

import datetime
import io
import struct
from itertools import accumulate

import mosaic
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import reference
from files import their_reader, written
from hypothesis import given, strategies as st
from strategies import assert_same, tables, write_options
from user_types import column_cells, dictionary_cells, user_tables

import fastmosaic as fm
from fastmosaic.file.concat import concatenate
from fastmosaic.format.user_schema import map_dictionaries

ROWS = 600
TABLE = pa.table(
    {
        "id": range(ROWS),
        "text": [None if n % 7 == 0 else f"text {n % 50}" for n in range(ROWS)],
        "list": [[n, None] if n % 3 else None for n in range(ROWS)],
        "constant": [1.5] * ROWS,
        "nothing": pa.nulls(ROWS, pa.string()),
    }
)


def merged(*files, where=None, **options):
    """Return the bytes of the merged file, and the report."""
    sink = io.BytesIO() if where is None else where
    report = concatenate([fm.MosaicFile(data) for data in files], sink, **options)
    return sink.getvalue(), report


def counts(report):
    return report.num_copied, report.num_rewritten


def buckets(data):
    """Return the bytes of each bucket of each row group."""
    metadata = fm.read_metadata(data)
    groups = (metadata.row_group(i).buckets for i in range(metadata.num_row_groups))
    return [
        [data[one.offset : one.offset + one.compressed_size] for one in group] for group in groups
    ]


OPTIONS = [
    {},
    {"compression": "none"},
    {"num_buckets": 2, "write_statistics": True},
    {"page_size_threshold": 0},
    {"array_layout": "block"},
    {"annex": False},
    {"row_group_size": 100},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_row_groups_are_copied_as_they_are(options):
    files = [written(TABLE, **options), written(TABLE.slice(200), **options)]
    data, report = merged(*files, mode="copy")
    assert buckets(data) == [group for file in files for group in buckets(file)]
    assert fm.read_table(data).equals(pa.concat_tables([TABLE, TABLE.slice(200)]))
    assert fm.verify(data).ok
    count = sum(fm.read_metadata(file).num_row_groups for file in files)
    assert counts(report) == (count, 0)
    assert (report.num_files, report.num_rows, report.num_bytes) == (2, 1000, len(data))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_rewritten_file_is_like_its_sources(options):
    data, report = merged(written(TABLE, **options), written(TABLE, **options), mode="rewrite")
    assert fm.read_table(data).equals(pa.concat_tables([TABLE, TABLE]))
    assert fm.verify(data).ok
    assert report.num_copied == 0
    metadata, before = fm.read_metadata(data), fm.read_metadata(written(TABLE, **options))
    assert metadata.num_row_groups == report.num_row_groups == 1
    assert metadata.num_buckets == before.num_buckets
    assert metadata.compression == before.compression
    assert metadata.schema_block.kinds == before.schema_block.kinds
    assert set(metadata.row_group(0).statistics) == set(before.row_group(0).statistics)


def test_the_other_implementation_reads_the_result():
    data, _ = merged(written(TABLE), written(TABLE), mode="copy")
    with their_reader(data) as reader:
        assert reader.read_all().equals(pa.concat_tables([TABLE, TABLE]).combine_chunks())


@pytest.mark.parametrize("mode", ["copy", "rewrite"])
def test_files_of_the_other_implementation(mode):
    """Their names have another encoding, and there is no annex."""
    table = pa.table({f"some_long_name_{i:03d}": [i, None] for i in range(200)})
    sink = io.BytesIO()
    mosaic.write_table(table, sink, mosaic.WriterOptions())
    data, report = merged(written(table), sink.getvalue(), written(table), mode=mode)
    assert fm.read_table(data).equals(pa.concat_tables([table] * 3))
    assert counts(report) == ((3, 0) if mode == "copy" else (0, 3))
    assert fm.verify(data).ok


def shuffled(data):
    """A file whose buckets are in another order, with gaps; it has no annex."""
    metadata = fm.read_metadata(data)
    (group,) = (metadata.row_group(i) for i in range(metadata.num_row_groups))
    out, entries = b"gap", []
    for one in (group.buckets[2], group.buckets[0], group.buckets[1]):
        size = one.compressed_size
        entries.append(reference.Bucket(one.index, len(out), size, one.uncompressed_size or 0))
        out += data[one.offset : one.offset + size] + (b"" if one.index else b"another gap")
    footer = list(reference.FOOTER.unpack(data[-reference.FOOTER.size :]))
    block = data[footer[1] : footer[0]]
    index = reference.encode_row_group(reference.RowGroup(group.num_rows, entries, []))
    footer[:2] = len(out) + len(block), len(out)
    return out + block + index + reference.FOOTER.pack(*footer)


def test_buckets_in_any_order_and_with_gaps():
    file = shuffled(written(TABLE, num_buckets=3, annex=False))
    data, _ = merged(file, written(TABLE, num_buckets=3), file, mode="copy")
    assert fm.read_table(data).equals(pa.concat_tables([TABLE] * 3))
    assert fm.verify(data).ok
    assert buckets(data)[0] == buckets(file)[0]


def test_statistics_are_kept():
    parts = [TABLE.slice(start, 200) for start in (0, 200, 400)]
    files = [written(part, write_statistics=["id", "text"]) for part in parts]
    data, _ = merged(*files, mode="copy")
    metadata = fm.read_metadata(data)
    for i, file in enumerate(files):
        expected = fm.read_metadata(file).row_group(0).statistics
        assert dict(metadata.row_group(i).statistics) == dict(expected)
    damaged = bytearray(data)
    damaged[metadata.row_group(0).buckets[0].offset + 20] ^= 1  # which is skipped
    found = fm.read_table(bytes(damaged), filters=[("id", ">=", 590)])
    assert found["id"].to_pylist() == list(range(590, 600))


def test_the_first_order_of_columns_wins():
    names = ["nothing", "list", "id", "constant", "text"]
    data, report = merged(written(TABLE), written(TABLE.select(names)), mode="copy")
    assert fm.read_table(data).equals(pa.concat_tables([TABLE, TABLE]))
    assert counts(report) == (2, 0)


# ---- files that differ

REQUIRED = pa.schema([TABLE.schema.field(0).with_nullable(False), *list(TABLE.schema)[1:]])
WIDE = TABLE.set_column(0, "id", TABLE["id"].cast(pa.float64()))
MORE = TABLE.append_column("more", TABLE["id"])


@pytest.mark.parametrize(
    ("other", "options", "expected", "message"),
    [
        (TABLE.drop(["text"]), {}, TABLE, "column 'text'"),
        (MORE, {}, MORE, "column 'more'"),
        (WIDE, {}, WIDE, "column 'id' is int64 .*and double"),
        (TABLE.cast(REQUIRED), {}, TABLE, "column 'id' is int64 in .* and int64 not null"),
        (TABLE, {"num_buckets": 2}, TABLE, "have 2 buckets, those of the new file 5"),
        (TABLE, {"compression": "none"}, TABLE, "have compression 'none'"),
        (TABLE, {"array_layout": "block"}, TABLE, "column 'list' is .* array blocks"),
    ],
    ids=["fewer", "more", "type", "nullable", "buckets", "compression", "layout"],
)
def test_files_that_differ_are_rewritten(tmp_path, other, options, expected, message):
    """Of three files, the last one differs; row groups are large enough to be copied.

    `expected` has the schema of the new file, so files like it are copied.
    """
    paths = [tmp_path / f"{name}.mosaic" for name in "abc"]
    for path in paths[:2]:
        fm.write_table(TABLE, path)
    fm.write_table(other, paths[2], **options)
    files = [fm.MosaicFile(path) for path in paths]
    sink = io.BytesIO()
    report = concatenate(files, sink, row_group_bytes=1000)
    assert counts(report) == ((2, 1) if expected is TABLE else (1, 2))
    united = pa.concat_tables([TABLE, TABLE, other], promote_options="permissive")
    assert fm.read_table(sink.getvalue()).equals(united.cast(expected.schema))
    assert fm.verify(sink.getvalue()).ok

    target = tmp_path / "all.mosaic"
    with pytest.raises(fm.SchemaMismatchError, match=message) as caught:
        concatenate(files, target, mode="copy")
    assert "c.mosaic" in str(caught.value)
    assert 'mode="auto"' in str(caught.value)
    assert sorted(tmp_path.iterdir()) == paths


def test_what_most_rows_have_is_kept():
    files = [written(TABLE, num_buckets=2), *[written(TABLE, num_buckets=3)] * 2]
    data, report = merged(*files, row_group_bytes=1000)
    assert fm.read_metadata(data).num_buckets == 3
    assert counts(report) == (2, 1)
    data, report = merged(*files, row_group_bytes=1000, num_buckets=2)
    assert counts(report) == (1, 2)


def test_names_that_are_not_sorted():
    """Another writer may store columns in an order of its own."""
    body = reference.uv(2) + b"\1\0"
    for name in (b"b", b"a"):
        body += reference.uv(0) + reference.sized(name) + b"\1\1"  # TINYINT, nullable
    block = struct.pack(">I", len(body)) + body
    footer = reference.FOOTER.pack(len(block), 0, 1, 0, 0, 1, 0, b"MOSA")
    table = pa.table({"a": pa.array([1], pa.int8()), "b": pa.array([2], pa.int8())})
    file = written(table, num_buckets=1, compression="none")
    with pytest.raises(fm.SchemaMismatchError, match="not stored in the order of their names"):
        merged(file, block + footer, mode="copy")
    assert fm.read_table(merged(file, block + footer)[0]).equals(table)


def test_types_without_a_common_one():
    texts = TABLE.set_column(0, "id", TABLE["id"].cast(pa.string()))
    with pytest.raises(fm.SchemaMismatchError, match=r"'id' is int64 .* and string"):
        merged(written(TABLE), written(texts))


def test_files_without_rows_and_columns():
    nothing = written(TABLE.slice(0, 0))
    data, report = merged(nothing, written(TABLE), nothing, mode="copy")
    assert fm.read_table(data).equals(TABLE)
    assert counts(report) == (1, 0)
    data, report = merged(nothing, nothing)
    assert fm.read_table(data).equals(TABLE.slice(0, 0))
    assert report.num_row_groups == 0

    rows = written(TABLE.select([]))
    data, report = merged(rows, rows, mode="copy")
    assert fm.read_metadata(data).num_rows == 2 * ROWS
    data, report = merged(rows, written(TABLE))
    assert fm.read_table(data)["id"].to_pylist() == [None] * ROWS + list(range(ROWS))
    with pytest.raises(ValueError, match="no files"):
        merged()


# ---- sizes

NUMBERS = pa.table({f"c{i}": pa.array(range(1000), pa.int64()) for i in range(10)})


def sizes(data):
    metadata = fm.read_metadata(data)
    return [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]


def test_runs_of_small_row_groups_are_joined():
    """A row of 10 numbers has 80 bytes and a bitmap of 10 bytes, one for each bucket."""
    small, large = written(NUMBERS.slice(0, 100)), written(NUMBERS)
    files = [small, small, large, small, large, large, small, small, small]
    data, report = merged(*files, row_group_bytes=90 * 2000)
    assert sizes(data) == [200, 1000, 100, 1000, 1000, 300]
    assert counts(report) == (4, 5)
    assert fm.read_table(data).equals(pa.concat_tables(map(fm.read_table, files)))


@pytest.mark.parametrize(("factor", "expected"), [(3.9, [1000, 1000]), (4.2, [2000])])
def test_a_quarter_of_the_target_is_copied(factor, expected):
    """However small the values become: these compress well."""
    data, _ = merged(written(NUMBERS), written(NUMBERS), row_group_bytes=int(factor * 90 * 1000))
    assert sizes(data) == expected


def test_sparse_row_groups_are_small():
    sparse = pa.table({f"c{i}": [i, *[None] * 999] for i in range(100)})
    data, _ = merged(written(sparse), written(sparse), row_group_bytes=100 * 8 * 1000)
    assert sizes(data) == [2000]


def test_a_quarter_of_the_maximum_of_rows_is_copied():
    files = [written(NUMBERS.slice(0, rows)) for rows in (250, 249, 249)]
    data, _ = merged(*files, row_group_size=1000)
    assert sizes(data) == [250, 498]


def test_joined_row_groups_are_copied_by_the_next_run():
    words = [["red", "green", "blue"][n % 3] for n in range(1000)]
    part = written(pa.table({f"c{i}": words for i in range(20)}))
    data, _ = merged(*[part] * 12, row_group_bytes=500_000)
    assert len(sizes(data)) > 1
    again, report = merged(data, data, row_group_bytes=500_000)
    assert report.num_copied >= 2 * len(sizes(data)) - 2
    assert sum(sizes(again)) == 24_000


# ---- types of the user


def test_structs_dictionaries_and_metadata():
    def table(words, values):
        word = pa.DictionaryArray.from_arrays(pa.array(values, pa.int8()), words)
        inner = pa.array([None if v is None else {"x": v, "word": "w"} for v in values])
        schema = pa.schema(
            [
                pa.field("word", word.type, metadata={"unit": "none"}),
                ("inner", inner.type),
                ("wait", pa.duration("s")),
                ("small", pa.uint8()),
            ],
            metadata={"by": "test"},
        )
        wait = pa.array(values, pa.duration("s"))
        return pa.table([word, inner, wait, pa.array(values, pa.uint8())], schema=schema)

    one = table(["red", "green", "unused"], [0, None, 1])
    two = table(["green", "blue"], [1, 0, None])
    for mode, expected in (("copy", (2, 0)), ("rewrite", (0, 2))):
        data, report = merged(written(one), written(two), mode=mode)
        found = fm.read_table(data)
        assert counts(report) == expected
        assert found.schema.equals(one.schema, check_metadata=True)
        dictionary = found["word"].combine_chunks().dictionary
        assert dictionary.to_pylist() == ["red", "green", "unused", "blue"]
        assert found.to_pylist() == one.to_pylist() + two.to_pylist()
        assert fm.verify(data).ok


def test_an_order_that_files_do_not_share_is_dropped():
    def table(*words):
        type = pa.dictionary(pa.int8(), pa.string(), ordered=True)
        indices = pa.array(range(len(words)), pa.int8())
        array = pa.DictionaryArray.from_arrays(indices, list(words), ordered=True)
        return pa.table({"size": pa.array(array, type)})

    data, _ = merged(written(table("S", "M", "L")), written(table("S", "L")), mode="copy")
    assert fm.read_schema(data).field("size").type.ordered
    data, _ = merged(written(table("S", "M", "L")), written(table("L", "S")), mode="copy")
    found = fm.read_table(data)
    assert not found.schema.field("size").type.ordered
    assert found["size"].to_pylist() == ["S", "M", "L", "L", "S"]


def test_many_dictionaries_get_wider_indices():
    def table(start):
        words = pa.array([f"w{i}" for i in range(start, start + 100)])
        return pa.table(
            {"word": words.dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string()))}
        )

    data, report = merged(written(table(0)), written(table(100)), mode="copy")
    assert counts(report) == (2, 0)
    assert fm.read_table(data)["word"].to_pylist() == [f"w{i}" for i in range(200)]


def test_data_frames():
    """Their metadata tells the rows of each file, and that of the first one wins."""
    frames = [
        pd.DataFrame({"n": [start, start + 1], "kind": pd.Categorical(["a", "b"])})
        for start in (0, 2, 4)
    ]
    files = [io.BytesIO() for _ in frames]
    for frame, file in zip(frames, files, strict=True):
        frame.index = range(frame.n[0], frame.n[0] + 2)
        fm.write_pandas(frame, file)
    data, report = merged(*(file.getvalue() for file in files), mode="copy")
    assert counts(report) == (3, 0)
    pd.testing.assert_frame_equal(fm.read_pandas(data), pd.concat(frames))


def test_units_that_are_stored_alike_are_not_mixed():
    seconds = pa.table({"wait": pa.array([1, 2], pa.duration("s"))})
    millis = pa.table({"wait": pa.array([3, 4], pa.duration("ms"))})
    data, report = merged(written(seconds), written(millis), row_group_bytes=1)
    assert fm.read_table(data)["wait"].to_pylist() == [
        datetime.timedelta(milliseconds=number) for number in (1000, 2000, 3, 4)
    ]
    assert counts(report) == (1, 1)
    with pytest.raises(fm.SchemaMismatchError, match=r"column 'wait' is duration\[s\]"):
        merged(written(seconds), written(millis), mode="copy")


def test_types_on_which_files_do_not_agree_become_plain():
    small = pa.table(
        {"n": pa.array([1, 255], pa.uint8()), "t": pa.array(["a", "b"]).dictionary_encode()}
    )
    plain = pa.table({"n": pa.array([300, -1], pa.int16()), "t": ["c", "a"]})
    data, report = merged(written(small), written(plain), mode="copy")
    assert fm.read_table(data).equals(pa.concat_tables([small.cast(plain.schema), plain]))
    assert counts(report) == (2, 0)


def test_a_given_schema_is_that_of_the_file():
    narrow = pa.table({"n": pa.array([1, 2], pa.int16())})
    schema = pa.schema({"n": pa.uint8(), "other": pa.string()})
    data, _ = merged(written(narrow), schema=schema)
    assert fm.read_table(data).to_pydict() == {"n": [1, 2], "other": [None, None]}
    assert fm.read_schema(data).equals(schema)
    large = pa.table({"n": pa.array([1, 300], pa.int16())})
    for mode in ("auto", "rewrite"):
        with pytest.raises(fm.SchemaMismatchError, match="column 'n'"):
            merged(written(large), schema=pa.schema({"n": pa.uint8()}), mode=mode)


# ---- remote files


class Remote:
    """The bytes of a file that is not local, and what was read of it."""

    name = "remote"
    is_local = False

    def __init__(self, data):
        self._data = pa.py_buffer(data)
        self.size = len(data)
        self.reads = []

    def read_at(self, offset, length):
        self.reads.append((offset, length))
        return self._data.slice(offset, length)

    def close(self):
        pass


def test_remote_files_are_read_in_parts():
    """Of some megabytes each, by several threads, and each byte once."""
    numbers = np.random.default_rng(1).integers(0, 1 << 62, (5, 400_000))
    table = pa.table({f"c{i}": column for i, column in enumerate(numbers)})
    data = written(table, num_buckets=2, compression="none")
    remote = Remote(data)
    file = fm.MosaicFile(remote)
    remote.reads.clear()
    sink = io.BytesIO()
    concatenate([file, file], sink, mode="copy")
    assert fm.read_table(sink.getvalue()).equals(pa.concat_tables([table, table]))
    assert fm.verify(sink.getvalue()).ok
    assert len(remote.reads) == 2 * 4
    assert max(length for _, length in remote.reads) <= 4 << 20
    assert sum(length for _, length in remote.reads) == 2 * file.metadata.bytes_of(0)


# ---- errors


def test_damaged_bytes_are_not_copied(tmp_path):
    paths = [tmp_path / "a.mosaic", tmp_path / "b.mosaic"]
    for path in paths:
        fm.write_table(TABLE, path)
    data = bytearray(paths[1].read_bytes())
    data[100] ^= 1
    paths[1].write_bytes(data)
    for mode in ("copy", "rewrite"):
        files = [fm.MosaicFile(path) for path in paths]
        with pytest.raises(fm.CorruptFileError, match="row group 0") as caught:
            concatenate(files, tmp_path / "all.mosaic", mode=mode)
        assert caught.value.file == str(paths[1])
    assert sorted(tmp_path.iterdir()) == paths


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="mode must be 'auto', 'copy', 'rewrite', not 'fast'"):
        merged(written(TABLE), mode="fast")
    with pytest.raises(TypeError, match="unknown option 'num_bucket'; did you mean 'num_buckets'"):
        merged(written(TABLE), num_bucket=3)
    file = fm.MosaicFile(written(TABLE))
    file.close()
    with pytest.raises(ValueError, match="closed"):
        concatenate([file], io.BytesIO())


@pytest.mark.parametrize("mode", ["copy", "rewrite"])
def test_progress_counts_the_bytes_of_row_groups(mode):
    file = written(TABLE, row_group_size=200)
    calls = []
    merged(file, file, mode=mode, progress=lambda *call: calls.append(call))
    sizes = [sum(map(len, group)) for group in buckets(file)] * 2
    assert calls == [(done, sum(sizes)) for done in accumulate(sizes)]


# ---- any table


@given(st.data(), st.sampled_from(["auto", "rewrite"]))
def test_files_with_other_columns(data, mode):
    """Each file has some of the columns, in an order of its own."""
    table = data.draw(tables(min_columns=2, max_rows=100))
    order = st.lists(st.sampled_from(table.column_names), unique=True, min_size=1)
    parts = [table.select(data.draw(order)) for _ in range(data.draw(st.integers(1, 4)))]
    found, report = merged(*map(written, parts), mode=mode, row_group_bytes=1000)
    assert report.num_rows == len(parts) * table.num_rows
    assert fm.verify(found).ok
    expected = pa.concat_tables(parts, promote_options="default")
    fields = [
        field.with_nullable(
            field.nullable or any(field.name not in one.schema.names for one in parts)
        )
        for field in expected.schema
    ]
    assert_same(fm.read_table(found), pa.table(expected.columns, schema=pa.schema(fields)))


@given(st.data(), st.sampled_from(["auto", "copy", "rewrite"]))
def test_any_table_in_parts(data, mode):
    table = data.draw(tables())
    options = data.draw(write_options())
    cuts = sorted(data.draw(st.lists(st.integers(0, table.num_rows), max_size=4)))
    edges = zip([0, *cuts], [*cuts, table.num_rows], strict=True)
    parts = [table.slice(start, end - start) for start, end in edges]
    files = [written(part, **options) for part in parts]
    limit = data.draw(st.sampled_from([1, 1000, 1 << 28]))
    merged_file, report = merged(*files, mode=mode, row_group_bytes=limit)
    assert report.num_rows == table.num_rows
    assert fm.verify(merged_file).ok
    assert_same(fm.read_table(merged_file), table)


def unordered(field):
    """A field without the order of dictionaries, which parts may not share."""

    def change(type, _):
        return pa.dictionary(type.index_type, type.value_type)

    return (
        field.name,
        map_dictionaries(field.type, change, ()),
        field.nullable,
        field.metadata or None,
    )


@given(st.data(), st.sampled_from(["auto", "copy", "rewrite"]))
def test_any_table_of_the_user_in_parts(data, mode):
    table = data.draw(user_tables())
    cut = data.draw(st.integers(0, table.num_rows))
    parts = [table.slice(0, cut), table.slice(cut)]
    merged_file, _ = merged(*map(written, parts), mode=mode)
    assert fm.verify(merged_file).ok
    found = fm.read_table(merged_file)
    assert [unordered(field) for field in found.schema] == [
        unordered(field) for field in table.schema
    ]
    assert found.schema.metadata == table.schema.metadata
    for one, other in zip(found.columns, table.columns, strict=True):
        assert column_cells(one) == column_cells(other)
    before = [dictionary_cells(part) for part in parts]
    for path, values in dictionary_cells(found).items():
        every = [value for one in before for value in one.get(path, [])]
        assert all(value in values for value in every)
        assert all(value in every for value in values)

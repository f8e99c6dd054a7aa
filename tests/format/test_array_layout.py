"""List columns as array data blocks: `array_layout="block"`, type 0xE0 of the format."""

import io
import pickle
import struct
from decimal import Decimal

import array_reference
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import reference
from files import ALWAYS, gathering, their_reader
from hypothesis import given, strategies as st
from reference import sized, uv
from strategies import FLAT_TYPES, assert_same, list_types, tables, write_options

import fastmosaic as fm
from fastmosaic.format._collect import ArrowColumns
from fastmosaic.format._decode import Pages
from fastmosaic.format._encode import encode
from fastmosaic.format.types import ColumnType, Kind
from fastmosaic.memory import Memory

REFUSED = (fm.CorruptFileError, fm.UnsupportedError)

# Example A of the specification of the data block: the lists, and their block with its checksum.
LISTS = [[1, 2], [], None, [3, 4], [5, 6, 7, 8], [None], [9]]
BLOCK = bytes.fromhex(
    "0a 07 04 10010302 0f 030200000000000200040001000100 02 037b"
    "09000000 00000000 010000000200000003000000040000000500000006000000070000000800000009000000"
    "08845983"
)
ALL_NULL_PAGE = b"\3"  # its encoding, among those of a monolithic bucket

MIXED = pa.table(
    {
        "id": pa.array(range(7), pa.int32()),
        "numbers": pa.array(LISTS, pa.list_(pa.int32())),
        "texts": pa.array([["a", "é"], None, [], [None], ["", "x"], ["y"], None]),
        "nothing": pa.nulls(7, pa.list_(pa.bool_())),
        "deep": pa.array([[[1]], None, [], [None], [[], [2]], [[3]], None]),
        "by name": pa.array([[("k", [1])]] * 7, pa.map_(pa.string(), pa.list_(pa.int8()))),
        "prices": pa.array([[Decimal("1.50")]] * 7, pa.list_(pa.decimal128(7, 2))),
    }
)


def written(table: pa.Table, **options) -> bytes:
    sink = io.BytesIO()
    fm.write_table(table, sink, **{"array_layout": "block", "annex": False} | options)
    return sink.getvalue()


def lists(values) -> pa.Table:
    return pa.table({"x": pa.array(values, pa.list_(pa.int32()))})


# What is in the file


def test_the_page_is_the_length_of_a_block_and_the_block():
    data = written(lists(LISTS), compression="none")
    bucket = bytes([reference.PLAIN, 0]) + uv(len(BLOCK)) + BLOCK  # no null bitmap
    (where,) = fm.read_metadata(data).row_group(0).buckets
    assert (where.offset, where.uncompressed_size) == (0, len(bucket))
    assert data[: len(bucket)] == bucket
    schema_offset = len(bucket)
    descriptor = b"\xe0\1" + sized(b"item") + b"\3\1"
    body = b"\1\1\0" + b"\0" + sized(b"x") + descriptor + b"\0"
    assert data[schema_offset + 4 :].startswith(body)
    assert data[-7:] == b"\x81\1\0MOSA"  # version, flags


def test_a_column_of_null_lists_has_no_block():
    data = written(lists([None, None]), compression="none")
    (where,) = fm.read_metadata(data).row_group(0).buckets
    assert data[: where.uncompressed_size] == ALL_NULL_PAGE + b"\0"
    assert fm.read_table(data)["x"].to_pylist() == [None, None]


def test_lists_whose_elements_are_not_scalars_stay_columns():
    table = MIXED.select(["id", "deep", "by name"])
    assert written(table) == written(table, array_layout="columns")
    assert fm.read_metadata(written(table)).format_version == 1


def test_the_default_is_columns():
    sink = io.BytesIO()
    fm.write_table(MIXED, sink)
    assert fm.read_metadata(sink.getvalue()).format_version == 1
    assert fm.read_metadata(written(MIXED)).format_version == 0x81


@pytest.mark.parametrize("element", FLAT_TYPES, ids=str)
@given(data=st.data(), compression=st.sampled_from([0, 1]), threshold=st.sampled_from([0, 32768]))
def test_the_bytes_are_those_of_the_oracle(element, data, compression, threshold):
    column_types = list_types(st.just(element))
    table = data.draw(
        tables(min_rows=1, max_rows=20, min_columns=1, max_columns=3, column_types=column_types)
    )
    options = {"page_size_threshold": threshold, "array_layout": "block", "max_dict_entries": 255}
    name = ["none", "zstd"][compression]
    ours = written(table, compression=name, compression_level=1, checksum=False, **options)
    batches = table.to_batches()
    assert ours == reference.encode_file(batches, table.schema, compression=compression, **options)
    assert_same(fm.read_table(ours), table)
    schema, decoded = reference.decode_file(ours)
    assert_same(pa.Table.from_batches(decoded, schema), table)


def test_kernels_keep_blocks_and_values_apart():
    kinds = bytes([Kind.ARRAY_BLOCK, Kind.INT8])
    columns = ArrowColumns(
        pa.record_batch({"x": pa.array([1], pa.int32()), "y": pa.array([7], pa.int8())})
    )
    encoded = encode([columns], [0, 1], kinds, bytes(2), bytes(2), 0, 0)
    assert encoded.page(0) is None
    encoded.put_block(0, b"block")
    assert bytes(encoded.page(0)) == bytes([reference.PLAIN, 0, 5]) + b"block"
    for flat in (0, 1):
        with pytest.raises(ValueError, match=f"a block of 3 bytes for column {flat}"):
            encoded.put_block(flat, b"two")
    with pytest.raises(IndexError):
        encoded.put_block(2, b"block")

    pages = Pages.from_monolithic(encoded.monolithic(b""), 0, kinds, bytes(2), [9, 1], 2, True)
    assert (bytes(pages.block(0)), pages.num_rows(0)) == (b"block", 9)
    assert pages.decode([1], [pa.int8()], [1], Memory())[0].to_pylist() == [7]
    with pytest.raises(ValueError, match="column 1 has no array data block"):
        pages.block(1)
    for ask in (
        lambda: pages.decode([0], [pa.int32()], [9], Memory()),
        lambda: pages.decode_lists(0, 9, Memory()),
        lambda: pages.measure([0], [9]),
        lambda: pages.check(0, 9),
        lambda: pages.skip(0, 9),
        lambda: pages.skip_lists(0, 9),
    ):
        with pytest.raises(ValueError, match="column 0 is an array data block"):
            ask()
    with pytest.raises(ValueError, match=f"kind {Kind.NESTED:d}"):
        encode([columns], [0], bytes([Kind.NESTED]), b"\0", b"\0", 0, 0)


# Both layouts


@given(tables(max_columns=6), write_options())
def test_both_layouts_give_the_same_table(table, options):
    one, other = (written(table, array_layout=name, **options) for name in ("block", "columns"))
    assert_same(fm.read_table(one), table)
    groups = [
        [fm.read_metadata(data).row_group(i).num_rows for i in range(number)]
        for data in (one, other)
        for number in [fm.read_metadata(data).num_row_groups]
    ]
    assert groups[0] == groups[1]


@pytest.mark.parametrize("compression", ["zstd", "none"])
@pytest.mark.parametrize("threshold", [None, 0])
@pytest.mark.parametrize("rows", [None, 2])
def test_some_columns_and_rows(compression, threshold, rows):
    data = written(
        MIXED,
        compression=compression,
        page_size_threshold=threshold,
        row_group_size=rows,
        num_buckets=2,
        write_statistics=True,
    )
    with fm.MosaicFile(data) as file:
        assert_same(file.read(), MIXED)
        for columns in (["texts"], ["nothing", "deep", "numbers"], ["prices", "id"]):
            assert_same(file.read(columns), MIXED.select(columns))
        some = file.read(["numbers"], filters=[("id", ">=", 5)])
        assert some["numbers"].to_pylist() == [[None], [9]]
        some = file.read(["id"], filters=pc.field("numbers").is_null())
        assert some["id"].to_pylist() == [2]
        assert file.read_row_group(0, ["texts"])["texts"].to_pylist()[:2] == [["a", "é"], None]
        batches = list(file.iter_batches(3, columns=["numbers"]))
        assert [x for batch in batches for x in batch["numbers"].to_pylist()] == LISTS


def test_a_row_group_of_many_batches_is_one_block():
    sink = io.BytesIO()
    with fm.MosaicWriter(
        sink, lists([]).schema, array_layout="block", compression="none", annex=False
    ) as w:
        for batch in lists([[0], *LISTS]).slice(1).to_batches(max_chunksize=2):
            w.write_batch(batch)
    assert sink.getvalue() == written(lists(LISTS), compression="none")


def test_what_is_hidden_under_a_null_list_is_not_stored():
    hiding = pa.ListArray.from_arrays(
        pa.array([0, 2, 4, 5], pa.int32()),
        pa.array([1, 2, 666, 666, 3], pa.int32()),
        mask=pa.array([False, True, False]),
    )
    table = pa.table({"x": hiding})
    assert written(table) == written(lists([[1, 2], None, [3]]))


@pytest.mark.parametrize(
    "arrow",
    [
        pa.large_list(pa.large_string()),
        pa.list_(pa.dictionary(pa.int8(), pa.string())),
        pa.list_(pa.string_view()),
        pa.list_(pa.string(), 2),
    ],
    ids=str,
)
def test_types_that_are_stored_as_lists_of_scalars(arrow):
    rows = [["a", "b"], None, ["c", "d"]]
    table = pa.table({"x": pa.array(rows, pa.list_(pa.string())).cast(arrow)})
    assert fm.read_table(written(table))["x"].to_pylist() == rows
    assert fm.read_metadata(written(table)).format_version == 0x81


def test_threads_make_no_difference():
    rows = pa.array([[i, None, i] for i in range(100_000)], pa.list_(pa.int64()))
    table = pa.table({f"c{i}": rows for i in range(4)})
    data = written(table, num_buckets=4)
    assert data == written(table, num_buckets=4, use_threads=False)
    assert fm.read_table(data).equals(table)


def test_a_data_set_may_have_files_of_both_layouts(tmp_path):
    for layout in ("block", "columns"):
        fm.write_dataset(MIXED, tmp_path, existing="append", array_layout=layout)
    table = fm.read_table(tmp_path)
    assert_same(table.slice(0, 7), MIXED)
    assert_same(table.slice(7), MIXED)


def test_metadata_of_a_file_with_blocks():
    metadata = fm.read_metadata(written(MIXED))
    assert metadata.format_version == metadata.to_dict()["format_version"] == 0x81
    assert metadata.schema.equals(MIXED.schema)
    assert pickle.loads(pickle.dumps(metadata)).to_dict() == metadata.to_dict()


# What cannot be written


def test_a_list_has_65535_elements_at_most(tmp_path):
    longest = lists([[7] * 65_535, []])
    assert fm.read_table(written(longest)).equals(longest)
    path = tmp_path / "file.mosaic"
    with pytest.raises(fm.UnsupportedError, match=r"column 'x': .*65,?53[56]"):
        fm.write_table(lists([[7] * 65_536]), path, array_layout="block")
    assert list(tmp_path.iterdir()) == []
    fm.write_table(lists([[7] * 65_536]), path)


def test_strings_must_be_utf8():
    broken = pa.array([[b"\xff"]], pa.list_(pa.binary())).view(pa.list_(pa.string()))
    with pytest.raises(ValueError, match=r"column 'x': .*UTF-8"):
        written(pa.table({"x": broken}))


def test_arrays_have_no_statistics():
    assert fm.read_metadata(written(MIXED, write_statistics=True)).row_group(
        0
    ).statistics.keys() == {"id"}
    with pytest.raises(fm.UnsupportedError, match=r"column 'numbers' has type list<item: int32>"):
        written(MIXED, write_statistics=["numbers"])


@pytest.mark.parametrize("layout", ["blocks", "", None])
def test_other_layouts_there_are_none(layout):
    with pytest.raises(
        ValueError, match=f"array_layout must be 'columns' or 'block', not {layout!r}"
    ):
        written(MIXED, array_layout=layout)


@pytest.mark.parametrize("layout", ["block", "columns"])
def test_elements_that_may_not_be_null(layout):
    arrow = pa.list_(pa.field("item", pa.int32(), nullable=False))
    good = pa.table({"x": pa.array([[1], None], arrow)})
    assert fm.read_table(written(good, array_layout=layout)).equals(good)
    bad = pa.table({"x": pa.array([[1, None]], pa.list_(pa.int32()))})
    sink = io.BytesIO()
    with (
        pytest.raises(fm.SchemaMismatchError, match="'x'"),
        fm.MosaicWriter(sink, good.schema, array_layout=layout) as writer,
    ):
        writer.write_table(bad)


# Who does not know blocks


def test_the_reference_refuses_a_file_with_blocks():
    data = written(MIXED)

    with pytest.raises(RuntimeError, match="unsupported version: 129"):
        their_reader(data)


# Damage


def forged(
    data: bytes, num_rows: int, flags: int = 0x0100, version: int = 0x81, descriptor=b"\xe0\1\0\3\1"
) -> bytes:
    """Return an uncompressed file with one list column `x` whose page has this data."""
    bucket = bytes([reference.PLAIN, 0]) + data
    body = b"\1\1\0" + b"\0" + sized(b"x") + descriptor + b"\0"
    entry = reference.Bucket(0, 0, len(bucket), len(bucket))
    index = reference.encode_row_group(reference.RowGroup(num_rows, [entry], []))
    schema = struct.pack(">I", len(body)) + body
    offsets = len(bucket) + len(schema), len(bucket)
    return (
        bucket + schema + index + reference.FOOTER.pack(*offsets, 1, 1, 0, version, flags, b"MOSA")
    )


def test_forged_files_are_sound_otherwise():
    assert fm.read_table(forged(sized(BLOCK), 7))["x"].to_pylist() == LISTS


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"flags": 0, "version": 1}, fm.CorruptFileError, "no flag"),
        ({"flags": 0x0300}, fm.UnsupportedError, "0x0200"),
        ({"flags": 0x8100}, fm.UnsupportedError, "0x8000"),
        ({"version": 1}, fm.CorruptFileError, "version 0x1 with flags 0x0100"),
        ({"version": 2}, fm.UnsupportedError, "version 2 .* is newer than this library"),
        ({"descriptor": b"\x14\1\0\3\1"}, fm.UnsupportedError, "STRUCT, of a later Mosaic version"),
        ({"flags": 0}, fm.CorruptFileError, "version 0x81"),
        ({"num_rows": 8}, fm.CorruptFileError, r"column 'x', .* 7 arrays, but there are 8 rows"),
        ({"data": sized(BLOCK[:-1])}, fm.CorruptFileError, r"column 'x', .*checksum"),
        ({"data": b"\0"}, fm.CorruptFileError, "column 'x', offset 0: "),
        ({"data": b"\1\0"}, fm.CorruptFileError, "column 'x', offset 0: "),
        ({"data": uv(len(BLOCK) + 1) + BLOCK}, fm.CorruptFileError, r"column 'x', .*ends before"),
        ({"descriptor": b"\xe0\1\0\4\1"}, fm.CorruptFileError, "column 'x', offset 0: "),
        ({"descriptor": b"\xe0\0\0\3\1"}, fm.CorruptFileError, "column 'x': there are 1 nulls"),
        (
            {"descriptor": b"\xe0\1\0\3\0"},
            fm.CorruptFileError,
            "column 'x', offset 0: there are 1 null elements",
        ),
        ({"descriptor": b"\xe0\1\0\x12\1\0\3\1"}, fm.CorruptFileError, "of lists or maps"),
        ({"descriptor": b"\xe0\1\0\xe0\1\0\3\1"}, fm.CorruptFileError, "of lists or maps"),
        ({"descriptor": b"\x12\1\0\xe0\1\0\3\1"}, fm.UnsupportedError, "inside a list or map"),
    ],
    ids=str,
)
def test_forgeries_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        fm.read_table(forged(**{"data": sized(BLOCK), "num_rows": 7} | arguments))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_rows": 8}, r"column 'x', .* 7 arrays, but there are 8 rows"),
        ({"data": sized(BLOCK[:-1])}, r"column 'x', .*checksum"),
        ({"descriptor": b"\xe0\1\0\4\1"}, "column 'x', offset 0: "),
        ({"descriptor": b"\xe0\1\0\3\0"}, "column 'x', offset 0: there are 1 null elements"),
    ],
    ids=str,
)
def test_forgeries_are_refused_wherever_the_wanted_rows_are(arguments, message):
    data = forged(**{"data": sized(BLOCK), "num_rows": 7} | arguments)
    with gathering(ALWAYS):
        assert fm.MosaicFile(forged(sized(BLOCK), 7)).take([4, 1])["x"].to_pylist() == [
            [5, 6, 7, 8],
            [],
        ]
        with pytest.raises(fm.CorruptFileError, match=message):
            fm.MosaicFile(data).take([4, 1])


def test_flags_that_a_reader_may_ignore():
    assert fm.read_table(forged(sized(BLOCK), 7, flags=0x01F0))["x"].to_pylist() == LISTS


@pytest.mark.parametrize("nested", [b"\xe0\1\0\x12\1\0\3\1", b"\x12\1\0\xe0\1\0\3\1"])
def test_descriptors_alone_are_checked_too(nested):
    with pytest.raises(REFUSED, match="array data block"):
        ColumnType.decode(nested)


@pytest.mark.parametrize(
    "flags", [b"\1\0", b"\2\0", b"\0\1"], ids=["constant", "dictionary", "nulls"]
)
def test_a_block_is_not_encoded_again(flags):
    data = flags + forged(sized(BLOCK), 7)[2:]
    with pytest.raises(
        fm.CorruptFileError, match="column 'x', offset 0: an array data block is not PLAIN"
    ):
        fm.read_table(data)


SMALL = {
    "monolithic": written(MIXED, compression="none", num_buckets=1),
    "monolithic_zstd": written(MIXED, num_buckets=1),
    "paged": written(MIXED, num_buckets=2, page_size_threshold=0),
    "unprotected": written(MIXED, num_buckets=2, page_size_threshold=0, checksum=False),
    "row_groups": written(MIXED.select(["id", "texts"]), row_group_size=3, compression="none"),
}


def read_or_refuse(data: bytes) -> pa.Table | None:
    try:
        table = fm.read_table(data, use_threads=False)
    except REFUSED:
        return None
    table.validate()
    return table


@pytest.mark.parametrize("data", SMALL.values(), ids=SMALL)
def test_every_truncation_is_refused(data):
    for length in range(len(data)):
        assert read_or_refuse(data[:length]) is None


@pytest.mark.parametrize("mask", [1, 0x80, 0xFF])
@pytest.mark.parametrize("data", SMALL.values(), ids=SMALL)
def test_every_changed_byte_is_refused_or_read(data, mask):
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= mask
        read_or_refuse(bytes(damaged))


@pytest.mark.parametrize("mask", [1, 2, 0x40, 0x80, 0xFF])
def test_no_changed_byte_of_a_block_goes_unnoticed(mask):
    file = forged(sized(BLOCK), 7)
    for position in range(2, 2 + len(sized(BLOCK))):
        damaged = bytearray(file)
        damaged[position] ^= mask
        assert read_or_refuse(bytes(damaged)) is None


TEXT_BLOCK = array_reference.encode([[b"ab", None], None, [b"", b"c"]], "binary")


@pytest.mark.parametrize("mask", [1, 2, 4, 8, 16, 32, 64, 128, 255])
@pytest.mark.parametrize(
    ("block", "num_rows", "descriptor"),
    [(BLOCK[:-4], 7, b"\xe0\1\0\3\1"), (TEXT_BLOCK, 3, b"\xe0\1\0\x0a\1")],
    ids=["numbers", "texts"],
)
def test_a_changed_block_with_a_right_checksum_is_what_the_oracle_reads(
    block, num_rows, descriptor, mask
):
    for position in range(len(block)):
        damaged = bytearray(block)
        damaged[position] ^= mask
        page = sized(array_reference.with_checksum(bytes(damaged)))
        data = forged(page, num_rows, descriptor=descriptor)
        table = read_or_refuse(data)
        if table is not None:
            _, (batch,) = reference.decode_file(data)
            assert table.to_pylist() == batch.to_pylist()


def nulls_block(num_rows: int) -> bytes:
    """A few bytes encode lists with 65,535 nulls each."""
    count = 65_535 * num_rows
    most = 2**30 - 1  # values of one run
    steps = [most] * (count // most) + [count % most]
    nulls = b"".join(uv(2 * step) + b"\0" for step in steps)
    sections = (nulls, uv(2 * num_rows) + b"\xff\xff", uv(2 * num_rows) + b"\1")
    block = uv(count) + uv(num_rows) + b"".join(map(sized, sections)) + bytes(8)
    return array_reference.with_checksum(block)


def test_blocks_of_nulls_are_read():
    data = forged(sized(nulls_block(3)), 3)
    assert [len(x) for x in fm.read_table(data)["x"].to_pylist()] == [65_535] * 3


def test_a_few_bytes_do_not_ask_for_all_memory():
    """Each list takes 256 KiB; its nulls are zeros."""
    data = forged(sized(nulls_block(1000)), 1000)
    before = pa.total_allocated_bytes()
    with pytest.raises(fm.MemoryLimitError, match="but the limit is 209,715,200") as caught:
        fm.read_table(data, memory_limit="200m")
    assert pa.total_allocated_bytes() <= before
    assert caught.value.size > 1000 * 65_535 * 4
    assert fm.read_table(data, memory_limit="300m").num_rows == 1000
    two = fm.MosaicFile(data, memory_limit="1m").take([3, 999])  # 512 KiB
    assert [len(x) for x in two["x"].to_pylist()] == [65_535] * 2


def test_more_elements_than_arrow_has_offsets_for():
    num_rows = 2**31 // 65_535 + 1
    with pytest.raises(REFUSED, match="Arrow's lists and strings are limited to 2147483647"):
        fm.read_table(forged(sized(nulls_block(num_rows)), num_rows), memory_limit="100t")


def test_many_columns_of_a_few_bytes_share_their_memory():
    """Each column would need 100 MiB, if its nulls were not the zeros of the others."""
    num_rows, num_columns = 400, 8
    schema = pa.schema([(f"c{i}", pa.list_(pa.int32())) for i in range(num_columns)])
    page = reference.Page(reference.PLAIN, num_rows, b"", b"", sized(nulls_block(num_rows)))
    bucket = reference.encode_monolithic([page] * num_columns, num_columns)
    blocks = pa.schema([field.with_type(reference.as_block(field.type)) for field in schema])
    body = reference.encode_schema(blocks, 1)
    entry = reference.Bucket(0, 0, len(bucket), len(bucket))
    index = reference.encode_row_group(reference.RowGroup(num_rows, [entry], []))
    data = bucket + struct.pack(">I", len(body)) + body
    footer = reference.FOOTER.pack(len(data), len(bucket), 1, 1, 0, 0x81, 0x0100, b"MOSA")
    data += index + footer
    table = fm.read_table(data, memory_limit="110m")
    assert all(column.null_count == 0 for column in table.columns)
    assert table.column("c3").chunk(0).values.null_count == num_rows * 65_535
    with pytest.raises(fm.MemoryLimitError, match="but the limit is 104,857,600"):
        fm.read_table(data, columns=["c3"], memory_limit="100m")


def test_null_columns_share_their_memory():
    num_rows = 1_000_000
    null = pa.nulls(num_rows, pa.list_(pa.int8()))
    data = written(pa.table({f"c{i}": null for i in range(20)}), num_buckets=1)
    before = pa.total_allocated_bytes()
    table = fm.read_table(data)
    assert table.num_rows == num_rows
    assert pa.total_allocated_bytes() - before < 2 * 4 * num_rows
    table.validate(full=True)

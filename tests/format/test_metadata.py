"""Footer, row group index and metadata: valid, damaged and hostile."""

import json
import pickle
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal

import pyarrow as pa
import pytest
import reference
from hypothesis import given, strategies as st
from reference import sized, uv

from fastmosaic.errors import CorruptFileError, UnsupportedError
from fastmosaic.format._index import walk_index, walk_statistics
from fastmosaic.format.bucket import Layout
from fastmosaic.format.column_statistics import ColumnStatistics
from fastmosaic.format.footer import Flag, Footer
from fastmosaic.format.index import Bucket, Statistic, encode_row_group, encode_statistics
from fastmosaic.format.metadata import FileMetaData
from fastmosaic.format.schema import SchemaBlock
from fastmosaic.format.types import ColumnType
from fastmosaic.format.wire import Compression

# Footer

FOOTER = Footer(1000, 900, 3, 7, Compression.ZSTD)
FILE_SIZE = 1100


def changed(offset, data):
    footer = bytearray(FOOTER.encode())
    footer[offset : offset + len(data)] = data
    return bytes(footer)


def test_a_footer_comes_back():
    encoded = FOOTER.encode()
    assert encoded == reference.FOOTER.pack(1000, 900, 3, 7, 1, 1, 0, b"MOSA")
    assert len(encoded) == Footer.SIZE == 32
    assert Footer.decode(b"bytes before it" + encoded, FILE_SIZE) == FOOTER
    assert Footer.decode(changed(24, b"\0"), FILE_SIZE).compression == Compression.NONE


def test_unknown_flags_of_the_lower_byte_do_not_count():
    footer = Footer.decode(changed(26, b"\0\xfe"), FILE_SIZE)
    assert footer == replace(FOOTER, flags=0xFE)
    assert (footer.version, footer.has_annex) == (1, False)
    assert Footer.decode(changed(26, b"\0\x01"), FILE_SIZE).has_annex


def test_flags_of_the_upper_byte_make_version_0x81():
    footer = replace(FOOTER, flags=Flag.ARRAY_BLOCKS | Flag.ANNEX)
    encoded = footer.encode()
    assert encoded[24:28] == b"\1\x81\1\1"
    assert Footer.decode(encoded, FILE_SIZE) == footer


@pytest.mark.parametrize("bit", range(9, 16))
def test_an_unknown_flag_of_the_upper_byte_is_refused_by_its_bit(bit):
    encoded = replace(FOOTER, flags=1 << bit | Flag.ARRAY_BLOCKS).encode()
    with pytest.raises(UnsupportedError, match=rf"bit {bit} \({1 << bit:#06x}\).*offset 1094"):
        Footer.decode(encoded, FILE_SIZE)


@pytest.mark.parametrize(
    ("version", "flags"), [(1, 0x0100), (0x81, 0x0000), (0x81, 0x00FF), (1, 0x8000)]
)
def test_version_and_flags_that_contradict_each_other_are_refused(version, flags):
    encoded = changed(25, bytes([version]) + flags.to_bytes(2, "big"))
    with pytest.raises(CorruptFileError, match=f"version {version:#x} with flags {flags:#06x}"):
        Footer.decode(encoded, FILE_SIZE)


def test_a_footer_at_the_edges_of_its_file():
    assert Footer.decode(FOOTER.encode(), 1032) == FOOTER
    edge = Footer(4, 0, 1, 0, Compression.NONE)
    assert Footer.decode(edge.encode(), 36) == edge


@pytest.mark.parametrize(
    ("tail", "file_size", "error", "message"),
    [
        (b"", 0, CorruptFileError, "not a Mosaic file: 0 bytes are too few, a footer has 32"),
        (FOOTER.encode()[1:], 31, CorruptFileError, "31 bytes are too few, a footer has 32"),
        (changed(31, b"a"), FILE_SIZE, CorruptFileError, "it does not end in 'MOSA'"),
        (bytes(32), FILE_SIZE, CorruptFileError, "it does not end in 'MOSA'"),
        (
            changed(25, b"\0"),
            FILE_SIZE,
            UnsupportedError,
            "version 0 at offset 1093 does not exist",
        ),
        (
            changed(25, b"\2"),
            FILE_SIZE,
            UnsupportedError,
            "version 2 at offset 1093 is newer than this",
        ),
        (changed(25, b"\x80"), FILE_SIZE, UnsupportedError, "reads versions 1 and 0x81"),
        (changed(25, b"\x82"), FILE_SIZE, UnsupportedError, "version 130 at .* is newer"),
        (
            changed(24, b"\2"),
            FILE_SIZE,
            UnsupportedError,
            "unknown compression 2 at offset 1092",
        ),
        (FOOTER.encode(), 1031, CorruptFileError, "at 900 and .* at 1000, .* file of 1031 bytes"),
        (changed(8, b"\xff"), FILE_SIZE, CorruptFileError, "schema block at 1837468647967"),
        (changed(0, b"\xff"), FILE_SIZE, CorruptFileError, "index at 1837468647967"),
        (
            changed(0, (903).to_bytes(8)),
            FILE_SIZE,
            CorruptFileError,
            "at 900 and .* at 903, which is impossible",
        ),
    ],
)
def test_a_broken_footer_is_refused(tail, file_size, error, message):
    with pytest.raises(error, match=message):
        Footer.decode(tail, file_size)


# The index: of each group its rows, buckets and statistics

INDEX_TYPES = [pa.int32(), pa.string(), pa.timestamp("ns"), pa.list_(pa.int8())]
INDEX_KINDS = bytes(ColumnType.from_arrow(pa.field("", t)).kind for t in INDEX_TYPES)
GROUPS = [
    reference.RowGroup(5, [reference.Bucket(0, 0, 10, 100), reference.Bucket(1, 10, 20, 0)], []),
    reference.RowGroup(
        300,
        [reference.Bucket(1, 70, 30, 1), reference.Bucket(0, 30, 40, 2**32 - 1)],
        [
            reference.Statistics(0, 299, b"\0\0\0\1", b"\0\0\0\2"),
            reference.Statistics(1, 300, b"", b""),
            reference.Statistics(1, 0, sized(b"a"), sized(b"b" * 200)),
            reference.Statistics(2, 7, bytes(12), b"\1" * 12),
            reference.Statistics(3, 300, b"", b""),
        ],
    ),
    reference.RowGroup(0, [], []),
]
INDEX = b"".join(map(reference.encode_row_group, GROUPS))


def rows_of(table, width):
    numbers = memoryview(table).cast("q").tolist()
    return [tuple(numbers[i : i + width]) for i in range(0, len(numbers), width)]


def walk(index, num_groups=3, num_buckets=2, data_end=100):
    groups, entries = walk_index(index, num_groups, num_buckets, INDEX_KINDS, data_end)
    return rows_of(groups, 6), rows_of(entries, 4)


def test_an_index():
    groups, entries = walk(INDEX)
    starts = [len(b"".join(map(reference.encode_row_group, GROUPS[:i]))) for i in range(1, 4)]
    assert groups == [
        (5, 0, 2, 1, starts[0] - 1, starts[0]),
        (300, 2, 2, 0, groups[1][4], starts[1]),
        (0, 4, 0, 1, starts[2] - 1, starts[2]),
    ]
    assert entries == [tuple(bucket) for group in GROUPS for bucket in group.buckets]

    start = groups[1][4]
    found = rows_of(walk_statistics(INDEX, start, 300, INDEX_KINDS), 5)
    expected = GROUPS[1].statistics
    assert [row[:2] for row in found] == [statistic[:2] for statistic in expected]
    values = [(INDEX[low:high], INDEX[high:end]) for *_, low, high, end in found]
    assert values == [statistic[2:] for statistic in expected]
    assert walk_statistics(INDEX, groups[0][4], 5, INDEX_KINDS) == b""


def test_an_empty_index():
    assert walk(b"", num_groups=0) == ([], [])


def test_every_truncation_of_an_index_is_a_fault():
    for size in range(len(INDEX)):
        with pytest.raises(ValueError, match=r"of (the )?index"):
            walk(INDEX[:size])
    start = walk(INDEX)[0][1][4]
    end = len(INDEX) - len(reference.encode_row_group(GROUPS[2]))
    for size in range(start, end):
        with pytest.raises(ValueError, match="of the index"):
            walk_statistics(INDEX[:size], start, 300, INDEX_KINDS)


HUGE = uv(2**32 - 1)
AT_0 = bytes(8)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (uv(1) + HUGE + uv(0), "more buckets than the file has, at byte 6"),
        (uv(1) + uv(3) + uv(0), "more buckets than the file has, at byte 2"),
        (uv(1) + uv(0) + HUGE, "the index ends inside an entry, at byte 7"),
        (uv(1) + uv(0) + uv(2) + b"\0", "the index ends inside an entry"),
        (uv(1) + uv(1) + uv(2) + AT_0 + uv(5) + uv(0) + uv(0), "bucket number is out of range"),
        (uv(1) + uv(1) + HUGE + AT_0 + uv(5) + uv(0) + uv(0), "bucket number is out of range"),
        (uv(1) + uv(1) + uv(0) + AT_0 + uv(0) + uv(0) + uv(0), "a bucket has 0 bytes"),
        (uv(1) + uv(1) + uv(0) + AT_0 + uv(0) + uv(7) + uv(0), "a bucket has 0 bytes"),
        (uv(1) + uv(1) + uv(0) + AT_0 + uv(101) + uv(0) + uv(0), "a bucket lies outside the data"),
        (
            uv(1) + uv(1) + uv(0) + bytes(7) + b"\x64" + uv(1) + uv(0) + uv(0),
            "a bucket lies outside the data",
        ),
        (
            uv(1) + uv(1) + uv(0) + b"\xff" * 8 + uv(1) + uv(0) + uv(0),
            "a bucket lies outside the data",
        ),
        (uv(1) + uv(0) + uv(1) + uv(4) + uv(0), "statistics of a column that does not exist"),
        (uv(1) + uv(0) + uv(1) + HUGE + uv(0), "statistics of a column that does not exist"),
        (
            uv(1) + uv(0) + uv(1) + uv(3) + uv(0) + AT_0,
            "statistics of a column that does not exist",
        ),
        (uv(1) + uv(0) + uv(1) + uv(0) + uv(2), "statistics count more nulls than rows"),
        (uv(1) + uv(0) + uv(1) + uv(0) + uv(0) + bytes(7), "a value in the statistics is cut off"),
        (
            uv(1) + uv(0) + uv(1) + uv(1) + uv(0) + HUGE + b"a",
            "a value in the statistics is cut off",
        ),
        (uv(1) + uv(0) + uv(0) + b"\0", "bytes follow the last row group, at byte 3"),
        (b"\xff" * 5 + uv(0) + uv(0), "the index ends inside an entry"),
    ],
)
def test_a_broken_index_says_what_is_wrong(index, message):
    with pytest.raises(ValueError, match=message):
        walk(index, num_groups=1)


def test_more_row_groups_than_the_index_has_bytes_for():
    with pytest.raises(ValueError, match="4294967295 row groups do not fit in 6 bytes of index"):
        walk(bytes(6), num_groups=2**32 - 1)
    assert len(walk(bytes(6), num_groups=2)[0]) == 2


@pytest.mark.parametrize("start", [-1, len(INDEX) + 1])
def test_statistics_start_inside_the_index(start):
    with pytest.raises(ValueError, match="statistics start outside the index"):
        walk_statistics(INDEX, start, 1, INDEX_KINDS)


@given(st.binary(max_size=60), st.integers(0, 5))
def test_arbitrary_bytes_of_an_index(index, num_groups):
    try:
        groups, entries = walk(index, num_groups, num_buckets=200, data_end=2**62)
    except ValueError:
        return
    stream = reference.BytesIO(index)
    expected = [reference.read_row_group(stream, INDEX_TYPES) for _ in range(num_groups)]
    assert stream.read() == b""
    assert [group[0] for group in groups] == [group.num_rows for group in expected]
    assert entries == [tuple(bucket) for group in expected for bucket in group.buckets]


# What `read_metadata` returns

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int32()),
        pa.field("at", pa.timestamp("ms")),
        pa.field("raw", pa.binary()),
        pa.field("name", pa.string()),
    ]
)  # by name: at, id, name, raw


def metadata(*groups, schema=SCHEMA, num_buckets=2, data_end=100, compression=Compression.ZSTD):
    index = b"".join(map(reference.encode_row_group, groups))
    footer = Footer(data_end + 50, data_end, num_buckets, len(groups), compression)
    return FileMetaData(footer, SchemaBlock.from_arrow(schema, num_buckets), index)


def group(num_rows, buckets=(), statistics=()):
    return reference.RowGroup(
        num_rows,
        [reference.Bucket(*bucket) for bucket in buckets],
        [reference.Statistics(*statistic) for statistic in statistics],
    )


def test_a_row_group_is_encoded_as_the_oracle_does():
    buckets = [(0, 5, 6, 7), (1, 2**40, 1, 0)]
    bounds = [(0, 3, b"\1" * 8, b"\2" * 8), (2, 300, b"", b"")]
    encoded = encode_row_group(
        300,
        [Bucket(*bucket[1:]) for bucket in buckets],
        len(bounds),
        encode_statistics(
            Statistic(position, count, a or None, b or None) for position, count, a, b in bounds
        ),
    )
    assert encoded == reference.encode_row_group(group(300, buckets, bounds))


def test_a_row_group_is_moved():
    """Buckets in any order, with gaps, follow each other in the same order; statistics stay."""
    bounds = [(0, 3, b"\1" * 8, b"\2" * 8), (2, 300, b"", b"")]
    others = group(7, [(0, 1, 2, 3)], [(1, 7, b"", b"")])
    moved = group(300, [(1, 70, 30, 9), (0, 10, 40, 0)], bounds)
    given = metadata(others, moved, others)
    expected = group(300, [(1, 2**40, 30, 9), (0, 2**40 + 30, 40, 0)], bounds)
    assert given.moved(1, 2**40) == reference.encode_row_group(expected)
    assert given.moved(0, 1) == reference.encode_row_group(others)
    assert metadata(group(3)).moved(0, 5) == reference.encode_row_group(group(3))


def test_the_size_of_a_row_group_before_compression():
    given = metadata(group(5, [(0, 0, 10, 99), (1, 10, 20, 0)]))
    assert given.decompressed_bytes_of(0) == 99 + 4 * 20  # what a paged bucket is taken for


def test_metadata_of_a_file():
    given = metadata(
        group(5, [(0, 0, 10, 99), (1, 10, 20, 0)]),
        group(6, [(1, 70, 30, 1), (0, 30, 40, 2)]),  # in any order
    )
    assert (given.num_rows, given.num_columns, given.num_row_groups) == (11, 4, 2)
    assert (given.num_buckets, given.compression, given.format_version) == (2, "zstd", 1)
    assert given.schema == SCHEMA
    assert (given.rows_of(1), given.bytes_of(1)) == (6, 70)
    assert given.bucket(0, 0) == Bucket(0, 10, 99)
    assert given.bucket(1, 0) == Bucket(30, 40, 2)
    assert given.bucket(1, 1) == Bucket(70, 30, 1)
    assert repr(given) == "<FileMetaData: 11 rows, 4 columns, 2 row groups, 2 buckets, zstd>"

    first, second = given.row_group(0).buckets
    assert (first.index, first.layout, first.uncompressed_size) == (0, Layout.MONOLITHIC, 99)
    assert (second.index, second.layout, second.uncompressed_size) == (1, Layout.PAGED, None)
    assert (first.columns, second.columns) == (["at", "id"], ["name", "raw"])
    assert given.row_group(1).total_compressed_size == 70


def test_metadata_of_a_file_without_rows_or_columns():
    given = metadata(schema=pa.schema([]), num_buckets=1)
    assert (given.num_rows, given.num_columns, given.num_row_groups) == (0, 0, 0)
    given = metadata(group(3), schema=pa.schema([]), num_buckets=1)
    assert given.row_group(0).to_dict()["num_rows"] == 3


@pytest.mark.parametrize("number", [-1, 1])
def test_a_row_group_that_is_not_there(number):
    with pytest.raises(IndexError, match=f"row group {number} does not exist: the file has 1"):
        metadata(group(5)).row_group(number)


@pytest.mark.parametrize(
    "buckets",
    [
        [(0, 0, 1, 1), (0, 0, 1, 1)],
        [(1, 0, 1, 1), (0, 0, 1, 1), (1, 0, 1, 1)],
        [(2, 0, 1, 1), (0, 0, 1, 1), (0, 0, 1, 1)],
    ],
)
def test_a_bucket_listed_twice_is_corrupt(buckets):
    with pytest.raises(CorruptFileError, match="row group 1: a bucket is listed twice"):
        metadata(group(5), group(5, buckets), num_buckets=3)


def test_a_bucket_that_is_not_listed_is_corrupt():
    given = metadata(group(5, [(0, 0, 10, 99)]))
    assert given.bucket(0, 0) == Bucket(0, 10, 99)
    with pytest.raises(CorruptFileError, match=r"row group 0, bucket 1: .*missing"):
        given.bucket(0, 1)


def test_a_paged_bucket_without_compression_is_corrupt():
    given = metadata(group(5, [(0, 0, 10, 10), (1, 10, 9, 0)]), compression=Compression.NONE)
    assert given.bucket(0, 0).layout == Layout.MONOLITHIC
    with pytest.raises(CorruptFileError, match="row group 0, bucket 1: the bucket is paged"):
        given.bucket(0, 1)


def test_a_broken_index_is_corrupt():
    with pytest.raises(CorruptFileError, match="a bucket lies outside the data, at byte 13 of the"):
        metadata(group(5, [(0, 0, 101, 99)]))


# Statistics

VALUES = [
    (pa.bool_(), b"\1", True),
    (pa.int8(), b"\xff", -1),
    (pa.int64(), b"\x80" + bytes(7), -(2**63)),
    (pa.float64(), bytes.fromhex("bff8000000000000"), -1.5),
    (pa.date32(), b"\0\0\0\1", date(1970, 1, 2)),
    (pa.time32("ms"), b"\0\0\3\xe8", time(0, 0, 1)),
    (pa.decimal128(9, 2), bytes(7) + b"\x81", Decimal("1.29")),
    (pa.string(), sized("é".encode()), "é"),
    (pa.int16(), b"\xff\xfe", -2),
    (pa.int32(), b"\x80" + bytes(3), -(2**31)),
    (pa.float32(), bytes.fromhex("3dcccccd"), 0.10000000149011612),
    (pa.date32(), (-719162).to_bytes(4, signed=True), date(1, 1, 1)),
    (pa.date32(), (2932896).to_bytes(4), date(9999, 12, 31)),
    (pa.time32("ms"), (86_399_999).to_bytes(4), time(23, 59, 59, 999_000)),
    (pa.timestamp("ms"), b"\xff" * 8, datetime(1969, 12, 31, 23, 59, 59, 999_000)),
    (pa.timestamp("us"), (86_400_000_001).to_bytes(8), datetime(1970, 1, 2, 0, 0, 0, 1)),
    (pa.timestamp("us", "UTC"), bytes(8), datetime(1970, 1, 1, tzinfo=UTC)),
    (pa.decimal128(18, -2), b"\xff" * 8, Decimal("-1E+2")),
    (pa.decimal128(5, 3), bytes(8), Decimal("0.000")),
    (pa.decimal128(20, 1), sized(b"\x7b"), Decimal("12.3")),
]


@pytest.mark.parametrize(("arrow", "encoded", "value"), VALUES, ids=str)
def test_statistics_are_python_values(arrow, encoded, value):
    schema = pa.schema([("x", arrow)])
    given = metadata(group(5, [], [(0, 4, encoded, encoded)]), schema=schema, num_buckets=1)
    statistics = given.row_group(0).statistics["x"]
    assert statistics == ColumnStatistics(4, value, value)
    assert statistics.has_min_max
    (together,) = given.row_group(0).statistics.values()
    assert together == statistics
    assert type(together.min) is type(statistics.min) is type(value)
    assert repr(together) == repr(statistics)
    assert list(given.statistics(0)) == [Statistic(0, 4, encoded, encoded)]
    (statistic,) = given.statistics(0)
    assert given.bounds(statistic) == (pa.scalar(value, arrow),) * 2


def shown(value):
    return value.value if isinstance(value, pa.Scalar) else repr(value)


@given(st.data())
def test_all_statistics_are_those_of_each(data):
    """Any bytes of the right size are a value; what Python lacks stays a scalar."""
    cases = [(arrow, len(encoded)) for arrow, encoded, _ in VALUES if arrow != pa.string()]
    cases += [(pa.timestamp("ns"), 12), (pa.timestamp("us", "Europe/Berlin"), 8)]
    chosen = data.draw(st.lists(st.sampled_from(cases), min_size=1, max_size=8))
    columns = []
    for position, (arrow, size) in enumerate(chosen):
        low, high = data.draw(st.tuples(*[st.binary(min_size=size, max_size=size)] * 2))
        if size == 12:  # nanoseconds of a date near 1970
            low, high = bytes(10) + low[-2:], b"\xff" * 8 + bytes(2) + high[-2:]
        if arrow == pa.decimal128(20, 1):
            low, high = sized(low[1:]), sized(high[1:])
        columns.append((position, 1, low, high))
    schema = pa.schema([(f"{i}", arrow) for i, (arrow, _) in enumerate(chosen)])
    file = metadata(group(5, [], columns), schema=schema, num_buckets=1)
    together = dict(file.row_group(0).statistics)
    assert list(together) == schema.names
    for name, (_, low, high) in together.items():
        alone = file.row_group(0).statistics[name]
        assert shown(low) == shown(alone.min)
        assert shown(high) == shown(alone.max)


def test_statistics_are_a_mapping():
    at = bytes(8)
    given = metadata(
        group(5, [], [(3, 5, b"", b""), (0, 1, at, at), (3, 2, sized(b"x"), sized(b"y"))])
    )
    statistics = given.row_group(0).statistics
    assert len(statistics) == 2
    assert "raw" in statistics
    assert "no column" not in statistics
    assert statistics.get("name") is None  # a column without statistics
    with pytest.raises(KeyError, match="no column"):
        statistics["no column"]
    assert statistics["raw"] == ColumnStatistics(2)  # the last one of two
    assert dict(statistics) == dict(statistics.items())
    assert statistics == {name: statistics[name] for name in statistics}
    assert repr(statistics) == repr(dict(statistics))
    assert pickle.loads(pickle.dumps(statistics)) == statistics
    assert given.columns_with_statistics(0) == {0, 3}


@pytest.mark.parametrize(
    ("arrow", "encoded"),
    [
        (pa.date32(), b"\x7f" * 4),
        (pa.timestamp("ms"), b"\x7f" * 8),
        (pa.timestamp("us", "not a zone"), b"\x7f" * 8),
    ],
)
def test_a_value_that_python_lacks_stays_a_scalar(arrow, encoded):
    schema = pa.schema([("x", arrow)])
    given = metadata(group(1, [], [(0, 0, encoded, encoded)]), schema=schema, num_buckets=1)
    bound = given.row_group(0).statistics["x"].min
    assert isinstance(bound, pa.Scalar)
    assert bound.value == int.from_bytes(encoded)


def test_statistics_of_nulls_and_of_types_without_order_have_no_bounds():
    at, binary = b"\0" * 8, sized(b"\xff")
    given = metadata(group(5, [], [(0, 5, b"", b""), (0, 1, at, at), (3, 2, binary, binary)]))
    nulls, bounds, raw = given.statistics(0)
    assert nulls == Statistic(0, 5, None, None)
    assert bounds == Statistic(0, 1, at, at)
    assert given.bounds(raw) == (None, None)
    statistics = given.row_group(0).statistics
    assert statistics["raw"] == ColumnStatistics(2)
    assert not statistics["raw"].has_min_max
    assert [s.position for s in given.statistics(0, positions={3})] == [3]


def test_statistics_that_break_their_type_are_corrupt():
    given = metadata(group(1, [], [(2, 0, sized(b"\xff"), sized(b"\xff"))]))
    statistics = given.row_group(0).statistics
    for decode in (list, lambda each: each["name"]):
        with pytest.raises(CorruptFileError, match="a string in the statistics is not UTF-8"):
            decode(statistics)


def test_metadata_as_a_dict_is_json():
    name = sized("é".encode())
    given = metadata(
        group(2, [(0, 0, 10, 99), (1, 10, 20, 0)], [(1, 1, bytes(4), bytes(4)), (2, 0, name, name)])
    )
    assert json.loads(json.dumps(given.to_dict())) == {
        "num_rows": 2,
        "num_columns": 4,
        "num_row_groups": 1,
        "num_buckets": 2,
        "compression": "zstd",
        "format_version": 1,
        "row_groups": [
            {
                "num_rows": 2,
                "num_columns": 4,
                "total_compressed_size": 30,
                "buckets": [
                    {
                        "index": 0,
                        "layout": "monolithic",
                        "offset": 0,
                        "compressed_size": 10,
                        "uncompressed_size": 99,
                        "num_columns": 2,
                    },
                    {
                        "index": 1,
                        "layout": "paged",
                        "offset": 10,
                        "compressed_size": 20,
                        "uncompressed_size": None,
                        "num_columns": 2,
                    },
                ],
                "statistics": {
                    "id": {"null_count": 1, "has_min_max": True, "min": 0, "max": 0},
                    "name": {"null_count": 0, "has_min_max": True, "min": "é", "max": "é"},
                },
            }
        ],
    }

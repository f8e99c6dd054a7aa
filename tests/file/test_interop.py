"""With paimon-mosaic, the Apache implementation: each reads what the other wrote.

It is imported plainly: without it these tests fail, they are not skipped.
"""

import datetime
import decimal
import io
import struct
from itertools import pairwise

import mosaic
import pyarrow as pa
import pytest
import reference
from files import their_reader, written as ours
from hypothesis import given, strategies as st
from strategies import assert_same, filtered_types, tables, write_options

import fastmosaic as fm


def theirs(table: pa.Table, **options) -> bytes:
    sink = io.BytesIO()
    mosaic.write_table(table, sink, mosaic.WriterOptions(**options))
    return sink.getvalue()


def read_by_them(data: bytes, columns=None) -> pa.Table:
    with their_reader(data) as reader:
        if columns is not None:
            reader.project(columns)
        return reader.read_all()


def read_by_us(data: bytes, **arguments) -> pa.Table:
    return fm.read_table(pa.py_buffer(data), **arguments)


def their_statistics(data: bytes) -> list[dict[str, tuple[int, bytes | None, bytes | None]]]:
    with their_reader(data) as reader:
        return [
            {
                name: (entry.null_count, entry.min, entry.max)
                for name, entry in reader.get_row_group_statistics(i).items()
            }
            for i in range(reader.num_row_groups)
        ]


def their_options() -> st.SearchStrategy[dict[str, object]]:
    return st.fixed_dictionaries(
        {},
        optional={
            "compression": st.sampled_from([0, 1]),
            "zstd_level": st.sampled_from([1, 3, 9]),
            "num_buckets": st.sampled_from([1, 2, 7, 40, 1000]),
            "row_group_max_size": st.sampled_from([1, 500, 1 << 28]),
            "max_dict_total_bytes": st.sampled_from([0, 10, 32768]),
            "max_dict_entries": st.sampled_from([0, 2, 255, 1000]),
            "page_size_threshold": st.sampled_from([0, 1, 64, 32768]),
        },
    )


@given(tables(), write_options())
def test_they_read_what_we_wrote(table, options):
    assert_same(read_by_them(ours(table, **options)), table)


@given(tables(), their_options())
def test_we_read_what_they_wrote(table, options):
    assert_same(read_by_us(theirs(table, **options)), table)


@given(st.data(), tables(min_columns=1), write_options())
def test_they_read_some_of_our_columns(data, table, options):
    columns = data.draw(st.lists(st.sampled_from(table.column_names), unique=True))
    assert_same(read_by_them(ours(table, **options), columns), table.select(columns))


@given(st.data(), tables(min_columns=1), their_options())
def test_we_read_some_of_their_columns(data, table, options):
    columns = data.draw(st.lists(st.sampled_from(table.column_names), unique=True))
    assert_same(read_by_us(theirs(table, **options), columns=columns), table.select(columns))


@given(tables(), their_options())
def test_with_the_same_options_we_write_the_same_blocks(table, options):
    names = {
        "zstd_level": "compression_level",
        "row_group_max_size": "row_group_bytes",
    }
    compression = ["none", "zstd"][options.get("compression", 1)]
    same = {"page_size_threshold": 32768, "max_dict_entries": 255} | {
        names.get(name, name): value for name, value in options.items() if name != "compression"
    }
    # So few rows that we, too, keep a batch in one piece, whatever the size of row groups.
    few = table.slice(0, 64)
    sink = io.BytesIO()
    with fm.MosaicWriter(sink, few.schema, compression=compression, **same) as writer:
        for batch in few.to_batches():
            writer.write_batch(batch)
    assert reference.decode_blocks(sink.getvalue()) == reference.decode_blocks(
        theirs(few, **options)
    )


WIDE = pa.table(
    {
        f"column_{i:02}": pa.array(
            [None if (row + i) % 7 == 0 else f"value {row * i % 50}" for row in range(200)]
        )
        for i in range(20)
    }
)


@pytest.mark.parametrize("num_buckets", [1, 2, 19, 20, 21, 100])
@pytest.mark.parametrize("page_size_threshold", [None, 0, 64, 32768])
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_they_read_any_number_of_buckets_in_any_layout(
    num_buckets, page_size_threshold, compression
):
    data = ours(
        WIDE,
        num_buckets=num_buckets,
        page_size_threshold=page_size_threshold,
        compression=compression,
    )
    assert_same(read_by_them(data), WIDE)
    assert_same(read_by_them(data, ["column_13", "column_02"]), WIDE.select([13, 2]))


@pytest.mark.parametrize("num_buckets", [1, 2, 19, 20, 21, 100])
@pytest.mark.parametrize("page_size_threshold", [0, 64, 32768])
@pytest.mark.parametrize("compression", [0, 1])
def test_we_read_any_number_of_buckets_in_any_layout(num_buckets, page_size_threshold, compression):
    data = theirs(
        WIDE,
        num_buckets=num_buckets,
        page_size_threshold=page_size_threshold,
        compression=compression,
    )
    assert_same(read_by_us(data), WIDE)
    assert_same(read_by_us(data, columns=["column_13", "column_02"]), WIDE.select([13, 2]))


@pytest.mark.parametrize("level", [-5, 1, 3, 9, 19, 22])
@pytest.mark.parametrize("checksum", [True, False])
def test_they_read_every_level_with_and_without_checksums(level, checksum):
    data = ours(WIDE, compression_level=level, checksum=checksum)
    assert_same(read_by_them(data), WIDE)


@pytest.mark.parametrize("distinct", [2, 3, 4, 5, 16, 17, 255, 256, 257, 1000, 4097, 70_000])
@pytest.mark.parametrize("page_size_threshold", [0, 1 << 30])
def test_both_read_indices_of_any_width(distinct, page_size_threshold):
    rows = 3 * distinct + 5
    table = pa.table(
        {
            "int": pa.array([i % distinct * 1_000_003 for i in range(rows)], pa.int64()),
            "text": [None if i % 11 == 0 else f"text {i % distinct:06}" for i in range(rows)],
        }
    )
    options = {"max_dict_entries": 1 << 20, "max_dict_total_bytes": 1 << 30}
    layout = {"page_size_threshold": page_size_threshold}
    assert_same(read_by_them(ours(table, **options, **layout)), table)
    assert_same(read_by_us(theirs(table, **options, **layout)), table)


@given(tables(min_columns=1, max_columns=6, column_types=filtered_types()), st.integers(1, 3))
def test_statistics_are_those_that_they_write(table, num_pieces):
    size = -(-table.num_rows // num_pieces) or 1
    ends = [*range(0, table.num_rows, size), table.num_rows]
    pieces = [table.slice(a, b - a).combine_chunks() for a, b in pairwise(ends)]
    our_sink, their_sink = io.BytesIO(), io.BytesIO()
    options = mosaic.WriterOptions(row_group_max_size=1, stats_columns=table.column_names)
    with (
        fm.MosaicWriter(
            our_sink, table.schema, row_group_size=size, write_statistics=True
        ) as our_writer,
        mosaic.MosaicWriter(their_sink, table.schema, options) as their_writer,
    ):
        for piece in pieces:
            our_writer.write_table(piece)
            their_writer.write(piece)
    assert their_statistics(our_sink.getvalue()) == their_statistics(their_sink.getvalue())


@pytest.mark.parametrize(
    ("type", "nan"),
    [
        (pa.float32(), 0x7F800001),
        (pa.float32(), 0x7FC00000),
        (pa.float64(), 0x7FF0000000000001),
        (pa.float64(), 0x7FF8000000000000),
    ],
    ids=["signalling float32", "quiet float32", "signalling float64", "quiet float64"],
)
def test_a_nan_after_the_first_value_is_not_in_the_statistics(type, nan):
    odd = pa.array([nan], pa.uint32() if type.bit_width == 32 else pa.uint64()).view(type)
    values = pa.concat_arrays([pa.array([-5], type), odd, pa.array([0, 1], type), odd])
    table = pa.table({"a": values})
    data = ours(table, write_statistics=True)
    assert their_statistics(data) == their_statistics(theirs(table, stats_columns=["a"]))
    assert read_by_us(data, filters=[("a", "<", -1.0)]).num_rows == 1


def test_we_read_their_statistics_as_values_of_the_type():
    nan = struct.unpack(">d", bytes.fromhex("7ff8000000000001"))[0]
    table = pa.table(
        {
            "bool": pa.array([True, False, None]),
            "date": pa.array([datetime.date(2020, 1, 2), None, datetime.date(1960, 5, 6)]),
            "decimal": pa.array(
                [decimal.Decimal("-1.50"), decimal.Decimal("2.25"), None], pa.decimal128(9, 2)
            ),
            "float": pa.array([1.5, nan, -2.5], pa.float64()),
            "int": pa.array([5, -7, None], pa.int64()),
            "none": pa.nulls(3, pa.int32()),
            "text": pa.array(["é", "", "z"]),
            "time": pa.array([datetime.time(1, 2, 3), None, None], pa.time32("ms")),
            "when": pa.array([1_500_000, -1, None], pa.timestamp("us")),
            "zoned": pa.array([None, 3_000, 1_000], pa.timestamp("ms", "UTC")),
        }
    )
    data = theirs(table, stats_columns=table.column_names)
    statistics = fm.read_metadata(pa.py_buffer(data)).row_group(0).statistics
    epoch = datetime.datetime(1970, 1, 1)
    utc = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    assert {name: (s.null_count, s.min, s.max) for name, s in statistics.items()} == {
        "bool": (1, False, True),
        "date": (1, datetime.date(1960, 5, 6), datetime.date(2020, 1, 2)),
        "decimal": (1, decimal.Decimal("-1.50"), decimal.Decimal("2.25")),
        "float": (0, -2.5, 1.5),
        "int": (1, -7, 5),
        "none": (3, None, None),
        "text": (0, "", "é"),
        "time": (2, datetime.time(1, 2, 3), datetime.time(1, 2, 3)),
        "when": (
            1,
            epoch - datetime.timedelta(microseconds=1),
            epoch + datetime.timedelta(seconds=1, microseconds=500_000),
        ),
        "zoned": (1, utc + datetime.timedelta(seconds=1), utc + datetime.timedelta(seconds=3)),
    }
    assert not statistics["none"].has_min_max


def estimates(table: pa.Table, batch_rows: int, **options) -> tuple[list[int], list[int]]:
    """The estimated size of the file after each batch, by our writer and by theirs."""
    compression = {"compression": ["none", "zstd"][options.get("compression", 1)]}
    same = {"row_group_bytes": options.get("row_group_max_size", 1 << 28)}
    our_writer = fm.MosaicWriter(
        io.BytesIO(),
        table.schema,
        **compression,
        **same,
        page_size_threshold=options.get("page_size_threshold", 32768),
        max_dict_entries=255,
        checksum=False,
        annex=False,
    )
    their_writer = mosaic.MosaicWriter(io.BytesIO(), table.schema, mosaic.WriterOptions(**options))
    our_sizes, their_sizes = [], []
    for batch in table.to_batches(max_chunksize=batch_rows):
        our_writer.write_batch(batch)
        their_writer.write(batch)
        our_sizes.append(our_writer.estimated_file_size())
        their_sizes.append(their_writer.estimated_file_size())
    our_writer.abandon()
    their_writer.close()
    return our_sizes, their_sizes


@given(tables(min_rows=1, min_columns=1), st.sampled_from([1, 400, 1 << 28]))
def test_the_estimated_size_without_compression_is_theirs(table, row_group_max_size):
    few = table.slice(0, 60)
    one, other = estimates(few, 10, compression=0, row_group_max_size=row_group_max_size)
    assert one == other


@given(tables(min_rows=1, min_columns=1))
def test_the_estimated_size_before_the_first_row_group_is_theirs(table):
    one, other = estimates(table, 100)
    assert one == other


@pytest.mark.parametrize("page_size_threshold", [0, 32768])
def test_the_estimated_size_learns_the_compression_of_former_row_groups(page_size_threshold):
    table = pa.table({"a": [f"{i % 97} and more" for i in range(3000)], "b": range(3000)})
    one, other = estimates(
        table, 100, row_group_max_size=5000, page_size_threshold=page_size_threshold
    )
    assert one == pytest.approx(other, rel=0.01)
    assert len(set(one)) == len(one)

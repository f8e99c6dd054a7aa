"""verify: sound files pass, and no change of a file goes unnoticed."""

import io
import random
import struct

import pyarrow as pa
import pytest
import reference
from forged_annex import forged
from small_files import FILES as VERSION_1, MANY_NAMES, NESTED, SCALARS, TYPED

import fastmosaic as fm


def written(rows: pa.Table | pa.RecordBatch, **options) -> bytes:
    sink = io.BytesIO()
    table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
    fm.write_table(table, sink, **options)
    return sink.getvalue()


def flipped(data: bytes, position: int, mask: int = 0x10) -> bytes:
    damaged = bytearray(data)
    damaged[position] ^= mask
    return bytes(damaged)


NOTED = pa.table(
    {"a": pa.array([b"0123456789abcdef", None], pa.uuid())},
    schema=pa.schema([pa.field("a", pa.uuid(), metadata={"k": "v"})], {"m": "n"}),
)
FILES = {
    "monolithic": written(SCALARS, num_buckets=2, write_statistics=True),
    "paged": written(SCALARS, num_buckets=2, page_size_threshold=1),
    "nested": written(NESTED, num_buckets=1),
    "nested paged": written(NESTED, num_buckets=1, page_size_threshold=1),
    "names": written(MANY_NAMES),
    "row groups": written(
        SCALARS, row_group_size=7, num_buckets=1, write_statistics=["number", "color"]
    ),
    "metadata": written(NOTED),
    "types": written(TYPED, num_buckets=2, write_statistics=["info", "took", "big"]),
    "types without compression": written(TYPED, compression="none", row_group_size=2),
    "no compression": written(SCALARS, compression="none", num_buckets=3),
    "no rows": written(pa.table({"a": pa.array([], pa.int8())})),
    "no columns": written(pa.table({})),
}
every_file = pytest.mark.parametrize("data", FILES.values(), ids=FILES)


@every_file
def test_a_sound_file_has_no_problem(data):
    report = fm.verify(data)
    assert report.problems == ()
    assert report.ok
    assert report.unverified == ()
    assert report.num_rows == fm.read_metadata(data).num_rows
    assert report.num_bytes == len(data)
    assert any(text.startswith("annex: ") for text in report.checked)
    assert any(text.startswith("blocks: ") for text in report.checked)


@every_file
def test_no_changed_byte_goes_unnoticed(data):
    masks = random.Random(len(data))
    for position in range(len(data)):
        for mask in (1 << masks.randrange(8), 0xFF):
            assert not fm.verify(flipped(data, position, mask)).ok, (position, mask)


def test_no_changed_bit_of_a_larger_file_goes_unnoticed():
    values = random.Random(5)
    table = pa.table(
        {f"c{i}": [values.choice(["red", "green", "é" * 9, None]) for _ in range(4000)] for i in range(9)}
        | {"numbers": [values.getrandbits(60) for _ in range(4000)]}
    )  # fmt: skip
    data = written(table, row_group_size=1500, num_buckets=3)
    assert fm.verify(data).ok
    for _ in range(60):
        position, bit = values.randrange(len(data)), values.randrange(8)
        assert not fm.verify(flipped(data, position, 1 << bit)).ok, (position, bit)


def test_a_block_longer_than_its_window_is_verified_whole():
    # Its frame says how large a window it needs, and a larger one does no harm.
    data = written(pa.table({"a": [random.Random(i).randbytes(40_000) for i in range(30)]}))
    assert data[4] & 0x20 == 0
    for bit in range(8):
        assert not fm.verify(flipped(data, 5, 1 << bit)).ok


@every_file
def test_no_truncation_goes_unnoticed(data):
    for length in range(0, len(data), 3):
        assert not fm.verify(data[:length]).ok
        assert not fm.verify(data[len(data) - length :]).ok


# ---- what is reported


def test_a_problem_says_where_it_is():
    table = pa.table({f"c{i}": range(100) for i in range(4)})
    data = written(table, num_buckets=2, row_group_size=50)
    bucket = fm.read_metadata(data).row_group(1).buckets[1]
    report = fm.verify(flipped(data, bucket.offset + 12))
    (problem,) = report.problems
    assert (problem.row_group, problem.bucket, problem.offset) == (1, 1, bucket.offset)
    assert str(problem).startswith(f"row group 1, bucket 1, offset {bucket.offset}: zstd: ")
    assert not report.ok


def test_a_page_is_blamed_by_its_column():
    table = pa.table({f"c{i}": range(100) for i in range(4)})
    data = written(table, num_buckets=1, page_size_threshold=0)
    last = fm.read_metadata(data).row_group(0).total_compressed_size - 6
    (problem,) = fm.verify(flipped(data, last)).problems
    assert (problem.row_group, problem.bucket, problem.column) == (0, 0, "c3")


def test_all_problems_are_reported():
    table = pa.table({f"c{i}": range(100) for i in range(4)})
    data = written(table, num_buckets=2, row_group_size=50)
    metadata = fm.read_metadata(data)
    for group, number in ((0, 0), (0, 1), (1, 0)):
        data = flipped(data, metadata.row_group(group).buckets[number].offset + 12)
    places = [(problem.row_group, problem.bucket) for problem in fm.verify(data).problems]
    assert places == [(0, 0), (0, 1), (1, 0)]


def test_damage_that_changes_no_value_is_noticed_by_row_group():
    data = written(pa.table({"a": range(100)}), row_group_size=50)
    place = fm.read_metadata(data).row_group(1).buckets[0].offset
    damaged = flipped(data, place + 4)
    assert fm.read_table(damaged).equals(pa.table({"a": range(100)}))
    (problem,) = fm.verify(damaged).problems
    assert (problem.row_group, problem.offset) == (1, place)
    assert "do not match the checksum" in problem.message


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        (
            (7).to_bytes(8, "big"),
            "column 'a', offset 0: there are values outside the bounds of the statistics",
        ),
        ((9).to_bytes(8, "big"), None),
        ((10).to_bytes(8, "big"), None),
    ],
)
def test_statistics_are_compared_with_the_values(stated, message):
    data = written(
        pa.table({"a": [1, None, 9]}), write_statistics=["a"], annex=False, compression="none"
    )
    place = data.rindex((9).to_bytes(8, "big"))
    report = fm.verify(data[:place] + stated + data[place + 8 :])
    assert [str(problem) for problem in report.problems] == (
        [] if message is None else [f"row group 0, bucket 0, {message}"]
    )


def test_a_wrong_null_count_is_reported():
    data = written(
        pa.table({"a": [1, None, 9]}), write_statistics=["a"], annex=False, compression="none"
    )
    place = data.rindex((1).to_bytes(8, "big")) - 1
    assert data[place] == 1
    (problem,) = fm.verify(flipped(data, place, 3)).problems
    assert problem.message == "there are 1 nulls, but the statistics say 2"
    assert problem.column == "a"


def test_bytes_that_belong_to_no_block_are_reported():
    data = written(pa.table({"a": [1, 2]}), annex=False)
    index_at, schema_at = struct.unpack(">QQ", data[-32:-16])
    footer = struct.pack(">QQ", index_at + 5, schema_at + 5) + data[-16:]
    (problem,) = fm.verify(data[:schema_at] + b"spare" + data[schema_at:-32] + footer).problems
    assert (problem.offset, problem.message) == (schema_at, "5 bytes do not belong to any block")


def test_bytes_that_nothing_refers_to_are_reported():
    data = reference.encode_file([SCALARS], SCALARS.schema, num_buckets=2, compression=0)
    index_at, schema_at = struct.unpack(">QQ", data[-32:-16])
    size = int.from_bytes(data[schema_at : schema_at + 4], "big")
    padded = (size + 3).to_bytes(4, "big") + data[schema_at + 4 : index_at] + b"abc"
    footer = struct.pack(">QQ", index_at + 3, schema_at) + data[-16:]
    report = fm.verify(data[:schema_at] + padded + data[index_at:-32] + footer)
    (problem,) = report.problems
    assert problem.part == "schema block"
    assert problem.message == "3 bytes after the columns do not belong to anything"


def test_elements_that_no_list_contains_are_reported():
    table = pa.table({"a": pa.array([[1], [2, 3]], pa.list_(pa.int8()))})
    data = written(table, compression="none", annex=False, use_dictionary=False)
    # columns, children, their rows, encodings, nulls, lengths, elements
    bucket = bytes.fromhex("01 01 03 00 00 00000001 00000002 010203")
    assert data.startswith(bucket)
    fewer = bytes.fromhex("01 01 03 00 00 00000001 00000001 010203") + data[len(bucket) :]
    assert fm.read_table(fewer).column("a").to_pylist() == [[1], [2]]
    (problem,) = fm.verify(fewer).problems
    assert problem.message == "1 elements are stored that no list contains"
    assert problem.column == "a"


def test_restored_types_are_checked():
    data = written(TYPED, row_group_size=2, num_buckets=3)
    assert "types: the values of 10 columns fit the types in the annex" in fm.verify(data).checked
    assert not any(text.startswith("types") for text in fm.verify(data, deep=False).checked)
    assert not any(text.startswith("types") for text in fm.verify(written(SCALARS)).checked)


def test_damage_of_dictionaries_is_reported_there():
    data = written(TYPED)
    offset, size = fm.read_metadata(data).dictionaries
    (problem,) = fm.verify(flipped(data, offset + 12)).problems
    assert str(problem).startswith(f"dictionaries, row group 0, bucket 0, offset {offset}: zstd: ")
    for deep in (True, False):
        problems = fm.verify(flipped(data, offset + size - 40), deep=deep).problems
        assert problems[0].part == "dictionaries, annex"
        assert all(offset <= problem.offset < offset + size for problem in problems)


def test_lists_of_a_fixed_size_that_are_null_are_verified_in_little_memory():
    # As embeddings that most rows lack; restored together they would take 6 GB.
    rows = pa.nulls(1_000_000, pa.list_(pa.float32()))
    some = pa.array([[1.0] * 1536], pa.list_(pa.float32()))
    stored = pa.table({"a": pa.concat_arrays([some, rows])})
    data = forged(stored, pa.schema([("a", pa.list_(pa.float32(), 1536))]))
    report = fm.verify(data)
    assert report.problems == ()
    batch = next(fm.MosaicFile(data).iter_batches(1000))
    assert batch.column(0).to_pylist()[:2] == [[1.0] * 1536, None]


def test_a_file_of_version_1_says_what_could_not_be_verified():
    for options, missing in (
        ({"compression": 1}, "values: 3 of 3 blocks have no checksum"),
        ({"compression": 0}, "values: blocks have no checksums without compression"),
    ):
        data = reference.encode_file([SCALARS], SCALARS.schema, num_buckets=2, **options)
        report = fm.verify(data)
        assert report.ok
        assert missing in report.unverified
        assert report.unverified[0].startswith("row group index and footer: there is no annex")
        assert f"not verified: {missing}" in str(report)


def test_pages_without_checksums_are_counted():
    data = written(SCALARS, num_buckets=1, page_size_threshold=1, checksum=False, annex=False)
    # Ten columns, of which the one of nulls has no page; and the schema block.
    assert "values: 10 of 10 blocks have no checksum" in fm.verify(data).unverified


def test_checksums_of_zstd_are_enough_for_values():
    report = fm.verify(written(SCALARS, num_buckets=2, annex=False))
    assert "blocks: zstd checksums of 3 blocks" in report.checked
    assert not any(text.startswith("values: ") for text in report.unverified)


def test_a_shallow_check_reads_no_data():
    data = written(SCALARS, num_buckets=1)
    report = fm.verify(flipped(data, 12), deep=False)
    assert report.ok
    assert report.unverified == ("data: not read because of deep=False",)
    assert not fm.verify(flipped(data, len(data) - 20), deep=False).ok


def test_a_path_is_verified(tmp_path):
    path = tmp_path / "t.mosaic"
    path.write_bytes(FILES["monolithic"])
    report = fm.verify(path)
    assert report.ok
    assert str(report).splitlines()[0] == f"{path}: no problem"
    path.write_bytes(flipped(FILES["monolithic"], 10))
    assert str(fm.verify(path)).splitlines()[0] == f"{path}: 1 problem"
    with pytest.raises(FileNotFoundError):
        fm.verify(tmp_path / "nowhere")


def test_something_else_is_no_mosaic_file():
    for data in (b"", b"MOSA", b"x" * 100):
        (problem,) = fm.verify(data).problems
        assert problem.message.startswith("not a Mosaic file")


@pytest.mark.parametrize("data", VERSION_1.values(), ids=VERSION_1)
def test_damage_of_a_file_without_checksums_is_reported_or_not_but_never_raised(data):
    assert fm.verify(data).ok
    for position in range(len(data)):
        for mask in (0x01, 0x80):
            assert isinstance(fm.verify(flipped(data, position, mask)).ok, bool)

"""Small tables, and small files of every layout: what tests damage byte by byte."""

import pyarrow as pa
import reference

SCALARS = pa.record_batch(
    {
        "all null": pa.nulls(12, pa.int64()),
        "color": ["red", "green", "blue"] * 4,
        "constant": pa.array([7, None] * 6, pa.int16()),
        "decimal": pa.array([128, -128, -129, None] * 3, pa.decimal128(20, 0)),
        "flag": [True, False, None] * 4,
        "nanos": pa.array([-1, None, 1_500_000] * 4, pa.timestamp("ns", "UTC")),
        "number": pa.array(range(12), pa.int32()),
        "raw": pa.array([bytes([i]) * i for i in range(12)], pa.binary()),
        "text": [None if i % 5 == 0 else "é" * i for i in range(12)],
        "time": pa.array([i * 1000 for i in range(12)], pa.time32("ms")),
    }
)
NESTED = pa.record_batch(
    {
        "id": pa.array([1, 2, 3, 4], pa.int32()),
        "m": pa.array(
            [[("x", [1, 2]), ("y", None)], [], None, [("z", [])]],
            pa.map_(pa.string(), pa.list_(pa.int32())),
        ),
        "tags": pa.array([["a", "b"], None, [], ["c", None]], pa.list_(pa.string())),
    }
)
MANY_NAMES = pa.record_batch(
    {f"{letter}pressure": pa.array([1, 2], pa.int8()) for letter in "eacbd"}
)
INFO = pa.struct([("name", pa.large_string()), pa.field("n", pa.uint8(), nullable=False)])
KIND = pa.dictionary(pa.int8(), pa.string(), ordered=True)
TYPED = pa.record_batch(
    {
        "big": pa.array([2**64 - 1, None, 0, 7], pa.uint64()),
        "fixed": pa.array([[1, 2], None, [None, 4], [5, 6]], pa.list_(pa.float16(), 2)),
        "info": pa.array([{"name": "é", "n": 1}, None, {"name": None, "n": 255}, None], INFO),
        "items": pa.array([[{"name": "a", "n": 2}, None], None, [], [None]], pa.list_(INFO)),
        "kind": pa.DictionaryArray.from_arrays(
            pa.array([2, 0, None, 2], pa.int8()), pa.array(["z", "unused", "a"]), ordered=True
        ),
        "kinds": pa.array([["b"], None, ["a", "b"], []], pa.list_(KIND)),
        "map": pa.array(
            [[("k", {"name": "v", "n": 0})], [], None, [("l", None)]], pa.map_("string", INFO)
        ),
        "none": pa.nulls(4),
        "span": pa.array(
            [(1, -2, 3), None, (0, 0, 0), (-1, 0, 2**60)], pa.month_day_nano_interval()
        ),
        "took": pa.array([1, -1, None, 2**40], pa.duration("us")),
    }
)  # types that only the annex restores
STATISTICS = {"row_group_max_size": 1, "stats_columns": ["color", "number", "nanos", "all null"]}


def encoded(*batches: pa.RecordBatch, **options) -> bytes:
    return reference.encode_file(batches, batches[0].schema, **options)


FILES = {
    "monolithic": encoded(SCALARS, compression=0, num_buckets=2),
    "monolithic_zstd": encoded(SCALARS, num_buckets=1),
    "paged": encoded(SCALARS, num_buckets=2, page_size_threshold=1),
    "nested": encoded(NESTED, compression=0, num_buckets=1),
    "nested_paged": encoded(NESTED, num_buckets=1, page_size_threshold=1),
    "statistics": encoded(SCALARS, SCALARS.slice(3), compression=0, num_buckets=1, **STATISTICS),
    "blocks": encoded(NESTED, compression=0, num_buckets=1, array_layout="block"),
    "blocks_paged": encoded(NESTED, page_size_threshold=1, array_layout="block"),
    "names": encoded(MANY_NAMES, compression=0, num_buckets=1),
}

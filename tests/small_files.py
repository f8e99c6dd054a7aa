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

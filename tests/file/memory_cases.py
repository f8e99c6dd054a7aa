"""Reads tables of every type and encoding, and prints the memory that each takes, as JSON.

Run by test_memory.py in a process of its own, whose peak can be reset.
"""

import ctypes
import functools
import gc
import itertools
import json
import sys

import pyarrow as pa
import pyarrow.compute as pc

import fastmosaic as fm
from fastmosaic.file.stored import stored_columns
from fastmosaic.storage.source import open_source

ROWS = 1 << 19
STEP = 7919  # odd, so that the multiples are all different in their lower bits

LIBC = ctypes.CDLL(None)


def strings(values: pa.Array) -> pa.Array:
    return values.cast(pa.string())


@functools.cache
def offsets(num_elements: int) -> pa.Array:
    """Return the offsets of lists with 0 to 3 elements."""
    lengths = itertools.cycle([3, 1, 0, 2, 0])
    ends = itertools.takewhile(lambda end: end <= num_elements, itertools.accumulate(lengths))
    return pa.array([0, *ends], pa.int32())


def lists(values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(offsets(len(values)), values)


def maps(values: pa.Array) -> pa.Array:
    return pa.MapArray.from_arrays(offsets(len(values)), strings(values), values)


TYPES = {
    "bool": lambda numbers: pc.equal(pc.bit_wise_and(numbers, 1), 0),
    "int8": lambda numbers: pc.bit_wise_and(numbers, 127).cast(pa.int8()),
    "int16": lambda numbers: pc.bit_wise_and(numbers, 32767).cast(pa.int16()),
    "int32": lambda numbers: numbers.cast(pa.int32()),
    "int64": lambda numbers: numbers,
    "float": lambda numbers: numbers.cast(pa.float32()),
    "double": lambda numbers: numbers.cast(pa.float64()),
    "date": lambda numbers: numbers.cast(pa.int32()).cast(pa.date32()),
    "time": lambda numbers: numbers.cast(pa.int32()).cast(pa.time32("ms")),
    "timestamp[ms]": lambda numbers: numbers.cast(pa.timestamp("ms")),
    "timestamp[us]": lambda numbers: numbers.cast(pa.timestamp("us", "UTC")),
    "timestamp[ns]": lambda numbers: numbers.cast(pa.timestamp("ns")),
    "decimal(18)": lambda numbers: numbers.cast(pa.decimal128(19, 0)).cast(pa.decimal128(18, 0)),
    "decimal(38)": lambda numbers: numbers.cast(pa.decimal128(38, 0)),
    "string": strings,
    "binary": lambda numbers: strings(numbers).cast(pa.binary()),
    "list": lists,
    "list of strings": lambda numbers: lists(strings(numbers)),
    "list of lists": lambda numbers: lists(lists(numbers)),
    "map": maps,
    "array block": lists,
    "array block of strings": lambda numbers: lists(strings(numbers)),
}
# Which bits of a number vary, and options of the writer.
ENCODINGS = {
    "const": (0, {}),
    "dict": (127, {}),
    "large dict": (
        ROWS // 2 - 1,
        {"max_dict_entries": ROWS, "max_dict_total_bytes": 1 << 30},
    ),
    "plain": (ROWS - 1, {"use_dictionary": False}),
}


def columns():
    """Yield names, columns and options."""
    multiples = pc.multiply(pa.array(range(ROWS), pa.int64()), STEP)
    third = pa.array([True, False, False] * (16 * ROWS // 3 + 1))
    for encoding, (mask, options) in ENCODINGS.items():
        numbers = pc.bit_wise_and(multiples, mask)
        for name, make in TYPES.items():
            column = make(numbers)
            if name == "bool":
                column = pa.concat_arrays(
                    [column] * 16
                )  # otherwise its bits take too little to see
            layout = {"array_layout": "block"} if name.startswith("array block") else {}
            yield f"{name}, {encoding}", column, {**options, **layout}
            nulls = pa.scalar(None, column.type)
            with_nulls = pc.if_else(third.slice(0, len(column)), nulls, column)
            yield f"{name}, {encoding}, nulls", with_nulls, {**options, **layout}
    for name, make in TYPES.items():
        arrow = make(pa.array([0] * 8, pa.int64())).type
        yield f"{name}, all null", pa.nulls(ROWS, arrow), {}


def status(field: str) -> int:
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(field))


def measured(path: str) -> dict[str, int]:
    """Read a file; return the peak of memory, and what it may be made of."""
    with open_source(path) as source:
        metadata = fm.read_metadata(path)
        pages = [page.size for one in stored_columns(source, metadata, 0) for page in one.pages]
        bucket = metadata.row_group(0).buckets[0].uncompressed_size
    gc.collect()
    LIBC.malloc_trim(0)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # resets the peak
    before = status("VmRSS")
    table = fm.read_table(path, use_threads=False)
    peak = status("VmHWM") - before
    table.validate(full=True)
    return {"peak": peak, "result": table.nbytes, "block": bucket or sum(pages)}


def main(directory: str) -> None:
    results = {}
    path = f"{directory}/file.mosaic"
    # Decoding does not depend on the layout of the bucket, so they take turns.
    layouts = itertools.cycle([("monolithic", 1 << 40), ("paged", 0)])
    for (name, column, options), (layout, threshold) in zip(columns(), layouts, strict=False):
        fm.write_table(
            pa.table({"a": column}),
            path,
            page_size_threshold=threshold,
            row_group_bytes=1 << 40,
            **options,
        )
        results[f"{name}, {layout}"] = measured(path)
    print(json.dumps(results))


if __name__ == "__main__":
    main(sys.argv[1])

"""How many distinct values there are: exact while they are few, and an estimate that merges."""

import os
import subprocess
import sys

import pyarrow as pa
import pytest

from fastmosaic.dataset.distinct import DistinctSketch

SIZE = 256


def sketch_of(*parts: pa.Array) -> DistinctSketch:
    sketch = DistinctSketch(SIZE)
    for part in parts:
        sketch.add(part)
    return sketch


@pytest.mark.parametrize("count", [0, 1, 2, 100, SIZE - 1])
def test_few_values_are_counted_exactly(count):
    texts = pa.array([f"value {i % max(count, 1)}" for i in range(5_000)][: 5_000 * (count > 0)])
    assert sketch_of(texts, texts.slice(7)).estimate() == count


@pytest.mark.parametrize("count", [SIZE, 1_000, 30_000, 1_000_000])
@pytest.mark.parametrize("kind", ["numbers", "texts", "floats"])
def test_many_values_are_estimated(count, kind):
    values = pa.array(range(count), pa.int64())
    if kind == "texts":
        values = values.cast(pa.string())
    elif kind == "floats":
        values = values.cast(pa.float64())
    assert sketch_of(values, values.slice(count // 2)).estimate() == pytest.approx(count, rel=0.2)


def test_a_merged_sketch_is_that_of_all_values():
    numbers = pa.array(range(20_000), pa.int32())
    merged = sketch_of(numbers.slice(0, 12_000))
    merged.merge(sketch_of(numbers.slice(8_000)).hashes())
    assert merged.hashes().equals(sketch_of(numbers).hashes())
    merged.merge(pa.array([], pa.uint64()))
    assert merged.estimate() == sketch_of(numbers).estimate()


PROGRAM = """
import sys
import pyarrow as pa
from fastmosaic.dataset.distinct import DistinctSketch

sketch = DistinctSketch(256)
start, stop = map(int, sys.argv[1:])
sketch.add(pa.array([f"customer {i}" for i in range(start, stop)]))
print(hash("customer"), *sketch.hashes().to_pylist())
"""


def test_sketches_of_processes_that_hash_differently_merge():
    """Each process has its own seed for Python's hashes of strings."""
    merged = DistinctSketch(SIZE)
    own_hashes = set()
    for seed, start, stop in (("1", 0, 3_000), ("2", 2_000, 5_000)):
        output = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(start), str(stop)],
            env=os.environ | {"PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        own, *hashes = map(int, output.split())
        own_hashes.add(own)
        merged.merge(pa.array(hashes, pa.uint64()))
    assert len(own_hashes) == 2
    whole = sketch_of(pa.array([f"customer {i}" for i in range(5_000)]))
    assert merged.hashes().equals(whole.hashes())
    assert merged.estimate() == whole.estimate() == pytest.approx(5_000, rel=0.2)

"""Does everything that can be done with a file, and prints what that cost, as JSON.

Run by test_hostile.py in a process of its own.
"""

import json
import sys
import time

import pyarrow.compute

import fastmosaic as fm
import fastmosaic.file.verify
from fastmosaic.dataset.arrow import MosaicDataset
from fastmosaic.file.stored import stored_columns
from fastmosaic.storage.source import open_source


def read(path):
    return fm.read_table(path).nbytes


def read_without_threads(path):
    return fm.read_table(path, use_threads=False).nbytes


def first_batches(path):
    batches = fm.MosaicFile(path).iter_batches(1000)
    return max(
        (next(batches, None) or fm.read_schema(path).empty_table()).nbytes for _ in range(50)
    )


def dataset_head(path):
    return MosaicDataset(path).head(10).nbytes


def count_matches(path):
    names = fm.read_schema(path).names
    condition = pyarrow.compute.field(names[0]).is_null() if names else None
    MosaicDataset(path).count_rows(condition)
    fm.MosaicFile(path).read(names[:1], filters=condition)
    return 0


def verify(path):
    fm.verify(path)
    return 0


def verify_agrees(path):
    report = fm.verify(path)
    try:
        file = fm.MosaicFile(path)
        next(file.iter_batches(1), None)
    except fm.MemoryLimitError:
        pass  # a row may be large, and nevertheless valid
    except fm.MosaicError:
        assert not report.ok
    return 0


def matrix(path):
    """A matrix of 4 bytes for each value; large pages become Arrow arrays first, of 8 bytes for each."""
    return 3 * fm.read_matrix(path).nbytes


def rows_by_number(path):
    """Rows in a matrix and in a table."""
    last = max(0, fm.read_metadata(path).num_rows - 1)
    names = fm.read_schema(path).names[:100]
    size = fm.MosaicFile(path).take([last, 0, 0], names).nbytes
    return size + fm.read_matrix(path, names, rows=[last, 0], order="C").nbytes


def inspect(path):
    metadata = fm.read_metadata(path)
    metadata.to_dict()
    with open_source(path) as source:
        for group in range(min(50, metadata.num_row_groups)):
            for column in stored_columns(source, metadata, group):
                for page in column.pages:
                    page.entries()
    return 0


TASKS = [
    read,
    read_without_threads,
    first_batches,
    dataset_head,
    count_matches,
    verify,
    verify_agrees,
    matrix,
    rows_by_number,
    inspect,
]


def status(field: str) -> int:
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(field))


def cost(task, path: str) -> dict:
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # resets the peak of memory
    before, start = status("VmRSS"), time.process_time()
    result, error = 0, None
    try:
        result = task(path)
    except fm.MosaicError as caught:
        error = type(caught).__name__
    return {
        "seconds": time.process_time() - start,
        "memory": status("VmHWM") - before,
        "result": result,
        "error": error,
    }


if __name__ == "__main__":
    print(json.dumps({task.__name__: cost(task, sys.argv[1]) for task in TASKS}))

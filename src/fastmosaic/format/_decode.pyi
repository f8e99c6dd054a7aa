from array import array
from collections.abc import Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from fastmosaic.format._matrix import MatrixRows
from fastmosaic.memory import Memory

# `const int[::1]` or `const int64_t[::1]`: a view of C integers
Integers: TypeAlias = array[int] | memoryview[int]

MAX_IDLE_ENTRIES: int

class PageFault(ValueError):
    column: int

class Pages:
    count: int
    surplus: int
    @staticmethod
    def from_monolithic(
        data: Any,
        start: int,
        kinds: bytes,
        digits: bytes,
        rows: Sequence[int],
        stop: int,
        strict: bool,
    ) -> Pages: ...
    @staticmethod
    def from_slots(
        slots: Sequence[Any], kinds: bytes, digits: bytes, rows: Sequence[int], strict: bool
    ) -> Pages: ...
    def gather(self, column: int, ranges: Integers) -> None: ...
    def element_ranges(
        self, column: int, ranges: Integers, num_elements: int
    ) -> memoryview[int]: ...
    def bound(self, columns: Sequence[int]) -> int: ...
    def num_rows(self, column: int) -> int: ...
    def encoding(self, column: int) -> int: ...
    def null_count(self, column: int) -> int: ...
    def rows_left(self, column: int) -> int: ...
    def is_constant(self, column: int) -> bool: ...
    def size(self, column: int) -> int: ...
    def num_entries(self, column: int) -> int: ...
    def entry_bytes(self, column: int) -> int: ...
    def entries(self, column: int, type: pa.DataType, memory: Memory) -> pa.Array: ...
    def entry_counts(self, column: int) -> list[int]: ...
    def block(self, column: int) -> memoryview | None: ...
    def check(self, column: int, count: int) -> int: ...
    def skip(self, column: int, count: int) -> int: ...
    def skip_lists(self, column: int, count: int) -> tuple[int, int]: ...
    def measure(self, columns: Sequence[int], counts: int | Sequence[int]) -> tuple[int, int]: ...
    def decode_lists(
        self, column: int, count: int, memory: Memory
    ) -> tuple[pa.Buffer | None, pa.Buffer, int, int]: ...
    def decode(
        self,
        columns: Sequence[int],
        types: Sequence[pa.DataType],
        counts: Sequence[int],
        memory: Memory,
    ) -> list[pa.Array]: ...
    def decode_into(
        self,
        columns: Sequence[int],
        counts: int | Sequence[int],
        batch: Batch,
        places: Sequence[int],
        memory: Memory,
    ) -> None: ...

class Budget:
    def __init__(self, size: int, expansion: int) -> None: ...
    def allows(self, result: int, stored: int) -> bool: ...

class BucketReader:
    def __init__(
        self,
        kinds: bytes,
        digits: bytes,
        positions: Integers,
        first: int,
        places: Integers,
        num_rows: int,
        start: int,
        count: int,
        strict: bool,
        ranges: Integers | None = None,
    ) -> None: ...
    def decode_paged(
        self,
        data: pa.Buffer,
        offsets: memoryview[int],
        largest: int,
        sink: Batch | MatrixRows,
        memory: Memory,
        budget: Budget,
    ) -> int: ...
    def decode_slots(
        self,
        slots: Sequence[pa.Buffer],
        largest: int,
        sink: Batch | MatrixRows,
        memory: Memory,
        budget: Budget,
    ) -> int: ...
    def decode_monolithic(
        self,
        data: pa.Buffer,
        size: int,
        stored: int,
        largest: int,
        sink: Batch | MatrixRows,
        memory: Memory,
        budget: Budget,
    ) -> int: ...

class Batch:
    count: int
    def __init__(self, count: int) -> None: ...
    def put(self, place: int, array: pa.Array) -> None: ...
    def find_nulls(self, required: bytes) -> tuple[int, int] | None: ...
    def finish(self, num_rows: int, schema: pa.Schema) -> pa.RecordBatch: ...

def sort_positions(
    positions: Integers, num_columns: int
) -> tuple[memoryview[int], memoryview[int]]: ...
def slot_offsets(sizes: memoryview, start: int) -> memoryview[int]: ...

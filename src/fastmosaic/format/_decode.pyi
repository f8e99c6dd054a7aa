from array import array
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

class PageFault(ValueError):
    column: int

class Pages:
    count: int
    @staticmethod
    def from_monolithic(
        data: Any, start: int, kinds: bytes, rows: Sequence[int], stop: int
    ) -> Pages: ...
    @staticmethod
    def from_slots(slots: Sequence[Any], kinds: bytes, rows: Sequence[int]) -> Pages: ...
    def expansion(self, columns: Sequence[int]) -> int: ...
    def decode(self, columns: Sequence[int], types: Sequence[pa.DataType]) -> list[pa.Array]: ...

def find_frames(data: memoryview, spans: array[int]) -> tuple[bytes, bytes]: ...
def offsets_of(lengths: memoryview, out: memoryview) -> int: ...

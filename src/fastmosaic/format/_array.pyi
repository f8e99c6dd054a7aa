from array import array
from typing import Any

import pyarrow as pa

def encode_runs(values: array[int] | memoryview, width: int) -> bytes: ...
def check(data: Any, width: int, count: int) -> None: ...
def decode_runs(data: Any, width: int, count: int) -> memoryview[int]: ...
def encode(
    lengths: pa.Array,
    elements: pa.Array,
    *,
    bits: int,
    arrow_bits: int,
    wide_lengths: bool,
    utf8: bool,
    ordinal: int,
    checksum: bool,
) -> bytes: ...

class Block:
    bits: int
    num_bytes: int
    num_arrays: int
    num_valid_arrays: int
    num_elements: int
    num_values: int
    text_size: int
    ordinal: int
    def __init__(self, data: Any, *, bits: int, checksum: bool) -> None: ...
    def gather(self, ranges: memoryview[int]) -> None: ...
    def fill_lists(self, offsets: memoryview, validity: memoryview | None) -> None: ...
    def fill_validity(self, out: memoryview) -> None: ...
    def fill_values(
        self, out: memoryview, validity: memoryview | None, arrow_bits: int
    ) -> None: ...
    def fill_strings(
        self, offsets: memoryview, text: memoryview, validity: memoryview | None, utf8: bool
    ) -> None: ...
    def check_range(self, digits: int, limit: int) -> None: ...
    def check(self, utf8: bool) -> None: ...

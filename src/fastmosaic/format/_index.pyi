from collections.abc import Callable
from datetime import tzinfo
from typing import Any

def walk_index(
    data: Any, num_groups: int, num_buckets: int, kinds: bytes, data_end: int
) -> tuple[bytes, bytes]: ...
def walk_statistics(
    data: Any, start: int, rows: int, kinds: bytes, wanted: Any = None
) -> bytes: ...
def python_statistics(
    data: Any,
    start: int,
    rows: int,
    kinds: bytes,
    body: bytes,
    type_starts: memoryview[int],
    wanted: Any,
    zone_of: Callable[[bytes], tzinfo | None],
) -> tuple[list[int], list[int], list[Any], list[Any], list[int]]: ...

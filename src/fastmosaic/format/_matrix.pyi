from array import array
from typing import Any, TypeAlias

# `const int[::1]` and `const int64_t[::1]`: views of C integers
Integers: TypeAlias = array[int] | memoryview[int]

SOURCES: tuple[str, ...]
DTYPES: tuple[str, ...]

class Matrix:
    def __init__(self, array: Any, mask: Any, fill: bytes | None) -> None: ...

class MatrixRows:
    def __init__(
        self,
        matrix: Matrix,
        columns: Integers,
        sources: bytes,
        required: bytes,
        row: int,
        count: int,
        chosen: Any = None,
        targets: Any = None,
    ) -> None: ...

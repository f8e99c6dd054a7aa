"""Column names: packed in memory, front coded and byte-pair encoded in a file.

Front coding stores a name as `uv` number of bytes that it shares with the previous name, `uv`
number of bytes that follow, and these bytes. Byte-pair encoding comes before that: tokens up to
0x7f are ASCII bytes, and 0x80 + r stands for the two tokens of rule r, which are lower tokens.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable
from enum import IntEnum
from itertools import accumulate, chain
from typing import Final

from ..errors import CorruptFileError
from . import _schema
from .wire import put_varint

MAX_RULES: Final = 128
# A million names of 128 bytes. The format has no limit, but a few bytes could expand to gigabytes.
MAX_NAMES_BYTES: Final = 128 << 20

# Searching encoded names for one name takes about a twentieth of the time to decode all of them.
_MAX_SEARCHES: Final = 16

_MAX_SIMILAR: Final = 50
_ASCII_LOWER: Final = {code: chr(code).lower() for code in range(ord("A"), ord("Z") + 1)}


class NameEncoding(IntEnum):
    FRONT = 0  # front coding
    PAIRS = 1  # uv number of rules, two tokens for each; byte pairs, then front coding


class Names:
    """The names of columns: their UTF-8 bytes in one buffer, and where each begins."""

    __slots__ = ("_data", "_offsets", "_positions")

    def __init__(self, data: bytes, offsets: memoryview[int], ascending: bool) -> None:
        self._data = data
        self._offsets = offsets
        # All known writers sort the names, but the format does not require it.
        self._positions = None if ascending else self._positions_by_name()

    @classmethod
    def of(cls, names: Iterable[str]) -> Names:
        """Sort and pack `names`."""
        data, offsets = _pack(sorted(name.encode() for name in names))
        return cls(data, memoryview(offsets), ascending=True)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, position: int) -> str:
        return self._data[self._offsets[position] : self._offsets[position + 1]].decode()

    @property
    def size(self) -> int:
        """The number of bytes of all names."""
        return len(self._data)

    def find(self, name: str) -> int:
        """Return the position of `name`, or -1."""
        if self._positions is not None:
            return self._positions.get(name, -1)
        return _schema.find(self._data, self._offsets, _encoded(name))

    def select(self, positions: array[int] | memoryview[int]) -> list[str]:
        """Return the names at `positions`, faster than one by one."""
        return _schema.unpack(self._data, self._offsets, positions)

    def similar(self, name: str) -> list[str]:
        """Return the names that are most similar to `name`; see `similar_names`."""
        return [self[position] for position in _similar(name, self._data, self._offsets)]

    def occurring(self, text: str) -> list[int]:
        """Return the positions of the names that occur anywhere in `text`."""
        return _schema.occurring(self._data, self._offsets, _encoded(text))

    def _positions_by_name(self) -> dict[str, int]:
        positions: dict[str, int] = {}
        for position in range(len(self)):
            name = self[position]
            if positions.setdefault(name, position) != position:
                raise CorruptFileError(f"two columns are named {name!r}")
        return positions


class StoredNames:
    """The names in a schema block. They stay encoded until more than a few of them are needed.

    `starts` are the places of the columns in the body of the block, which is checked already.
    """

    __slots__ = (
        "_ascending",
        "_body",
        "_found",
        "_longest",
        "_names",
        "_rules",
        "_starts",
        "_texts",
    )

    def __init__(
        self,
        body: bytes,
        starts: memoryview[int],
        rules: bytes | None,
        longest: int,
        ascending: bool,
    ) -> None:
        self._body = body
        self._starts = starts
        self._rules = rules
        self._longest = longest
        self._ascending = ascending
        self._found: dict[str, int] = {}  # names that were looked for
        self._texts: dict[int, str] = {}  # and those of them that there are
        # Names that are not sorted may occur twice, which is found only by comparing all of them.
        self._names = None if ascending else self._expanded()

    def find(self, name: str) -> int:
        """Return the position of `name`, or -1."""
        if self._names is not None:
            return self._names.find(name)
        position = self._found.get(name)
        if position is not None:
            return position
        if len(self._found) == _MAX_SEARCHES:
            return self.packed.find(name)
        position = _schema.find_encoded(self._body, self._starts, self._rules, _encoded(name))
        self._found[name] = position
        if position >= 0:
            self._texts[position] = name
        return position

    def __getitem__(self, position: int) -> str:
        return self._texts.get(position) or self.packed[position]

    @property
    def packed(self) -> Names:
        """All names, decoded once."""
        if self._names is None:
            self._names = self._expanded()
        return self._names

    def _expanded(self) -> Names:
        data, offsets, ascending = _schema.expand_names(
            self._body, self._starts, self._longest, self._rules, MAX_NAMES_BYTES
        )
        return Names(data, offsets, ascending)


def similar_names(name: str, names: Iterable[str]) -> list[str]:
    """Return those of `names` that are most similar to `name`, ignoring case; at most 50."""
    some = list(names)
    text = "".join(some)
    if len(text) > MAX_NAMES_BYTES:
        return []
    packed: tuple[bytes, array[int] | memoryview[int]]
    if text.isascii():  # then there is no need to encode each name
        packed = text.encode(), _ends(some)
    else:
        packed = _pack([_encoded(one) for one in some])
    return [some[position] for position in _similar(name, *packed)]


def _similar(name: str, data: bytes, offsets: array[int] | memoryview[int]) -> list[int]:
    """Return the positions of the packed names that are most similar to `name`.

    A name with up to three differences still contains one quarter of `name` unchanged. So the most
    similar names are those that contain the most quarters, and of these the ones with the longest
    common prefix and suffix.
    """
    folded = name.lower()
    size = max(1, len(folded) // 4)
    starts = range(0, min(len(folded), 4 * size), size)
    # The kernel compares bytes, and `bytes.lower` changes only ASCII.
    forms = folded, name.upper().translate(_ASCII_LOWER)
    quarters = dict.fromkeys(
        _encoded(form[start : start + size]) for form in forms for start in starts
    )
    quarters.pop(b"", None)  # text in upper case may be shorter
    return _schema.similar(data.lower(), offsets, _encoded(folded), list(quarters), _MAX_SIMILAR)


def encode_columns(names: Collection[bytes], descriptors: Collection[bytes]) -> bytes:
    """Encode sorted names and their types: the name encoding, its rules, then the columns."""
    data, offsets = _pack(names)
    size = _schema.front_coded_size(data, offsets)
    out = bytearray([NameEncoding.FRONT])
    if data.isascii():
        rules, encoded, encoded_offsets = _schema.train(data, offsets)
        # The specification counts one byte for the number of rules, although 128 take two.
        if rules and 1 + len(rules) + _schema.front_coded_size(encoded, encoded_offsets) < size:
            data, offsets = encoded, encoded_offsets
            out = bytearray([NameEncoding.PAIRS])
            put_varint(out, len(rules) // 2)
            out += rules
    out += _schema.encode_columns(data, offsets, *_pack(descriptors))
    return bytes(out)


def _encoded(name: str) -> bytes:
    # A lone surrogate is not an error here: no column has such a name.
    return name.encode(errors="surrogatepass")


def _pack(strings: Collection[bytes]) -> tuple[bytes, array[int] | memoryview[int]]:
    return b"".join(strings), _ends(strings)


def _ends(strings: Collection[bytes] | Collection[str]) -> array[int]:
    """Return the offsets of strings that are joined."""
    return array("i", chain([0], accumulate(map(len, strings))))

"""Columns of a bucket, decoded to Arrow arrays one portion of rows after another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyarrow import types as arrow_types

from ..errors import CorruptFileError, MosaicError, located
from ..memory import Memory
from . import list_blocks
from ._array import Block
from ._decode import Batch, PageFault, Pages
from .bucket import flat_of
from .nested import BucketColumns, Node
from .types import Kind

_ALL_NULL: Final = 3  # the number of the encoding


@dataclass(frozen=True, slots=True)
class _Lists:
    """The lists of a portion: their buffers, and the number of their elements."""

    count: int
    validity: pa.Buffer | None
    offsets: pa.Buffer
    num_nulls: int
    total: int


class ColumnDecoder:
    """Decodes some columns of a bucket.

    Every method that takes a number of rows goes on where the one before it stopped. After an
    error the decoder cannot be used any more.

    Parameters
    ----------
    pages : Pages
        The pages of the columns.
    numbers : sequence of int
        The number, among `pages`, of each of the flat columns `flat_of(columns, wanted)`.
    columns : BucketColumns
        All columns of the bucket.
    wanted : sequence of int
        The indices of the columns to decode.
    strict : bool
        Whether to refuse decimals and times outside the range of their type.
    """

    def __init__(
        self,
        pages: Pages,
        numbers: Sequence[int],
        columns: BucketColumns,
        wanted: Sequence[int],
        strict: bool = True,
    ) -> None:
        self._pages = pages
        self._numbers = numbers
        self._columns = columns
        self._wanted = wanted
        self._strict = strict
        self._is_flat = columns.is_flat
        self._gathered: dict[int, Block] = {}  # some rows of blocks, by flat column
        self._blocks: dict[int, pa.Array] = {}  # decoded array data blocks, by flat column
        self.row = 0  # rows that were decoded or skipped
        if not self._is_flat:
            self._roots = [columns.node(index) for index in wanted]
            self._number_of = dict(zip(flat_of(columns, wanted), numbers, strict=True))

    def gather(self, ranges: memoryview[int]) -> None:
        """Keep only some rows, before any is decoded; the rows are counted from zero again.

        `ranges` are start and stop of each range, ascending.
        """
        try:
            if self._is_flat:
                for number in self._numbers:
                    self._pages.gather(number, ranges)
            else:
                for root in self._roots:
                    self._gather(root, ranges)
        except PageFault as fault:
            raise self._corrupt(fault) from fault

    def _gather(self, node: Node, ranges: memoryview[int]) -> None:
        number = self._number_of[node.flat]
        if node.type.kind == Kind.ARRAY_BLOCK:
            with located(column=self._columns.name(node.flat)):
                block = self._opened(node, ranges)
            if block is not None:
                self._gathered[node.flat] = block
                return
        for child in node.children:
            inner = self._number_of[child.flat]
            count = self._pages.num_rows(inner)
            self._gather(child, self._pages.element_ranges(number, ranges, count))
        self._pages.gather(number, ranges)

    def bound(self) -> int:
        """Return the memory that decoding all rows takes at most."""
        if self._is_flat:
            return self._pages.bound(self._numbers)
        total = 0
        spread = []
        for flat, number in self._number_of.items():
            if self._columns.kinds[flat] != Kind.ARRAY_BLOCK:
                spread.append(number)
                continue
            column_type = self._columns.node(flat).type
            num_rows = self._pages.num_rows(number)
            if flat in self._gathered:
                total += sum(list_blocks.measure(self._gathered[flat], column_type, num_rows))
                continue
            with located(column=self._columns.name(flat)):
                total += list_blocks.size(self._pages.block(number), column_type, num_rows)
        return total + self._pages.bound(spread)

    def decode(self, count: int, batch: Batch, places: Sequence[int], memory: Memory) -> None:
        """Decode the next `count` rows into `batch`, at the `places` of the columns.

        Raise `OverflowError` if there is more than Arrow's offsets can count.
        """
        try:
            if self._is_flat:
                self._pages.decode_into(self._numbers, count, batch, places, memory)
            else:
                self._decode_nested(count, batch, places, memory)
        except PageFault as fault:
            raise self._corrupt(fault) from fault
        self.row += count

    def measure(self, count: int) -> tuple[int, int]:
        """Return the memory that decoding the next `count` rows would take, and zeros that it uses.

        Afterwards the decoder cannot be used any more.
        """
        try:
            if self._is_flat:
                return self._pages.measure(self._numbers, count)
            sizes = [self._measure(root, count) for root in self._roots]
        except PageFault as fault:
            raise self._corrupt(fault) from fault
        return sum(size for size, _ in sizes), max(zeros for _, zeros in sizes)

    def _measure(self, node: Node, count: int) -> tuple[int, int]:
        """Return the memory of a column, and how many zeros it uses."""
        number = self._number_of[node.flat]
        if node.type.kind == Kind.ARRAY_BLOCK:
            rows = self._pages.num_rows(number)  # all lists are decoded at once
            return list_blocks.measure(self._opened(node), node.type, rows)
        if not node.children:
            return self._pages.measure([number], [count])
        total, nulls = self._pages.skip_lists(number, count)
        inner = [self._measure(child, total) for child in node.children]
        size, zeros = sum(size for size, _ in inner), max(zeros for _, zeros in inner)
        if self._pages.encoding(number) == _ALL_NULL:
            return size, max(zeros, 4 * (count + 1))
        return size + 4 * (count + 1) + ((count + 7) // 8 if nulls else 0), zeros

    def is_constant(self) -> bool:
        """Return whether the first row of all columns is like every other row."""
        # Lists are equal if their lengths are, and all their elements.
        return all(map(self._pages.is_constant, self._numbers))

    def num_unused(self) -> int:
        """Return how many elements no list contains, after all rows were decoded or checked."""
        if not self._columns.num_children:
            return 0
        return sum(
            self._pages.rows_left(self._number_of[node.flat])
            for root in self._roots
            for node in root.walk()[1:]
        )

    def check(self, count: int) -> int:
        """Check the next `count` rows as decoding does, without its memory; return their nulls.

        With several columns, these are the nulls of all of them. An array data block is checked as
        a whole.
        """
        self.row += count
        try:
            if self._is_flat:
                return sum(self._pages.check(number, count) for number in self._numbers)
            nulls = 0
            for root in self._roots:
                try:
                    nulls += self._check(root, count)
                except MosaicError as error:
                    error.locate(column=self._columns.name(root.flat))
                    raise
        except PageFault as fault:
            raise self._corrupt(fault) from fault
        return nulls

    def _check(self, node: Node, count: int) -> int:
        number = self._number_of[node.flat]
        if node.type.kind == Kind.ARRAY_BLOCK:
            block = self._opened(node)
            if block is None:
                return count
            return list_blocks.check(block, node.type, strict=self._strict)
        if not node.children:
            return self._pages.check(number, count)
        total, nulls = self._pages.skip_lists(number, count)
        for i, child in enumerate(node.children):
            is_key = i == 0 and arrow_types.is_map(node.type.arrow)
            _check_nulls(child, self._check(child, total), is_key)
        return nulls

    def skip(self, count: int) -> None:
        """Move past the next `count` rows."""
        try:
            if self._is_flat:
                for number in self._numbers:
                    self._pages.skip(number, count)
            else:
                for root in self._roots:
                    self._skip(root, count)
        except PageFault as fault:
            raise self._corrupt(fault) from fault
        self.row += count

    def _skip(self, node: Node, count: int) -> None:
        if node.type.kind == Kind.ARRAY_BLOCK:
            return
        number = self._number_of[node.flat]
        if not node.children:
            self._pages.skip(number, count)
            return
        total, _ = self._pages.skip_lists(number, count)
        for child in node.children:
            self._skip(child, total)

    # ---- nested columns and array data blocks

    def _decode_nested(
        self, count: int, batch: Batch, places: Sequence[int], memory: Memory
    ) -> None:
        lists: dict[int, _Lists] = {}
        leaves: list[tuple[Node, int]] = []
        for root in self._roots:
            self._decode_lists(root, count, memory, lists, leaves)
        arrays = self._pages.decode(
            [self._number_of[node.flat] for node, _ in leaves],
            [node.arrow for node, _ in leaves],
            [rows for _, rows in leaves],
            memory,
        )
        by_flat = {node.flat: array for (node, _), array in zip(leaves, arrays, strict=True)}
        for place, root in zip(places, self._roots, strict=True):
            try:
                if root.type.kind == Kind.ARRAY_BLOCK:
                    whole = self._block(root, memory)
                    batch.put(place, whole.slice(self.row, count))
                else:
                    batch.put(place, _assembled(root, lists, by_flat))
            except MosaicError as error:
                error.locate(column=self._columns.name(root.flat))
                raise

    def _decode_lists(
        self,
        node: Node,
        count: int,
        memory: Memory,
        lists: dict[int, _Lists],
        leaves: list[tuple[Node, int]],
    ) -> None:
        """Decode the lists of a column, at every depth, and note what is to be decoded inside."""
        if node.type.kind == Kind.ARRAY_BLOCK:
            return
        if not node.children:
            leaves.append((node, count))
            return
        decoded = self._pages.decode_lists(self._number_of[node.flat], count, memory)
        found = lists[node.flat] = _Lists(count, *decoded)
        for child in node.children:
            self._decode_lists(child, found.total, memory, lists, leaves)

    def _block(self, node: Node, memory: Memory) -> pa.Array:
        """Return all lists of an array data block."""
        if node.flat not in self._blocks:
            num_rows = self._pages.num_rows(self._number_of[node.flat])
            self._blocks[node.flat] = list_blocks.decode(
                self._opened(node), node.type, num_rows, memory, strict=self._strict
            )
            self._gathered.pop(node.flat, None)
        return self._blocks[node.flat]

    def _opened(self, node: Node, ranges: memoryview[int] | None = None) -> Block | None:
        """Return an array data block, or None if all of its lists are null."""
        if node.flat in self._gathered:
            return self._gathered[node.flat]
        number = self._number_of[node.flat]
        return list_blocks.opened(
            self._pages.block(number), node.type, self._pages.num_rows(number), ranges
        )

    def _corrupt(self, fault: PageFault) -> CorruptFileError:
        flat = flat_of(self._columns, self._wanted)[list(self._numbers).index(fault.column)]
        return CorruptFileError(str(fault), column=self._columns.name(flat))


def _assembled(node: Node, lists: Mapping[int, _Lists], leaves: Mapping[int, pa.Array]) -> pa.Array:
    """Assemble the array of `node` from its lists and the arrays inside it."""
    if not node.children:
        return leaves[node.flat]
    found = lists[node.flat]
    inner: list[pa.Array] = []
    for child in node.children:
        array = _assembled(child, lists, leaves)
        is_key = not inner and arrow_types.is_map(node.type.arrow)
        _check_nulls(child, array.null_count, is_key)
        inner.append(array)
    if arrow_types.is_map(node.type.arrow):
        fields = [node.type.arrow.key_field, node.type.arrow.item_field]
        inner = [pa.StructArray.from_arrays(inner, fields=fields)]
    return pa.Array.from_buffers(
        node.type.arrow, found.count, [found.validity, found.offsets], found.num_nulls, 0, inner
    )


def _check_nulls(node: Node, nulls: int, is_key: bool) -> None:
    """Raise CorruptFileError if elements of a list or map are null that must not be."""
    if nulls and is_key:
        raise CorruptFileError(f"{nulls} keys of a map are null")
    if nulls and not node.type.nullable:
        raise CorruptFileError(f"there are {nulls} null elements, but they are declared not null")

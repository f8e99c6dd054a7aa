"""The order of rows in training: which rows each numbered batch of an epoch consists of.

An epoch is defined by numbers alone: sizes of blocks, seed, epoch, rank. So every process computes the
same order and nothing is sent between them. In four steps:

1. Blocks (row groups) are put in a random order, and each rank owns an equal part of their rows.
2. The rows of a rank are divided into lanes; batch `i` comes from lane `i % lanes`. Lanes share no rows.
3. A lane is divided into windows of whole blocks, which fit into the buffer. The rows of a window are
   put in a random order.
4. The batches of a lane are consecutive rows of that.

Worker `w` of `n` makes batches `w`, `w + n`, `w + 2n`, and so on. A `DataLoader` takes batches from its
workers in turn, so the order is the same for any number of workers. If that number divides the number
of lanes, no block is read by two workers.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["EpochOrder", "OrderOptions", "Piece", "Progress", "Share", "ShuffledWindow"]

# Numbers of lanes that common numbers of workers divide.
LANES: Final = (24, 8, 4, 2, 1)
# Blocks that a window has at least, if the buffer is large enough: a batch is mixed from so many.
MIN_WINDOW_BLOCKS: Final = 4

# SplitMix64 (Steele, Lea and Flood, 2014), which is the same on every platform and in every version.
GAMMA: Final = 0x9E3779B97F4A7C15
MIX: Final = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1))
MASK: Final = (1 << 64) - 1


def mixed(*numbers: int) -> int:
    """Return a random number of 64 bits that depends on `numbers`."""
    key = 0
    for number in numbers:
        key = (key + number + GAMMA) & MASK
        for shift, factor in MIX:
            key = ((key ^ (key >> shift)) * factor) & MASK
    return key


def permutation(key: int, count: int) -> npt.NDArray[np.int64]:
    """Return the numbers below `count` in a random order: sorted by the outputs of SplitMix64."""
    import numpy as np

    found = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(GAMMA) + np.uint64(key)
    for shift, factor in MIX:
        found = (found ^ (found >> np.uint64(shift))) * np.uint64(factor)
    return np.argsort(found, kind="stable").astype(np.int64, copy=False)


class Piece(NamedTuple):
    """Rows of a block, counted from its first row."""

    block: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class ShuffledWindow:
    """Pieces of blocks that are held in memory together, and the order of their rows."""

    pieces: tuple[Piece, ...]
    num_rows: int
    key: int | None  # None if rows stay in order

    def order(self) -> npt.NDArray[np.int64]:
        """Return the places of the rows in the concatenated pieces, in the order of the epoch."""
        import numpy as np

        if self.key is None:
            return np.arange(self.num_rows)
        return permutation(self.key, self.num_rows)


class Share(NamedTuple):
    """The part of a batch that comes from a window: places `start` to `stop` of its order."""

    lane: int
    window: ShuffledWindow
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class OrderOptions:
    """What the order depends on besides the data and the epoch; see `MosaicIterable`."""

    batch_size: int
    shuffle: bool = True
    seed: int = 0
    buffer_rows: int = 65536
    rank: int = 0
    world_size: int = 1
    drop_last: bool = False

    def __post_init__(self) -> None:
        for name in ("batch_size", "buffer_rows", "world_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not 0 <= self.rank < self.world_size:
            raise ValueError(
                f"rank must be between 0 and {self.world_size - 1} (world_size - 1), not {self.rank}"
            )


class EpochOrder:
    """The batches of one epoch for one rank.

    Every row is in exactly one batch of one rank. Every rank has the same number of batches, so that
    distributed training does not wait forever for a rank that has finished. All batches have
    `batch_size` rows except the last, and in some ranks the last but one, which may lack one row. With
    `drop_last`, all batches are full, and the rows that are left over, which differ from epoch to epoch,
    are in none.

    Parameters
    ----------
    blocks : sequence of int
        The number of rows of each block.
    options : OrderOptions
    epoch : int, default 0

    Examples
    --------
    >>> from fastmosaic.interop.order import EpochOrder, OrderOptions
    >>> order = EpochOrder([3, 3], OrderOptions(batch_size=4, shuffle=False))
    >>> [order.rows(batch).tolist() for batch in range(len(order))]
    [[0, 1, 2, 3], [4, 5]]
    """

    def __init__(self, blocks: Sequence[int], options: OrderOptions, epoch: int = 0) -> None:
        self._blocks = blocks
        self._options = options
        self._epoch = epoch
        total, size, ranks = sum(blocks), options.batch_size, options.world_size
        fewest = total // ranks
        if options.drop_last:
            self._num_batches = fewest // size
            self._num_rows = self._num_batches * size
        else:
            self._num_batches = -(-total // (ranks * size))
            self._num_rows = fewest + (options.rank < total % ranks)
            if total and fewest < self._num_batches:
                raise ValueError(
                    f"{total} rows cannot be divided among {ranks} ranks in an equal number of "
                    f"batches of at most {size} rows; pass drop_last=True, or other numbers"
                )
        self._first_row = options.rank * fewest + min(options.rank, total % ranks)
        self._lanes: dict[int, _Lane] = {}

    def __len__(self) -> int:
        """Return the number of batches of the rank."""
        return self._num_batches

    @cached_property
    def num_lanes(self) -> int:
        """The number of lanes, which depends on the data and the buffer, not on workers."""
        if not self._options.shuffle:
            return 1
        blocks = len(self._blocks) // self._options.world_size
        fitting = self._options.buffer_rows // max(self._blocks, default=1)
        most = max(1, min(blocks, fitting) // MIN_WINDOW_BLOCKS)
        return next(lanes for lanes in LANES if lanes <= most)

    def size(self, batch: int) -> int:
        """Return the number of rows of a batch."""
        size, left = self._options.batch_size, self._num_batches - 1 - batch
        # The last batch is never empty: if necessary, the one before it provides a row.
        rest = self._num_rows - (self._num_batches - 1) * size
        if left == 0:
            return max(1, rest)
        return size - 1 if left == 1 and rest == 0 else size

    def batch(self, number: int) -> list[Share]:
        """Return the parts of a batch, in order."""
        if not 0 <= number < self._num_batches:
            raise IndexError(f"batch {number} of {self._num_batches}")
        lanes, size = self.num_lanes, self._options.batch_size
        start = number // lanes * size
        if number >= lanes:
            start -= size - self.size(number - lanes)  # 1 if the one before lacks a row
        return self._lane(number % lanes).shares(start, start + self.size(number))

    def rows(self, number: int) -> npt.NDArray[np.int64]:
        """Return the numbers of the rows of a batch in the data."""
        import numpy as np

        edges = list(accumulate(self._blocks, initial=0))
        found = [np.empty(0, np.int64)]
        for share in self.batch(number):
            every = np.concatenate(
                [
                    edges[block] + np.arange(start, stop)
                    for block, start, stop in share.window.pieces
                ]
            )
            found.append(every[share.window.order()[share.start : share.stop]])
        return np.concatenate(found)

    def _lane(self, lane: int) -> _Lane:
        if lane not in self._lanes:
            sizes = [self._lane_rows(other) for other in range(lane + 1)]
            first = self._first_row + sum(sizes[:-1])
            pieces = list(self._pieces(first, first + sizes[-1]))
            self._lanes[lane] = _Lane(lane, list(self._windows(lane, pieces)))
        return self._lanes[lane]

    def _lane_rows(self, lane: int) -> int:
        """Return the number of rows of a lane: all batches but the last two are full."""
        batches = range(lane, self._num_batches, self.num_lanes)
        full = max(0, len(batches) - 2)
        return full * self._options.batch_size + sum(map(self.size, batches[full:]))

    @cached_property
    def _sequence(self) -> tuple[list[int], list[int]]:
        """The blocks in the order of the epoch, and the number of the first row of each in it."""
        blocks = list(range(len(self._blocks)))
        if self._options.shuffle:
            blocks = permutation(mixed(self._options.seed, self._epoch), len(blocks)).tolist()
        return blocks, list(accumulate((self._blocks[one] for one in blocks), initial=0))

    def _pieces(self, start: int, stop: int) -> Iterator[Piece]:
        """Yield the pieces of blocks that rows `start` to `stop` of the sequence consist of."""
        blocks, edges = self._sequence
        place = bisect_right(edges, start) - 1
        while start < stop:
            end = min(stop, edges[place + 1])
            if start < end:
                yield Piece(blocks[place], start - edges[place], end - edges[place])
            start, place = end, place + 1

    def _windows(self, lane: int, pieces: Sequence[Piece]) -> Iterator[ShuffledWindow]:
        options = self._options
        limit = options.buffer_rows // self.num_lanes if options.shuffle else 0
        held: list[Piece] = []
        rows = number = 0

        def made() -> ShuffledWindow:
            parts = options.seed, self._epoch, options.rank, lane, number
            return ShuffledWindow(tuple(held), rows, mixed(*parts) if options.shuffle else None)

        for piece in pieces:
            if held and rows + piece.stop - piece.start > limit:
                yield made()
                held, rows, number = [], 0, number + 1
            held.append(piece)
            rows += piece.stop - piece.start
        if held:
            yield made()


class _Lane:
    """Windows one after another."""

    def __init__(self, number: int, windows: Sequence[ShuffledWindow]) -> None:
        self._number = number
        self._windows = windows
        self._starts = list(accumulate((one.num_rows for one in windows), initial=0))

    def shares(self, start: int, stop: int) -> list[Share]:
        """Return the windows that rows `start` to `stop` of the lane are in, and their places there."""
        found = []
        place = bisect_right(self._starts, start) - 1
        while start < stop:
            first, end = self._starts[place : place + 2]
            end = min(stop, end)
            found.append(Share(self._number, self._windows[place], start - first, end - first))
            start, place = end, place + 1
        return found


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a worker is in an epoch.

    epoch    the number of the epoch
    batch    the next batch that this worker makes
    worker   the number of this worker
    workers  the number of workers; 1 without workers
    """

    epoch: int = 0
    batch: int = 0
    worker: int = 0
    workers: int = 1

    def of_worker(self, worker: int, workers: int) -> Progress:
        """Return where a worker begins, if this was saved by itself or without workers."""
        if (worker, workers) == (self.worker, self.workers):
            return self
        if self.workers != 1:
            raise ValueError(
                f"the state is of worker {self.worker} of {self.workers} and cannot be loaded by "
                f"worker {worker} of {workers}; use the same number of workers, or load "
                "{'epoch': …, 'batch': …} with the number of batches that training has seen"
            )
        return Progress(self.epoch, self.batch + worker, worker, workers)

    def next(self) -> Progress:
        """Return the progress after another batch."""
        return replace(self, batch=self.batch + self.workers)

    def to_dict(self) -> dict[str, int]:
        return {
            "epoch": self.epoch,
            "batch": self.batch,
            "worker": self.worker,
            "workers": self.workers,
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Progress:
        """Read what `to_dict` returns; `worker` and `workers` may be missing."""
        values = {name: state[name] for name in cls.__slots__ if name in state}
        for name in ("epoch", "batch"):
            if name not in values:
                raise ValueError(f"invalid state: {name!r} is missing")
        for name, value in values.items():
            if not isinstance(value, int) or value < 0:
                raise ValueError(f"invalid state: {name!r} is {value!r}, expected a whole number")
        return cls(**values)


def fingerprint(blocks: Sequence[int], options: OrderOptions, data: str) -> str:
    """Return a text that tells data and options of one order from those of another."""
    text = repr((list(blocks), options, data))
    return hashlib.sha256(text.encode()).hexdigest()[:32]

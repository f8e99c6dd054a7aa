"""Every row once, the same order for any number of workers, and resuming anywhere."""

import itertools

import numpy as np
import pytest
from hypothesis import given, strategies as st

from fastmosaic.interop import order as ordering
from fastmosaic.interop.order import EpochOrder, OrderOptions, Progress


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[int], dict[str, int]]:
    """Blocks, and options that can divide them."""
    blocks = draw(st.lists(st.integers(0, 40), max_size=60))
    ranks = draw(st.integers(1, 5))
    options = {
        "batch_size": draw(st.integers(2, 50)),
        "buffer_rows": draw(st.sampled_from([1, 10, 200, 1000, 10000])),
        "seed": draw(st.integers(0, 1 << 70)),
        "world_size": ranks,
        "shuffle": draw(st.booleans()),
    }
    if 0 < sum(blocks) < ranks:
        blocks.append(ranks)
    return blocks, options


def of_ranks(blocks: list[int], options: dict[str, int], epoch: int = 0) -> list[EpochOrder]:
    return [
        EpochOrder(blocks, OrderOptions(**options, rank=rank), epoch)
        for rank in range(options["world_size"])
    ]


def batches(order: EpochOrder) -> list[list[int]]:
    return [order.rows(number).tolist() for number in range(len(order))]


@given(cases())
def test_every_row_is_in_one_batch_of_one_rank(case):
    blocks, options = case
    orders = of_ranks(blocks, options)
    found = [row for order in orders for batch in batches(order) for row in batch]
    assert sorted(found) == list(range(sum(blocks)))
    assert options["shuffle"] or found == sorted(found)


@given(cases())
def test_ranks_have_equally_many_batches_and_none_is_empty(case):
    blocks, options = case
    orders = of_ranks(blocks, options)
    assert len({len(order) for order in orders}) == 1
    size = options["batch_size"]
    for order in orders:
        sizes = [len(batch) for batch in batches(order)]
        assert sizes == [order.size(number) for number in range(len(order))]
        assert all(one == size for one in sizes[:-2])
        assert all(one >= size - 1 for one in sizes[-2:-1])
        assert all(1 <= one <= size for one in sizes[-1:])
        if options["world_size"] == 1:
            assert all(one == size for one in sizes[:-1])


@given(cases())
def test_drop_last_leaves_full_batches(case):
    blocks, options = case
    orders = of_ranks(blocks, {**options, "drop_last": True})
    size, ranks = options["batch_size"], options["world_size"]
    found = [batch for order in orders for batch in batches(order)]
    assert {len(batch) for batch in found} <= {size}
    assert [len(order) for order in orders] == [sum(blocks) // ranks // size] * ranks
    rows = list(itertools.chain.from_iterable(found))
    assert len(set(rows)) == len(rows)


@given(cases(), st.integers(0, 30), st.integers(0, 7))
def test_workers_in_turn_make_the_batches_in_order_from_any_start(case, start, workers):
    blocks, options = case
    order = of_ranks(blocks, options)[0]
    begun = Progress(batch=start)

    def made_by(worker: int) -> list[int]:
        one, numbers = begun.of_worker(worker, workers), []
        while one.batch < len(order):
            numbers.append(one.batch)
            # Saved, and loaded in another process: at every step.
            one = Progress.from_dict(one.next().to_dict()).of_worker(worker, workers)
        return numbers

    each = [made_by(worker) for worker in range(workers)]
    in_turn = [one for some in itertools.zip_longest(*each) for one in some if one is not None]
    assert in_turn == (list(range(start, len(order))) if workers else [])


@given(cases())
def test_a_window_fits_into_the_buffer_or_is_of_one_block(case):
    blocks, options = case
    for order in of_ranks(blocks, options):
        windows = {s.lane: {} for n in range(len(order)) for s in order.batch(n)}
        for number in range(len(order)):
            for share in order.batch(number):
                windows[share.lane][share.window] = share.window.num_rows
        largest = [max(some.values()) for some in windows.values()]
        assert sum(largest) <= options["buffer_rows"] or order.num_lanes == 1
        for window in itertools.chain.from_iterable(windows.values()):
            assert len(window.pieces) == 1 or window.num_rows <= options["buffer_rows"]
            assert window.num_rows == sum(piece.stop - piece.start for piece in window.pieces)


BLOCKS = [100] * 100


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 6, 8])
def test_workers_that_divide_the_lanes_read_blocks_once(workers):
    order = EpochOrder(BLOCKS, OrderOptions(batch_size=16, buffer_rows=100_000))
    assert order.num_lanes == 24
    read = [
        {
            (piece.block, piece.start)
            for number in range(worker, len(order), workers)
            for share in order.batch(number)
            for piece in share.window.pieces
        }
        for worker in range(workers)
    ]
    assert sum(map(len, read)) == len(set().union(*read))
    assert sum(map(len, read)) < len(BLOCKS) + order.num_lanes  # a block on an edge has two pieces


@pytest.mark.parametrize(
    ("blocks", "buffer_rows", "lanes"),
    [
        ([100] * 100, 100_000, 24),
        ([100] * 100, 9_599, 8),
        ([100] * 100, 800, 2),
        ([100] * 100, 799, 1),
        ([100] * 99 + [1000], 8_000, 2),
        ([100] * 15, 100_000, 2),
        ([], 100, 1),
    ],
)
def test_lanes_depend_on_blocks_and_buffer(blocks, buffer_rows, lanes):
    order = EpochOrder(blocks, OrderOptions(batch_size=16, buffer_rows=buffer_rows))
    assert order.num_lanes == lanes


def test_epochs_and_seeds_differ_and_can_be_repeated():
    def rows(seed: int, epoch: int) -> tuple[int, ...]:
        order = EpochOrder(BLOCKS, OrderOptions(batch_size=64, seed=seed, buffer_rows=2000), epoch)
        return tuple(itertools.chain.from_iterable(batches(order)))

    orders = {(seed, epoch): rows(seed, epoch) for seed in range(3) for epoch in range(3)}
    assert len(set(orders.values())) == 9
    assert all(rows(*key) == found for key, found in orders.items())


def test_a_batch_is_mixed_from_many_blocks():
    order = EpochOrder(BLOCKS, OrderOptions(batch_size=64, buffer_rows=2000))
    assert order.num_lanes == 4  # so a window has five blocks
    blocks = [len({row // 100 for row in order.rows(number)}) for number in range(len(order) - 1)]
    assert min(blocks) >= 4
    # Rows that follow each other in the data do not in the epoch.
    rows = np.concatenate([order.rows(number) for number in range(len(order))])
    assert (np.diff(rows) == 1).sum() < 50


def splitmix64(seed: int, count: int) -> list[int]:
    """The generator as its authors publish it."""
    found = []
    for _ in range(count):
        seed = (seed + 0x9E3779B97F4A7C15) % 2**64
        z = seed
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        found.append(z ^ (z >> 31))
    return found


def test_splitmix64_is_the_published_one():
    # The first outputs for the seed 1234567, as other implementations publish them.
    assert splitmix64(1234567, 3) == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]
    assert ordering.mixed(1234567) == 6457827717110365317


@given(st.integers(0, (1 << 64) - 1), st.integers(0, 300))
def test_a_permutation_sorts_by_the_outputs_of_splitmix64(key, count):
    numbers = splitmix64(key, count)
    assert ordering.permutation(key, count).tolist() == sorted(
        range(count), key=numbers.__getitem__
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size must be at least 1, not 0"),
        ({"batch_size": 1, "buffer_rows": 0}, "buffer_rows must be at least 1, not 0"),
        ({"batch_size": 1, "world_size": 0}, "world_size must be at least 1, not 0"),
        ({"batch_size": 1, "world_size": 2, "rank": 2}, "rank must be between 0 and 1"),
    ],
)
def test_invalid_options(options, message):
    with pytest.raises(ValueError, match=message):
        OrderOptions(**options)


@pytest.mark.parametrize(("blocks", "size", "ranks"), [([10], 1, 4), ([3], 8, 4)])
def test_rows_that_cannot_be_divided(blocks, size, ranks):
    with pytest.raises(ValueError, match=f"{blocks[0]} rows cannot be divided among {ranks} ranks"):
        EpochOrder(blocks, OrderOptions(batch_size=size, world_size=ranks))
    dropping = OrderOptions(batch_size=size, world_size=ranks, drop_last=True)
    assert len(EpochOrder(blocks, dropping)) == blocks[0] // ranks // size


@pytest.mark.parametrize("number", [-1, 1])
def test_a_batch_that_does_not_exist(number):
    with pytest.raises(IndexError, match=f"batch {number} of 1"):
        EpochOrder([3], OrderOptions(batch_size=4)).batch(number)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({}, "'epoch' is missing"),
        ({"epoch": 1}, "'batch' is missing"),
        ({"epoch": 1, "batch": -1}, "'batch' is -1"),
        ({"epoch": "1", "batch": 1}, "'epoch' is '1'"),
    ],
)
def test_invalid_states(state, message):
    with pytest.raises(ValueError, match=message):
        Progress.from_dict(state)


def test_the_state_of_another_worker():
    state = Progress(batch=7, worker=1, workers=3)
    assert state.of_worker(1, 3) == state
    with pytest.raises(ValueError, match="worker 1 of 3 and cannot be loaded by worker 0 of 2"):
        state.of_worker(0, 2)


def test_a_fingerprint_tells_data_and_options():
    options = OrderOptions(batch_size=4)
    every = [
        ordering.fingerprint(*case)
        for case in [
            ([3, 3], options, "x"),
            ([3, 4], options, "x"),
            ([3, 3], options, "y"),
            ([3, 3], OrderOptions(batch_size=4, seed=1), "x"),
        ]
    ]
    assert len(set(every)) == 4

"""Rows by number: `take` and `sample` of files and datasets, against Arrow's `take` of the table."""

import random
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from files import ALWAYS, NEVER, gathering, written
from hypothesis import given, strategies as st
from strategies import assert_same, tables, write_options

import fastmosaic as fm
from fastmosaic.errors import MemoryLimitError
from fastmosaic.format.schema import SchemaBlock


class Recorded:
    """A source of bytes that remembers how many were read."""

    def __init__(self, data):
        self.data = data
        self.at = self.num_read = 0

    def seek(self, offset, whence=0):
        self.at = offset + (0, self.at, len(self.data))[whence]
        return self.at

    def tell(self):
        return self.at

    def read(self, size=-1):
        found = self.data[self.at :] if size < 0 else self.data[self.at : self.at + size]
        self.at += len(found)
        self.num_read += len(found)
        return found

    def seekable(self):
        return True

    readable = seekable

    closed = False


@given(
    table=tables(min_columns=1, max_columns=6),
    options=write_options(),
    rng=st.builds(random.Random, st.integers(0, 1 << 32)),
    factor=st.sampled_from([NEVER, ALWAYS, 4]),
)
def test_take_is_that_of_arrow(table, options, rng, factor):
    if options.get("annex") is False:
        options["annex"] = True  # otherwise types may differ from those of the table
    file = fm.MosaicFile(written(table, **options))
    whole = file.read()
    numbers = rng.choices(range(table.num_rows), k=rng.choice([0, 1, 2, 9])) if len(table) else []
    names = rng.sample(table.column_names, rng.randint(0, table.num_columns))
    with gathering(factor):
        assert_same(file.take(numbers), whole.take(pa.array(numbers, pa.int64())))
        taken = file.take(np.array(numbers, np.int32), names, use_threads=False)
    assert taken.num_rows == len(numbers)
    if names:
        assert_same(taken, whole.select(names).take(pa.array(numbers, pa.int64())))


def users_table():
    """Columns of types that a file restores: structs, categories, durations, fixed-size lists."""
    count = 3000
    return pa.table(
        {
            "struct": [{"a": i, "b": [str(i)] * (i % 3)} if i % 7 else None for i in range(count)],
            "category": pa.array([f"c{i % 11}" for i in range(count)]).dictionary_encode(),
            "duration": pa.array(range(count), pa.duration("us")),
            "fixed": pa.array([[i, i + 1] for i in range(count)], pa.list_(pa.int32(), 2)),
            "map": pa.array(
                [[(f"k{j}", j) for j in range(i % 4)] for i in range(count)],
                pa.map_(pa.string(), pa.int64()),
            ),
            "lists": [[[i] * (i % 3), []] if i % 5 else None for i in range(count)],
            "uint64": pa.array(range(count), pa.uint64()),
        }
    )


@pytest.mark.parametrize("layout", [0, None], ids=["paged", "default"])
@pytest.mark.parametrize("factor", [NEVER, 4])
def test_types_of_users(layout, factor):
    table = users_table()
    file = fm.MosaicFile(written(table, page_size_threshold=layout, row_group_size=1000))
    numbers = [2999, 5, 1700, 5, 0, 1699, 64]
    expected = pa.Table.from_pylist(
        [table.slice(number, 1).to_pylist()[0] for number in numbers], schema=table.schema
    )
    with gathering(factor):
        found = file.take(numbers)
    assert found.schema == table.schema
    assert found.to_pylist() == expected.to_pylist()


def test_row_numbers_in_every_form():
    file = fm.MosaicFile(written(pa.table({"a": range(10)})))
    for numbers in (
        [3, 1, 3],
        (3, 1, 3),
        np.array([3, 1, 3], np.uint8),
        pa.array([3, 1, 3], pa.uint64()),
        pa.chunked_array([[3], [1, 3]]),
    ):
        assert file.take(numbers)["a"].to_pylist() == [3, 1, 3]
    assert file.take([]).num_rows == 0
    assert file.take([]).schema == file.schema
    assert file.take([4, 4, 4], columns=[]).num_rows == 3
    assert file.take(range(2, 5)).column("a").to_pylist() == [2, 3, 4]


@pytest.mark.parametrize(
    ("numbers", "error", "told"),
    [
        ([10], IndexError, "row 10 of 10"),
        ([0, -1], IndexError, "row -1 of 10"),
        (pa.array([2**64 - 1], pa.uint64()), IndexError, "18446744073709551615"),
        ([1, None], ValueError, "must not be null"),
        ([1.0], TypeError, "must be integers, not double"),
        ([True], TypeError, "must be integers, not bool"),
        (["1"], TypeError, "must be integers, not string"),
    ],
)
def test_row_numbers_that_are_refused(numbers, error, told, tmp_path):
    path = tmp_path / "a.mosaic"
    fm.write_table(pa.table({"a": range(10)}), path)
    for readable in (fm.MosaicFile(path), fm.MosaicDataset(path)):
        for columns in (None, []):
            with pytest.raises(error, match=told):
                readable.take(numbers, columns)


def test_unknown_columns_and_closed_files():
    file = fm.MosaicFile(written(pa.table({"a": [1]})))
    with pytest.raises(fm.ColumnNotFoundError, match="nope"):
        file.take([0], ["nope"])
    file.close()
    with pytest.raises(ValueError, match="closed"):
        file.take([0])


# What it costs


def wide_table(num_rows, num_columns):
    rng = np.random.default_rng(0)
    values = rng.random((num_columns, num_rows))
    texts = pa.array([f"{i:020}" for i in range(num_rows)])
    numbers = {f"c{i}": values[i] for i in range(num_columns)}
    return pa.table({**numbers, "text": texts, "list": [[i, i] for i in range(num_rows)]})


def test_only_the_wanted_rows_are_decoded():
    """The memory of a result is limited to a hundredth of that of all rows."""
    table = wide_table(20_000, 20)
    data = written(table)
    file = fm.MosaicFile(data, memory_limit=table.nbytes // 100)
    numbers = [17, 4_000, 4_001, 19_999]
    assert file.take(numbers).equals(table.take(numbers))
    with gathering(NEVER), pytest.raises(MemoryLimitError):
        file.take(numbers)


@pytest.mark.parametrize("element", [pa.int64(), pa.bool_(), pa.string()], ids=str)
def test_only_the_wanted_lists_of_a_block_are_decoded(element):
    """The memory of a result is limited to a thousandth of that of all lists."""
    values = pa.array(range(1000)).cast(pa.string() if pa.types.is_string(element) else pa.int64())
    values = values.cast(element).to_pylist()
    rows = [None if i % 11 == 0 else [values[i % 1000], None] * (i % 6) for i in range(100_000)]
    table = pa.table(
        {"a": pa.array(rows, pa.list_(element)), "b": pa.nulls(100_000, pa.list_(element))}
    )
    data = written(table, array_layout="block", row_group_size=len(rows))
    numbers = [99_999, 5, 11, 5, 50_000, 50_001]
    for cache in (None, "64m"):
        file = fm.MosaicFile(data, memory_limit=table.nbytes // 1000, cache=cache)
        for _ in range(2):
            assert_same(file.take(numbers), table.take(numbers))
    with gathering(NEVER), pytest.raises(MemoryLimitError):
        file.take(numbers)


def test_only_row_groups_with_wanted_rows_are_read():
    table = wide_table(20_000, 20)
    source = Recorded(written(table, row_group_size=1000))
    file = fm.MosaicFile(source)
    source.num_read = 0
    assert file.take([19_001, 18_000, 19_500]).equals(table.take([19_001, 18_000, 19_500]))
    assert source.num_read <= len(source.data) * 2 // 20
    source.num_read = 0
    file.take([500], ["c1"])
    assert source.num_read <= len(source.data) // 20


# Samples


def test_a_sample_is_exact_and_reproducible(tmp_path):
    whole = pa.table({"a": range(1000), "b": [str(i) for i in range(1000)]})
    paths = [tmp_path / f"{i}.mosaic" for i in range(4)]
    for i, path in enumerate(paths):
        fm.write_table(whole.slice(250 * i, 250), path, row_group_size=60)
    one = tmp_path / "whole" / "all.mosaic"
    one.parent.mkdir()
    fm.write_table(whole, one)
    dataset, file = fm.MosaicDataset(paths), fm.MosaicFile(one)
    expected = file.sample(37, seed=5)
    numbers = expected["a"].to_pylist()
    assert numbers == sorted(set(numbers))
    assert len(numbers) == 37
    assert expected["b"].to_pylist() == list(map(str, numbers))
    for use_threads in (True, False):
        assert dataset.sample(37, seed=5, use_threads=use_threads).equals(expected)
    code = f"import fastmosaic as fm; print(fm.MosaicFile({str(one)!r}).sample(37, seed=5)['a'].to_pylist())"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert printed.stdout.decode().strip() == str(numbers)
    assert dataset.sample(37, seed=6, columns=["a"])["a"].to_pylist() != numbers
    assert dataset.sample(1000, seed=1).equals(whole)
    assert dataset.sample(0).num_rows == 0


def test_every_row_is_sampled_as_often():
    file = fm.MosaicFile(written(pa.table({"a": range(20)})))
    drawn = [number for seed in range(400) for number in file.sample(5, seed=seed)["a"].to_pylist()]
    counts = np.bincount(drawn, minlength=20)
    assert counts.sum() == 2000
    assert counts.min() > 60  # 100 are expected, with a standard deviation of 8.7
    assert counts.max() < 140


@pytest.mark.parametrize(
    ("n", "error", "told"),
    [
        (11, ValueError, "cannot sample 11 of 10 rows"),
        (-1, ValueError, "cannot sample -1 of 10"),
        (2.5, TypeError, "n must be a number of rows, not 2.5"),
        (True, TypeError, "n must be a number of rows"),
    ],
)
def test_samples_that_are_refused(n, error, told):
    with pytest.raises(error, match=told):
        fm.MosaicFile(written(pa.table({"a": range(10)}))).sample(n, seed=0)


# Damage


@pytest.mark.parametrize("layout", ["columns", "block"])
def test_damaged_files(layout):
    """One wrong bit, anywhere: valid arrays, or an error of the file. Nothing crashes."""
    table = wide_table(600, 3)
    data = bytearray(written(table, compression="none", annex=False, array_layout=layout))
    numbers = [3, 77, 599]
    expected = table.take(numbers)
    rng = random.Random(1)
    refused = 0
    for _ in range(150):
        at = rng.randrange(4, len(data))
        before = data[at]
        data[at] ^= 1 << rng.randrange(8)
        try:
            fm.MosaicFile(bytes(data)).take(numbers).validate(full=True)
        except fm.MosaicError:
            refused += 1
        data[at] = before
    assert refused
    assert fm.MosaicFile(bytes(data)).take(numbers).equals(expected)


def test_columns_are_looked_up_once_for_many_reads(monkeypatch):
    table = pa.table({f"c{i}": range(50) for i in range(30)})
    looked_up = []
    find = SchemaBlock.find
    monkeypatch.setattr(
        SchemaBlock, "find", lambda self, name: looked_up.append(name) or find(self, name)
    )
    names = [f"c{i}" for i in range(0, 30, 2)]
    with fm.MosaicFile(written(table, write_statistics=["c0"])) as file:
        assert file.take([7], names).to_pylist() == [dict.fromkeys(names, 7)]
        assert len(looked_up) >= 15
        looked_up.clear()
        for row in range(3):
            assert file.take([row], names).to_pylist() == [dict.fromkeys(names, row)]
        assert looked_up == []
        for number in range(30):  # other selections, more than are kept
            assert file.take([3], [f"c{number}"]).to_pylist() == [{f"c{number}": 3}]
        assert file.take([8], names[::-1]).column_names == names[::-1]
        with pytest.raises(fm.ColumnNotFoundError):
            file.take([0], ["c0", "d"])
        with pytest.raises(fm.ColumnNotFoundError):
            file.take([0], ["c0", "d"])

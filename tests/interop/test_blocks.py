"""Blocks of training: rows of row groups in matrices, also after a filter, and in another process."""

import os
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import fastmosaic as fm
from fastmosaic.dataset.fileset import FileSet
from fastmosaic.interop.blocks import MatrixBlocks, MatrixColumns
from fastmosaic.interop.order import Piece

FEATURES = MatrixColumns(["b", "a", "d"], "float32", "nan")
LABELS = MatrixColumns(["y"], "int64", "raise")


@pytest.fixture
def folder(tmp_path):
    """Three files of two row groups. Row `r` has a = r, b = r / 2, d = r in another type; y = r % 3."""
    for number in range(3):
        rows = range(100 * number, 100 * (number + 1))
        values = pa.array([row / 2 for row in rows], pa.float32() if number else pa.float64())
        table = pa.table(
            {
                "a": pa.array(rows, pa.int32()),
                "b": values,
                "d": pa.array(rows, pa.int64()).cast(pa.decimal128(22, 2)),
                "y": [row % 3 for row in rows],
            }
        )
        fm.write_table(table, tmp_path / f"{number}.mosaic", row_group_size=60)
    return tmp_path


def matrices(rows):
    rows = np.asarray(rows)
    return np.stack([rows / 2, rows, rows], 1).astype("float32"), rows[:, None] % 3


def read(blocks, piece, **options):
    count = piece.stop - piece.start
    out = np.empty((count, 3), "float32"), np.empty((count, 1), "int64")
    blocks.read(piece, out, **options)
    return out


@pytest.mark.parametrize("use_threads", [False, True])
def test_rows_of_blocks(folder, use_threads):
    blocks = MatrixBlocks(FileSet(folder), [FEATURES, LABELS])
    assert blocks.sizes == [60, 40] * 3
    sent = pickle.loads(pickle.dumps(blocks))
    assert sent.identity == blocks.identity
    for one in (blocks, sent):
        for number, first in enumerate((0, 60, 100, 160, 200, 260)):
            found = read(one, Piece(number, 3, 31), use_threads=use_threads)
            for made, want in zip(found, matrices(range(first + 3, first + 31)), strict=True):
                np.testing.assert_array_equal(made, want)


@pytest.mark.parametrize("limit", [150, 1000])
def test_rows_that_match_a_filter(folder, limit):
    """Some row groups have no match, others only some."""
    filters = (pc.field("a") < limit) & (pc.field("y") == 2) & (pc.field("a") != 5)
    rows = [row for row in range(min(limit, 300)) if row % 3 == 2 and row != 5]
    blocks = MatrixBlocks(FileSet(folder), [FEATURES, LABELS], filters)
    assert sum(blocks.sizes) == len(rows)
    sent = pickle.loads(pickle.dumps(blocks))
    assert sent.identity == blocks.identity
    for one in (blocks, sent):
        first = 0
        for number, size in enumerate(one.sizes):
            piece = Piece(number, min(2, size), size)
            found = read(one, piece)
            for made, want in zip(found, matrices(rows[first:][piece.start : size]), strict=True):
                np.testing.assert_array_equal(made, want)
            first += size


def test_the_identity_depends_on_the_rows_that_match(folder):
    def identity(filters):
        return MatrixBlocks(FileSet(folder), [FEATURES], filters).identity

    assert identity([("y", "=", 1)]) == identity(pc.field("y") == 1)
    assert len({identity(None), identity([("y", "=", 1)]), identity([("y", "=", 2)])}) == 3


def test_columns_that_some_files_lack(tmp_path):
    fm.write_table(pa.table({"a": [1, 2]}), tmp_path / "0.mosaic")
    fm.write_table(pa.table({"a": [3], "b": [0.5]}), tmp_path / "1.mosaic")
    blocks = MatrixBlocks(FileSet(tmp_path), [MatrixColumns(["b", "a"], "float32", -1)])
    out = np.zeros((2, 2), "float32")
    blocks.read(Piece(0, 0, 2), [out])
    assert out.tolist() == [[-1, 1], [-1, 2]]
    blocks.read(Piece(1, 0, 1), [out[1:]])
    assert out.tolist() == [[-1, 1], [0.5, 3]]
    refusing = MatrixBlocks(FileSet(tmp_path), [MatrixColumns(["a", "b"], "float32", "raise")])
    with pytest.raises(fm.SchemaMismatchError, match="contains nulls") as raised:
        refusing.read(Piece(0, 0, 2), [out])
    assert raised.value.column == "b"


def test_columns_of_a_table_that_were_added(tmp_path):
    table = fm.MosaicTable.create(tmp_path / "t", pa.table({"a": [1.0, 2.0, 3.0]}))
    table.add_columns({"b": pc.field("a") * 2})
    blocks = MatrixBlocks(FileSet(tmp_path / "t"), [MatrixColumns(["b", "a"], "float64", "nan")])
    out = np.empty((2, 2))
    blocks.read(Piece(0, 1, 3), [out])
    assert out.tolist() == [[4, 2], [6, 3]]


def test_files_that_change(folder):
    blocks = MatrixBlocks(FileSet(folder), [FEATURES, LABELS])
    path = folder / "1.mosaic"
    fm.write_table(fm.read_table(path), folder / "new")
    os.replace(folder / "new", path)
    read(blocks, Piece(0, 0, 5))
    with pytest.raises(OSError, match=r"1\.mosaic was changed while the dataset was read"):
        read(blocks, Piece(2, 0, 5))
    path.unlink()
    with pytest.raises(OSError, match=r"1\.mosaic was changed while the dataset was read"):
        read(blocks, Piece(3, 0, 5))


def test_damaged_blocks_name_the_file(folder):
    path = folder / "2.mosaic"
    start = fm.read_metadata(path).row_group(1).buckets[0].offset
    data = bytearray(path.read_bytes())
    data[start : start + 40] = bytes(40)
    path.write_bytes(data)
    blocks = MatrixBlocks(FileSet(folder), [FEATURES])
    out = np.empty((10, 3), "float32")
    blocks.read(Piece(4, 0, 10), [out])
    with pytest.raises(fm.CorruptFileError, match=r"2\.mosaic"):
        blocks.read(Piece(5, 0, 10), [out])


@pytest.mark.parametrize(
    ("values", "dtype", "problem"),
    [
        (["x"], "float32", "which is not a number"),
        ([300], "int8", "contains 300, which int8 cannot represent"),
        ([None], "int64", "contains nulls"),
    ],
)
def test_columns_that_are_refused(tmp_path, values, dtype, problem):
    fm.write_table(pa.table({"fine": [1], "bad": values}), tmp_path / "a.mosaic")
    with pytest.raises(fm.MosaicError, match=problem) as raised:  # noqa: PT012 - either may raise
        blocks = MatrixBlocks(FileSet(tmp_path), [MatrixColumns(["fine", "bad"], dtype, "nan")])
        blocks.read(Piece(0, 0, 1), [np.empty((1, 2), dtype)])
    assert raised.value.column == "bad"

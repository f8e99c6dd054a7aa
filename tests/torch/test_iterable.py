"""Tensors equal the data, in one order for any number of workers, and training can be resumed."""

import doctest
import os
import pickle
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

import fastmosaic as fm
import fastmosaic.interop.torch
from fastmosaic.torch import MosaicIterable

FEATURES = [f"f{number}" for number in range(6)]
ROWS = 1000
OPTIONS = {"batch_size": 32, "buffer_rows": 400, "seed": 5}

pytestmark = pytest.mark.filterwarnings(
    # Python warns about fork in a process with threads, which those of pyarrow are.
    "ignore:This process .* is multi-threaded:DeprecationWarning",
    "ignore:'set_vital' is deprecated:UserWarning",  # torchdata 0.11 calls it
    "ignore:This DataLoader will create 3 worker processes:UserWarning",  # on two cores
)


def data() -> pa.Table:
    """Feature `fN` of row `r` is `1000 * N + r`, which float32 represents."""
    rows = np.arange(ROWS)
    columns = {name: 1000.0 * number + rows for number, name in enumerate(FEATURES)}
    return pa.table({"id": rows, **columns, "y": rows % 3, "z": rows / 4})


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Eight files with 3 row groups each."""
    path = tmp_path_factory.mktemp("data")
    table = data()
    for number in range(8):
        part = table.slice(number * 125, 125)
        with fm.MosaicWriter(path / f"{number}.mosaic", table.schema) as writer:
            for first in range(0, 125, 50):
                writer.write(part.slice(first, 50))
                writer.flush()
    assert fm.read_metadata(path / "0.mosaic").num_row_groups == 3
    return str(path)


def rows_of(batches: Sequence[torch.Tensor]) -> list[list[int]]:
    """The numbers of the rows, by their first feature."""
    return [batch[:, 0].int().tolist() for batch in batches]


def loaded(dataset: MosaicIterable, workers: int, **options: object) -> list[list[int]]:
    return rows_of(list(DataLoader(dataset, batch_size=None, num_workers=workers, **options)))


@pytest.mark.parametrize("shuffle", [False, True])
def test_tensors_equal_the_data(directory, shuffle):
    batches = list(MosaicIterable(directory, FEATURES, shuffle=shuffle, **OPTIONS))
    assert {(batch.dtype, batch.is_contiguous()) for batch in batches} == {(torch.float32, True)}
    every = torch.cat(batches)
    rows = every[:, 0].int()
    assert sorted(rows.tolist()) == list(range(ROWS))
    assert (rows.tolist() == list(range(ROWS))) == (not shuffle)
    expected = rows[:, None] + 1000.0 * torch.arange(6)
    assert torch.equal(every, expected)
    assert [len(batch) for batch in batches] == [32] * 31 + [8]


def test_columns_are_in_the_order_asked_for_and_without_labels(directory):
    dataset = MosaicIterable(
        directory, ["f3", "y", "f[01]"], label="y", batch_size=2, shuffle=False
    )
    features, labels = next(iter(dataset))
    assert features.tolist() == [[3000, 0, 1000], [3001, 1, 1001]]
    assert labels.tolist() == [0, 1]
    assert labels.dtype == torch.int64


@pytest.mark.parametrize(
    ("label", "options", "dtype", "shape"),
    [
        ("y", {}, torch.int64, (1000,)),
        ("z", {}, torch.float32, (1000,)),
        ("z", {"dtype": torch.float64}, torch.float64, (1000,)),
        (["y", "z"], {}, torch.float32, (1000, 2)),
        (["y"], {"label_dtype": "float16"}, torch.float16, (1000, 1)),
    ],
)
def test_labels(directory, label, options, dtype, shape):
    dataset = MosaicIterable(directory, FEATURES, label=label, **OPTIONS, **options)
    features, labels = map(torch.cat, zip(*dataset, strict=True))
    assert (labels.dtype, labels.shape) == (dtype, shape)
    rows = features[:, 0].to(torch.float64)
    names = [label] if isinstance(label, str) else label
    expected = torch.stack([rows % 3 if name == "y" else rows / 4 for name in names], 1)
    assert torch.equal(labels.reshape(1000, -1), expected.to(dtype))


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int64", "int32"])
def test_dtypes(directory, dtype):
    for given in (dtype, getattr(torch, dtype)):
        dataset = MosaicIterable(directory, FEATURES, dtype=given, batch_size=100, shuffle=False)
        batch = next(iter(dataset))
        assert batch.dtype == getattr(torch, dtype)
        expected = torch.arange(100.0)[:, None] + 1000.0 * torch.arange(6)
        assert torch.equal(batch, expected.to(batch.dtype))


def test_rows_that_match_a_filter(directory):
    options = {"batch_size": 16, "buffer_rows": 400, "seed": 5, "filters": [("y", "=", 2)]}
    dataset = MosaicIterable(directory, FEATURES, **options)
    matching = [row for row in range(ROWS) if row % 3 == 2]
    assert len(dataset) == -(-len(matching) // 16)
    batches = loaded(dataset, 0)
    assert sorted(row for batch in batches for row in batch) == matching
    assert [len(batch) for batch in batches] == [16] * 20 + [13]
    assert loaded(MosaicIterable(directory, FEATURES, **options), 2) == batches
    spawned = MosaicIterable(directory, FEATURES, **options)
    assert loaded(spawned, 2, multiprocessing_context="spawn") == batches
    other = MosaicIterable(directory, FEATURES, **{**options, "filters": [("y", "=", 1)]})
    with pytest.raises(ValueError, match="the state belongs to other data"):
        other.load_state_dict(dataset.state_dict())
    assert len(MosaicIterable(directory, FEATURES, **{**options, "filters": [("y", ">", 2)]})) == 0


@pytest.mark.parametrize("order", ["F", "C"])
def test_a_matrix_in_the_memory_of_a_tensor(directory, order):
    """Pinned memory, which requires CUDA, is such a tensor, too."""
    rows, columns = ROWS, len(FEATURES)
    tensor = torch.zeros((rows, columns)) if order == "C" else torch.zeros((columns, rows)).T
    fm.read_matrix(directory, FEATURES, out=tensor.numpy())
    assert torch.equal(tensor, torch.arange(rows)[:, None] + 1000.0 * torch.arange(columns))


@pytest.mark.parametrize("dtype", ["nn", torch.complex64])
def test_a_dtype_that_is_not_supported(directory, dtype):
    with pytest.raises(ValueError, match=r"invalid dtype .*(nn|complex64)"):
        MosaicIterable(directory, FEATURES, dtype=dtype, batch_size=4)


@pytest.fixture
def with_nulls(tmp_path: Path) -> str:
    table = pa.table({"f": [1.5, None, 2.5], "g": [None, 2, 3], "y": [0, None, 1]})
    fm.write_table(table, tmp_path / "a.mosaic")
    return str(tmp_path)


def test_nulls(with_nulls):
    def only(**options: object) -> torch.Tensor:
        return next(iter(MosaicIterable(with_nulls, batch_size=3, shuffle=False, **options)))

    found = only(columns=["f", "g"])
    expected = torch.tensor([[1.5, torch.nan], [torch.nan, 2], [2.5, 3]])
    assert torch.equal(found.nan_to_num(-1), expected.nan_to_num(-1))
    assert only(columns=["f", "g"], nulls=0).tolist() == [[1.5, 0], [0, 2], [2.5, 3]]
    with pytest.raises(ValueError, match=r"'[fg]'.*null|null.*'[fg]'"):
        only(columns=["f", "g"], nulls="raise")
    with pytest.raises(ValueError, match=r"'y'.*null|null.*'y'"):
        only(columns=["f"], label="y")
    assert only(columns=["f"], label="y", nulls=-100)[1].tolist() == [0, -100, 1]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"columns": ["nope"]}, fm.ColumnNotFoundError, "nope"),
        ({"label": "nope"}, fm.ColumnNotFoundError, "nope"),
        ({"nulls": "zero"}, ValueError, "nulls must be 'nan', 'raise' or a number, not 'zero'"),
        ({"rank": 1}, ValueError, "rank and world_size must be given together"),
        ({"batch_size": 0}, ValueError, "batch_size must be at least 1"),
    ],
)
def test_invalid_options(directory, options, error, message):
    with pytest.raises(error, match=message):
        MosaicIterable(directory, **{"columns": FEATURES, "batch_size": 4, **options})


def test_text_is_not_a_feature(tmp_path):
    fm.write_table(pa.table({"name": ["a", "b"]}), tmp_path / "a.mosaic")
    with pytest.raises((fm.SchemaMismatchError, TypeError, ValueError), match="name"):
        next(iter(MosaicIterable(tmp_path, ["name"], batch_size=1)))


# ---- workers and ranks


@pytest.mark.parametrize("context", ["fork", "spawn"])
@pytest.mark.parametrize("shuffle", [False, True])
def test_any_number_of_workers_gives_one_order(directory, context, shuffle):
    dataset = MosaicIterable(directory, FEATURES, shuffle=shuffle, **OPTIONS)
    expected = rows_of(list(dataset))
    assert len(expected) == len(dataset)
    assert sorted(row for batch in expected for row in batch) == list(range(ROWS))
    for workers in (1, 2, 3) if context == "fork" else (2,):
        loader = DataLoader(
            dataset, batch_size=None, num_workers=workers, multiprocessing_context=context
        )
        assert len(loader) == len(expected)
        assert rows_of(list(loader)) == expected
    assert loaded(dataset, 0) == expected


def test_ranks_share_no_rows(directory):
    def of_rank(rank: int) -> list[list[int]]:
        dataset = MosaicIterable(directory, FEATURES, rank=rank, world_size=3, **OPTIONS)
        found = rows_of(list(dataset))
        assert len(found) == len(dataset) == 11
        assert loaded(dataset, 2) == found
        return found

    every = [row for rank in range(3) for batch in of_rank(rank) for row in batch]
    assert sorted(every) == list(range(ROWS))


def test_ranks_are_those_of_torch_distributed(directory, tmp_path):
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1
    )
    try:
        dataset = MosaicIterable(directory, FEATURES, **OPTIONS)
        assert rows_of(list(dataset)) == rows_of(
            list(MosaicIterable(directory, FEATURES, rank=0, world_size=1, **OPTIONS))
        )
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize("persistent", [False, True])
def test_epochs(directory, persistent):
    dataset = MosaicIterable(directory, FEATURES, **OPTIONS)
    loader = DataLoader(dataset, batch_size=None, num_workers=2, persistent_workers=persistent)
    found = []
    for epoch in (0, 1, 0):
        dataset.set_epoch(epoch)
        found.append(rows_of(list(loader)))
        assert found[-1] == rows_of(list(dataset))
    assert found[0] == found[2] != found[1]
    assert sorted(map(sorted, found[0])) != sorted(map(sorted, found[1]))


# ---- resuming


def test_resuming_continues_the_epoch(directory):
    dataset = MosaicIterable(directory, FEATURES, **OPTIONS)
    dataset.set_epoch(3)
    expected = rows_of(list(dataset))
    for seen in (0, 1, 17, len(expected)):
        first = MosaicIterable(directory, FEATURES, **OPTIONS)
        first.set_epoch(3)
        iterator = iter(first)
        before = rows_of([next(iterator) for _ in range(seen)])
        state = pickle.loads(pickle.dumps(first.state_dict()))
        second = MosaicIterable(directory, FEATURES, **OPTIONS)
        second.load_state_dict(state)
        assert second.state_dict() == state
        assert before + rows_of(list(second)) == expected
        # The next iteration is a whole epoch again.
        assert rows_of(list(second)) == expected


def test_resuming_by_the_number_of_batches_with_other_workers(directory):
    dataset = MosaicIterable(directory, FEATURES, **OPTIONS)
    dataset.set_epoch(2)
    expected = rows_of(list(dataset))
    for workers in (0, 1, 3):
        resumed = MosaicIterable(directory, FEATURES, **OPTIONS)
        resumed.load_state_dict({"epoch": 2, "batch": 10})
        assert loaded(resumed, workers) == expected[10:]


def test_another_epoch_begins_at_its_first_batch(directory):
    dataset = MosaicIterable(directory, FEATURES, **OPTIONS)
    dataset.load_state_dict({"epoch": 2, "batch": 10})
    dataset.set_epoch(3)
    assert len(list(dataset)) == len(dataset)


@pytest.mark.parametrize("workers", [0, 1, 2, 3])
@pytest.mark.parametrize("seen", [1, 10, 31])
def test_resuming_a_stateful_data_loader(directory, workers, seen):
    def loader() -> StatefulDataLoader:
        dataset = MosaicIterable(directory, FEATURES, **OPTIONS)
        return StatefulDataLoader(dataset, batch_size=None, num_workers=workers)

    first = loader()
    first.dataset.set_epoch(1)
    expected = rows_of(list(first))
    iterator = iter(first)
    before = rows_of([next(iterator) for _ in range(seen)])
    state = first.state_dict()
    del iterator

    second = loader()
    second.load_state_dict(state)
    assert before + rows_of(list(second)) == expected
    second.dataset.set_epoch(2)
    following = rows_of(list(second))
    assert len(following) == len(expected)
    assert following != expected


@pytest.mark.parametrize("changed", [{"seed": 6}, {"batch_size": 33}, {"shuffle": False}])
def test_a_state_of_other_settings(directory, changed):
    state = MosaicIterable(directory, FEATURES, **OPTIONS).state_dict()
    other = MosaicIterable(directory, FEATURES, **{**OPTIONS, **changed})
    with pytest.raises(
        ValueError, match="the state belongs to other data, or to another batch_size"
    ):
        other.load_state_dict(state)


def test_a_state_of_other_data(tmp_path):
    fm.write_table(pa.table({"f": [1.0, 2.0, 3.0]}), tmp_path / "a.mosaic")
    state = MosaicIterable(tmp_path, ["f"], batch_size=2).state_dict()
    fm.write_table(pa.table({"f": [1.0, 2.0, 3.0]}), tmp_path / "b.mosaic")
    with pytest.raises(ValueError, match="the state belongs to other data"):
        MosaicIterable(tmp_path, ["f"], batch_size=2).load_state_dict(state)


# ---- files and tables


@pytest.mark.parametrize("workers", [0, 2])
def test_a_file_that_changes_is_an_error(tmp_path, workers):
    for name in ("a", "b"):
        fm.write_table(
            pa.table({"f": np.arange(100.0)}), tmp_path / f"{name}.mosaic", compression="none"
        )
    dataset = MosaicIterable(tmp_path, ["f"], batch_size=50, buffer_rows=100, shuffle=False)
    # Of the same size, and complete.
    fm.write_table(pa.table({"f": np.arange(100.0)[::-1]}), tmp_path / "new", compression="none")
    assert os.path.getsize(tmp_path / "new") == os.path.getsize(tmp_path / "b.mosaic")
    os.replace(tmp_path / "new", tmp_path / "b.mosaic")
    loader = iter(DataLoader(dataset, batch_size=None, num_workers=workers))
    assert next(loader)[:, 0].tolist() == list(range(50))
    with pytest.raises(OSError, match=r"b\.mosaic was changed while the dataset was read"):
        list(loader)


def test_a_file_that_was_removed_is_an_error(tmp_path):
    fm.write_table(pa.table({"f": np.arange(100.0)}), tmp_path / "a.mosaic")
    dataset = MosaicIterable(tmp_path, ["f"], batch_size=50)
    (tmp_path / "a.mosaic").unlink()
    with pytest.raises(OSError, match=r"a\.mosaic"):
        list(dataset)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_table_with_column_files_stays_at_its_version(tmp_path, workers):
    table = fm.MosaicTable.create(
        tmp_path / "t", pa.table({"id": range(100), "f0": np.arange(100.0)})
    )
    table.add_columns(pa.table({"id": range(100), "f1": np.arange(100.0) + 1000}), on="id")
    by_path = MosaicIterable(tmp_path / "t", ["f*"], batch_size=30)
    by_dataset = MosaicIterable(table.dataset(), ["f*"], batch_size=30)
    table.append(pa.table({"id": [100], "f0": [100.0], "f1": [1100.0]}))
    for dataset in (by_path, by_dataset):
        found = torch.cat(list(DataLoader(dataset, batch_size=None, num_workers=workers)))
        assert sorted(found[:, 0].tolist()) == list(range(100))
        assert torch.equal(found[:, 1], found[:, 0] + 1000)


def test_relative_paths_are_found_by_spawned_workers(directory, monkeypatch):
    monkeypatch.chdir(directory)
    dataset = MosaicIterable(".", FEATURES, **OPTIONS)
    moved = pickle.dumps(dataset)
    monkeypatch.chdir("/")
    assert rows_of(list(pickle.loads(moved))) == rows_of(
        list(MosaicIterable(directory, FEATURES, **OPTIONS))
    )


# ---- documentation


def test_the_examples_of_the_docstrings_run():
    failed, attempted = doctest.testmod(fastmosaic.interop.torch)
    assert attempted > 0
    assert failed == 0


def test_fastmosaic_torch_is_imported_on_use():
    assert fm.torch.MosaicIterable is MosaicIterable


TRAINING = Path(__file__).parents[2] / "docs" / "training.md"


def test_the_examples_of_the_page_run(tmp_path, monkeypatch):
    """All of them in order: those that need PyTorch are in blocks without a language."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "training"}
    blocks = re.findall(
        r"^```(python)?\n(.*?)^```$", TRAINING.read_text(), re.DOTALL | re.MULTILINE
    )
    assert sum("torch" in text for _, text in blocks) >= 3
    others = ("pip install", "from sklearn", "import xgboost", "import lightgbm")
    for _, text in blocks:
        if not text.startswith(others):
            exec(compile(text, str(TRAINING), "exec"), names)  # noqa: S102 - our own text

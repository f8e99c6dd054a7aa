"""A shuffled epoch, with the loaders of fastmosaic, Lance and HF datasets.

Every loader reads the same features of the same rows from local files and returns batches as float32
tensors of shape (rows, features).
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import fastmosaic as fm

from .results import OURS, TIME, Missing, Results
from .training_page import EPOCH, HF, HF_STREAMING, LANCE_SHUFFLED, WORKERS


@dataclass(frozen=True)
class Plan:
    """The sizes of a run."""

    columns: int = 5_000
    features: int = 500
    files: int = 24
    file_rows: int = 1_000
    batch_size: int = 256
    buffer_rows: int = 8_000
    epochs: int = 3

    @property
    def rows(self) -> int:
        return self.files * self.file_rows

    @property
    def names(self) -> list[str]:
        """The features: spread over the columns."""
        step = self.columns // self.features
        return [f"feature_{number:05d}" for number in range(0, self.columns, step)]


FULL = Plan()
MAX_SECONDS = 20
QUICK = Plan(columns=500, features=50, files=8, epochs=1)


def tables(plan: Plan) -> Iterator[pa.Table]:
    """Floats with two decimals, one table for each file."""
    random = np.random.default_rng(7)
    for _ in range(plan.files):
        values = random.normal(50, 20, (plan.columns, plan.file_rows)).round(2).astype("float32")
        yield pa.table(list(values), [f"feature_{number:05d}" for number in range(plan.columns)])


def write(plan: Plan, folder: Path) -> None:
    """Write the data for every loader."""
    import lance

    (folder / "mosaic").mkdir()
    (folder / "parquet").mkdir()
    for number, table in enumerate(tables(plan)):
        fm.write_table(table, folder / "mosaic" / f"{number:03d}.mosaic")
        pq.write_table(table, folder / "parquet" / f"{number:03d}.parquet", compression="zstd")
        lance.write_dataset(table, str(folder / "lance"), mode="append" if number else "create")


Epoch = Callable[[int], Iterator[Any]]


def of_fastmosaic(plan: Plan, folder: Path, workers: int) -> Epoch:
    from torch.utils.data import DataLoader

    from fastmosaic.torch import MosaicIterable

    dataset = MosaicIterable(
        folder / "mosaic",
        plan.names,
        batch_size=plan.batch_size,
        buffer_rows=plan.buffer_rows,
    )
    loader = DataLoader(dataset, batch_size=None, num_workers=workers)

    def epoch(number: int) -> Iterator[Any]:
        dataset.set_epoch(number)
        return iter(loader)

    return epoch


def stacked(columns: Sequence[Any]) -> Any:
    """Columns of a batch as one tensor."""
    import torch

    return torch.from_numpy(np.stack([column.to_numpy() for column in columns], axis=1))


def of_lance(plan: Plan, folder: Path) -> Epoch:
    """Batches in a random order; rows that are neighbours stay together."""
    from lance.sampler import ShardedBatchSampler
    from lance.torch.data import LanceDataset

    def epoch(number: int) -> Iterator[Any]:
        return iter(
            LanceDataset(
                str(folder / "lance"),
                batch_size=plan.batch_size,
                columns=plan.names,
                sampler=ShardedBatchSampler(0, 1, randomize=True, seed=number),
                to_tensor_fn=lambda batch, **_: stacked(batch.columns),
            )
        )

    return epoch


def of_hf(plan: Plan, folder: Path) -> Epoch:
    """A dataset in Arrow files, mapped into memory, whose rows are taken by number."""
    from datasets import Dataset

    paths = [str(path) for path in sorted((folder / "parquet").iterdir())]
    dataset = Dataset.from_parquet(paths, columns=plan.names, cache_dir=str(folder / "cache"))

    def epoch(number: int) -> Iterator[Any]:
        found = dataset.shuffle(seed=number, keep_in_memory=True).with_format("arrow")
        return (stacked(batch.columns) for batch in found.iter(plan.batch_size))

    return epoch


def of_hf_streaming(plan: Plan, folder: Path) -> Epoch:
    """A stream of Parquet files through a shuffle buffer."""
    import torch
    from datasets import load_dataset

    paths = [str(path) for path in sorted((folder / "parquet").iterdir())]
    dataset = load_dataset(
        "parquet", data_files=paths, columns=plan.names, split="train", streaming=True
    ).shuffle(seed=0, buffer_size=plan.buffer_rows)

    def epoch(number: int) -> Iterator[Any]:
        dataset.set_epoch(number)
        rows = iter(dataset)
        while some := list(itertools.islice(rows, plan.batch_size)):
            yield torch.tensor([[row[name] for name in plan.names] for row in some])

    return epoch


def epoch_seconds(plan: Plan, epoch: Epoch) -> float:
    """The best time of some epochs; of a slow loader, an estimate from the first seconds of one."""
    first = next(epoch(0))
    assert str(first.dtype) == "torch.float32"
    assert tuple(first.shape) == (plan.batch_size, plan.features)
    best = float("inf")
    for number in range(1, plan.epochs + 1):
        start = time.perf_counter()
        rows = 0
        for batch in epoch(number):
            rows += len(batch)
            seconds = time.perf_counter() - start
            if seconds > MAX_SECONDS:
                return seconds * plan.rows / rows
        assert rows == plan.rows
        best = min(best, time.perf_counter() - start)
    return best


def measure(results: Results, plan: Plan, folder: Path) -> None:
    """Measure an epoch with each loader, if it and PyTorch are installed."""
    loaders: dict[str, Callable[[], Epoch]] = {
        OURS: lambda: of_fastmosaic(plan, folder, 0),
        WORKERS: lambda: of_fastmosaic(plan, folder, 2),
        LANCE_SHUFFLED: lambda: of_lance(plan, folder),
        HF: lambda: of_hf(plan, folder),
        HF_STREAMING: lambda: of_hf_streaming(plan, folder),
    }
    try:
        import datasets  # noqa: F401
        import torch  # noqa: F401
    except ImportError as error:
        for name in loaders:
            results.add(EPOCH, TIME, name, Missing(f"is left out: {error.name} is not installed"))
        return
    write(plan, folder)
    for name, made in loaders.items():
        results.add(EPOCH, TIME, name, epoch_seconds(plan, made()))

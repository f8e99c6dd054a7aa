"""MosaicIterable: batches of tensors for training with PyTorch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import pyarrow as pa

from ..dataset.arrow import MosaicDataset
from ..dataset.fileset import FileSet
from .blocks import MatrixBlocks, MatrixColumns
from .numbers import DTYPES
from .order import EpochOrder, OrderOptions, Progress, ShuffledWindow, fingerprint

try:
    import torch
    from torch import distributed
    from torch.utils.data import IterableDataset, get_worker_info
except ImportError as error:  # pragma: no cover - the tests of this module have torch
    raise ImportError(
        "fastmosaic.torch requires PyTorch and NumPy: pip install 'fastmosaic[torch]'"
    ) from error

# The default of buffer_rows is as many rows as have this size.
BUFFER_BYTES: Final = 256 << 20


class MosaicIterable(IterableDataset):
    """Batches of tensors from Mosaic files, for training.

    Iterating returns tensors of shape (rows, features), or pairs of such a tensor and the labels. Pass
    the dataset to a `DataLoader` with `batch_size=None`, because it makes batches itself. The order of
    batches is the same for any number of workers, and workers and ranks share no rows.

    Every rank has the same number of batches. Without `drop_last`, every row is in exactly one batch of
    one rank, and only the last batch is smaller; in some ranks, the last but one lacks one row.

    If a local file changes while it is read, iterating raises an `OSError`.

    Parameters
    ----------
    source : path, URI, list of them, or MosaicDataset
        A file, a directory, a glob, a list of these, or a table, as for `MosaicDataset`.
    columns : sequence of str
        Names or globs of the features, in this order. Columns of `label` are left out.
    label : str or sequence of str, optional
        The label, a tensor of shape (rows,), or several, a tensor of shape (rows, labels).
    batch_size : int
        Rows of a batch.
    shuffle : bool, default True
        Shuffle the row groups, then the rows of those that fit into the buffer together.
    seed : int, default 0
        Orders with different seeds or epochs differ; with the same they are equal on every machine.
    buffer_rows : int, optional
        Number of rows that are held in memory to be shuffled, over all workers, and at least a row
        group; by default as many as take 256 MB.
    rank, world_size : int, optional
        The number of this process, and of all processes, in distributed training. By default those of
        `torch.distributed` if it is initialized, otherwise 0 and 1.
    dtype : torch.dtype or str, default "float32"
        The type of the features.
    label_dtype : torch.dtype or str, optional
        The type of the labels; by default int64 if all are integers or booleans, otherwise `dtype`.
    nulls : "nan", "raise" or number, default "nan"
        The value of nulls, or an error if there are any. With "nan", nulls in integer labels are an
        error.
    filters : pyarrow.compute.Expression or list of tuples or list of lists of tuples, optional
        Which rows to read, as in `read_matrix`. They are searched once, when the dataset is made; 8 bytes
        for each of them are kept.
    drop_last : bool, default False
        Leave out the last batch if it is not full.
    filesystem : pyarrow or fsspec filesystem, optional
        The filesystem of the paths.

    Examples
    --------
    >>> import tempfile, pyarrow as pa, fastmosaic as fm
    >>> from fastmosaic.torch import MosaicIterable
    >>> table = pa.table({"f0": [1.0, 2.0, 3.0], "f1": [4.0, None, 6.0], "y": [0, 1, 0]})
    >>> with tempfile.TemporaryDirectory() as path:
    ...     fm.write_table(table, f"{path}/a.mosaic")
    ...     data = MosaicIterable(path, ["f*"], label="y", batch_size=2, shuffle=False)
    ...     for features, labels in data:
    ...         print(features.tolist(), labels.tolist())
    [[1.0, 4.0], [2.0, nan]] [0, 1]
    [[3.0, 6.0]] [0]
    """

    def __init__(
        self,
        source: Any,
        columns: Sequence[str],
        *,
        label: str | Sequence[str] | None = None,
        batch_size: int,
        shuffle: bool = True,
        seed: int = 0,
        buffer_rows: int | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        dtype: Any = "float32",
        label_dtype: Any = None,
        nulls: Literal["nan", "raise"] | float = "nan",
        filters: Any = None,
        drop_last: bool = False,
        filesystem: object = None,
    ) -> None:
        if nulls not in ("nan", "raise") and (isinstance(nulls, str) or nulls is None):
            raise ValueError(f"nulls must be 'nan', 'raise' or a number, not {nulls!r}")
        if (rank is None) != (world_size is None):
            raise ValueError("rank and world_size must be given together")
        if isinstance(source, MosaicDataset):
            files = source.file_set()
        else:
            files = FileSet(source, filesystem=filesystem)
        if isinstance(columns, str):
            columns = [columns]
        self._label_is_one = isinstance(label, str)
        labels = [label] if isinstance(label, str) else list(label or ())
        given = files.query(labels).schema
        left_out = set(given.names)
        names = [name for name in files.query(columns).schema.names if name not in left_out]
        self._dtypes = [_torch_dtype(dtype)]
        matrices = [MatrixColumns(names, _read_dtype(self._dtypes[0]), nulls)]
        if labels:
            whole = all(
                pa.types.is_integer(field.type) or pa.types.is_boolean(field.type)
                for field in given
            )
            if label_dtype is None:
                label_dtype = "int64" if whole else dtype
            self._dtypes.append(_torch_dtype(label_dtype))
            of_labels: Literal["nan", "raise"] | float = (
                "raise" if nulls == "nan" and not self._dtypes[1].is_floating_point else nulls
            )
            matrices.append(MatrixColumns(given.names, _read_dtype(self._dtypes[1]), of_labels))
        self._widths = [len(matrix.names) for matrix in matrices]
        self._read_dtypes = [getattr(torch, matrix.dtype) for matrix in matrices]
        self._blocks = MatrixBlocks(files, matrices, filters)
        if buffer_rows is None:
            row_bytes = sum(
                width * one.itemsize
                for width, one in zip(self._widths, self._read_dtypes, strict=True)
            )
            buffer_rows = max(1, BUFFER_BYTES // max(1, row_bytes))
        if rank is None or world_size is None:
            rank, world_size = _rank_and_world_size()
        self._options = OrderOptions(
            batch_size, shuffle, seed, buffer_rows, rank, world_size, drop_last
        )
        self._fingerprint = fingerprint(self._blocks.sizes, self._options, self._blocks.identity)
        # In shared memory: workers that live for several epochs see the epoch that is set here.
        self._epoch = torch.zeros((), dtype=torch.int64).share_memory_()
        self._loaded: Progress | None = None
        self._progress: Progress | None = None
        self._num_batches = len(self._order(0))

    def _order(self, epoch: int) -> EpochOrder:
        return EpochOrder(self._blocks.sizes, self._options, epoch)

    def __len__(self) -> int:
        """Return the number of batches of an epoch, which is the same for every rank."""
        return self._num_batches

    @property
    def epoch(self) -> int:
        """The number of the epoch that the next iteration returns."""
        return int(self._epoch)

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next iteration, also in workers that are running.

        Epochs have different orders. Without this call, every iteration has the same.
        """
        if epoch < 0:
            raise ValueError(f"epoch must not be negative, not {epoch}")
        self._epoch.fill_(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return the position in the epoch: the next batch of this process or worker.

        A `DataLoader` with workers iterates copies of this object, so this one does not know how far
        they are. torchdata's `StatefulDataLoader` collects the states of its workers.
        """
        current = self._progress if self._loaded is None else self._loaded
        if current is None or current.epoch != self.epoch:
            current = Progress(self.epoch)
        return {**current.to_dict(), "fingerprint": self._fingerprint}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue the next iteration where `state_dict` was called.

        `{"epoch": 2, "batch": 1000}` continues after 1,000 batches of epoch 2, with any number of
        workers. Raise a ValueError if data, seed, batch size, buffer or ranks are not those of the state.
        """
        if state.get("fingerprint", self._fingerprint) != self._fingerprint:
            raise ValueError(
                "the state belongs to other data, or to another batch_size, seed, shuffle, "
                "buffer_rows, rank, world_size or drop_last"
            )
        loaded = Progress.from_dict(state)
        self._loaded = loaded
        self.set_epoch(loaded.epoch)

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        worker, workers = (0, 1) if info is None else (info.id, info.num_workers)
        start, self._loaded = self._loaded, None
        if start is None or start.epoch != self.epoch:
            start = Progress(self.epoch)
        self._progress = start.of_worker(worker, workers)
        # Workers are as many as there are cores to use, so each of them uses one.
        return self._batches(self._progress, use_threads=info is None)

    def _batches(self, progress: Progress, use_threads: bool) -> Iterator[Any]:
        order = self._order(progress.epoch)
        held: dict[int, _LoadedWindow] = {}  # one for each lane
        while progress.batch < len(order):
            parts = order.batch(progress.batch)
            rows = order.size(progress.batch)
            made = [
                torch.empty((rows, width), dtype=dtype)
                for width, dtype in zip(self._widths, self._read_dtypes, strict=True)
            ]
            first = 0
            for lane, window, start, stop in parts:
                if lane not in held or held[lane].window is not window:
                    held.pop(lane, None)  # before memory for the next is needed
                    held[lane] = self._load(window, use_threads)
                held[lane].take(start, stop, [one[first : first + stop - start] for one in made])
                first += stop - start
            progress = progress.next()
            self._progress = progress
            yield self._finished(made)

    def _load(self, window: ShuffledWindow, use_threads: bool) -> _LoadedWindow:
        matrices = [
            torch.empty((window.num_rows, width), dtype=dtype)
            for width, dtype in zip(self._widths, self._read_dtypes, strict=True)
        ]
        first = 0
        for piece in window.pieces:
            after = first + piece.stop - piece.start
            self._blocks.read(piece, [one[first:after].numpy() for one in matrices], use_threads)
            first = after
        return _LoadedWindow(window, matrices)

    def _finished(self, made: Sequence[torch.Tensor]) -> Any:
        made = [one.to(dtype) for one, dtype in zip(made, self._dtypes, strict=True)]
        if len(made) == 1:
            return made[0]
        features, labels = made
        return features, labels[:, 0] if self._label_is_one else labels


class _LoadedWindow:
    """The rows of a window, in memory."""

    def __init__(self, window: ShuffledWindow, matrices: Sequence[torch.Tensor]) -> None:
        self.window = window
        self._matrices = [one.numpy() for one in matrices]
        self._order = window.order()

    def take(self, start: int, stop: int, out: Sequence[torch.Tensor]) -> None:
        """Copy rows, by their places in the order of the window, to the rows of tensors."""
        for matrix, target in zip(self._matrices, out, strict=True):
            # With torch.index_select, the threads of PyTorch wait for each other far longer than this.
            matrix.take(self._order[start:stop], axis=0, out=target.numpy(), mode="clip")


def _torch_dtype(dtype: Any) -> Any:
    found = getattr(torch, str(dtype).removeprefix("torch."), None)
    if not isinstance(found, torch.dtype) or _read_dtype(found) not in DTYPES:
        raise ValueError(f"invalid dtype {dtype!r} (expected e.g. torch.float32 or 'float32')")
    return found


def _read_dtype(dtype: Any) -> str:
    """Return the type to read: NumPy has no bfloat16."""
    return "float32" if dtype is torch.bfloat16 else str(dtype).removeprefix("torch.")


def _rank_and_world_size() -> tuple[int, int]:
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1

"""Formats that features are kept in: how their users read matrices, rows and keys.

Each of them gets a folder with the same rows in as many files, and uses the fastest way that its users
have. Peers read columns, and these are written into a matrix one after another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import feather

import fastmosaic as fm

from .results import OURS

KEY = "id"
Rows = Callable[[int, Sequence[str]], pa.Table]  # one row, by number


class Loader:
    """A format, and a folder of files in it."""

    name: ClassVar[str]
    writes: ClassVar[str]
    reads: ClassVar[str]  # columns, which are then stacked
    takes: ClassVar[str]
    finds: ClassVar[str]
    is_slow_to_write: ClassVar[bool] = False  # then it does not take part with many files

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, tables: Iterator[pa.Table]) -> None:
        self.folder.mkdir(parents=True)
        for number, table in enumerate(tables):
            self.write_file(table, self.folder / f"{number:03d}.{self.name.lower()}")

    def write_file(self, table: pa.Table, path: Path) -> None:
        raise NotImplementedError

    @property
    def paths(self) -> list[str]:
        return [str(path) for path in sorted(self.folder.iterdir())]

    def read(self, names: Sequence[str]) -> pa.Table:
        """Columns of all rows."""
        return pa.concat_tables(self.read_file(path, names) for path in self.paths)

    def read_file(self, path: str, names: Sequence[str]) -> pa.Table:
        raise NotImplementedError

    def matrix(self, names: Sequence[str]) -> Any:
        return stacked(self.read(names))

    def take(self, rows: Sequence[int], names: Sequence[str]) -> pa.Table:
        """Rows by number, which are ascending."""
        return self.read(names).take(pa.array(rows))

    def find(self, keys: Sequence[int], names: Sequence[str]) -> pa.Table:
        """Rows by key, in any order."""
        table = self.read([KEY, *names])
        return table.filter(pc.is_in(table[KEY], pa.array(keys))).select(names)

    def opened(self) -> Rows:
        """Open the first file and return how its rows are read."""
        raise NotImplementedError


def stacked(table: pa.Table) -> Any:
    """Columns as one matrix; column by column is the fastest way."""
    made = np.empty((table.num_rows, table.num_columns), np.float32, order="F")
    for place, column in enumerate(table.columns):
        row = 0
        for chunk in column.chunks:
            made[row : row + len(chunk), place] = chunk.to_numpy(zero_copy_only=False)
            row += len(chunk)
    return made


class Mosaic(Loader):
    name = OURS
    writes = "`write_table(table, path, write_statistics=[key])`"
    reads = "`read_matrix(folder, columns)`"
    takes = "`MosaicDataset(folder).take(rows, columns)`; one row: `MosaicFile.take`"
    finds = "`lookup(folder, keys, columns=columns)`"
    serving = False  # how the file is written whose rows are read from an open handle
    cache: str | None = None

    def write_file(self, table: pa.Table, path: Path) -> None:
        layout = {"layout": "serving"} if self.serving else {}
        fm.write_table(table, path, write_statistics=[KEY], **layout)

    def read_file(self, path: str, names: Sequence[str]) -> pa.Table:
        return fm.read_table(path, columns=names)

    def matrix(self, names: Sequence[str]) -> Any:
        return fm.read_matrix(self.folder, names)

    def take(self, rows: Sequence[int], names: Sequence[str]) -> pa.Table:
        return fm.MosaicDataset(self.folder).take(rows, names)

    def find(self, keys: Sequence[int], names: Sequence[str]) -> pa.Table:
        return fm.lookup(self.folder, keys, key=KEY, columns=names)

    def opened(self) -> Rows:
        file = fm.MosaicFile(self.paths[0], cache=self.cache)
        return lambda row, names: file.take([row], names)


class Parquet(Loader):
    name = "Parquet"
    writes = '`pq.write_table(table, path, compression="zstd")`'
    reads = "`pq.ParquetFile(path).read(columns)` for each file"
    takes = "reads columns, then `Table.take`; one row: `read_row_group` of an open `ParquetFile`"
    finds = '`pq.read_table(folder, columns, filters=[(key, "in", keys)])`'

    def write_file(self, table: pa.Table, path: Path) -> None:
        pq.write_table(table, path, compression="zstd")

    def read_file(self, path: str, names: Sequence[str]) -> pa.Table:
        with pq.ParquetFile(path) as file:
            return file.read(names)

    def find(self, keys: Sequence[int], names: Sequence[str]) -> pa.Table:
        return pq.read_table(self.folder, columns=list(names), filters=[(KEY, "in", list(keys))])

    def opened(self) -> Rows:
        file = pq.ParquetFile(self.paths[0])

        def row(number: int, names: Sequence[str]) -> pa.Table:
            group = 0
            while number >= file.metadata.row_group(group).num_rows:
                number -= file.metadata.row_group(group).num_rows
                group += 1
            return file.read_row_group(group, names).slice(number, 1)

        return row


class Feather(Loader):
    name = "Feather"
    writes = '`feather.write_feather(table, path, compression="zstd")`'
    reads = "`feather.read_table(path, columns, memory_map=True)` for each file"
    takes = "reads columns, then `Table.take`"
    finds = "reads columns, then `Table.filter`"

    def write_file(self, table: pa.Table, path: Path) -> None:
        feather.write_feather(table, str(path), compression="zstd")

    def read_file(self, path: str, names: Sequence[str]) -> pa.Table:
        return feather.read_table(path, columns=list(names), memory_map=True)

    def opened(self) -> Rows:
        path = self.paths[0]
        return lambda row, names: self.read_file(path, names).slice(row, 1)


class Lance(Loader):
    name = "Lance"
    writes = '`lance.write_dataset(table, folder, mode="append")`'
    reads = "`lance.dataset(folder).to_table(columns)`"
    takes = "`lance.dataset(folder).take(rows, columns)`; one row: of an open dataset"
    finds = "`to_table(columns, filter=…)` with a scalar index (BTREE) of the key"

    def write(self, tables: Iterator[pa.Table]) -> None:
        import lance

        for number, table in enumerate(tables):
            mode = "append" if number else "create"
            dataset = lance.write_dataset(table, str(self.folder), mode=mode)
        dataset.create_scalar_index(KEY, "BTREE")

    def _dataset(self) -> Any:
        import lance

        return lance.dataset(str(self.folder))

    def read(self, names: Sequence[str]) -> pa.Table:
        return self._dataset().to_table(columns=list(names))

    def take(self, rows: Sequence[int], names: Sequence[str]) -> pa.Table:
        return self._dataset().take(list(rows), columns=list(names))

    def find(self, keys: Sequence[int], names: Sequence[str]) -> pa.Table:
        listed = ", ".join(map(str, keys))
        return self._dataset().to_table(columns=list(names), filter=f"{KEY} IN ({listed})")

    def opened(self) -> Rows:
        dataset = self._dataset()
        return lambda row, names: dataset.take([row], columns=list(names))


class Vortex(Loader):
    name = "Vortex"
    is_slow_to_write = True
    writes = "`vortex.io.write(table, path)`"
    reads = "`vortex.open(path, memory_map=True).scan(columns)` for each file"
    takes = "`scan(columns, indices=rows)` for each file; one row: of an open file"
    finds = "`scan(columns, expr=…)` for each file"

    def write_file(self, table: pa.Table, path: Path) -> None:
        import vortex

        vortex.io.write(table, str(path))

    def read_file(self, path: str, names: Sequence[str]) -> pa.Table:
        return _table(_open_vortex(path).scan(list(names)))

    def take(self, rows: Sequence[int], names: Sequence[str]) -> pa.Table:
        import vortex

        found, before = [], 0
        for path in self.paths:
            file = _open_vortex(path)
            own = [row - before for row in rows if before <= row < before + len(file)]
            before += len(file)
            if own:
                indices = vortex.array(pa.array(own, pa.uint64()))
                found.append(_table(file.scan(list(names), indices=indices)))
        return pa.concat_tables(found)

    def find(self, keys: Sequence[int], names: Sequence[str]) -> pa.Table:
        import vortex.expr

        column = vortex.expr.column(KEY)
        where = column == keys[0]
        for key in keys[1:]:
            where = vortex.expr.or_(where, column == key)
        found = [_table(_open_vortex(path).scan(list(names), expr=where)) for path in self.paths]
        return pa.concat_tables(found)

    def opened(self) -> Rows:
        import vortex

        file = _open_vortex(self.paths[0])

        def row(number: int, names: Sequence[str]) -> pa.Table:
            indices = vortex.array(pa.array([number], pa.uint64()))
            return _table(file.scan(list(names), indices=indices))

        return row


def _open_vortex(path: str) -> Any:
    import vortex

    return vortex.open(path, memory_map=True)


def _table(scan: Any) -> pa.Table:
    return scan.read_all().to_arrow_table()


LOADERS: tuple[type[Loader], ...] = (Mosaic, Parquet, Feather, Lance, Vortex)

"""Those who take part: each writes a table to a file, and reads it from a cold open.

Every one has its default options, with zstd where there is a choice, and is read in the fastest
way that its users have. Optional packages are imported on use.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import mosaic
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import feather, orc

import fastmosaic as fm

from .results import OURS, REFERENCE


class Contender:
    """A file format, and the package that reads and writes it."""

    name: ClassVar[str]
    package: ClassVar[str] = "pyarrow"
    writes: ClassVar[str]  # how, in words
    reads: ClassVar[str]
    filters: ClassVar[str] = "reads all rows, Arrow filters them"

    def write(self, table: pa.Table, path: str, index: str = "", group_rows: int = 0) -> None:
        """Write a file: if told so, with statistics of column `index`, in row groups."""
        raise NotImplementedError

    def read(self, path: str, columns: list[str] | None) -> pa.Table:
        """Some columns of a file, or with None all of them."""
        raise NotImplementedError

    def read_all(self, path: str) -> pa.Table:
        return self.read(path, None)

    def filter(self, path: str, columns: Sequence[str], index: str, value: int) -> pa.Table:
        """The rows in which column `index` has a value."""
        return _filtered(self.read(path, [index, *columns]), columns, index, value)


def _filtered(table: pa.Table, columns: Sequence[str], index: str, value: int) -> pa.Table:
    return table.filter(pc.field(index) == value).select(columns)


class FastMosaic(Contender):
    name = package = OURS
    writes = "`write_table(table, path)`"
    reads = "`read_table(path, columns=...)`"
    filters = "`read_table(..., filters=...)`, which skips row groups by their statistics"

    def write(self, table: pa.Table, path: Any, index: str = "", group_rows: int = 0) -> None:
        fm.write_table(
            table,
            path,
            write_statistics=[index] if index else False,
            row_group_size=group_rows or None,
        )

    def read(self, path: str, columns: list[str] | None) -> pa.Table:
        return fm.read_table(path, columns=columns)

    def filter(self, path: str, columns: Sequence[str], index: str, value: int) -> pa.Table:
        return fm.read_table(path, columns=columns, filters=[(index, "==", value)])


class PaimonMosaic(Contender):
    name = package = REFERENCE
    writes = "`write_table(table, stream, WriterOptions())`"
    reads = "`read_table(read_at, length, columns)`, `read_at` being `os.pread`"
    filters = "has no filters: row groups are skipped by hand, by their statistics"

    def write(self, table: pa.Table, path: str, index: str = "", group_rows: int = 0) -> None:
        options = mosaic.WriterOptions(stats_columns=[index] if index else None)
        if group_rows:
            options.row_group_max_size = 1  # a row group for each batch
        with (
            open(path, "wb") as stream,
            mosaic.MosaicWriter(stream, table.schema, options) as writer,
        ):
            for batch in table.to_batches(max_chunksize=group_rows or None):
                writer.write(batch)

    def read(self, path: str, columns: list[str] | None) -> pa.Table:
        with open(path, "rb", buffering=0) as file:
            return mosaic.read_table(*self._input(file.fileno()), columns)

    def filter(self, path: str, columns: Sequence[str], index: str, value: int) -> pa.Table:
        with (
            open(path, "rb", buffering=0) as file,
            mosaic.MosaicReader.from_input_file(*self._input(file.fileno())) as reader,
        ):
            reader.project([index, *columns])
            batches = []
            for group in range(reader.num_row_groups):
                known = reader.get_row_group_statistics(group)[index]
                low, high = (
                    int.from_bytes(bound, "big", signed=True) for bound in (known.min, known.max)
                )
                if low <= value <= high:
                    batches.append(reader.read_row_group(group))
        return _filtered(pa.Table.from_batches(batches), columns, index, value)

    @staticmethod
    def _input(file: int) -> tuple[Callable[[int, int], bytes], int]:
        return lambda offset, length: os.pread(file, length, offset), os.fstat(file).st_size


class Parquet(Contender):
    name = "Parquet"
    writes = '`pq.write_table(table, path, compression="zstd")`'
    reads = "`pq.ParquetFile(path).read(columns)`, which is faster than `pq.read_table`"
    filters = "`pq.read_table(..., filters=...)`, which skips row groups by their statistics"

    def write(self, table: pa.Table, path: str, index: str = "", group_rows: int = 0) -> None:
        pq.write_table(table, path, compression="zstd", row_group_size=group_rows or None)

    def read(self, path: str, columns: list[str] | None) -> pa.Table:
        with pq.ParquetFile(path) as file:
            return file.read(columns)

    def filter(self, path: str, columns: Sequence[str], index: str, value: int) -> pa.Table:
        return pq.read_table(path, columns=columns, filters=[(index, "==", value)])


class ParquetPlain(Parquet):
    """For columns with many distinct values, where a dictionary makes files larger."""

    name = "Parquet, no dictionary"
    writes = '`pq.write_table(table, path, compression="zstd", use_dictionary=False)`'

    def write(self, table: pa.Table, path: str, index: str = "", group_rows: int = 0) -> None:
        pq.write_table(*(table, path, group_rows or None), compression="zstd", use_dictionary=False)


class Orc(Contender):
    name = "ORC"
    writes = '`orc.write_table(table, path, compression="zstd")`'
    reads = "`orc.ORCFile(path).read(columns)`"

    def write(self, table: pa.Table, path: str, index: str = "", group_rows: int = 0) -> None:
        orc.write_table(table, path, compression="zstd")  # stripes are cut by bytes, not by rows

    def read(self, path: str, columns: list[str] | None) -> pa.Table:
        return orc.ORCFile(path).read(columns)


class Feather(Contender):
    name = "Feather"
    writes = '`feather.write_feather(table, path, compression="zstd")`'
    reads = "`feather.read_table(path, columns, memory_map=True)`, faster than without the map"

    def write(self, table: pa.Table, path: str, index: str = "", group_rows: int = 0) -> None:
        feather.write_feather(table, path, compression="zstd", chunksize=group_rows or None)

    def read(self, path: str, columns: list[str] | None) -> pa.Table:
        return feather.read_table(path, columns=columns, memory_map=True)


class Lance(Contender):
    name = "Lance"
    package = "pylance"
    writes = "`lance.file.LanceFileWriter(path, schema)`: one file, without a dataset around it"
    reads = "`lance.file.LanceFileReader(path, columns)`, which is faster than `lance.dataset`"

    def write(self, table: pa.Table, path: str, index: str = "", group_rows: int = 0) -> None:
        from lance.file import LanceFileWriter

        with LanceFileWriter(path, table.schema) as writer:
            for batch in table.to_batches(max_chunksize=group_rows or None):
                writer.write_batch(batch)

    def read(self, path: str, columns: list[str] | None) -> pa.Table:
        from lance.file import LanceFileReader

        return LanceFileReader(path, columns=columns).read_all().to_table()


class Vortex(Contender):
    name = "Vortex"
    package = "vortex-data"
    writes = "`vortex.io.write(table, path)`"
    reads = "`vortex.open(path, memory_map=True).scan(columns)`, faster than without the map"
    filters = "`scan(columns, expr=...)`"

    def write(self, table: pa.Table, path: str, index: str = "", group_rows: int = 0) -> None:
        import vortex

        vortex.io.write(table, path)

    def read(self, path: str, columns: list[str] | None) -> pa.Table:
        import vortex

        scan = vortex.open(path, memory_map=True).scan(columns)
        return scan.read_all().to_arrow_table()

    def filter(self, path: str, columns: Sequence[str], index: str, value: int) -> pa.Table:
        import vortex
        import vortex.expr

        where = vortex.expr.column(index) == value
        file = vortex.open(path, memory_map=True)
        return file.scan(list(columns), expr=where).read_all().to_arrow_table()


CONTENDERS: tuple[Contender, ...] = (
    FastMosaic(),
    PaimonMosaic(),
    Parquet(),
    ParquetPlain(),
    Orc(),
    Feather(),
    Lance(),
    Vortex(),
)

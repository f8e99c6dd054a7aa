"""Check the data of one bucket: its blocks, values and statistics.

Values are checked where they are stored. Only those of columns with statistics or extension types
are decoded, one portion of rows after another; of a column whose rows are all equal, one row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Unpack

import pyarrow as pa

from ..errors import CorruptFileError, MosaicError, Place, describe_place, printable
from ..format import bucket as buckets
from ..format.bucket import Batch, Directory, Layout, Pages
from ..format.columns import ColumnDecoder
from ..format.index import Bucket, Statistic
from ..format.metadata import FileMetaData
from ..format.nested import BucketColumns
from ..format.user_schema import Attached
from ..format.wire import Compression, Cursor, has_checksum
from ..memory import Memory

_MAX_FRAME_HEADER: Final = 18  # bytes, by zstd
# The memory of the rows that are decoded at a time.
_PORTION_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is wrong with a file, and where.

    The fields have the same meaning as those of `MosaicError`.
    """

    message: str
    offset: int | None = None
    row_group: int | None = None
    bucket: int | None = None
    column: str | None = None
    part: str | None = None

    @classmethod
    def of(cls, error: MosaicError) -> Problem:
        return cls(
            error.message, error.offset, error.row_group, error.bucket, error.column, error.part
        )

    def __str__(self) -> str:
        place = describe_place(self.part, self.row_group, self.bucket, self.column, self.offset)
        return printable(f"{place}: {self.message}" if place else self.message)


@dataclass(slots=True)
class Frames:
    """The number of compressed blocks, and of those that contain a checksum."""

    count: int = 0
    checked: int = 0

    def add(self, frame: memoryview | bytes) -> None:
        self.count += 1
        try:
            self.checked += has_checksum(frame)
        except CorruptFileError:
            self.checked += 1  # decoding will report the damage


class Notes:
    """A list of problems, and how errors get into it."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    @contextmanager
    def noting(self, **place: Unpack[Place]) -> Iterator[None]:
        """Record errors about the file that the block raises, and go on after it."""
        try:
            yield
        except MosaicError as error:
            self.problems.append(Problem.of(error.locate(**place)))
        except pa.ArrowException as error:
            self.problems.append(Problem.of(CorruptFileError(str(error), **place)))


class BucketCheck(Notes):
    """The check of one bucket. Its problems and frames are known after `run`.

    Parameters
    ----------
    metadata : FileMetaData
    group, number : int
        The numbers of the row group and the bucket.
    bucket : Bucket
        Where the bucket is.
    data : pyarrow.Buffer
        Its bytes.
    stated : sequence of Statistic
        The statistics of its columns in the row group index.
    attached : Attached, optional
        Types and metadata of the user, which the values must fit.
    """

    def __init__(
        self,
        metadata: FileMetaData,
        group: int,
        number: int,
        bucket: Bucket,
        data: pa.Buffer,
        stated: Sequence[Statistic],
        attached: Attached | None,
    ) -> None:
        super().__init__()
        self._metadata = metadata
        self._num_rows = metadata.rows_of(group)
        self._bucket = bucket
        self._data = data
        self._stated = {statistic.position: statistic for statistic in stated}
        self._attached = attached
        self._place: Place = {"row_group": group, "bucket": number, "offset": bucket.offset}
        self._columns = BucketColumns(metadata.schema_block, number)
        self.frames = Frames()

    def run(self) -> BucketCheck:
        if self._columns.num_columns:
            with self.noting(**self._place):
                if self._bucket.layout == Layout.PAGED:
                    if self._metadata.codec == Compression.NONE:
                        raise CorruptFileError(
                            "the bucket is paged, but the file is not compressed"
                        )
                    self._check_paged()
                else:
                    self._check_monolithic()
        return self

    def _check_paged(self) -> None:
        columns = self._columns
        directory = Directory.decode(self._data, columns, self._num_rows, self._data.size)
        rows = directory.rows
        for start, end in pairwise(directory.offsets):
            if start < end:
                slot = Cursor(self._data.slice(start, end - start))
                slot.varint()
                self.frames.add(slot.take(min(slot.remaining, _MAX_FRAME_HEADER)))
        for index in range(columns.num_columns):
            flats = buckets.flat_of(columns, [index])
            with self._noting(index):
                slots = []
                for flat in flats:
                    start, end = directory.offsets[flat : flat + 2]
                    slot = self._data.slice(start, end - start)
                    slots.append(
                        buckets.decode_slot(slot, columns, flat, rows[flat]) if slot.size else None
                    )
                pages = buckets.open_slots(slots, columns, flats, rows)
                _refuse_surplus(pages)
                numbers = range(len(flats))
                self._check_column(index, ColumnDecoder(pages, numbers, columns, [index]))

    def _check_monolithic(self) -> None:
        columns, count = self._columns, self._columns.num_flat
        data = self._data
        if self._metadata.codec == Compression.ZSTD:
            self.frames.add(memoryview(data)[:_MAX_FRAME_HEADER].tobytes())
            size = self._bucket.uncompressed_size
            data = pa.py_buffer(buckets.decompress_bucket(data, size, columns, self._num_rows))
        pages = buckets.open_monolithic(data, columns, self._num_rows, count)
        with self.noting(**self._place):
            _refuse_surplus(pages)
        for index in range(columns.num_columns):
            with self._noting(index):
                numbers = buckets.flat_of(columns, [index])
                self._check_column(index, ColumnDecoder(pages, numbers, columns, [index]))

    @contextmanager
    def _noting(self, index: int) -> Iterator[None]:
        """Record errors about a column of the bucket."""
        position = self._columns.positions[index]
        place: Place = {**self._place, "column": self._metadata.schema_block.name(position)}
        with self.noting(**place):
            yield

    def _check_column(self, index: int, decoder: ColumnDecoder) -> None:
        position = self._columns.positions[index]
        field = self._metadata.schema_block.field(position)
        stated = self._stated.get(position)
        if stated is None and not self._is_cast(field):
            nulls = decoder.check(self._num_rows)
        else:
            nulls = self._check_values(decoder, field, stated)
        if unused := decoder.num_unused():
            raise CorruptFileError(f"{unused} elements are stored that no list contains")
        if nulls and not field.nullable:
            raise CorruptFileError(f"there are {nulls} nulls, but the column is declared not null")
        if stated is not None and nulls != stated.null_count:
            raise CorruptFileError(
                f"there are {nulls} nulls, but the statistics say {stated.null_count}"
            )

    def _is_cast(self, field: pa.Field) -> bool:
        """Return whether the values of a column get another type, which they may not fit."""
        return self._attached is not None and self._attached.field(field).type != field.type

    def _check_values(
        self, decoder: ColumnDecoder, field: pa.Field, stated: Statistic | None
    ) -> int:
        """Decode and check all values of a column; return how many are null."""
        is_one = decoder.is_constant() and not pa.types.is_nested(field.type)
        num_rows = 1 if is_one else self._num_rows
        step = max(1, _PORTION_BYTES * self._num_rows // max(1, decoder.bound()))
        nulls = done = 0
        schema = pa.schema([field.with_nullable(True)])
        while done < num_rows:
            count = min(step, num_rows - done)
            batch = Batch(1)
            try:
                decoder.decode(count, batch, [0], Memory())
            except OverflowError:
                raise CorruptFileError("a row exceeds Arrow's limit of 2 GiB") from None
            rows = batch.finish(count, schema)
            rows.validate(full=True)
            if self._attached is not None:
                self._attached.put_on(rows)
            if stated is not None:
                self._check_bounds(stated, rows.column(0))
            nulls += rows.column(0).null_count
            done += count
        return nulls * (self._num_rows // num_rows)

    def _check_bounds(self, stated: Statistic, column: pa.Array) -> None:
        """Check that values are within the stated bounds, which may be wider."""
        import pyarrow.compute as pc

        low, high = self._metadata.bounds(stated)
        values = column.drop_null()
        if pa.types.is_floating(column.type):
            if low is not None and pc.is_nan(low).as_py():
                return  # by the format, a NaN as the first value says nothing about the others
            values = values.filter(pc.invert(pc.is_nan(values)))
        if not len(values):
            return
        if low is None:
            raise CorruptFileError("there are statistics, but the type of the column has none")
        actual = pc.min_max(values)
        if not pc.and_(
            pc.less_equal(low, actual["min"]), pc.greater_equal(high, actual["max"])
        ).as_py():
            raise CorruptFileError("there are values outside the bounds of the statistics")


def _refuse_surplus(pages: Pages) -> None:
    if pages.surplus:
        raise CorruptFileError(f"{pages.surplus} bytes after the values do not belong to anything")

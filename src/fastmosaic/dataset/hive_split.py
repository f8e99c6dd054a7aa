"""Split batches by the values of partition columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ..errors import ColumnNotFoundError
from ..format.names import similar_names
from .hive import check_type, directory


@dataclass(frozen=True, slots=True)
class Partition:
    """Values of the partition columns, and the directory that they name."""

    directory: str
    values: dict[str, Any]


class Splitter:
    """Splits batches by the values of the partition columns.

    `schema` is that of the batches; `Splitter.schema` is that of the parts, without those columns.
    """

    def __init__(self, schema: pa.Schema, partitioning: str | Sequence[str] | None) -> None:
        self.names = [partitioning] if isinstance(partitioning, str) else list(partitioning or ())
        self._fields = []
        for name in self.names:
            index = schema.get_field_index(name)
            if index < 0:
                raise ColumnNotFoundError.for_name(
                    name, similar_names(name, schema.names), option="partitioning"
                )
            self._fields.append(schema.field(index))
        if len(set(self.names)) < len(self.names):
            raise ValueError(f"partitioning contains a column twice: {', '.join(self.names)}")
        if self.names and len(self.names) == len(schema):
            raise ValueError(
                "partitioning contains all columns; at least one must remain for the files"
            )
        for partition_field in self._fields:
            check_type(partition_field.name, partition_field.type)
        names = set(self.names)
        self._kept = [index for index, name in enumerate(schema.names) if name not in names]
        self.schema = pa.schema([schema.field(index) for index in self._kept])
        if not self.names:
            self.schema = schema  # the same object is faster to compare than an equal one

    def null_partition(self) -> Partition:
        """Return the partition whose values are all null."""
        return self._partition([pa.scalar(None, field.type) for field in self._fields])

    def split(self, batch: pa.RecordBatch) -> list[tuple[Partition, pa.RecordBatch]]:
        """Return the rows of each partition, without its columns, in the order of first rows.

        The batch must have rows. They are reordered once, not filtered for each partition.
        """
        keys = [batch.column(name) for name in self.names]
        arrays = batch.columns
        rest = pa.RecordBatch.from_arrays([arrays[i] for i in self._kept], schema=self.schema)
        codes, counts = _groups(keys)
        if len(counts) == 1:
            return [(self._partition([key[0] for key in keys]), rest)]
        import pyarrow.compute as pc

        if len(pc.run_end_encode(codes).values) > len(counts):
            order = pc.array_sort_indices(codes)  # stable
            rest = rest.take(order)
            keys = [key.take(order) for key in keys]
        parts = []
        start = 0
        for count in counts:
            partition = self._partition([key[start] for key in keys])
            parts.append((partition, rest.slice(start, count)))
            start += count
        return parts

    def _partition(self, values: Sequence[pa.Scalar]) -> Partition:
        python = {name: value.as_py() for name, value in zip(self.names, values, strict=True)}
        return Partition(directory(self.names, values), python)


def _groups(keys: Sequence[pa.Array]) -> tuple[pa.Array, list[int]]:
    """Return the number of the group of each row, and the number of rows of each group.

    Groups are numbered in the order of their first rows.
    """
    import pyarrow.compute as pc

    codes = None
    for key in keys:
        encoded = key.dictionary_encode("encode")
        indices = encoded.indices.cast(pa.int64())
        if codes is not None:
            # Both are below the number of rows, so this does not overflow.
            both = pc.add(pc.multiply(codes, len(encoded.dictionary)), indices)
            indices = both.dictionary_encode().indices.cast(pa.int64())
        codes = indices
    return codes, pc.value_counts(codes).field("counts").to_pylist()

"""The numbers of the rows that match a filter, found by reading its columns only."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

import pyarrow as pa

from ..query.filters import mask_of
from ..query.query import Query
from ..schemas.fit import Fits
from .fileset import FileSet

__all__ = ["matching_numbers"]


def matching_numbers(files: FileSet, query: Query) -> Iterator[tuple[int, pa.Array]]:
    """Yield row numbers of all files together, in order: one row group after another.

    Each comes with the number of rows up to the end of its row group. Row groups that cannot match
    are not read.
    """
    import pyarrow.compute as pc

    fits = Fits(pa.schema(query.needed), files.partitions)
    num_rows = files.count_rows()  # opens them at once
    if not query.needed:  # true or false for all rows
        is_true = pa.table({"": [0]}).filter(query.expression).num_rows == 1
        yield num_rows, pa.array(range(num_rows if is_true else 0), pa.int64())
        return
    starts = accumulate((file.num_rows for file in files.files), initial=0)
    for start, file in zip(starts, files.files, strict=False):
        for planned in files.only([file]).plan(query):
            edges = planned.file.metadata.row_edges
            for group in planned.groups:
                done = start + edges[group]
                found: list[pa.Array] = []
                for batch in planned.file.batches(fits, [group], True):
                    places = pc.indices_nonzero(mask_of(batch, query.expression))
                    found.append(pc.add(places.cast(pa.int64()), done))
                    done += batch.num_rows
                yield done, pa.concat_arrays(found) if found else pa.nulls(0, pa.int64())

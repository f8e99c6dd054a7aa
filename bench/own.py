"""What is measured of fastmosaic alone: schemas that it has not seen, and statistics."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import fastmosaic as fm

from .contenders import Contender
from .floor import columns_floor
from .plan import ALL_STATISTICS, NEW_SCHEMA, WITH_STATISTICS, WITHOUT_STATISTICS
from .results import FLOOR, OURS, Missing
from .worker import Worker, best_time, best_times, load, no_gc, timed

SCHEMAS = 8

Add = Callable[[str, str, "float | Missing"], None]  # a measure, a contender and its result


def measure(ours: Contender, table_path: str, folder: Path, column: str, add: Add) -> None:
    """Measure a table, of which `column` is read. One process writes, another one reads."""
    path = str(folder / "own")
    with Worker(ours) as writer, Worker(ours) as reader:
        times = writer.call(statistics_times, table_path, path, seconds=300)
        if isinstance(times, Missing):
            times = {WITH_STATISTICS: times}
        written = writer.call(write_schemas, table_path, path, seconds=300)
        times[NEW_SCHEMA] = written or reader.call(new_schema_time, path, column, seconds=60)
    for name, seconds in times.items():
        add(name, OURS, seconds)
    if not isinstance(times[NEW_SCHEMA], Missing):
        with Worker(ours) as reader:
            add(NEW_SCHEMA, FLOOR, reader.call(new_schema_floor, path, column, seconds=60))


def statistics_times(_: Contender, table_path: str, path: str) -> dict[str, float]:
    """Writing without and with statistics of all columns, by turns; and reading them all."""
    table = load(table_path)
    works = {
        WITHOUT_STATISTICS: lambda: fm.write_table(table, path),
        WITH_STATISTICS: lambda: fm.write_table(table, path, write_statistics=True),
    }
    best = best_times(works, turns=3, seconds=3)
    found = all_statistics(path)
    if len(found) != table.num_columns:
        raise AssertionError(f"{len(found)} statistics of {table.num_columns} columns")
    return best | {ALL_STATISTICS: best_time(lambda: all_statistics(path), 0.5)}


def all_statistics(path: str) -> list[tuple[object, object, object]]:
    """Open a file and look at the statistics of every column in every row group."""
    metadata = fm.read_metadata(path)
    return [
        (known.null_count, known.min, known.max)
        for group in map(metadata.row_group, range(metadata.num_row_groups))
        for known in group.statistics.values()
    ]


def write_schemas(contender: Contender, table_path: str, path: str) -> None:
    """Write the table, and again with other names of all columns."""
    table = load(table_path)
    contender.write(table, path)
    for i in range(SCHEMAS):
        names = [_renamed(name, i) for name in table.column_names]
        contender.write(table.rename_columns(names), _variant(path, i))


def new_schema_time(contender: Contender, path: str, column: str) -> float:
    """The best time to read one column of a file whose schema the process has not seen."""
    contender.read(path, [column])
    with no_gc():
        return min(
            timed(lambda i=i: contender.read(_variant(path, i), [_renamed(column, i)]))[0]
            for i in range(SCHEMAS)
        )


def new_schema_floor(_: Contender, path: str, column: str) -> float:
    """The best time of the same under the same conditions: no file is read twice.

    A reader keeps the schema that it has decompressed, so each one takes memory that is new.
    """
    warm_up = columns_floor(path, [column])
    floors = [columns_floor(_variant(path, i), [_renamed(column, i)]) for i in range(SCHEMAS)]
    with no_gc():
        _, *measured = [timed(floor) for floor in [warm_up, *floors]]
    return min(seconds for seconds, _ in measured)


def _variant(path: str, i: int) -> str:
    return f"{path}-{i}"


def _renamed(name: str, i: int) -> str:
    return f"{name}_{i}"

"""`python -m bench.size`: large files, rows, names, row groups and datasets; writes docs/size.md.

Each step runs once, in a process of its own, so that its peak memory is its own. What the step
says is shown beside its costs, also if it is an error. The data is written to `--folder`, by
default a temporary directory, and removed after each case.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mosaic
import numpy as np
import pyarrow as pa

import fastmosaic as fm

from . import machine
from .contenders import Contender, FastMosaic
from .results import Missing
from .tables import ROW_NUMBER
from .worker import Worker

MB, GB = 1_000_000, 1_000_000_000
LIMIT_SECONDS = 900.0  # for one step

Work = Callable[[], str]  # what is measured; returns what came out of it
Prepare = Callable[[Path, "Scale"], Work]


@dataclass(frozen=True)
class Scale:
    """How large the cases are."""

    file_bytes: int = 6 * GB
    text_bytes: int = 2_300 * MB  # of a string column: more than 32-bit offsets can address
    value_bytes: int = 600 * MB
    columns: int = 1_000_000
    row_groups: int = 100_000
    files: int = 100_000

    def reduced(self, factor: int) -> Scale:
        return Scale(*(value // factor for value in vars(self).values()))


@dataclass(frozen=True)
class Cost:
    """What a step took, and what it says."""

    seconds: float
    processor_seconds: float
    peak_bytes: int  # beyond what the process had before
    read_bytes: int
    says: str


@dataclass(frozen=True)
class Case:
    """A kind of size: what is written first, and the steps that follow."""

    name: str
    title: str
    remark: str
    steps: dict[str, Prepare]


# ---- a large file

FILE_COLUMNS = 1_000
FILE_BATCH_ROWS = 5_000


def _file_rows(scale: Scale) -> int:
    return scale.file_bytes // (8 * FILE_COLUMNS)


def _file_batches(scale: Scale) -> Iterator[pa.RecordBatch]:
    """Random numbers, which do not compress. Eight batches take turns: making them is slow."""
    rng = np.random.default_rng(7)
    shape = FILE_COLUMNS - 1, FILE_BATCH_ROWS
    starts = range(0, _file_rows(scale), FILE_BATCH_ROWS)
    some = [rng.integers(-(1 << 63), (1 << 63) - 1, shape) for _ in starts[:8]]
    names = [ROW_NUMBER, *(f"value_{i:04d}" for i in range(FILE_COLUMNS - 1))]
    for number, start in enumerate(starts):
        rows = pa.array(np.arange(start, start + FILE_BATCH_ROWS))
        columns = map(pa.array, some[number % len(some)])
        yield pa.record_batch([rows, *columns], names=names)


def _write_file(folder: Path, scale: Scale) -> Work:
    def work() -> str:
        fm.write_table(_file_batches(scale), folder / "a.mosaic", write_statistics=[ROW_NUMBER])
        return _file_facts(folder / "a.mosaic")

    return work


def _range_in_batches(folder: Path, scale: Scale) -> Work:
    first = _file_rows(scale) // 2
    filters = [(ROW_NUMBER, ">=", first), (ROW_NUMBER, "<", first + 10_000)]
    columns = [f"value_{i:04d}" for i in range(10)]

    def work() -> str:
        with fm.MosaicFile(folder / "a.mosaic") as file:
            return _counted(file.iter_batches(columns=columns, filters=filters))

    return work


def _all_in_batches(folder: Path, scale: Scale) -> Work:
    def work() -> str:
        with fm.MosaicFile(folder / "a.mosaic") as file:
            return _counted(file.iter_batches())

    return work


# ---- long text

TEXT_BYTES = 1 * MB  # of each value


def _text_batches(num_bytes: int) -> Iterator[pa.RecordBatch]:
    """Rows with a number and 1 MB of text that is different in each row but compresses well."""
    line = "".join(f"{i:07d} " for i in range(TEXT_BYTES // 8))
    for start in range(0, num_bytes // TEXT_BYTES, 64):
        rows = range(start, min(start + 64, num_bytes // TEXT_BYTES))
        texts = [f"{row:08d}{line[8:]}" for row in rows]
        yield pa.record_batch({"row": pa.array(rows, pa.int64()), "text": pa.array(texts)})


def _write_text(name: str, **options: Any) -> Prepare:
    def prepare(folder: Path, scale: Scale) -> Work:
        def work() -> str:
            fm.write_table(_text_batches(scale.text_bytes), folder / name, **options)
            return _file_facts(folder / name)

        return work

    return prepare


def _write_text_by_reference(folder: Path, scale: Scale) -> Work:
    def work() -> str:
        options = mosaic.WriterOptions()
        options.row_group_max_size = 1 << 40
        batches = _text_batches(scale.text_bytes)
        first = next(batches)
        with (
            open(folder / "reference.mosaic", "wb") as stream,
            mosaic.MosaicWriter(stream, first.schema, options) as writer,
        ):
            writer.write(first)
            for batch in batches:
                writer.write(batch)
        return _file_facts(folder / "reference.mosaic")

    return work


def _write_value(compression: str) -> Prepare:
    def prepare(folder: Path, scale: Scale) -> Work:
        value = pa.table({"text": ["0123456789" * (scale.value_bytes // 10)]})

        def work() -> str:
            fm.write_table(value, folder / "value.mosaic", compression=compression)
            return _file_facts(folder / "value.mosaic")

        return work

    return prepare


# ---- many columns


def _wide_names(scale: Scale) -> list[str]:
    return [f"sensor_{i % 97:02d}_channel_{i:07d}_average" for i in range(scale.columns)]


def _write_columns(folder: Path, scale: Scale) -> Work:
    values = [pa.array([i, i + 1, None]) for i in range(100)]
    names = _wide_names(scale)
    table = pa.table([values[i % 100] for i in range(len(names))], names=names)

    def work() -> str:
        fm.write_table(table, folder / "a.mosaic")
        return _file_facts(folder / "a.mosaic")

    return work


def _read_columns(count: int) -> Prepare:
    def prepare(folder: Path, scale: Scale) -> Work:
        names = _wide_names(scale)
        chosen = names[:: len(names) // count][:count]
        return lambda: _shape(fm.read_table(folder / "a.mosaic", columns=chosen))

    return prepare


def _misspelled(form: str) -> Prepare:
    """A name with one wrong character, in different places."""

    def prepare(folder: Path, scale: Scale) -> Work:
        name = _wide_names(scale)[scale.columns // 2].replace("average", "avarage")
        with fm.MosaicFile(folder / "a.mosaic") as file:
            schema = file.schema
        opened = fm.MosaicFile(folder / "a.mosaic")
        works: dict[str, Work] = {
            "columns=": lambda: _shape(opened.read(columns=[name])),
            "glob": lambda: _shape(opened.read(columns=[f"{name}*"])),
            "filters=": lambda: _shape(opened.read(columns=[], filters=[(name, ">", 1)])),
            "schema=": lambda: _shape(
                fm.read_table(folder / "a.mosaic", columns=[name], schema=schema)
            ),
            "dataset": lambda: _shape(fm.MosaicDataset([folder / "a.mosaic"]).to_table([name])),
        }
        return works[form]

    return prepare


# ---- many row groups


def _write_row_groups(folder: Path, scale: Scale) -> Work:
    table = pa.table(
        {"id": np.arange(scale.row_groups * 10), "text": ["abc"] * scale.row_groups * 10}
    )

    def work() -> str:
        path = folder / "a.mosaic"
        fm.write_table(table, path, row_group_size=10, write_statistics=["id"])
        return _file_facts(path)

    return work


def _by_statistics(folder: Path, scale: Scale) -> Work:
    wanted = scale.row_groups * 5

    def work() -> str:
        return _shape(fm.read_table(folder / "a.mosaic", filters=[("id", "==", wanted)]))

    return work


def _one_row_group(folder: Path, scale: Scale) -> Work:
    def work() -> str:
        with fm.MosaicFile(folder / "a.mosaic") as file:
            return _shape(file.read_row_group(scale.row_groups // 2))

    return work


# ---- many files


def _write_files(folder: Path, scale: Scale) -> Work:
    """Ten columns and ten rows in each file, in a hundred partitions.

    The files are encoded in memory: to write a file to disk safely takes the disk milliseconds.
    """
    per_day = scale.files // 100

    def work() -> str:
        for day in range(100):
            directory = folder / "data" / f"day={day}"
            directory.mkdir(parents=True)
            for number in range(per_day):
                first = (day * per_day + number) * 10
                columns = {f"c{i}": np.arange(10) + i for i in range(9)}
                table = pa.table({"id": np.arange(first, first + 10), **columns})
                sink = pa.BufferOutputStream()
                fm.write_table(table, sink, write_statistics=["id"])
                (directory / f"{number:05d}.mosaic").write_bytes(sink.getvalue())
        return f"{100 * per_day:,} files"

    return work


def _on_dataset(act: Callable[[fm.MosaicDataset, Scale], str], is_open: bool = True) -> Prepare:
    def prepare(folder: Path, scale: Scale) -> Work:
        opened = fm.MosaicDataset(folder / "data") if is_open else None
        if opened is not None:
            opened.count_rows()

        def work() -> str:
            dataset = fm.MosaicDataset(folder / "data") if opened is None else opened
            says = act(dataset, scale)
            return f"{says}; {len(os.listdir('/proc/self/fd'))} open file descriptors"

        return work

    return prepare


def _one_partition(dataset: fm.MosaicDataset, scale: Scale) -> str:
    import pyarrow.compute as pc

    return _shape(dataset.to_table(["c3"], filter=pc.field("day") == 50))


def _partition_only(folder: Path, scale: Scale) -> Work:
    own = fm.read_schema(folder / "data" / "day=0" / "00000.mosaic")
    schema = own.append(pa.field("day", pa.int32()))

    def work() -> str:
        return _one_partition(fm.MosaicDataset(folder / "data", schema=schema), scale)

    return work


def _one_id(dataset: fm.MosaicDataset, scale: Scale) -> str:
    import pyarrow.compute as pc

    return _shape(dataset.to_table(["c3"], filter=pc.field("id") == scale.files * 5))


# ---- what steps of several cases do


def _open(name: str = "a.mosaic") -> Prepare:
    def prepare(folder: Path, scale: Scale) -> Work:
        def work() -> str:
            with fm.MosaicFile(folder / name) as file:
                facts = file.metadata
                return f"{facts.num_columns:,} columns, {facts.num_row_groups:,} row groups"

        return work

    return prepare


def _schema(folder: Path, scale: Scale) -> Work:
    return lambda: f"{len(fm.read_schema(folder / 'a.mosaic')):,} fields"


def _read(columns: Sequence[str] | None, name: str = "a.mosaic") -> Prepare:
    def prepare(folder: Path, scale: Scale) -> Work:
        return lambda: _shape(fm.read_table(folder / name, columns=columns))

    return prepare


def _batches(name: str, columns: Sequence[str] | None = None, batch_size: int = 65536) -> Prepare:
    def prepare(folder: Path, scale: Scale) -> Work:
        def work() -> str:
            with fm.MosaicFile(folder / name) as file:
                return _counted(file.iter_batches(batch_size, columns=columns))

        return work

    return prepare


def _verify(name: str = "a.mosaic") -> Prepare:
    def prepare(folder: Path, scale: Scale) -> Work:
        def work() -> str:
            report = fm.verify(folder / name)
            return "no problems" if report.ok else str(report.problems[0])

        return work

    return prepare


def _shape(table: pa.Table) -> str:
    return f"{table.num_rows:,} rows, {table.num_columns:,} columns"


def _counted(batches: Iterator[pa.RecordBatch]) -> str:
    num_batches = num_rows = 0
    for batch in batches:
        num_batches += 1
        num_rows += batch.num_rows
    return f"{num_rows:,} rows in {num_batches:,} batches"


def _file_facts(path: Path) -> str:
    with fm.MosaicFile(path) as file:
        return f"{path.stat().st_size:,} bytes, {file.num_row_groups:,} row groups"


TEN = [f"value_{i * 97:04d}" for i in range(10)]
CASES = (
    Case(
        "file",
        "A file of 6 GB: 1,000 columns of random numbers",
        "The writer receives batches of 40 MB. The row groups have the default size of 256 MiB.",
        {
            "write, streaming": _write_file,
            "open": _open(),
            "read 1 column": _read(TEN[:1]),
            "read 10 columns": _read(TEN),
            "10 columns of 10,000 rows, `iter_batches`": _range_in_batches,
            "all, `iter_batches`": _all_in_batches,
            "`verify`": _verify(),
        },
    ),
    Case(
        "text",
        "A string column of 2.3 GB, in values of 1 MB",
        "By default, the writer divides the column into row groups of 256 MiB. The format limits a "
        "zstd block to 512 MiB, so larger row groups and values must be uncompressed. Apache's "
        "release 0.2.0 writes larger blocks, which later versions of Mosaic reject, too.",
        {
            "write": _write_text("a.mosaic"),
            "read": _read(["text"]),
            "`iter_batches`, 16 rows": _batches("a.mosaic", ["text"], 16),
            "write, one row group": _write_text("zstd.mosaic", row_group_bytes=8 << 30),
            "write, one row group, uncompressed": _write_text(
                "one.mosaic", row_group_bytes=8 << 30, compression="none"
            ),
            "read that": _read(["text"], "one.mosaic"),
            "read the other column of that": _read(["row"], "one.mosaic"),
            "read that, `iter_batches`, 16 rows": _batches("one.mosaic", ["text"], 16),
            "`verify` that": _verify("one.mosaic"),
            "write with paimon-mosaic, one row group": _write_text_by_reference,
            "read the file of paimon-mosaic": _read(["text"], "reference.mosaic"),
            "read the file of paimon-mosaic, `iter_batches`, 16 rows": _batches(
                "reference.mosaic", ["text"], 16
            ),
            "write one value of 600 MB": _write_value("zstd"),
            "write one value of 600 MB, uncompressed": _write_value("none"),
            "read the value": _read(None, "value.mosaic"),
            "`verify` the value": _verify("value.mosaic"),
        },
    ),
    Case(
        "columns",
        "1,000,000 columns, 3 rows",
        "The missing name has one wrong letter.",
        {
            "write": _write_columns,
            "open": _open(),
            "read 1 column": _read_columns(1),
            "read 100 columns": _read_columns(100),
            "schema": _schema,
            "read all columns": _read(None),
            "missing name, `columns=`, file open": _misspelled("columns="),
            "missing name, glob, file open": _misspelled("glob"),
            "missing name, `filters=`, file open": _misspelled("filters="),
            "missing name, `MosaicDataset`": _misspelled("dataset"),
            "missing name, `schema=`": _misspelled("schema="),
            "`verify`": _verify(),
        },
    ),
    Case(
        "groups",
        "100,000 row groups of 10 rows, 2 columns",
        "Far too small for real use: the cost per row group is what this shows.",
        {
            "write": _write_row_groups,
            "open": _open(),
            "read 1 column": _read(["id"]),
            "read one row group": _one_row_group,
            "1 row, by statistics": _by_statistics,
            "1 column, `iter_batches`": _batches("a.mosaic", ["id"]),
            "`verify`": _verify(),
        },
    ),
    Case(
        "files",
        "A dataset of 100,000 files in 100 partitions, 10 rows and columns each",
        "Opening a dataset reads the end of each file, because the schemas may differ. With `schema=`, "
        "only files whose partition can match are opened. Files are open only while they are read.",
        {
            "write, file by file": _write_files,
            "open": _on_dataset(lambda dataset, _: f"{len(dataset.files):,} files", is_open=False),
            "open, count": _on_dataset(lambda dataset, _: f"{dataset.count_rows():,} rows", False),
            "open, 1 column of one partition": _on_dataset(_one_partition, is_open=False),
            "open with `schema=`, 1 column of one partition": _partition_only,
            "count, dataset open": _on_dataset(lambda dataset, _: f"{dataset.count_rows():,} rows"),
            "1 column of one partition, dataset open": _on_dataset(_one_partition),
            "1 column of one row by statistics, dataset open": _on_dataset(_one_id),
            "1 column of all files, dataset open": _on_dataset(
                lambda dataset, _: _shape(dataset.to_table(["c3"]))
            ),
        },
    ),
)


# ---- measuring


def measure(_: Contender, case: str, step: str, folder: Path, scale: Scale) -> Cost:
    """Run one step, in a worker."""
    _warm_up()
    prepare = next(one for one in CASES if one.name == case).steps[step]
    work = prepare(folder, scale)
    pa.default_memory_pool().release_unused()
    base, read = machine.reset_peak(), _read_so_far()
    start, processor = time.perf_counter(), time.process_time()
    try:
        says = work()
    except Exception as error:  # noqa: BLE001 - an error is an answer, too
        says = f"{type(error).__name__}: {str(error).partition(chr(10))[0][:300]}"
    return Cost(
        time.perf_counter() - start,
        time.process_time() - processor,
        machine.peak_bytes() - base,
        _read_so_far() - read,
        says.replace(f"{folder}{os.sep}", ""),
    )


def _warm_up() -> None:
    """Import what is imported on first use."""
    sink = pa.BufferOutputStream()
    fm.write_table(pa.table({"id": [1, 2]}), sink)
    fm.read_table(sink.getvalue(), filters=[("id", ">", 1)])


def _read_so_far() -> int:
    """The bytes that this process has read from files, from the page cache or not."""
    for line in Path("/proc/self/io").read_text().splitlines():
        if line.startswith("rchar:"):
            return int(line.split()[1])
    return 0


def run(case: Case, folder: Path, scale: Scale) -> dict[str, Cost | Missing]:
    """Measure the steps of a case; its files are removed afterwards."""
    costs: dict[str, Cost | Missing] = {}
    folder.mkdir()
    try:
        for step in case.steps:
            with Worker(FastMosaic()) as worker:
                args = case.name, step, folder, scale
                cost = worker.call(measure, *args, seconds=LIMIT_SECONDS)
            print(f"{case.name}: {step}: {cost}", file=sys.stderr, flush=True)
            costs[step] = cost
    finally:
        shutil.rmtree(folder)
    return costs


def grid(case: Case, costs: dict[str, Cost | Missing]) -> str:
    lines = [
        f"## {case.title}",
        "",
        *textwrap.wrap(case.remark, 110),
        "",
        "| step | s | processor s | peak memory, MB | read, MB | result |",
        "|---|---:|---:|---:|---:|---|",
    ]
    for step, cost in costs.items():
        if isinstance(cost, Missing):
            lines.append(f"| {step} | | | | | {cost.reason} |")
            continue
        numbers = f"{cost.seconds:.2f} | {cost.processor_seconds:.2f}"
        sizes = f"{cost.peak_bytes / MB:,.0f} | {cost.read_bytes / MB:,.1f}"
        lines.append(f"| {step} | {numbers} | {sizes} | {cost.says.replace('|', ' ')} |")
    return "\n".join([*lines, ""])


HEADER = """# Benchmarks at size

How fastmosaic behaves with large files, long values, many columns, many row groups and many files.
Each step runs once in a new process, with a warm page cache. Peak memory is the memory that the
step needs in addition to imports and to what it is given: the table to write, or the open dataset.
"Read" counts the bytes of all read calls. A step that raises an error shows the error as its result. Processor
seconds do not include waiting for the disk or for other processes, of which there were some in this run.

```
make bench-size                                        # everything; rewrites this page
python -m bench.size --only columns,groups             # some cases; prints the results only
python -m bench.size --folder /data/scratch            # where to put the data: up to 10 GB
python -m bench.size --reduce 100                      # a hundredth of every size
```
"""


def markdown(results: Sequence[tuple[Case, dict[str, Cost | Missing]]]) -> str:
    facts = [f"- {name}: {value}" for name, value in machine.description().items()]
    grids = [grid(case, costs) for case, costs in results]
    return "\n".join([HEADER, *grids, *facts, ""])


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.size", description=__doc__)
    names = ",".join(case.name for case in CASES)
    parser.add_argument("--only", default=names, metavar="CASES", help=f"by default {names}")
    parser.add_argument("--reduce", type=int, default=1, metavar="N", help="divide every size by N")
    parser.add_argument("--folder", type=Path, help="where to put the data: up to 10 GB")
    parser.add_argument("--out", type=Path, help="also write the page to this file")
    args = parser.parse_args(argv)
    scale, chosen = Scale().reduced(args.reduce), args.only.split(",")
    with tempfile.TemporaryDirectory(prefix="bench-", dir=args.folder) as folder:
        results = [
            (case, run(case, Path(folder) / case.name, scale))
            for case in CASES
            if case.name in chosen
        ]
    text = markdown(results)
    print(text)
    if args.out:
        args.out.write_text(text)
    elif args.only == names and args.reduce == 1:
        (Path(__file__).parents[1] / "docs" / "size.md").write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

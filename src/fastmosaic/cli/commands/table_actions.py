"""What the commands of `table` do."""

from __future__ import annotations

import argparse
import time
from contextlib import closing
from typing import Any

import pyarrow as pa

from ...convert.inputs import matching, open_input
from ...errors import printable
from ...query.formula import parse_assignment
from ...query.selection import NameList
from ...query.where import parse
from ...schemas.union import Fixed
from ...storage.secrets import redacted
from ...table.commit import TableChange
from ...table.table import MosaicTable
from ...table.vacuum import VacuumReport
from ..exit import OK
from ..output.aligned import Column
from ..output.changes import described, local_time
from ..output.console import Console
from ..source import SourceRows, advising, open_source
from ..target import ending_on_signals, writer_options


def _opened(arguments: argparse.Namespace) -> MosaicTable:
    return MosaicTable(arguments.table, single_writer=arguments.single_writer)


def _options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options of the writer that were given."""
    given = {name: getattr(arguments, name) for name in arguments.writing}
    return {name: value for name, value in given.items() if value is not None}


def create(arguments: argparse.Namespace) -> int:
    """Make a table."""
    console = Console(arguments)
    started = time.monotonic()
    keys = arguments.partition_by
    make: dict[str, Any] = {"single_writer": arguments.single_writer}
    with ending_on_signals():
        if not arguments.paths:
            table = MosaicTable.create(arguments.table, partitioning=keys, **make)
        else:
            source = open_source(arguments)
            rows = SourceRows(source, arguments, "mosaic")
            if keys is not None:
                make["partitioning"] = matching(keys, NameList(rows.schema.names))
            make |= writer_options(arguments, source, "mosaic", rows.schema)
            with (
                advising(),
                console.progress("creating", source.num_bytes or None) as advance,
                closing(rows.read(advance)) as batches,
            ):
                data = pa.RecordBatchReader.from_batches(rows.schema, batches)
                table = MosaicTable.create(arguments.table, data, **make)
    (first,) = table.history()[:1]
    done = TableChange(first.version, first.operation, first.summary)
    return _report(console, arguments, done, started)


def append(arguments: argparse.Namespace) -> int:
    """Append the rows of a source."""
    console = Console(arguments)
    started = time.monotonic()
    table = _opened(arguments)
    limits = {"max_rows_per_file": arguments.file_rows, "max_bytes_per_file": arguments.file_bytes}
    with ending_on_signals():
        source = open_source(arguments, table.schema)
        rows = SourceRows(source, arguments, "mosaic")
        options = writer_options(arguments, source, "mosaic", rows.schema)
        options |= {name: value for name, value in limits.items() if value is not None}
        with (
            advising(),
            console.progress("appending", source.num_bytes or None) as advance,
            closing(rows.read(advance)) as batches,
        ):
            done = table.append(pa.RecordBatchReader.from_batches(rows.schema, batches), **options)
    return _report(console, arguments, done, started)


def add_columns(arguments: argparse.Namespace) -> int:
    """Add columns that formulas compute, or that are joined by key."""
    console = Console(arguments)
    started = time.monotonic()
    if bool(arguments.formulas) == bool(arguments.values):
        raise ValueError('expected either formulas, e.g. "ratio = a / b", or --values and --on')
    if bool(arguments.values) != bool(arguments.on):
        raise ValueError("--values and --on are used together: the files, and their key columns")
    table = _opened(arguments)
    options = _options(arguments)
    with ending_on_signals():
        columns = _joined(table, arguments) if arguments.values else _computed(table, arguments)
        if statistics := options.get("write_statistics"):
            names = NameList(list(columns.pop("names")))
            options["write_statistics"] = statistics == ["all"] or matching(statistics, names)
        columns.pop("names", None)
        done = table.add_columns(**columns, replace=arguments.replace, progress=True, **options)
    return _report(console, arguments, done, started)


def _computed(table: MosaicTable, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the columns that formulas compute."""
    known = Fixed(table.schema)
    expressions: dict[str, Any] = {}
    for text in arguments.formulas:
        name, formula = parse_assignment(text)
        if name in expressions:
            raise ValueError(f"there are two formulas for column {name!r}")
        expressions[name] = formula.expression(known)
    return {"values": expressions, "names": expressions}


def _joined(table: MosaicTable, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the columns of other files, which are joined by key."""
    source = open_input(
        arguments.values, known=table.schema, whole=True, follow_links=arguments.follow_links
    )
    keys = matching(arguments.on, source.columns)
    names = [name for name in source.names() if name not in keys]
    reader = pa.RecordBatchReader.from_batches(source.schema, source.batches())
    return {"values": reader, "on": keys, "names": names}


def drop(arguments: argparse.Namespace) -> int:
    """Drop columns."""
    started = time.monotonic()
    table = _opened(arguments)
    names = matching(arguments.columns, NameList(table.schema.names))
    return _report(Console(arguments), arguments, table.drop_columns(names), started)


def delete(arguments: argparse.Namespace) -> int:
    """Delete rows."""
    started = time.monotonic()
    table = _opened(arguments)
    condition = parse(arguments.where).expression(Fixed(table.schema))
    with ending_on_signals():
        done = table.delete(condition, progress=True, **_options(arguments))
    return _report(Console(arguments), arguments, done, started)


def compact(arguments: argparse.Namespace) -> int:
    """Merge small files."""
    started = time.monotonic()
    with ending_on_signals():
        done = _opened(arguments).compact(
            target_bytes=arguments.target_size,
            mode=arguments.mode,
            progress=True,
            **_options(arguments),
        )
    return _report(Console(arguments), arguments, done, started)


def fold(arguments: argparse.Namespace) -> int:
    """Rewrite files that have column files."""
    started = time.monotonic()
    with ending_on_signals():
        done = _opened(arguments).fold(progress=True, **_options(arguments))
    return _report(Console(arguments), arguments, done, started)


def restore(arguments: argparse.Namespace) -> int:
    """Return to an earlier version."""
    started = time.monotonic()
    done = _opened(arguments).restore(arguments.version)
    return _report(Console(arguments), arguments, done, started)


def vacuum(arguments: argparse.Namespace) -> int:
    """Remove old versions, and files that no version uses."""
    console = Console(arguments)
    report = _opened(arguments).vacuum(
        arguments.older_than, keep_versions=arguments.keep, dry_run=arguments.dry_run
    )
    if console.is_json:
        console.document(
            {
                "table": redacted(arguments.table),
                "version": report.version,
                "dry_run": arguments.dry_run,
                "versions": list(report.versions),
                "files": list(report.files),
                "bytes": report.num_bytes,
            }
        )
    else:
        _print_vacuum(console, arguments, report)
    return OK


# ---- output


def _report(
    console: Console, arguments: argparse.Namespace, done: TableChange, started: float
) -> int:
    """Print what a change has done."""
    seconds = round(time.monotonic() - started, 3)
    name = redacted(arguments.table)
    if console.is_json:
        console.document(
            {
                "table": name,
                "version": done.version,
                "operation": done.operation,
                "summary": dict(done.summary),
                "committed": done.committed,
                "rebased": done.rebased,
                "seconds": seconds,
            }
        )
    elif not done.committed:
        console.line(f"{name}: nothing to do, still version {done.version}")
    else:
        what = described(console, done.operation, done.summary)
        console.line(f"{name}: version {done.version}, {what}, {seconds:.2f} s")
    return OK


def log(arguments: argparse.Namespace) -> int:
    """List the versions."""
    console = Console(arguments)
    versions = MosaicTable(arguments.table).history()[::-1]
    shown = versions[: arguments.limit]
    name = redacted(arguments.table)
    if console.is_json:
        found = [
            {
                "version": one.version,
                "time": one.time.isoformat(),
                "operation": one.operation,
                "rows": one.num_rows,
                "files": one.num_files,
                "summary": dict(one.summary),
            }
            for one in shown
        ]
        console.document({"table": name, "versions": found})
        return OK
    heads = [
        Column.number("version"),
        Column("time", whole=True),
        *map(Column.number, ("rows", "files")),
        Column.name("change"),  # its end tells the number of files
    ]
    rows = [
        (
            one.version,
            local_time(one.time),
            one.num_rows,
            one.num_files,
            described(console, one.operation, one.summary),
        )
        for one in shown
    ]
    footer = console.count(len(versions), "version")
    if len(shown) < len(versions):
        footer = f"{console.cell(len(shown))} of {footer}"
    console.table(heads, rows, footer=footer)
    return OK


def _print_vacuum(console: Console, arguments: argparse.Namespace, report: VacuumReport) -> None:
    if arguments.dry_run:
        for path in report.files:
            console.line(f"{printable(redacted(arguments.table))}/{path}")
    verb = "would remove" if arguments.dry_run else "removed"
    unit = "" if console.is_terminal else " bytes"
    console.line(
        f"{verb} {console.count(len(report.versions), 'version')} and "
        f"{console.count(len(report.files), 'file')}, {console.size(report.num_bytes)}{unit}"
    )

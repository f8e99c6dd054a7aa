"""`convert`: convert files between Mosaic and other formats in Spark tasks."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ...convert import read as formats
from ...convert.supported import schema_for
from ...convert.write import check_options
from ...dataset.discovery import discover
from ...dataset.found import Found
from ...dataset.hive import directory, resolve
from ...errors import ColumnNotFoundError, CorruptFileError, SchemaMismatchError, UnsupportedError
from ...format.names import similar_names
from ...format.types import plain_type
from ...schemas.fit import plain_schema
from ...schemas.widen import check_same, unite
from ...storage.staging import Staging
from .records import Listed, Records, Result, identity, list_files
from .report import ConvertReport, Failure
from .rewrite import (
    Rewrite,
    RewriteItem,
    SortKeys,
    SourcePart,
    clear_stale,
    finished,
    pack,
    records_of,
)
from .run import BadFile, blaming, parallelism, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_TARGET_BYTES: Final = 256 << 20
_INSPECTIONS_PER_CORE: Final = 4


def convert(
    spark: SparkSession,
    src: Any,
    dst: Any,
    *,
    source_format: str | None = None,
    target_format: str = "mosaic",
    schema: pa.Schema | None = None,
    unify: bool = True,
    target_file_bytes: int = DEFAULT_TARGET_BYTES,
    sort_by: str | Sequence[str | tuple[str, str]] | None = None,
    existing: str = "error",
    resume: bool = True,
    on_error: str = "raise",
    follow_links: bool = False,
    filesystem: Any = None,
    **options: Any,
) -> ConvertReport:
    """Convert files to Mosaic, or Mosaic files to another format.

    Spark tasks read and write the files with Arrow; rows do not pass through the JVM. On a cluster,
    `src` and `dst` must be on shared storage. The new files appear together when all of them are
    complete, as with `write_dataset`. `key=value` directories of the source are kept. Types that
    the new format lacks become wider types without loss, or raise an error if there are none.

    To resume a run that was killed, repeat the call: finished work is reused as long as the source
    files have not changed. With existing="append", do not repeat a call that has returned, because
    it would append the rows again.

    Parameters
    ----------
    spark : SparkSession
        Spark Connect is not supported.
    src : path, URI, glob, directory, or a list of them
    dst : path or URI of a directory
    source_format : {"parquet", "orc", "csv", "json", "arrow", "mosaic"}, optional
        Format of the source files; "json" is JSON lines. Default: determined from file names.
    target_format : {"mosaic", "parquet", "orc", "csv", "json", "arrow"}
        Format of the new files. Default: "mosaic".
    schema : pyarrow.Schema, optional
        Schema of the new files; other columns are dropped. Default: the union of the schemas of
        all source files, with wider types where they differ, and nulls for missing columns.
    unify : bool
        If True (default), source files may have different schemas; otherwise that is an error.
    target_file_bytes : int
        Approximate size of the new files, default 256 MiB. Large Parquet, ORC, Arrow and Mosaic
        files are split between row groups, small files are joined.
    sort_by : str or list of str or list of (str, "ascending" or "descending"), optional
        Sort the rows of each new file. A task then holds a whole file in memory.
    existing : {"error", "append", "overwrite"}
        What to do if `dst` contains files. Default: "error".
    resume : bool
        If True (default), reuse the finished work of a run that was killed.
    on_error : {"raise", "skip"}
        What to do with files that are damaged, have another format or an unsupported type.
        "raise" (default) stops the job; "skip" leaves the whole file out and reports it.
    follow_links : bool
        If True, follow links in local directories of `src` that lead out of them. Default: they
        are an error.
    filesystem : pyarrow or fsspec filesystem, optional
        Filesystem of `src`.
    **options
        Options of `MosaicWriter`, such as `write_statistics`, or of pyarrow's writer.

    Returns
    -------
    ConvertReport
    """
    started = time.monotonic()
    if on_error not in ("raise", "skip"):
        raise ValueError(f"invalid on_error {on_error!r}: expected 'raise' or 'skip'")
    if target_file_bytes < 1:
        raise ValueError(f"target_file_bytes must be at least 1, not {target_file_bytes}")
    formats.check_format("target_format", target_format)
    if source_format is not None:
        formats.check_format("source_format", source_format)
    skips = on_error == "skip"
    keys = _sort_keys(sort_by)
    listed = list_files(discover(src, filesystem, follow_links=follow_links))
    sources, failures = _sources(listed, source_format, skips)
    if "mosaic" not in (target_format, sources[0].format):
        raise ValueError(
            f"cannot convert {sources[0].format} to {target_format}: one of the formats must be mosaic"
        )
    choices = (os.fspath(dst), target_format, schema, unify, target_file_bytes, keys, existing)
    name = identity("convert", listed, *choices, on_error, sorted(options.items()))
    suffix = formats.SUFFIXES[target_format][0]
    staging = Staging.begin(dst, None, existing, suffix=suffix, identity=name)
    records = records_of(staging)
    if not resume:
        records.clear()
    try:
        inspected, bad = _inspect(spark, sources, skips)
        failures += bad
        target = schema_for(target_format, _target_schema(inspected, schema, unify))
        check_options(target_format, target, options)
        _check_sort_keys(keys, target)
        items = pack(_directories(inspected), target_file_bytes)
        if target_format == "mosaic":
            options = {"use_threads": len(items) < parallelism(spark), **options}
        rewrite = Rewrite(
            staging,
            target,
            target_format,
            target_file_bytes,
            keys,
            drops=schema is not None,
            skips=skips,
            options=options,
        )
        results, resumed, bad = _run(spark, rewrite, items, records)
    except BadFile as error:
        staging.abandon()
        raise error.to_error() from None
    except (ValueError, NotImplementedError, KeyError):
        staging.abandon()
        raise
    failures += bad
    files = [tuple(file) for result in results.values() for file in result["files"]]
    staging.commit(file for file, _, _ in files)
    if existing != "append":
        clear_stale(staging, "convert")
    excluded = {failure.file for failure in failures}
    used = [one for one in listed if one.found.name not in excluded]
    return ConvertReport(
        rows=sum(rows for _, rows, _ in files),
        files_in=len(used),
        files_out=len(files),
        bytes_in=sum(one.size for one in used),
        bytes_out=sum(size for _, _, size in files),
        seconds=time.monotonic() - started,
        resumed=resumed,
        failures=tuple(failures),
    )


# ---- source files


@dataclass(frozen=True, slots=True)
class _SourceFile:
    listed: Listed
    format: str

    @property
    def found(self) -> Found:
        return self.listed.found


@dataclass(frozen=True, slots=True)
class _Inspected:
    source: _SourceFile
    schema: pa.Schema
    groups: list[int] | None


def _sources(
    listed: Sequence[Listed], format: str | None, skips: bool
) -> tuple[list[_SourceFile], list[Failure]]:
    """Return the files of the most common format, and the failures of all others."""
    known = [format or formats.format_of(one.found.name) for one in listed]
    counts = Counter(one for one in known if one is not None)
    if not counts:
        raise ValueError(
            f"{listed[0].found.name}: cannot determine the format from the name; use source_format="
        )
    ((common, _),) = counts.most_common(1)
    sources = []
    failures = []
    for one, its in zip(listed, known, strict=True):
        if its == common:
            sources.append(_SourceFile(one, common))
            continue
        fact = (
            "cannot determine the format from the name" if its is None else f"the format is {its}"
        )
        if not skips:
            raise ValueError(
                f"{one.found.name}: {fact}, but other files are {common}; "
                "use on_error='skip' to leave it out, or source_format= if all have one format"
            )
        failures.append(Failure(one.found.name, f"{fact}, but other files are {common}"))
    return sources, failures


def _inspect(
    spark: SparkSession, sources: Sequence[_SourceFile], skips: bool
) -> tuple[list[_Inspected], list[Failure]]:
    """Read schemas and row groups of the files in Spark tasks."""
    count = min(len(sources), _INSPECTIONS_PER_CORE * parallelism(spark))
    ends = [len(sources) * i // count for i in range(count + 1)]
    chunks = {i: list(sources[ends[i] : ends[i + 1]]) for i in range(count)}
    results = run(spark, "inspect", chunks, _inspect_files)
    schemas: dict[bytes, pa.Schema] = {}  # keep one object of equal schemas
    inspected = []
    failures = []
    for number, chunk in chunks.items():
        result = results[number]
        for data in result["schemas"]:
            if data not in schemas:
                schemas[data] = _decode_schema(data)
        own = [schemas[data] for data in result["schemas"]]
        for source, (index, groups, blame) in zip(chunk, result["files"], strict=True):
            if blame is None:
                inspected.append(_Inspected(source, own[index], groups))
                continue
            error = BadFile(*blame)
            if not skips:
                raise error
            failures.append(error.to_failure())
    if not inspected:
        first = failures[0]
        raise CorruptFileError(
            f"cannot convert any of {len(sources)} files; {first.file}: {first.problem}"
        )
    return inspected, failures


def _inspect_files(sources: Sequence[_SourceFile]) -> Result:
    """Read schemas and row groups of some files. Runs in a task."""
    schemas: dict[bytes, int] = {}
    files: list[tuple[int, list[int] | None, tuple[Any, ...] | None]] = []
    for source in sources:
        try:
            with blaming(source.found.name):
                schema, groups = formats.inspect(source.found, source.format, source.listed.size)
                schema = schema.remove_metadata()
                data = schema.serialize().to_pybytes()
                if data not in schemas:
                    _check_columns(schema, source.found)
                index = schemas.setdefault(data, len(schemas))
        except BadFile as error:
            files.append((0, None, error.args))
        else:
            files.append((index, groups, None))
    return {"schemas": list(schemas), "files": files}


def _decode_schema(data: bytes) -> pa.Schema:
    from pyarrow import ipc

    return ipc.read_schema(pa.py_buffer(data))


def _check_columns(schema: pa.Schema, found: Found) -> None:
    """Raise if a Mosaic file cannot have these columns."""
    plain_schema(schema)
    twice = [name for name, count in Counter(schema.names).items() if count > 1]
    if twice:
        raise SchemaMismatchError(f"duplicate column {twice[0]!r}")
    for key in found.keys:
        if schema.get_field_index(key) >= 0:
            raise SchemaMismatchError(
                f"column {key!r} is in the file and also a partition key in its path"
            )


def _target_schema(
    inspected: Sequence[_Inspected], schema: pa.Schema | None, unify: bool
) -> pa.Schema:
    if schema is not None:
        plain_schema(schema)
        return schema
    distinct: dict[int, tuple[pa.Schema, str]] = {}
    for one in inspected:
        distinct.setdefault(id(one.schema), (one.schema, one.source.found.name))
    schemas = list(distinct.values())
    united = unite(schemas)
    if not unify:
        check_same(schemas, advice="pass unify=True to convert them to their union")
    for name in _with_other_metadata([schema for schema, _ in schemas]):
        index = united.get_field_index(name)
        united = united.set(index, united.field(index).remove_metadata())
    return united


def _with_other_metadata(schemas: Sequence[pa.Schema]) -> set[str]:
    """Return the columns whose metadata is not the same in all schemas."""
    found: dict[str, Any] = {}
    differ = set()
    for field in (field for schema in schemas for field in schema):
        if found.setdefault(field.name, field.metadata) != field.metadata:
            differ.add(field.name)
    return differ


def _directories(inspected: Sequence[_Inspected]) -> dict[str, list[SourcePart]]:
    """Return the parts of all files by target directory."""
    resolve([(one.source.found.name, one.source.found.keys) for one in inspected], None)
    parts: dict[str, list[SourcePart]] = {}
    for one in inspected:
        found = one.source.found
        values = [pa.scalar(text, pa.string()) for text in found.keys.values()]
        own = parts.setdefault(directory(list(found.keys), values), [])
        if one.groups:
            own += [
                SourcePart(found, one.source.format, (group,), size)
                for group, size in enumerate(one.groups)
            ]
        else:
            own.append(SourcePart(found, one.source.format, None, one.source.listed.size))
    return parts


def _sort_keys(sort_by: str | Sequence[str | tuple[str, str]] | None) -> SortKeys:
    given = [sort_by] if isinstance(sort_by, str) else list(sort_by or ())
    keys: list[tuple[str, str]] = []
    for key in given:
        name, order = (key, "ascending") if isinstance(key, str) else key
        if order not in ("ascending", "descending"):
            raise ValueError(
                f"sort_by: invalid order {order!r}: expected 'ascending' or 'descending'"
            )
        keys.append((name, order))
    return tuple(keys)


def _check_sort_keys(keys: SortKeys, schema: pa.Schema) -> None:
    for name, _ in keys:
        index = schema.get_field_index(name)
        if index < 0:
            raise ColumnNotFoundError.for_name(
                name, similar_names(name, schema.names), option="sort_by"
            )
        type = plain_type(schema.field(index).type)
        if pa.types.is_nested(type) or pa.types.is_interval(type):
            raise UnsupportedError(f"sort_by: cannot sort by column {name!r} of type {type}")


# ---- running


def _run(
    spark: SparkSession, rewrite: Rewrite, items: dict[int, RewriteItem], records: Records
) -> tuple[dict[int, Result], int, list[Failure]]:
    """Return the results of all items, how many of them were resumed, and the bad files.

    If an item finds a file bad after another item has used a part of it, that item runs again.
    """
    results = finished(rewrite.staging, records, items)
    resumed = len(results)
    failures: dict[str, str] = {}
    while True:
        for result in results.values():
            failures.update(result["failures"])
        todo = {
            number: item
            for number, item in items.items()
            if number not in results or _uses(item, results[number], failures)
        }
        if not todo:
            break
        work = replace(rewrite, excluded=frozenset(failures)).run
        done = len(items) - len(todo)
        results |= run(spark, "convert", todo, work, records=records, done=done)
    ordered = {number: results[number] for number in items}
    return ordered, resumed, [Failure(*one) for one in failures.items()]


def _uses(item: RewriteItem, result: Result, failures: dict[str, str]) -> bool:
    names = {part.found.name for part in item.parts}
    return bool((failures.keys() & names).difference(result["excluded"]))

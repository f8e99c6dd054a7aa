"""meta, footer and buckets: the structure of files."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ...dataset.files import File
from ...file.stored import AnnexSection, annex_sections, paged_sizes
from ...format.annex import Annex, Section
from ...format.footer import Flag, Footer
from ...format.metadata import FileMetaData
from ...format.types import Kind
from ...format.wire import Compression, has_checksum
from ...storage.source import Source
from ..arguments import Commands
from ..exit import OK
from ..files import (
    FileLabels,
    add_file_command,
    add_row_group,
    find_files,
    opened,
    print_by_file,
    row_groups,
)
from ..output.aligned import Column
from ..output.console import Console

_FOOTER_FIELDS: Final = (
    ("index_offset", 8),
    ("schema_offset", 8),
    ("num_buckets", 4),
    ("num_row_groups", 4),
    ("compression", 1),
    ("version", 1),
    ("flags", 2),
    ("magic", 4),
)
_MAX_LISTED: Final = 10  # names in a line


def add(commands: Commands) -> None:
    """Register the `meta`, `footer` and `buckets` commands."""
    parser = add_file_command(
        commands,
        "meta",
        "print rows, sizes, writer, checksums and row groups",
        "Print the metadata of Mosaic files: details and row groups of a single file, or one line for\n"
        "each of several files.",
        ["meta sales.mosaic", "meta warehouse --json"],
    )
    parser.set_defaults(run=_meta)

    parser = add_file_command(
        commands,
        "footer",
        "print the footer (last 32 bytes) and the annex",
        "Print the fields of the footer with their bytes, and the sections of the annex.",
        ["footer sales.mosaic"],
    )
    parser.set_defaults(run=_footer)

    parser = add_file_command(
        commands,
        "buckets",
        "print offsets, sizes and layouts of buckets",
        "Print the buckets of each row group: offset, size, layout and columns.",
        ["buckets sales.mosaic", "buckets sales.mosaic --row-group 0"],
    )
    add_row_group(parser)
    parser.set_defaults(run=_buckets)


# ---- meta


@dataclass(frozen=True, slots=True)
class _FileSummary:
    """The metadata of a file."""

    file: File
    has_frame_checksums: bool

    @classmethod
    def of(cls, file: File) -> _FileSummary:
        footer = file.metadata.footer
        if footer.compression == Compression.NONE:
            return cls(file, False)
        # Either all frames of a file have checksums or none; the schema block is always a frame.
        start = footer.schema_offset + 4  # after its length
        with opened(file) as source:
            frame = source.read_at(start, footer.index_offset - start)
        return cls(file, has_checksum(frame))

    def num_columns(self) -> int:
        """Return the number of columns that the user sees: a struct is one."""
        metadata = self.file.metadata
        is_stored = not metadata.footer.restores_types
        return metadata.num_columns if is_stored else len(metadata.columns.names())

    def checksums(self) -> list[str]:
        annex = self.file.metadata.annex
        return [
            *(["footer and index"] if annex is not None and annex.checksums else []),
            *(["blocks"] if annex is not None and annex.blocks else []),
            *(["zstd frames"] if self.has_frame_checksums else []),
        ]

    def statistics(self) -> list[str]:
        """Return the columns that have statistics in some row group."""
        metadata = self.file.metadata
        groups = range(metadata.num_row_groups)
        positions = set[int]().union(*map(metadata.columns_with_statistics, groups))
        return metadata.schema_block.names(sorted(positions))

    def metadata_keys(self) -> list[str]:
        keys = self.file.metadata.schema.metadata or {}
        return [key.decode(errors="backslashreplace") for key in keys]

    def to_dict(self) -> dict[str, Any]:
        metadata = self.file.metadata
        footer = metadata.footer
        groups = range(metadata.num_row_groups)
        return {
            "file": self.file.name,
            "size": self.file.size,
            "rows": metadata.num_rows,
            "columns": self.num_columns(),
            "stored_columns": metadata.num_columns,
            "array_blocks": metadata.schema_block.kinds.count(Kind.ARRAY_BLOCK),
            "row_groups": [_row_group(metadata, group) for group in groups],
            "buckets": metadata.num_buckets,
            "compression": metadata.compression,
            "version": metadata.format_version,
            "writer": metadata.created_by,
            "data_bytes": sum(map(metadata.bytes_of, groups)),
            "schema_bytes": footer.index_offset - footer.schema_offset,
            "index_bytes": len(metadata.index),
            "annex_bytes": 0 if metadata.annex is None else metadata.annex.size,
            "dictionary_bytes": 0 if metadata.dictionaries is None else metadata.dictionaries[1],
            "statistics": self.statistics(),
            "metadata_keys": self.metadata_keys(),
            "checksums": self.checksums(),
        }


def _row_group(metadata: FileMetaData, group: int) -> dict[str, Any]:
    layouts = Counter(bucket.layout for bucket in metadata.buckets(group))
    return {
        "rows": metadata.rows_of(group),
        "bytes": metadata.bytes_of(group),
        "paged": layouts["paged"],
        "monolithic": layouts["monolithic"],
    }


def _meta(arguments: argparse.Namespace) -> int:
    console = Console(arguments)
    files = find_files(arguments)
    documents = [_FileSummary.of(file).to_dict() for file in files]
    total = {
        "files": len(documents),
        "rows": sum(file.metadata.num_rows for file in files if not _is_column_file(file)),
        "size": sum(one["size"] for one in documents),
    }
    if console.is_json:
        console.document({"files": documents, "total": total})
    elif len(documents) == 1:
        _print_file(console, documents[0])
    else:
        names = FileLabels(console, files)
        numbers = ("rows", "columns", "row groups", "buckets", "size")
        console.table(
            [*names.head(), *map(Column.number, numbers), "codec", "writer"],
            [
                [
                    *names.cell(one["file"]),
                    one["rows"],
                    one["columns"],
                    len(one["row_groups"]),
                    one["buckets"],
                    console.size(one["size"]),
                    one["compression"],
                    one["writer"],
                ]
                for one in documents
            ],
            title=names.title,
            footer=f"{total['files']:,} files, {total['rows']:,} rows, "
            f"{console.size(total['size'])}",
        )
    return OK


def _is_column_file(file: File) -> bool:
    """Whether a file has columns for the rows of another one."""
    annex = file.metadata.annex
    return annex is not None and annex.base is not None


def _print_file(console: Console, one: dict[str, Any]) -> None:
    blocks = one["array_blocks"]
    groups = one["row_groups"]
    stored = one["stored_columns"]
    dictionaries = one["dictionary_bytes"]
    facts = [
        ("file", one["file"]),
        ("size", console.size(one["size"])),
        ("rows", one["rows"]),
        ("columns", one["columns"]),
        ("stored columns", None if stored == one["columns"] else stored),
        ("array blocks", blocks or None),
        ("row groups", len(groups)),
        ("buckets", one["buckets"]),
        ("compression", one["compression"]),
        ("version", one["version"]),
        ("writer", one["writer"] or "unknown"),
        ("data", console.size(one["data_bytes"])),
        ("schema block", console.size(one["schema_bytes"])),
        ("row group index", console.size(one["index_bytes"])),
        ("annex", console.size(one["annex_bytes"]) if one["annex_bytes"] else "none"),
        ("dictionaries", console.size(dictionaries) if dictionaries else None),
        ("statistics", _listed(one["statistics"])),
        ("metadata keys", _listed(one["metadata_keys"])),
        ("checksums", ", ".join(one["checksums"]) or "none"),
    ]
    with console.paging():
        console.facts((name, value) for name, value in facts if value is not None)
        if groups:
            console.line()
            numbers = ("row group", "rows", "bytes", "paged", "monolithic")
            console.table(
                list(map(Column.number, numbers)),
                [
                    (i, group["rows"], console.size(group["bytes"]), *list(group.values())[2:])
                    for i, group in enumerate(groups)
                ],
            )


def _listed(names: Sequence[str]) -> str:
    if not names:
        return "none"
    more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return ", ".join(names[:_MAX_LISTED]) + more


# ---- footer


def _footer(arguments: argparse.Namespace) -> int:
    console = Console(arguments)
    files = find_files(arguments)
    documents = []
    for file in files:
        with opened(file) as source:
            documents.append(_footer_of(source, file.metadata))
    if console.is_json:
        console.document(documents)
        return OK
    for number, one in enumerate(documents):
        if len(documents) > 1:
            if number:
                console.line()
            console.line(one["file"])
        console.table(
            [
                Column.number("offset"),
                Column.number("size"),
                "field",
                Column("bytes", whole=True),
                "value",
            ],
            [
                (field["offset"], field["size"], field["field"], field["hex"], field["text"])
                for field in one["fields"]
            ],
            title="Footer",
        )
        annex = one["annex"]
        if annex is None:
            console.line("no annex")
            continue
        console.line()
        console.table(
            [*map(Column.number, ("offset", "size", "kind")), "section", "value"],
            [
                (part["offset"], part["size"], part["kind"], part["section"], part["text"])
                for part in annex["sections"]
            ],
            title=f"Annex, {console.cell(annex['size'])} bytes at {console.cell(annex['offset'])}",
        )
    return OK


def _footer_of(source: Source, metadata: FileMetaData) -> dict[str, Any]:
    footer = metadata.footer
    start = source.size - Footer.SIZE
    data = source.read_at(start, Footer.SIZE).to_pybytes()
    fields = []
    at = 0
    for name, size in _FOOTER_FIELDS:
        raw = data[at : at + size]
        value = raw.decode() if name == "magic" else int.from_bytes(raw, "big")
        text = str(value)
        if name == "compression":
            text = f"{value} {footer.compression.name.lower()}"
        elif name == "flags":
            text = " ".join([f"{value:#06x}", *_flags(footer.flags)])
        fields.append(
            {
                "offset": start + at,
                "size": size,
                "field": name,
                "hex": raw.hex(" "),
                "value": value,
                "text": text,
            }
        )
        at += size
    annex = None
    if metadata.annex is not None:
        annex = {
            "offset": footer.schema_offset - metadata.annex.size,
            "size": metadata.annex.size,
            "sections": [
                _section(metadata.annex, section) for section in annex_sections(source, metadata)
            ],
        }
    return {
        "file": source.name,
        "size": source.size,
        "fields": fields,
        "flags": _flags(footer.flags),
        "annex": annex,
    }


def _flags(flags: int) -> list[str]:
    known = [flag.name.lower() for flag in Flag if flags & flag and flag.name]
    rest = flags & ~sum(Flag)
    return [*known, *([f"unknown {rest:#06x}"] if rest else [])]


def _section(annex: Annex, section: AnnexSection) -> dict[str, Any]:
    name, text = "unknown", ""
    match section.kind:
        case Section.CHECKSUMS:
            name = "checksums"
            if annex.checksums is not None:
                text = f"index {annex.checksums.index:08x}, footer {annex.checksums.footer:08x}"
        case Section.ATTACHED:
            name, text = "schema", "types and metadata of the schema"
        case Section.WRITER:
            name, text = "writer", annex.writer or ""
        case Section.BLOCKS:
            name = "blocks"
            if annex.blocks is not None:
                groups = " ".join(f"{one:08x}" for one in annex.blocks.row_groups[:_MAX_LISTED])
                more = " ..." if len(annex.blocks.row_groups) > _MAX_LISTED else ""
                text = f"schema {annex.blocks.schema:08x}, row groups {groups}{more}"
        case Section.BASE:
            name = "base"
            if annex.base is not None:
                rows, size = annex.base.num_rows, annex.base.size
                text = f"rows {rows}, bytes {size}, digest {annex.base.digest.hex()}"
        case Section.DICTIONARIES:
            name, text = "dictionaries", f"{annex.dictionaries} bytes before the annex"
        case Section.COMMON:
            name, text = "common types", "types of columns that the schema does not list"
        case Section.KEYS:
            if annex.keys is not None:
                name, text = "key index", f"{annex.keys.count} keys: {', '.join(annex.keys.names)}"
    return {**section._asdict(), "section": name, "text": text}


# ---- buckets


def _buckets(arguments: argparse.Namespace) -> int:
    console = Console(arguments)
    files = find_files(arguments)
    records = [record for file in files for record in _bucket_records(file, arguments.row_group)]
    if console.is_json:
        console.document(records)
        return OK
    keys = ("row_group", "bucket", "offset", "bytes", "uncompressed", "layout", "columns")
    titles = ("row group", "bucket", "offset", "bytes", "raw bytes", "layout", "columns")
    print_by_file(
        console,
        files,
        [*map(Column.number, titles), Column.name("first"), Column.name("last")],
        [(one["file"], [one[key] for key in (*keys, "first", "last")]) for one in records],
        footer="Raw bytes are before compression; in a paged bucket, the sum of its pages.",
    )
    return OK


def _bucket_records(file: File, row_group: int | None) -> Iterator[dict[str, Any]]:
    metadata = file.metadata
    block = metadata.schema_block
    with opened(file) as source:
        for group in row_groups(file, row_group):
            sizes = paged_sizes(source, metadata, group)
            for bucket in metadata.buckets(group):
                columns = block.bucket_columns(bucket.index)
                size = bucket.uncompressed_size
                yield {
                    "file": file.name,
                    "row_group": group,
                    "bucket": bucket.index,
                    "offset": bucket.offset,
                    "bytes": bucket.compressed_size,
                    "uncompressed": sizes.get(bucket.index) if size is None else size,
                    "layout": bucket.layout,
                    "columns": len(columns),
                    "first": block.name(columns[0]) if columns else None,
                    "last": block.name(columns[-1]) if columns else None,
                }

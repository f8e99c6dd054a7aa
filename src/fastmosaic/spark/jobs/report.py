"""Reports of the jobs over files."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from ...dataset.profile import ColumnProfile
from ...errors import printable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "AddColumnsReport",
    "ColumnProfile",
    "ConvertReport",
    "DatasetVerifyReport",
    "Failure",
    "ProfileReport",
    "RewriteReport",
    "TableVacuumReport",
    "VerifiedFile",
]

_CELL_WIDTH: Final = 32


@dataclass(frozen=True, slots=True)
class Failure:
    """A file that could not be read, and the reason."""

    file: str
    problem: str


@dataclass(frozen=True, slots=True)
class _JobReport:
    """What the reports of all jobs have in common."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def lines(self) -> list[str]:
        """Return the report as lines of text."""
        return str(self).split("\n")


@dataclass(frozen=True, slots=True)
class ConvertReport(_JobReport):
    """The result of `fastmosaic.spark.convert`."""

    rows: int
    files_in: int
    files_out: int
    bytes_in: int
    bytes_out: int
    seconds: float
    resumed: int  # work items that an earlier run had finished
    failures: tuple[Failure, ...]  # files that were skipped

    def __str__(self) -> str:
        return (
            f"converted {_count(self.rows, 'row')}, {_count(self.files_in, 'file')} to "
            f"{_count(self.files_out, 'file')}, {self.bytes_in:,} to {self.bytes_out:,} bytes, "
            f"{self.seconds:.1f} s{_problems(self.failures, 'skipped')}"
        )


@dataclass(frozen=True, slots=True)
class RewriteReport(_JobReport):
    """The result of `fastmosaic.spark.compact`, `concat` and `fold`."""

    operation: str  # "compact", "concat" or "fold"
    rows: int  # of the new files
    files_in: int
    files_out: int
    bytes_in: int  # with column files
    bytes_out: int
    seconds: float
    resumed: int  # new files, or parts of the work, that an earlier run had finished
    files_kept: int = 0  # that were not changed
    row_groups_copied: int = 0  # without decoding them
    version: int | None = None  # of the table, if it is one
    # New files that were not used, because others changed the old ones.
    left_to_other_writers: int = 0

    def __str__(self) -> str:
        verb = {"compact": "compacted", "concat": "merged", "fold": "folded"}[self.operation]
        copied = _count(self.row_groups_copied, "row group")
        to = f" to {self.files_out:,}" if self.operation != "fold" else ""
        facts = [
            f"{verb} {_count(self.files_in, 'file')}{to}",
            *([f"{self.files_kept:,} unchanged"] if self.operation != "concat" else []),
            _count(self.rows, "row"),
            *([f"{copied} copied"] if self.operation != "fold" else []),
            f"{self.bytes_in:,} to {self.bytes_out:,} bytes",
            f"{self.seconds:.1f} s",
        ]
        return _version(self.version) + ", ".join(facts)


@dataclass(frozen=True, slots=True)
class DeleteReport(_JobReport):
    """The result of `fastmosaic.spark.delete`."""

    rows: int  # that were deleted
    files_rewritten: int
    files_removed: int  # because all of their rows were deleted
    bytes_out: int  # of the files that were rewritten
    seconds: float
    resumed: int  # files that an earlier run had finished
    version: int  # of the table

    def __str__(self) -> str:
        return (
            f"{_version(self.version)}deleted {_count(self.rows, 'row')}, "
            f"{_count(self.files_rewritten, 'file')} rewritten, {self.files_removed:,} removed, "
            f"{self.bytes_out:,} bytes, {self.seconds:.1f} s"
        )


@dataclass(frozen=True, slots=True)
class TableVacuumReport(_JobReport):
    """The result of `fastmosaic.spark.vacuum`."""

    version: int  # the newest one
    versions: tuple[int, ...]  # that were removed
    files: tuple[str, ...]  # that were removed, relative to the table
    bytes: int  # of these files
    seconds: float
    dry_run: bool  # whether nothing was removed, only listed

    def __str__(self) -> str:
        verb = "would remove" if self.dry_run else "removed"
        return (
            f"{_version(self.version)}{verb} {_count(len(self.versions), 'version')} and "
            f"{_count(len(self.files), 'file')}, {self.bytes:,} bytes, {self.seconds:.1f} s"
        )


@dataclass(frozen=True, slots=True)
class AddColumnsReport(_JobReport):
    """The result of `fastmosaic.spark.add_columns`."""

    columns: tuple[str, ...]  # that were added
    rows: int
    files: int  # base files, each of which got a column file
    bytes_out: int  # of the column files
    seconds: float
    resumed: int  # files that an earlier run had finished
    version: int  # of the table that has the columns
    files_without_values: int = 0  # that other writers have appended meanwhile

    def __str__(self) -> str:
        late = self.files_without_values
        without = f", nulls in {_count(late, 'file')} that others appended" if late else ""
        return (
            f"{_version(self.version)}added {_count(len(self.columns), 'column')} to "
            f"{_count(self.rows, 'row')} in {_count(self.files, 'file')}{without}, "
            f"{self.bytes_out:,} bytes, {self.seconds:.1f} s"
        )


@dataclass(frozen=True, slots=True)
class VerifiedFile:
    """The result of checking one file; `problem` is None if the file is valid."""

    file: str
    rows: int
    row_groups: int
    bytes: int
    problem: str | None

    @property
    def ok(self) -> bool:
        return self.problem is None


@dataclass(frozen=True, slots=True)
class DatasetVerifyReport(_JobReport):
    """The result of `fastmosaic.spark.verify`."""

    files: tuple[VerifiedFile, ...]
    seconds: float
    resumed: int  # files that an earlier run had checked

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    @property
    def failures(self) -> tuple[Failure, ...]:
        return tuple(Failure(f.file, f.problem) for f in self.files if f.problem is not None)

    @property
    def ok(self) -> bool:
        return not self.failures

    def dataframe(self, spark: SparkSession) -> DataFrame:
        """Return a DataFrame with a row for each file."""
        schema = "file string, ok boolean, rows long, row_groups long, bytes long, problem string"
        rows = [(f.file, f.ok, f.rows, f.row_groups, f.bytes, f.problem) for f in self.files]
        return spark.createDataFrame(rows, schema)

    def to_dict(self) -> dict[str, Any]:
        files = [{**asdict(file), "ok": file.ok} for file in self.files]
        return {"ok": self.ok, "rows": self.rows, "bytes": self.bytes, "seconds": self.seconds} | {
            "resumed": self.resumed,
            "files": files,
        }

    def __str__(self) -> str:
        return (
            f"checked {_count(len(self.files), 'file')}, {_count(self.rows, 'row')}, "
            f"{self.bytes:,} bytes, "
            f"{self.seconds:.1f} s{_problems(self.failures, 'damaged')}"
        )


@dataclass(frozen=True, slots=True)
class ProfileReport(_JobReport):
    """The result of `fastmosaic.spark.profile`."""

    columns: tuple[ColumnProfile, ...]
    rows: int
    files: int
    bytes: int
    seconds: float
    resumed: int  # work items that an earlier run had finished

    def dataframe(self, spark: SparkSession) -> DataFrame:
        """Return a DataFrame with a row for each column."""
        schema = (
            "column string, type string, rows long, nulls long, distinct long, min string, "
            "max string, bytes long, plain long, const long, dict long, all_null long, "
            "array_block long"
        )
        names = [field.name for field in fields(ColumnProfile)]
        rows = [tuple(getattr(column, name) for name in names) for column in self.columns]
        return spark.createDataFrame(rows, schema)

    def lines(self) -> list[str]:
        """Return the report as lines of text."""
        names = [field.name for field in fields(ColumnProfile)]
        rows = [names, *([_cell(getattr(one, name)) for name in names] for one in self.columns)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        table = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        return [*table, str(self)]

    def __str__(self) -> str:
        return (
            f"{_count(len(self.columns), 'column')}, {_count(self.rows, 'row')}, "
            f"{_count(self.files, 'file')}, {self.bytes:,} bytes, {self.seconds:.1f} s"
        )


def _cell(value: Any) -> str:
    text = "" if value is None else printable(str(value))
    return text if len(text) <= _CELL_WIDTH else text[: _CELL_WIDTH - 1] + "…"


def _version(number: int | None) -> str:
    return "" if number is None else f"version {number}: "


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _problems(failures: tuple[Failure, ...], word: str) -> str:
    lines = "".join(f"\n{word}: {printable(f'{one.file}: {one.problem}')}" for one in failures)
    return f"; {_count(len(failures), 'file')} {word}{lines}" if failures else ""

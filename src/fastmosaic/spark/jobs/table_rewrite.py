"""Rewrite files of a table in Spark tasks, one for each new file."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...dataset.fileset import FileSet
from ...dataset.found import Found
from ...dataset.table_files import DatasetFile, alone
from ...dataset.version import BaseFile
from ...errors import MosaicError
from ...file.concat import Mode
from ...table.changes import ReplaceFiles, Rewritten
from ...table.rewrite import BaseWriter, Rewriter, dropped_from, entry_of
from .records import Result
from .report import RewriteReport
from .run import BadFile
from .table_job import TableJob, change_of, number_of, with_threads

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rewrite_table(
    spark: SparkSession,
    table: Any,
    verb: str,
    choose: Callable[[Rewriter], Sequence[Sequence[DatasetFile]]],
    *,
    mode: Mode | None,
    choices: Sequence[object] = (),
    resume: bool,
    options: dict[str, Any],
) -> RewriteReport:
    """Rewrite groups of files, each as one file, and commit all of them as one version.

    If `mode` is None, each group is one file, whose column files are folded in. `choices` tell the job
    from others that do the same.
    """
    started = time.monotonic()
    changing = change_of(table)
    store, state = changing.store, changing.state
    files = FileSet(state.snapshot)
    groups = choose(Rewriter(store, state, files, {}, store.open_file))
    identity = mode, *choices, sorted(options.items())
    job = TableJob.begin(changing, verb, *identity, resume=resume)
    threaded: Any = with_threads(spark, options, len(groups))
    writer = Rewriter(store, state, files, threaded, store.open_file).writer(job.number)
    items = {_number(group): alone([file.found for file in group]) for group in groups}
    results = job.finished(items)
    resumed = len(results)
    todo = {number: item for number, item in items.items() if number not in results}
    results |= job.run(spark, verb, todo, RewriteGroup(writer, mode), resumed)
    done = {number: _rewritten(results[number]) for number in items}
    for file in {one.new.schema: one.new for one in done.values() if one.new}.values():
        writer.describe(file.path, file.added)  # stores its columns, which vacuum may have removed
    change = job.commit(ReplaceFiles(verb, list(done.values()), True))
    # Other writers may have changed some of the old files, which then stay.
    named = changing.snapshot.version.paths
    used = [one for one in done.values() if one.new and one.new.path in named]
    new = [one.new for one in used if one.new]
    gone = {path for one in used for path in one.old}
    old = [file for group in groups for file in group if entry_of(file).path in gone]
    return RewriteReport(
        operation=verb,
        rows=sum(one.rows for one in new),
        files_in=len(old),
        files_out=len(new),
        files_kept=len(state.version.files) - len(old),
        bytes_in=sum(file.size for file in old),
        bytes_out=sum(one.size for one in new),
        seconds=time.monotonic() - started,
        resumed=resumed,
        row_groups_copied=sum(one.copied or 0 for one in used),
        version=change.version,
        left_to_other_writers=len(done) - len(used),
    )


def _number(group: Sequence[DatasetFile]) -> int:
    """Return the number of the work for a group: the same if its files and their columns are."""
    return number_of([(entry_of(file), sorted(dropped_from(file))) for file in group])


@dataclass(frozen=True, slots=True)
class RewriteGroup:
    """Writes one file in place of others. Runs in a task."""

    writer: BaseWriter
    mode: Mode | None

    def __call__(self, found: Sequence[Found]) -> Result:
        group = FileSet(found).files
        try:
            with self.writer.store.new_files() as open_file:
                if self.mode is None:
                    (file,) = group
                    done = self.writer.fold(file, open_file)
                else:
                    done = self.writer.merge(group, self.mode, open_file)
        except MosaicError as error:
            raise BadFile(error.file or group[0].name, error) from error
        assert done.new is not None
        return {
            "old": done.old,
            "new": done.new.to_dict(),
            "copied": done.copied,
            "files": [(done.new.path, done.new.size)],
        }


def _rewritten(result: Result) -> Rewritten:
    return Rewritten(tuple(result["old"]), BaseFile(**result["new"]), result["copied"])

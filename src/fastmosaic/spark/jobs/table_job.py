"""Jobs that change a table: tasks write files, the driver commits them once.

A job has a staging directory in the table, named after the job and a number that is the same for the same
call. Records of finished items are there, and the number is in the names of all files that the tasks write,
so that `vacuum` does not remove them while the job runs, or until it is resumed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ...errors import ConflictError
from ...storage.debris import staging_name
from ...storage.listing import join
from ...storage.location import as_arrow
from ...table.changes import Change
from ...table.commit import TableChange
from ...table.store import TableStore
from ...table.table import Changing, MosaicTable
from .records import Records, Result
from .run import BadFile, parallelism, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# It exists from the beginning of a job until its end. A task that Spark runs twice may leave a record
# after that, which must not count.
_BEGUN: Final = "_begun"


def change_of(table: Any) -> Changing:
    """Begin a change of a table by its path or URI, or of a table that is open already."""
    if isinstance(table, str | os.PathLike):
        table = MosaicTable(table)
    elif not isinstance(table, MosaicTable):
        raise TypeError(
            "table must be a path, a URI or a MosaicTable, "
            f"not an object of type {type(table).__name__}"
        )
    return Changing(table)


def number_of(*facts: object) -> int:
    """Return a number for an item of work that is the same for the same facts."""
    return int(hashlib.sha256(repr(facts).encode()).hexdigest()[:15], 16)


@dataclass(frozen=True, slots=True)
class TableJob:
    """A job that changes a table.

    changing  the change that the job makes
    name      of the job, and a number that is the same for the same call
    records   results of finished items, each with `files`: paths and sizes
    """

    changing: Changing
    name: str
    records: Records

    @classmethod
    def begin(cls, changing: Changing, verb: str, *choices: object, resume: bool) -> TableJob:
        """Begin a job, or go on with one whose driver was killed; `choices` tell it from others."""
        store = changing.store
        text = repr((store.path, choices))
        name = f"{verb}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        root = join(store.path, staging_name(name))
        job = cls(changing, name, Records(f"{root}/_done", store.filesystem))
        storage = as_arrow(store.filesystem)
        begun = f"{root}/{_BEGUN}"
        if not resume or storage.get_file_info(begun).type.name != "File":
            job.discard()
        storage.create_dir(root, recursive=True)
        storage.open_output_stream(begun).close()
        return job

    @property
    def store(self) -> TableStore:
        return self.changing.store

    @property
    def number(self) -> str:
        """The number in the names of the files that tasks write."""
        return self.name.rpartition("-")[2]

    def finished(self, items: Mapping[int, Any]) -> dict[int, Result]:
        """Return the results of an earlier run for items whose files are all there."""
        results = {n: result for n, result in self.records.load().items() if n in items}
        expected = {path: size for one in results.values() for path, size in one["files"]}
        missing = set(self.store.missing(expected))
        return {
            number: result
            for number, result in results.items()
            if not any(path in missing for path, _ in result["files"])
        }

    def committed(self) -> dict[int, Result]:
        """Return the results of an earlier run that was killed after its commit; none if there is none."""
        results = self.records.load()
        named = self.changing.state.version.paths
        is_named = any(path in named for one in results.values() for path, _ in one["files"])
        return results if is_named else {}

    def run(
        self,
        spark: SparkSession,
        verb: str,
        items: Mapping[int, Any],
        work: Callable[[Any], Result],
        done: int,
    ) -> dict[int, Result]:
        """Run the work of items in tasks."""
        with self.discarding():
            return run(spark, verb, items, work, records=self.records, done=done)

    @contextmanager
    def discarding(self) -> Iterator[None]:
        """Leave nothing of the job if a file is bad, which a repetition cannot change.

        After other errors, what is finished stays for a repetition.
        """
        try:
            yield
        except BadFile as error:
            self.discard()
            raise error.to_error() from None
        except Exception:
            if not self.records.load():
                self.end()
            raise

    def commit(self, change: Change) -> TableChange:
        """Commit what the tasks have written, and end the job."""
        try:
            done = self.changing.commit(change)
        except ConflictError:
            self.end()
            raise
        self.end()
        return done

    def discard(self) -> None:
        """Remove what the job has written, as far as that is known, and end it."""
        paths = [path for one in self.records.load().values() for path, *_ in one["files"]]
        named = self.changing.state.version.paths
        self.store.discard(path for path in paths if path not in named)
        self.end()

    def end(self) -> None:
        """Remove the staging directory."""
        storage = as_arrow(self.store.filesystem)
        root = join(self.store.path, staging_name(self.name))
        begun = f"{root}/{_BEGUN}"
        if storage.get_file_info(begun).type.name == "File":
            storage.delete_file(begun)  # first, so that no record counts any more
        if storage.get_file_info(root).type.name == "Directory":
            storage.delete_dir(root)


def with_threads(spark: SparkSession, options: Mapping[str, Any], count: int) -> dict[str, Any]:
    """Return options of a writer in which a task uses several cores only if some would be idle."""
    return {"use_threads": count < parallelism(spark), **options}

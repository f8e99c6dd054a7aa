"""Commit a change: the next version of a table, created only if nobody else was faster."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from ..dataset.snapshot import Snapshot
from ..dataset.version import Version
from ..errors import ConflictError
from .changes import Change, State
from .store import TableStore

# Seconds: several writers that fail again and again wait for different times, and longer each time.
_FIRST_PAUSE: Final = 0.05
_MAX_PAUSE: Final = 1.0


@dataclass(frozen=True, slots=True)
class TableChange:
    """What an operation has done to a table.

    version    the number of the version that it has made, or that was the newest one if there was
               nothing to do
    operation  its name, for example "append"
    summary    numbers and names about it
    rebased    how many versions other writers have committed while it ran
    committed  whether it has made a version
    """

    version: int
    operation: str
    summary: Mapping[str, Any] = field(default_factory=dict)
    rebased: int = 0
    committed: bool = True

    def __repr__(self) -> str:
        told = ", ".join(f"{key}: {value}" for key, value in self.summary.items())
        what = f"version {self.version}" if self.committed else "nothing to do"
        return f"<TableChange: {self.operation}, {what}{f', {told}' if told else ''}>"


def commit(store: TableStore, change: Change, read: State) -> tuple[Snapshot, TableChange]:
    """Make the next version of a table; return the table at it, and what was done.

    `read` is the version that the change was prepared for. If others have committed versions since,
    the change is applied to the newest one.
    """
    store.settle(change.new_files(), read.digests)
    now = read
    pause = _FIRST_PAUSE
    while True:
        # Also before the first attempt: there is no version after `read` if vacuum has removed it.
        now = _newest(store, now)
        changed = change.apply(read, now)
        if changed is None:
            done = TableChange(
                now.number, change.operation, change.summary, now.number - read.number, False
            )
            return now.snapshot, done
        version = replace(
            changed,
            number=now.number + 1,
            parent=now.number,
            time=max(datetime.now(UTC), now.version.time),
            operation=change.operation,
            summary=change.summary,
            commit=new_commit(),
        )
        try:
            store.add(version)
        except FileExistsError:
            time.sleep(random.uniform(0, pause))
            pause = min(2 * pause, _MAX_PAUSE)
        except OSError as error:
            if store.filesystem is not None:
                error.add_note(
                    f"The store did not tell whether version {version.number} of {store.name} was "
                    "committed. Look at history() before you make the change again."
                )
            raise
        else:
            done = TableChange(
                version.number, change.operation, change.summary, now.number - read.number
            )
            return replace(now.snapshot, version=version), done


def commit_change(store: TableStore, change: Change, read: State) -> tuple[Snapshot, TableChange]:
    """Commit a change, and remove files that were written for it but did not become part of it."""
    try:
        snapshot, done = commit(store, change, read)
    except ConflictError:
        store.discard(one.path for one in change.new_files())
        raise
    # After another error the version may exist, now or later: then its files must not be removed.
    left = {one.path for one in change.new_files()} - snapshot.version.paths
    store.discard(left)  # compaction has given way to another writer
    return snapshot, done


def _newest(store: TableStore, known: State) -> State:
    return known if store.versions()[-1:] == [known.number] else State(store.snapshot())


def new_commit() -> str:
    """Return a text that tells a version from others that are made at the same time."""
    return os.urandom(16).hex()


def first_version(**fields: Any) -> Version:
    """Return the first version of a table."""
    return Version(
        number=1,
        parent=None,
        time=datetime.now(UTC),
        operation="create",
        commit=new_commit(),
        **fields,
    )

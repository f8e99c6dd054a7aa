"""A streaming query with a driver of its own, which is killed within the commit of a batch.

Query    starts the driver, again and again from one checkpoint
Killed   the data source of the query: it dies, with its driver, before an operation on files

Spark commits a batch in a Python process of its own. That process counts the operations that change
files, and kills the driver's Python, its JVM and itself before the one that is asked for. In an object
store, the server counts requests and does so: the process tells it when a commit begins.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType
from spark_jvm import CONF, PATH

from fastmosaic.spark.source import commit as commit_module
from fastmosaic.spark.source.source import MosaicDataSource, StreamWriter
from fastmosaic.storage import moves as moves_module, staging as staging_module

LIMIT: Final = 300.0  # seconds: only a driver that hangs gets there

_CONFIG: Final = "FASTMOSAIC_TEST_KILL"
_GROUP: Final = "FASTMOSAIC_TEST_GROUP"  # of the processes of the driver
_CHANGES: Final = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.utime"}
_METHODS: Final = {"move", "delete_file", "delete_dir", "create_dir"}


@dataclass
class Query:
    """A query that reads rows of JSON files, one file for a batch, and writes them to `target`."""

    directory: Path
    target: str
    environment: dict[str, str] = field(default_factory=dict)
    batches: int = 0

    def add(self) -> list[int]:
        """Provide the rows of one more batch; return their ids."""
        ids = [10 * self.batches + i for i in range(4)]
        text = "".join(json.dumps({"id": one, "p": one % 2}) + "\n" for one in ids)
        incoming = self.directory / "incoming"
        incoming.mkdir(exist_ok=True)
        (incoming / f"{self.batches}.json").write_text(text)
        self.batches += 1
        return ids

    def run(self, kill: str = "", **config: Any) -> bool:
        """Run until all rows are written; return whether it was killed before.

        `kill` is a number of an operation in the commit of the newest batch, or its name and
        number, such as "move 2", or "end": after the last one.
        """
        config |= {
            "incoming": str(self.directory / "incoming"),
            "checkpoint": str(self.directory / "checkpoint"),
            "target": self.target,
            "notes": str(self.directory / "notes"),
            "kill": kill,
            "batch": self.batches - 1,
        }
        environment = os.environ | self.environment | {_CONFIG: json.dumps(config)}
        process = subprocess.Popen(
            [sys.executable, "-c", "import spark_stream; spark_stream.main()"],
            env=environment | {"PYTHONPATH": PATH},
            cwd=self.directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
        )
        try:
            self.output, _ = process.communicate(timeout=LIMIT)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        assert process.returncode in (0, -signal.SIGKILL), self.output
        return process.returncode != 0

    def operations(self) -> list[str]:
        """What the commit of the newest batch has begun to do, in the last run."""
        path = self.directory / "notes"
        return path.read_text().splitlines() if path.exists() else []


def main() -> None:
    """Run the query: the driver."""
    from fastmosaic.spark import session

    config = json.loads(os.environ[_CONFIG])
    os.environ[_GROUP] = str(os.getpgid(0))
    Path(config["notes"]).unlink(missing_ok=True)
    spark = session("killed", "local[2]", **CONF)
    spark.dataSource.register(Killed)
    query = (
        spark.readStream.schema("id long, p int")
        .option("maxFilesPerTrigger", 1)
        .json(config["incoming"])
        .writeStream.format("killed")
        .option("checkpointLocation", config["checkpoint"])
        .option("partition_by", "p")
        .trigger(availableNow=True)
        .start(config["target"])
    )
    query.awaitTermination()
    spark.stop()


class Killed(MosaicDataSource):
    @classmethod
    def name(cls) -> str:
        return "killed"

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        return _Writer(super().streamWriter(schema, overwrite)._job)  # type: ignore[attr-defined]


class _Writer(StreamWriter):
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        config = json.loads(os.environ[_CONFIG])
        if batchId != config["batch"]:
            super().commit(messages, batchId)
            return
        if server := config.get("server"):
            # The server counts the requests from now on.
            urllib.request.urlopen(f"{server}/commit/{os.environ[_GROUP]}/{os.getpid()}").close()
        else:
            _Watch(config["kill"], config["notes"]).begin()
        super().commit(messages, batchId)
        if config["kill"] == "end":
            kill(int(os.environ[_GROUP]), os.getpid())


def kill(group: int, worker: int) -> None:
    """Kill the processes of the driver, and the one that commits."""
    os.killpg(group, signal.SIGKILL)
    with suppress(ProcessLookupError):
        os.kill(worker, signal.SIGKILL)


class _Watch:
    """Counts the operations of this process that change files, and kills it before one of them."""

    def __init__(self, point: str, notes: str) -> None:
        self._point = point
        self._notes = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._counts: Counter[str] = Counter()

    def begin(self) -> None:
        sys.addaudithook(self._audit)
        plain = staging_module.storage_of

        def watched(filesystem: Any) -> Any:
            return _WatchedStorage(plain(filesystem), self._meet)

        for module in (staging_module, moves_module, commit_module):
            module.storage_of = watched  # type: ignore[attr-defined]

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in _CHANGES or (
            event == "open" and (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        ):
            self._meet(event, arguments[0])

    def _meet(self, name: str, path: Any) -> None:
        self._counts[name] += 1
        number = self._counts.total()
        os.write(self._notes, f"{number} {name} {path}\n".encode())
        if self._point in {str(number), f"{name} {self._counts[name]}"}:
            kill(int(os.environ[_GROUP]), os.getpid())


class _WatchedStorage:
    """A filesystem of pyarrow, whose operations Python's audit hooks do not see."""

    def __init__(self, storage: Any, meet: Callable[[str, Any], None]) -> None:
        self._storage = storage
        self._meet = meet

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._storage, name)
        if name not in _METHODS:
            return method

        def call(*arguments: Any, **options: Any) -> Any:
            self._meet(name, arguments[0])
            return method(*arguments, **options)

        return call

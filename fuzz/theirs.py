"""The Apache implementation in a child process, because hostile files make it panic or abort.

python -m fuzz.theirs     serves requests on its standard input, until that ends
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import resource
import select
import struct
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

MEMORY = 3 << 30  # bytes of address space
SECONDS = 5
ROOT = Path(__file__).parent.parent
LENGTH = struct.Struct("<Q")


class Refused(Exception):
    """It raised an error."""


class Died(Exception):
    """It panicked, aborted, crashed, ran out of memory or took too long."""


class Theirs:
    """A client of the child process, which is started again whenever it dies."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None

    def read(self, data: bytes) -> pa.Table:
        answer = self._ask(("read", data))
        try:
            return pa.ipc.open_stream(answer["table"]).read_all()
        except pa.ArrowInvalid as error:  # e.g. nullable keys of maps, which Arrow refuses
            raise Refused(str(error)) from error

    def write(self, table: pa.Table, options: dict[str, Any]) -> bytes:
        return self._ask(("write", _stream(table), json.dumps(options)))["file"]

    def close(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            for pipe in (self._child.stdin, self._child.stdout):
                with contextlib.suppress(OSError):
                    pipe.close()  # type: ignore[union-attr]
            self._child = None

    def _ask(self, request: tuple[Any, ...]) -> dict[str, Any]:
        child = self._child or self._start()
        try:
            _send(child.stdin, pickle.dumps(request))
            ready, _, _ = select.select([child.stdout], [], [], SECONDS)
            answer = _receive(child.stdout) if ready else None
        except OSError:
            answer = None
        if answer is None:
            self.close()
            raise Died("no answer")
        made = pickle.loads(answer)
        if "error" in made:
            raise (Died if "panic" in made["error"] else Refused)(made["error"])
        return made

    def _start(self) -> subprocess.Popen[bytes]:
        clean = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "PYTHONMALLOC")}
        self._child = subprocess.Popen(
            [sys.executable, "-m", "fuzz.theirs"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=clean,
            cwd=ROOT,
        )
        return self._child


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def _send(pipe: IO[bytes] | None, data: bytes) -> None:
    assert pipe is not None
    pipe.write(LENGTH.pack(len(data)) + data)
    pipe.flush()


def _receive(pipe: IO[bytes] | None) -> bytes | None:
    assert pipe is not None
    header = pipe.read(LENGTH.size)
    if len(header) < LENGTH.size:
        return None
    (size,) = LENGTH.unpack(header)
    data = pipe.read(size)
    return data if len(data) == size else None


def _answer(request: tuple[Any, ...]) -> dict[str, Any]:
    import mosaic

    if request[0] == "write":
        sink = io.BytesIO()
        aligned = pa.ipc.IpcReadOptions(ensure_alignment=pa.ipc.Alignment.At64Byte)
        table = pa.ipc.open_stream(request[1], options=aligned).read_all()
        mosaic.write_table(table, sink, mosaic.WriterOptions(**json.loads(request[2])))
        return {"file": sink.getvalue()}
    data = request[1]
    with mosaic.MosaicReader.from_input_file(
        lambda offset, length: data[offset : offset + length], len(data)
    ) as reader:
        return {"table": _stream(reader.read_all())}


def serve() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing else may write to the pipe
    while (request := _receive(sys.stdin.buffer)) is not None:
        try:
            answer = _answer(pickle.loads(request))
        except Exception as error:  # noqa: BLE001 - whatever it raises is its answer
            answer = {"error": f"{type(error).__name__}: {error}"[:300]}
        _send(answers, pickle.dumps(answer))


if __name__ == "__main__":
    serve()

"""HTTP on loopback: a file server with ranges, and a proxy before an S3 API; both count and fail.

Server      answers by a backend, notes every request, injects faults, waits for requests at once
FileStore   a backend: bytes by name, ranges, directory listings as pages of links
Proxy       a backend: another server on loopback
FaultyStore a backend: an S3 API with faults at chosen requests
s3_api      the S3 API of moto, on a free port
"""

from __future__ import annotations

import http.client
import math
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from html import unescape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate
from typing import Any
from urllib.parse import quote

import pytest

HOST = "127.0.0.1"
FOREVER = math.inf
SLOW = 0.5  # seconds
LATE = 6.0  # seconds until a late answer, longer than its client waits
# moto does not check a signature, but only one who signs may replace an object.
SIGNED = {"Authorization": "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request"}
PATIENCE = 60.0  # seconds until a wave of requests is taken for incomplete

Headers = dict[str, str]
Answer = tuple[int, Headers, bytes]  # status, headers, body
Backend = Callable[[str, str, Headers, bytes], Answer]  # of method, path, headers, body


@dataclass
class Request:
    method: str
    path: str
    status: int = 0
    sent: int = 0  # bytes of the body


@dataclass
class Fault:
    """Something that goes wrong with the next requests.

    error  the status, and no body         drop   the connection closes, without an answer
    cut    it closes within the body       short  half of the range, as an answer of its own
    whole  the range is ignored            unsized  the answer does not say its length
    lost   it is done, without an answer   late   likewise, and the connection stays open until
                                                  the client sends another request
    """

    kind: str
    times: float = 1
    method: str = "GET"
    status: int = 503


@dataclass
class Plan:
    """What a server does, and what it did.

    `waves` are numbers of requests for files: the first wave of requests is answered when all of
    it has arrived, then the second, and so on; later requests are answered at once. A client
    that sends fewer requests at the same time is never answered, and `server.waves` raises.
    """

    waves: tuple[int, ...] = ()
    arrived: int = 0
    incomplete: bool = False
    faults: list[Fault] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)


class Server(ThreadingHTTPServer):
    daemon_threads = False  # so that closing waits for them

    def __init__(self, backend: Backend) -> None:
        super().__init__((HOST, 0), _Handler)
        self.backend = backend
        self.lock = threading.Lock()
        self.arrival = threading.Condition()
        self.connections: set[socket.socket] = set()
        self.reset()

    @property
    def address(self) -> str:
        return f"{HOST}:{self.server_port}"

    def reset(self) -> None:
        self.plan = Plan()

    def inject(self, kind: str, times: float = 1, **options: Any) -> None:
        self.plan.faults.append(Fault(kind, times, **options))

    @property
    def requests(self) -> list[Request]:
        return self.plan.requests

    @property
    def bytes_sent(self) -> int:
        return sum(request.sent for request in self.requests)

    @contextmanager
    def waves(self, *sizes: int) -> Iterator[None]:
        """Answer requests for files in waves: see `Plan`."""
        self.plan.waves, self.plan.arrived = sizes, 0
        yield
        plan, self.plan.waves = self.plan, ()
        assert not plan.incomplete, f"{plan.arrived} requests, expected waves of {sizes}"

    def await_wave(self, plan: Plan) -> None:
        with self.arrival:
            plan.arrived += 1
            self.arrival.notify_all()
            ends = accumulate(plan.waves)
            end = next((end for end in ends if end >= plan.arrived), 0)
            if not self.arrival.wait_for(lambda: plan.arrived >= end, PATIENCE):
                plan.incomplete = True

    def await_another(self, plan: Plan, request: Request) -> None:
        """Wait until a request has arrived after this one."""
        with self.arrival:
            if not self.arrival.wait_for(lambda: plan.requests[-1] is not request, PATIENCE):
                plan.incomplete = True

    def next_fault(self, method: str) -> Fault | None:
        with self.lock:
            for fault in self.plan.faults:
                if fault.times > 0 and fault.method == method:
                    fault.times -= 1
                    return fault
        return None

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: clients hang up in the middle of answers."""

    @contextmanager
    def running(self) -> Iterator[Server]:
        thread = threading.Thread(target=self.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield self
        finally:
            self.shutdown()
            thread.join()
            with self.lock:
                idle = list(self.connections)
            for connection in idle:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def setup(self) -> None:
        super().setup()
        with self.server.lock:
            self.server.connections.add(self.connection)

    def finish(self) -> None:
        with self.server.lock:
            self.server.connections.discard(self.connection)
        super().finish()

    def log_message(self, format: str, *args: object) -> None:
        pass

    def answer(self) -> None:
        plan = self.server.plan
        request = Request(self.command, self.path)
        with self.server.arrival:
            plan.requests.append(request)
            self.server.arrival.notify_all()
        body = self.read_body()
        fault = self.server.next_fault(self.command)
        kind = fault.kind if fault else ""
        headers = dict(self.headers.items())
        if kind == "whole":
            headers = {name: value for name, value in headers.items() if name.lower() != "range"}
        if kind == "short":
            headers = {name: _half_range(name, value) for name, value in headers.items()}
        if kind in {"error", "drop"}:
            answer: Answer = (fault.status if fault else 0, {"Content-Length": "0"}, b"")
        else:
            answer = self.server.backend(self.command, self.path, headers, body)
        if self.path.endswith(".mosaic"):
            self.server.await_wave(plan)
        if kind == "late":
            self.server.await_another(plan, request)
        if kind in {"drop", "lost", "late"}:
            self.close_connection = True
            return
        request.status, answer_headers, data = answer
        if kind == "unsized":
            del answer_headers["Content-Length"]
            self.close_connection = True
        self.send_response_only(request.status)
        for name, value in answer_headers.items():
            self.send_header(name, value)
        self.end_headers()
        if kind == "cut":
            self.close_connection = True
            data = data[: len(data) // 2]
        request.sent = len(data)
        self.wfile.write(data)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer

    def read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        chunks = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return b"".join(chunks)


def _half_range(name: str, value: str) -> str:
    found = re.fullmatch(r"bytes=(\d+)-(\d+)", value)
    if name.lower() != "range" or found is None:
        return value
    first, last = map(int, found.groups())
    return f"bytes={first}-{(first + last) // 2}"


class FileStore:
    """Files by path, served as nginx does."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def __call__(self, method: str, path: str, headers: Headers, body: bytes) -> Answer:
        del body
        if path.endswith("/"):
            inside = [name[len(path) :] for name in self.files if name.startswith(path)]
            names = {re.sub("/.*", "/", name) for name in inside}  # a directory ends in a slash
            links = "".join(f'<a href="{path}{name}">{name}</a>\n' for name in sorted(names))
            status, data = (200, f"<html>{links}</html>".encode()) if names else (404, b"")
            answer_headers = {"Content-Type": "text/html"}
        elif path in self.files:
            status, data = 200, self.files[path]
            answer_headers = {"Content-Type": "application/octet-stream", "Accept-Ranges": "bytes"}
        else:
            status, data, answer_headers = 404, b"", {}
        wanted = {name.lower(): value for name, value in headers.items()}.get("range")
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", wanted or "")
        if status == 200 and found is not None:
            first, last = map(int, found.groups())
            if first >= len(data):
                return 416, {"Content-Range": f"bytes */{len(data)}", "Content-Length": "0"}, b""
            last = min(last, len(data) - 1)
            answer_headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
            status, data = 206, data[first : last + 1]
        answer_headers["Content-Length"] = str(len(data))
        return status, answer_headers, b"" if method == "HEAD" else data


class Proxy:
    """What another server on loopback answers."""

    def __init__(self, port: int) -> None:
        self.port = port

    def __call__(self, method: str, path: str, headers: Headers, body: bytes) -> Answer:
        kept = {
            name: value
            for name, value in headers.items()
            if name.lower() not in {"transfer-encoding", "expect", "connection", "content-length"}
        }
        kept["Content-Length"] = str(len(body))
        connection = http.client.HTTPConnection(HOST, self.port)
        try:
            connection.request(method, path, body, kept)
            response = connection.getresponse()
            data = response.read()
            answer_headers = {
                name.title(): value  # moto and its server may both give one
                for name, value in response.getheaders()
                if name.lower() not in {"transfer-encoding", "connection", "content-length"}
            }
            length = response.getheader("Content-Length") if method == "HEAD" else str(len(data))
            if length is not None:
                answer_headers["Content-Length"] = length
            return response.status, answer_headers, data
        finally:
            connection.close()


class FaultyStore:
    """moto, one request at a time, with a fault at a request and those after it. The bucket is empty.

    fault   "500", "503": an answer without an effect; "reset": neither; "lost": the effect, without
            an answer; "late": the effect, and an answer when the client has given up; "slow": both,
            after a while
    first   the number of the first request that fails
    times   how many requests fail
    every   the distance between two requests that fail
    """

    def __init__(self, port: int, bucket: str) -> None:
        self.moto = Proxy(port)
        self.bucket = bucket
        self.lock = threading.Lock()
        self.without_condition = False
        self.heal()
        self.moto("PUT", f"/{bucket}", SIGNED, b"")
        self.put_all({})  # moto still has the objects of earlier tests in this process

    def names(self) -> list[str]:
        """The names of the objects in the bucket; not those that stand for directories."""
        return [name for name in self._listed() if not name.endswith("/")]  # which pyarrow leaves

    def _listed(self) -> list[str]:
        _, _, body = self.moto("GET", f"/{self.bucket}?list-type=2", SIGNED, b"")
        return [unescape(name) for name in re.findall(r"<Key>(.*?)</Key>", body.decode())]

    def objects(self) -> dict[str, bytes]:
        """The objects in the bucket, by their names."""
        paths = {name: f"/{self.bucket}/{quote(name)}" for name in self.names()}
        return {name: self.moto("GET", path, SIGNED, b"")[2] for name, path in paths.items()}

    def put_all(self, content: dict[str, bytes]) -> None:
        """Make the bucket contain these objects, and no others."""
        for name in set(self._listed()).difference(content):
            self.moto("DELETE", f"/{self.bucket}/{quote(name)}", SIGNED, b"")
        for name, data in content.items():
            self.moto("PUT", f"/{self.bucket}/{quote(name)}", SIGNED, data)

    def heal(self) -> None:
        self.fail("", 0, 0)

    def fail(self, fault: str, first: int, times: float, every: int = 1) -> None:
        self.fault, self.first, self.times, self.every = fault, first, times, every
        self.count = self.failed = 0

    def _is_failing(self) -> bool:
        self.count += 1
        past = self.count - self.first
        is_failing = 0 <= past < self.times * self.every and past % self.every == 0
        self.failed += bool(self.fault) and is_failing
        return bool(self.fault) and is_failing

    def __call__(self, method: str, path: str, headers: Headers, body: bytes) -> Answer:
        if self.without_condition:
            headers = {n: value for n, value in headers.items() if n.lower() != "if-none-match"}
        with self.lock:
            is_failing = self._is_failing()
            if is_failing and self.fault in {"500", "503"}:
                return int(self.fault), {"Content-Length": "0"}, b""
            if is_failing and self.fault == "reset":
                raise ConnectionError  # the server closes the connection
            answer = self.moto(method, path, headers, body)
        if is_failing and self.fault in {"late", "slow"}:
            time.sleep(LATE if self.fault == "late" else SLOW)
        if is_failing and self.fault != "slow":
            raise ConnectionError
        return answer


@contextmanager
def s3_api() -> Iterator[int]:
    """The port of an S3 API. It keeps its objects in memory, as long as the process lives."""
    from moto.moto_server.werkzeug_app import (
        DomainDispatcherApplication,
        MotoRequestHandler,
        create_backend_app,
    )
    from werkzeug.serving import make_server

    class Quiet(MotoRequestHandler):  # type: ignore[misc]
        def log_request(self, *args: object) -> None:
            pass

    application = DomainDispatcherApplication(create_backend_app)
    server = make_server(HOST, 0, application, threaded=True, request_handler=Quiet)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def s3_uris(secret: str) -> Iterator[Callable[[str], str]]:
    """A function that returns the URI of a path in an S3 API, with credentials."""
    from pyarrow import fs

    with s3_api() as port:
        endpoint = f"{HOST}:{port}"
        made = fs.S3FileSystem(
            access_key="AKIA",
            secret_key=secret,
            endpoint_override=endpoint,
            scheme="http",
            region="us-east-1",
            allow_bucket_creation=True,
        )
        made.create_dir("bucket")
        # Servers of one process share their objects: those of another test may still be there.
        made.delete_dir_contents("bucket")
        yield (
            lambda path: (
                f"s3://AKIA:{secret}@bucket/{path}"
                f"?scheme=http&endpoint_override={quote(endpoint)}&region=us-east-1"
            )
        )


@contextmanager
def no_settings() -> Iterator[pytest.MonkeyPatch]:
    """Nothing of the machine's own settings for S3, and no look for them at an address elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ:
            if name.startswith("AWS_"):
                patch.delenv(name)
        patch.setenv("AWS_CONFIG_FILE", os.devnull)
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield patch

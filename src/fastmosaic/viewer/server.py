"""The HTTP server: security headers, JSON end points and the files of the page.

A client needs the token in the URL, sends GET only, and names the server as the user does: a page of
another site that makes a browser resolve its own name to this address is refused. Sources are numbers,
so no path of a client ever reaches the file system.
"""

from __future__ import annotations

import ipaddress
import json
import mimetypes
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from contextlib import suppress
from importlib import resources
from typing import Any, Final

import anyio.to_thread
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..errors import MosaicError
from ..version import __version__
from .cells import MAX_CELLS, MAX_COPIED
from .errors import RequestError, error_to_dict
from .profile import profile_of
from .sizes import areas_of_buckets, areas_of_prefix
from .tables import ViewedPaths, ViewedTable

MAX_ITEMS: Final = 1000  # columns of one answer
LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


class Guard:
    """Refuses requests without the token, with another host, or that are not GET."""

    def __init__(self, app: ASGIApp, token: str, is_host: Callable[[str], bool]) -> None:
        self._app = app
        self._token = token
        self._is_host = is_host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return

        async def secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
                message["headers"] = [*message["headers"], *own]
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, secured)
            return
        inside = scope["path"].removeprefix(f"/{self._token}")
        await self._app({**scope, "path": inside, "root_path": ""}, receive, secured)

    def _refusal(self, scope: Scope) -> Response | None:
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1 or not self._is_host(hosts[0].decode("latin-1")):
            return Response("unknown host\n", 421)
        first, slash, _ = scope["path"].removeprefix("/").partition("/")
        if not secrets.compare_digest(first.encode(), self._token.encode()) or not slash:
            return Response("not found: use the URL that `fastmosaic view` has printed\n", 404)
        if scope["method"] not in ("GET", "HEAD"):
            return Response("only GET is supported\n", 405, {"allow": "GET, HEAD"})
        return None


def host_check(host: str, port: int) -> Callable[[str], bool]:
    """Return what tells whether a `Host` header means the server.

    Where the server is bound to another address than loopback, addresses are accepted, too: a
    foreign name is never among them.
    """
    known = {f"{name}:{port}" for name in (*LOOPBACK, _in_url(host))}
    if port == 80:
        known |= {*LOOPBACK, _in_url(host)}

    def is_known(header: str) -> bool:
        return header.lower() in known or (not is_loopback(host) and _is_address(header, port))

    return is_known


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a server that is bound to `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _is_address(header: str, port: int) -> bool:
    name, colon, given = header.rpartition(":")
    if not colon or given != str(port):
        return False
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


# ---- parameters


def _number(request: Request, name: str, default: int | None = None) -> int:
    text = request.query_params.get(name, "" if default is None else str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise RequestError(f"parameter {name!r} must be a number, not {text[:50]!r}")
    return int(text)


def _span(request: Request, name: str) -> tuple[int, int]:
    """Return the first and the last but one of a range such as 0-39."""
    first, _, last = request.query_params.get(name, "").partition("-")
    if not all(one.isascii() and one.isdigit() and len(one) < 19 for one in (first, last)):
        raise RequestError(f"parameter {name!r} must be a range such as 0-39")
    return int(first), int(last) + 1


def _page(request: Request) -> tuple[int, int]:
    start = _number(request, "from", 0)
    return start, min(_number(request, "to", start + 100), start + MAX_ITEMS)


def _json(content: Any, status: int = 200) -> Response:
    return Response(json.dumps(content), status, media_type="application/json")


def _failed(error: Exception) -> Response:
    if isinstance(error, RequestError):
        status = 400
    else:
        is_known = isinstance(error, MosaicError | ValueError | OSError | NotImplementedError)
        status = 422 if is_known else 500
    return _json({"error": error_to_dict(error)}, status)


# ---- end points


class Endpoints:
    """What the page asks for. Blocking work runs in threads."""

    def __init__(self, paths: ViewedPaths) -> None:
        self._paths = paths

    def routes(self) -> list[Route]:
        return [
            Route("/api/meta", self._answer(self.meta)),
            Route("/api/versions", self._answer(self.versions)),
            Route("/api/columns", self._answer(self.columns)),
            Route("/api/tree", self._answer(self.tree)),
            Route("/api/cells", self._answer(self.cells)),
            Route("/api/tsv", self._answer(self.tsv)),
            Route("/api/cell", self._answer(self.cell)),
            Route("/api/sizes", self._answer(self.sizes)),
            Route("/api/filter", self._stream(self.filter)),
            Route("/api/column/{id:int}", self._stream(self.column)),
        ]

    def _answer(self, answer: Callable[[Request], Any]) -> Callable[[Request], Response]:
        def endpoint(request: Request) -> Response:
            try:
                return _json(answer(request))
            except Exception as error:  # noqa: BLE001  # the server goes on, whatever a file contains
                return _failed(error)

        return endpoint

    def _stream(self, lines: Callable[[Request], Generator[Any]]) -> Callable[[Request], Any]:
        async def endpoint(request: Request) -> Response:
            return StreamingResponse(_lines(lines(request)), media_type="application/x-ndjson")

        return endpoint

    def _table(self, request: Request) -> ViewedTable:
        version = _number(request, "version", 0)
        return self._paths[_number(request, "source", 0)].at(version or None)

    def meta(self, request: Request) -> dict[str, Any]:
        sources = [{"name": path.name} for path in self._paths.paths]
        found: dict[str, Any] = {"fastmosaic": __version__, "sources": sources}
        try:
            found["table"] = self._table(request).to_dict()
        except Exception as error:  # noqa: BLE001  # other sources may be fine
            found["error"] = error_to_dict(error)
        return found

    def versions(self, request: Request) -> list[dict[str, Any]]:
        return self._paths[_number(request, "source", 0)].versions()

    def columns(self, request: Request) -> dict[str, Any]:
        columns = self._table(request).columns
        given = request.query_params
        selection = given.get("select", "")
        found = columns.found(
            given.get("q", ""),
            given.get("mode", "substring"),
            given.get("sort", "position"),
            given.get("descending") == "1",
        )
        start, stop = _page(request)
        return {
            "total": len(found),
            "shown": len(columns.selected(selection)),
            "from": start,
            "items": columns.entries(found[start:stop], selection),
        }

    def tree(self, request: Request) -> dict[str, Any]:
        given = request.query_params
        columns = self._table(request).columns
        return columns.tree(given.get("prefix", ""), *_page(request), given.get("select", ""))

    def cells(self, request: Request) -> dict[str, Any]:
        table, positions, start, stop, where = self._window(request, MAX_CELLS)
        numbers, cells = table.cells.read(positions, start, stop, where)
        return {
            "columns": list(map(table.columns.entry, positions)),
            "rows": numbers,
            "cells": cells,
        }

    def tsv(self, request: Request) -> dict[str, Any]:
        table, positions, start, stop, where = self._window(request, MAX_COPIED)
        return {"text": table.cells.to_tsv(positions, start, stop, where)}

    def _window(
        self, request: Request, limit: int
    ) -> tuple[ViewedTable, Sequence[int], int, int, str]:
        """Return a table, and the columns, the rows and the condition of a request for cells."""
        table = self._table(request)
        shown = table.columns.selected(request.query_params.get("select", ""))
        first, last = _span(request, "columns")
        start, stop = _span(request, "rows")
        positions = shown[first:last]
        if (stop - start) * len(positions) > limit:
            raise RequestError(f"a request may ask for {limit:,} cells at most")
        return table, positions, start, stop, request.query_params.get("where", "").strip()

    def cell(self, request: Request) -> dict[str, Any]:
        table = self._table(request)
        position, row = _number(request, "column"), _number(request, "row")
        table.columns.name(position)
        if row >= table.num_rows:
            raise RequestError(f"row {row} does not exist: there are {table.num_rows} rows")
        return {**table.columns.entry(position), "row": row, **table.cells.whole(position, row)}

    def sizes(self, request: Request) -> dict[str, Any]:
        table = self._table(request)
        at = request.query_params.get("at", "")
        if request.query_params.get("by") == "bucket":
            return areas_of_buckets(table.input, table.columns, table.sizes, at)
        return areas_of_prefix(table.columns, table.sizes, at)

    def filter(self, request: Request) -> Generator[dict[str, Any]]:
        table = self._table(request)
        for share, matches in table.find_matches(request.query_params.get("where", "").strip()):
            yield {
                "progress": share,
                "found": matches.found,
                "shown": matches.kept,
                "done": matches.is_complete,
            }

    def column(self, request: Request) -> Generator[dict[str, Any]]:
        where = request.query_params.get("where", "").strip()
        yield from profile_of(self._table(request), request.path_params["id"], where)


async def _lines(steps: Generator[Any]) -> AsyncIterator[bytes]:
    """Send each step as a line of JSON. When the client leaves, no further step is begun."""
    try:
        while True:
            try:
                step = await anyio.to_thread.run_sync(next, steps, None)
            except Exception as error:  # noqa: BLE001  # as above
                step = {"error": error_to_dict(error)}
                yield json.dumps(step).encode() + b"\n"
                return
            if step is None:
                return
            yield json.dumps(step).encode() + b"\n"
    finally:
        # If the server was told to stop, another thread may still be at a step.
        with suppress(ValueError):
            steps.close()


# ---- the files of the page


def _static_files() -> dict[str, tuple[bytes, str]]:
    """Return content and type of all files of the page, by path."""
    found: dict[str, tuple[bytes, str]] = {}

    def add(folder: Any, path: str) -> None:
        for one in folder.iterdir():
            if one.is_dir():
                add(one, f"{path}{one.name}/")
            else:
                kind = mimetypes.guess_type(one.name)[0] or "text/plain"
                found[f"{path}{one.name}"] = one.read_bytes(), kind

    add(resources.files(__package__) / "static", "/")
    found["/"] = found["/index.html"]
    return found


def make_app(paths: ViewedPaths, token: str, is_host: Callable[[str], bool]) -> ASGIApp:
    """Return the application that serves `paths`."""
    files = _static_files()

    async def static(request: Request) -> Response:
        if request.url.path not in files:
            return Response("not found\n", 404)
        content, kind = files[request.url.path]
        return Response(content, media_type=kind)

    routes = [*Endpoints(paths).routes(), Route("/{path:path}", static)]
    return Guard(Starlette(routes=routes), token, is_host)


class _Server(uvicorn.Server):
    """A server that tells its work to end when it begins to stop, instead of waiting for it."""

    def __init__(self, config: uvicorn.Config, paths: ViewedPaths) -> None:
        super().__init__(config)
        self._paths = paths

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._paths.stop()
        await super().shutdown(sockets)


class ViewerServer:
    """A server that is bound to an address, and shows `paths` to those who know its URL."""

    def __init__(self, paths: ViewedPaths, host: str = "127.0.0.1", port: int = 0) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((host, port))
            self._socket.listen(128)  # a browser may connect before `run` is called
        except BaseException:
            self._socket.close()
            raise
        self.port = int(self._socket.getsockname()[1])
        token = secrets.token_urlsafe(24)
        self.url = f"http://{_in_url(host)}:{self.port}/{token}/"
        self._server = _Server(
            uvicorn.Config(
                make_app(paths, token, host_check(host, self.port)),
                log_level="critical",
                access_log=False,
                lifespan="off",
                server_header=False,
                timeout_graceful_shutdown=1,
            ),
            paths,
        )

    def run(self) -> None:
        """Serve until the process is interrupted, or `stop` is called in another thread."""
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._socket.close()

    def stop(self) -> None:
        """End `run`."""
        self._server.should_exit = True

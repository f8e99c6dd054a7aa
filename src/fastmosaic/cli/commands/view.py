"""view: look at files in a browser."""

from __future__ import annotations

import argparse
import json
import sys
import threading
import webbrowser
from typing import Final

from ..arguments import Commands, add_at, add_command, add_json, add_memory_limit, add_paths, whole
from ..exit import OK, complain

_EXAMPLES: Final = (
    "view sales.mosaic",
    "view --no-browser data/ s3://bucket/table/",
)


def add(commands: Commands) -> None:
    """Register the `view` command."""
    parser = add_command(
        commands,
        "view",
        "look at files in a browser",
        "Show files in a browser: columns, cells, statistics of columns, filters, and where the "
        "bytes are. Each PATH is a file, a directory or a table; Mosaic, Parquet, Arrow, ORC and "
        "CSV are supported. Only what is on screen is read. Press Ctrl-C to stop.",
        _EXAMPLES,
        "Requires the packages of fastmosaic[view]. The server accepts connections from this "
        "machine only, and only with the secret token in the URL.",
    )
    add_paths(parser)
    add_at(parser)
    add_memory_limit(parser)
    add_json(parser)
    parser.add_argument("--no-browser", action="store_true", help="print the URL only")
    parser.add_argument(
        "--port", type=whole, default=0, metavar="N", help="port (default: any free port)"
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="address to listen on (default: 127.0.0.1, which only this machine can reach)",
    )
    parser.set_defaults(run=_view)


def _view(arguments: argparse.Namespace) -> int:
    try:
        from ...viewer.server import ViewerServer, is_loopback
    except ModuleNotFoundError as error:
        raise ValueError(
            f"the viewer requires the package {error.name!r}; run: pip install 'fastmosaic[view]'"
        ) from error
    from ...viewer.tables import ViewedPaths

    paths = ViewedPaths(arguments.paths, follow_links=arguments.follow_links, version=arguments.at)
    for path in paths.paths:
        path.check()
    server = ViewerServer(paths, arguments.host, arguments.port)
    if not is_loopback(arguments.host):
        complain(
            f"warning: listening on {arguments.host}: everyone who can reach this machine and knows "
            "the URL can read these files, and the connection is not encrypted"
        )
    print(json.dumps({"url": server.url}) if arguments.json else server.url)
    print("Press Ctrl-C to stop.", file=sys.stderr)
    sys.stdout.flush()
    # While the browser starts; a file on slow storage must not keep the process from stopping.
    threading.Thread(target=paths.prepare, daemon=True).start()
    if not arguments.no_browser:
        webbrowser.open(server.url)
    try:
        server.run()
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
    return OK

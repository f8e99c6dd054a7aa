"""A viewer's server in a thread of the test, and a client of it."""

import http.client
import json
import threading
from contextlib import contextmanager
from urllib.parse import urlencode, urlsplit

from fastmosaic.viewer.server import ViewerServer
from fastmosaic.viewer.tables import ViewedPaths


class Client:
    """Sends requests to a server and decodes what it answers."""

    def __init__(self, url):
        self.url = url
        parts = urlsplit(url)
        self.host, self.port, self.base = parts.hostname, parts.port, parts.path

    def request(self, path, *, method="GET", headers=None, base=None):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        try:
            target = (self.base if base is None else base) + path
            connection.request(method, target, headers=headers or {})
            response = connection.getresponse()
            return response, response.read()
        finally:
            connection.close()

    def get(self, path, *, status=200, **parameters):
        response, body = self.request(f"api/{path}?{urlencode(parameters)}")
        assert response.status == status, body
        return json.loads(body)

    def lines(self, path, **parameters):
        response, body = self.request(f"api/{path}?{urlencode(parameters)}")
        assert response.status == 200
        return [json.loads(line) for line in body.splitlines()]


@contextmanager
def serving(*paths, **options):
    """Serve paths while the block runs; yield a client."""
    server = ViewerServer(ViewedPaths(list(map(str, paths)), **options))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield Client(server.url)
    finally:
        server.stop()
        thread.join()

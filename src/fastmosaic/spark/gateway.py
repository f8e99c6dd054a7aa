"""A second py4j gateway to Spark's JVM, for the Python objects that Spark's planner calls.

PySpark's own gateway opens a callback connection for each JVM thread that calls into Python, and each
connection keeps a Python thread until the process ends. Spark plans and runs queries on threads that
come and go, so every query would leave threads behind. A plain py4j gateway takes its callback
connections from a pool: there are as many as calls at the same time, and idle ones are closed.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from py4j.java_gateway import (
    CallbackServerParameters,
    GatewayClient,
    GatewayParameters,
    JavaClass,
    JavaGateway,
    JavaObject,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["CallbackGateway"]

ADDRESS: Final = "127.0.0.1"
KEEP_SECONDS: Final = 30.0

_lock = threading.Lock()
_made: dict[int, CallbackGateway] = {}  # by the id of PySpark's gateway, which lives as long


class _Client(GatewayClient):
    """Keeps objects of the JVM for a while after Python has dropped them.

    A Python method that the JVM has called returns an object by its number. Python may drop the object
    before the JVM has looked the number up.
    """

    def __init__(self, parameters: GatewayParameters) -> None:
        super().__init__(gateway_parameters=parameters)
        self._dropped: deque[tuple[float, str]] = deque()

    def garbage_collect_object(self, target_id: str) -> None:
        now = time.monotonic()
        self._dropped.append((now, target_id))
        try:
            while self._dropped[0][0] < now - KEEP_SECONDS:
                super().garbage_collect_object(self._dropped.popleft()[1])
        except IndexError:
            pass  # another thread has removed the last one


class CallbackGateway:
    """The second gateway. An object of one gateway must be handed over to be used with the other."""

    def __init__(self, pyspark: Any) -> None:
        """`pyspark` is the gateway of a SparkContext."""
        token = secrets.token_hex(32)
        client = pyspark._gateway_client
        address = JavaClass("java.net.InetAddress", client).getByName(ADDRESS)
        builder = JavaClass("py4j.GatewayServer$GatewayServerBuilder", client)()
        server = builder.javaPort(0).javaAddress(address).authToken(token)
        server = server.callbackClient(0, address, token).build()
        server.start(True)
        parameters = GatewayParameters(
            address=ADDRESS, port=server.getListeningPort(), auth_token=token
        )
        self.gateway: Any = JavaGateway(
            gateway_client=_Client(parameters),
            gateway_parameters=parameters,
            callback_server_parameters=CallbackServerParameters(
                address=ADDRESS,
                port=0,
                auth_token=token,
                daemonize=True,
                daemonize_connections=True,
                propagate_java_exceptions=True,  # for exceptions that Spark knows
            ),
        )
        port = self.gateway.get_callback_server().get_listening_port()
        server.resetCallbackClient(address, port)
        self._pyspark = pyspark
        self._objects = server.getGateway()

    @classmethod
    def of(cls, spark: SparkSession) -> CallbackGateway:
        """Return the gateway to the JVM of a session; it is started once."""
        pyspark = spark.sparkContext._gateway
        with _lock:
            found = _made.get(id(pyspark))
            if found is None:
                found = _made[id(pyspark)] = cls(pyspark)
            return found

    def java_class(self, name: str) -> Any:
        # Attributes of py4j's view would need one call for each package of the name.
        return JavaClass(name, self.gateway._gateway_client)

    def adopt(self, java_object: Any) -> Any:
        """Return an object of PySpark's gateway as one of this gateway."""
        return JavaObject(self._objects.putNewObject(java_object), self.gateway._gateway_client)

    def release(self, java_object: Any) -> Any:
        """Return an object of this gateway as one of PySpark's gateway."""
        return self._objects.getObject(java_object._target_id)

"""A Spark cluster on loopback: a master, two workers and a driver, each a process of its own.

Cluster  starts and stops them, and turns a worker's host off
Driver   runs functions of test modules, one after another

Processes that belong to a cluster are known by a variable of their environment, which all that
they start inherit. They die with the process that started the cluster, however that ends.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import signal
import subprocess
import sys
import traceback
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Any, TypeVar

from spark_faults import wait_for
from spark_jvm import CONF, OPTIONS, PATH

MASTER = "127.0.0.1"
HOSTS = ("127.0.0.2", "127.0.0.3")  # Spark has speculative tasks run on another host

_OF_CLUSTER = "FASTMOSAIC_TEST_CLUSTER"
_OF_HOST = "SPARK_LOCAL_IP"
# Lets the process be killed when the one that started it ends, and becomes the program.
_LAUNCH = """
import ctypes, os, signal, sys
PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
os.execv(sys.argv[1], sys.argv[1:])
"""
# In Linux's tables of connections, and in addresses of IPv6.
_LISTENS = "0A"
_MAPPED = bytes(10) + b"\xff\xff"
_CONF = {
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.locality.wait": "0s",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
}

Value = TypeVar("Value")


class Cluster:
    def __init__(self, directory: Path) -> None:
        self.address = ""
        self._directory = directory
        self._running: list[subprocess.Popen[bytes]] = []
        self._workers: dict[str, subprocess.Popen[bytes]] = {}
        self._driver: Driver | None = None

    @classmethod
    @contextmanager
    def running(cls, directory: Path) -> Iterator[Cluster]:
        cluster = cls(directory)
        try:
            cluster._start()
            yield cluster
        finally:
            cluster._stop()

    def driver(self, **conf: str) -> Driver:
        """The driver that runs already, if it has these settings, or a new one in its place.

        Each takes all of the cluster.
        """
        if self._driver is None or self._driver.conf != conf or not self._driver.is_alive():
            if self._driver is not None:
                self._driver.stop()
            self._driver = Driver(self, conf)
        return self._driver

    def pids(self, host: str | None = None) -> list[int]:
        """The processes of the cluster; those of a host, its worker first."""
        wanted = {f"{_OF_CLUSTER}={self._directory}"}
        if host is not None:
            wanted.add(f"{_OF_HOST}={host}")
        found = (int(name) for name in os.listdir("/proc") if name.isdigit())
        return sorted(pid for pid in found if wanted <= _environment(pid))

    def host_of(self, pid: int) -> str:
        return next(host for host in HOSTS if pid in self.pids(host))

    def turn_off(self, host: str) -> None:
        """Kill the worker of a host, then its executor and what that has started."""
        worker = self._workers.pop(host)
        worker.kill()
        worker.wait()
        _kill_all(lambda: self.pids(host))

    def turn_on(self, host: str) -> None:
        """Start the worker of a host; it takes a while until it gets work."""
        name = f"worker-{host}-{len(self._running)}"
        arguments = ["--host", host, "--cores", "1", "--memory", "1g", "--webui-port", "0"]
        arguments += ["--work-dir", str(self._directory / name), self.address]
        command = _spark_class("worker.Worker", arguments)
        self._workers[host], _ = self.start_process(command, name, host)

    def start_process(
        self, command: list[str], name: str, host: str, **options: Any
    ) -> tuple[subprocess.Popen[bytes], Path]:
        """A process of the cluster, and the file that has its output."""
        log = self._directory / f"{name}.log"
        with open(log, "wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-c", _LAUNCH, *command],
                env=self._environment(host),
                cwd=self._directory,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                **options,
            )
        self._running.append(process)
        return process, log

    def _start(self) -> None:
        arguments = ["--host", MASTER, "--port", "0", "--webui-port", "0"]
        process, log = self.start_process(
            _spark_class("master.Master", arguments), "master", MASTER
        )

        def find() -> re.Match[str] | None:
            if process.poll() is not None:
                raise RuntimeError(f"the master ended:\n{log.read_text()}")
            return re.search(r"Starting Spark master at (spark://\S+)", log.read_text())

        self.address = wait_for("the master", find)[1]
        for host in HOSTS:
            self.turn_on(host)

    def _stop(self) -> None:
        if self._driver is not None:
            self._driver.stop()
        for process in self._running:
            process.kill()
            process.wait()
        _kill_all(self.pids)

    def _environment(self, host: str) -> dict[str, str]:
        import pyspark

        tests = Path(__file__).parent
        scratch = self._directory / "scratch"
        scratch.mkdir(exist_ok=True)
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("SPARK_", "PYSPARK_", "PYTEST_"))
        }
        return {
            **kept,
            _OF_CLUSTER: str(self._directory),
            _OF_HOST: host,
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            "SPARK_LOCAL_DIRS": str(scratch),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
            "JAVA_TOOL_OPTIONS": f"{OPTIONS} -Djava.io.tmpdir={scratch}",
            "TMPDIR": str(scratch),
            # The root is for the modules of tests, whose names begin with `tests`.
            "PYTHONPATH": os.pathsep.join((PATH, str(tests.parent))),
        }


def _spark_class(name: str, arguments: list[str]) -> list[str]:
    import pyspark

    script = Path(pyspark.__file__).parent / "bin" / "spark-class"
    return ["/bin/bash", str(script), f"org.apache.spark.deploy.{name}", *arguments]


def _environment(pid: int) -> set[str]:
    try:
        return set(Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0"))
    except OSError:  # it has ended, or is another user's
        return set()


def _kill_all(pids: Callable[[], list[int]]) -> None:
    def kill() -> bool:
        left = pids()
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not left

    wait_for("processes to end", kill)


def open_files(pid: int) -> list[str]:
    """The files that a process has open."""
    paths = []
    with suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                paths.append(os.readlink(f"/proc/{pid}/fd/{name}"))
    return paths


def listening(pids: list[int]) -> list[IPv4Address | IPv6Address]:
    """The addresses at which processes wait for connections."""
    own = {file for pid in pids for file in open_files(pid) if file.startswith("socket:")}
    addresses: list[IPv4Address | IPv6Address] = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == _LISTENS and f"socket:[{inode}]" in own:
                words = re.findall("." * 8, local.partition(":")[0])
                packed = b"".join(bytes.fromhex(word)[::-1] for word in words)
                mapped = packed.removeprefix(_MAPPED)  # an address of IPv4
                addresses.append(ip_address(mapped))
    return addresses


# ---- the driver


class Driver:
    """A process with a Spark session, which takes jobs by its standard input."""

    def __init__(self, cluster: Cluster, conf: dict[str, str]) -> None:
        self.conf = conf
        self._directory = cluster._directory / f"driver-{uuid.uuid4().hex[:8]}"
        self._directory.mkdir()
        command = [sys.executable, "-m", "spark_cluster", cluster.address]
        command += [str(self._directory), json.dumps(conf)]
        self._process, self._log = cluster.start_process(
            command, self._directory.name, MASTER, stdin=subprocess.PIPE
        )
        self._started = 0

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def start(self, job: Callable[..., Any], *arguments: Any) -> None:
        """Let it call `job`, a function of a module, with its session; arguments are as in JSON."""
        line = json.dumps([job.__module__, job.__name__, arguments])
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()
        self._started += 1

    def result(self) -> Any:
        """What the job returned that was started last."""
        return self.wait_for("the driver", self._outcome)["result"]

    def wait_for(self, what: str, condition: Callable[[], Value]) -> Value:
        """As the function; but the job may not fail meanwhile."""

        def look() -> Value:
            if not self.is_alive():
                raise RuntimeError(f"the driver ended:\n{self._log.read_text()}")
            outcome = self._outcome()
            if outcome is not None and "error" in outcome:
                raise RuntimeError(outcome["error"])
            return condition()

        return wait_for(what, look)

    def _outcome(self) -> Any:
        path = self._directory / f"{self._started}.json"
        return json.loads(path.read_text()) if path.exists() else None

    def run(self, job: Callable[..., Any], *arguments: Any) -> Any:
        self.start(job, *arguments)
        return self.result()

    def kill(self) -> None:
        """End both of its processes, Python and the JVM, at once."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._close()

    def stop(self) -> None:
        if self.is_alive():
            self._process.kill()  # the JVM ends as its input does, and tells the master
        self._close()

    def _close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def _serve(address: str, directory: str, conf: dict[str, str]) -> None:
    from fastmosaic.spark import session

    spark = session("tests", address, **{**CONF, **_CONF, **conf})
    for number, line in enumerate(sys.stdin, 1):
        module, name, arguments = json.loads(line)
        try:
            result = getattr(importlib.import_module(module), name)(spark, *arguments)
            outcome = {"result": result}
        except Exception:  # noqa: BLE001 - it is raised in the test
            outcome = {"error": traceback.format_exc()}
        aside = Path(directory, f".{number}")
        aside.write_text(json.dumps(outcome))
        aside.rename(Path(directory, f"{number}.json"))


if __name__ == "__main__":
    _serve(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))

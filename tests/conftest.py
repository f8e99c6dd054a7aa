"""Hypothesis profiles, and the fixture that notices what Cython only prints."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import HealthCheck, settings

pytest_plugins = ["browser"]

# `browser`, `reference` and `strategies` are imported by name, whatever the import mode of pytest.
sys.path.insert(0, str(Path(__file__).parent))

# Tables are drawn from scratch for each example: slow on a busy machine, but not a mistake.
UNHURRIED = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}
settings.register_profile("dev", max_examples=25, **UNHURRIED)
settings.register_profile("ci", max_examples=100, derandomize=True, **UNHURRIED)
settings.register_profile("nightly", max_examples=1000, **UNHURRIED)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


@pytest.fixture(autouse=True)
def nothing_was_ignored() -> Iterator[None]:
    """Fail a test in which an exception could not be raised and was only printed.

    That is what happens to an error in a Cython function without an error return, in a callback
    from C and in `__del__`: "Exception ignored in ...", on stderr, and the test passes.
    """
    ignored: list[str] = []

    def remember(unraisable: "sys.UnraisableHookArgs") -> None:
        # As text: keeping the arguments themselves would keep dying objects alive.
        ignored.append(f"{unraisable.err_msg} {unraisable.object!r}: {unraisable.exc_value!r}")

    before = sys.unraisablehook
    sys.unraisablehook = remember
    yield
    sys.unraisablehook = before
    assert not ignored


@pytest.fixture
def memory() -> Iterator[MemoryFileSystem]:
    """The filesystem of fsspec that lives in the process, empty: without files and directories."""
    filesystem = fsspec.filesystem("memory")

    def clear() -> None:
        filesystem.store.clear()
        filesystem.pseudo_dirs[:] = [""]

    clear()
    yield filesystem
    clear()

"""Fingerprints of functions: whether a function is the one that an earlier run of a job has used."""

from __future__ import annotations

import hashlib
import pickletools
import sys
from collections.abc import Callable, Iterator
from typing import Any


def fingerprint(function: Callable[..., Any]) -> str:
    """Return a text that is another one if the code of a function has changed, or a value it uses.

    Spark pickles a function of the main program or of a notebook with its code, and one of a module by
    name. The source of such a module, and of all others that are named, is part of the fingerprint.
    """
    from pyspark import cloudpickle

    pickled: Any = cloudpickle
    data: bytes = pickled.dumps(function)
    digest = hashlib.sha256(data)
    for name in sorted(set(_modules_in(data))):
        path = getattr(sys.modules[name], "__file__", None)
        if path is not None and path.endswith(".py"):
            with open(path, "rb") as file:
                digest.update(file.read())
    return digest.hexdigest()


def _modules_in(data: bytes) -> Iterator[str]:
    """Yield the names of modules that a pickle refers to."""
    for _, argument, _ in pickletools.genops(data):
        if isinstance(argument, str) and argument in sys.modules:
            yield argument

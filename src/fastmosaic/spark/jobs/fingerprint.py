"""Fingerprints of functions: whether a function is the one that an earlier run of a job has used."""

from __future__ import annotations

import functools
import hashlib
import pickletools
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

# Not tuples: whether two equal ones are the same depends on where Python has read the code from.
_MAY_CONTAIN_THEMSELVES: Final = (FunctionType, ModuleType, list, dict, set)


def fingerprint(function: Callable[..., Any]) -> str:
    """Return a text that is another one if the code of a function has changed, or a value it uses.

    The source of the modules that it names is part of it, but not of those that these import. It is the same
    in all processes; only values that Python pickles in a random order, such as an object with a set, may
    make a difference.
    """
    walk = _Walk()
    walk.add(function)
    return walk.digest.hexdigest()


class _Walk:
    """Walks through a function and what it refers to."""

    def __init__(self, known: dict[int, Any] | None = None) -> None:
        self.digest = hashlib.sha256()
        self._known = {} if known is None else known  # values that were met, which stay alive

    def add(self, value: Any) -> None:
        if isinstance(value, str | bytes | int | float | complex | None):
            self._put(value)
            return
        if isinstance(value, _MAY_CONTAIN_THEMSELVES):
            if id(value) in self._known:
                self._put("again")
                return
            self._known[id(value)] = value
        self._put(type(value).__qualname__)
        match value:
            case FunctionType():
                self._add_function(value)
            case CodeType():
                self._add_code(value)
            case ModuleType():
                self._add_module(value)
            case functools.partial():
                self._add_all(value.func, value.args, value.keywords)
            case list() | tuple():
                self._add_all(*value)
            case dict():
                self._add_all(*(one for pair in value.items() for one in pair))
            case set() | frozenset():
                self._put(sorted(map(self._alone, value)))
            case _:
                self._add_pickled(value)

    def _add_all(self, *values: Any) -> None:
        self._put(len(values))
        for one in values:
            self.add(one)

    def _put(self, value: Any) -> None:
        self.digest.update(f"{value!r}\n".encode())

    def _alone(self, value: Any) -> str:
        walk = _Walk(dict(self._known))
        walk.add(value)
        return walk.digest.hexdigest()

    def _add_function(self, function: FunctionType) -> None:
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        names = sorted(set(_names_in(function.__code__)) & function.__globals__.keys())
        self._add_all(function.__code__, function.__defaults__, function.__kwdefaults__, *cells)
        self._add_all(*names, *(function.__globals__[name] for name in names))
        module = sys.modules.get(function.__module__)
        if module is not None and function.__module__ != "__main__":
            self.add(module)

    def _add_code(self, code: CodeType) -> None:
        self._add_all(code.co_code, code.co_consts, code.co_names, code.co_varnames)
        self._add_all(code.co_freevars, code.co_argcount, code.co_kwonlyargcount, code.co_flags)

    def _add_module(self, module: ModuleType) -> None:
        path = getattr(module, "__file__", None)
        self._put(module.__name__)
        if path is not None and path.endswith(".py"):
            with open(path, "rb") as file:
                self._put(hashlib.sha256(file.read()).hexdigest())

    def _add_pickled(self, value: Any) -> None:
        """Add any other object as Spark sends it, and the modules that its classes are from."""
        from pyspark import cloudpickle

        pickled: Any = cloudpickle
        data: bytes = pickled.dumps(value)
        self._put(data)
        for name in sorted(set(_modules_in(data))):
            self.add(sys.modules[name])


def _names_in(code: CodeType) -> Iterator[str]:
    """Yield the names that code, and functions inside it, may look up as global ones."""
    yield from code.co_names
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _names_in(one)


def _modules_in(data: bytes) -> Iterator[str]:
    """Yield the names of modules that a pickle refers to."""
    for _, argument, _ in pickletools.genops(data):
        if isinstance(argument, str) and argument in sys.modules:
            yield argument

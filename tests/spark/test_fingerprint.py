"""Whether a function is the one that an earlier run has used: the same text, in any process."""

import functools
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fastmosaic.spark.jobs.fingerprint import fingerprint

SOURCE = Path(__file__).parents[2] / "src"
PROGRAM = """
import pyarrow.compute as pc
from fastmosaic.spark.jobs.fingerprint import fingerprint
names = frozenset({"a", "b", "c", "d"})
offset = 7

def helper(batch):
    return pc.add(batch["a"], offset) if offset in {"x", "y", 7, "z"} else None

print(fingerprint(lambda batch: {name: helper(batch) for name in sorted(names)}))
"""


def adding(value):
    return lambda batch: {"x": [value + i for i in batch]}


def test_values_and_code_count():
    assert fingerprint(adding(1)) == fingerprint(adding(1))
    assert fingerprint(adding(1)) != fingerprint(adding(2))
    assert fingerprint(lambda batch: batch) != fingerprint(lambda batch: None)
    assert fingerprint(lambda x: x.a - x.b) != fingerprint(lambda x: x.b - x.a)
    assert fingerprint(functools.partial(adding, 1)) != fingerprint(functools.partial(adding, 2))


def test_a_function_may_refer_to_itself():
    def count(number):
        return number and count(number - 1)

    assert len(fingerprint(count)) == 64


@pytest.mark.parametrize("change", ["return 2", "return helper() + 1"])
def test_the_source_of_a_module_counts(tmp_path, monkeypatch, change):
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / "my_features.py"
    text = "def helper():\n    return 1\n\ndef compute(batch):\n    return helper()\n"
    path.write_text(text)
    module = importlib.import_module("my_features")
    try:
        before = fingerprint(module.compute)
        assert fingerprint(functools.partial(module.compute, 1)) != before
        assert fingerprint(module.compute) == before
        path.write_text(text.replace("return helper()", change))
        assert fingerprint(module.compute) != before
    finally:
        del sys.modules["my_features"]


@pytest.mark.parametrize("is_module", [False, True])
def test_other_processes_have_the_same(tmp_path, is_module):
    """Also if Python has compiled a module before."""
    (tmp_path / "features.py").write_text(PROGRAM)
    program = "import features" if is_module else PROGRAM
    paths = os.pathsep.join(map(str, (SOURCE, tmp_path)))

    def printed(seed):
        environment = {**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": seed}
        return subprocess.run(
            [sys.executable, "-c", program],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    assert len(printed("1").strip()) == 64
    assert printed("1") == printed("2")

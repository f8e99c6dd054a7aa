"""What the documentation shows is what happens."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    "name",
    [
        "api",
        "array_block",
        "dataset",
        "dataset_writer",
        "format.metadata",
        "format.types",
        "polars_source",
        "reader",
        "verify",
        "writer",
    ],
)
def test_the_examples_of_docstrings_run(name):
    module = importlib.import_module(f"fastmosaic.{name}")
    failed, attempted = doctest.testmod(module)
    assert attempted > 0
    assert failed == 0


def test_the_examples_of_the_readme_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert examples
    for example in examples:
        exec(compile(example, "README.md", "exec"), {})  # noqa: S102 - our own text
    assert {path.name for path in tmp_path.iterdir()} == {"sales.mosaic", "copy.mosaic", "sales"}


def test_the_readme_names_every_module():
    text = (ROOT / "README.md").read_text()
    package = ROOT / "src" / "fastmosaic"
    modules = {path.name for suffix in ("py", "pyx") for path in package.rglob(f"*.{suffix}")}
    assert [name for name in sorted(modules - {"__init__.py"}) if f" {name} " not in text] == []

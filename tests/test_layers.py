"""Imports point down: a module knows only the layers below it."""

import ast
from pathlib import Path

import pytest

import fastmosaic

PACKAGE = Path(fastmosaic.__file__).parent

# Lowest first. Modules of one layer do not know each other.
LAYERS = [
    {
        "errors",
        "shell",
        "threads",
        "version",
        "format",
        "format._array",
        "format._decode",
        "format._encode",
        "format._index",
        "format._schema",
    },
    {"format.wire"},
    {"array_block", "format.types"},
    {"format.annex", "format.arrays", "format.attached", "format.names"},
    {"format.schema"},
    {"format.nested"},
    {"format.bucket"},
    {"format.metadata"},
    {"format.statistics"},
    {"location", "partitions", "union"},
    {"retry"},
    {"storage", "sink", "layout", "filters", "conform", "discovery", "splitter", "sketches"},
    {"scan", "selection", "staging"},
    {"inspection", "reader", "text", "uniting", "writer"},
    {"dataset_writer", "fileset", "formats", "verification"},
    {"api", "dataset", "profiles", "splits", "targets"},
    {"pandas_frames", "polars_source"},
    {
        "spark.aggregates",
        "spark.options",
        "spark.pushdown",
        "spark.report",
        "spark.schemas",
        "spark.starting",
    },
    {"spark.commit", "spark.jobs", "spark.jvm", "spark.loading", "spark.writing"},
    {"spark.profiling", "spark.proxies", "spark.streaming", "spark.verifying"},
    {"spark.rewriting", "spark.source"},
    {"spark.converting", "spark.reading"},
    {"spark.compacting"},
    {"spark"},
    {"spark.app"},
    {"cli.aligned", "cli.prefixes", "cli.values"},
    {"cli.arguments", "cli.console", "cli.where"},
    {"cli.cells", "cli.files", "cli.inputs", "cli.text_options"},
    {"cli.columns", "cli.comparison"},
    {
        "cli.completion",
        "cli.convert",
        "cli.diff",
        "cli.pages",
        "cli.rows",
        "cli.schema",
        "cli.stats",
        "cli.structure",
        "cli.verify",
    },
    {"cli"},
    {"__main__"},
    {""},
]
HEIGHTS = {name: height for height, layer in enumerate(LAYERS) for name in layer}


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix("__init__")


SOURCES = {module_name(path).rstrip("."): path for path in sorted(PACKAGE.rglob("*.py"))}
KERNELS = {module_name(path) for path in PACKAGE.rglob("*.pyx")}


def is_all_modules(names: set[str]) -> bool:
    return all(name.removeprefix("fastmosaic.") in SOURCES.keys() | KERNELS for name in names)


def imported_by(path: Path) -> set[str]:
    """Modules of this package that the module imports, wherever in its text."""
    # The package of the module; for an `__init__` that is the module itself.
    package = ["fastmosaic", *path.relative_to(PACKAGE).parts[:-1]]
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) + 1 - node.level] if node.level else []
            module = ".".join([*start, *([node.module] if node.module else [])])
            names = {f"{module}.{alias.name}" for alias in node.names}
            # A package whose modules are taken from it is not itself known.
            found.update(names if is_all_modules(names) else {module, *names})
    ours = {name.removeprefix("fastmosaic.") for name in found if name.startswith("fastmosaic.")}
    return ours & HEIGHTS.keys()


def test_every_module_has_its_layer():
    assert SOURCES.keys() | KERNELS == HEIGHTS.keys()


@pytest.mark.parametrize("name", SOURCES)
def test_imports_point_down(name):
    higher = {other for other in imported_by(SOURCES[name]) if HEIGHTS[other] >= HEIGHTS[name]}
    assert not higher


@pytest.mark.parametrize("name", [name for name in SOURCES if name.startswith("format.")])
def test_the_format_does_no_io_and_starts_no_threads(name):
    tree = ast.parse(SOURCES[name].read_text())
    imported = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    imported |= {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module}
    assert not imported & {"os", "io", "pathlib", "tempfile", "pyarrow.fs", "concurrent.futures"}


def test_the_package_itself_only_names_what_is_public():
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert functions == {"__getattr__", "__dir__"}
    others = (ast.Expr, ast.ImportFrom, ast.Import, ast.Assign, ast.If, ast.FunctionDef)
    assert all(isinstance(node, others) for node in tree.body)

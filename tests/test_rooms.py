"""A folder of the package is a room: it imports the rooms it is listed with, and no others."""

import ast
import re
from pathlib import Path

import pytest

import fastmosaic

PACKAGE = Path(fastmosaic.__file__).parent

# Every room, and the rooms that it may import besides itself. Imports point up this list.
ROOMS = {
    "version": "",
    "errors": "",
    "memory": "errors",
    "threads": "",
    "display": "errors",
    "format": "errors memory display",
    "storage": "errors threads",
    "schemas": "errors memory format",
    "query": "errors memory format schemas",
    "file": "version errors memory display threads format storage schemas query",
    "dataset": "errors memory display threads format storage schemas query file",
    "table": "errors memory display threads format storage schemas query file dataset",
    "convert": "errors memory display threads format storage schemas query file dataset",
    "interop": "errors memory format schemas query file dataset",
    "spark": "errors memory threads format storage schemas query file dataset table convert",
    "report": "errors format storage schemas file dataset convert",
    "viewer": "version errors memory display threads format storage schemas query file dataset table convert",
    "cli": "version errors memory display format storage schemas query file dataset table convert spark report viewer",
    "api": "memory format file dataset",
}
# The public faces and the entry points of the package, which may import any room.
FACES = {"__init__.py", "__main__.py", "array_block.py", "torch.py", "spark/app.py"}


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


SOURCES = [
    path
    for path in sorted(PACKAGE.rglob("*.py"))
    if path.relative_to(PACKAGE).as_posix() not in FACES
]
NAMES = [str(path.relative_to(PACKAGE)) for path in SOURCES]


def imports_of(path: Path) -> set[tuple[str, ...]]:
    """What a module imports of this package, as paths of names without the package's own."""
    package = ("fastmosaic", *path.relative_to(PACKAGE).parts[:-1])
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(tuple(alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) + 1 - node.level] if node.level else ()
            module = (*start, *(node.module.split(".") if node.module else ()))
            found.update((*module, alias.name) for alias in node.names)
    return {names[1:] for names in found if names[0] == "fastmosaic" and len(names) > 1}


def test_every_module_is_in_a_room():
    assert {room_of(path) for path in SOURCES} == ROOMS.keys()


def test_imports_point_one_way():
    above: set[str] = set()
    for room, known in ROOMS.items():
        assert set(known.split()) <= above
        above.add(room)


@pytest.mark.parametrize("path", SOURCES, ids=NAMES)
def test_a_module_imports_only_rooms_that_its_own_may_know(path):
    room = room_of(path)
    allowed = {room, *ROOMS[room].split()}
    assert {names[0] for names in imports_of(path)} <= allowed


@pytest.mark.parametrize("path", [path for path in SOURCES if room_of(path) != "format"])
def test_a_room_imports_only_public_names_of_other_rooms(path):
    others = {names for names in imports_of(path) if names[0] != room_of(path)}
    assert not {names for names in others if any(re.match("_[^_]", name) for name in names)}


@pytest.mark.parametrize("room", [path.parent for path in PACKAGE.rglob("*/__init__.py")])
def test_a_room_lists_its_modules(room):
    text = ast.get_docstring(ast.parse((room / "__init__.py").read_text()))
    assert text
    modules = {path.stem for path in room.iterdir() if path.suffix in (".py", ".pyx")}
    modules |= {path.parent.name for path in room.glob("*/__init__.py")}
    listed = {line.split()[0] for line in text.splitlines()[1:] if line.strip()}
    assert listed == modules - {"__init__"}


@pytest.mark.parametrize(
    "path", [path for path in SOURCES if room_of(path) == "format"], ids=lambda path: path.stem
)
def test_the_format_does_no_io_and_starts_no_threads(path):
    tree = ast.parse(path.read_text())
    imported = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    imported |= {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module}
    assert not imported & {"os", "io", "pathlib", "tempfile", "pyarrow.fs", "concurrent.futures"}


def test_the_package_itself_only_names_what_is_public():
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert functions == {"__getattr__", "__dir__"}
    others = (ast.Expr, ast.ImportFrom, ast.Import, ast.Assign, ast.If, ast.FunctionDef)
    assert all(isinstance(node, others) for node in tree.body)


def test_a_class_name_has_one_meaning():
    names = [
        node.name.strip("_")
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef)
    ]
    assert sorted({name for name in names if names.count(name) > 1}) == []

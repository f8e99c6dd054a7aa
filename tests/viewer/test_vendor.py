"""Vendored files are those of the recorded releases, with their licences."""

import hashlib
import json
from pathlib import Path

import pytest

import fastmosaic

ROOTS = [
    Path(fastmosaic.__file__).parent / "viewer" / "static" / "vendor",
    Path(__file__).parent / "vendor",
]
LIBRARIES = [
    pytest.param(root, library, id=library["name"])
    for root in ROOTS
    for library in json.loads((root / "vendored.json").read_text())
]


@pytest.mark.parametrize(("root", "library"), LIBRARIES)
def test_files_are_unchanged(root, library):
    found = {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (root / library["name"]).rglob("*")
    }
    assert found == library["files"]


@pytest.mark.parametrize(("root", "library"), LIBRARIES)
def test_licences_are_included(root, library):
    text = (root / library["name"] / "LICENSE").read_text()
    titles = {
        "Apache-2.0": "Apache License",
        "MIT": "The MIT License",
        "MPL-2.0": "Mozilla Public License",
    }
    assert titles[library["license"]] in text


@pytest.mark.parametrize("root", ROOTS)
def test_every_directory_is_recorded(root):
    recorded = {library["name"] for library in json.loads((root / "vendored.json").read_text())}
    assert {path.name for path in root.iterdir() if path.is_dir()} == recorded


@pytest.mark.parametrize(("root", "library"), LIBRARIES)
def test_nothing_is_loaded_from_elsewhere(root, library):
    """Modules import nothing, and styles refer to nothing."""
    for name in library["files"]:
        text = (root / name).read_text()
        assert "@import" not in text or not name.endswith(".css")
        assert "url(" not in text or not name.endswith(".css")
        assert "from'" not in text.replace(" ", "") or not name.endswith(".js")

"""The public names, and what importing them costs."""

import inspect
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pytest

import fastmosaic as fm


def test_all_is_sorted():
    assert fm.__all__ == sorted(fm.__all__)


def test_all_is_what_is_there():
    public = {
        name
        for name, value in vars(fm).items()
        if not name.startswith("_") and not isinstance(value, ModuleType) and name != "annotations"
    }
    assert public | fm._ON_USE.keys() == set(fm.__all__)
    assert all(getattr(fm, name).__name__ == name for name in fm._ON_USE)
    assert dir(fm) == fm.__all__ == sorted(fm.__all__)
    assert all(getattr(fm, name).__module__.startswith("fastmosaic.") for name in fm.__all__)


def test_the_package_comes_without_what_takes_long_to_import():
    code = """
import sys, fastmosaic
heavy = {"pyarrow.dataset", "pyarrow.parquet", "pandas", "polars", "duckdb", "fsspec", "pyspark"}
assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()
assert fastmosaic.MosaicDataset.__name__ == "MosaicDataset"
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "name",
    [
        "BucketMetaData",
        "ColumnNotFoundError",
        "ColumnStatistics",
        "CorruptFileError",
        "FileMetaData",
        "MosaicError",
        "MosaicFile",
        "MosaicWriter",
        "RowGroupMetaData",
        "SchemaMismatchError",
        "UnsupportedError",
        "read_metadata",
        "read_schema",
        "read_table",
        "write_table",
    ],
)
def test_the_name_is_public_and_documented(name):
    assert name in fm.__all__
    assert inspect.getdoc(getattr(fm, name))


def test_options_of_the_writer_cannot_be_given_by_position():
    with pytest.raises(TypeError, match="positional argument"):
        fm.write_table(None, "x.mosaic", "zstd")


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (fm.CorruptFileError, ValueError),
        (fm.UnsupportedError, NotImplementedError),
        (fm.ColumnNotFoundError, KeyError),
        (fm.SchemaMismatchError, ValueError),
    ],
)
def test_an_error_is_a_mosaic_error_and_the_builtin_one_expects(error, builtin):
    assert issubclass(error, fm.MosaicError)
    assert issubclass(error, builtin)


def imported_by(statement: str) -> set[str]:
    """Names of the modules that are loaded after `statement` ran in a new interpreter."""
    root = str(Path(fm.__file__).parents[1])
    script = (
        f"import sys; sys.path.insert(0, {root!r}); {statement}; print('\\n'.join(sys.modules))"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(result.stdout.split())


def test_importing_the_package_imports_nothing_optional():
    ours = imported_by("import fastmosaic")
    heavy = {"pyarrow.dataset", "pyarrow.parquet", "numpy", "pandas", "polars", "fsspec", "mosaic"}
    assert ours & {*heavy, "hashlib"} <= imported_by("import pyarrow")


def test_the_writer_is_imported_on_use():
    writer = "fastmosaic.file.writer"
    assert writer not in imported_by("import fastmosaic")
    assert writer in imported_by("import fastmosaic; fastmosaic.MosaicWriter")


def test_reading_one_file_imports_no_datasets(tmp_path):
    path = tmp_path / "x.mosaic"
    fm.write_table(pa.table({"a": [1], "b": ["x"]}), path)
    ours = imported_by("import fastmosaic")
    for source in (f"{str(path)!r}", f"open({str(path)!r}, 'rb').read()"):
        read = f"fastmosaic.read_table({source}, columns=['a'])"
        assert imported_by(f"import fastmosaic; {read}") == ours

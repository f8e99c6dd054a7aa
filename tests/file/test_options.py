"""The table of writer options: names, defaults, checks, text forms and signatures."""

import inspect
import io
import typing

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import fastmosaic as fm
from fastmosaic.file.options import OPTIONS, OptionKind, WriteOptions, completed

TABLE = pa.table({"id": [1, 2]})
WRITERS = {
    "MosaicWriter": lambda where, **options: fm.MosaicWriter(where, TABLE.schema, **options),
    "write_table": lambda where, **options: fm.write_table(TABLE, where, **options),
    "write_pandas": lambda where, **options: fm.write_pandas(
        pd.DataFrame({"id": [1]}), where, **options
    ),
    "write_dataset": lambda where, **options: fm.write_dataset(TABLE, where, **options),
}


def test_the_table_has_the_keywords_of_the_types():
    assert list(OPTIONS) == list(typing.get_type_hints(WriteOptions))


def test_every_default_is_valid():
    for option in OPTIONS.values():
        assert option.check(option.default) == option.default


def test_compatibility_options_come_last_and_are_described_last():
    names = [name for name, option in OPTIONS.items() if option.is_compatibility]
    assert set(names) == {
        "checksum",
        "annex",
        "page_size_threshold",
        "max_dict_entries",
        "max_dict_total_bytes",
    }
    assert list(OPTIONS)[-5:] == names
    text = inspect.getdoc(fm.MosaicWriter)
    described = [name for name in OPTIONS if f"\n{name} : " in text]
    assert described == list(OPTIONS)
    assert sorted(OPTIONS, key=lambda name: text.index(f"\n{name} : ")) == described


def test_flags_are_unique():
    flags = [option.flag for option in OPTIONS.values() if option.flag]
    assert len(set(flags)) == len(flags)
    assert all(flag.startswith("--") for flag in flags)


@pytest.mark.parametrize("name", WRITERS)
def test_the_signature_shows_every_option_with_its_default(name):
    parameters = inspect.signature(getattr(fm, name)).parameters
    shown = {key: parameters[key].default for key in parameters if key in OPTIONS}
    assert shown == {key: option.default for key, option in OPTIONS.items()}
    assert list(shown) == list(OPTIONS)
    assert parameters["num_buckets"].annotation is int
    assert "options" not in parameters
    assert "filesystem" in parameters


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize(
    ("option", "close"),
    [
        ("compresion", "compression"),
        ("row_group_rows", "row_group_size"),
        ("bucket", "num_buckets"),
        ("filesytem", "filesystem"),
    ],
)
def test_a_misspelt_option_suggests_the_right_one(tmp_path, name, option, close):
    with pytest.raises(TypeError, match=f"^unknown option '{option}'; did you mean '{close}'"):
        WRITERS[name](tmp_path / "out", **{option: 1})
    assert list(tmp_path.iterdir()) == []


def test_a_misspelt_parameter_of_the_function_is_suggested_too(tmp_path):
    with pytest.raises(TypeError, match=r"unknown option 'partitionning'.*'partitioning'"):
        fm.write_dataset(TABLE, tmp_path / "out", partitionning="id")


def test_an_option_like_no_other_has_no_suggestion():
    with pytest.raises(TypeError, match=r"^unknown option 'quux'$"):
        fm.write_table(TABLE, io.BytesIO(), quux=1)


@pytest.mark.parametrize(
    ("option", "value", "error", "message"),
    [
        ("compression", "snappy", ValueError, "must be 'zstd' or 'none', not 'snappy'"),
        ("compression", 3, ValueError, "must be 'zstd' or 'none', not 3"),
        ("compression_level", 23, ValueError, "must be between -131072 and 22, not 23"),
        ("num_buckets", 0, ValueError, "must be at least 1, not 0"),
        ("num_buckets", None, TypeError, "must be an integer, not None"),
        ("row_group_size", 1.5, TypeError, "must be an integer, not 1.5"),
        ("row_group_bytes", -1, ValueError, "must be at least 0, not -1"),
        ("checksum", "false", TypeError, "must be True or False, not 'false'"),
        ("write_statistics", "id", TypeError, "True, False or a list of column names, not 'id'"),
        ("use_dictionary", 3, TypeError, "True, False or a list of column names, not 3"),
        ("array_layout", "row", ValueError, "must be 'columns' or 'block', not 'row'"),
    ],
)
def test_an_invalid_value_is_named(option, value, error, message):
    with pytest.raises(error, match=f"^{option}.*{message}$"):
        completed({option: value})


def test_values_of_other_libraries_are_accepted():
    chosen = completed(
        {"num_buckets": np.int64(3), "compression": "ZSTD", "use_dictionary": {"a": 1}.keys()}
    )
    assert chosen["num_buckets"] == 3
    assert chosen["compression"] == "zstd"
    assert chosen["use_dictionary"] == ["a"]


VALUES = {
    OptionKind.CHOICE: [],
    OptionKind.INTEGER: [1, 22],
    OptionKind.SIZE: [1, 1 << 30],
    OptionKind.BOOLEAN: [True, False],
    OptionKind.NAMES: [["a"], ["a", "b c, d"]],
    OptionKind.COLUMNS: [True, False, ["a", "b c, d"], []],
}


@pytest.mark.parametrize("option", OPTIONS.values(), ids=lambda option: option.name)
def test_text_comes_back_as_the_value(option):
    for value in (*option.choices, *VALUES[option.kind]):
        assert option.parse(option.to_text(value)) == value


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("row_group_bytes", "64m", 64 << 20),
        ("row_group_bytes", "64MB", 64 << 20),
        ("page_size_threshold", "0", 0),
        ("max_dict_total_bytes", "1k", 1024),
        ("checksum", "FALSE", False),
        ("write_statistics", "a, b", ["a", "b"]),
        ("write_statistics", '["a, b"]', ["a, b"]),
        ("use_dictionary", "true", True),
        ("compression", "none", "none"),
    ],
)
def test_text_is_parsed(name, text, value):
    assert OPTIONS[name].parse(text) == value


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("row_group_bytes", "64x", "invalid size '64x': expected e.g. 1000000 or 64m"),
        ("row_group_bytes", "", "invalid size ''"),
        ("num_buckets", "many", "invalid number 'many'"),
        ("num_buckets", "0", "num_buckets must be at least 1"),
        ("checksum", "yes", "invalid value 'yes': expected true or false"),
        ("write_statistics", "[1]", "expected strings"),
        ("write_statistics", "[", "Expecting value"),
        ("array_layout", "row", "array_layout must be"),
    ],
)
def test_invalid_text_is_an_error(name, text, message):
    with pytest.raises(ValueError, match=message):
        OPTIONS[name].parse(text)

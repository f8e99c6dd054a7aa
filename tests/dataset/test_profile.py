"""Profiles of columns: the same for few rows and many, with few calls and few reads."""

import datetime
import math
import sys
from decimal import Decimal
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import fastmosaic as fm
from fastmosaic.dataset import profile
from fastmosaic.dataset.fileset import FileSet
from fastmosaic.dataset.profile import Profiler, conclude
from fastmosaic.file.stored import Encoding
from fastmosaic.query.durations import duration_texts

ENCODINGS = tuple(map(str, Encoding))


def profiles(path, filesystem=None, parts=1):
    """The profiles of all columns; the row groups are measured in so many parts."""
    files = FileSet(path, filesystem=filesystem)
    profilers = [Profiler(files.schema, files.partitions) for _ in range(parts)]
    number = 0
    for file in files.files:
        for group in range(file.metadata.num_row_groups):
            profilers[number % parts].add(file, group)
            number += 1
    return conclude(files.schema, [one.measures() for one in profilers])


def columns_of_all_types(num_rows):
    base = datetime.datetime(2024, 1, 31, tzinfo=datetime.UTC)
    rows = [(i * 7919) % 1009 for i in range(num_rows)]
    return pa.table(
        {
            "flag": [i % 2 == 0 for i in rows],
            "small": pa.array([i % 100 - 50 for i in rows], pa.int8()),
            "large": [None if i % 5 == 0 else i * 10**12 for i in rows],
            "float": pa.array([math.nan if i % 3 == 0 else i / 4 for i in rows], pa.float32()),
            "nan": [math.nan] * num_rows,
            "none": pa.nulls(num_rows, pa.string()),
            "text": [f"{i} and more" for i in rows],
            "raw": pa.array([bytes([i % 256, 255]) for i in rows], pa.binary()),
            "day": pa.array(rows, pa.date32()),
            "time": pa.array(rows, pa.time32("ms")),
            "when": [base + datetime.timedelta(hours=i) for i in rows],
            "money": pa.array([Decimal(i) / 100 for i in rows], pa.decimal128(20, 2)),
            "list": [[i] for i in rows],
        }
    )


@pytest.mark.parametrize("num_rows", [1, 60, 65, 500])  # together, and one by one
@pytest.mark.parametrize("parts", [1, 3])
def test_bounds_are_those_of_arrow(tmp_path, num_rows, parts):
    table = columns_of_all_types(num_rows)
    fm.write_table(table, tmp_path / "a.mosaic", row_group_size=max(1, num_rows // 4))
    for found in profiles(tmp_path / "a.mosaic", parts=parts):
        values = table[found.column]
        assert (found.rows, found.nulls) == (num_rows, values.null_count)
        if found.column in ("nan", "none", "list"):
            assert (found.min, found.max) == (None, None)
            continue
        if found.column == "float":
            values = values.filter(pc.invert(pc.is_nan(values)))
            if not len(values):
                continue
        extremes = pc.min_max(values)
        expected = [
            None
            if not scalar.is_valid
            else scalar.as_py().hex()
            if found.column == "raw"
            else scalar.cast(pa.string()).as_py()
            for scalar in extremes.values()
        ]
        assert [found.min, found.max] == expected, found.column


def nested_columns(num_rows):
    rows = [(i * 7919) % 1009 for i in range(num_rows)]
    took = [None if i % 5 == 0 else i * 1000 - 300_000 for i in rows]
    inner = pa.StructArray.from_arrays(
        [pa.array(took, pa.duration("ms")), pa.array([i * 2**50 for i in rows], pa.uint64())],
        ["took", "big"],
        mask=pa.array([i % 7 == 0 for i in rows]),
    )
    outer = pa.StructArray.from_arrays(
        [pa.array([f"n{i}" for i in rows]).dictionary_encode(), inner],
        ["name", "in"],
        mask=pa.array([i % 11 == 0 for i in rows]),
    )
    items = [None if i % 3 == 0 else [{"x": i, "y": [{"z": "a"}]}, None] for i in rows]
    return pa.table(
        {"id": rows, "s": outer, "items": items, "empty": pa.array([{}] * num_rows, pa.struct([]))}
    )


@pytest.mark.parametrize("num_rows", [60, 500])
@pytest.mark.parametrize("parts", [1, 3])
def test_fields_of_structs(tmp_path, num_rows, parts):
    table = nested_columns(num_rows)
    fm.write_table(table, tmp_path / "a.mosaic", row_group_size=num_rows // 4)
    found = {one.column: one for one in profiles(tmp_path / "a.mosaic", parts=parts)}
    assert {name: one.type for name, one in found.items()} == {
        "id": "int64",
        "s.name": "dictionary<values=string, indices=int32, ordered=0>",
        "s.in.took": "duration[ms]",
        "s.in.big": "uint64",
        "items.x": "list<item: int64>",
        "items.y.z": "list<item: list<item: string>>",
        "empty": "struct<>",
    }
    rows = [{**row["s"], "in": row["s"]["in"] or {}} for row in table.to_pylist() if row["s"]]
    took = [row["in"]["took"] for row in rows if row["in"].get("took") is not None]
    assert found["s.name"].nulls == num_rows - len(rows)
    assert found["s.in.took"].nulls == num_rows - len(took)
    low, high = (pa.array([value], pa.duration("ms")) for value in (min(took), max(took)))
    assert [found["s.in.took"].min, found["s.in.took"].max] == duration_texts(
        pa.concat_arrays([low, high])
    )
    big = [row["in"]["big"] for row in rows if row["in"]]
    assert (found["s.in.big"].min, found["s.in.big"].max) == (str(min(big)), str(max(big)))
    assert found["items.x"].nulls == found["items.y.z"].nulls == table["items"].null_count
    assert (found["items.x"].distinct, found["empty"].distinct) == (None, None)
    metadata = fm.read_metadata(tmp_path / "a.mosaic")
    groups = range(metadata.num_row_groups)
    assert sum(one.bytes for one in found.values()) == sum(map(metadata.bytes_of, groups))
    assert {sum(getattr(one, name) for name in ENCODINGS) for one in found.values()} == {
        len(groups)
    }


def test_files_with_different_structs(tmp_path):
    fm.write_table(pa.table({"s": [{"x": 1, "y": "a"}]}), tmp_path / "1.mosaic")
    fm.write_table(pa.table({"s": [{"x": 2.5, "z": [1]}, None]}), tmp_path / "2.mosaic")
    found = {one.column: one for one in profiles(tmp_path)}
    assert {name: (one.rows, one.nulls, one.min, one.max) for name, one in found.items()} == {
        "s.x": (3, 1, "1", "2.5"),
        "s.y": (3, 2, "a", "a"),
        "s.z": (3, 2, None, None),
    }


def test_files_without_row_groups(tmp_path):
    fm.write_table(columns_of_all_types(3).slice(0, 0), tmp_path / "a.mosaic")
    found = profiles(tmp_path / "a.mosaic")
    assert {(one.rows, one.nulls, one.min, one.max) for one in found} == {(0, 0, None, None)}


def num_calls(path):
    """How many functions of `pyarrow.compute` a profile calls, and how many of this module."""
    calls = {"compute": 0, "profile": 0}

    def count(frame, event, _):
        if event == "call":
            for name, file in (("compute", pc.__file__), ("profile", profile.__file__)):
                calls[name] += frame.f_code.co_filename == file

    sys.setprofile(count)
    try:
        profiles(path)
    finally:
        sys.setprofile(None)
    return calls


def test_few_rows_of_many_columns_take_few_calls(tmp_path):
    """A call of Arrow costs more than a column of a few values."""
    calls = []
    for count in (100, 1000):
        columns = {f"c{i}": [[i, i + 1], [i / 4, 0.5], ["a", f"b{i}"]][i % 3] for i in range(count)}
        fm.write_table(pa.table(columns), tmp_path / "a.mosaic")
        calls.append(num_calls(tmp_path / "a.mosaic"))
    assert calls[0]["compute"] == calls[1]["compute"] > 0
    assert calls[1]["profile"] - calls[0]["profile"] < 10 * 900


class Recording(MemoryFileSystem):
    """Remembers the ranges that are read."""

    cachable = False

    def __init__(self):
        super().__init__()
        self.store, self.pseudo_dirs = {}, [""]
        self.ranges = []

    def cat_file(self, path, start=None, end=None, **kwargs):
        self.ranges.append((start, end))
        return super().cat_file(path, start=start, end=end, **kwargs)


@pytest.mark.parametrize("options", [{}, {"page_size_threshold": 0}, {"num_buckets": 3}])
def test_a_row_group_is_read_once(tmp_path, options):
    table = pa.table({f"c{i:03d}": [i * j for j in range(100)] for i in range(200)})
    filesystem = Recording()
    fm.write_table(
        table, "/a.mosaic", filesystem=filesystem, row_group_size=40, annex=False, **options
    )
    files = FileSet("/a.mosaic", filesystem=filesystem)
    (file,) = files.files
    profiler = Profiler(files.schema, files.partitions)
    num_groups = file.metadata.num_row_groups
    filesystem.ranges.clear()
    for group in range(num_groups):
        profiler.add(file, group)
    ranges = sorted(filesystem.ranges)
    assert all(end <= start for (_, end), (start, _) in pairwise(ranges))
    data_bytes = sum(file.metadata.bytes_of(group) for group in range(num_groups))
    assert sum(end - start for start, end in ranges) == data_bytes
    assert [one.max for one in conclude(files.schema, [profiler.measures()])] == [
        str(99 * i) for i in range(200)
    ]

"""What opening a file and reading its statistics costs, counted: names and values decoded, memory."""

import io

import pyarrow as pa
import pytest

import fastmosaic as fm
from fastmosaic.file import opening
from fastmosaic.file.opening import SCHEMAS, SchemaCache
from fastmosaic.format import _index, _schema, metadata, types
from fastmosaic.format.wire import Compression

NUM_COLUMNS = 2000


def written(table, **options):
    sink = io.BytesIO()
    fm.write_table(table, sink, **options)
    return sink.getvalue()


def wide(prefix="column", **options):
    """A file of columns of several types, with statistics of all of them."""
    values = [
        pa.array([3, 1, None], pa.int32()),
        pa.array(["b", None, "a"]),
        pa.array([1.5, 2.5, 0.5]),
        pa.array([5, 6, 7], pa.timestamp("us", "UTC")),
        pa.array([1, 2, 3], pa.date32()),
        pa.nulls(3, pa.string()),
    ]
    names = [f"{prefix}_{i:04d}" for i in range(NUM_COLUMNS)]
    table = pa.table([values[i % len(values)] for i in range(NUM_COLUMNS)], names=names)
    return written(table, write_statistics=True, **options)


@pytest.fixture(scope="module")
def data():
    return wide()


class Calls(list):
    """Arguments of the calls of a function."""

    def __init__(self, monkeypatch, owner, name):
        super().__init__()
        original = getattr(owner, name)

        def noted(*args, **kwargs):
            self.append(args)
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, noted)


def test_no_names_are_decoded_to_read_a_few_columns(data, monkeypatch):
    expanded = Calls(monkeypatch, _schema, "expand_names")
    found = Calls(monkeypatch, _schema, "find_encoded")
    orders = Calls(monkeypatch, _schema, "decode_order")
    starts = Calls(monkeypatch, _schema, "type_starts")
    SCHEMAS.clear()
    with fm.MosaicFile(data) as file:
        assert found == starts == []
        names = ["column_1500", "column_0003"]
        assert file.read(names).column_names == names
        assert file.read([*names, "column_0000"]).num_rows == 3
    assert len(found) == 3  # each name once, also if it is asked for again
    assert expanded == orders == []
    assert {len(args[1]) for args in starts} == {1}  # of single columns


def test_the_names_are_decoded_once_for_all_columns(data, monkeypatch):
    expanded = Calls(monkeypatch, _schema, "expand_names")
    SCHEMAS.clear()
    with fm.MosaicFile(data) as file:
        assert len(file.schema.names) == NUM_COLUMNS
        assert file.read().num_columns == NUM_COLUMNS
        assert file.read(file.schema.names[::3]).num_rows == 3
        assert len(file.metadata.row_group(0).statistics) == NUM_COLUMNS
    assert len(expanded) == 1


def test_opening_a_file_takes_no_memory_of_arrow(data, tmp_path):
    path = tmp_path / "x.mosaic"
    path.write_bytes(data)
    SCHEMAS.clear()
    before = pa.default_memory_pool().num_allocations()
    with fm.MosaicFile(path) as file:
        assert file.metadata.num_rows == 3
    assert pa.default_memory_pool().num_allocations() == before


# Statistics


def test_all_statistics_are_decoded_in_one_call(data, monkeypatch):
    passes = Calls(monkeypatch, _index, "python_statistics")
    scalars = Calls(monkeypatch, metadata, "decode_value")
    statistics = fm.read_metadata(data).row_group(0).statistics
    assert passes == []
    assert statistics["column_0000"] == (1, 1, 3)
    assert len(scalars) == 2  # the bounds of this column alone
    assert sum(one.null_count for one in statistics.values()) == sum(
        (1, 1, 0, 0, 0, 3)[i % 6] for i in range(NUM_COLUMNS)
    )
    assert [one.has_min_max for one in statistics.values()].count(False) == NUM_COLUMNS // 6
    assert statistics["column_0001"] == (1, "a", "b")
    assert dict(statistics.items()).keys() == set(statistics)
    assert len(passes) == 1
    assert len(scalars) == 2


def test_a_filter_decodes_only_the_statistics_of_its_columns(data, monkeypatch):
    scalars = Calls(monkeypatch, metadata, "decode_value")
    walks = Calls(monkeypatch, _index, "walk_statistics")
    assert (
        fm.read_table(data, columns=["column_0002"], filters=[("column_0000", ">", 9)]).num_rows
        == 0
    )
    assert len(scalars) == 2
    assert [sum(wanted) for *_, wanted in walks] == [1]


# Files that share a schema


def test_blocks_that_end_alike_are_not_mixed_up():
    files = [wide(prefix, compression="none") for prefix in ("alpha", "gamma")]
    for _ in range(2):
        for prefix, file in zip(("alpha", "gamma"), files, strict=True):
            assert fm.read_schema(file).names[7] == f"{prefix}_0007"
            assert fm.read_table(file, columns=[f"{prefix}_0009"]).num_rows == 3


def test_a_cache_keeps_the_schemas_that_were_used_last(monkeypatch):
    decoded = Calls(monkeypatch, opening.SchemaBlock, "decode")
    cache = SchemaCache(opening.decode_schema, size=2)
    blocks = []
    for name in "abc":
        file = written(pa.table({name: [1]}), compression="none", annex=False)
        footer = fm.read_metadata(file).footer
        blocks.append(
            pa.py_buffer(file).slice(
                footer.schema_offset, footer.index_offset - footer.schema_offset
            )
        )
    decoded.clear()
    first, second, third = blocks
    for block in (first, second, first, third, first):
        assert cache.decode(block, Compression.NONE) is cache.decode(block, Compression.NONE)
    assert len(decoded) == 3
    cache.decode(second, Compression.NONE)
    assert len(decoded) == 4


def test_a_cache_keeps_no_more_of_a_file_than_its_schema():
    file = pa.py_buffer(written(pa.table({"a": ["x" * 100_000]}), compression="none"))
    footer = fm.read_metadata(file).footer
    size = footer.index_offset - footer.schema_offset
    cache = SchemaCache(opening.decode_schema)
    cache.decode(file.slice(footer.schema_offset, size), Compression.NONE)
    ((kept, _),) = cache._blocks.values()
    assert (kept.parent or kept).size == kept.size == size


def test_types_of_statistics_are_those_of_the_kernel():
    """The kernel knows some type ids by number."""
    assert [types.TypeId(number).name for number in (5, 6, 7, 16, 17)] == [
        *("FLOAT", "DOUBLE", "DATE", "TIMESTAMP", "TIMESTAMP_LTZ")
    ]

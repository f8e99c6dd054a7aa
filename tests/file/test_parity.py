"""What is shared with pyarrow.parquet: the same body runs over both."""

import io
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.parquet as pq
import pytest

import fastmosaic as fm

TABLE = pa.table(
    {
        "id": pa.array(range(100), pa.int32()),
        "name": pa.array([None if i % 10 == 0 else f"name {i % 7}" for i in range(100)]),
        "price": pa.array([i / 4 for i in range(100)], pa.float64()),
        "tags": pa.array([["x"] * (i % 3) for i in range(100)], pa.list_(pa.string())),
        "flag": pa.array([i % 2 == 0 for i in range(100)]),
    },
    schema=pa.schema(
        [
            pa.field("id", pa.int32(), nullable=False),
            pa.field("name", pa.string()),
            pa.field("price", pa.float64()),
            pa.field("tags", pa.list_(pa.field("element", pa.string()))),
            pa.field("flag", pa.bool_()),
        ]
    ),
)


def functions_of(module):
    return SimpleNamespace(
        read_table=module.read_table,
        read_schema=module.read_schema,
        read_metadata=module.read_metadata,
        write_table=module.write_table,
        File=getattr(module, "ParquetFile", None) or module.MosaicFile,
        Writer=getattr(module, "ParquetWriter", None) or module.MosaicWriter,
    )


@pytest.fixture(params=[pq, fm], ids=["parquet", "mosaic"])
def lib(request):
    return functions_of(request.param)


@pytest.fixture
def path(lib, tmp_path):
    """A file with `TABLE` in four row groups."""
    target = tmp_path / "table"
    lib.write_table(TABLE, target, row_group_size=25)
    return target


def test_read_table_gives_what_write_table_was_given(lib, path):
    assert lib.read_table(path).equals(TABLE)


def test_the_path_may_be_a_string(lib, path):
    assert lib.read_table(str(path)).equals(TABLE)


def test_columns_come_in_the_order_asked_for(lib, path):
    assert lib.read_table(path, columns=["price", "id"]).equals(TABLE.select(["price", "id"]))


def test_no_columns_keep_the_number_of_rows(lib, path):
    table = lib.read_table(path, columns=[])
    assert (table.num_columns, table.num_rows) == (0, 100)


def test_the_schema_is_read(lib, path):
    assert lib.read_schema(path).equals(TABLE.schema)


def test_the_metadata_is_read(lib, path):
    metadata = lib.read_metadata(path)
    assert metadata.num_rows == 100
    assert metadata.num_row_groups == 4
    assert [metadata.row_group(i).num_rows for i in range(4)] == [25] * 4


def test_the_metadata_count_the_leaves_of_flat_columns(lib, tmp_path):
    lib.write_table(TABLE.drop_columns("tags"), tmp_path / "flat")
    assert lib.read_metadata(tmp_path / "flat").num_columns == 4


def test_the_metadata_are_a_dictionary_too(lib, path):
    metadata = lib.read_metadata(path).to_dict()
    assert (metadata["num_rows"], metadata["num_row_groups"]) == (100, 4)
    assert [group["num_rows"] for group in metadata["row_groups"]] == [25] * 4


@pytest.mark.parametrize(
    "filters",
    [
        [("id", ">", 90)],
        [("id", "=", 3)],
        [("id", "==", 3)],
        [("id", "!=", 3)],
        [("id", ">=", 10), ("id", "<", 12)],
        [("id", "in", [1, 50, 1000])],
        [("id", "not in", {1, 50, 1000})],
        [("name", "==", "name 3"), ("price", "<=", 20.0)],
        [[("id", "<", 3)], [("id", ">", 97), ("flag", "==", True)]],
        [[("name", "in", ["name 1", "name 2"])]],
        pc.field("id") * 2 - pc.field("price") > 50,
        pc.field("name").is_null(),
        ~(pc.field("name") == "name 1") | (pc.field("id") < 5),
        pc.field("id").isin([7, 99]) & pc.field("flag"),
        pc.starts_with(pc.field("name"), "name"),
        pc.field("id") > 1000,
    ],
    ids=str,
)
def test_filters_keep_the_same_rows(lib, path, filters):
    expression = (
        filters if isinstance(filters, pc.Expression) else pq.filters_to_expression(filters)
    )
    assert lib.read_table(path, filters=filters).equals(TABLE.filter(expression))


def test_filters_may_name_columns_that_are_not_read(lib, path):
    table = lib.read_table(path, columns=["name"], filters=[("id", "<", 30), ("price", ">", 1.0)])
    assert table.equals(TABLE.slice(5, 25).select(["name"]))


def test_filters_with_no_columns_count_rows(lib, path):
    table = lib.read_table(path, columns=[], filters=[("id", "<", 30)])
    assert (table.num_columns, table.num_rows) == (0, 30)


@pytest.mark.parametrize("use_threads", [True, False])
def test_threads_do_not_change_the_table(lib, path, use_threads):
    assert lib.read_table(path, use_threads=use_threads).equals(TABLE)


def test_a_file_is_read_whole(lib, path):
    with lib.File(path) as file:
        assert file.num_row_groups == 4
        assert file.metadata.num_rows == 100
        assert file.read().equals(TABLE)
        assert file.read(columns=["flag", "tags"]).num_columns == 2


def test_a_file_is_read_by_row_group(lib, path):
    with lib.File(path) as file:
        assert file.read_row_group(2).equals(TABLE.slice(50, 25))
        assert file.read_row_group(0, columns=["id"]).equals(TABLE.slice(0, 25).select(["id"]))


def test_a_file_is_read_by_several_row_groups(lib, path):
    expected = pa.concat_tables([TABLE.slice(75, 25), TABLE.slice(0, 25)])
    with lib.File(path) as file:
        assert file.read_row_groups([3, 0]).equals(expected)
        assert file.read_row_groups([3, 0], columns=["id"]).equals(expected.select(["id"]))


def test_a_file_is_closed_by_its_with_block(lib, path):
    with lib.File(path) as file:
        assert not file.closed
    assert file.closed


def test_a_file_can_be_closed_twice(lib, path):
    file = lib.File(path)
    file.close()
    file.close()
    assert file.closed


def test_batches_together_are_the_table(lib, path):
    with lib.File(path) as file:
        batches = list(file.iter_batches(batch_size=30))
    assert all(isinstance(batch, pa.RecordBatch) for batch in batches)
    assert max(batch.num_rows for batch in batches) <= 30
    assert pa.Table.from_batches(batches).equals(TABLE)


def test_batches_have_the_columns_and_row_groups_asked_for(lib, path):
    with lib.File(path) as file:
        batches = list(file.iter_batches(columns=["price"], row_groups=[1, 3]))
    expected = pa.concat_tables([TABLE.slice(25, 25), TABLE.slice(75, 25)]).select(["price"])
    assert pa.Table.from_batches(batches).equals(expected)


def test_batches_without_columns_keep_the_number_of_rows(lib, path):
    with lib.File(path) as file:
        assert sum(batch.num_rows for batch in file.iter_batches(columns=[])) == 100


def test_a_file_object_is_read_and_stays_open(lib, path):
    with path.open("rb") as file:
        assert lib.read_table(file).equals(TABLE)
        assert not file.closed


def test_a_bytes_io_is_read(lib, path):
    assert lib.read_table(io.BytesIO(path.read_bytes())).equals(TABLE)


def test_a_buffer_reader_is_read(lib, path):
    assert lib.read_table(pa.BufferReader(path.read_bytes())).equals(TABLE)
    assert lib.read_schema(pa.BufferReader(path.read_bytes())).equals(TABLE.schema)
    assert lib.read_metadata(pa.BufferReader(path.read_bytes())).num_rows == 100


def test_a_memory_map_is_read(lib, path):
    with pa.memory_map(str(path)) as file:
        assert lib.read_table(file).equals(TABLE)


def test_a_filesystem_is_read_and_written(lib, tmp_path):
    local = pa.fs.SubTreeFileSystem(str(tmp_path), pa.fs.LocalFileSystem())
    lib.write_table(TABLE, "t", filesystem=local)
    assert lib.read_table("t", filesystem=local).equals(TABLE)
    assert lib.read_schema("t", filesystem=local).equals(TABLE.schema)
    assert lib.read_metadata("t", filesystem=local).num_rows == 100


def test_a_uri_is_read(lib, path):
    assert lib.read_table(path.as_uri()).equals(TABLE)


def test_a_bytes_io_is_written_and_stays_open(lib):
    sink = io.BytesIO()
    lib.write_table(TABLE, sink)
    assert not sink.closed
    assert lib.read_table(io.BytesIO(sink.getvalue())).equals(TABLE)


def test_an_output_stream_is_written(lib):
    sink = pa.BufferOutputStream()
    lib.write_table(TABLE, sink)
    assert lib.read_table(pa.BufferReader(sink.getvalue())).equals(TABLE)


def test_a_missing_file_is_not_found(lib, tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        lib.read_table(tmp_path / "nowhere")


def test_a_writer_takes_tables_and_batches(lib, tmp_path):
    with lib.Writer(tmp_path / "t", TABLE.schema) as writer:
        writer.write(TABLE.slice(0, 10))
        writer.write(TABLE.slice(10, 10).to_batches()[0])
        writer.write_table(TABLE.slice(20, 10))
        writer.write_batch(TABLE.slice(30, 70).to_batches()[0])
    assert lib.read_table(tmp_path / "t").equals(TABLE)


def test_a_writer_may_write_nothing(lib, tmp_path):
    lib.Writer(tmp_path / "t", TABLE.schema).close()
    assert lib.read_table(tmp_path / "t").equals(TABLE.schema.empty_table())


def test_a_writer_can_be_closed_twice(lib, tmp_path):
    writer = lib.Writer(tmp_path / "t", TABLE.schema)
    writer.close()
    writer.close()
    assert lib.read_metadata(tmp_path / "t").num_rows == 0


@pytest.mark.parametrize("compression", ["zstd", "none"])
def test_the_compression_is_chosen_by_name(lib, tmp_path, compression):
    lib.write_table(TABLE, tmp_path / "t", compression=compression)
    assert lib.read_table(tmp_path / "t").equals(TABLE)


@pytest.mark.parametrize("level", [1, 3, 19])
def test_the_level_of_the_compression_is_chosen(lib, tmp_path, level):
    lib.write_table(TABLE, tmp_path / "t", compression="zstd", compression_level=level)
    assert lib.read_table(tmp_path / "t").equals(TABLE)


@pytest.mark.parametrize("which", [True, False, ["name"]])
def test_the_dictionary_is_chosen_for_all_or_some_columns(lib, tmp_path, which):
    lib.write_table(TABLE, tmp_path / "t", use_dictionary=which)
    assert lib.read_table(tmp_path / "t").equals(TABLE)


@pytest.mark.parametrize("which", [True, False, ["id"]])
def test_the_statistics_are_chosen_for_all_or_some_columns(lib, tmp_path, which):
    lib.write_table(TABLE, tmp_path / "t", write_statistics=which, row_group_size=25)
    rows = lib.read_table(tmp_path / "t", filters=[("id", ">=", 60)])
    assert rows.equals(TABLE.slice(60))


@pytest.mark.parametrize(("size", "rows"), [(100, [100]), (60, [60, 40]), (1000, [100])])
def test_a_row_group_has_at_most_the_rows_asked_for(lib, tmp_path, size, rows):
    lib.write_table(TABLE, tmp_path / "t", row_group_size=size)
    metadata = lib.read_metadata(tmp_path / "t")
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == rows


def test_a_table_without_rows_keeps_its_schema(lib, tmp_path):
    lib.write_table(TABLE.slice(0, 0), tmp_path / "t")
    assert lib.read_table(tmp_path / "t").equals(TABLE.schema.empty_table())

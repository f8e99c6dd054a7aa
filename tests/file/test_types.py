"""Every Arrow type: stored as plain columns, restored bit for bit, read leaf by leaf."""

import datetime
import decimal
import io
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from files import their_reader, written

import fastmosaic as fm
from fastmosaic.file import fetch
from fastmosaic.format import user_schema
from fastmosaic.format.annex import Annex
from fastmosaic.format.footer import Flag, Footer

POINT = pa.struct([("x", pa.int32()), ("y", pa.float64())])
POINTS = [{"x": 1, "y": 0.5}, None, {"x": None, "y": None}, {"x": 4, "y": -1.0}]
PERSON = pa.struct(
    [
        pa.field("name", pa.string(), nullable=False),
        ("age", pa.uint8()),
        ("at", pa.struct([("city", pa.large_string()), ("zip", pa.uint64())])),
        ("tags", pa.list_(pa.dictionary(pa.int8(), pa.string()))),
    ]
)
PEOPLE = [
    {"name": "a", "age": 1, "at": {"city": "b", "zip": 2**64 - 1}, "tags": ["x", "y", "x"]},
    None,
    {"name": "c", "age": None, "at": None, "tags": None},
    {"name": "d", "age": 255, "at": {"city": None, "zip": None}, "tags": []},
]
DICTIONARY = pa.DictionaryArray.from_arrays(
    pa.array([2, None, 0, 2], pa.int8()), pa.array(["z", "unused", "a"]), ordered=True
)
MOMENT = datetime.timedelta(days=-1, microseconds=1)


def case(values, type):
    return pa.array(values, type)


CASES = {
    "struct": case(POINTS, POINT),
    "struct of all": case(PEOPLE, PERSON),
    "required struct": pa.array([{"x": 1, "y": 2.0}] * 3, POINT),
    "empty struct": case([{}, None, {}], pa.struct([])),
    "struct of nulls": case([None] * 3, POINT),
    "list of struct": case([POINTS, None, [], POINTS[:1]], pa.list_(POINT)),
    "list of people": case([PEOPLE, [None], None, []], pa.list_(PERSON)),
    "list of empty struct": case([[{}, None], None, []], pa.list_(pa.struct([]))),
    "list of list of struct": case([[POINTS, None], None, [[]]], pa.list_(pa.list_(POINT))),
    "struct of list of struct": case(
        [{"l": POINTS}, {"l": None}, None, {"l": []}], pa.struct([("l", pa.list_(POINT))])
    ),
    "struct of map of struct": case(
        [{"m": [("k", POINTS[0])]}, {"m": None}, None],
        pa.struct([("m", pa.map_(pa.string(), POINT))]),
    ),
    "map of struct": case([[("a", POINTS[0]), ("b", None)], None, []], pa.map_(pa.string(), POINT)),
    "map by struct": case([[(POINTS[0], 1)], None, []], pa.map_(POINT, pa.int8())),
    "map by list": case(
        [[([1], 1), ([], None)], None, []], pa.map_(pa.list_(pa.int8()), pa.int8())
    ),
    "list of map of struct": case(
        [[[("a", POINTS[0])], None], None, []], pa.list_(pa.map_(pa.string(), POINT))
    ),
    "sorted map": case([[("a", 1)], None], pa.map_(pa.string(), pa.int8(), keys_sorted=True)),
    "fixed list of struct": case([POINTS[:2], None, POINTS[2:]], pa.list_(POINT, 2)),
    "large list of struct": case([POINTS, None, []], pa.large_list(POINT)),
    "list view of struct": case([POINTS, None, []], pa.list_view(POINT)),
    "required elements": case(
        [[{"x": 1}], None, []],
        pa.list_(pa.field("it", pa.struct([pa.field("x", pa.int8(), False)]), False)),
    ),
    "required inside nullable": case(
        [{"in": {"x": 1}}, None],
        pa.struct([pa.field("in", pa.struct([pa.field("x", pa.int8(), False)]), False)]),
    ),
    "dots in names": case(
        [{"a.b": 1, "a": {"c": 2}}, None],
        pa.struct([("a.b", pa.int8()), ("a", pa.struct([("c", pa.int8())]))]),
    ),
    "dictionary": DICTIONARY,
    "dictionary of numbers": pa.DictionaryArray.from_arrays(
        pa.array([1, 0, None], pa.uint16()), pa.array([3, -1], pa.duration("s"))
    ),
    "dictionary of struct": pa.DictionaryArray.from_arrays(
        pa.array([1, 0, None, 1]), pa.array([POINTS[3], POINTS[0]], POINT)
    ),
    "list of dictionary": pa.ListArray.from_arrays([0, 2, 2, 4], DICTIONARY),
    "struct of dictionary": pa.StructArray.from_arrays([DICTIONARY], ["kind"]),
    "map of dictionaries": case(
        [[("a", "b")], None, [("c", "b"), ("a", None)]],
        pa.map_(pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int32(), pa.string())),
    ),
    "duration s": case([1, None, -(2**63), 2**63 - 1], pa.duration("s")),
    "duration ns": case([1, None, -1], pa.duration("ns")),
    "list of duration": case([[1, None], None, []], pa.list_(pa.duration("us"))),
    "uint64": case([0, None, 2**64 - 1, 2**63], pa.uint64()),
    "map of uint64": case([[(2**64 - 1, 0)], None], pa.map_(pa.uint64(), pa.uint64())),
    "float16": pa.array([0.5, None, -0.0, 65504, float("inf"), 6e-8], pa.float16()),
    "time64 us": case([0, None, 86_400_000_000 - 1], pa.time64("us")),
    "time64 ns": case([1, None, 86_400_000_000_000 - 1], pa.time64("ns")),
    "time32 s": case([0, None, 86_399], pa.time32("s")),
    "interval": case([(1, -2, 3), None, (-1, 0, 2**62)], pa.month_day_nano_interval()),
    "decimal256": case([decimal.Decimal(10**75), None, decimal.Decimal(-1)], pa.decimal256(76, 0)),
    "decimal of odd scale": case([decimal.Decimal("1e-9"), None], pa.decimal128(3, 9)),
    "null": pa.nulls(3),
    "list of null": case([[None], None, []], pa.list_(pa.null())),
    "fixed list": case([[1, None], None, [3, 4]], pa.list_(pa.float32(), 2)),
    "fixed list of none": case([[], None], pa.list_(pa.int8(), 0)),
    "fixed list of text": case([["a", "b"], None], pa.list_(pa.string(), 2)),
    "fixed list in fixed list": case([[[1, 2]], None, [None]], pa.list_(pa.list_(pa.int8(), 2), 1)),
    "list view of views": case([["a", None], None, []], pa.list_view(pa.string_view())),
    "large list view": case([[[1]], None, []], pa.large_list_view(pa.list_view(pa.int8()))),
    "runs": pc.run_end_encode(pa.array([1, 1, None, 2, 2]), pa.int16()),
    "runs of text": pc.run_end_encode(pa.array(["a", "a", None])),
    "extension of struct": pa.ExtensionArray.from_storage(
        pa.opaque(POINT, "point", "me"), pa.array(POINTS, POINT)
    ),
    "tensor": pa.ExtensionArray.from_storage(
        pa.fixed_shape_tensor(pa.float32(), [2]),
        pa.array([[1, 2], None], pa.list_(pa.float32(), 2)),
    ),
    "date64": case([86_400_000, None], pa.date64()),
    "binary of 3 bytes": case([b"abc", None], pa.binary(3)),
}


def is_equal(actual: pa.Table, expected: pa.Table) -> bool:
    """Equal in types, metadata and values; values behind nulls and chunks do not count."""
    actual.validate(full=True)
    return actual.schema.equals(expected.schema, check_metadata=True) and (
        actual.equals(expected)
        # Arrow compares the values of dictionaries in place, and not at all in lists and structs.
        or actual.to_pylist() == expected.to_pylist()
    )


def parts(array):
    """The table of an array whole, sliced, empty, in chunks, and as a required column."""
    yield pa.table({"c": array})
    yield pa.table({"c": array.slice(1), "other": range(len(array) - 1)})
    yield pa.table({"c": array[:0]})
    chunks = pa.chunked_array([array[:1], array[:0], array[1:], array])
    schema = pa.schema([pa.field("c", array.type, metadata={"about": "it"})], {"of": "all"})
    yield pa.table([chunks], schema=schema)
    if not pa.types.is_null(array.type) and not pa.types.is_run_end_encoded(array.type):
        valid = array.filter(array.is_valid())
        yield pa.table([valid], schema=pa.schema([pa.field("c", array.type, nullable=False)]))


@pytest.mark.parametrize("array", CASES.values(), ids=CASES)
def test_it_comes_back(array):
    for table in parts(array):
        for options in ({}, {"compression": "none", "write_statistics": True}):
            data = written(table, **options)
            assert is_equal(fm.read_table(data), table)
            assert fm.verify(data).ok


@pytest.mark.parametrize("array", CASES.values(), ids=CASES)
def test_apaches_reader_shows_what_is_stored(array):
    for table in parts(array):
        data = written(table)
        theirs = their_reader(data).read_all()
        stored = fm.read_table(data, logical=False)
        assert stored.schema.equals(theirs.schema)
        assert stored.equals(theirs)


@pytest.mark.parametrize("array", CASES.values(), ids=CASES)
def test_it_comes_back_from_a_stream_and_a_dataset(array, tmp_path):
    table = pa.table({"c": array, "id": range(len(array))})
    sink = io.BytesIO()
    with fm.MosaicWriter(sink, table.schema, row_group_size=2) as writer:
        for start in range(len(table)):
            writer.write(table.slice(start, 1))
    assert is_equal(fm.read_table(sink.getvalue()), table)
    batches = fm.MosaicFile(sink.getvalue()).iter_batches(1)
    assert is_equal(pa.Table.from_batches(batches), table)
    fm.write_dataset(table, tmp_path / "data", max_rows_per_file=2)
    assert is_equal(fm.read_table(tmp_path / "data"), table)
    fm.write_dataset(table, tmp_path / "parts", partitioning=["id"])
    assert is_equal(fm.read_table(tmp_path / "parts").select(["c"]), table.select(["c"]))


def plain_values(column):
    """Python values; durations, which Python limits, as numbers."""
    is_duration = pa.types.is_duration(column.type)
    return (column.cast(pa.int64()) if is_duration else column).to_pylist()


@pytest.mark.parametrize("array", CASES.values(), ids=CASES)
def test_rows_of_it_are_chosen(array, tmp_path):
    table = pa.table({"c": array, "id": range(len(array))})
    data = written(table, row_group_size=2)
    expected = table.slice(1)
    found = fm.read_table(data, columns=["c"], filters=pc.field("id") > 0)
    assert is_equal(found, expected.select(["c"]))
    batches = fm.MosaicFile(data).iter_batches(1, filters=pc.field("id") > 0)
    assert is_equal(pa.Table.from_batches(batches), expected)
    fm.write_dataset(table, tmp_path / "data", max_rows_per_file=2)
    dataset = fm.MosaicDataset(tmp_path / "data")
    assert is_equal(dataset.to_table(filter=pc.field("id") > 0), expected)
    assert is_equal(dataset.head(1), table.slice(0, 1))
    rows = dataset.take([1, 0, 1])
    assert rows.schema == table.schema
    values = plain_values(table["c"])
    assert plain_values(rows["c"]) == [values[1], values[0], values[1]]
    assert plain_values(dataset.take([0], filter=pc.field("id") > 0)["c"]) == [values[1]]
    assert dataset.count_rows(pc.field("c").is_null()) == sum(value is None for value in values)


def test_dictionaries_keep_their_order_and_what_no_row_has():
    table = pa.table({"c": DICTIONARY, "s": pa.StructArray.from_arrays([DICTIONARY], ["kind"])})
    found = fm.read_table(written(table))
    for array in (found["c"].chunk(0), found["s"].chunk(0).field("kind")):
        assert array.dictionary.to_pylist() == ["z", "unused", "a"]
        assert array.indices.to_pylist() == [2, None, 0, 2]


def test_dictionaries_of_chunks_are_united():
    chunks = [pa.array(["b", "a"]).dictionary_encode(), pa.array(["c", "b"]).dictionary_encode()]
    table = pa.table({"c": pa.chunked_array(chunks)})
    found = fm.read_table(written(table))["c"].chunk(0)
    assert found.dictionary.to_pylist() == ["b", "a", "c"]
    assert found.to_pylist() == ["b", "a", "c", "b"]


def test_indices_get_wider_if_the_dictionaries_of_chunks_need_it():
    texts = [f"{i:03}" for i in range(200)]
    small = pa.dictionary(pa.int8(), pa.string())
    chunks = [pa.array(texts[:100], small), pa.array(texts[100:], small)]
    found = fm.read_table(written(pa.table({"c": pa.chunked_array(chunks)})))
    assert found.schema.field("c").type == pa.dictionary(pa.int16(), pa.string())
    assert found["c"].to_pylist() == texts


def test_a_dictionary_is_read_only_with_its_column():
    values = pa.array([f"a long value that is repeated {i}" for i in range(50_000)])
    table = pa.table({"c": values.dictionary_encode(), "id": range(50_000)})
    data = written(table)
    assert counted(data, ["id"]) == counted(data, ["id"], logical=False)
    assert counted(data, ["c"]) > 2 * counted(data, ["c"], logical=False)
    assert is_equal(fm.read_table(data), table)


# ---- what is stored


def test_how_structs_are_stored():
    data = written(pa.table({"p": pa.array(PEOPLE, PERSON), "a": [1, 2, 3, 4]}))
    assert fm.read_table(data, logical=False).schema == pa.schema(
        [
            pa.field("p.__null__", pa.bool_(), nullable=False),
            ("p.name", pa.string()),
            ("p.age", pa.int16()),
            pa.field("p.at.__null__", pa.bool_(), nullable=False),
            ("p.at.city", pa.string()),
            ("p.at.zip", pa.decimal128(20, 0)),
            ("p.tags", pa.list_(pa.string())),
            ("a", pa.int64()),
        ]
    )
    assert fm.read_table(
        data, columns=["p.__null__", "p.at.__null__"], logical=False
    ).to_pydict() == {
        "p.__null__": [False, True, False, False],
        "p.at.__null__": [False, True, True, False],
    }


def test_how_structs_in_lists_and_maps_are_stored():
    schema = {"l": pa.list_(POINT), "m": pa.map_(pa.string(), POINT)}
    rows = [{"l": POINTS[:2], "m": [("k", POINTS[0])]}, {"l": None, "m": []}]
    data = written(pa.Table.from_pylist(rows, pa.schema(schema)))
    assert fm.read_table(data, logical=False).to_pydict() == {
        "l.__struct_null__": [[False, True], None],
        "l.x": [[1, None], None],
        "l.y": [[0.5, None], None],
        "m.key": [["k"], []],
        "m.value.__struct_null__": [[False], []],
        "m.value.x": [[1], []],
        "m.value.y": [[0.5], []],
    }


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"p": pa.array(POINTS, POINT), "p.x": [1] * 4}),
        pa.table({"p.x": [1] * 4, "p": pa.array(POINTS, POINT)}),
        pa.table({"p": pa.array([{"a.b": 1, "a": {"b": 2}}])}),
        pa.table({"p": pa.array([{"a": 1}]), "p.__null__": [1]}),
    ],
)
def test_names_that_collide_are_refused(table):
    with pytest.raises((fm.UnsupportedError, ValueError), match=r"p\.(x|a\.b|__null__)"):
        written(table)


def test_a_file_without_null_flags_has_no_null_structs():
    """Another writer may leave them out."""
    data = written(pa.table({"p.x": [1, None]}), annex=False, compression="none")
    footer = Footer.decode(data, len(data))
    listed = user_schema.encode(pa.schema({"p": pa.struct([("x", pa.int64())])}))
    annex = Annex(attached=listed).encode()
    moved = replace(
        footer,
        index_offset=footer.index_offset + len(annex),
        schema_offset=footer.schema_offset + len(annex),
        flags=Flag.ANNEX | Flag.TYPES,
    )
    end = footer.schema_offset
    data = data[:end] + annex + data[end : -Footer.SIZE] + moved.encode()
    assert fm.read_table(data).to_pylist() == [{"p": {"x": 1}}, {"p": {"x": None}}]


# ---- columns


WIDE = pa.table(
    {
        "id": range(20_000),
        "info": pa.StructArray.from_arrays(
            [
                pa.array(range(20_000)),
                pa.array([f"{i * 7919 % 20_011:x}" for i in range(20_000)]),
                pa.StructArray.from_arrays([pa.array([i * 0.37 for i in range(20_000)])], ["z"]),
            ],
            ["a", "text", "in"],
        ),
    }
)


def counted(data, columns, **options):
    """The number of bytes of buckets that are read for columns."""
    total = 0
    read = fetch.read_ranges

    def counting(source, ranges, **more):
        nonlocal total
        total += sum(size for _, size in ranges)
        return read(source, ranges, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fetch, "read_ranges", counting)
        patch.setattr(fetch, "WHOLE_BUCKET_BYTES_LOCAL", 0)
        # Otherwise some of the bytes were read when the file was opened.
        patch.setattr("fastmosaic.file.opening.TAIL_BYTES_LOCAL", 32)
        fm.read_table(data, columns=columns, **options)
    return total


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (["info"], ["a", "text", "in"]),
        (["info.a"], ["a"]),
        (["info.in", "info.a"], ["a", "in"]),
        (["info.in.z"], ["in"]),
        (["info.*"], ["a", "text", "in"]),
        (["*.t*"], ["text"]),
        (["info.?", "id"], ["a"]),
        (["info.a", "info"], ["a", "text", "in"]),
    ],
)
def test_fields_of_structs_are_selected(columns, expected):
    found = fm.read_table(written(WIDE.slice(0, 10)), columns=columns)
    assert [field.name for field in found.schema.field("info").type] == expected
    for name in expected:
        assert (
            found["info"].combine_chunks().field(name).to_pylist()
            == WIDE["info"].slice(0, 10).combine_chunks().field(name).to_pylist()
        )


def test_a_leaf_is_read_alone():
    data = written(WIDE, page_size_threshold=1)
    sizes = {name: counted(data, [name]) for name in ("info", "info.a", "info.text", "info.in.z")}
    nulls = counted(data, ["info.__null__"], logical=False)
    alone = counted(data, ["info.text"], logical=False)
    assert sizes["info.text"] == alone + nulls
    assert sizes["info"] == sum(
        counted(data, [name], logical=False)
        for name in ("info.__null__", "info.a", "info.text", "info.in.__null__", "info.in.z")
    )
    assert sizes["info.a"] + sizes["info.text"] < sizes["info"]


def test_fields_inside_lists_and_maps_are_selected():
    schema = {"l": pa.list_(POINT), "m": pa.map_(pa.string(), POINT)}
    rows = [{"l": POINTS[:2], "m": [("k", POINTS[0])]}, {"l": None, "m": []}]
    data = written(pa.Table.from_pylist(rows, pa.schema(schema)))
    assert fm.read_table(data, columns=["l.x", "m.value.y"]).to_pylist() == [
        {"l": [{"x": 1}, None], "m": [("k", {"y": 0.5})]},
        {"l": None, "m": []},
    ]


@pytest.mark.parametrize(
    "name", ["info.b", "inf.a", "info.a.b", "info.", ".a", "info.in.a", "id.a"]
)
def test_a_path_that_does_not_exist(name):
    with pytest.raises(fm.ColumnNotFoundError, match="no column named"):
        fm.read_table(written(WIDE.slice(0, 1)), columns=[name])


def test_a_name_with_dots_is_not_a_path():
    table = pa.table({"a.b": [1], "a": pa.array([{"c": 2}])})
    data = written(table)
    assert fm.read_table(data, columns=["a.b"]).to_pylist() == [{"a.b": 1}]
    assert fm.read_table(data, columns=["a.c"]).to_pylist() == [{"a": {"c": 2}}]
    assert is_equal(fm.read_table(data), table)


# ---- filters


FILTERED = pa.table(
    {
        "id": pa.array(range(1000), pa.int64()),
        "p": pa.array(
            [
                None if i % 7 == 0 else {"x": None if i % 5 == 0 else i, "y": i / 2}
                for i in range(1000)
            ],
            POINT,
        ),
        "d": pa.array([None if i % 3 == 0 else i - 500 for i in range(1000)], pa.duration("ms")),
        "u": pa.array([2**63 + i * 2**40 for i in range(1000)], pa.uint64()),
        "t": pa.array([i * 86_000_000 for i in range(1000)], pa.time64("us")),
        "kind": pa.array([f"k{i // 100}" for i in range(1000)]).dictionary_encode(),
        "s": pa.array(range(1000), pa.timestamp("s")),
        "in": pa.array([{"p": {"u": i}} for i in range(1000)]).cast(
            pa.struct([("p", pa.struct([("u", pa.uint64())]))])
        ),
    }
)
DURATION = pa.scalar(250, pa.duration("ms"))

EXPRESSIONS = {
    "field": pc.field("p", "x") > 750,
    "field and column": (pc.field("p", "x") > 750) & (pc.field("id") < 800),
    "not": ~(pc.field("p", "y") < 450.0),
    "nested": pc.field("in", "p", "u") >= pa.scalar(900, pa.uint64()),
    "null struct": pc.field("p").is_null(),
    "null field": pc.field("p", "x").is_null() & (pc.field("id") > 900),
    "duration": pc.field("d") > DURATION,
    "duration of another unit": pc.field("d") > pa.scalar(250_000_000, pa.duration("ns")),
    "timedelta": pc.field("d") == datetime.timedelta(milliseconds=-300),
    "uint64": pc.field("u") > pa.scalar(2**63 + 900 * 2**40, pa.uint64()),
    "uint64 in": pc.field("u").isin(pa.array([2**63, 2**63 + 2**40 * 999], pa.uint64())),
    "time": pc.field("t") >= pa.scalar(datetime.time(23, 0)),
    "dictionary": pc.field("kind") == "k7",
    "seconds": pc.field("s") < pa.scalar(100, pa.timestamp("s")),
    "fields of one struct": pc.field("p", "x") > pc.field("p", "y"),
    "function of a struct": pc.struct_field(pc.field("p"), "x") < 20,
}
SELECTIVE = {
    "field",
    "field and column",
    "nested",
    "duration",
    "duration of another unit",
    "timedelta",
    "uint64",
    "time",
}


@pytest.fixture(scope="module")
def filtered():
    return written(FILTERED, row_group_size=100, write_statistics=True)


@pytest.mark.parametrize("columns", [None, ["id"], ["p.y"], ["in", "p"]], ids=str)
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_filters_find_what_arrow_finds(filtered, name, columns):
    expression = EXPRESSIONS[name]
    expected = FILTERED.filter(expression)
    assert 0 < len(expected) < len(FILTERED)
    found = fm.read_table(filtered, columns=columns, filters=expression)
    if columns == ["p.y"]:
        values = pc.struct_field(expected["p"], "y")
        assert pc.struct_field(found["p"], "y").equals(values)
        assert found.column_names == ["p"]
    else:
        names = expected.column_names if columns is None else columns
        assert found.to_pylist() == expected.select(names).to_pylist()


@pytest.mark.parametrize("name", sorted(SELECTIVE))
def test_filters_skip_row_groups(filtered, name):
    groups = set()
    scan = fm.file.scan.Scanner.batches

    def counting(self, request, numbers, rows):
        groups.update(numbers)
        return scan(self, request, numbers, rows)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fm.file.scan.Scanner, "batches", counting)
        fm.read_table(filtered, filters=EXPRESSIONS[name])
    assert 0 < len(groups) <= 5


def test_expressions_read_the_fields_that_they_use(tmp_path):
    fm.write_table(FILTERED, tmp_path / "a.mosaic")
    dataset = fm.MosaicDataset(tmp_path / "a.mosaic")
    whole = dataset.to_table(columns={"p": pc.field("p"), "x": pc.field("p", "x")})
    assert whole["p"].equals(FILTERED["p"])
    assert whole["x"].equals(pc.struct_field(FILTERED["p"], "x"))
    field = dataset.to_table(columns={"y": pc.field("p", "y") * 2})
    assert field["y"].equals(pc.multiply(pc.struct_field(FILTERED["p"], "y"), 2))


def test_filters_as_tuples_may_name_fields(filtered):
    found = fm.read_table(filtered, columns=["id"], filters=[("p.x", ">", 990), ("id", "<", 999)])
    expected = FILTERED.filter((pc.field("p", "x") > 990) & (pc.field("id") < 999))
    assert found["id"].equals(expected["id"])
    either = [[("in.p.u", "==", 3)], [("p.y", "==", 4.0)]]
    assert fm.read_table(filtered, columns=["id"], filters=either)["id"].to_pylist() == [3, 8]
    with pytest.raises(fm.ColumnNotFoundError, match=r"p\.q"):
        fm.read_table(filtered, filters=[("p.q", ">", 1)])


def test_a_filter_reads_only_the_fields_that_it_uses():
    data = written(WIDE, page_size_threshold=1)
    expression = pc.field("info", "a") < 0
    assert counted(data, ["id"], filters=expression) == counted(data, ["id", "info.a"])


def test_statistics_have_the_types_of_the_user(filtered):
    statistics = fm.read_metadata(filtered).row_group(9).statistics
    assert statistics["u"].max == 2**63 + 999 * 2**40
    assert statistics["in.p.u"].min == 900
    assert statistics["d"].min == datetime.timedelta(milliseconds=401)
    assert statistics["p.x"].max == 999
    stored = fm.MosaicFile(filtered, logical=False)
    assert stored.read(["u"], filters=[("u", "==", decimal.Decimal(2**63))]).num_rows == 1


@pytest.mark.parametrize("chosen", [["p"], ["p.x", "p.y"]])
def test_statistics_of_fields_are_written_by_name(chosen):
    data = written(FILTERED.select(["p"]), write_statistics=chosen)
    expected = {"p.x", "p.y"} | ({"p.__null__"} if chosen == ["p"] else set())
    assert fm.read_metadata(data).row_group(0).statistics.keys() == expected
    with pytest.raises(fm.ColumnNotFoundError, match="write_statistics"):
        written(FILTERED, write_statistics=["p.z"])


# ---- many files


def test_structs_of_files_are_united(tmp_path):
    fm.write_table(pa.table({"p": pa.array([{"x": 1}, None])}), tmp_path / "a.mosaic")
    more = pa.array([{"y": "b", "x": 2.5}], pa.struct([("y", pa.string()), ("x", pa.float64())]))
    fm.write_table(pa.table({"p": more}), tmp_path / "b.mosaic")
    fm.write_table(pa.table({"q": [1]}), tmp_path / "c.mosaic")
    dataset = fm.MosaicDataset(tmp_path)
    assert dataset.schema.field("p").type == pa.struct([("x", pa.float64()), ("y", pa.string())])
    assert dataset.to_table(["p"]).to_pylist() == [
        {"p": {"x": 1.0, "y": None}},
        {"p": None},
        {"p": {"x": 2.5, "y": "b"}},
        {"p": None},
    ]
    assert dataset.to_table(["p.y"]).to_pylist() == [
        {"p": {"y": None}},
        {"p": None},
        {"p": {"y": "b"}},
        {"p": None},
    ]
    assert dataset.to_table(filter=pc.field("p", "x") > 1.5).num_rows == 1
    assert dataset.to_table(filter=pc.field("p", "y").is_null()).num_rows == 3


def test_lists_of_structs_of_files_are_united(tmp_path):
    required = pa.list_(pa.field("item", pa.struct([("x", pa.int8())]), nullable=False))
    fm.write_table(pa.table({"l": pa.array([[{"x": 1}], None], required)}), tmp_path / "a.mosaic")
    fm.write_table(pa.table({"l": pa.array([[{"y": "b"}, None]])}), tmp_path / "b.mosaic")
    found = fm.read_table(tmp_path, columns=["l.y"])
    assert found.to_pylist() == [{"l": [{"y": None}]}, {"l": None}, {"l": [{"y": "b"}, None]}]


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (pa.duration("s"), pa.duration("ns"), pa.duration("ns")),
        (pa.time32("s"), pa.time64("us"), pa.time64("us")),
        (pa.uint64(), pa.int8(), pa.decimal128(20, 0)),
        (pa.uint64(), pa.float32(), pa.float64()),
        (pa.float16(), pa.float64(), pa.float64()),
        (pa.dictionary(pa.int8(), pa.string()), pa.string(), pa.string()),
        (pa.list_(pa.int8(), 1), pa.list_(pa.int32()), pa.list_(pa.int32())),
        (pa.null(), pa.string(), pa.string()),
    ],
    ids=str,
)
def test_types_of_files_are_united(tmp_path, one, other, expected):
    values = [[1], None] if pa.types.is_nested(one) else ["1" if "string" in str(one) else 1, None]
    values = [None, None] if pa.types.is_null(one) else values
    others = ["2"] if pa.types.is_string(other) else [[2]] if pa.types.is_nested(other) else [2]
    fm.write_table(pa.table({"c": pa.array(values, one)}), tmp_path / "a.mosaic")
    fm.write_table(pa.table({"c": pa.array(others, other)}), tmp_path / "b.mosaic")
    found = fm.read_table(tmp_path)
    assert found.schema.field("c").type == expected
    assert found["c"].null_count == values.count(None)


@pytest.mark.parametrize(
    ("one", "other"),
    [(pa.duration("s"), pa.int64()), (POINT, pa.int64()), (pa.time64("us"), pa.int64())],
    ids=str,
)
def test_a_type_and_what_it_is_stored_as_are_different(tmp_path, one, other):
    fm.write_table(pa.table({"c": pa.array([None], one)}), tmp_path / "a.mosaic")
    fm.write_table(pa.table({"c": pa.array([1], other)}), tmp_path / "b.mosaic")
    with pytest.raises(fm.SchemaMismatchError, match="no common type"):
        fm.read_table(tmp_path)
    writer = fm.MosaicWriter(io.BytesIO(), pa.schema({"c": other}))
    with pytest.raises(fm.SchemaMismatchError, match="'c'"):
        writer.write(pa.table({"c": pa.array([None], one)}))


def test_dictionaries_of_files_are_united(tmp_path):
    for name, values in (("a", ["y", "x"]), ("b", ["z", "x"])):
        array = pa.DictionaryArray.from_arrays(pa.array([1, 0], pa.int8()), pa.array(values))
        fm.write_table(pa.table({"c": array}), tmp_path / f"{name}.mosaic")
    found = fm.read_table(tmp_path)
    assert found.schema.field("c").type == pa.dictionary(pa.int8(), pa.string())
    assert [chunk.dictionary.to_pylist() for chunk in found["c"].chunks] == [["y", "x", "z"]] * 2
    assert found["c"].to_pylist() == ["x", "y", "x", "z"]


# ---- nulls where the schema allows none


@pytest.mark.parametrize(
    "array",
    [
        pa.StructArray.from_arrays(
            [pa.array([1, None])], fields=[pa.field("x", pa.int64(), False)]
        ),
        pa.array(
            [[{"x": 1}], [{"x": None}]], pa.list_(pa.struct([pa.field("x", pa.int8(), False)]))
        ),
    ],
)
def test_nulls_in_required_fields_are_refused(array):
    with pytest.raises(fm.SchemaMismatchError, match="null where the schema allows none"):
        written(pa.table({"c": array}))


def test_a_required_field_of_a_null_struct_is_no_null():
    type = pa.struct([pa.field("x", pa.int64(), nullable=False)])
    array = pa.StructArray.from_arrays(
        [pa.array([1, None])], fields=list(type), mask=pa.array([False, True])
    )
    assert is_equal(fm.read_table(written(pa.table({"c": array}))), pa.table({"c": array}))


# ---- values that the type of the writer does not have


@pytest.mark.parametrize(
    ("type", "fits", "other"),
    [
        (pa.uint8(), pa.array([255], pa.int16()), pa.array([-1], pa.int16())),
        (pa.uint32(), pa.array([2**32 - 1]), pa.array([2**32])),
        (pa.float16(), pa.array([0.5], pa.float32()), pa.array([0.1], pa.float32())),
        (pa.binary(2), pa.array([b"ab"]), pa.array([b"abc"])),
        (
            pa.list_(pa.int8(), 1),
            pa.array([[1]], pa.list_(pa.int8())),
            pa.array([[]], pa.list_(pa.int8())),
        ),
        (
            pa.timestamp("s"),
            pa.array([1000], pa.timestamp("ms")),
            pa.array([1], pa.timestamp("ms")),
        ),
        (pa.null(), pa.array([None], pa.string()), pa.array(["a"])),
        (
            pa.struct([("x", pa.uint8())]),
            pa.array([{"x": 1}], pa.struct([("x", pa.int16())])),
            pa.array([{"x": 256}], pa.struct([("x", pa.int16())])),
        ),
        (
            pa.dictionary(pa.int8(), pa.uint8()),
            pa.array([1], pa.int16()),
            pa.array([256], pa.int16()),
        ),
    ],
    ids=str,
)
def test_values_must_fit_the_type_of_the_writer(type, fits, other, tmp_path):
    schema = pa.schema({"c": type})
    sink = io.BytesIO()
    with fm.MosaicWriter(sink, schema) as writer:
        writer.write(pa.table({"c": fits}))
    found = fm.read_table(sink.getvalue())
    assert found.schema == schema
    assert found["c"].to_pylist() == fits.to_pylist()
    with pytest.raises(fm.SchemaMismatchError, match=r"'c': values of type .* do not fit"):
        fm.write_table(pa.table({"c": other}), io.BytesIO(), schema=schema)
    with pytest.raises(fm.SchemaMismatchError, match=r"'c': values of type .* do not fit"):
        fm.write_dataset(pa.table({"c": other}), tmp_path / "data", schema=schema)


# ---- what plain columns cost


def test_a_plain_table_has_no_types_in_its_annex():
    table = pa.table({"a": [1], "b": ["x"], "c": [[1.0]]})
    metadata = fm.read_metadata(written(table))
    assert metadata.annex.attached is None
    assert not metadata.footer.restores_types


def test_only_columns_of_other_types_are_listed():
    table = pa.table({f"c{i}": [i] for i in range(100)} | {"d": pa.array([1], pa.duration("s"))})
    metadata = fm.read_metadata(written(table))
    assert metadata.attached.given.names == ["d"]
    assert metadata.footer.restores_types


def test_reading_one_of_many_columns_decodes_no_other():
    columns = {f"c{i:05}": [i] for i in range(10_000)} | {"p": pa.array(POINTS[:1], POINT)}
    data = written(pa.table(columns))
    made = 0
    field = pa.field

    def counting(*arguments, **options):
        nonlocal made
        made += 1
        return field(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pa, "field", counting)
        assert fm.read_table(data, columns=["c05000", "p.x"]).num_rows == 1
    assert made < 50


# ---- types that most columns have


def views(count, **others):
    """A table with columns of string views, as Polars makes it, and others."""
    texts = pa.array(["a", None], pa.string_view())
    return pa.table({f"c{i}": texts for i in range(count)} | others)


def test_a_type_that_most_columns_have_is_stored_once():
    table = views(1000, plain=pa.array(["x", "y"]), d=pa.array([1, 2], pa.duration("s")))
    data = written(table)
    metadata = fm.read_metadata(data)
    assert metadata.attached.given.names == ["plain", "d"]
    assert metadata.annex.size < 1000
    assert is_equal(fm.read_table(data), table)
    assert fm.read_table(data, columns=["plain", "c7"]).equals(table.select(["plain", "c7"]))
    assert fm.verify(data).ok


def test_a_few_columns_are_listed():
    table = views(15)
    metadata = fm.read_metadata(written(table))
    assert metadata.annex.common is None
    assert metadata.attached.given.names == table.column_names


def test_common_types_of_several_kinds():
    kinds = {
        "u": pa.array([1, 255], pa.uint8()),
        "f": pa.array([0.5, None], pa.float16()),
        "k": pa.array(["x", "y"]).dictionary_encode(),
        "l": pa.array([["a"], None], pa.large_list(pa.large_string())),
        "p": pa.array(POINTS[:2], POINT),
        "j": pa.ExtensionArray.from_storage(pa.json_(), pa.array(["1", "2"])),
    }
    table = pa.table({f"{name}{i}": kinds[name] for i in range(20) for name in kinds})
    data = written(table)
    assert len(fm.read_metadata(data).attached.given) == 40  # structs and extension types
    assert is_equal(fm.read_table(data), table)
    assert is_equal(fm.read_table(data, columns=["k3", "u7"]), table.select(["k3", "u7"]))


def test_common_types_in_a_dataset(tmp_path):
    keys = pa.array(["p", "q"])
    fm.write_dataset(views(20, key=keys), tmp_path / "data", partitioning=["key"])
    found = fm.read_table(tmp_path / "data")
    assert found.schema.field("c3").type == pa.string_view()
    assert found.schema.field("key").type == pa.string()  # it is in no file
    fm.write_table(views(20, more=keys).drop_columns("c3"), tmp_path / "data" / "more.mosaic")
    found = fm.read_table(tmp_path / "data", partitioning=None)
    assert found.schema.field("c4").type == pa.string_view()
    assert found.schema.field("more").type == pa.string()
    fm.write_table(pa.table({"c4": ["b"]}), tmp_path / "data" / "other.mosaic")
    found = fm.read_table(tmp_path / "data", partitioning=None)
    assert found.schema.field("c4").type == pa.string()
    assert found["c4"].to_pylist() == ["a", None, "a", None, "b"]

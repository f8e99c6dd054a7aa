"""Annexes that do not fit the file: refused with the part and the column, or harmless.

Nothing is read that the annex and the stored columns do not both say, and `verify` reports what
reading refuses.
"""

import re

import annex_reference
import pyarrow as pa
import pytest
from costs import assert_cheap
from files import written
from forged_annex import ANNEX, TYPES, forged
from user_types import column_cells

import fastmosaic as fm

I32, BOOL, TEXT = pa.int32(), pa.bool_(), pa.string()


def field(name: str, arrow: pa.DataType, nullable: bool = True) -> pa.Field:
    return pa.field(name, arrow, nullable)


def struct(*fields: tuple) -> pa.DataType:
    return pa.struct([field(*one) for one in fields])


def schema(*fields: tuple) -> pa.Schema:
    return pa.schema([field(*one) for one in fields])


def table(*columns: tuple) -> pa.Table:
    """A table of columns `(name, values, type, nullable)`."""
    fields = [field(name, arrow, *nullable) for name, _, arrow, *nullable in columns]
    arrays = [pa.array(values, arrow) for _, values, arrow, *_ in columns]
    return pa.table(arrays, schema=pa.schema(fields))


def lists(arrow: pa.DataType, nullable: bool = True) -> pa.DataType:
    return pa.list_(field("item", arrow, nullable))


def one(values: list, stored: pa.DataType, user: pa.DataType, **options) -> bytes:
    """A column `u`."""
    return forged(table(("u", values, stored)), schema(("u", user)), **options)


def deep(depth: int) -> bytes:
    """Structs in structs."""
    arrow = I32
    for _ in range(depth):
        arrow = struct(("a", arrow))
    return forged(table((".".join("a" * (depth + 1)), [1], I32)), schema(("a", arrow)))


X = struct(("x", I32))
NULLS = lists(BOOL, nullable=False)
INFO = table(("info.__null__", [False, True], BOOL, False), ("info.x", [1, None], I32))
ITEMS = schema(("a", pa.list_(struct(("x", I32), ("y", I32)))))
MAP = schema(("m", pa.map_(TEXT, X)))
DICTIONARY = pa.dictionary(pa.int8(), TEXT)
LETTERS = table(("u", ["a", "b"], TEXT))
OF_LETTERS = schema(("u", DICTIONARY))


def dictionaries(*values: list, arrow: pa.DataType = TEXT, **options) -> bytes:
    """A file of letters, and a file of dictionaries with one for them."""
    inner = written(table(("u", list(values), pa.list_(arrow))))
    return forged(LETTERS, OF_LETTERS, **{"dictionaries": inner, **options})


OF_A = written(table(("u", [["a"]], pa.list_(TEXT))))


def nested_dictionaries(depth: int) -> bytes:
    data = OF_A
    for _ in range(depth):
        stored = table(("u", [["a", "b"]], pa.list_(TEXT)))
        data = forged(stored, schema(("u", pa.list_(DICTIONARY))), dictionaries=data)
    return data


def items(nulls: list, x: list, y: list) -> pa.Table:
    return table(
        ("a.__struct_null__", nulls, NULLS), ("a.x", x, pa.list_(I32)), ("a.y", y, pa.list_(I32))
    )


def entries(keys: list, nulls: list, x: list) -> pa.Table:
    return table(
        ("m.key", keys, lists(TEXT, nullable=False)),
        ("m.value.__struct_null__", nulls, NULLS),
        ("m.value.x", x, lists(I32)),
    )


def extension(name: str, metadata: str) -> bytes:
    keys = {"ARROW:extension:name": name, "ARROW:extension:metadata": metadata}
    return forged(LETTERS, pa.schema([pa.field("u", TEXT, metadata=keys)]))


REFUSED = {
    # columns
    "another type": (
        forged(INFO, schema(("info", struct(("x", pa.int64()))))),
        "annex, column 'info.x': it is stored as int32, but the type in the annex requires int64",
    ),
    "a missing leaf": (
        forged(INFO, schema(("info", struct(("x", I32), ("y", I32))))),
        "annex, column 'info.y': .*not in the file",
    ),
    "nulls of another type": (
        forged(
            table(("info.__null__", [1, 0], I32, False), ("info.x", [1, 2], I32)),
            schema(("info", X)),
        ),
        "annex, column 'info.__null__': it is stored as int32 not null",
    ),
    "nulls that may be null": (
        forged(table(("info.__null__", [False], BOOL), ("info.x", [1], I32)), schema(("info", X))),
        "annex, column 'info.__null__': it is stored as bool, ",
    ),
    "a leaf that must not be null": (
        forged(
            table(("info.__null__", [False], BOOL, False), ("info.x", [1], I32, False)),
            schema(("info", X)),
        ),
        "annex, column 'info.x': it is stored as int32 not null, ",
    ),
    "an empty struct without a column": (
        forged(LETTERS, schema(("info", struct()))),
        "annex, column 'info.__null__': .*not in the file",
    ),
    "lists of empty structs without a column": (
        forged(LETTERS, schema(("info", pa.list_(struct())))),
        "annex, column 'info.__struct_null__'",
    ),
    "lists of empty structs in structs": (
        forged(
            table(("a.x", [[1]], pa.list_(I32))),
            schema(("a", pa.list_(struct(("x", I32), ("b", pa.list_(struct())))))),
        ),
        "annex, column 'a.b.__struct_null__'",
    ),
    "a field that is called as nulls are": (
        forged(
            table(("info.x", [1], I32)),
            schema(("info", struct(("x", I32), ("__null__", BOOL, False)), False)),
        ),
        "annex, column 'info.__null__'",
    ),
    "a field twice": (
        forged(INFO, schema(("info", struct(("x", I32), ("x", I32))))),
        "annex, column 'info.x': the annex has two types for it",
    ),
    "leaves of two structs": (
        forged(
            table(
                ("a.__null__", [False], BOOL, False),
                ("a.b.c", [1], I32),
                ("a.b.__null__", [False], BOOL, False),
            ),
            schema(("a", struct(("b.c", I32))), ("a.b", struct(("c", I32)))),
        ),
        "annex, column 'a.b.c': it belongs to 'a', but also to another column",
    ),
    "structs that contain each other": (
        forged(
            table(("a.b.a.x", [1], I32)),
            schema(
                ("a", struct(("b", struct(("a", struct(("x", I32)), False)), False)), False),
                ("a.b", struct(("a", struct(("x", I32)), False)), False),
            ),
        ),
        "annex, column 'a.b.a.x': it belongs to 'a', but also to another column",
    ),
    "a leaf that is a column": (
        forged(
            table(("a.__null__", [False], BOOL, False), ("a.b", [1], pa.int16())),
            schema(("a", struct(("b", pa.int16()))), ("a.b", pa.uint8())),
        ),
        "annex, column 'a.b': it belongs to 'a', but also to another column",
    ),
    "a column twice": (
        forged(INFO, schema(("info", X), ("info", X))),
        "the annex lists a column twice",
    ),
    "a struct of 100,000 fields": (
        forged(INFO, schema(("info", struct(*((f"f{i}", I32) for i in range(100_000)))))),
        "annex, column 'info",
    ),
    "100,000 structs": (
        forged(INFO, schema(*((f"info{i}", X) for i in range(100_000)))),
        "annex, column 'info0.x': .*not in the file",
    ),
    "a long name in all leaves": (
        forged(INFO, schema(("n" * 1_000_000, struct(*((f"f{i}", I32) for i in range(5_000)))))),
        "annex, column 'nnn",
    ),
    "types of columns that do not exist": (
        forged(LETTERS, schema(*((f"f{i}", pa.uint8()) for i in range(100_000)))),
        "annex, column 'f0': .*not in the file",
    ),
    # nesting
    "structs nested 66 deep": (deep(66), "annex, column 'a': a type is nested more than 64 deep"),
    "structs nested 100 deep": (
        deep(100),
        "nested more than 64 deep|the metadata in the annex is damaged",
    ),
    "structs nested 200 deep": (deep(200), "the metadata in the annex is damaged"),
    "structs nested 2000 deep": (deep(2000), "the metadata in the annex is damaged"),
    # lists and nulls
    "lists of other lengths": (
        forged(items([[False]], [[1]], [[1, 2]]), ITEMS),
        "row group 0, column 'a.y': its lists differ in length from those of 'a.__struct_null__'",
    ),
    "nulls of other lengths": (
        forged(items([[False], []], [[1], [1]], [[1], [1]]), ITEMS),
        "column 'a.x': its lists differ in length",
    ),
    "lists that are null elsewhere": (
        forged(items([[]], [None], [[]]), ITEMS),
        "column 'a.x': its lists differ in length",
    ),
    "maps of other lengths": (
        forged(entries([["a", "b"]], [[False]], [[1]]), MAP),
        "column 'm.value.__struct_null__': its lists differ in length from those of 'm.key'",
    ),
    "a null in a field that must not be null": (
        forged(
            table(("info.__null__", [True, False], BOOL, False), ("info.x", [1, None], I32)),
            schema(("info", struct(("x", I32, False)))),
        ),
        "row group 0, column 'info.x': there are 1 nulls",
    ),
    "an empty struct that is null": (
        forged(table(("info.__null__", [True], BOOL, False)), schema(("info", struct(), False))),
        "row group 0, column 'info': there are 1 nulls",
    ),
    # the message
    "a flag without a section": (
        forged(INFO, None),
        "annex: the footer says that the annex restores types, but it does not",
    ),
    "a flag without an annex": (
        forged(INFO, None, flags=TYPES),
        "annex: the footer says that the annex restores types, but it does not",
    ),
    "a union": (
        forged(INFO, schema(("info", pa.dense_union([field("x", I32)])))),
        "annex, column 'info': the format has no type for dense_union",
    ),
    "a union in a struct": (
        forged(INFO, schema(("info", struct(("x", pa.sparse_union([field("x", I32)])))))),
        "annex, column 'info': the format has no type for sparse_union",
    ),
    "an extension type of another storage": (
        extension("arrow.fixed_shape_tensor", "{}"),
        "the metadata in the annex is damaged",
    ),
    "an extension type with broken metadata": (
        extension("arrow.opaque", "{{"),
        "the metadata in the annex is damaged",
    ),
    "a message of zeros": (forged(INFO, bytes(100)), "the metadata in the annex is damaged"),
    # common types
    "two types for one": (
        forged(LETTERS, None, common=schema(("", pa.large_string()), ("", pa.string_view()))),
        "the annex has several types for all columns of one type",
    ),
    "a common type of structs": (
        forged(LETTERS, None, common=schema(("", X))),
        "the annex has several types",
    ),
    "a common type that is stored as another": (
        forged(LETTERS, None, common=schema(("", pa.duration("s")))),
        "the annex has several types",
    ),
    "a column without nulls of type null": (
        forged(table(("u", ["a"], TEXT, False)), None, common=schema(("", pa.null()))),
        "annex, column 'u': it has type null, but is declared not null",
    ),
    "a common union": (
        forged(LETTERS, None, common=schema(("", pa.dense_union([field("x", I32)])))),
        "the metadata in the annex is damaged",
    ),
    # values
    "an unsigned number of 65 bits": (
        one([2**64], pa.decimal128(20, 0), pa.uint64()),
        "row group 0, column 'u': the values do not fit uint64",
    ),
    "a negative unsigned number": (
        one([-1], pa.decimal128(20, 0), pa.uint64()),
        "column 'u': the values do not fit uint64",
    ),
    "256 as a byte": (
        one([256], pa.int16(), pa.uint8()),
        "column 'u': the values do not fit uint8",
    ),
    "-1 of 32 bits": (
        one([-1], pa.int64(), pa.uint32()),
        "column 'u': the values do not fit uint32",
    ),
    "a time of the next day": (
        one([86_400_000_000], pa.int64(), pa.time64("us")),
        "row group 0, column 'u': .*time64",
    ),
    "a negative time": (one([-1], pa.int64(), pa.time64("ns")), "column 'u': .*time64"),
    "a negative time in a list": (
        one([[-1]], pa.list_(pa.int64()), pa.list_(pa.time64("ns"))),
        "column 'u': .*time64",
    ),
    "half a second": (
        one([1500], pa.time32("ms"), pa.time32("s")),
        "column 'u': the values do not fit time32",
    ),
    "half a second of a timestamp": (
        one([1500], pa.timestamp("ms"), pa.timestamp("s")),
        "column 'u': the values do not fit timestamp",
    ),
    "an interval of 3 bytes": (
        one([b"abc"], pa.binary(), pa.month_day_nano_interval()),
        "column 'u': the values do not fit month_day_nano_interval",
    ),
    "a decimal of 3 bytes": (
        one([b"abc"], pa.binary(), pa.decimal256(60, 0)),
        "column 'u': the values do not fit decimal256",
    ),
    "a decimal of 77 digits": (
        one([b"\x7f" * 32], pa.binary(), pa.decimal256(60, 0)),
        "column 'u': .*decimal256",
    ),
    "a decimal of 39 digits": (
        one([b"\x7f" * 16], pa.binary(), pa.decimal128(3, 9)),
        "column 'u': .*decimal128",
    ),
    "a float of 17 bits": (
        one([1 + 2**-11], pa.float32(), pa.float16()),
        "column 'u': the values do not fit halffloat",
    ),
    "a float that is too large": (
        one([1e30], pa.float32(), pa.float16()),
        "column 'u': the values do not fit halffloat",
    ),
    "a value of type null": (
        one(["a"], TEXT, pa.null()),
        "column 'u': the values do not fit null: a column of type null contains values",
    ),
    "bytes of another length": (
        one([b"a"], pa.binary(), pa.binary(3)),
        "column 'u': the values do not fit fixed_size_binary",
    ),
    "a list of another size": (
        one([[1, 2], [1]], pa.list_(I32), pa.list_(I32, 2)),
        "column 'u': the values do not fit fixed_size_list",
    ),
    "more rows than runs can have": (
        one(list(range(70_000)), I32, pa.run_end_encoded(pa.int16(), I32)),
        "column 'u': the values do not fit run_end_encoded",
    ),
    # dictionaries
    "more values than indices": (
        one([str(i) for i in range(1000)], TEXT, DICTIONARY),
        "column 'u': the values do not fit dictionary",
    ),
    "a dictionary of too many values": (
        dictionaries([*(f"v{i}" for i in range(1000)), "a", "b"]),
        "column 'u': the values do not fit dictionary",
    ),
    "dictionaries of 4 GiB": (
        dictionaries(["a"], size=2**32 - 1),
        "annex: the dictionaries have 4294967295 bytes, but there are only",
    ),
    "dictionaries of no bytes": (dictionaries(["a"], size=0), "dictionaries: not a Mosaic file"),
    "dictionaries that begin in a bucket": (
        dictionaries(["a"], size=len(OF_A) + 3),
        "annex, offset .* there is none, but the footer has the flag",
    ),
    "dictionaries inside dictionaries": (
        dictionaries(["a"], dictionaries=nested_dictionaries(1)),
        "dictionaries: there are dictionaries inside the dictionaries",
    ),
    "dictionaries nested 300 deep": (
        dictionaries(["a"], dictionaries=nested_dictionaries(300)),
        "dictionaries: there are dictionaries inside the dictionaries",
    ),
    "dictionaries without lists": (
        forged(LETTERS, OF_LETTERS, dictionaries=written(LETTERS)),
        "dictionaries, column 'u': a dictionary is not stored as lists",
    ),
    "a dictionary that contains null": (
        dictionaries(["a", None, "b"]),
        "dictionaries, column 'u': a dictionary contains a value twice, or null",
    ),
    "a dictionary that is null": (
        dictionaries(["a"], None),
        "dictionaries, column 'u': a dictionary contains a value twice, or null",
    ),
    "a dictionary that contains a value twice": (
        dictionaries(["a", "b", "a"]),
        "dictionaries, column 'u': a dictionary contains a value twice, or null",
    ),
    "dictionaries that are something else": (
        forged(LETTERS, OF_LETTERS, dictionaries=b"MOSA" * 20),
        "dictionaries: ",
    ),
    "dictionaries that are not UTF-8": (
        forged(
            LETTERS,
            OF_LETTERS,
            dictionaries=written(
                table(("u", [["b", "a"]], lists(TEXT))), compression="none"
            ).replace(b"\x01b\x01a", b"\x01\xff\x01a"),
        ),
        "dictionaries, row group 0, bucket 0, column 'u'.*UTF-8",
    ),
}

# Read as the annex says, or without what it says about columns that do not exist.
HARMLESS = {
    "structs": (forged(INFO, schema(("info", X))), {"info": [(1,), None]}),
    "structs without a column of nulls": (
        forged(table(("info.x", [1, None], I32)), schema(("info", X))),
        {"info": [(1,), (None,)]},
    ),
    "nulls of a struct that is never null": (
        forged(INFO, schema(("info", X, False))),
        {"info.__null__": [False, True], "info": [(1,), (None,)]},
    ),
    "values behind nulls": (
        forged(
            table(("info.__null__", [True, False], BOOL, False), ("info.x", [1, None], I32)),
            schema(("info", X)),
        ),
        {"info": [None, (None,)]},
    ),
    "a column of the same name as a struct": (
        forged(table(("info", [7], I32), ("info.x", [1], I32)), schema(("info", X))),
        {"info": [(1,)]},
    ),
    "structs nested 60 deep": (deep(60), None),
    "structs nested 64 deep": (deep(64), None),
    "maps": (forged(entries([["a"]], [[False]], [[1]]), MAP), {"m": [[(b"a", (1,))]]}),
    "metadata of 50 MB": (
        forged(INFO, schema(("info", X)).with_metadata({"k": "v" * 50_000_000})),
        {"info": [(1,), None]},
    ),
    "names of 60,000 dots": (
        forged(
            table(("." * 60_000, [7], I32), ("." * 60_000 + ".x", [1], I32)),
            schema(("." * 60_000, X)),
            write_statistics=True,
        ),
        {"." * 60_000: [(1,)]},
    ),
    "a dictionary": (dictionaries(["b", "z", "a"]), {"u": [b"a", b"b"]}),
    "a dictionary that lacks values": (dictionaries(["b", "z"]), {"u": [b"a", b"b"]}),
    "a dictionary of more values than indices": (
        dictionaries(["a", "b", *map(str, range(1000))]),
        {"u": [b"a", b"b"]},
    ),
    "dictionaries of other columns": (
        forged(LETTERS, OF_LETTERS, dictionaries=written(table(("x", [["a"]], pa.list_(TEXT))))),
        {"u": [b"a", b"b"]},
    ),
    "a common type": (
        forged(LETTERS, None, common=schema(("", pa.string_view()))),
        {"u": [b"a", b"b"]},
    ),
    "common types without the flag": (
        forged(LETTERS, None, common=schema(("", X)), flags=ANNEX),
        {"u": [b"a", b"b"]},
    ),
}

# Read, but `verify` reports them.
REPORTED = {
    "a dictionary of another type": (
        dictionaries([1, 2], arrow=pa.int64()),
        "dictionaries, column 'u': its values are stored as int64, not as string",
    ),
    "bytes before the dictionaries": (
        forged(LETTERS, OF_LETTERS, dictionaries=b"spare" + OF_A, size=len(OF_A)),
        "5 bytes do not belong to any block",
    ),
}


@pytest.mark.parametrize(("data", "message"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused(data, message):
    with pytest.raises(fm.MosaicError, match=message) as caught:
        fm.read_table(data)
    assert isinstance(caught.value, fm.CorruptFileError | fm.UnsupportedError)
    assert caught.value.file == "<buffer>"
    with pytest.raises(fm.MosaicError):
        list(fm.MosaicFile(data).iter_batches(1))


@pytest.mark.parametrize(("data", "message"), REFUSED.values(), ids=REFUSED)
def test_verify_reports_what_is_refused(data, message):
    report = fm.verify(data)
    assert not report.ok
    assert str(report)


# Limits of this library, not of the format; and what Arrow does not read is not the oracle's.
OUR_LIMITS = {
    "structs nested 66 deep",
    "structs nested 100 deep",
    "structs nested 200 deep",
    "structs nested 2000 deep",
    "more values than indices",
    "a dictionary of too many values",
}


@pytest.mark.parametrize("name", sorted(REFUSED.keys() - OUR_LIMITS))
def test_the_oracle_refuses_it_as_well(name):
    data, _ = REFUSED[name]
    if len(data) < 100_000:
        with pytest.raises(ValueError):  # noqa: PT011 - whatever it says
            annex_reference.decode_table(data)


@pytest.mark.parametrize("name", REFUSED)
def test_stored_columns_can_be_read_nevertheless(name):
    data, _ = REFUSED[name]
    stored = fm.read_table(data, logical=False)
    assert stored.num_columns
    stored.validate(full=True)


@pytest.mark.parametrize(("data", "expected"), HARMLESS.values(), ids=HARMLESS)
def test_what_is_harmless_is_read(data, expected):
    table = fm.read_table(data)
    table.validate(full=True)
    found = {name: column_cells(table[name]) for name in table.column_names}
    if expected is not None:
        assert found == expected
    assert fm.verify(data).problems == ()
    if len(data) < 100_000:
        oracle = annex_reference.decode_table(data)
        assert dict(zip(oracle.schema.names, oracle.columns, strict=True)) == found


@pytest.mark.parametrize(("data", "problem"), REPORTED.values(), ids=REPORTED)
def test_verify_reports_what_reading_does_not_need(data, problem):
    assert fm.read_table(data).to_pydict() == {"u": ["a", "b"]}
    report = fm.verify(data)
    assert not report.ok
    assert re.search(problem, str(report))


def test_times_and_decimals_can_be_salvaged():
    data = REFUSED["a time of the next day"][0]
    assert column_cells(fm.read_table(data, strict=False)["u"]) == [86_400_000_000]
    assert fm.read_table(data, logical=False)["u"].to_pylist() == [86_400_000_000]
    data = REFUSED["a decimal of 39 digits"][0]
    assert column_cells(fm.read_table(data, strict=False)["u"]) == [int.from_bytes(b"\x7f" * 16)]


@pytest.mark.parametrize("name", ["another type", "a time of the next day", "a missing leaf"])
def test_other_columns_can_be_read(name):
    data, _ = REFUSED[name]
    stored = fm.read_table(data, logical=False)
    beside = stored.append_column("id", [list(range(stored.num_rows))])
    message = message_of(data)
    assert fm.read_table(forged(beside, message), columns=["id"]).num_rows == stored.num_rows


def message_of(data: bytes) -> bytes:
    return annex_reference.read_annex(data).sections[2]


# What files cost that claim much more than they have.
BOMBS = {
    "null lists of 2**31 - 1 elements": lambda: one(
        [None] * 1000, pa.list_(I32), pa.list_(I32, 2**31 - 1)
    ),
    "null lists in null lists": lambda: one(
        [None] * 1000, pa.list_(pa.list_(I32)), pa.list_(pa.list_(I32, 10_000), 1000)
    ),
    "a dictionary of 360 MB": lambda: dictionaries(*[["a" * 1000] * 6000] * 60),
    "a dictionary of 65 million numbers": lambda: dictionaries(
        *[[1] * 65536] * 1000, arrow=pa.int64()
    ),
    "a dictionary of a million equal structs": lambda: forged(
        table(("u.__null__", [False], BOOL, False), ("u.x", [1], I32)),
        schema(("u", pa.dictionary(pa.int8(), X))),
        dictionaries=written(table(("u", [[{"x": 1}] * 65536] * 20, pa.list_(X)))),
    ),
    "10 million rows of a dictionary of structs": lambda: forged(
        pa.table(
            [pa.repeat(False, 10_000_000), pa.repeat(pa.scalar(1, I32), 10_000_000)],
            schema=pa.schema([field("u.__null__", BOOL, False), field("u.x", I32)]),
        ),
        schema(("u", pa.dictionary(pa.int8(), X))),
    ),
    "100 million durations": lambda: forged(
        pa.table({"u": pa.repeat(pa.scalar(7, pa.int64()), 100_000_000)}),
        schema(("u", pa.duration("s"))),
    ),
    "names of a million dots": lambda: forged(
        table(("." * 1_000_000, [7], I32), ("." * 1_000_000 + ".x", [1], I32)),
        schema(("." * 1_000_000, X)),
        write_statistics=True,
    ),
    "a long name in all leaves": lambda: REFUSED["a long name in all leaves"][0],
    "a struct of 100,000 fields": lambda: REFUSED["a struct of 100,000 fields"][0],
    "100,000 structs": lambda: REFUSED["100,000 structs"][0],
    "100,000 types": lambda: REFUSED["types of columns that do not exist"][0],
    "dictionaries nested 300 deep": lambda: REFUSED["dictionaries nested 300 deep"][0],
}


@pytest.mark.parametrize("make", BOMBS.values(), ids=BOMBS)
def test_an_annex_costs_what_it_is(tmp_path, make):
    path = tmp_path / "hostile.mosaic"
    path.write_bytes(make())
    assert_cheap(path)

"""Hive partitions: directories in, typed columns out, and back."""

import datetime
import decimal
import time

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from fastmosaic.dataset.hive import NULL, directory, parse, resolve
from fastmosaic.errors import SchemaMismatchError, UnsupportedError


def infer(*texts):
    """The type that values get without a schema."""
    fields, _ = resolve([(f"file{i}", {"k": text}) for i, text in enumerate(texts)], None)
    return fields.field("k").type


def round_trip(value):
    path = directory(["k"], [value])
    fields, rows = resolve([("x", parse(path.split("/"), "x"))], pa.schema([("k", value.type)]))
    assert fields == pa.schema([pa.field("k", value.type, nullable=True)])
    assert len(rows) == 1
    return rows[0][0]


@pytest.mark.parametrize(
    ("directories", "expected"),
    [
        ([], {}),
        (["data", "2024"], {}),
        (["year=2024", "part", "month=01"], {"year": "2024", "month": "01"}),
        (["a=b=c"], {"a": "b=c"}),
        (["a="], {"a": ""}),
        (["=x"], {}),
        ([f"a={NULL}"], {"a": None}),
        (["a%20b=x%2Fy"], {"a b": "x/y"}),
        (["a=%C3%A9"], {"a": "é"}),
        (["a=100%"], {"a": "100%"}),
        (["a=1+1"], {"a": "1+1"}),
        (["a=1", "a=1"], {"a": "1"}),
        (["a=%5F_HIVE_DEFAULT_PARTITION__"], {"a": NULL}),
    ],
)
def test_parse(directories, expected):
    assert parse(directories, "x") == expected


def test_the_order_of_keys_is_that_of_the_directories():
    assert list(parse(["b=1", "a=2"], "x")) == ["b", "a"]


@pytest.mark.parametrize("other", ["2", NULL])
def test_a_key_with_two_values_is_an_error(other):
    with pytest.raises(SchemaMismatchError) as error:
        parse(["day=1", f"day={other}"], "ds/x.mosaic")
    text = str(error.value)
    assert "ds/x.mosaic" in text
    assert "'day'" in text
    assert "'1'" in text
    assert ("'2'" if other == "2" else "None") in text


@pytest.mark.parametrize("segment", ["a=%FF", "%FF=a", "a=\udcff"])
def test_what_is_no_text_is_an_error(segment):
    with pytest.raises(SchemaMismatchError, match=r"ds/x\.mosaic.*UTF-8"):
        parse([segment], "ds/x.mosaic")


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["1", "-5", "0"], pa.int32()),
        ([str(2**31 - 1), str(-(2**31))], pa.int32()),
        ([str(2**31)], pa.int64()),
        ([str(-(2**31) - 1), "1"], pa.int64()),
        ([str(2**63 - 1), str(-(2**63))], pa.int64()),
        ([str(2**63)], pa.string()),
        ([str(-(2**63) - 1)], pa.string()),
        (["9" * 5000], pa.string()),
        (["01"], pa.string()),
        (["1", "01"], pa.string()),
        (["+1"], pa.string()),
        (["-0"], pa.string()),
        (["1_000"], pa.string()),
        ([" 1"], pa.string()),
        (["1\n"], pa.string()),
        (["\u0661"], pa.string()),
        ([""], pa.string()),
        (["1.0"], pa.string()),
        (["true"], pa.string()),
        (["2024-02-29", "0001-01-01"], pa.date32()),
        (["2023-02-29"], pa.string()),
        (["2024-2-1"], pa.string()),
        (["20240201"], pa.int32()),
        (["2024-W01-1"], pa.string()),
        (["2024-02-01", "1"], pa.string()),
        (["1", None], pa.int32()),
        ([None, "2024-02-01"], pa.date32()),
        ([None, None], pa.string()),
    ],
)
def test_types_are_inferred_from_all_values(texts, expected):
    assert infer(*texts) == expected


def test_resolve_gives_the_values_of_each_file():
    fields, rows = resolve(
        [
            ("x", {"day": "2024-01-31", "n": "1", "s": None}),
            ("y", {"s": "b", "n": None, "day": "2024-02-01"}),
        ],
        None,
    )
    assert fields == pa.schema([("day", pa.date32()), ("n", pa.int32()), ("s", pa.string())])
    assert rows == [
        (
            pa.scalar(datetime.date(2024, 1, 31)),
            pa.scalar(1, pa.int32()),
            pa.scalar(None, pa.string()),
        ),
        (pa.scalar(datetime.date(2024, 2, 1)), pa.scalar(None, pa.int32()), pa.scalar("b")),
    ]


def test_no_files_and_no_keys():
    assert resolve([], None) == (pa.schema([]), [])
    assert resolve([("x", {}), ("y", {})], None) == (pa.schema([]), [(), ()])


def test_a_schema_decides_the_types_and_which_keys():
    schema = pa.schema([("other", pa.string()), pa.field("n", pa.float64(), nullable=False)])
    fields, rows = resolve([("x", {"day": "1", "n": "01"}), ("y", {"day": "2", "n": None})], schema)
    assert fields == pa.schema([pa.field("n", pa.float64(), nullable=True)])
    assert rows == [(pa.scalar(1.0),), (pa.scalar(None, pa.float64()),)]


@pytest.mark.parametrize(
    ("text", "arrow"),
    [("x", pa.int32()), ("", pa.int32()), ("300", pa.int8()), ("1", pa.time32("ms"))],
)
def test_a_value_that_is_not_of_the_type_is_an_error(text, arrow):
    found = [("good", {"n": None}), ("ds/bad.mosaic", {"n": text})]
    with pytest.raises(SchemaMismatchError) as error:
        resolve(found, pa.schema([("n", arrow)]))
    message = str(error.value)
    assert "ds/bad.mosaic" in message
    assert "'n'" in message
    assert repr(text) in message
    assert str(arrow) in message


def test_nulls_are_of_any_type():
    arrow = pa.time32("ms")
    fields, rows = resolve([("x", {"n": None})], pa.schema([("n", arrow)]))
    assert fields.field("n").type == arrow
    assert rows == [(pa.scalar(None, arrow),)]


@pytest.mark.parametrize("keys", [{"a": "1"}, {"a": "1", "b": "1", "c": "1"}])
def test_files_with_other_keys_are_an_error(keys):
    found = [("first", {"a": "1", "b": "2"}), ("same", {"b": "1", "a": "2"}), ("other", keys)]
    has, lacks = ("other", "first") if "c" in keys else ("first", "other")
    key = "c" if "c" in keys else "b"
    with pytest.raises(SchemaMismatchError, match=f"{has} has a partition key '{key}'.* {lacks} "):
        resolve(found, None)


def test_a_hundred_thousand_files_are_resolved_at_once():
    found = [(f"f{i}", {"day": str(i % 365), "id": str(i)}) for i in range(100_000)]
    start = time.process_time()
    fields, rows = resolve(found, None)
    assert time.process_time() - start < 5
    assert fields.types == [pa.int32(), pa.int32()]
    assert [value.as_py() for value in rows[99_999]] == [99_999 % 365, 99_999]
    assert rows[0][0] is rows[365][0]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (pa.scalar(7), "k=7"),
        (pa.scalar(True), "k=true"),
        (pa.scalar(None, pa.int8()), f"k={NULL}"),
        (pa.scalar(datetime.date(2024, 1, 31)), "k=2024-01-31"),
        (pa.scalar(1.5), "k=1.5"),
        (pa.scalar(decimal.Decimal("1.50")), "k=1.50"),
        (pa.scalar(0, pa.timestamp("ms")), "k=1970-01-01 00%3A00%3A00.000"),
        (pa.scalar(0, pa.timestamp("s", "Asia/Tokyo")), "k=1970-01-01 00%3A00%3A00Z"),
        (pa.scalar("Zürich 8"), "k=Zürich 8"),
        (pa.scalar("a/b\\c:d=e%f"), "k=a%2Fb%5Cc%3Ad%3De%25f"),
        (pa.scalar('?#*"<>|\n\x7f'), "k=%3F%23%2A%22%3C%3E%7C%0A%7F"),
        (pa.scalar(".a."), "k=%2Ea%2E"),
        (pa.scalar("_"), "k=%5F"),
        (pa.scalar(" "), "k=%20"),
        (pa.scalar(NULL), f"k=%5F{NULL[1:]}"),
        (pa.array(["a"]).dictionary_encode()[0], "k=a"),
    ],
)
def test_directory(value, expected):
    assert directory(["k"], [value]) == expected


def test_directories_of_several_keys():
    values = [pa.scalar(1), pa.scalar("x"), pa.scalar(None, pa.string())]
    assert directory(["_a", "b/c", "d"], values) == f"%5Fa=1/b%2Fc=x/d={NULL}"


def test_nulls_in_a_dictionary_are_nulls():
    indices, values = pa.array([0, None], pa.int8()), pa.array([None, "a"])
    for value in pa.DictionaryArray.from_arrays(indices, values):
        assert directory(["k"], [value]) == f"k={NULL}"


def test_an_empty_string_is_refused():
    with pytest.raises(ValueError, match=r"'city'.*is the same as null"):
        directory(["city"], [pa.scalar("")])


def test_a_column_without_a_name_is_refused():
    with pytest.raises(ValueError, match="name"):
        directory([""], [pa.scalar(1)])


@pytest.mark.parametrize(
    "value",
    [
        pa.scalar(float("nan")),
        pa.scalar(10**7, pa.int32()).cast(pa.date32()),  # a year of five digits
        pa.scalar(2**62, pa.timestamp("us")),
    ],
)
def test_values_without_a_text_are_refused(value):
    with pytest.raises(ValueError, match=r"'city'.*cannot name a directory"):
        directory(["city"], [value])


@pytest.mark.parametrize(
    "value",
    [
        pa.scalar(b"abc"),
        pa.scalar(b"abc", pa.binary(3)),
        pa.scalar(["a"]),
        pa.scalar({"a": 1}),
        pa.scalar(5, pa.time32("ms")),
        pa.scalar(5, pa.duration("s")),
        pa.array([b"abc"]).dictionary_encode()[0],
    ],
)
def test_types_without_a_text_are_refused(value):
    with pytest.raises(UnsupportedError, match="'city'"):
        directory(["city"], [value])


def of(arrow, values):
    return values.map(lambda value: pa.scalar(value, arrow))


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
NASTY = st.text(st.sampled_from("._ /\\:=%?#*\"<>|[]{}'\x00\n+&~é5F\u2028\U0001f600"), min_size=1)
INTEGERS = [
    of(arrow, st.integers(low, high))
    for arrow, low, high in (
        [(getattr(pa, f"int{n}")(), -(1 << n - 1), (1 << n - 1) - 1) for n in (8, 16, 32, 64)]
        + [(getattr(pa, f"uint{n}")(), 0, (1 << n) - 1) for n in (8, 16, 32, 64)]
    )
]
INSTANTS = st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2250, 1, 1))
VALUES = st.one_of(
    *[of(arrow, TEXTS | NASTY) for arrow in (pa.string(), pa.large_string(), pa.string_view())],
    st.just(pa.scalar(NULL)),
    *INTEGERS,
    of(pa.bool_(), st.booleans()),
    of(pa.float64(), st.floats(allow_nan=False)),
    of(pa.float32(), st.floats(allow_nan=False, width=32)),
    of(pa.date32(), st.dates()),
    of(pa.date64(), st.dates()),
    *[
        of(arrow(20, 5), st.decimals(-(10**14), 10**14, places=5))
        for arrow in (pa.decimal128, pa.decimal256)
    ],
    *[
        of(pa.timestamp(unit, zone), INSTANTS.map(lambda t: t.replace(microsecond=0)))
        for unit in ("s", "ms", "us", "ns")
        for zone in (None, "UTC", "Europe/Paris")
    ],
    of(pa.timestamp("us"), INSTANTS),
    of(pa.timestamp("ns", "America/New_York"), INSTANTS),
    st.sampled_from([pa.string(), pa.int64(), pa.date32()]).map(lambda t: pa.scalar(None, t)),
)


@given(VALUES)
def test_values_come_back(value):
    assert round_trip(value).equals(value)


@given(st.lists(TEXTS | NASTY, min_size=1, max_size=3, unique=True), st.data())
def test_names_and_values_come_back(names, data):
    values = [data.draw(TEXTS | NASTY) for _ in names]
    path = directory(names, [pa.scalar(value) for value in values])
    segments = path.split("/")
    assert parse(segments, "x") == dict(zip(names, values, strict=True))
    assert len(segments) == len(names)
    for segment in segments:
        assert segment[0] not in "._"
        assert segment[-1] not in ". "
        assert segment.isprintable()
        assert not set(segment) & set('\\:?#*"<>|')

"""Values as JSON, and as text that people read."""

import json
import uuid

import pyarrow as pa
import pytest

from fastmosaic.convert.values import compact, json_values, readable_texts, texts

STRUCT = pa.struct({"name": pa.string(), "took": pa.duration("s"), "a-b": pa.list_(pa.int8())})


@pytest.mark.parametrize(
    ("array", "values", "text"),
    [
        (
            pa.array([{"name": "x", "took": 90, "a-b": [1, None]}, None], STRUCT),
            [{"name": "x", "took": 90, "a-b": [1, None]}, None],
            ['{name: "x", took: "00:01:30", "a-b": [1, null]}', None],
        ),
        (pa.array([{}, None], pa.struct([])), [{}, None], ["{}", None]),
        (
            pa.array([[{"name": "x"}, None], [], None], pa.list_(STRUCT)),
            [[{"name": "x", "took": None, "a-b": None}, None], [], None],
            ['[{name: "x", took: null, "a-b": null}, null]', "[]", None],
        ),
        (
            pa.array([[("a", {"x": 1})], None], pa.map_(pa.string(), pa.struct({"x": pa.int8()}))),
            [{"a": {"x": 1}}, None],
            ["{a: {x: 1}}", None],
        ),
        (pa.array([1, None], pa.duration("ms")), [1, None], ["00:00:00.001", None]),
        (
            pa.array([(1, 2, 3), None], pa.month_day_nano_interval()),
            [{"months": 1, "days": 2, "nanoseconds": 3}, None],
            ["1 month 2 days 00:00:00.000000003", None],
        ),
        (pa.array([2**64 - 1], pa.uint64()), [2**64 - 1], ["18446744073709551615"]),
        (pa.array([0.1, 65504.0, 2049, None], pa.float16()), [0.1, 65504.0, 2048.0, None], ["0.1", "65504.0", "2048.0", None]),
        (pa.array([1], pa.time64("ns")), ["00:00:00.000000001"], ["00:00:00.000000001"]),
        (pa.array([[1, 2], None], pa.list_(pa.int8(), 2)), [[1, 2], None], ["[1, 2]", None]),
        (pa.array([[1], None, []], pa.list_view(pa.int8())), [[1], None, []], ["[1]", None, "[]"]),
        (pa.array(["a", None]).dictionary_encode(), ["a", None], ["a", None]),
        (pa.array([5], pa.duration("s")).dictionary_encode(), [5], ["00:00:05"]),
        (pa.array([{"x": "a"}, {"x": "b"}]).slice(1), [{"x": "b"}], ['{x: "b"}']),
    ],
)  # fmt: skip
def test_values_of_all_types(array, values, text):
    assert json_values(array) == values
    assert readable_texts(array) == text
    assert json.loads(json.dumps(json_values(array))) == values


def test_values_in_other_representations():
    struct = pa.array([{"x": 1}, {"x": 2}])
    dictionary = pa.DictionaryArray.from_arrays(pa.array([1, None, 0], pa.int8()), struct)
    assert json_values(dictionary) == [{"x": 2}, None, {"x": 1}]
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), struct)
    assert json_values(runs) == [{"x": 1}, {"x": 1}, {"x": 2}]
    known = uuid.UUID(int=5)
    identifiers = pa.array([known.bytes, None], pa.binary(16)).cast(pa.uuid())
    assert json_values(identifiers) == [str(known), None]


def test_intervals_are_not_json_in_csv():
    assert texts(pa.array([(0, 1, 0)], pa.month_day_nano_interval())) == ["1 day"]


def test_names_are_quoted_where_they_must_be():
    assert (
        compact({"": 1, "ü": {"x y": None}, "3": "it's"})
        == '{"": 1, ü: {"x y": null}, "3": "it\'s"}'
    )

"""Column names: packing, training, front coding, lookup, and damaged names."""

import time
from array import array
from itertools import accumulate, pairwise
from os.path import commonprefix

import pytest
import reference
from hypothesis import example, given, strategies as st
from strategies import names as any_names

from fastmosaic.errors import CorruptFileError
from fastmosaic.format import _schema
from fastmosaic.format.names import (
    MAX_NAMES_BYTES,
    Names,
    StoredNames,
    encode_columns,
    similar_names,
)
from fastmosaic.format.types import KIND_OF_TYPE

# Few letters make many pairs, long runs and many ties.
ascii_names = st.one_of(
    st.lists(st.text("a", min_size=1, max_size=40).map(str.encode), max_size=8),
    st.lists(st.text("ab", min_size=1, max_size=40).map(str.encode), max_size=12),
    st.lists(st.text("abc_1", min_size=1, max_size=20).map(str.encode), max_size=30),
    st.lists(st.binary(min_size=1, max_size=20).map(lambda name: bytes(b & 127 for b in name))),
)
sorted_names = st.sets(any_names()).map(lambda names: sorted(name.encode() for name in names))


def pack(strings):
    return b"".join(strings), array("i", accumulate(map(len, strings), initial=0))


def unpack(data, offsets):
    return [data[start:end] for start, end in pairwise(offsets)]


def pairs(rules):
    return list(zip(rules[::2], rules[1::2], strict=True))


def block(coded):
    """The columns of a schema block, of type 0, with these (shared, suffix) names."""
    return b"".join(
        reference.uv(shared) + reference.sized(suffix) + b"\0\0" for shared, suffix in coded
    )


def expand(coded, rules=None, limit=MAX_NAMES_BYTES):
    """Check and decode columns with these (shared, suffix) names."""
    body = block(coded)
    starts, kinds, longest, in_order = _schema.walk_columns(
        body, 0, len(coded), KIND_OF_TYPE, rules, limit
    )
    type_starts = _schema.type_starts(body, starts[:-1])
    assert [body[at:end] for at, end in zip(type_starts, starts[1:], strict=True)] == [
        b"\0\0"
    ] * len(coded)
    assert kinds == bytes(len(coded))
    data, offsets, ascending = _schema.expand_names(body, starts, longest, rules, limit)
    assert in_order == ascending
    return unpack(data, offsets), ascending


def stored(coded, rules=None):
    """These (shared, suffix) names, still encoded."""
    body = block(coded)
    starts, _, longest, ascending = _schema.walk_columns(
        body, 0, len(coded), KIND_OF_TYPE, rules, MAX_NAMES_BYTES
    )
    return StoredNames(body, starts, rules, longest, ascending)


# Byte-pair encoding


@given(ascii_names)
@example([b"aaa"])
@example([b"aaaa", b"aaaaa"])
@example([b"abababab", b"babababa"])
@example([])
def test_rules_are_those_of_counting_again_for_each(names):
    rules, data, offsets = _schema.train(*pack(names))
    assert pairs(rules) == reference.train_bpe(names)
    assert unpack(data, offsets) == [reference.apply_bpe(name, pairs(rules)) for name in names]


def test_the_rules_of_the_specification():
    names = [prefix + b"pressure" for prefix in (b"a", b"b", b"c", b"d", b"e")]
    rules, data, offsets = _schema.train(*pack(names))
    assert rules == bytes.fromhex("7265 8073 8173 8275 8380 7084")
    assert unpack(data, offsets) == [prefix + b"\x85" for prefix in (b"a", b"b", b"c", b"d", b"e")]


def test_128_rules_are_the_most():
    names = [bytes([left, right]) * 2 for left in range(40, 60) for right in range(60, 80)]
    rules, _data, _offsets = _schema.train(*pack(names))
    assert len(rules) == 2 * 128
    assert pairs(rules) == reference.train_bpe(names)


def test_only_ascii_is_trained():
    with pytest.raises(ValueError, match="not ASCII"):
        _schema.train(*pack([b"ab", "é".encode()]))


@pytest.mark.parametrize("offsets", [[], [0, 1], [1, 3], [0, 2, 1, 3], [0, 4], [0, -1, 3]])
def test_offsets_that_do_not_fit_are_refused(offsets):
    for kernel in (_schema.train, _schema.front_coded_size):
        with pytest.raises(ValueError, match="do not divide 3 bytes"):
            kernel(b"abc", array("i", offsets))
    with pytest.raises(ValueError, match="do not divide 3 bytes"):
        _schema.occurring(b"abc", array("i", offsets), b"abc")


# Front coding


@given(sorted_names)
def test_front_coded_size(names):
    assert _schema.front_coded_size(*pack(names)) == reference.front_size(names)


@given(st.lists(st.tuples(st.binary(max_size=200), st.binary(max_size=5))))
def test_columns_are_front_coded_names_and_types(columns):
    names, types = [name for name, _ in columns], [descriptor for _, descriptor in columns]
    assert _schema.encode_columns(*pack(names), *pack(types)) == b"".join(
        reference.uv(shared) + reference.sized(suffix) + descriptor
        for (shared, suffix), descriptor in zip(reference.front_code(names), types, strict=True)
    )


def test_each_name_has_a_type():
    with pytest.raises(ValueError, match="1 types for 2 names"):
        _schema.encode_columns(*pack([b"a", b"b"]), *pack([b"\0\0"]))


@given(st.one_of(sorted_names, ascii_names))
def test_the_smaller_encoding_is_chosen(names):
    rules, encoded = reference.choose_name_encoding(names)
    start = bytes([1, *reference.uv(len(rules)), *sum(rules, ())]) if rules else b"\0"
    columns = b"".join(
        reference.uv(shared) + reference.sized(suffix)
        for shared, suffix in reference.front_code(encoded)
    )
    assert encode_columns(names, [b""] * len(names)) == start + columns


@given(sorted_names)
def test_front_coded_names_come_back(names):
    assert expand(reference.front_code(names)) == (names, True)


def test_a_shared_prefix_may_cut_a_character_in_half():
    coded = [(0, b"caf" + b"\xc3\xa8"), (4, b"\xa9")]
    assert reference.front_code(["cafè".encode(), "café".encode()]) == coded
    assert expand(coded) == (["cafè".encode(), "café".encode()], True)


@given(ascii_names)
def test_byte_pairs_come_back(names):
    rules, data, offsets = _schema.train(*pack(names))
    got, ascending = expand(reference.front_code(unpack(data, offsets)), rules)
    assert got == names
    assert ascending == all(one < other for one, other in pairwise(names))


@pytest.mark.parametrize("length", [15, 16, 17, 63, 64, 65, 5000, 70_000])
def test_rules_with_a_long_text(length):
    names = [b"x" * length + bytes([end]) * (end % 20) for end in range(65, 91)]
    rules, data, offsets = _schema.train(*pack(names))
    coded = reference.front_code(unpack(data, offsets))
    assert expand(coded, rules)[0] == names
    found = stored(sorted(coded), rules)
    for name in names:
        assert found[found.find(name.decode())] == name.decode()
        assert found.find(name.decode() + "x") == -1


@given(st.lists(st.binary(min_size=1, max_size=5), max_size=20), st.data())
def test_names_are_in_order_if_their_text_is(tokens, data):
    """Other writers may share less than they could, and have other rules."""
    rules = b"abab\x81c\x80\x80" + bytes([0x83, 0x82])
    rules += b"".join(bytes([token, token]) for token in range(0x84, 0x88))  # up to 112 bytes
    texts = {token: bytes([token]) for token in range(0x80)}
    for token, (left, right) in enumerate(pairs(rules), 0x80):
        texts[token] = texts[left] + texts[right]
    names = [bytes(b"ab\x80\x81\x82\x83\x84\x85\x88c"[b % 10] for b in name) for name in tokens]
    coded = []
    for name, (most, _) in zip(names, reference.front_code(names), strict=True):
        shared = data.draw(st.integers(0, most))
        coded.append((shared, name[shared:]))
    expected = [b"".join(map(texts.__getitem__, name)) for name in names]
    in_order = all(one < other for one, other in pairwise(expected))
    assert expand(coded, rules) == (expected, in_order)


def test_texts_that_are_too_long_to_compare_are_decoded():
    rules = b"aa" + b"".join(bytes([token, token]) for token in range(0x80, 0x8F))
    coded = [(0, b"\x8f" + bytes([end])) for end in b"abcdefgh"]
    size = 2**16 + 1
    assert expand(coded, rules, limit=8 * size)[1]
    with pytest.raises(ValueError, match=f"more than {8 * size - 1} bytes of names"):
        expand(coded, rules, limit=8 * size - 1)


@given(st.lists(st.binary(min_size=1, max_size=6), min_size=1))
def test_names_are_utf8_if_python_says_so(names):
    try:
        for name in names:
            name.decode()
    except UnicodeDecodeError:
        with pytest.raises(ValueError, match="not UTF-8"):
            expand(reference.front_code(names))
    else:
        assert expand(reference.front_code(names))[0] == names


@pytest.mark.parametrize("lead", range(0x80, 0x100))
def test_utf8_at_its_edges(lead):
    edges = [0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xFF]
    for second in edges:
        for rest in (b"", b"\x80", b"\x80\xbf", b"\xbf\x80\x80", b"a", b"\x80\xc0"):
            name = b"text of eight or more: " + bytes([lead, second]) + rest
            try:
                name.decode()
            except UnicodeDecodeError:
                with pytest.raises(ValueError, match="not UTF-8"):
                    expand([(0, name)])
            else:
                assert expand([(0, name)]) == ([name], True)


# Names that lie


@pytest.mark.parametrize(
    ("coded", "rules", "message"),
    [
        ([(1, b"a")], None, "shares 1 bytes with a shorter one at offset 0"),
        ([(0, b"ab"), (3, b"")], None, "shares 3 bytes with a shorter one at offset 6"),
        ([(0, b"")], None, "an empty name at offset 0"),
        ([(0, b"ab"), (0, b"")], None, "an empty name at offset 6"),
        ([(0, b"")], b"", "an empty name at offset 0"),
        ([(0, b"a\x80")], b"", "without a rule at offset 0"),
        ([(0, b"a\x80\x81")], b"ab", "without a rule at offset 0"),
        ([(0, b"a")], b"\x80a", "cyclic or forward rule: 0x80 is 0x80, 0x61"),
        ([(0, b"a")], b"ab\x82c\x81d", "cyclic or forward rule: 0x81 is 0x82, 0x63"),
        ([(0, b"a")], b"a\xff", "cyclic or forward rule: 0x80 is 0x61, 0xff"),
    ],
)
def test_broken_names(coded, rules, message):
    with pytest.raises(ValueError, match=message):
        expand(coded, rules)


def test_rules_that_double_are_limited():
    rules = b"aa" + b"".join(bytes([token, token]) for token in range(0x80, 0xFF))
    assert expand([(0, b"\x80"), (0, b"\x89")], rules) == ([b"aa", b"a" * 1024], True)
    for token in (0x9B, 0xA0, 0xC0, 0xFF):
        with pytest.raises(ValueError, match="more than 134217728 bytes of names at offset 0"):
            expand([(0, bytes([token]))], rules)
    with pytest.raises(ValueError, match="more than 134217728 bytes of names at offset 0"):
        expand([(0, b"\xff" * 100_000)], rules)


def test_shared_prefixes_are_limited():
    coded = [(0, b"a" * 1000), *((1000 + i, b"a") for i in range(100))]
    assert expand(coded, limit=106_050)[0][-1] == b"a" * 1100
    with pytest.raises(ValueError, match="more than 106049 bytes of names"):
        expand(coded, limit=106_049)


def test_equal_names_do_not_ascend():
    assert expand([(0, b"a"), (1, b"")]) == ([b"a", b"a"], False)


# Looking up


def packed(names):
    data, offsets = pack(names)
    ascending = all(one < other for one, other in pairwise(names))
    return Names(data, memoryview(offsets), ascending)


@given(st.lists(any_names(), unique=True), any_names())
def test_a_name_is_found_where_it_is(names, other):
    for order in (sorted(names, key=str.encode), names):
        found = packed([name.encode() for name in order])
        assert len(found) == len(names)
        for position, name in enumerate(order):
            assert found.find(name) == position
            assert found[position] == name
        assert found.find(other) == (order.index(other) if other in order else -1)
        assert found.find("") == -1
        assert found.find("\ud800") == -1


@given(st.lists(any_names(), unique=True), any_names(), st.booleans(), st.booleans())
def test_an_encoded_name_is_found_where_it_is(names, other, in_order, with_rules):
    if in_order:
        names.sort(key=str.encode)
    encoded, rules = [name.encode() for name in names], None
    if with_rules and b"".join(encoded).isascii():
        rules, data, offsets = _schema.train(*pack(encoded))
        encoded = unpack(data, offsets)
    coded = reference.front_code(encoded)
    for position, name in enumerate(names):
        found = stored(coded, rules)
        assert found.find(name) == position
        assert found[position] == name
    found = stored(coded, rules)
    assert found.find(other) == (names.index(other) if other in names else -1)
    assert found.find("") == -1
    assert found.find("\ud800") == -1
    assert [found.find(name) for name in names] == list(range(len(names)))
    assert [found[position] for position in range(len(names))] == names


def test_few_names_are_found_without_decoding_all(monkeypatch):
    decoded = []
    expand_names = _schema.expand_names
    monkeypatch.setattr(
        _schema, "expand_names", lambda *args: decoded.append(args) or expand_names(*args)
    )
    names = [f"feature_{i:03d}" for i in range(100)]
    rules, data, offsets = _schema.train(*pack([name.encode() for name in names]))
    found = stored(reference.front_code(unpack(data, offsets)), rules)
    for name in [*names[:15], *names[:15]]:
        assert found[found.find(name)] == name
    assert found.find("feature") == -1
    assert decoded == []
    assert [found.find(name) for name in names] == list(range(100))
    assert len(decoded) == 1


def test_two_encoded_columns_of_one_name_are_corrupt():
    with pytest.raises(CorruptFileError, match="two columns are named 'b'"):
        stored([(0, b"b"), (0, b"a"), (0, b"b")])


def test_two_columns_of_one_name_are_corrupt():
    with pytest.raises(CorruptFileError, match="two columns are named 'é'"):
        packed(["é".encode(), b"z", "é".encode()])


@given(st.lists(any_names(), unique=True), st.text("abc", max_size=20), st.data())
def test_names_occurring_in_a_text(names, text, data):
    text += "".join(data.draw(st.lists(st.sampled_from(names), max_size=3))) if names else ""
    expected = [position for position, name in enumerate(names) if name in text]
    assert packed([name.encode() for name in names]).occurring(text) == expected


@given(st.lists(any_names(), unique=True), st.data())
def test_names_are_unpacked_in_any_order(names, data):
    positions = data.draw(st.permutations(range(len(names))))
    found = packed([name.encode() for name in names]).select(array("i", positions))
    assert found == [names[position] for position in positions]


@pytest.mark.parametrize("position", [-1, 2])
def test_a_position_without_a_name_is_refused(position):
    with pytest.raises(IndexError, match=f"no name {position} among 2"):
        _schema.unpack(*pack([b"a", b"b"]), array("i", [position]))


# Similar names


def likeness(name, wanted):
    """How similar an ASCII name is: the quarters of `wanted` in it, common ends, and length."""
    size = max(1, len(wanted) // 4)
    quarters = {wanted[i * size : (i + 1) * size] for i in range(4)} - {""}
    reversed_ones = name[::-1], wanted[::-1]
    ends = [len(commonprefix(pair)) for pair in ((name, wanted), reversed_ones)]  # noqa: RUF071
    return sum(one in name for one in quarters), sum(ends), -abs(len(name) - len(wanted))


@given(
    st.lists(st.text("ab_1", min_size=1, max_size=12), max_size=90, unique=True),
    st.text("ab_1", max_size=12),
)
def test_similar_names_share_quarters_then_ends_then_length(names, wanted):
    names.sort()
    expected = sorted(
        (name for name in names if likeness(name, wanted)[0]),
        key=lambda name: (likeness(name, wanted), name),
        reverse=True,
    )
    assert Names.of(names).similar(wanted) == similar_names(wanted, names) == expected[:50]


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        ("PRICE", "price"),
        ("price", "Price"),
        ("größe", "GRÖSSE"),
        ("Ü", "ü"),
        ("ü", "Ü"),
        ("températur", "temperature"),
        ("温度", "温度計"),
    ],
)
def test_similar_names_differ_in_case(wanted, name):
    assert Names.of([name, "zzz"]).similar(wanted) == [name]
    assert similar_names(wanted, ["zzz", name]) == [name]


@pytest.mark.parametrize("wanted", ["", "\ud800", "q" * 1000])
def test_nothing_is_similar_to_some_names(wanted):
    assert Names.of(["a", "b"]).similar(wanted) == []
    assert similar_names(wanted, []) == []


@pytest.mark.parametrize(
    ("parts", "limit", "message"),
    [([b"a"] * 9, 1, "9 parts"), ([b"a"], 0, "limit 0"), ([b""], 1, "an empty part")],
)
def test_similar_names_are_asked_for_in_a_right_way(parts, limit, message):
    with pytest.raises(ValueError, match=message):
        _schema.similar(*pack([b"a"]), b"a", parts, limit)


def test_similar_names_among_a_million_are_found_within_half_a_second():
    names = Names.of(f"sensor_{i % 97:02d}_channel_{i:07d}_average" for i in range(1_000_000))
    start = time.process_time()
    found = names.similar("sensor_62_channel_0500000_avarage")
    assert time.process_time() - start < 0.5
    assert found[0] == "sensor_62_channel_0500000_average"

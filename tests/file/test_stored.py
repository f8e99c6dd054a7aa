"""What a file stores, compared with the oracle's pages of the same table."""

import io
import random
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
import reference
from files import written
from hypothesis import given, strategies as st
from strategies import FLAT_TYPES, list_types, tables

import fastmosaic as fm
from fastmosaic.file.opening import read_end
from fastmosaic.file.stored import (
    Encoding,
    annex_sections,
    paged_sizes,
    stored_bytes,
    stored_columns,
)
from fastmosaic.format.annex import Annex
from fastmosaic.format.metadata import FileMetaData
from fastmosaic.storage.source import Source, open_source

GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("*.mosaic"))
ENCODINGS = {
    reference.PLAIN: Encoding.PLAIN,
    reference.CONST: Encoding.CONST,
    reference.DICT: Encoding.DICT,
    reference.ALL_NULL: Encoding.ALL_NULL,
}


def opened(data: bytes) -> tuple[Source, FileMetaData]:
    source = open_source(data)
    return source, read_end(source)[0]


def pages_of(data: bytes, group: int = 0) -> dict:
    columns = stored_columns(*opened(data), group)
    return {page.path: page for column in columns for page in column.pages}


def expected_pages(columns: list[pa.Array]) -> list[tuple[reference.Page, pa.DataType]]:
    """Return the pages of a bucket and their types, by the rules of the format with default limits."""
    types = reference.flatten_types(column.type for column in columns)
    pages = []
    for column, arrow in zip(reference.flatten_columns(columns), types, strict=True):
        is_limited = reference.width(arrow) in (None, 12)
        encoding = reference.choose_encoding(column, 255, 32768, is_limited)
        pages.append((reference.encode_page(column, encoding), arrow))
    return pages


def null_count(page: reference.Page) -> int:
    if page.encoding == reference.ALL_NULL:
        return page.num_rows
    return sum(reference.unbitmap(page.nulls, page.num_rows)) if page.nulls else 0


@pytest.mark.parametrize("layout", ["none", "monolithic", "paged"])
@given(data=st.data())
def test_pages(layout, data):
    table = data.draw(tables(min_rows=1, min_columns=1, max_columns=12))
    (batch,) = table.combine_chunks().to_batches()
    options = {
        "none": {"compression": reference.NONE},
        "monolithic": {"page_size_threshold": 2**32 - 1},
        "paged": {"page_size_threshold": 0},
    }[layout]
    file = reference.encode_file([batch], batch.schema, num_buckets=2, **options)
    source, metadata = opened(file)
    found = list(stored_columns(source, metadata, 0))
    by_name = [batch.column(i) for i in reference.sort_columns(batch.schema.names)]
    assert [column.position for column in found] == list(range(len(by_name)))

    for number, positions in enumerate(
        reference.bucket_columns(len(by_name), reference.count_buckets(2, len(by_name)))
    ):
        expected = expected_pages([by_name[position] for position in positions])
        columns = [column for column in found if column.bucket == number]
        bucket = metadata.bucket(0, number)
        prefix = 2 if bucket.layout == "paged" else 0
        actual = reference.primaries_first([list(column.pages) for column in columns])
        for page, (oracle, arrow) in zip(actual, expected, strict=True):
            assert page.encoding == ENCODINGS[oracle.encoding]
            assert (page.num_rows, page.null_count) == (oracle.num_rows, null_count(oracle))
            if oracle.encoding == reference.ALL_NULL:
                assert page.size == 0
                continue
            assert page.size == prefix + len(oracle.table + oracle.nulls + oracle.data)
            count = page.num_entries
            entries = []
            if oracle.encoding != reference.PLAIN:
                entries = reference.read_table(io.BytesIO(oracle.table), oracle.encoding, arrow)
            assert count == len(entries)
            assert page.entry_bytes == sum(map(len, entries))
            assert reference.same_array(page.entries(), reference.deserialize(entries, arrow))
        assert sum(page.stored_bytes for page in actual) == bucket.compressed_size
        sizes = paged_sizes(source, metadata, 0)
        if bucket.layout == "paged":
            assert sizes[number] == sum(page.size for page in actual)
            for page, (oracle, _) in zip(actual, expected, strict=True):
                slot = reference.encode_slot(oracle, 1)
                assert page.stored_bytes - len(slot) in (4, 8, 10)  # of the directory
        else:
            assert number not in sizes
            # A share is in proportion, and rounded.
            total = sum(page.size for page in actual)
            for page in actual if total else []:
                share = bucket.compressed_size * page.size / total
                assert abs(page.stored_bytes - share) < 1
    assert stored_bytes(source, metadata, 0) == {
        column.position: column.stored_bytes for column in found
    }


@given(data=st.data())
def test_entries_are_the_values_and_counts_how_often_they_occur(data):
    table = data.draw(tables(min_rows=1, min_columns=1, max_columns=6))
    file = written(table, page_size_threshold=data.draw(st.sampled_from([0, 1 << 20])))
    flat = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        arrays = reference.flatten(column.combine_chunks())
        flat[name] = [reference.serialize(array) for array in arrays]
    source, metadata = opened(file)
    for column in stored_columns(source, metadata, 0):
        values = flat[metadata.schema_block.name(column.position)]
        for page, own in zip(column.pages, values, strict=True):
            if not page.num_entries:
                continue
            entries = reference.serialize(page.entries())
            counts = Counter(value for value in own if value is not None)
            found = list(zip(entries, page.counts(), strict=True))
            assert {entry: count for entry, count in found if count} == counts
            # Entries that no row has repeat the last one, to make indices of 4 or 8 bits.
            assert {entry for entry, count in found if not count} <= {entries[-1]}


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_the_bytes_of_columns_are_the_bytes_of_data(path):
    data = path.read_bytes()
    groups = reference.open_file(data).groups
    source, metadata = opened(data)
    for number, group in enumerate(groups):
        total = sum(bucket.size for bucket in group.buckets)
        assert sum(stored_bytes(source, metadata, number).values()) == total
        columns = list(stored_columns(source, metadata, number))
        assert sum(column.stored_bytes for column in columns) == total


def test_encodings_by_hand():
    """The encodings that the rules of the format choose for eight rows."""
    table = pa.table(
        {
            "all": pa.nulls(8, pa.int32()),
            "const": pa.array([7] * 8, pa.int64()),
            "gaps": pa.array(["x", None] * 4),
            "kinds": pa.array(["north", "south", "north", None] * 2),
            "plain": pa.array(range(8), pa.int16()),
        }
    )
    pages = pages_of(written(table, compression="none"))
    shown = {
        name: (str(page.encoding), page.size, page.null_count, page.num_entries)
        for name, page in pages.items()
    }
    assert shown == {
        "all": ("all_null", 0, 8, 0),
        "const": ("const", 8, 0, 1),
        "gaps": ("const", 2 + 1, 4, 1),
        "kinds": ("dict", 1 + 2 * 6 + 1 + 1, 2, 2),
        "plain": ("plain", 16, 0, 0),
    }
    assert pages["const"].entries().to_pylist() == [7]
    assert pages["const"].counts() == [8]
    assert pages["gaps"].counts() == [4]
    assert pages["kinds"].entries().to_pylist() == ["north", "south"]
    assert pages["kinds"].counts() == [4, 2]
    assert pages["plain"].entries().to_pylist() == pages["plain"].counts() == []


def test_what_is_inside_lists_and_maps_has_pages_of_its_own():
    table = pa.table(
        {
            "tags": pa.array([["a", "b"], None, ["a"]], pa.list_(pa.field("tag", pa.string()))),
            "m": pa.array([[("k", [1, 2])]] * 3, pa.map_(pa.string(), pa.list_(pa.int8()))),
        }
    )
    for options in ({"compression": "none"}, {"page_size_threshold": 0}):
        pages = pages_of(written(table, **options))
        assert {path: (page.type, page.num_rows) for path, page in pages.items()} == {
            "m": ("lengths", 3),
            "m.key": ("string", 3),
            "m.value": ("lengths", 3),
            "m.value.item": ("int8", 6),
            "tags": ("lengths", 3),
            "tags.tag": ("string", 3),
        }
        assert pages["tags"].null_count == 1
        assert pages["m.value"].entries().to_pylist() == [2]


@given(data=st.data(), threshold=st.sampled_from([0, 1 << 20]))
def test_array_blocks(data, threshold):
    element = data.draw(st.sampled_from(FLAT_TYPES))
    table = data.draw(
        tables(min_rows=1, min_columns=1, max_columns=3, column_types=list_types(st.just(element)))
    )
    file = written(table, array_layout="block", page_size_threshold=threshold)
    pages = pages_of(file)
    assert pages.keys() == set(table.column_names)
    for name, column in zip(table.column_names, table.columns, strict=True):
        page = pages[name]
        is_null = column.null_count == len(column)
        assert page.encoding == (Encoding.ALL_NULL if is_null else Encoding.ARRAY_BLOCK)
        assert page.null_count == column.null_count
        assert page.type == str(fm.read_schema(file).field(name).type)
        assert page.num_entries == 0


def test_some_columns():
    table = pa.table({f"c{i}": pa.array(range(i, i + 9)) for i in range(9)})
    for threshold in (0, 1 << 20):
        source, metadata = opened(written(table, num_buckets=3, page_size_threshold=threshold))
        every = stored_bytes(source, metadata, 0)
        assert stored_bytes(source, metadata, 0, [4, 1]) == {1: every[1], 4: every[4]}
        found = list(stored_columns(source, metadata, 0, [4, 1]))
        assert [(column.position, column.bucket) for column in found] == [(1, 0), (4, 1)]
        assert [column.stored_bytes for column in found] == [every[1], every[4]]


def test_of_a_paged_bucket_only_the_front_is_read_for_sizes():
    texts = [f"{i * 2654435761 % 2**32:x}" for i in range(20_000)]
    table = pa.table({f"c{i}": texts for i in range(4)})
    data = written(table, num_buckets=1, page_size_threshold=0)
    source, metadata = opened(data)
    assert len(data) > 200_000
    read = []

    class Counting:
        name, size, is_local = "counted", len(data), True

        def read_at(self, offset, length):
            read.append(length)
            return source.read_at(offset, length)

        def close(self):
            pass

    sizes = stored_bytes(Counting(), metadata, 0)
    assert sum(sizes.values()) == metadata.bytes_of(0)
    assert sum(read) == 4 * 4


def test_annex_sections():
    table = pa.table({"a": [1, 2]}).replace_schema_metadata({"unit": "m"})
    data = written(table, row_group_size=1)
    source, metadata = opened(data)
    sections = annex_sections(source, metadata)
    assert [section.kind for section in sections] == [1, 2, 3, 4]
    writer = sections[2]
    name = f"fastmosaic {fm.__version__}"
    assert data[writer.offset : writer.offset + writer.size] == name.encode()
    assert sections[3].size == 4 * (1 + 2)
    end = sections[3].offset + sections[3].size + Annex.TRAILER.size
    assert end == metadata.footer.schema_offset
    assert annex_sections(*opened(written(table, annex=False))) == []


# ---- damage

DAMAGED = pa.table(
    {
        "id": pa.array(range(40), pa.int64()),
        "kind": ["north", None, "south", "west"] * 10,
        "one": ["same", None] * 20,
        "tags": [["a", None], None, [], ["b"]] * 10,
        "price": [Decimal(i % 5) for i in range(40)],
    }
)


@pytest.mark.parametrize("layout", ["columns", "block"])
@pytest.mark.parametrize("options", [{"compression": "none"}, {"page_size_threshold": 0}])
def test_damage_is_an_error_of_ours_or_changes_values(options, layout):
    """With random bytes in the data, sizes still add up or an error says what is wrong."""
    whole = written(DAMAGED, annex=False, checksum=False, array_layout=layout, **options)
    rng = random.Random(7)
    data_size = opened(whole)[1].footer.schema_offset
    outcomes = Counter()
    for _ in range(1500):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(data_size)] = rng.choice(
                [0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)]
            )
        source, metadata = opened(bytes(data))
        try:
            assert sum(stored_bytes(source, metadata, 0).values()) == metadata.bytes_of(0)
            paged_sizes(source, metadata, 0)
            for column in stored_columns(source, metadata, 0):
                for page in column.pages:
                    if page.num_entries:
                        assert len(page.entries()) == page.num_entries
                        assert sum(page.counts()) == page.num_rows - page.null_count
            outcomes["read"] += 1
        except fm.MosaicError:
            outcomes["refused"] += 1
    assert outcomes["refused"] > 100


def test_a_dictionary_index_without_an_entry():
    """Three entries need two bits, which could also encode a fourth."""
    table = pa.table({"kind": ["north", "south", "west"] * 20})
    data = bytearray(written(table, compression="none", annex=False))
    data[opened(bytes(data))[1].footer.schema_offset - 1] = 0xFF
    page = pages_of(bytes(data))["kind"]
    assert page.entries().to_pylist() == ["north", "south", "west"]
    with pytest.raises(fm.CorruptFileError, match="column 'kind': a dictionary index has no entry"):
        page.counts()


def test_a_constant_of_very_many_rows_takes_no_memory():
    """4 billion rows in a few bytes are counted without being decoded."""
    table = pa.table({"x": [5, 5]})
    data = written(table, compression="none", annex=False, num_buckets=1)
    index = reference.encode_row_group(
        reference.open_file(data).groups[0]._replace(num_rows=2**32 - 1)
    )
    _, metadata = opened(data)
    many = data[: metadata.footer.index_offset] + index + data[-32:]
    page = pages_of(many)["x"]
    assert (page.num_rows, page.counts()) == (2**32 - 1, [2**32 - 1])

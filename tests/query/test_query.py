"""One query, asked of a file and of a dataset: columns, filters, rows and a limit."""

import cProfile
import pstats

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import fastmosaic as fm
from fastmosaic.convert.inputs import open_input
from fastmosaic.dataset.fileset import FileSet
from fastmosaic.dataset.tasks import share_out
from fastmosaic.memory import Memory
from fastmosaic.query.query import Query
from fastmosaic.query.rows import Rows

# Four files with three row groups of five rows each: x counts all rows.
NUM_FILES, NUM_GROUPS, GROUP_ROWS = 4, 3, 5
NUM_ROWS = NUM_FILES * NUM_GROUPS * GROUP_ROWS


@pytest.fixture
def root(tmp_path):
    size = NUM_GROUPS * GROUP_ROWS
    for number in range(NUM_FILES):
        first = number * size
        table = pa.table({"x": range(first, first + size), "y": ["y"] * size})
        path = tmp_path / f"{number}.mosaic"
        fm.write_table(table, path, row_group_size=GROUP_ROWS, write_statistics=True)
    return tmp_path


def groups(files: FileSet, query: Query) -> list[tuple[str, list[int]]]:
    return [(one.file.name.rsplit("/")[-1], one.groups) for one in files.plan(query)]


def test_row_groups_without_a_selected_row_are_not_read(root):
    files = FileSet(root)
    query = files.query(["x"], rows=Rows([(3, 6), (59, 60)]))
    assert groups(files, query) == [("0.mosaic", [0, 1]), ("3.mosaic", [2])]
    assert files.read_query(query)["x"].to_pylist() == [3, 4, 5, 59]
    batches = files.iter_batches(query, 2)
    assert [batch["x"].to_pylist() for batch in batches] == [[3, 4], [5, 59]]


def test_rows_are_selected_before_the_filter_and_the_limit(root):
    files = FileSet(root)
    even = pc.bit_wise_and(pc.field("x"), 1) == 0
    query = files.query(["x"], even, rows=Rows([(3, 30)]), limit=4)
    assert files.read_query(query)["x"].to_pylist() == [4, 6, 8, 10]
    high = files.query(["x"], pc.field("x") > 22, rows=Rows([(3, 30)]))
    assert groups(files, high) == [("1.mosaic", [1, 2])]
    assert files.read_query(high)["x"].to_pylist() == list(range(23, 30))
    limited = files.query(["x"], rows=Rows([(4, 6), (40, 60)]), limit=3)
    assert groups(files, limited) == [("0.mosaic", [0, 1]), ("2.mosaic", [2])]
    assert files.read_query(limited)["x"].to_pylist() == [4, 5, 40]


def test_rows_without_columns_are_selected(root):
    files = FileSet(root)
    assert files.read_query(files.query([], rows=Rows([(3, 6), (8, 9)]))).num_rows == 4


def test_selected_rows_must_exist(root):
    files = FileSet(root)
    with pytest.raises(IndexError, match=f"row {NUM_ROWS} of {NUM_ROWS}"):
        files.read_query(files.query(["x"], rows=Rows([(0, NUM_ROWS + 1)])))


def test_a_file_selects_rows_too(root):
    with fm.MosaicFile(root / "1.mosaic") as file:
        query = Query.of(file._columns, ["x"], rows=Rows([(1, 2), (11, 13)]))
        chosen = file._groups(query, None)
        assert chosen == [0, 2]
        assert query.finish(file._scanner.read(file._request(query, True), chosen, Memory()))[
            "x"
        ].to_pylist() == [
            16,
            26,
            27,
        ]


def test_processes_get_the_selected_rows(root):
    files = FileSet(root)
    query = files.query(["x"], rows=Rows([(4, 6), (50, 52)]))
    scan, splits = share_out(files, query, max_bytes=1 << 30)
    assert sum(split.num_rows for split in splits) == 4
    batches = [batch for split in splits for batch in scan.read(split)]
    assert pa.Table.from_batches(batches)["x"].to_pylist() == [4, 5, 50, 51]


def test_take_reads_rows_in_any_order(root):
    dataset = fm.MosaicDataset(root)
    assert dataset.take([41, 3, 3, 59], columns=["x"])["x"].to_pylist() == [41, 3, 3, 59]


# ---- globs


@pytest.fixture
def odd_names(tmp_path):
    names = ["price[usd]", "priceu", "price_eur", "other"]
    path = tmp_path / "odd.mosaic"
    fm.write_table(pa.table({name: [1] for name in names}), path)
    return path


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (["price*"], ["price[usd]", "priceu", "price_eur"]),
        (["price[usd]"], ["price[usd]"]),  # an existing name is not a glob
        (["price[u]"], ["priceu"]),
        (["other", "*", "priceu"], ["other", "price[usd]", "priceu", "price_eur"]),
        (["*_eur", "p*"], ["price_eur", "price[usd]", "priceu"]),
    ],
)
def test_columns_can_be_globs(odd_names, columns, expected):
    assert fm.read_table(odd_names, columns=columns).column_names == expected
    assert fm.read_table([odd_names], columns=columns).column_names == expected
    with fm.MosaicFile(odd_names) as file:
        assert file.read(columns).column_names == expected
        assert next(file.iter_batches(columns=columns)).schema.names == expected
    dataset = fm.MosaicDataset(odd_names)
    assert dataset.read(columns).column_names == expected
    assert dataset.to_table(columns).column_names == expected
    assert dataset.head(1, columns).column_names == expected
    assert dataset.scanner(columns).projected_schema.names == expected
    assert list(fm.read_pandas(odd_names, columns=columns).columns) == expected


def test_a_glob_that_matches_nothing_suggests_names(odd_names):
    with pytest.raises(fm.ColumnNotFoundError, match=r"odd\.mosaic: no column matches 'othe\?r'"):
        fm.read_table(odd_names, columns=["othe?r"])
    with pytest.raises(fm.ColumnNotFoundError, match="did you mean 'other'") as caught:
        fm.read_table([odd_names], columns=["othe?r"])
    assert (caught.value.name, caught.value.suggestions) == ("othe?r", ("other",))


def test_columns_must_be_a_list_of_names(odd_names):
    for source in (odd_names, [odd_names]):
        with pytest.raises(TypeError, match=r"columns must be a list of names.*\['other'\]"):
            fm.read_table(source, columns="other")
        with pytest.raises(TypeError, match="a column name must be a str, not int"):
            fm.read_table(source, columns=[1])


# ---- what a wrong name costs


@pytest.fixture(scope="module")
def very_wide(tmp_path_factory):
    """A file of 100,000 columns, and one of their names with a letter that is wrong."""
    path = tmp_path_factory.mktemp("wide") / "very_wide.mosaic"
    names = [f"sensor_{i % 97:02d}_channel_{i:06d}_average" for i in range(100_000)]
    fm.write_table(pa.table([pa.array([1])] * len(names), names=names), path)
    return path, names[51_234].replace("average", "avarage"), names[51_234]


@pytest.mark.parametrize(
    "act",
    [
        lambda path, name: fm.read_table(path, columns=[name]),
        lambda path, name: fm.read_table(path, columns=[f"{name}*"]),
        lambda path, name: fm.read_table(path, columns=[], filters=[(name, ">", 1)]),
        lambda path, name: fm.MosaicDataset(path).to_table([name]),
        lambda path, name: fm.MosaicDataset(path).to_table([], filter=pc.field(name) > 1),
        lambda path, name: fm.MosaicDataset(path).head(1, [f"*{name}"]),
        lambda path, name: open_input([str(path)]).select([name]),
        lambda path, name: open_input([str(path)]).select([f"{name}?"]),
        lambda path, name: list(open_input([str(path)]).batches([], f"{name} > 1")),
    ],
    ids=["columns", "glob", "filters", "dataset", "filter", "head", "input", "inputs", "where"],
)
def test_a_wrong_name_among_many_costs_little(very_wide, act):
    path, wrong, right = very_wide
    with pytest.raises(fm.ColumnNotFoundError):
        act(path, "x")  # imports
    calls = cProfile.Profile()
    with calls, pytest.raises(fm.ColumnNotFoundError) as caught:
        act(path, wrong)
    # No function is called for each column.
    assert pstats.Stats(calls).total_calls < 50_000
    assert caught.value.suggestions[0] == right


@pytest.mark.parametrize("others", [0, 1, 63, 64, 200])
@pytest.mark.parametrize("wanted", [True, False], ids=["wanted", "for the filter alone"])
def test_rows_that_match_of_few_and_of_many_columns(tmp_path, others, wanted):
    # None is neither less nor greater: such a row does not match.
    table = pa.table(
        {"a": [3, None, 1, 2, None, 5]}
        | {f"c{i}": [f"{i}:{row}" if row % 2 else None for row in range(6)] for i in range(others)}
    )
    fm.write_table(table, tmp_path / "a.mosaic", row_group_size=4)
    columns = table.column_names[0 if wanted else 1 :]
    for expression in (
        pc.field("a") > 1,
        pc.field("a") > 100,
        pc.field("a").is_null() | (pc.field("a") > 0),
        (pc.field("a") > 1) & (pc.scalar(1) < 2),
    ):
        found = fm.read_table(tmp_path / "a.mosaic", columns=columns, filters=expression)
        expected = table.filter(expression)
        assert found.num_rows == expected.num_rows
        assert found.to_pydict() == expected.select(columns).to_pydict()

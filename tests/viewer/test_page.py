"""The page of the viewer in a real browser."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from browser import violations
from pyarrow import csv, feather, orc
from serving import serving

import fastmosaic as fm

NUM_COLUMNS = 100_000
ROWS = 20
HOSTILE = "<img src=x onerror=alert(1)>"
HOSTILE_VALUE = "<script>document.title='owned'</script>\x1b[31m\u202eabc"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("page")


@pytest.fixture(scope="module")
def url(folder):
    numbers = pa.array(range(ROWS))
    columns = {f"{'temp' if i % 2 else 'press'}_{i:05d}": numbers for i in range(NUM_COLUMNS - 1)}
    columns["kind"] = pa.array(["a", None, "", "b" * 500] * (ROWS // 4))
    fm.write_table(pa.table(columns), folder / "wide.mosaic")
    hostile = {HOSTILE: [HOSTILE_VALUE, None], "a\nb\u202e": ["\x00", "שלום"]}
    fm.write_table(pa.table(hostile), folder / "hostile.mosaic")
    (folder / "damaged.mosaic").write_bytes(b"damaged")
    fm.write_table(pa.table({"id": pa.array([], pa.int64())}), folder / "empty.mosaic")
    table = fm.MosaicTable.create(folder / "table", pa.table({"id": [1, 2]}))
    table.append(pa.table({"id": [3]}))
    names = ["wide.mosaic", "hostile.mosaic", "damaged.mosaic", "empty.mosaic", "table"]
    with serving(*(folder / name for name in names)) as client:
        yield client.url


@pytest.fixture
def show(page, url):
    def show(**state):
        text = "&".join(f"{name}={value}" for name, value in state.items())
        page.goto("about:blank")
        page.goto(f"{url}#{text}")
        page.wait_for_selector("body[aria-busy=false]")

    return show


def wait_until(page, holds):
    for _ in range(200):
        if holds():
            return
        page.wait_for_timeout(50)
    raise AssertionError("it did not happen within 10 seconds")


def heads(page):
    return page.locator("regular-table thead tr:first-child th").all_inner_texts()


def test_100_000_columns_open_search_and_jump(page, show):
    show()
    assert "press_00000" in heads(page)
    assert page.inner_text("#facts").startswith("20 rows \u00d7 100,000 columns")
    # Only what is on screen is in the page.
    assert page.locator("regular-table td").count() < 3000
    assert page.locator("#column-list .row").count() < 100

    page.keyboard.press("/")
    page.keyboard.type("_0999")
    page.wait_for_selector("text=10 matches")
    page.click("#select-none")
    page.wait_for_selector("text=99,990 shown")
    page.keyboard.press("Escape")
    page.click("#select-all")
    page.wait_for_selector("text=100,000 shown")
    page.focus("#grid")
    page.keyboard.press("g")
    page.keyboard.type("kind")
    page.keyboard.press("Enter")
    page.wait_for_selector("regular-table th:has-text('kind')")
    page.wait_for_selector("#profile h2:has-text('kind')")
    page.wait_for_selector("#profile .bars li")
    assert "(empty)" in page.inner_text("#profile .bars")
    assert page.locator("regular-table td.null").count() == ROWS // 4
    page.locator("regular-table td.cut").first.click()
    page.wait_for_selector("#value[open]")
    assert page.inner_text("#value-text") == "b" * 500
    page.keyboard.press("Escape")
    assert violations(page) == []


def test_a_link_restores_the_view(page, show):
    show(select="none;%2Bg:temp_0000*", where="temp_00001+>+4+and+temp_00001+<+7", column=1)
    assert heads(page)[1:] == [f"temp_{i:05d}" for i in (1, 3, 5, 7, 9)]
    assert page.locator("regular-table tbody th").all_inner_texts() == ["5", "6"]
    page.wait_for_selector("#profile canvas")
    assert "2 of 20 rows" in page.inner_text("#where-message")
    page.fill("#where", "temp_00001 >")
    page.press("#where", "Enter")
    page.wait_for_selector("#where-message.error")
    assert page.get_attribute("#where", "aria-invalid") == "true"
    page.fill("#where", "temp_00001 > 100")
    page.press("#where", "Enter")
    page.wait_for_selector("text=No rows match the filter")


def test_the_keyboard_moves_and_selects(page, show):
    show()
    page.focus("#grid")
    for key in ("ArrowRight", "ArrowDown", "Shift+ArrowDown", "Shift+ArrowRight"):
        page.keyboard.press(key)
    page.wait_for_selector("regular-table td.selected")
    assert page.locator("regular-table td.selected").count() == 4
    page.keyboard.press("End")
    page.wait_for_selector("regular-table th:has-text('kind')")
    page.keyboard.press("?")
    assert page.is_visible("#help")


def focused(page):
    return page.evaluate("document.activeElement.textContent || document.activeElement.id")


def test_the_list_of_columns_by_keyboard(page, show):
    show()
    page.keyboard.press("/")
    page.keyboard.press("ArrowDown")
    wait_until(page, lambda: focused(page) == "press_00000")
    page.keyboard.press("ArrowDown")
    wait_until(page, lambda: focused(page) == "temp_00001")
    page.keyboard.press("Space")
    page.wait_for_selector("text=99,999 shown")
    wait_until(page, lambda: focused(page) == "temp_00001")
    page.keyboard.press("End")
    wait_until(page, lambda: focused(page) == "kind")
    page.keyboard.press("ArrowUp")
    wait_until(page, lambda: focused(page) == "press_99998")
    page.keyboard.press("Enter")
    page.wait_for_selector("#profile h2:has-text('press_99998')")
    page.wait_for_selector("regular-table th:has-text('press_99998')")
    # The list is one stop of the Tab key, whatever its length.
    page.focus("#select-none")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "column-list"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "grid"
    # The tree folds.
    page.select_option("#sort", "tree")
    page.wait_for_selector("text=press_…")
    page.focus("#column-list")
    page.keyboard.press("Home")
    wait_until(page, lambda: focused(page) == "press_…")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#column-list >> text=press_00000")
    wait_until(page, lambda: focused(page) == "press_…")
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector("#column-list >> text=press_00000", state="detached")


def test_only_the_columns_that_match(page, show):
    show(q="_0999")
    page.click("#select-only")
    page.wait_for_selector("text=10 shown")
    names = [f"{'temp' if i % 2 else 'press'}_{i:05d}" for i in range(9990, 10_000)]
    wait_until(page, lambda: heads(page)[1:4] == names[:3])


def test_the_tree_folds_and_selects(page, show):
    show(sort="tree")
    page.wait_for_selector("text=press_…")
    assert page.locator("#column-list .row").count() == 3
    page.click("[aria-label='Show all temp_']")
    page.wait_for_selector("text=50,001 shown")  # without those that start with temp_
    page.click("button.twist >> nth=0")
    page.wait_for_selector("#column-list >> text=press_00000")


def test_the_treemap_zooms_to_a_column(page, show):
    show(view="sizes")
    page.wait_for_selector("#treemap g[role=button]")
    page.focus("#treemap g[role=button] >> nth=0")
    assert violations(page) == []
    page.keyboard.press("Enter")
    page.wait_for_selector("#treemap text:has-text('others')")
    page.locator("#treemap g[role=button]").first.click()
    page.wait_for_selector("#profile canvas")


def test_names_and_values_are_text(page, show):
    show(source=1, column=0)
    page.wait_for_selector("#profile .bars li")
    text = page.inner_text("regular-table")
    assert HOSTILE in text
    assert "<script>document.title='owned'</script>\\x1b[31m\\u202eabc" in text
    assert "a\\nb\\u202e" in text
    assert "owned" not in page.title()
    assert page.locator("img, body script").count() == 0
    assert page.inner_text("#profile h2") == HOSTILE


def test_a_damaged_file_shows_its_error_and_others_open(page, show):
    show(source=2)
    assert "CorruptFileError" in page.inner_text("#message")
    assert "damaged.mosaic" in page.inner_text("#message")
    assert violations(page) == []
    page.click("#tabs button >> nth=3")
    page.wait_for_selector("text=The table has no rows")
    page.click("#tabs button >> nth=4")
    page.wait_for_selector("text=3 rows \u00d7 1 column")
    page.select_option("#version", "1")
    page.wait_for_selector("text=2 rows \u00d7 1 column")


def clipboard(page):
    return page.evaluate("navigator.clipboard.readText()")


def test_cells_are_copied_as_tsv(page, show):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    show(select="none;%2Bg:temp_0000[13];%2Bs:kind")
    page.click("regular-table tbody tr:nth-child(3) td:nth-of-type(1)")
    page.click("regular-table tbody tr:nth-child(5) td:nth-of-type(3)", modifiers=["Shift"])
    page.wait_for_selector("regular-table td.selected")
    page.keyboard.press("Control+c")
    page.wait_for_selector("#status:has-text('Copied 9 cells')")
    assert clipboard(page) == f"2\t2\t\n3\t3\t{'b' * 500}\n4\t4\ta"


def test_columns_are_resized(page, show):
    show()
    head = page.locator("regular-table thead tr:last-child th").nth(1)
    before = head.bounding_box()["width"]
    box = head.locator(".rt-column-resize").bounding_box()
    page.mouse.move(box["x"] + 3, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(box["x"] + 103, box["y"] + 5, steps=4)
    page.mouse.up()
    page.wait_for_selector("#profile", state="hidden")  # it was no click on the heading
    wait_until(page, lambda: abs(head.bounding_box()["width"] - before - 100) < 3)


def test_more_rows_than_a_browser_can_scroll(page, tmp_path):
    """An area has at most some million pixels, and these rows would have 660 million."""
    count = 30_000_000
    path = tmp_path / "tall.mosaic"
    constant = pa.nulls(count // 10, pa.int8())
    with fm.MosaicWriter(path, pa.schema([("x", pa.int8()), ("y", pa.int8())])) as writer:
        for _ in range(10):
            writer.write_table(pa.table([constant, constant], ["x", "y"]))
    with serving(path) as client:
        page.goto(f"{client.url}#y=23456789")
        page.wait_for_selector("regular-table tbody th:text-is('23,456,789')")
        page.focus("#grid")
        page.keyboard.press("ArrowDown")
        page.wait_for_selector("#status:has-text('place 23,456,790')")
        page.wait_for_selector("regular-table td.cursor")
        page.keyboard.press("Control+End")
        page.wait_for_selector("regular-table tbody th:text-is('29,999,999')")
        page.keyboard.press("Control+Home")
        page.wait_for_selector("regular-table tbody th:text-is('0')")


def test_other_formats(page, tmp_path):
    table = pa.table({"id": range(1000), "name": ["a", "b"] * 500})
    pq.write_table(table, tmp_path / "a.parquet")
    feather.write_feather(table, tmp_path / "a.arrow")
    orc.write_table(table, tmp_path / "a.orc")
    csv.write_csv(table, tmp_path / "a.csv")
    names = ["a.parquet", "a.arrow", "a.orc", "a.csv"]
    with serving(*(tmp_path / name for name in names)) as client:
        page.goto(client.url)
        for name in names:
            page.click(f"#tabs button:text-is('{name}')")
            page.wait_for_selector(f"#tabs button[aria-pressed=true]:text-is('{name}')")
            page.wait_for_selector(f"#facts:has-text('{name.partition('.')[2]}')")
            page.wait_for_selector("body[aria-busy=false]")
            assert heads(page)[1:] == ["id", "name"]
            page.fill("#where", "id >= 998")
            page.press("#where", "Enter")
            page.wait_for_selector("#where-message:has-text('2 of 1,000 rows')")
            page.wait_for_selector("regular-table tbody th:text-is('998')")
            page.click("regular-table th:has-text('name')")
            page.wait_for_selector("#profile .bars li")
            assert page.locator("#profile .bars li").count() == 2


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_a_small_screen(page, show, scheme):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": 400, "height": 800})
    show()
    assert page.is_hidden("#columns")
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    page.click("#toggle-columns")
    assert page.is_visible("#column-list")
    page.wait_for_selector("#column-list .name")
    assert violations(page) == []

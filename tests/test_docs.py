"""What the documentation shows is what happens."""

import dataclasses
import doctest
import importlib
import inspect
import io
import os
import re
import subprocess
import sys
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest
import reference

import fastmosaic as fm
import fastmosaic.array_block
import fastmosaic.spark as fs
from fastmosaic.format import types, wire
from fastmosaic.format.annex import Annex, BlockChecksums, Checksums
from fastmosaic.format.footer import Flag, Footer

pytest_plugins = ["spark_session"]

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = {str(path.relative_to(ROOT)): path for path in (ROOT / "README.md", *DOCS.rglob("*.md"))}
PANDAS = pytest.mark.filterwarnings(
    "ignore:PySpark does not yet fully support pandas:FutureWarning"
)

# ---- docstrings


PUBLIC = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module in (fm, fs, fastmosaic.array_block)
    for name in module.__all__
}
# Records, which functions return, and errors need no example.
SHOWN = [
    name
    for name, thing in PUBLIC.items()
    if inspect.isfunction(thing)
    or not (dataclasses.is_dataclass(thing) or issubclass(thing, Exception))
]
WITH_DOCTESTS = sorted(
    ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
    for path in (ROOT / "src" / "fastmosaic").rglob("*.py")
    if ">>> " in path.read_text()
    and path.name != "torch.py"  # tests/torch runs it where PyTorch is installed
)


@pytest.mark.parametrize("name", PUBLIC)
def test_what_is_public_has_a_docstring(name):
    assert PUBLIC[name].__doc__
    assert not PUBLIC[name].__doc__.startswith(PUBLIC[name].__name__ + "(")  # one of dataclasses


@pytest.mark.parametrize("name", SHOWN)
def test_what_is_public_has_an_example(name):
    if name == "fastmosaic.spark.MosaicDataSource":
        assert '.format("mosaic")' in python_of("docs/spark.md")
    elif name.startswith("fastmosaic.spark."):
        assert f" fs.{PUBLIC[name].__name__}(" in " " + python_of("docs/spark.md").replace(
            "\n", " "
        )
    else:
        assert doctest.DocTestFinder(recurse=False).find(PUBLIC[name])[0].examples


def with_spark(names, uses):
    """Names as parameters, of which those that use Spark share its session."""
    group = pytest.mark.xdist_group("spark")
    return [pytest.param(name, marks=group if uses(name) else ()) for name in names]


@PANDAS
@pytest.mark.parametrize("name", with_spark(WITH_DOCTESTS, lambda name: ".spark" in name))
def test_the_examples_of_docstrings_run(name, request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if name.startswith("fastmosaic.spark"):
        request.getfixturevalue("spark")  # the session that fs.session() finds
    failed, attempted = doctest.testmod(importlib.import_module(name))
    assert attempted > 0
    assert failed == 0


# ---- pages


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    text: str
    line: int


def blocks(path: Path) -> list[Block]:
    text = path.read_text()
    return [
        Block(match[1], match[2], text[: match.start()].count("\n") + 2)
        for match in re.finditer(r"^```([^\n]*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    ]


def python_of(name: str) -> str:
    return "".join(block.text for block in blocks(PAGES[name]) if block.language == "python")


WITH_EXAMPLES = [
    name for name, path in PAGES.items() if any(block.language for block in blocks(path))
]


@pytest.mark.parametrize("name", PAGES)
def test_every_block_is_of_a_kind_that_is_run_or_of_none(name):
    assert {block.language for block in blocks(PAGES[name])} <= {"", "python", "console"}


@PANDAS
@pytest.mark.parametrize(
    "name", with_spark(WITH_EXAMPLES, lambda name: "fastmosaic.spark" in python_of(name))
)
def test_the_examples_of_a_page_run(name, request, tmp_path, monkeypatch):
    """In order, in one directory; those in Python see the names of those before."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks(PAGES[name]):
        if block.language == "python":
            if "fastmosaic.spark" in block.text:
                request.getfixturevalue("spark")
            # Lines are counted from the top of the page, so that errors point there.
            source = "\n" * (block.line - 1) + block.text
            exec(compile(source, str(PAGES[name]), "exec"), names)  # noqa: S102 - our own text
        elif block.language == "console":
            for command in commands(block.text):
                check(command)


class Command(NamedTuple):
    """A line after a prompt, and what the page shows below it."""

    line: str
    output: str  # of stdout and stderr; "…" stands for anything
    status: int


def commands(text: str) -> list[Command]:
    """The commands of a block; `$ echo $?` after one tells its status, which otherwise is 0."""
    found: list[Command] = []
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        line, output = re.fullmatch(r"((?:[^\n]*\\\n)*[^\n]*)\n(.*)", part, re.DOTALL).groups()
        if line == "echo $?":
            found[-1] = found[-1]._replace(status=int(output))
        else:
            found.append(Command(line, output, 0))
    return found


def check(command: Command) -> None:
    paths = [str(Path(sys.executable).parent), os.environ["PATH"]]
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command.line],
        env={
            **os.environ,
            "COLUMNS": "100",
            "PATH": os.pathsep.join(paths),
            "PYTHONPATH": str(ROOT / "src"),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == command.status, f"$ {command.line}\n{done.stdout}"
    if command.output:
        assert is_shown(done.stdout, command.output), f"$ {command.line}\n{done.stdout}"


def is_shown(actual: str, shown: str) -> bool:
    pattern = ".*".join(map(re.escape, re.split(r"…\n?", shown.rstrip("\n"))))
    return re.fullmatch(pattern, actual.rstrip("\n"), re.DOTALL) is not None


def test_commands_are_taken_from_a_page_as_a_shell_would_take_them():
    text = "$ ls a \\\n    b\n$ cat a\none\ntwo\n$ false\n$ echo $?\n1\n"
    assert commands(text) == [
        Command("ls a \\\n    b", "", 0),
        Command("cat a", "one\ntwo\n", 0),
        Command("false", "", 1),
    ]
    for command in commands("$ echo a; echo b\n…\nb\n$ (exit 3)\n$ echo $?\n3\n"):
        check(command)
    for wrong in ("$ echo a\nb\n", "$ exit 3\n", "$ echo a; echo b\na\n"):
        with pytest.raises(AssertionError):
            check(*commands(wrong))


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_to_files(name):
    path = PAGES[name]
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text())
    assert [
        link for link in links if not link.startswith("http") and not (path.parent / link).exists()
    ] == []


def test_the_readme_and_the_page_on_architecture_name_every_room():
    package = ROOT / "src" / "fastmosaic"
    rooms = {f"{path.parent.name}/" for path in package.glob("*/__init__.py")}
    for page in ("README.md", "docs/architecture.md"):
        text = PAGES[page].read_text()
        assert [room for room in sorted(rooms) if room not in text] == []


def test_the_page_on_architecture_names_modules_that_exist():
    package = ROOT / "src" / "fastmosaic"
    text = PAGES["docs/architecture.md"].read_text()
    named = set(re.findall(r"\b((?:format|storage|schemas|query|file|dataset)/\w+)", text))
    known = {
        path.relative_to(package).with_suffix("").as_posix() for path in package.rglob("*.py*")
    }
    assert named
    assert named - known == set()


# ---- the site


def test_the_site_builds_and_needs_nothing_from_elsewhere(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--site-dir", tmp_path],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "WARNING" not in done.stdout
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > len(PAGES) - 1  # one is of an error
    for page in pages:
        text = page.read_text()
        loaded = re.findall(r"<(?:script|img)[^>]* src=[\"']?(https?:[^\"'> ]*)", text)
        loaded += re.findall(r"<link[^>]* rel=\"?stylesheet[^>]* href=\"?(https?:[^\"> ]*)", text)
        assert loaded == [], page.name


def test_what_is_public_is_on_a_page_of_the_api():
    text = "".join(path.read_text() for path in (DOCS / "api").iterdir())
    described = set(re.findall(r"^::: (\S+)$", text, re.MULTILINE))
    # Spark finds it by itself, as `spark.read.format("mosaic")`.
    found = PUBLIC.keys() - {"fastmosaic.spark.MosaicDataSource"}
    assert described == found | {"fastmosaic.torch.MosaicIterable"}  # which PyTorch is needed for


# ---- the bytes of docs/format.md


FORMAT = (DOCS / "format.md").read_text()
TWO_COLUMNS = pa.table({"name": pa.array(["ann", None]), "id": pa.array([7, 8], pa.int32())})
LISTS = pa.array([[1, 2], None, [], [3]], pa.list_(pa.int8()))


def written(table: pa.Table, **options: object) -> bytes:
    sink = io.BytesIO()
    given = {"num_buckets": 1, "compression": "none", "annex": False, "max_dict_entries": 255}
    given |= options
    fm.write_table(table, sink, **given)
    return sink.getvalue()


def by_reference(table: pa.Table, **options: object) -> bytes:
    given = {"num_buckets": 1, "compression": reference.NONE, **options}
    return reference.encode_file(table.to_batches(), table.schema, **given)


def the_file(encode):
    return encode(TWO_COLUMNS)


def names(encode):
    schema = pa.schema([(letter + "pressure", pa.int8()) for letter in "eacbd"])
    file = encode(schema.empty_table())
    return file[4 : 4 + int.from_bytes(file[:4], "big")]


def monolithic(encode):
    table = pa.table(
        {
            "color": ["red", "green", "blue"] * 4,
            "flat": pa.array([7, None] * 6, pa.int16()),
            "none": pa.nulls(12, pa.int64()),
            "p": pa.array(range(12), pa.int8()),
        }
    )
    return bucket(encode(table))


def lists(encode):
    return bucket(encode(pa.table({"l": LISTS})))


def array_block(encode):
    return bucket(encode(pa.table({"l": LISTS}), array_layout="block"))


def index(encode):
    statistics = {"write_statistics": ["id"]} if encode is written else {"stats_columns": ["id"]}
    file = encode(TWO_COLUMNS, **statistics)
    return file[Footer.decode(file, len(file)).index_offset : -Footer.SIZE]


def bucket(file: bytes) -> bytes:
    return file[: Footer.decode(file, len(file)).schema_offset]


EXAMPLES = {
    "file": the_file,
    "names": names,
    "monolithic": monolithic,
    "list": lists,
    "block": array_block,
    "index": index,
}


def shown(name: str) -> bytes:
    """The bytes of an example, whose offsets are checked."""
    (dump,) = re.findall(rf"<!-- bytes: {name} -->\n```\n(.*?)```", FORMAT, re.DOTALL)
    data = b""
    for line in dump.splitlines():
        offset, row = re.match(r"([0-9a-f]{4})  ((?:[0-9a-f]{2} )+) ", line).groups()
        assert int(offset, 16) == len(data), line
        data += bytes.fromhex(row)
    return data


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("encode", [written, by_reference])
def test_the_bytes_of_the_format(name, encode):
    assert EXAMPLES[name](encode).hex(" ") == shown(name).hex(" ")


def test_the_bytes_of_a_paged_bucket():
    columns = {"a": [5, 6], "b": [None, None], "c": [9, 9]}
    table = pa.table({name: pa.array(column, pa.int8()) for name, column in columns.items()})
    file = written(table, compression="zstd", page_size_threshold=0)
    assert bucket(file).hex(" ") == shown("paged").hex(" ")
    schema, (batch,) = reference.decode_file(file)
    assert batch.to_pydict() == columns
    assert schema.equals(table.schema)


def test_the_bytes_of_an_annex():
    parts = shown("file")
    footer = Footer.decode(parts, len(parts))
    body, schema = parts[: footer.schema_offset], parts[footer.schema_offset : footer.index_offset]
    group_index = parts[footer.index_offset : -Footer.SIZE]
    annex = shown("annex")
    moved = dataclasses.replace(
        footer,
        schema_offset=footer.schema_offset + len(annex),
        index_offset=footer.index_offset + len(annex),
        flags=Flag.ANNEX,
    )
    file = body + annex + schema + group_index + moved.encode()
    report = fm.verify(file)
    assert report.ok, report.problems
    assert fm.read_table(file).equals(TWO_COLUMNS)
    found = Annex.decode(annex)
    assert found.writer == "example"
    assert found.checksums == Checksums.of(group_index, moved.encode())
    assert isinstance(found.blocks, BlockChecksums)
    assert found.encode() == annex


def rows_of(title: str) -> list[list[str]]:
    """The cells of the first table below a line that begins with `title`."""
    table = FORMAT[FORMAT.index(f"\n{title}") + 1 :].split("\n\n")[0]
    rows = [[cell.strip("` ") for cell in line[1:-1].split("|")] for line in table.splitlines()[2:]]
    assert rows
    return rows


def test_the_varints_of_the_format():
    encoders = {"uv": (reference.uv, wire.put_varint), "zz": (reference.zz, None)}
    for name, *examples in rows_of("| | examples"):
        by_the_book, ours = encoders[name]
        for example in examples:
            number, data = re.fullmatch(r"(-?\d+): `([0-9a-f ]+)", example).groups()
            assert by_the_book(int(number)).hex(" ") == data
            if ours is not None:
                out = bytearray()
                ours(out, int(number))
                assert out.hex(" ") == data


def arrow_type(text: str) -> pa.DataType:
    """`list_(int32())` as the type that it makes."""
    return eval(text, vars(pa))


def test_the_descriptors_of_the_format():
    for text, data in rows_of("| Arrow type | descriptor |"):
        field = pa.field("x", arrow_type(text))
        assert types.ColumnType.from_arrow(field).descriptor.hex(" ") == data
        assert reference.encode_type(field).hex(" ") == data


def test_the_type_ids_of_the_format():
    found = {}
    for row in rows_of("| type | | parameters | type"):
        for ids, names_of in ((row[0], row[1]), (row[3], row[4])):
            found |= zip(ids.split(", "), names_of.split(", "), strict=True)
    assert {name: int(number) for number, name in found.items() if name} == {
        member.name: member.value for member in types.TypeId
    }


def test_the_values_of_the_format():
    made = {"date": date, "time": time, "datetime": datetime, "Decimal": Decimal}
    for text, value, data, _ in rows_of("| Arrow type | value | bytes"):
        array = pa.array([eval(value, made), None], arrow_type(text))
        # CONST: two bytes of flags, the value, and the null bitmap.
        assert bucket(written(pa.table({"x": array})))[2:-1].hex(" ") == data, text
        assert reference.serialize(array)[0].hex(" ") == data, text


def test_the_footer_of_the_format():
    fields = [field.name for field in dataclasses.fields(Footer)]
    sizes = {"Q": 8, "I": 4, "B": 1, "H": 2, "4s": 4}
    rows = rows_of("| offset | size | field | |")
    layout = re.findall(r"4s|[QIBH]", Footer.LAYOUT.format)
    assert [int(size) for _, size, *_ in rows] == [sizes[code] for code in layout]
    assert [int(offset) for offset, *_ in rows] == [0, 8, 16, 20, 24, 25, 26, 28]
    assert {name for _, _, name, _ in rows} == {*fields, "version", "magic"}


def test_the_page_of_the_format_stays_short():
    assert FORMAT.count("\n") < 380

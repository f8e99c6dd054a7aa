"""The fuzzers, in a short run that is always the same, with the ordinary kernels.

`make fuzz` does the same for as long as it is asked to, with other choices each time.
"""

import json
import sys
import zlib
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
import small_files
from files import written

sys.path.insert(0, str(Path(__file__).parents[1]))

import fastmosaic as fm
import fuzz
from fuzz import findings, limits, model, mutate, report, seeds, tables, targets, theirs, tokens
from fuzz.targets import MUTATORS, TARGETS, Target, Wrong

STARTS = seeds.starts()
CORPUS = seeds.corpus()
INPUTS = {family: [*STARTS[family], *CORPUS.get(family, {}).values()] for family in STARTS}


@pytest.fixture(autouse=True, scope="module")
def ended():
    yield
    targets.close()


def check(target: Target, data: bytes) -> None:
    """Run a target, whose time and memory are limited."""
    error = None

    def act() -> int:
        nonlocal error
        try:
            return targets.execute(target, data)
        except Exception as raised:  # noqa: BLE001 - to be looked at below
            error = raised
            return 0

    cost = limits.measure(act)
    if error is not None:
        raise error
    assert not cost.excess(), cost


def of_family(family: str) -> list[Target]:
    return [target for target in TARGETS if target.family == family]


@pytest.mark.parametrize(
    ("family", "name"), [(family, name) for family, names in CORPUS.items() for name in names]
)
def test_the_corpus(family, name):
    for target in of_family(family):
        check(target, CORPUS[family][name])


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_what_fuzzing_starts_from(target):
    for data in STARTS[target.family]:
        check(target, data)


MUTATIONS = {
    "files": 150,
    "blocks": 300,
    "schemas": 300,
    "annexes": 200,
    "versions": 500,
    "seeds": 10,
}


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_some_mutations(target):
    rng = Random(zlib.crc32(target.name.encode()))
    inputs, mutate_one = INPUTS[target.family], MUTATORS[target.family]
    for _ in range(MUTATIONS[target.family]):
        data = mutate_one(rng.choice(inputs), rng.choice(inputs), rng)
        check(target, mutate_one(data, rng.choice(inputs), rng) if rng.random() < 0.5 else data)


# ---- the fuzzers themselves


@pytest.mark.parametrize("data", STARTS["files"], ids=range(len(STARTS["files"])))
def test_a_file_is_put_together_from_its_parts(data):
    made = model.assemble(model.parse(data))
    targets.same(fm.read_table(made), fm.read_table(data), "parts")
    assert fm.verify(made).problems == fm.verify(data).problems


def test_all_parts_of_small_files_are_known():
    for data in small_files.FILES.values():
        parts = model.parse(data).parts()
        assert all(len(part) > 1 or part == [("uv", 0)] for part in parts)


def test_a_changed_value_has_right_checksums():
    data = written(pa.table({"a": pa.array([1, 2, 3], pa.int32())}), use_dictionary=False)
    file = model.parse(data)
    values = file.groups[0].blocks[0].tokens
    assert values[-1] == ("raw", bytes([0, 0, 0, 3]))
    values[-1] = ("raw", bytes([0, 0, 1, 0]))
    made = model.assemble(file)
    assert fm.read_table(made)["a"].to_pylist() == [1, 2, 256]
    assert fm.verify(made).ok


def test_a_changed_name_has_right_offsets():
    file = model.parse(written(pa.table({"a": [1]})))
    file.schema[4] = ("str", b"longer than before")
    made = model.assemble(file)
    assert fm.read_table(made).to_pylist() == [{"longer than before": 1}]
    assert fm.verify(made).ok


def test_a_frame_of_many_zeros_is_a_few_bytes():
    frame = model.with_zeros(b"abc", 1 << 20)
    assert len(frame) < 100
    assert pa.Codec("zstd").decompress(frame, (1 << 20) + 3).to_pybytes() == b"abc" + bytes(1 << 20)
    long = model.with_zeros(b"abc" * 100_000, 5)
    assert pa.Codec("zstd").decompress(long, 300_005).to_pybytes() == b"abc" * 100_000 + bytes(5)


def test_mutations_reach_what_lies_behind_the_checksums():
    rng = Random(1)
    files = STARTS["files"]
    opened, changed = 0, 0
    for _ in range(200):
        data = rng.choice(files)
        made = mutate.file(data, rng.choice(files), rng)
        changed += made != data
        opened += targets.attempt(lambda made=made: fm.MosaicFile(made))[0] is not None
    assert changed > 150
    assert opened > 80


def test_the_same_seed_gives_the_same_mutations():
    for family, mutate_one in MUTATORS.items():
        one, other = (mutate_one(STARTS[family][0], STARTS[family][1], Random(3)) for _ in "ab")
        assert one == other


def test_random_tables_are_the_same_for_a_seed():
    one, other = (tables.table(Random(8)) for _ in "ab")
    assert one.schema == other.schema
    targets.same(one, other, "tables")


def test_a_wrong_value_is_noticed():
    with pytest.raises(Wrong, match="what: column 'a'"):
        targets.same(pa.table({"a": [1]}), pa.table({"a": [2]}), "what")
    targets.same(pa.table({"a": [float("nan")]}), pa.table({"a": [float("nan")]}), "what")


def test_a_finding_is_made_small(tmp_path):
    target = Target("t", "files", lambda data, rng: 0)
    data = written(pa.table({"a": ["x" * 50, "bad", "y" * 50], "b": [1, 2, 3]}), compression="none")

    def repeats(smaller: bytes) -> bool:
        table, _ = targets.attempt(lambda: fm.read_table(smaller))
        return table is not None and b"bad" in smaller

    small = findings.minimised(data, "files", repeats)
    assert repeats(small)
    assert len(small) < len(data)
    kept = findings.Findings(tmp_path)
    kept.add("t: what", target, small, "detail")
    assert findings.Findings(tmp_path).is_known("t: what")
    assert not kept.is_known("t: something else")


def test_findings_that_differ_in_numbers_and_names_are_one():
    target = Target("t", "files", lambda data, rng: 0)
    one, other = (
        findings.signature(target, Wrong(f"{i} rows of {name!r}"))
        for i, name in [(1, "a"), (2, "b")]
    )
    assert one == other


def test_the_cost_of_a_target_is_limited():
    assert limits.Cost(seconds=0.9).excess() == ""
    assert limits.Cost(seconds=1.1).excess() == "time"
    assert limits.Cost(memory=301 << 20).excess() == "memory"
    assert limits.Cost(memory=301 << 20, seconds=1.1, result=100 << 20).excess() == ""
    # Much more than what Arrow may give back to the system at the same time.
    held = limits.measure(lambda: len(bytearray(b"x") * (256 << 20)))
    assert held.memory > 60 << 20


def test_the_reference_may_die():
    child = theirs.Theirs()
    try:
        assert child.read(small_files.FILES["monolithic"]).num_rows == 12
        with pytest.raises(theirs.Refused, match="too small"):
            child.read(b"")
        # Types nested so deeply overflow its stack.
        body = b"\1\1\0\0\1a" + b"\x12\1\1e" * 200_000 + b"\3\1" + b"\0"
        file = model.File(0, 1, 0, [("raw", body)], model.Frame(), [], num_buckets=1)
        with pytest.raises(theirs.Died):
            child.read(model.assemble(file))
        assert child.read(small_files.FILES["monolithic"]).num_rows == 12
    finally:
        child.close()


def test_tokens_that_cannot_be_parsed_stay_bytes():
    assert tokens.parsed(b"\xff\xff\xff", tokens.schema) == [("raw", b"\xff\xff\xff")]


def test_the_report(tmp_path, capsys):
    (tmp_path / "state").mkdir()
    figures = {
        "executions": {"read": 10},
        "seconds": {"read": 2.0},
        "findings": {},
        "suspicions": {},
        "inputs": {"files": 3},
        "deaths": {"panic": 2},
        "elapsed": 2.0,
        "memory": 0,
    }
    for worker in "01":
        (tmp_path / "state" / f"figures-{worker}-0.json").write_text(json.dumps(figures))
    assert report.write(tmp_path, 4.0) == 0
    assert "20 executions in 4 s" in capsys.readouterr().out
    kept = findings.Findings(tmp_path / "findings")
    kept.add("read: wrong", TARGETS[0], b"abc", "")
    assert report.write(tmp_path, 4.0) == 1
    made = json.loads((tmp_path / "report.json").read_text())
    assert made["targets"]["read"] == {"executions": 20, "seconds": 4, "per_second": 5}
    assert made["findings"][0]["what"] == "read: wrong"


def test_the_package_lists_its_modules():
    listed = {line.split()[0] for line in (fuzz.__doc__ or "").splitlines()[1:] if line.strip()}
    found = {path.stem for path in Path(fuzz.__file__).parent.glob("*.py")}
    assert listed == {name for name in found if not name.startswith("__")}

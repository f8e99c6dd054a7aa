"""Random operations on a table, compared with a list of rows after each, and all versions at the end."""

import random
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import fastmosaic as fm

Row = dict[str, object]
TYPES = {"int": pa.int64(), "text": pa.string(), "struct": pa.struct({"x": pa.int32()})}
NAMES = ["a", "b", "c", "d", "e"]
SEEDS = range(12)


class Model:
    """A table as its columns and its rows."""

    def __init__(self, types: dict[str, str], rows: list[Row]) -> None:
        self.types = types  # with `id` and `day`, which are never dropped
        self.rows = rows

    def copy(self) -> "Model":
        return Model(dict(self.types), [dict(row) for row in self.rows])


def value(kind: str, number: int) -> object:
    """Return a value of a kind for a row, null for some."""
    if number % 5 == 0:
        return None
    return {"int": number, "text": f"v{number % 7}", "struct": {"x": number % 9}}[kind]


class Machine:
    """Does the same to a table and to a model."""

    def __init__(self, path: str, seed: int) -> None:
        self.random = random.Random(seed)
        self.path = path
        self.next_id = 0
        self.is_partitioned = self.random.random() < 0.5
        self.model = Model({"id": "int", "day": "text", "a": "int", "b": "text"}, [])
        rows = self._new_rows(["a", "b"])
        partitioning = "day" if self.is_partitioned else None
        self.table = fm.MosaicTable.create(
            path, self._data(rows, ["a", "b"]), partitioning=partitioning
        )
        self.model.rows += rows
        self.versions: dict[int, Model] = {}
        self.remember()

    def remember(self) -> None:
        self.versions[self.table.version] = self.model.copy()

    def _new_rows(self, names: list[str]) -> list[Row]:
        rows = []
        for _ in range(self.random.randrange(1, 30)):
            self.next_id += 1
            row: Row = {"id": self.next_id, "day": self.random.choice(["mo", "tu", None])}
            row |= {name: value(self.model.types[name], self.next_id) for name in names}
            rows.append(row)
        return rows

    def _data(self, rows: list[Row], names: list[str]) -> pa.Table:
        fields = {name: TYPES[self.model.types[name]] for name in ("id", "day", *names)}
        return pa.Table.from_pylist(rows, pa.schema(fields))

    @property
    def own(self) -> list[str]:
        return [name for name in self.model.types if name not in ("id", "day")]

    # ---- operations

    def append(self) -> None:
        names = [name for name in self.own if self.random.random() < 0.8]
        self.random.shuffle(names)
        rows = self._new_rows(names)
        options = {"row_group_size": self.random.choice([None, 5])}
        self.table.append(self._data(rows, names), **options)
        self.model.rows += [{name: row.get(name) for name in self.model.types} for row in rows]

    def add(self) -> None:
        names = self.random.sample(NAMES, self.random.randrange(1, 3))
        kinds = {name: self.random.choice(list(TYPES)) for name in names}
        shift = self.random.randrange(100)

        def function(batch: pa.RecordBatch) -> pa.RecordBatch:
            ids = batch["id"].to_pylist()
            arrays = [
                pa.array([value(kind, one + shift) for one in ids], TYPES[kind])
                for kind in kinds.values()
            ]
            return pa.RecordBatch.from_arrays(arrays, names=list(kinds))

        if not self.model.rows:
            with pytest.raises(ValueError, match=r"no rows|pass schema="):
                self.table.add_columns(function, inputs=["id"], replace=True)
            return
        self.table.add_columns(function, inputs=["id"], replace=True)
        self.model.types |= kinds
        for row in self.model.rows:
            row |= {name: value(kind, row["id"] + shift) for name, kind in kinds.items()}

    def join(self) -> None:
        name = self.random.choice(NAMES)
        ids = [row["id"] for row in self.model.rows if self.random.random() < 0.5]
        if not self.model.rows:
            return
        self.table.add_columns(
            pa.table({"id": pa.array(ids, pa.int64()), name: pa.array(ids, pa.int64())}),
            on="id",
            replace=True,
        )
        self.model.types[name] = "int"
        for row in self.model.rows:
            row[name] = row["id"] if row["id"] in ids else None

    def drop(self) -> None:
        if self.own:
            name = self.random.choice(self.own)
            self.table.drop_columns([name])
            del self.model.types[name]
            for row in self.model.rows:
                del row[name]

    def delete(self) -> None:
        condition: Callable[[Row], bool]
        kinds = [name for name in self.own if self.model.types[name] == "int"]
        choice = self.random.randrange(4)
        if choice == 0 and kinds:
            name, number = self.random.choice(kinds), self.random.randrange(150)
            self.table.delete([(name, ">", number)])
            condition = lambda row: row[name] is not None and row[name] > number
        elif choice == 1 and self.own:
            name = self.random.choice(self.own)
            self.table.delete(pc.field(name).is_null() & (pc.field("id") > 10))
            condition = lambda row: row[name] is None and row["id"] > 10
        elif choice == 2:
            self.table.delete([("day", "=", "mo")])
            condition = lambda row: row["day"] == "mo"
        else:
            number = self.random.randrange(self.next_id + 1)
            self.table.delete([("id", "=", number)])
            condition = lambda row: row["id"] == number
        self.model.rows = [row for row in self.model.rows if not condition(row)]

    def declare(self) -> None:
        names = [name for name in NAMES if name not in self.model.types]
        if names:
            name, kind = self.random.choice(names), self.random.choice(list(TYPES))
            self.table.add_columns(pa.schema({name: TYPES[kind]}))
            self.model.types[name] = kind
            for row in self.model.rows:
                row[name] = None

    def overwrite(self) -> None:
        names = [name for name in self.own if self.random.random() < 0.8]
        rows = self._new_rows(names) if self.random.random() < 0.8 else []
        data = self._data(rows, names)
        choice = self.random.randrange(3)
        replaced: Callable[[Row], bool]
        if choice == 0:
            self.table.overwrite(data)
            replaced = lambda row: True
        elif choice == 1:
            number = self.random.randrange(self.next_id + 1)
            self.table.overwrite(data, filters=[("id", "<", number)])
            replaced = lambda row: row["id"] < number
        else:
            self.table.overwrite(data, partitions="dynamic")
            days = {row["day"] for row in rows}
            replaced = lambda row: row["day"] in days if self.is_partitioned else bool(rows)
        self.model.rows = [row for row in self.model.rows if not replaced(row)]
        self.model.rows += [{name: row.get(name) for name in self.model.types} for row in rows]

    def compact(self) -> None:
        mode = self.random.choice(["auto", "rewrite"])
        self.table.compact(target_bytes=self.random.choice([600, 1 << 20]), mode=mode)

    def fold(self) -> None:
        self.table.fold()

    def restore(self) -> None:
        number = self.random.choice(list(self.versions))
        self.table.restore(number)
        self.model = self.versions[number].copy()

    def vacuum(self) -> None:
        self.table.vacuum(0, keep_versions=self.random.randrange(1, 6))
        kept = {info.version for info in self.table.history()}
        self.versions = {
            number: self.versions[number] for number in self.versions if number in kept
        }

    def step(self) -> None:
        operations = [
            *[self.append, self.add] * 3,
            *[self.join, self.drop, self.delete, self.compact, self.declare, self.overwrite] * 2,
            self.fold,
            self.restore,
            self.vacuum,
        ]
        self.random.choice(operations)()
        self.remember()

    def check(self, found: pa.Table, model: Model) -> None:
        assert set(found.schema.names) == set(model.types)
        rows = found.to_pylist()
        if self.is_partitioned:  # a file has the rows of one day
            rows.sort(key=lambda row: row["id"])
        assert rows == model.rows


@pytest.mark.parametrize("seed", SEEDS)
def test_every_version_is_what_the_model_says(seed, tmp_path):
    machine = Machine(str(tmp_path / "t"), seed)
    for _ in range(14):
        machine.step()
        machine.check(fm.read_table(machine.path), machine.model)
    for number, model in machine.versions.items():
        machine.check(fm.MosaicTable(machine.path, number).read(), model)
    machine.table.vacuum(0)
    machine.check(fm.read_table(machine.path), machine.model)

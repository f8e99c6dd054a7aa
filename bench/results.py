"""What a benchmark found, and the file that keeps it.

A result has three keys: case, measure and contender, all of them text. It is the better the smaller.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

OURS = "fastmosaic"
REFERENCE = "paimon-mosaic"
FLOOR = "floor"  # stands among the contenders

# Measures that several benchmarks share.
WRITE = "write"
MEMORY = "peak memory of writing"
SIZE = "file size"
WHOLE = "whole table"
TIME = "time"
PROCESSOR = "processor time"  # of all threads of the process
SHARE = "share of the time under the GIL"

PUBLISHED = Path(__file__).parent / "results"  # of the last full run of each benchmark

Key = tuple[str, str, str]


@dataclass(frozen=True)
class Missing:
    """Why there is no result."""

    reason: str
    wrong: bool = False  # the contender returned other values than were written


def unit(measure: str) -> str:
    """The unit of a measure; most are times."""
    if measure in (MEMORY, SIZE):
        return "bytes"
    return "share" if measure.endswith(SHARE) else "s"


@dataclass
class Results:
    """The best result of all runs, and why some are missing."""

    bench: str
    names: list[str]  # of the contenders
    options: dict[str, Any] = field(default_factory=dict)  # what was measured, and how often
    about: dict[str, Any] = field(default_factory=dict)  # date, commit, machine, versions
    values: dict[Key, float] = field(default_factory=dict)
    missing: dict[Key, Missing] = field(default_factory=dict)
    comparisons: Counter[str] = field(default_factory=Counter)  # by contender
    casts: dict[str, set[str]] = field(default_factory=dict)  # that comparing took

    def add(self, case: object, measure: str, name: str, value: float | Missing) -> None:
        """Keep a result if it is the best so far, or why there is none."""
        key = str(case), measure, name
        if isinstance(value, Missing):
            self.missing[key] = value
        else:
            self.values[key] = min(value, self.values.get(key, value))

    def checked(self, name: str, casts: Iterable[str]) -> None:
        """Count a result that was compared, after some casts, with what was written."""
        self.comparisons[name] += 1
        self.casts.setdefault(name, set()).update(casts)

    @property
    def wrong(self) -> list[str]:
        """Who returned other values than were written, and where."""
        return [
            f"{name}, {case}, {measure}: {missing.reason}"
            for (case, measure, name), missing in self.missing.items()
            if missing.wrong
        ]

    @property
    def cases(self) -> list[str]:
        return list(dict.fromkeys(case for case, _, _ in self.values))

    def measures(self, case: object) -> list[str]:
        """What was measured of a case."""
        return list(dict.fromkeys(measure for at, measure, _ in self.values if at == str(case)))

    def get(self, case: object, measure: str, name: str) -> float | None:
        return self.values.get((str(case), measure, name))

    def of(self, case: object, measure: str) -> dict[str, float]:
        """The results by contender."""
        return {
            name: value
            for (at, what, name), value in self.values.items()
            if (at, what) == (str(case), measure)
        }

    def best_peer(self, case: object, measure: str) -> tuple[str, float] | None:
        """The best of the others, the reference aside, and its result."""
        found = self.of(case, measure)
        peers = [name for name in self.names if name in found and name not in (OURS, REFERENCE)]
        return min(((name, found[name]) for name in peers), key=lambda one: one[1], default=None)

    def ratio(self, case: object, measure: str, over: str, under: str) -> float | None:
        """The result of `over`, in units of that of `under`."""
        above, below = self.get(case, measure, over), self.get(case, measure, under)
        return above / below if above is not None and below else None

    # ---- the file

    def save(self, folder: Path) -> Path:
        """Write the file of these results into a folder, and return its path."""
        values: dict[str, dict[str, dict[str, float]]] = {}
        for (case, measure, name), value in self.values.items():
            rounded = value if isinstance(value, int) else float(f"{value:.6g}")
            values.setdefault(case, {}).setdefault(measure, {})[name] = rounded
        content = {
            "bench": self.bench,
            **self.about,
            "options": self.options,
            "contenders": self.names,
            "units": {measure: unit(measure) for _, measure, _ in self.values},
            "values": values,
            "missing": [
                dict(zip(("case", "measure", "contender"), key, strict=True)) | vars(missing)
                for key, missing in self.missing.items()
            ],
            "comparisons": dict(self.comparisons),
            "casts": {name: sorted(casts) for name, casts in self.casts.items() if casts},
        }
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.bench}.json"
        path.write_text(_json(content) + "\n", encoding="utf-8")
        return path

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the file that `save` has written."""
        content = json.loads(path.read_text(encoding="utf-8"))
        about = ("date", "commit", "machine", "versions")
        results = cls(
            content["bench"],
            content["contenders"],
            content["options"],
            {key: content[key] for key in about if key in content},
            comparisons=Counter(content["comparisons"]),
            casts={name: set(casts) for name, casts in content["casts"].items()},
        )
        for case, measures in content["values"].items():
            for measure, values in measures.items():
                results.values.update(((case, measure, name), x) for name, x in values.items())
        for one in content["missing"]:
            key = one["case"], one["measure"], one["contender"]
            results.missing[key] = Missing(one["reason"], one["wrong"])
        return results


def _json(value: Any, margin: str = "") -> str:
    """JSON in which a list or object without further ones inside is one line."""
    if isinstance(value, Mapping) and any(map(_is_nested, value.values())):
        inner = margin + "  "
        items = [f"{json.dumps(k)}: {_json(v, inner)}" for k, v in value.items()]
        return _block("{", items, "}", margin)
    if _is_nested(value) and not isinstance(value, Mapping) and any(map(_is_nested, value)):
        return _block("[", [_json(item, margin + "  ") for item in value], "]", margin)
    return json.dumps(value, ensure_ascii=False)


def _is_nested(value: Any) -> bool:
    return isinstance(value, Mapping) or (
        isinstance(value, Sequence) and not isinstance(value, str)
    )


def _block(start: str, items: Sequence[str], end: str, margin: str) -> str:
    lines = ",\n".join(f"{margin}  {item}" for item in items)
    return f"{start}\n{lines}\n{margin}{end}"

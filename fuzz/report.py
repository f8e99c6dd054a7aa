"""The figures of a run: executions, coverage of the kernels, findings."""

from __future__ import annotations

import json
import pickle
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

from . import build


def _sum(directory: Path) -> dict[str, Any]:
    """Add the figures of all workers."""
    total: dict[str, Any] = {
        name: Counter() for name in ("executions", "seconds", "findings", "suspicions", "deaths")
    }
    total["inputs"] = {}
    total["memory"] = []
    for path in sorted((directory / "state").glob("figures-*.json")):
        figures = json.loads(path.read_text())
        for name in ("executions", "seconds", "findings", "suspicions", "deaths"):
            total[name].update(figures[name])
        total["inputs"] = {
            family: max(count, total["inputs"].get(family, 0))
            for family, count in figures["inputs"].items()
        }
        total["memory"].append(figures["memory"])
    return total


def _seen(directory: Path) -> dict[str, bytes]:
    """Return for each kernel the edges that any worker has taken."""
    union: dict[str, bytes] = {}
    for path in (directory / "state").glob("seen-*.bin"):
        for name, seen in pickle.loads(path.read_bytes()).items():
            before = union.get(name, bytes(len(seen)))
            union[name] = bytes(a | b for a, b in zip(before, seen, strict=True))
    return union


def line(directory: Path, seconds: float) -> str:
    """Return one line about a run that goes on."""
    total, seen = _sum(directory), _seen(directory)
    edges = sum(len(one) - one.count(0) for one in seen.values())
    found = len(list((directory / "findings").glob("*.bin")))
    count = total["executions"].total()
    return (
        f"{seconds:6.0f} s  {count} executions  {edges} edges  "
        f"{sum(total['inputs'].values())} inputs  {found} findings"
    )


def write(directory: Path, seconds: float) -> int:
    """Write and print the report; return 1 if there are findings."""
    total, seen = _sum(directory), _seen(directory)
    lines = _lines(directory, seen)
    findings = [
        {"what": path.with_suffix(".txt").read_text().splitlines()[0], "input": str(path)}
        for path in sorted((directory / "findings").glob("*.bin"))
    ]
    count = total["executions"].total()
    made = {
        "seconds": round(seconds),
        "executions": count,
        "executions_per_second": round(count / seconds, 1),
        "targets": {
            name: {
                "executions": total["executions"][name],
                "seconds": round(total["seconds"][name]),
                "per_second": round(total["executions"][name] / max(total["seconds"][name], 0.01)),
            }
            for name in total["executions"]
        },
        "kernels": {
            name: {
                "edges": len(one) - one.count(0),
                "of_edges": len(one),
                "lines": lines.get(name, (0, 0))[0],
                "of_lines": lines.get(name, (0, 0))[1],
            }
            for name, one in sorted(seen.items())
        },
        "inputs": total["inputs"],
        "memory_growth": total["memory"],
        "suspicions": dict(total["suspicions"]),
        "reference_died": dict(total["deaths"]),
        "findings": findings,
    }
    (directory / "report.json").write_text(json.dumps(made, indent=2, ensure_ascii=False) + "\n")
    text = _text(made)
    (directory / "report.txt").write_text(text)
    print(text, end="")
    return 1 if findings else 0


def _text(made: dict[str, Any]) -> str:
    rate = made["executions_per_second"]
    out = [
        f"{made['executions']} executions in {made['seconds']} s, {rate} each second",
        "",
        f"{'target':<16}{'executions':>12}{'seconds':>10}{'per second':>12}",
    ]
    for name, one in made["targets"].items():
        out.append(f"{name:<16}{one['executions']:>12}{one['seconds']:>10}{one['per_second']:>12}")
    out += ["", f"{'kernel':<16}{'edges':>14}{'lines':>16}"]
    for name, one in made["kernels"].items():
        edges = f"{one['edges']} / {one['of_edges']}"
        share = f" {one['lines'] / one['of_lines']:.0%}" if one["of_lines"] else ""
        out.append(f"{name:<16}{edges:>14}{one['lines']:>8} / {one['of_lines']}{share}")
    out += ["", "inputs: " + ", ".join(f"{k} {v}" for k, v in made["inputs"].items())]
    died = sum(made["reference_died"].values())
    out += [f"paimon-mosaic panicked or died {died} times, which is not a finding", ""]
    out.append(f"{len(made['findings'])} findings")
    out += [f"  {one['what']}\n      {one['input']}" for one in made["findings"]]
    return "\n".join(out) + "\n"


def _lines(directory: Path, seen: dict[str, bytes]) -> dict[str, tuple[int, int]]:
    """Return for each kernel how many lines of its source were reached, and how many there are.

    Most edges are in what Cython generates around each line, such as for errors that cannot occur;
    lines say more.
    """
    places = directory / "state" / "places.bin"
    if not places.exists():
        return {}
    program = build.symbolizer()
    if program is None:
        return {}
    found = {}
    for name, addresses in pickle.loads(places.read_bytes()).items():
        kernel = build.LIBRARY / "fastmosaic" / "format" / f"{name}.abi3.so"
        done = subprocess.run(
            [program, f"--obj={kernel}", "--functions=linkage"],
            check=True,
            input="\n".join(map(hex, addresses)),
            capture_output=True,
            text=True,
        )
        texts = done.stdout.split("\n\n")
        total, reached = set(), set()
        for text, taken in zip(texts, seen.get(name, b""), strict=False):
            # The innermost function comes first; what Cython adds has names of its own.
            function, _, place = text.strip().partition("\n")
            _, _, rest = place.partition("\n")[0].partition(f"{name}.pyx:")
            if rest and function.startswith(("__pyx_f_", "__pyx_pf_", "__pyx_pw_")):
                number = rest.split(":")[0]
                total.add(number)
                if taken:
                    reached.add(number)
        found[name] = (len(reached), len(total))
    return found

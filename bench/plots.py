"""The plots: one line or bar for each contender, the same colour in all of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from .plan import HUNDRED, OPEN, TEN, Case, Plan
from .report import unit
from .results import FLOOR, MEMORY, OURS, SIZE, WHOLE, WRITE, Results

Panel: TypeAlias = Callable[[Any], None]  # fills a matplotlib Axes

TITLES = {
    "headline": "Open a file of 10,000 columns and read one of them",
    "reading": "Time to open a file and read some of its columns",
    "columns": "Time to open a file and read one column, by number of columns",
    "rows": "Time to read, by number of rows",
    "writing": "Writing: time, peak memory and file size",
}
_COLOURS = {
    OURS: "#d62728",
    "paimon-mosaic": "#ff9f4a",
    "Parquet": "#1f77b4",
    "Parquet, no dictionary": "#74b3e0",
    "ORC": "#9467bd",
    "Feather": "#2ca02c",
    "Lance": "#8c564b",
    "Vortex": "#e377c2",
    FLOOR: "#555555",
}


def draw(results: Results, folder: Path) -> list[Path]:
    """Draw all plots into a folder, as PNG; their paths."""
    plt = _pyplot()
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    case = Plan.of(results).find("wide", 10_000, 4_500)
    if case is not None:
        seconds = {who: results.get(case, OPEN, who) for who in results.names}
        paths.append(folder / "headline.png")
        draw_headline({who: 1000 * s for who, s in seconds.items() if s}, paths[-1])
    for name, fill in (
        ("reading", _reading),
        ("columns", lambda results: _growth(results, "columns", [OPEN])),
        ("rows", lambda results: _growth(results, "rows", [OPEN, HUNDRED, WHOLE])),
        ("writing", _writing),
    ):
        panels = fill(results)
        if not panels:
            continue
        shared = name != "writing"
        figure, _ = plt.subplots(
            ncols=len(panels),
            figsize=(max(7, 4.2 * len(panels)), 4.8),
            layout="constrained",
            sharey=shared,
        )
        for axis, panel in zip(figure.axes, panels, strict=True):
            panel(axis)
            _finish(axis)
            if shared:
                axis.label_outer()
        handles, labels = figure.axes[0].get_legend_handles_labels()
        ncols = len(labels) if len(panels) > 2 else 4
        figure.legend(handles, labels, loc="outside lower center", ncols=ncols, frameon=False)
        figure.suptitle(TITLES[name], fontweight="bold")
        paths.append(folder / f"{name}.png")
        figure.savefig(paths[-1], dpi=110)
        plt.close(figure)
    return paths


def _pyplot() -> Any:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def draw_headline(milliseconds: dict[str, float], path: Path) -> None:
    """Draw one bar per contender: the time to open a file and read one column."""
    title = f"{TITLES['headline']} (lower is better)"
    _draw_bars(milliseconds, "{:,.2g} ms", title, path)


def _draw_bars(values: dict[str, float], label: str, title: str, path: Path) -> None:
    """Horizontal bars, the smallest at the top."""
    plt = _pyplot()
    names = sorted(values, key=values.__getitem__, reverse=True)
    figure, axis = plt.subplots(figsize=(8, 0.8 + 0.42 * len(names)), layout="constrained")
    bars = axis.barh(
        names,
        [values[name] for name in names],
        color=[_COLOURS[OURS] if name == OURS else "#b8c4cc" for name in names],
        height=0.72,
    )
    axis.bar_label(bars, [label.format(values[name]) for name in names], padding=5)
    axis.set_title(title, loc="left", fontweight="bold")
    axis.spines[["top", "right", "bottom"]].set_visible(False)
    axis.set_xlim(0, 1.12 * max(values.values()))
    axis.set_xticks([])
    axis.tick_params(axis="y", length=0)
    for name in axis.get_yticklabels():
        name.set_fontweight("bold" if name.get_text() == OURS else "normal")
    figure.savefig(path, dpi=130)
    plt.close(figure)


def draw_sums(relative: dict[str, float], path: Path) -> None:
    """Draw one bar per contender: the mean size of its files, in units of ours."""
    _draw_bars(
        relative, "{:.2f} x", "Mean file size relative to fastmosaic (lower is better)", path
    )


def draw_dots(ratios: dict[str, dict[str, list[float]]], path: Path) -> None:
    """Draw a panel per measure, a row per part and a dot per table; left of the line is better."""
    plt = _pyplot()
    import numpy as np

    parts = list(next(iter(ratios.values())))
    figure, axes = plt.subplots(
        ncols=len(ratios),
        figsize=(4.2 * len(ratios), 1.5 + 0.55 * len(parts)),
        layout="constrained",
        sharey=True,
        squeeze=False,
    )
    for axis, (measure, by_part) in zip(axes[0], ratios.items(), strict=True):
        for row, part in enumerate(parts):
            values = np.array(by_part[part])
            heights = row + np.linspace(-0.28, 0.28, len(values)) * (len(values) > 2)
            colours = [_COLOURS[OURS] if value <= 1 else "#7a8790" for value in values]
            axis.scatter(values, heights, s=16, c=colours, alpha=0.75, linewidths=0)
        axis.axvline(1, color="#333333", linewidth=1)
        axis.set_xscale("log")
        lowest = min((min(v, default=1) for v in by_part.values()), default=1)
        highest = max((max(v, default=1) for v in by_part.values()), default=1)
        ticks = [t for t in _TICKS if lowest / 1.3 <= t <= highest * 1.3]
        axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.xaxis.minorticks_off()
        axis.set_xlim(min(lowest, 0.9) / 1.1, max(highest, 1.1) * 1.1)
        axis.set_title(measure, fontsize="medium")
        axis.grid(axis="x", alpha=0.3)
        axis.set_axisbelow(True)
        axis.spines[["top", "right", "left"]].set_visible(False)
        axis.tick_params(axis="y", length=0)
    axes[0][0].set_yticks(range(len(parts)), parts)
    axes[0][0].invert_yaxis()
    figure.suptitle(
        "fastmosaic / Parquet, one dot per table (left of the line is better)", fontweight="bold"
    )
    figure.savefig(path, dpi=110)
    plt.close(figure)


_TICKS = [0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20]


def _reading(results: Results) -> list[Panel]:
    """A panel for each table: columns read, and the time it takes."""
    measures = [OPEN, TEN, HUNDRED, WHOLE]

    def panel(case: Case, axis: Any) -> None:
        for who in [*results.names, FLOOR]:
            _line(axis, who, range(4), [results.get(case, measure, who) for measure in measures])
        axis.set_xticks(range(4), ["1", "10", "100", "all"])
        axis.set(xlabel="columns read, scattered", ylabel="ms")
        axis.set_title(str(case), fontsize="medium")

    return [partial(panel, case) for case in Plan.of(results).cases if case.only is None]


def _growth(results: Results, along: Any, measures: Sequence[str]) -> list[Panel]:
    """A panel for each measure: number of columns or rows, and the time it takes."""
    cases = Plan.of(results).growth(along)

    def panel(measure: str, axis: Any) -> None:
        sizes = [getattr(case, along) for case in cases]
        for who in [*results.names, FLOOR]:
            _line(axis, who, sizes, [results.get(case, measure, who) for case in cases])
        axis.set(xscale="log", xlabel=along, ylabel="ms")
        fixed = f"{cases[0].rows:,} rows" if along == "columns" else f"{cases[0].columns:,} columns"
        axis.set_title(f"wide, {fixed}: {measure}", fontsize="medium")
        axis.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axis.xaxis.minorticks_off()

    return [partial(panel, measure) for measure in measures] if len(cases) > 1 else []


def _writing(results: Results) -> list[Panel]:
    """A panel each for time, memory and size: tables, and a bar for each contender."""
    cases = [case for case in Plan.of(results).cases if case.only is None]

    def panel(measure: str, axis: Any) -> None:
        name, scale = unit(measure)
        width = 0.8 / len(results.names)
        for i, who in enumerate(results.names):
            values = [results.get(case, measure, who) for case in cases]
            places = [j + (i - (len(results.names) - 1) / 2) * width for j in range(len(cases))]
            heights = [math.nan if value is None else value * scale for value in values]
            axis.bar(places, heights, width, label=who, color=_colour(who))
        axis.set_xticks(range(len(cases)), [f"{case.kind}\n{case.rows:,} rows" for case in cases])
        axis.set(ylabel=name)
        axis.set_title(measure, fontsize="medium")

    return [partial(panel, measure) for measure in (WRITE, MEMORY, SIZE)]


def _line(axis: Any, who: str, places: Sequence[int], seconds: Sequence[float | None]) -> None:
    values = [math.nan if value is None else value * 1000 for value in seconds]
    axis.plot(
        *(places, values, "--" if who == FLOOR else "-"),
        label=who,
        color=_colour(who),
        linewidth=2.8 if who == OURS else 1.4,
        marker="o",
        zorder=3 if who == OURS else 2,
    )


def _finish(axis: Any) -> None:
    """A logarithmic scale with plain numbers, and a light grid."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axis.set_yscale("log")
    low, high = axis.get_ylim()
    axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < 200 else (1,)))
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    axis.yaxis.set_minor_formatter(NullFormatter())
    axis.grid(axis="y", alpha=0.3)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


def _colour(who: str) -> str:
    return _COLOURS.get(who, "#bbbbbb")

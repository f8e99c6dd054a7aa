"""Draw the comparison as a chart."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .comparing import Comparison
from .showing import COLOURS, figure, times

GREY = "#555555"
MARKERS = {"Mosaic": "o", "Parquet": "s"}


def draw(found: Comparison, title: str, path: Path) -> None:
    """Write a PNG: file sizes and write times as bars, read times as pairs of points."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    canvas, (size, write, read) = plt.subplots(ncols=3, figsize=(11, 3.9), width_ratios=(1, 1, 3.2))
    canvas.set_layout_engine("constrained", w_pad=0.12)
    _bars(size, {name: count / 1e6 for name, count in found.sizes.items()}, "file size", "MB")
    milliseconds = {name: seconds * 1000 for name, seconds in found.writes.items()}
    _bars(write, milliseconds, "time to write", "ms")
    _pairs(read, found.reads)
    canvas.suptitle(title, fontweight="bold")
    canvas.savefig(path, dpi=130)
    plt.close(canvas)


def _bars(axis: Any, values: Mapping[str, float], title: str, unit: str) -> None:
    """Draw bars from zero, with their values on top."""
    drawn = axis.bar(list(values), list(values.values()), color=list(map(COLOURS.get, values)))
    axis.bar_label(drawn, [f"{figure(value)} {unit}" for value in values.values()], padding=2)
    axis.set_title(title, fontsize="medium")
    axis.set_ylim(0, 1.12 * max(values.values()))
    axis.set_yticks([])
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.tick_params(length=0)


def _pairs(axis: Any, reads: Mapping[str, Mapping[str, float]]) -> None:
    """Draw a line for each read, from one format to the other, on a logarithmic scale."""
    from matplotlib.ticker import NullFormatter

    for place, values in enumerate(reads.values()):
        points = {name: seconds * 1000 for name, seconds in values.items()}
        low, high = sorted(points, key=points.__getitem__)
        axis.plot(
            [points[low], points[high]], [place, place], color="#cccccc", linewidth=2, zorder=1
        )
        for name, value in points.items():
            axis.plot(value, place, MARKERS[name], color=COLOURS[name], markersize=9, zorder=2)
            is_low = name == low
            axis.annotate(
                *(figure(value), (value, place)),
                xytext=(-9 if is_low else 9, 0),
                textcoords="offset points",
                ha="right" if is_low else "left",
                va="center",
                color=COLOURS[name],
            )
            if place == 0:
                axis.annotate(
                    *(name, (value, place)),
                    xytext=(0, 10),
                    textcoords="offset points",
                    ha="center",
                    color=COLOURS[name],
                    fontweight="bold",
                )
        axis.annotate(
            *(times(points[high] / points[low]), ((points[low] * points[high]) ** 0.5, place)),
            xytext=(0, 4),
            textcoords="offset points",
            ha="center",
            color=GREY,
        )
    axis.set_xscale("log")
    low_end, high_end = axis.get_xlim()
    axis.set_xlim(low_end / 2, high_end * 2)
    axis.set_ylim(len(reads) - 0.5, -0.7)
    axis.set_yticks(range(len(reads)), [what.removeprefix("read ") for what in reads])
    axis.set_title("time to open the file and read columns", fontsize="medium")
    axis.set_xlabel("milliseconds (logarithmic scale, less is better)")
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.grid(axis="x", alpha=0.25)
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.tick_params(axis="y", length=0)

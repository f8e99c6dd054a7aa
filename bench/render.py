"""`python -m bench.render`: make the pages and pictures of the documentation from results.

Nothing is measured. By default from bench/results, into docs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from . import overview
from .results import PUBLISHED, Results

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"

# By benchmark, the module whose function `write` makes its page.
PAGES = {
    "files": "document",
    "kinds": "kinds_page",
    "datasets": "datasets",
    "spark": "spark",
    "threads": "threads",
    "living": "living_page",
    "training": "training_page",
    "tpch": "tpch",
}


def write(results: Results, folder: Path) -> Path:
    """Write the page of some results and its pictures into a folder, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    return import_module(f"bench.{PAGES[results.bench]}").write(results, folder)


def write_docs(results: Results) -> list[Path]:
    """Write the page of some results into the documentation, and the table that others show."""
    pages = [write(results, DOCS)]
    if results.bench == "files":
        pages += overview.update(results, ROOT)
    return pages


def add_arguments(parser: argparse.ArgumentParser, quick: str) -> None:
    """The options that every benchmark has."""
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="write results and page there, not to the checkout"
    )


def publish(results: Results, out: Path | None, complete: bool) -> None:
    """Save results and make their page: in `out`, or in the checkout if the run was complete."""
    paths: list[Path] = []
    if out or complete:
        saved = results.save(out or PUBLISHED)
        rounded = Results.load(saved)  # as whoever makes the page again has them
        paths = [saved, *([write(rounded, out)] if out else write_docs(rounded))]
    for path in paths:
        print(f"Written: {path}")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.render", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="results")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="write the pages there, not to docs"
    )
    args = parser.parse_args(argv)
    for path in args.files or sorted(PUBLISHED.glob("*.json")):
        results = Results.load(path)
        for page in [write(results, args.out)] if args.out else write_docs(results):
            print(f"Written: {page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

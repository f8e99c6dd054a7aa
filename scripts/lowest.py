"""Print the lowest supported versions of all dependencies, as constraints for pip."""

import itertools
import re
import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())


def lowest(requirements: list[str]) -> list[str]:
    """Turn `name>=version` into `name==version`; leave out what has no lower bound."""
    found = (re.fullmatch(r"([\w-]+)(?:\[.*\])?>=([\w.]+)", text) for text in requirements)
    return [f"{match[1]}=={match[2]}" for match in found if match]


if __name__ == "__main__":
    project = PROJECT["project"]
    extras = itertools.chain.from_iterable(project["optional-dependencies"].values())
    print(*lowest([*project["dependencies"], *extras]), sep="\n")

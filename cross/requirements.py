"""Print what edgepipe, its build and some of its extras depend on, one requirement on each line.

    python3 cross/requirements.py pyproject.toml build dev > requirements.txt

`Containerfile` installs them before it copies the sources, so that a change of a source does not
install them again.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path


def requirements(text: str, extras: list[str]) -> list[str]:
    """Return the requirements in a pyproject.toml, sorted; raise KeyError for an unknown extra."""
    project = tomllib.loads(text)
    found = {*project["build-system"]["requires"], *project["project"]["dependencies"]}
    for extra in extras:
        found.update(project["project"]["optional-dependencies"][extra])
    return sorted(found)


if __name__ == "__main__":
    print("\n".join(requirements(Path(sys.argv[1]).read_text(encoding="utf-8"), sys.argv[2:])))

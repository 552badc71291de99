"""Virtual environments outside the repository with the wheels of `make wheel`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from needs import BUILD, lacking

MACHINE = os.uname().machine


@dataclass(frozen=True)
class Place:
    """A virtual environment with an installed wheel, and an empty folder to work in."""

    scripts: Path
    folder: Path
    variables: Mapping[str, str] = field(default_factory=dict)

    def run(self, program: str, *arguments: object, code: int = 0) -> str:
        """Return what a command printed and complained about, after it ended with ``code``."""
        known = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
        done = subprocess.run(
            [self.scripts / program, *map(str, arguments)],
            cwd=self.folder,
            env={
                **known,
                "PATH": f"{self.scripts}{os.pathsep}{os.environ['PATH']}",
                **self.variables,
            },
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == code, f"{program} {arguments}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr


def wheel(pattern: str) -> Path:
    """Return the wheel in build/wheels."""
    found = sorted((BUILD / "wheels").glob(pattern))
    return found[0] if found else lacking(f"build/wheels has no {pattern}; `make wheel` writes it")


def interpreter(version: str) -> str:
    """Return a Python of this version: one on PATH, or pyenv's, whose commands may be inactive."""
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    for program in (f"python{version}", *pyenv.glob(f"versions/{version}.*/bin/python{version}")):
        command = [str(program), "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            continue
        if done.stdout.strip() == version:
            return str(program)
    return lacking(f"Python {version} is not at hand, so the wheel was not tried on it")


def examples(place: Place) -> Path:
    """Return the folder of the examples in the wheel."""
    code = "from edgepipe import resources; print(resources.folder('examples'))"
    return Path(place.run("python", "-c", code).strip())


def install(folder: Path, version: str, *packages: object) -> Place:
    """Return a new environment of this Python with ``packages``."""
    subprocess.run([interpreter(version), "-m", "venv", folder / "venv"], check=True)
    (folder / "work").mkdir()
    place = Place(scripts=folder / "venv" / "bin", folder=folder / "work")
    place.run("pip", "install", "-q", "--disable-pip-version-check", *packages)
    return place

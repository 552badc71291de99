"""The container image: what it installs is what pyproject.toml lists; who builds it."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_requirements_are_those_of_the_project_and_of_the_extras_that_are_named() -> None:
    command = [ROOT / "cross/requirements.py", ROOT / "pyproject.toml", "build", "docs"]
    done = subprocess.run(
        [sys.executable, *map(str, command)], capture_output=True, text=True, check=True
    )
    extras = PROJECT["project"]["optional-dependencies"]
    expected = {
        *PROJECT["build-system"]["requires"],
        *PROJECT["project"]["dependencies"],
        *extras["build"],
        *extras["docs"],
    }
    assert set(done.stdout.splitlines()) == expected


def test_the_image_has_the_extras_that_make_installs() -> None:
    containerfile = (ROOT / "Containerfile").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (extras,) = re.findall(r'--no-build-isolation \\\n.*"\.\[(.*)\]"', makefile)
    (named,) = re.findall(r"pyproject\.toml ([a-z ]+?) \\", containerfile)
    assert named.split() == extras.split(",")


def test_what_is_built_here_stays_out_of_the_image() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    for line in ("/build", "/.venv", "/.git"):
        assert line in ignored


def make(*words: str) -> subprocess.CompletedProcess[str]:
    command = ["make", "--no-print-directory", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_any_of_three_programs_builds_the_images() -> None:
    for target, image, stage in (
        ("container", "edgepipe", "host"),
        ("container-ci", "edgepipe-ci", "ci"),
    ):
        done = make("--dry-run", target, "CONTAINER=buildah", "CONTAINER_OPTIONS=--build-arg A=b")
        build = (
            f"buildah build --build-arg A=b --target {stage} --file Containerfile --tag {image} ."
        )
        assert done.stdout.splitlines()[-1] == build


def test_without_such_a_program_the_error_names_one() -> None:
    done = make("container", "CONTAINER=")
    assert done.returncode == 2
    assert "found no podman, buildah or docker, expected one of them" in done.stderr
    assert "apt-get install podman" in done.stderr

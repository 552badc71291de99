"""The board's TVM libraries have the version of the TVM that compiles bundles."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_boards_wheels_are_of_the_versions_that_the_host_uses() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    host = {
        name
        for name in (*project["dependencies"], *project["optional-dependencies"]["build"])
        if name.startswith("apache-tvm")
    }
    pins = (ROOT / "cross" / "tvm-aarch64.txt").read_text()
    assert set(re.findall(r"^(\S+) --hash=sha256:[0-9a-f]{64}$", pins, re.MULTILINE)) == host

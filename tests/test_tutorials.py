"""The tutorials' commands run as they are written; those for a board are in tests/board."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import tutorials
from needs import BUILD, cpp_package, installed, lacking

pytestmark = pytest.mark.sim

NAMES = ("first-hour", "first-day", "application")
PLUGINS = BUILD / "host/lib/gstreamer-1.0"


def test_every_exception_is_needed_and_runs_elsewhere() -> None:
    text = "".join(tutorials.path(name).read_text(encoding="utf-8") for name in NAMES)
    for words, runs in tutorials.ELSEWHERE.items():
        assert words in text
        assert not runs.endswith(".py") or (tutorials.ROOT / runs).is_file(), runs


def test_the_first_hour_on_this_machine(tmp_path: Path) -> None:
    said = tutorials.run(tutorials.commands("first-hour", on_board=False), tmp_path, {})
    assert "frames per second" in said
    assert (tmp_path / "report.html").stat().st_size > 10_000
    assert len((tmp_path / "results/results.jsonl").read_text().splitlines()) == 11


@pytest.mark.systems
def test_the_first_day_on_this_machine(tmp_path: Path) -> None:
    said = tutorials.run(tutorials.commands("first-day", on_board=False), tmp_path, {})
    assert "pynq-z2" in said
    assert {path.name for path in tmp_path.glob("*.edgepipe")} == {
        "clothes.edgepipe",
        "clothes-z2.edgepipe",
    }


@pytest.mark.systems
def test_the_application_three_times(tmp_path: Path) -> None:
    installed("gst-launch-1.0", "gstreamer1.0-tools")
    if not (PLUGINS / "libgstedgepipe.so").is_file():
        lacking(f"{PLUGINS} has no plug-in; it is built where libgstreamer1.0-dev is installed")
    for name, text in tutorials.files("application").items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    package = cpp_package("host", tmp_path / "sdk")
    script = tutorials.commands("application", on_board=False)
    assert "$(edgepipe --cmake-dir)" in script
    script = script.replace("$(edgepipe --cmake-dir)", str(package))
    variables = {
        "GST_PLUGIN_PATH": str(PLUGINS),
        "GST_REGISTRY": str(tmp_path / "registry.bin"),
    }
    said = tutorials.run(script, tmp_path, variables)
    pictures = len(list((tutorials.ROOT / "examples/calibration").iterdir()))
    in_python = re.findall(r"^[A-Z][\w/ -]+: (.* \(\d+%\).*)$", said, re.M)
    assert sum(line.count("%") for line in in_python) == pictures
    in_cpp = re.findall(r'^\{"frame.*"dog\.jpg".*\}$', said, re.M)
    assert len(in_cpp) == 1, said
    assert said.count("edgepipe-result") == 3

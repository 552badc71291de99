"""The plug-in for GStreamer: gst-launch-1.0 gives the boxes of edgepipe-run, and nothing leaks."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import cam_programs as cam
import cv2
import numpy as np
import pytest
from gstreamer_messages import lines_of
from needs import BUILD, built, installed, lacking

ROOT = Path(__file__).resolve().parents[3]
PLUGINS = BUILD / "host" / "lib" / "gstreamer-1.0"
WIDTH, HEIGHT = 320, 240  # of the pictures, which are not of the network's size
LEAK = re.compile(r"object-alive, type-name=\(string\)[A-Z].*")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the variables with which GStreamer's tools find the plug-in and report leaks."""
    if not (PLUGINS / "libgstedgepipe.so").is_file():
        lacking(f"{PLUGINS} has no plug-in; it is built where libgstreamer1.0-dev is installed")
    return os.environ | {
        "GST_PLUGIN_PATH": str(PLUGINS),
        "GST_REGISTRY": str(tmp_path_factory.mktemp("gstreamer") / "registry.bin"),
        "GST_TRACERS": "leaks",
        "GST_DEBUG": "GST_TRACER:7",
        "GST_DEBUG_NO_COLOR": "1",
    }


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cam.make_bundle(tmp_path_factory.mktemp("bundle"))


def run(program: str, environment: dict[str, str], *words: object) -> Any:
    """Run one of GStreamer's tools; it must leave no object of GStreamer behind."""
    ran = subprocess.run(
        [installed(program, "gstreamer1.0-tools"), *map(str, words)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
        check=False,
    )
    assert LEAK.findall(ran.stderr) == []
    return ran


def test_the_cpp_tests_pass_and_leak_nothing(environment: dict[str, str]) -> None:
    ran = subprocess.run(
        [built("edgepipe-gstreamer-tests"), "--gtest_brief=1"],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert LEAK.findall(ran.stderr) == []


def test_gst_inspect_explains_every_property(environment: dict[str, str]) -> None:
    shown = run("gst-inspect-1.0", environment, "edgepipe").stdout
    guide = (ROOT / "docs/guides/gstreamer.md").read_text(encoding="utf-8")
    properties = shown.partition("Element Properties:")[2]
    found = re.findall(r"^  (\S+) +: (.*)$", properties, re.M)
    assert {"bundle", "device", "slots", "score", "labels", "dropped"} <= {n for n, _ in found}
    for name, text in found:
        assert len(text) > 15, f"{name}: {text}"
        assert name in ("name", "parent") or f"`{name}`" in guide, name


def test_results_are_those_of_edgepipe_run(
    environment: dict[str, str], bundle: Path, tmp_path: Path
) -> None:
    rng = np.random.default_rng(5)
    pictures = rng.integers(0, 256, (5, HEIGHT, WIDTH, 3)).astype(np.uint8)
    for number, picture in enumerate(pictures):
        cv2.imwrite(str(tmp_path / f"{number}.png"), picture)
    (tmp_path / "raw").write_bytes(pictures.tobytes())
    expected = subprocess.run(
        [built("edgepipe-run"), bundle, "--input", tmp_path, "--no-pin", "--quiet"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    ).stdout
    pipeline = f"filesrc location={tmp_path}/raw ! rawvideoparse format=bgr width={WIDTH}"
    pipeline += f" height={HEIGHT} ! edgepipe bundle={bundle} ! edgepipeoverlay ! fakesink"
    ran = run("gst-launch-1.0", environment, "-m", *pipeline.split())
    assert ran.returncode == 0, ran.stderr
    wanted = [json.loads(line) for line in expected.splitlines()]
    for line in wanted:
        del line["latency_ms"], line["source"]
    assert len(wanted) == 5
    assert lines_of(ran.stdout) == wanted


def test_a_missing_bundle_is_one_error_with_its_hint(environment: dict[str, str]) -> None:
    pipeline = "videotestsrc ! videoconvert ! edgepipe bundle=gone.edgepipe ! fakesink"
    ran = run("gst-launch-1.0", environment, *pipeline.split())
    assert ran.returncode != 0
    assert ran.stderr.count("ERROR: from element") == 1
    assert "gone.edgepipe: no such bundle\nhint: check the name" in ran.stderr

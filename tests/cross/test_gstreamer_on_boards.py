"""The plug-in for GStreamer, built for boards, with Debian's GStreamer under qemu-user.

It gives the results of edgepipe-run on this machine. It needs no GStreamer, glibc or libstdc++
newer than boards have.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from needs import BUILD, EMULATORS, built, installed, lacking

from edgepipe import boards
from edgepipe.recipe import BuildOptions, build_bundle

ROOT = Path(__file__).resolve().parents[2]
BOARD = {"aarch64": "ultra96", "armhf": "pynq-z2"}
# Of GStreamer's own plug-ins; the others need libraries that were not fetched.
PLUGINS = ("coreelements", "rawparse", "videoconvertscale", "videotestsrc")
OLDEST = {"libglib2.0-0": (2, 64), "libgstreamer1.0-0": (1, 16)}  # of Ubuntu 20.04, PYNQ 2.7
OLDEST["libgstreamer-plugins-base1.0-0"] = OLDEST["libgstreamer1.0-0"]
LINE = re.compile(r'edgepipe-result, .*json=\(string\)"(.*)";$', re.M)
FRAMES = 3
SIDE = 28


@pytest.fixture(scope="module")
def gstreamer(architecture: str) -> Path:
    """Return the folder with GStreamer for the architecture."""
    folder = BUILD / "gstreamer" / architecture
    if not (folder / "usr").is_dir():
        lacking(f"{folder} (cross/fetch_gstreamer.py; `make build/{architecture}/.built` runs it)")
    return folder


@pytest.fixture(scope="module")
def plugin(architecture: str, gstreamer: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the plug-in as it is installed."""
    prefix = tmp_path_factory.mktemp("installed")
    command = ["cmake", "--install", BUILD / architecture, "--component", "gstreamer"]
    subprocess.run([*command, "--prefix", prefix], check=True, capture_output=True)
    found = prefix / "lib/gstreamer-1.0/libgstedgepipe.so"
    if not found.is_file():
        lacking(f"build/{architecture} has no plug-in (make build/{architecture}/.built)")
    return found


@pytest.fixture(scope="module")
def run(
    architecture: str, gstreamer: Path, plugin: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs one of GStreamer's tools as on a board."""
    folder = tmp_path_factory.mktemp("gstreamer")
    (plugins,) = gstreamer.glob("usr/lib/*/gstreamer-1.0")
    for name in PLUGINS:
        (folder / f"libgst{name}.so").symlink_to(plugins / f"libgst{name}.so")
    environment = os.environ | {
        "GST_PLUGIN_PATH": str(plugin.parent),
        "GST_PLUGIN_SYSTEM_PATH": str(folder),
        "GST_REGISTRY": str(folder / "registry.bin"),
        "GST_REGISTRY_FORK": "no",  # a child would not be emulated
    }
    emulator, *options = EMULATORS[architecture]
    options[options.index("-L") + 1] = str(gstreamer)

    def ran(program: str, *words: object) -> subprocess.CompletedProcess[str]:
        emulated = [installed(emulator, "qemu-user-static"), *options]
        command = [*emulated, gstreamer / "usr/bin" / program, *words]
        return subprocess.run(
            [str(word) for word in command],
            capture_output=True,
            text=True,
            env=environment,
            timeout=240,
            check=False,
        )

    return ran


@pytest.fixture(scope="module")
def bundle(
    architecture: str, model_path: Any, fashion_mnist: Any, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Return the bundle of a small ResNet for a board; it runs on this machine, too."""
    folder = tmp_path_factory.mktemp("resnet8")
    np.savez(folder / "frames.npz", frames=fashion_mnist("train")[0][:32])
    output = folder / "resnet8.edgepipe"
    build_bundle(
        BuildOptions(
            model=model_path("fmnist_resnet8"),
            board=boards.load(BOARD[architecture]),
            calibration=folder / "frames.npz",
            output=output,
        )
    )
    return output


def lines(texts: list[str]) -> list[dict[str, Any]]:
    """Return lines of JSON without their times."""
    found = [json.loads(text) for text in texts]
    for line in found:
        del line["latency_ms"], line["source"]
    return found


def test_it_runs_on_the_oldest_image(plugin: Path) -> None:
    checked = subprocess.run(
        [sys.executable, ROOT / "cross/check_board.py", plugin.parents[2]],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr


def test_it_needs_no_function_newer_than_gstreamer_1_16(gstreamer: Path, plugin: Path) -> None:
    since = {}
    for name, oldest in OLDEST.items():
        text = (gstreamer / "symbols" / name).read_text()
        for function, version in re.findall(r"^ (\w+)@\S+ ([\d.]+)", text, re.M):
            since[function] = (tuple(map(int, version.split("."))), oldest)
    dynamic = subprocess.run(
        ["readelf", "--wide", "--dyn-syms", plugin], check=True, capture_output=True, text=True
    ).stdout
    used = [name for name in re.findall(r" UND (\w+)", dynamic) if name in since]
    assert {"gst_pad_push", "g_once_init_enter", "gst_video_frame_map"} <= set(used)
    assert [name for name in used if since[name][0] > since[name][1]] == []


def test_gst_inspect_shows_both_elements(run: Any) -> None:
    shown = run("gst-inspect-1.0", "edgepipe").stdout
    assert re.search(r"^  bundle +: ", shown, re.M)
    assert "Draws" in run("gst-inspect-1.0", "edgepipeoverlay").stdout


def test_results_are_those_of_edgepipe_run(
    run: Any, bundle: Path, fashion_mnist: Any, tmp_path: Path
) -> None:
    pictures = fashion_mnist("t10k")[0][:FRAMES].reshape(FRAMES, SIDE, SIDE)
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
    pipeline = f"filesrc location={tmp_path}/raw ! rawvideoparse format=gray8 width={SIDE}"
    pipeline += f" height={SIDE} ! edgepipe bundle={bundle} device=simulator ! fakesink"
    ran = run("gst-launch-1.0", "-m", *pipeline.split())
    assert ran.returncode == 0, ran.stderr
    wanted = lines(expected.splitlines())
    assert len(wanted) == FRAMES
    assert lines([re.sub(r"\\(.)", r"\1", text) for text in LINE.findall(ran.stdout)]) == wanted


def test_boxes_can_be_drawn_on_a_test_picture(run: Any, bundle: Path) -> None:
    pipeline = "videotestsrc num-buffers=2 ! video/x-raw,width=64,height=48 ! videoconvert"
    pipeline += f" ! edgepipe bundle={bundle} device=simulator ! edgepipeoverlay ! fakesink"
    ran = run("gst-launch-1.0", "-m", *pipeline.split())
    assert ran.returncode == 0, ran.stderr
    assert len(LINE.findall(ran.stdout)) == 2


def test_a_missing_bundle_is_one_error_with_its_hint(run: Any) -> None:
    pipeline = "videotestsrc ! edgepipe bundle=gone.edgepipe ! fakesink"
    ran = run("gst-launch-1.0", *pipeline.split())
    assert ran.returncode != 0
    assert "gone.edgepipe: no such bundle\nhint: check the name" in ran.stderr

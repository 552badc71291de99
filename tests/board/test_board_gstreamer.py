"""The plug-in for GStreamer on the virtual board: apt installs it, and the accelerator runs it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import board_python
import numpy as np
import pytest
from gstreamer_messages import lines_of
from needs import BUILD, installed, lacking
from small_networks import build_small_bundle

import edgepipe
from edgepipe.virtual_board.debian_packages import PackageStore

pytestmark = [pytest.mark.board, pytest.mark.systems]

FOLDER = "/opt/gstreamer"
# Every Debian system but this small one has perl-base, which packages use to configure themselves.
PACKAGES = ("gstreamer1.0-plugins-base", "gstreamer1.0-tools", "perl-base")
APT = "DEBIAN_FRONTEND=noninteractive apt-get -q -y -o APT::Sandbox::User=root"
WIDTH, HEIGHT, FRAMES = 64, 48, 5  # of pictures that are not of the network's size
SIDE = 16


def must(board, command, stdin=b"", deadline_s=900):
    done = board.run([command], stdin=stdin, deadline_s=deadline_s)
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
    return done.stdout.decode()


def plug_in(folder: Path) -> Path:
    """Pack the plug-in for aarch64 as ``make deb`` does; return the file."""
    config = BUILD / "aarch64" / "CPackConfig.cmake"
    if not (BUILD / "aarch64/lib/gstreamer-1.0/libgstedgepipe.so").is_file():
        lacking("build/aarch64 has no plug-in for GStreamer (make build/aarch64/.built)")
    cpack = [installed("cpack", "cmake"), "--config", config, "-B", folder]
    subprocess.run(cpack, check=True, capture_output=True)
    return folder / f"gstreamer1.0-edgepipe_{edgepipe.__version__}_arm64.deb"


def missing_packages(board, folder: Path) -> list[Path]:
    """Download what apt would install on the board, which has no network, for GStreamer."""
    store = PackageStore(folder=folder / "store", log=folder / "apt.log")
    store.folder.mkdir()
    store.update()
    (store.folder / "status").write_text(must(board, "cat /var/lib/dpkg/status"))
    done = subprocess.run(
        ["apt-get", "-q", "-y", "--download-only", "install", *PACKAGES],
        capture_output=True,
        text=True,
        env={**os.environ, "APT_CONFIG": str(store.folder / "apt.conf")},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return sorted((store.folder / "cache/archives").glob("*.deb"))


@pytest.fixture(scope="module")
def board(virtual_board, tmp_path_factory):
    """Yield the board with GStreamer, the plug-in, a small bundle and raw pictures."""
    folder = tmp_path_factory.mktemp("gstreamer")
    files = folder / "files"
    files.mkdir()
    build_small_bundle(files, "ultra96", SIDE).rename(files / "small.edgepipe")
    random = np.random.default_rng(11)
    pictures = random.integers(0, 256, (FRAMES, HEIGHT, WIDTH, 3)).astype(np.uint8)
    (files / "raw").write_bytes(pictures.tobytes())
    packages = [*missing_packages(virtual_board, folder), plug_in(folder)]
    (files / "packages").mkdir()
    for package in packages:
        package.rename(files / "packages" / package.name)
    content = board_python.archive(files)
    must(virtual_board, f"mkdir -p {FOLDER} && tar -x -C {FOLDER}", stdin=content)
    must(virtual_board, f"{APT} --no-install-recommends install {FOLDER}/packages/*.deb")
    must(virtual_board, f"rm -r {FOLDER}/packages")
    yield virtual_board, files
    # GStreamer itself stays, because packages that configure themselves are slow to remove here.
    must(virtual_board, f"{APT} purge gstreamer1.0-edgepipe && rm -r {FOLDER} && sync")


def pipeline(bundle, raw, device):
    """Return the words of a pipeline of gst-launch-1.0 that prints a message for each picture."""
    return (
        f"gst-launch-1.0 -m filesrc location={raw} ! rawvideoparse format=bgr width={WIDTH}"
        f" height={HEIGHT} ! edgepipe bundle={bundle} device={device} ! edgepipeoverlay ! fakesink"
    )


def test_apt_installs_the_plug_in_and_gst_inspect_finds_it(board):
    system, _ = board
    shown = must(system, "gst-inspect-1.0 edgepipe")
    assert "Runs a neural network that `edgepipe build` compiled" in shown
    assert must(system, "dpkg-query -W -f '${Status}' gstreamer1.0-edgepipe").endswith(" installed")


def test_the_accelerator_gives_the_results_of_this_machine(board):
    system, files = board
    printed = must(system, pipeline(f"{FOLDER}/small.edgepipe", f"{FOLDER}/raw", "uio"))
    installed("gst-launch-1.0", "gstreamer1.0-tools")
    here = subprocess.run(
        pipeline(files / "small.edgepipe", files / "raw", "simulator").split(),
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "GST_PLUGIN_PATH": str(BUILD / "host/lib/gstreamer-1.0")},
    )
    assert here.returncode == 0, here.stderr
    expected = lines_of(here.stdout)
    assert len(expected) == FRAMES
    assert lines_of(printed) == expected

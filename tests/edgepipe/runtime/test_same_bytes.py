"""One description gives the same bytes in calibration, accuracy, edgepipe run, edgepipe-run and
edgepipe-cam.

All of them fit pictures of any size to the network's input. Calibration and `edgepipe run` share
code in Python, the programs for boards code in C++.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import cam_programs as cam
import cv2
import numpy as np
import pipeline_bundles as bundles
import pytest
from needs import built, emulated
from numpy.typing import NDArray

import edgepipe
from edgepipe import description
from edgepipe.accuracy.data import read_pictures
from edgepipe.frontend.frames import frames_from
from edgepipe.frontend.preprocess import Preprocess

pytestmark = pytest.mark.sim

DESCRIPTION = """
[preprocess]
width = 16
height = 16
order = "{order}"
mean = [0.0, 0.0, 0.0]
std = [1.0, 1.0, 1.0]
{fit}
"""
FITS = {
    "stretch": {"order": "BGR", "fit": 'fit = "stretch"'},
    "center_crop": {"order": "RGB", "fit": 'fit = "center_crop"\nresize_short_side = 19'},
    "letterbox": {"order": "BGR", "fit": 'fit = "letterbox"'},
    "top left": {"order": "RGB", "fit": 'fit = "letterbox"\nalign = "top_left"\npadding = 3'},
}
# Height and width of the pictures: both sides shrink, both grow, one of each, one is kept.
SIZES = ((48, 64), (31, 57), (7, 9), (40, 5), (16, 33))
COUNT = len(SIZES)
SUFFIXES = (".ppm", ".jpg", ".png", ".jpeg", ".bmp")


@pytest.fixture(scope="module", params=FITS)
def preprocess(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    path = tmp_path_factory.mktemp("described") / "net.toml"
    path.write_text(DESCRIPTION.format(**FITS[request.param]))
    return description.load(path).preprocess


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a folder of random pictures of all file types, in which every byte matters."""
    folder = tmp_path_factory.mktemp("pictures")
    random = np.random.default_rng(4)
    for number, (suffix, (height, width)) in enumerate(zip(SUFFIXES, SIZES, strict=True)):
        picture = random.integers(0, 256, (height, width, 3)).astype(np.uint8)
        assert cv2.imwrite(str(folder / f"{number}{suffix}"), picture)
    return folder


@pytest.fixture(scope="module")
def frames(preprocess: Preprocess, pictures: Path) -> list[NDArray[np.uint8]]:
    """Return what calibration measures the network with."""
    return list(frames_from(pictures, preprocess))


@pytest.fixture(scope="module")
def bundle(preprocess, frames, network, files, tmp_path_factory) -> Path:
    golden = {"frame": frames[0], "scores": network.run(frames[0])}
    folder = tmp_path_factory.mktemp("same")
    return bundles.write_bundle(folder / "tiny", files, golden, preprocess=preprocess)


def scores_of(program, bundle, source, folder, stdin=b"", count=COUNT) -> list[bytes]:
    """Run edgepipe-run; return the scores that it wrote, a file for each frame."""
    ran = subprocess.run(
        [*program, bundle, "--input", source, "--tensors", folder],
        input=stdin,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr.decode()
    return [(folder / f"{number}_scores.bin").read_bytes() for number in range(count)]


@pytest.fixture(scope="module")
def scores(bundle, frames, tmp_path_factory) -> list[bytes]:
    """Return what the network computes from calibration's bytes."""
    stdin = b"".join(frame.tobytes() for frame in frames)
    folder = tmp_path_factory.mktemp("scores")
    found = scores_of((built("edgepipe-run"),), bundle, "-", folder, stdin)
    assert len(set(found)) == len(SIZES)
    return found


def test_the_camera_program_sees_calibrations_bytes(
    bundle, preprocess, pictures, frames, scores, tmp_path
):
    options = ["--source", str(pictures), "--headless", "--record", str(tmp_path)]
    done = cam.run(bundle, options)
    assert done.returncode == 0, done.stderr.decode()
    for number, frame in enumerate(frames):
        found = cv2.imread(str(tmp_path / f"{number:08d}.ppm"))  # in BGR
        in_bgr = frame[0] if preprocess.order == "BGR" else frame[0, :, :, ::-1]
        np.testing.assert_array_equal(found, in_bgr)


def test_accuracy_is_measured_on_calibrations_bytes(preprocess, pictures, frames):
    samples = list(read_pictures(pictures, preprocess))
    assert [sample.name for sample in samples] == sorted(p.name for p in pictures.iterdir())
    for sample, frame in zip(samples, frames, strict=True):
        np.testing.assert_array_equal(sample.frame, frame)


def test_python_runs_the_network_on_calibrations_bytes(bundle, pictures, scores):
    with edgepipe.load(bundle) as pipeline:
        found = [pipeline(path).outputs[0].tobytes() for path in sorted(pictures.iterdir())]
    assert found == scores


def test_the_runtime_alone_runs_the_network_on_calibrations_bytes(
    bundle, pictures, scores, tmp_path
):
    assert scores_of((built("edgepipe-run"),), bundle, pictures, tmp_path) == scores


def test_the_runtime_of_a_board_runs_the_network_on_calibrations_bytes(
    architecture, preprocess, frames, network, pictures, scores, tmp_path
):
    golden = {"frame": frames[0], "scores": network.run(frames[0])}
    files = bundles.compile_files(network, (architecture,))
    bundle = bundles.write_bundle(
        tmp_path / "tiny", files, golden, architectures=(architecture,), preprocess=preprocess
    )
    program = emulated("edgepipe-run", architecture)
    plain = tmp_path / "plain"  # emulation has no libraries for JPEG and PNG
    plain.mkdir()
    chosen = [n for n, suffix in enumerate(SUFFIXES) if suffix in (".bmp", ".ppm")]
    for number in chosen:
        shutil.copy(pictures / f"{number}{SUFFIXES[number]}", plain)
    found = scores_of(program, bundle, plain, tmp_path, count=len(chosen))
    assert found == [scores[number] for number in chosen]


def test_pictures_of_the_networks_size_may_follow_each_other_in_a_file(
    bundle, preprocess, frames, scores, tmp_path
):
    together = tmp_path / "fitted.ppm"
    with together.open("wb") as file:
        for frame in frames:
            rgb = frame[0] if preprocess.order == "RGB" else frame[0, :, :, ::-1]
            file.write(b"P6\n16 16\n255\n" + rgb.tobytes())
    assert scores_of((built("edgepipe-run"),), bundle, together, tmp_path) == scores

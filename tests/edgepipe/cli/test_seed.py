"""``--seed``: what it decides, that the same one repeats a build, and where it is recorded."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from command_line import assert_nothing_half_written, run

import edgepipe
from edgepipe.bundle import storage
from edgepipe.cli import arguments
from edgepipe.errors import QuantizeError
from edgepipe.frontend.frames import chosen
from edgepipe.quantize.options import MOST_SEED


def contents(bundle: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(bundle)): path.read_bytes()
        for path in sorted(bundle.rglob("*"))
        if path.is_file()
    }


def built(project: Path, name: str, *options: object) -> dict[str, bytes]:
    """Return the files of the bundle ``project/name``."""
    start = ("build", project / "net.onnx", "--board", "host", "-o", project / name)
    assert run(*start, *options) == 0
    return contents(project / name)


def golden_input(files: dict[str, bytes]) -> np.ndarray:
    return np.frombuffer(files["golden/image.bin"], np.uint8).reshape(16, 16, 3)


def test_a_seed_decides_which_pictures_and_where_they_are_sampled(project: Path) -> None:
    """Two of four pictures are read, and reconstruction samples places in them."""
    pictures = ("--calib", project / "pictures", "--calib-frames", 2)
    rounding = ("--rounding", "reconstruct")
    scheme = project / "net.scheme.toml"
    first = built(project, "first", *pictures, *rounding, "--seed", 3, "--export-scheme", scheme)
    assert built(project, "again", *pictures, *rounding, "--seed", 3) == first
    assert storage.read_manifest(project / "first").seed == 3
    assert "\nseed = 3\n" in scheme.read_text()
    frames = [cv2.imread(str(path)) for path in sorted((project / "pictures").iterdir())]
    np.testing.assert_array_equal(golden_input(first), frames[chosen(4, 2, 3)[0]])
    # The scheme has the seed, and so chooses the same pictures. A seed of the build replaces it.
    options = ("--calib", project / "pictures", "--scheme", scheme)
    assert built(project, "same", *options) == first
    again = scheme.with_name("again.toml")
    other = built(project, "other", *options, "--seed", 4, "--export-scheme", again)
    np.testing.assert_array_equal(golden_input(other), frames[chosen(4, 2, 4)[0]])
    assert again.read_text() == scheme.read_text().replace("seed = 3", "seed = 4")
    accuracy = ("accuracy", project / "first", "--network", project / "net.onnx", *pictures)
    accuracy = (*accuracy, *rounding, "--data", project / "pictures", "--layer-pictures", 0)
    assert run(*accuracy) == 0  # with the bundle's seed


@pytest.mark.networks
def test_what_is_not_drawn_does_not_depend_on_the_seed(project: Path) -> None:
    pictures, scheme = ("--calib", project / "pictures"), project / "net.scheme.toml"
    first = built(project, "first", *pictures, "--export-scheme", scheme)
    assert storage.read_manifest(project / "first").seed == 0
    other = built(project, "other", *pictures, "--seed", 1)
    recorded = {"manifest.digest", "manifest.json"}
    assert {name for name in first if other[name] != first[name]} == recorded
    # Without pictures, the golden input is noise.
    plain = built(project, "plain", "--scheme", scheme)
    noise = built(project, "noise", "--scheme", scheme, "--seed", 1)
    golden = {"golden/image.bin", "golden/logits.bin"}
    assert {name for name in plain if noise[name] != plain[name]} == recorded | golden


@pytest.mark.parametrize("seed", [-1, MOST_SEED + 1, 0.5])
def test_a_seed_that_is_none_is_an_error(project: Path, seed: float) -> None:
    message = rf"^seed is {seed}, expected a whole number from 0 to 2147483647$"
    with pytest.raises(QuantizeError, match=message):
        edgepipe.build(
            project / "net.onnx",
            board="host",
            calibration=project / "pictures",
            output=project / "out",
            seed=seed,
        )
    assert_nothing_half_written(project)


def test_the_command_line_takes_the_same_seeds() -> None:
    assert arguments.seed(str(MOST_SEED)) == MOST_SEED
    with pytest.raises(Exception, match=f"expected a number from 0 to {MOST_SEED}"):
        arguments.seed(str(MOST_SEED + 1))

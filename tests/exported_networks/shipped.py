"""Networks that packages on PyPI contain: those of the zoo, a ResNet-18, and those of onnx.

The package onnx is installed, so its networks are used where they are.
"""

from __future__ import annotations

from pathlib import Path

import onnx
from needs import lacking

from bench import models
from bench.lacking import LackingError
from bench.packages import keep
from edgepipe.zoo import catalogue
from edgepipe.zoo.wheels import Package

# Smaller than in the zoo, for networks that read any size.
_SMALL = {"ppocr_det": (160, 160, 3), "ppocr_rec": (48, 160, 3)}


def _size(model: catalogue.Model) -> tuple[int, int, int]:
    width, height, channels = model.size
    return _SMALL.get(model.name, (height, width, channels))


# ResNet-18 as torch 2.10 writes it, with its weights in a file of their own and a dynamic batch. It
# was trained on pictures of programs' bytes, so it is no network for the zoo.
_RESNET18 = Package("malvizv1==0.1.0", "MIT")
_RESNET18_FILE = "combined_resnet18_benign_plus_malimg.onnx"
# The height, width and channels to use a network with.
SHIPPED = {model.name: _size(model) for model in catalogue.models().values() if model.package}
SHIPPED["resnet18"] = (224, 224, 3)
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
        return _resnet18() if name == "resnet18" else models.model(name)
    except LackingError as error:
        lacking(error)


def _resnet18() -> Path:
    folder = models.SHIPPED / _RESNET18.name
    names = (_RESNET18_FILE, f"{_RESNET18_FILE}.data")
    keep(_RESNET18, {f"{_RESNET18.name}/models/{name}": folder / name for name in names})
    return folder / _RESNET18_FILE

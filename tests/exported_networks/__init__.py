"""Well-known networks with made-up weights, as the exporters of frameworks write them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import onnx

from . import classifiers, detectors, others, segmenters
from .writer import Writer


@dataclass(frozen=True)
class Exported:
    """A network in small: how it is written, and how much smaller than the original.

    ``prologue`` is what it does to bytes itself; ``channels`` are those of its pictures.
    """

    make: Callable[..., onnx.ModelProto]
    style: str
    opset: int
    size: int
    width: float = 0.25
    depth: float = 0.34
    prologue: str = ""
    channels: int = 3

    def model(self) -> onnx.ModelProto:
        """Return the ONNX model."""
        writer = Writer(self.style, self.opset, prologue=self.prologue, channels=self.channels)
        return self.make(writer, self.size, self.width, self.depth)


NETWORKS = {
    "resnet18": Exported(classifiers.resnet, "torch", 17, 64),
    "resnet50": Exported(classifiers.resnet50, "paddle", 11, 64),
    "mobilenet_v1": Exported(classifiers.mobilenet_v1, "tf2onnx", 15, 64),
    "mobilenet_v2": Exported(classifiers.mobilenet_v2, "torch_dynamic", 12, 64),
    "mobilenet_v3": Exported(classifiers.mobilenet_v3, "torch", 13, 64),
    "mobilenet_v3_paddle": Exported(classifiers.mobilenet_v3, "paddle", 11, 64),
    "mobilenet_v3_tf": Exported(classifiers.mobilenet_v3, "tf2onnx", 13, 64),
    "efficientnet_b0": Exported(classifiers.efficientnet, "torch", 17, 64),
    "efficientnet_lite0": Exported(classifiers.efficientnet_lite, "tf2onnx", 12, 64),
    "shufflenet_v2": Exported(classifiers.shufflenet_v2, "torch_dynamic", 13, 64),
    "squeezenet": Exported(classifiers.squeezenet, "torch", 11, 64),
    "regnet": Exported(classifiers.regnet, "torch", 18, 64),
    "convnext": Exported(classifiers.convnext, "torch", 18, 64),
    "convnext_opset21": Exported(classifiers.convnext, "torch", 21, 64),
    "mobilevit": Exported(classifiers.mobilevit, "torch", 14, 64),
    "yolov3_tiny": Exported(detectors.yolov3_tiny, "torch", 11, 96),
    "yolov5n": Exported(detectors.yolov5n, "torch", 12, 64, 0.5),
    "yolov8n": Exported(detectors.yolov8n, "torch", 19, 64, 0.5),
    "yolov8n_dynamic": Exported(detectors.yolov8n, "torch_dynamic", 17, 64, 0.5),
    "yolo11n": Exported(detectors.yolo11n, "torch", 20, 64, 0.5),
    "yolox_nano": Exported(detectors.yolox_nano, "torch", 11, 64, 0.5),
    "ssdlite": Exported(detectors.ssdlite, "tf2onnx", 13, 128),
    "ssdlite_v3": Exported(detectors.ssdlite_v3, "torch", 17, 128),
    "centernet": Exported(detectors.centernet, "torch", 16, 64),
    "retinaface": Exported(detectors.retinaface, "torch_dynamic", 11, 64, 1.0),
    "unet": Exported(segmenters.unet, "torch", 17, 64, 0.125, 0.6),
    "bisenet": Exported(segmenters.bisenet, "torch_dynamic", 11, 64),
    "fpn": Exported(segmenters.fpn, "paddle", 16, 64),
    "densenet": Exported(others.densenet, "torch", 17, 64, 0.25, 0.15),
    "senet": Exported(others.senet, "torch", 13, 64, 0.25, 0.2),
    "efficientvit": Exported(others.efficientvit, "torch", 17, 64, 0.5),
    "blazeface": Exported(others.blazeface, "torch_dynamic", 13, 64),
    "yolov5_focus": Exported(others.focus, "torch", 11, 64),
    "deeplab": Exported(others.deeplab, "torch", 16, 65),
    "super_resolution": Exported(segmenters.super_resolution, "torch", 18, 32, 0.5),
}

_MOBILENET = Exported(classifiers.mobilenet_v1, "tf2onnx", 17, 64)
WITH_PROLOGUE = {
    "rescale": replace(_MOBILENET, prologue="rescale"),
    "normalise": replace(_MOBILENET, prologue="normalise"),
    "reverse": replace(_MOBILENET, prologue="reverse"),
    "grey": replace(_MOBILENET, prologue="rescale", channels=1),
    "normalise_channels_first": replace(_MOBILENET, prologue="normalise", style="torch"),
}
"""Networks that prepare bytes themselves, as those with Keras' preprocessing layers do."""

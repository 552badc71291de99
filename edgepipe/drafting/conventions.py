"""What values and colours a network expects: its own first nodes, its metadata, its family."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from edgepipe.drafting.head import Head
from edgepipe.drafting.metadata import Metadata
from edgepipe.drafting.probe import PictureInput, first_nodes
from edgepipe.drafting.settings import Setting, Value
from edgepipe.frontend.given_ranges import GivenRange

_BYTE = 0.00392156862745098  # 1 / 255
_IMAGENET_MEAN = (0.485, 0.456, 0.406)
_IMAGENET_STD = (0.229, 0.224, 0.225)
_IMAGENET_CLASSES = (1000, 1001)
# A network whose first nodes multiply by less than this reads bytes: 1/127.5 and 1/57 do, 1/0.5
# and 1/0.229 (after a division by 255 elsewhere) do not.
_LEAST_FACTOR_OF_SHARES = 0.1
_LEAST_OFFSET_OF_BYTES = 5.0
_MOVES: tuple[str, ...] = (
    "Cast",
    "Gather",
    "Identity",
    "Pad",
    "Reshape",
    "Resize",
    "Slice",
    "Squeeze",
)
_MOVES += ("Transpose", "Unsqueeze")
_PADDING = 114
_LEAST_USED = 0.7  # of the range that a network was quantised for
_MOST_BEYOND = 0.1  # of that range
_CROPPED_SHARE = 0.875  # of the short side: 224 of 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """The values that the network sees: (byte * ``scale`` - ``mean``) / ``std``, per channel."""

    order: str
    order_reason: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    scale: float
    reason: str
    is_guess: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Convention:
    order: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    scale: float
    who: str


_SHARES = _Convention(order="RGB", mean=(0.0,) * 3, std=(1.0,) * 3, scale=_BYTE, who="")
_IMAGENET = _Convention(
    order="RGB",
    mean=_IMAGENET_MEAN,
    std=_IMAGENET_STD,
    scale=_BYTE,
    who="networks trained on ImageNet",
)
_FAMILIES: Mapping[str, _Convention] = {
    "NanoDet": _Convention(
        order="BGR",
        mean=(103.53, 116.28, 123.675),
        std=(57.375, 57.12, 58.395),
        scale=1.0,
        who="NanoDet's configurations",
    ),
    "YOLOX": _Convention(
        order="BGR", mean=(0.0,) * 3, std=(1.0,) * 3, scale=1.0, who="YOLOX since 0.1.1"
    ),
    "RetinaFace": _Convention(
        order="BGR", mean=(104.0, 117.0, 123.0), std=(1.0,) * 3, scale=1.0, who="RetinaFace"
    ),
    "small faces": _Convention(
        order="RGB",
        mean=(127.0,) * 3,
        std=(128.0,) * 3,
        scale=1.0,
        who="the Ultra-Light detector of faces",
    ),
    "SCRFD": _Convention(order="RGB", mean=(127.5,) * 3, std=(128.0,) * 3, scale=1.0, who="SCRFD"),
    "CenterNet": _Convention(
        order="BGR",
        mean=(0.408, 0.447, 0.47),
        std=(0.289, 0.274, 0.278),
        scale=_BYTE,
        who="CenterNet",
    ),
    "SSD": _Convention(
        order="RGB", mean=(0.5,) * 3, std=(0.5,) * 3, scale=_BYTE, who="SSD on MobileNet"
    ),
    "text map": _Convention(
        order="BGR", mean=_IMAGENET_MEAN, std=_IMAGENET_STD, scale=_BYTE, who="PP-OCR's detection"
    ),
    "text line": _Convention(
        order="BGR", mean=(0.5,) * 3, std=(0.5,) * 3, scale=_BYTE, who="PP-OCR's recognition"
    ),
    "segmentation": _IMAGENET,
    "YOLOv8": _SHARES,
    "YOLOv5": _SHARES,
    "YOLOv10": _SHARES,
    "YOLOv3": _SHARES,
}


def guess_values(
    model: onnx.ModelProto,
    picture: PictureInput,
    head: Head,
    metadata: Metadata,
    given: GivenRange | None = None,
) -> Values:
    """Return what values of a picture's bytes the network expects, and why.

    ``given`` is the range of the input that a network gives that was quantised already.
    """
    channels = picture.channels or 3
    convention = _convention(head, metadata)
    order = "GRAY" if channels == 1 else convention.order
    of_colours = f"usual for {convention.who}" if convention.who else "the most common order"
    order_reason = "the input has one channel" if channels == 1 else of_colours
    if given is not None and not _fits(convention, given, picture):
        step = (given.high - given.low) / 255
        return Values(
            order=order,
            order_reason=order_reason,
            mean=(_short(-given.low / step),) * channels,
            std=(_short(1 / step),) * channels,
            scale=1.0,
            reason=f"the network was quantised for values from {given.low:.4g} to {given.high:.4g}",
        )
    if given is None and picture.dtype == "uint8":
        return _plain(order, order_reason, 1.0, "the input is uint8: the picture's own bytes")
    first = _first_values(model, picture.name, channels)
    if first is not None:
        kinds, factor, offset = first
        bytes_read = factor < _LEAST_FACTOR_OF_SHARES or offset > _LEAST_OFFSET_OF_BYTES
        where = "0 to 255" if bytes_read else "0 to 1"
        why = f"the network itself begins with {kinds}, which fits values from {where}"
        return _plain(order, order_reason, 1.0 if bytes_read else _BYTE, why)
    if channels == 1:
        why = "values from 0 to 1; use the mean and std of the training"
        return Values(
            order=order,
            order_reason=order_reason,
            mean=(0.0,),
            std=(1.0,),
            scale=_BYTE,
            reason=why,
        )
    return Values(
        order=order,
        order_reason=order_reason,
        mean=convention.mean,
        std=convention.std,
        scale=convention.scale,
        reason=f"usual for {convention.who}" if convention.who else "values from 0 to 1",
        is_guess=not metadata.is_ultralytics,
    )


def guess_fit(head: Head, height: int, width: int) -> tuple[Setting, ...]:
    """Return how pictures of another size than ``height`` x ``width`` pixels are fitted."""
    how = "how a picture of another size is fitted"
    if head.classes in _IMAGENET_CLASSES and head.kind == "classify":
        short_side = round(max(height, width) / _CROPPED_SHARE)
        crop = "pixels of the short side before the middle is cut out"
        found: tuple[tuple[str, Value, str], ...] = (
            ("fit", "center_crop", f"{how}: as networks trained on ImageNet are tested"),
            ("resize_short_side", short_side, crop),
        )
    elif head.family.startswith("YOLO"):
        align = "top_left" if head.family == "YOLOX" else "center"
        found = (
            ("fit", "letterbox", f"{how}: as {head.family} is trained"),
            ("align", align, "where the picture lies in the frame"),
            ("padding", _PADDING, "the byte around the picture"),
        )
    else:
        found = (("fit", "stretch", how),)
    return tuple(Setting(key=k, value=v, reason=r, is_guess=True) for k, v, r in found)


def _convention(head: Head, metadata: Metadata) -> _Convention:
    if metadata.is_ultralytics:
        return _Convention(
            order="RGB", mean=(0.0,) * 3, std=(1.0,) * 3, scale=_BYTE, who="Ultralytics' networks"
        )
    if head.family == "classification" and head.classes in _IMAGENET_CLASSES:
        if metadata.producer == "tf2onnx":
            return _Convention(
                order="RGB", mean=(0.5,) * 3, std=(0.5,) * 3, scale=_BYTE, who="Keras' MobileNets"
            )
        return _IMAGENET
    return _FAMILIES.get(head.family, _SHARES)


def _fits(convention: _Convention, given: GivenRange, picture: PictureInput) -> bool:
    """Whether the values of a convention are within the given range, and use most of it.

    A range of floats that is symmetric about zero may have an unused half: tools choose it for any
    values. Integers of an input have a range that was made for its values.
    """
    ends = [
        (byte * convention.scale - mean) / std
        for byte in (0, 255)
        for mean, std in zip(convention.mean, convention.std, strict=True)
    ]
    width = given.high - given.low
    used = (max(ends) - min(ends)) / width
    if given.high <= -given.low and "int" not in picture.dtype:
        used = max(map(abs, ends)) / given.largest
    beyond = max(given.low - min(ends), max(ends) - given.high)
    return used >= _LEAST_USED and beyond <= _MOST_BEYOND * width


def _short(value: float) -> float:
    return float(f"{value:.6g}")


def _plain(order: str, order_reason: str, scale: float, reason: str) -> Values:
    channels = 1 if order == "GRAY" else 3
    return Values(
        order=order,
        order_reason=order_reason,
        mean=(0.0,) * channels,
        std=(1.0,) * channels,
        scale=scale,
        reason=reason,
    )


def _first_values(
    model: onnx.ModelProto, name: str, channels: int
) -> tuple[str, float, float] | None:
    """Return the nodes that scale the input first, their factor and the offset that they subtract.

    None if the network does not begin with a sum, product or normalisation with constants.
    """
    constants = _constants(model)
    factor, offset = np.ones(1), np.zeros(1)
    kinds = []
    for node in first_nodes(model, name):
        if node.op_type in _MOVES:
            continue
        step = _affine(node, constants)
        if step is None or step[0].size not in (1, channels) or step[1].size not in (1, channels):
            break
        kinds.append(node.op_type)
        factor, offset = factor * step[0], offset * step[0] + step[1]
    if not kinds or not np.isfinite(factor).all() or not np.isfinite(offset).all():
        return None
    size = float(np.abs(factor).mean())
    shift = float(np.abs(offset).mean())
    return ", ".join(kinds), size, shift / max(size, 1e-12)


def _affine(
    node: onnx.NodeProto, constants: Mapping[str, NDArray[np.float64]]
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Return factor and offset of a node ``x * factor + offset``, each float64[channels or 1]."""
    known = [constants[name].reshape(-1) for name in node.input if name in constants]
    one, zero = np.ones(1), np.zeros(1)
    if node.op_type == "BatchNormalization" and len(known) == 4:
        gamma, beta, mean, variance = known
        factor = gamma / np.sqrt(variance + 1e-5)
        return factor, beta - mean * factor
    if len(known) != 1 or not known[0].size:
        return None
    (value,) = known
    if node.input[0] in constants and node.op_type in ("Sub", "Div"):
        return None
    return {
        "Add": (one, value),
        "Sub": (one, -value),
        "Mul": (value, zero),
        "Div": (1 / np.where(value == 0, np.nan, value), zero),
    }.get(node.op_type)


def _constants(model: onnx.ModelProto) -> dict[str, NDArray[np.float64]]:
    """Return the small floating-point constants by name, float64 of their shapes."""
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            tensors[node.output[0]] = node.attribute[0].t
    return {
        name: numpy_helper.to_array(tensor).astype(np.float64)
        for name, tensor in tensors.items()
        if tensor.data_type == onnx.TensorProto.FLOAT and np.prod(tensor.dims) <= 4096
    }

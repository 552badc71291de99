"""Networks that label pixels, with made-up weights.

``size`` is the picture's height and width, ``width`` multiplies channels, ``depth`` repetitions.
"""

from __future__ import annotations

import onnx

from .classifiers import scaled, times
from .writer import Value, Writer

CLASSES = 19


def unet(w: Writer, size: int = 256, width: float = 1.0, depth: float = 1.0) -> onnx.ModelProto:
    """U-Net with padding and transposed convolutions (Ronneberger et al., 2015)."""
    x = w.image(size, size)
    kept = []
    levels = [scaled(64 << level, width) for level in range(times(5, depth))]
    for channels in levels:
        if kept:
            x = w.max_pool(x, 2, 2)
        x = w.conv(w.conv(x, channels, 3, act="relu"), channels, 3, act="relu")
        kept.append(x)
    for channels, side in zip(reversed(levels[:-1]), reversed(kept[:-1]), strict=True):
        x = w.concat(side, w.transposed(x, channels, 2, 2, 0))
        x = w.conv(w.conv(x, channels, 3, act="relu"), channels, 3, act="relu")
    return w.model(w.conv(x, 2, 1, norm=False))


def bisenet(w: Writer, size: int = 512, width: float = 1.0, depth: float = 1.0) -> onnx.ModelProto:
    """BiSeNet on ResNet-18: a spatial and a context path, attention (Yu et al., 2018)."""
    image = w.image(size, size)
    x = image
    for channels, kernel in ((64, 7), (64, 3), (64, 3)):
        x = w.conv(x, scaled(channels, width), kernel, 2, act="relu")
    spatial = w.conv(x, scaled(128, width), 1, act="relu")
    x = w.max_pool(w.conv(image, scaled(64, width), 7, 2, act="relu"), 3, 2, 1)
    kept = []
    for stage in range(4):
        channels = scaled(64 << stage, width)
        for block in range(times(2, depth)):
            stride = 2 if stage and not block else 1
            short = x if stride == 1 else w.conv(x, channels, 1, stride)
            y = w.conv(w.conv(x, channels, 3, stride, act="relu"), channels, 3)
            x = w.activation(w.add(y, short), "relu")
        kept.append(x)
    inner = scaled(128, width)
    context = w.conv(w.global_pool(x), inner, 1, act="relu")
    up = w.resize(context, *kept[3].size)
    for level in (3, 2):
        y = _refined(w, kept[level], inner)
        y = w.add(y, up)
        target = kept[level - 1].size
        up = w.conv(w.resize(y, *target), inner, 3, act="relu")
    x = w.conv(w.concat(spatial, up), scaled(256, width), 1, act="relu")
    gate = w.conv(w.global_pool(x), scaled(64, width), 1, norm=False, act="relu")
    gate = w.conv(gate, x.channels, 1, norm=False, act="sigmoid")
    x = w.add(w.mul(x, gate), x)
    x = w.conv(w.conv(x, scaled(64, width), 3, act="relu"), CLASSES, 1, norm=False)
    return w.model(w.resize(x, size, size, "linear"))


def _refined(w: Writer, x: Value, channels: int) -> Value:
    y = w.conv(x, channels, 3, act="relu")
    return w.mul(y, w.conv(w.global_pool(y), channels, 1, act="sigmoid"))


def fpn(w: Writer, size: int = 256, width: float = 1.0, depth: float = 1.0) -> onnx.ModelProto:
    """A feature pyramid with bilinear upsampling on a plain backbone (Kirillov et al., 2019)."""
    x = w.conv(w.image(size, size), scaled(32, width), 3, 2, act="relu")
    kept = []
    for level in range(4):
        x = w.conv(x, scaled(64 << level, width), 3, 2, act="relu")
        for _ in range(times(2, depth)):
            x = w.activation(w.add(x, w.conv(x, x.channels, 3)), "relu")
        kept.append(x)
    inner = scaled(128, width)
    sides = [w.conv(level, inner, 1, norm=False) for level in kept]
    for index in (2, 1, 0):
        up = w.resize(sides[index + 1], *sides[index].size)
        sides[index] = w.add(sides[index], up)
    target = sides[0].size
    total = None
    for side in sides:
        y = w.conv(side, scaled(64, width), 3, act="relu")
        y = y if y.size == target else w.resize(y, *target, "linear")
        total = y if total is None else w.add(total, y)
    assert total is not None
    x = w.conv(total, CLASSES, 1, norm=False)
    return w.model(w.resize(x, size, size, "linear"))


def super_resolution(
    w: Writer, size: int = 64, width: float = 1.0, depth: float = 1.0
) -> onnx.ModelProto:
    """ESPCN-like: PReLU, reflected borders, depth to space (Shi et al., 2016)."""
    x = w.image(size, size)
    pads = w.constant([0, 0, 2, 2, 0, 0, 2, 2], "int64")
    x = w.op("Pad", [x, pads], (1, 3, size + 4, size + 4), mode="reflect")
    x = w.conv(x, scaled(64, width), 5, norm=False, act="prelu", padding=0)
    for _ in range(times(2, depth)):
        x = w.conv(x, scaled(32, width), 3, norm=False, act="prelu")
    x = w.conv(x, 12, 3, norm=False)
    return w.model(w.op("DepthToSpace", [x], (1, 3, 2 * size, 2 * size), blocksize=2))

"""Networks of further kinds with made-up weights, layer for layer those of their papers.

``size`` is the picture's height and width, ``width`` multiplies channels, ``depth`` repetitions.
"""

from __future__ import annotations

import onnx

from .classifiers import mobilenet_v2_features, scaled, times
from .segmenters import CLASSES
from .writer import Value, Writer

_MANY = (1 << 63) - 1  # what PyTorch writes for the end of ``x[::2]``


def blazeface(
    w: Writer, size: int = 128, width: float = 1.0, depth: float = 1.0
) -> onnx.ModelProto:
    """BlazeFace: shortcuts are widened by zeros (Bazarevsky et al., 2019)."""
    x = w.conv(w.image(size, size), scaled(24, width), 5, 2, norm=False, act="relu")
    plan = [(24, 1, 1), (28, 1, 1), (32, 2, 1), (36, 1, 1), (42, 1, 1), (48, 2, 1)]
    plan += [(56, 1, 1), (64, 1, 1), (72, 1, 1), (80, 1, 1), (88, 1, 1)]
    for channels, stride, count in plan:
        for _ in range(times(count, depth)):
            x = _blaze_block(w, x, scaled(channels, width), stride)
    fine = x
    for channels, stride in ((96, 2), (96, 1), (96, 1), (96, 1), (96, 1)):
        x = _blaze_block(w, x, scaled(channels, width), stride)
    scores, boxes = [], []
    for level, anchors in ((fine, 2), (x, 6)):
        count = anchors * level.size[0] * level.size[1]
        for found, each in ((scores, 1), (boxes, 16)):
            y = w.transpose(w.conv(level, anchors * each, 1, norm=False), 0, 2, 3, 1)
            found.append(w.reshape(y, 1, count, each))
    return w.model(w.concat(*boxes), w.concat(*scores))


def _blaze_block(w: Writer, x: Value, channels: int, stride: int) -> Value:
    y = w.conv(x, x.channels, 3, stride, groups=x.channels, norm=False)
    y = w.conv(y, channels, 1, norm=False)
    short = w.max_pool(x, 2, 2) if stride == 2 else x
    more = channels - x.channels
    if more:
        pads = w.constant([0, 0, 0, 0, 0, more, 0, 0], "int64")
        short = w.op("Pad", [short, pads], y.shape, mode="constant")
    return w.activation(w.add(y, short), "relu")


def efficientvit_b0(
    w: Writer, size: int = 224, width: float = 1.0, depth: float = 1.0
) -> onnx.ModelProto:
    """EfficientViT-B0: convolutions, and linear attention of several scales (Cai et al., 2023)."""
    x = w.conv(w.image(size, size), scaled(8, width), 3, 2, act="hswish")
    for channels in (16, 32):
        x = _mobile_block(w, x, scaled(channels, width), 2)
    for channels in (64, 128):
        x = _mobile_block(w, x, scaled(channels, width), 2)
        for _ in range(times(2, depth)):
            x = _linear_attention(w, x, scaled(16, width))
            x = w.add(_mobile_block(w, x, x.channels, 1), x)
    x = w.conv(x, scaled(1024, width), 1, act="hswish")
    x = w.linear(w.flatten(w.global_pool(x)), scaled(1280, width))
    return w.model(w.linear(w.activation(w.layer_norm(x), "hswish"), 1000))


def _mobile_block(w: Writer, x: Value, channels: int, stride: int) -> Value:
    y = w.conv(x, 4 * x.channels, 1, act="hswish")
    y = w.conv(y, y.channels, 3, stride, groups=y.channels, act="hswish")
    return w.conv(y, channels, 1)


def _linear_attention(w: Writer, x: Value, each: int) -> Value:
    """Append a module whose values get a column of ones, as ``F.pad`` writes them."""
    heads = x.channels // each
    qkv = w.conv(x, 3 * x.channels, 1, norm=False)
    wide = w.conv(qkv, qkv.channels, 5, groups=qkv.channels, norm=False)
    wide = w.conv(wide, qkv.channels, 1, groups=3 * heads, norm=False)
    tokens = x.size[0] * x.size[1]
    y = w.transpose(w.reshape(w.concat(qkv, wide), 1, 2 * heads, 3 * each, tokens), 0, 1, 3, 2)
    query, key, value = w.split(y, each, each, each, axis=3)
    query, key = (w.activation(part, "relu") for part in (query, key))
    pads = w.constant([0, 0, 0, 0, 0, 0, 0, 1], "int64")
    shape = (*value.shape[:-1], each + 1)
    value = w.op("Pad", [value, pads, w.constant(1.0)], shape, mode="constant")
    y = w.matmul(query, w.matmul(w.transpose(key, 0, 1, 3, 2), value))
    sums, total = (w.slice(y, 3, begin, end) for begin, end in ((0, -1), (-1, _MANY)))
    total = w.op("Add", [total, w.constant(1e-5)], total.shape)
    y = w.transpose(w.op("Div", [sums, total], sums.shape), 0, 1, 3, 2)
    y = w.reshape(y, 1, 2 * x.channels, *x.size)
    return w.add(w.conv(y, x.channels, 1), x)


def densenet(w: Writer, size: int = 224, width: float = 1.0, depth: float = 1.0) -> onnx.ModelProto:
    """DenseNet-121: everything before is normalised anew and joined (Huang et al., 2017)."""
    growth = scaled(32, width)
    x = w.conv(w.image(size, size), 2 * growth, 7, 2, act="relu")
    x = w.max_pool(x, 3, 2, 1)
    for block, count in enumerate((6, 12, 24, 16)):
        if block:
            x = w.conv(w.activation(w.batch_norm(x), "relu"), x.channels // 2, 1, norm=False)
            x = w.average_pool(x, 2, 2)
        for _ in range(times(count, depth)):
            y = w.conv(w.activation(w.batch_norm(x), "relu"), 4 * growth, 1, act="relu")
            x = w.concat(x, w.conv(y, growth, 3, norm=False))
    x = w.global_pool(w.activation(w.batch_norm(x), "relu"))
    return w.model(w.linear(w.flatten(x), 1000))


def senet(w: Writer, size: int = 224, width: float = 1.0, depth: float = 1.0) -> onnx.ModelProto:
    """SE-ResNet-50: the gates are dense layers between reshapes (Hu et al., 2018)."""
    x = w.conv(w.image(size, size), scaled(64, width), 7, 2, act="relu")
    x = w.max_pool(x, 3, 2, 1)
    for stage, count in enumerate((3, 4, 6, 3)):
        inner = scaled(64 << stage, width)
        for block in range(times(count, depth)):
            stride = 2 if stage and not block else 1
            short = x if block else w.conv(x, 4 * inner, 1, stride)
            y = w.conv(w.conv(x, inner, 1, act="relu"), inner, 3, stride, act="relu")
            y = w.conv(y, 4 * inner, 1)
            gate = w.reshape(w.global_pool(y), 1, y.channels)
            gate = w.activation(w.linear(gate, max(4, y.channels // 16)), "relu")
            gate = w.sigmoid(w.linear(gate, y.channels))
            y = w.mul(y, w.reshape(gate, 1, y.channels, 1, 1))
            x = w.activation(w.add(y, short), "relu")
    return w.model(w.linear(w.flatten(w.global_pool(x)), 1000))


def deeplab(w: Writer, size: int = 257, width: float = 1.0, depth: float = 1.0) -> onnx.ModelProto:
    """DeepLabV3 on MobileNetV2: dilated convolutions and pooling of the whole picture, resized.

    See Chen et al., 2017.
    """
    image = w.image(size, size)
    x = mobilenet_v2_features(w, image, width, depth)[4]
    inner = scaled(256, width)
    parts = [w.conv(x, inner, 1, act="relu")]
    parts += [w.conv(x, inner, 3, dilation=rate, act="relu") for rate in (6, 12, 18)]
    whole = w.conv(w.global_pool(x), inner, 1, act="relu")
    parts.append(w.resize(whole, *x.size, "linear"))
    y = w.conv(w.conv(w.concat(*parts), inner, 1, act="relu"), CLASSES, 1, norm=False)
    return w.model(w.resize(y, size, size, "linear"))


def focus(w: Writer, size: int = 640, width: float = 1.0, depth: float = 1.0) -> onnx.ModelProto:
    """YOLOv5 3.0 to 5.0 up to its second level: Focus, leaky ReLU, pooling of three sizes."""
    image = w.image(size, size)
    corners = ((0, 0), (1, 0), (0, 1), (1, 1))
    parts = [w.slice(w.slice(image, 2, y, _MANY, 2), 3, x, _MANY, 2) for y, x in corners]
    x = w.conv(w.concat(*parts), scaled(32, width), 3, act="leaky")
    for channels, count in ((64, 1), (128, 3), (256, 3)):
        x = w.conv(x, scaled(channels, width), 3, 2, act="leaky")
        half = x.channels // 2
        y = w.conv(x, half, 1, act="leaky")
        for _ in range(times(count, depth)):
            y = w.add(y, w.conv(w.conv(y, half, 1, act="leaky"), half, 3, act="leaky"))
        x = w.conv(w.concat(y, w.conv(x, half, 1, act="leaky")), 2 * half, 1, act="leaky")
    y = w.conv(x, x.channels // 2, 1, act="leaky")
    y = w.concat(y, *(w.max_pool(y, kernel, 1, kernel // 2) for kernel in (5, 9, 13)))
    return w.model(w.conv(w.conv(y, x.channels, 1, act="leaky"), 255, 1, norm=False))


_BRANCH = 0.1
"""The gain of branches that are added: by dozens of them, sums would grow to the thousands."""


def efficientvit_m0(
    w: Writer, size: int = 224, width: float = 1.0, depth: float = 1.0
) -> onnx.ModelProto:
    """EfficientViT-M0: in windows, each head adds what the one before made (Liu et al., 2023)."""
    x = w.image(size, size)
    for channels in (8, 16, 32, 64):
        x = w.conv(x, scaled(channels, width), 3, 2, act="" if channels == 64 else "relu")
    for stage, (channels, count) in enumerate(((64, 1), (128, 2), (192, 3))):
        if stage:
            x = _feed_forward(w, _depthwise(w, x))
            x = _merged(w, x, scaled(channels, width, 16))
            x = _feed_forward(w, _depthwise(w, x))
        for _ in range(times(count, depth)):
            x = _feed_forward(w, _depthwise(w, x))
            x = w.add(x, _window_attention(w, x, 7 if size == 224 else 4))
            x = _feed_forward(w, _depthwise(w, x))
    return w.model(w.linear(w.flatten(w.global_pool(x)), 1000))


def _depthwise(w: Writer, x: Value) -> Value:
    return w.add(x, w.conv(x, x.channels, 3, groups=x.channels, gain=_BRANCH))


def _feed_forward(w: Writer, x: Value) -> Value:
    y = w.conv(x, 2 * x.channels, 1, act="relu")
    return w.add(x, w.conv(y, x.channels, 1, gain=_BRANCH))


def _merged(w: Writer, x: Value, channels: int) -> Value:
    """Append patch merging: half of the size, with a gate for each channel."""
    y = w.conv(x, 4 * x.channels, 1, act="relu")
    y = w.conv(y, y.channels, 3, 2, groups=y.channels, act="relu")
    gate = w.conv(w.global_pool(y), y.channels // 4, 1, norm=False, act="relu")
    y = w.mul(y, w.sigmoid(w.conv(gate, y.channels, 1, norm=False)))
    return w.conv(y, channels, 1)


def _window_attention(w: Writer, x: Value, window: int) -> Value:
    """Append attention in windows, of all pixels if the picture is not larger than one."""
    _, channels, height, width = x.shape
    if max(height, width) <= window:
        return _cascade(w, x)
    down, right = height // window, width // window
    y = w.reshape(w.transpose(x, 0, 2, 3, 1), 1, down, window, right, window, channels)
    y = w.reshape(w.transpose(y, 0, 1, 3, 2, 4, 5), down * right, window, window, channels)
    y = w.transpose(_cascade(w, w.transpose(y, 0, 3, 1, 2)), 0, 2, 3, 1)
    y = w.transpose(w.reshape(y, 1, down, right, window, window, channels), 0, 1, 3, 2, 4, 5)
    return w.transpose(w.reshape(y, 1, height, width, channels), 0, 3, 1, 2)


def _cascade(w: Writer, x: Value) -> Value:
    """Append cascaded group attention on a batch of pictures."""
    count, channels, height, width = x.shape
    heads, key, tokens = 4, 16, height * width
    each = channels // heads
    made: list[Value] = []
    for part, kernel in zip(w.split(x, *([each] * heads)), (5, 5, 3, 3), strict=True):
        y = w.add(made[-1], part) if made else part
        y = w.conv(y, 2 * key + each, 1)
        query, keys, values = w.split(w.reshape(y, *y.shape), key, key, each)
        query = w.conv(query, key, kernel, groups=key)
        query = w.mul(w.reshape(query, count, key, tokens), w.constant(key**-0.5))
        keys = w.reshape(keys, count, key, tokens)
        scores = w.matmul(w.transpose(query, 0, 2, 1), keys)
        bias = w.constant(w.around(0, 0.3, tokens, tokens))
        shares = w.softmax(w.op("Add", [scores, bias], scores.shape))
        y = w.matmul(w.reshape(values, count, each, tokens), w.transpose(shares, 0, 2, 1))
        made.append(w.reshape(y, count, each, height, width))
    return w.conv(w.activation(w.concat(*made), "relu"), channels, 1, gain=_BRANCH)

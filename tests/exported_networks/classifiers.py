"""Classification networks with made-up weights, layer for layer those of their papers.

``size`` is the picture's height and width, ``width`` multiplies channels, ``depth`` repetitions.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from .writer import Value, Writer


def scaled(channels: int, width: float, step: int = 8) -> int:
    """Return a number of channels times ``width``, rounded to a multiple of ``step``."""
    return max(step, int(channels * width + step / 2) // step * step)


def times(count: int, depth: float) -> int:
    """Return a number of repetitions times ``depth``, at least one."""
    return max(1, round(count * depth))


def _classes(w: Writer, x: Value, classes: int, *, softmax: bool = False) -> onnx.ModelProto:
    y = w.linear(w.flatten(w.global_pool(x)), classes)
    return w.model(w.softmax(y) if softmax else y)


def resnet(
    w: Writer, size: int = 224, width: float = 1.0, depth: float = 1.0, *, deep: bool = False
) -> onnx.ModelProto:
    """ResNet-18, or with ``deep`` ResNet-50 (He et al., 2016; torchvision's strides)."""
    x = w.conv(w.image(size, size), scaled(64, width), 7, 2, act="relu")
    x = w.max_pool(x, 3, 2, 1)
    counts = (3, 4, 6, 3) if deep else (2, 2, 2, 2)
    for stage, count in enumerate(counts):
        channels = scaled(64 << stage, width)
        out = 4 * channels if deep else channels
        for block in range(times(count, depth)):
            stride = 2 if stage and not block else 1
            same = stride == 1 and x.channels == out
            short = x if same else w.conv(x, out, 1, stride)
            if deep:
                y = w.conv(x, channels, 1, act="relu")
                y = w.conv(w.conv(y, channels, 3, stride, act="relu"), out, 1)
            else:
                y = w.conv(w.conv(x, channels, 3, stride, act="relu"), channels, 3)
            x = w.activation(w.add(y, short), "relu")
    return _classes(w, x, 1000)


def resnet50(w: Writer, size: int = 224, width: float = 1.0, depth: float = 1.0) -> onnx.ModelProto:
    """ResNet-50."""
    return resnet(w, size, width, depth, deep=True)


def mobilenet_v1(
    w: Writer, size: int = 224, width: float = 1.0, depth: float = 1.0
) -> onnx.ModelProto:
    """MobileNetV1 (Howard et al., 2017)."""
    x = w.conv(w.image(size, size), scaled(32, width), 3, 2, act="relu6")
    plan = [(64, 1, 1), (128, 2, 1), (128, 1, 1), (256, 2, 1), (256, 1, 1), (512, 2, 1)]
    plan += [(512, 1, 5), (1024, 2, 1), (1024, 1, 1)]
    for channels, stride, count in plan:
        for _ in range(times(count, depth)):
            x = w.conv(x, x.channels, 3, stride, groups=x.channels, act="relu6")
            x = w.conv(x, scaled(channels, width), 1, act="relu6")
    return _classes(w, x, 1000, softmax=True)


def _inverted(
    w: Writer,
    x: Value,
    kernel: int,
    inner: int,
    channels: int,
    stride: int,
    act: str,
    reduced: int = 0,
    gate: tuple[str, str] = ("relu", "hsigmoid"),
) -> Value:
    """Append an inverted residual block, with squeeze-excite if ``reduced``."""
    y = x if inner == x.channels else w.conv(x, inner, 1, act=act)
    y = w.conv(y, inner, kernel, stride, groups=inner, act=act)
    if reduced:
        y = w.squeeze_excite(y, reduced, *gate)
    y = w.conv(y, channels, 1)
    return w.add(y, x) if stride == 1 and x.channels == channels else y


def mobilenet_v2_features(w: Writer, x: Value, width: float, depth: float) -> list[Value]:
    """Append MobileNetV2's blocks; return what each stage makes."""
    x = w.conv(x, scaled(32, width), 3, 2, act="relu6")
    plan = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)]
    plan += [(6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    stages = []
    for expansion, channels, count, stride in plan:
        for block in range(times(count, depth)):
            inner = expansion * x.channels
            x = _inverted(w, x, 3, inner, scaled(channels, width), 1 if block else stride, "relu6")
        stages.append(x)
    return stages


def mobilenet_v2(
    w: Writer, size: int = 224, width: float = 1.0, depth: float = 1.0
) -> onnx.ModelProto:
    """MobileNetV2 (Sandler et al., 2018)."""
    x = mobilenet_v2_features(w, w.image(size, size), width, depth)[-1]
    return _classes(w, w.conv(x, scaled(1280, width), 1, act="relu6"), 1000)


_V3_SMALL = (
    *((3, 16, 16, True, "relu", 2), (3, 72, 24, False, "relu", 2), (3, 88, 24, False, "relu", 1)),
    *((5, 96, 40, True, "hswish", 2), (5, 240, 40, True, "hswish", 1)),
    *((5, 240, 40, True, "hswish", 1), (5, 120, 48, True, "hswish", 1)),
    *((5, 144, 48, True, "hswish", 1), (5, 288, 96, True, "hswish", 2)),
    *((5, 576, 96, True, "hswish", 1), (5, 576, 96, True, "hswish", 1)),
)


_V3_LARGE = (
    *((3, 16, 16, False, "relu", 1), (3, 64, 24, False, "relu", 2), (3, 72, 24, False, "relu", 1)),
    *((5, 72, 40, True, "relu", 2), (5, 120, 40, True, "relu", 1), (5, 120, 40, True, "relu", 1)),
    *((3, 240, 80, False, "hswish", 2), (3, 200, 80, False, "hswish", 1)),
    *((3, 184, 80, False, "hswish", 1), (3, 184, 80, False, "hswish", 1)),
    *((3, 480, 112, True, "hswish", 1), (3, 672, 112, True, "hswish", 1)),
    *((5, 672, 160, True, "hswish", 2), (5, 960, 160, True, "hswish", 1)),
    (5, 960, 160, True, "hswish", 1),
)


def _v3_blocks(
    w: Writer, x: Value, plan: tuple[tuple[int, int, int, bool, str, int], ...], width: float
) -> Value:
    """Append blocks of MobileNetV3."""
    for kernel, inner, channels, gated, act, stride in plan:
        inner = scaled(inner, width)
        reduced = scaled(inner // 4, 1.0) if gated else 0
        x = _inverted(w, x, kernel, inner, scaled(channels, width), stride, act, reduced)
    return x


def mobilenet_v3_large_features(w: Writer, x: Value, width: float) -> tuple[Value, Value]:
    """Append MobileNetV3-Large; return what it makes at a 16th and a 32nd of the picture's size."""
    x = w.conv(x, scaled(16, width), 3, 2, act="hswish")
    middle = _v3_blocks(w, x, _V3_LARGE[:12], width)
    coarse = _v3_blocks(w, middle, _V3_LARGE[12:], width)
    return middle, w.conv(coarse, scaled(960, width), 1, act="hswish")


def mobilenet_v3(
    w: Writer, size: int = 224, width: float = 1.0, depth: float = 1.0
) -> onnx.ModelProto:
    """MobileNetV3-Small: hard-swish and squeeze-excite (Howard et al., 2019)."""
    x = w.conv(w.image(size, size), scaled(16, width), 3, 2, act="hswish")
    x = _v3_blocks(w, x, _V3_SMALL[: times(len(_V3_SMALL), depth)], width)
    x = w.global_pool(w.conv(x, scaled(576, width), 1, act="hswish"))
    y = w.activation(w.linear(w.flatten(x), scaled(1024, width)), "hswish")
    return w.model(w.linear(y, 1000))


_EFFICIENTNET = (
    *((1, 3, 16, 1, 1), (6, 3, 24, 2, 2), (6, 5, 40, 2, 2), (6, 3, 80, 3, 2)),
    *((6, 5, 112, 3, 1), (6, 5, 192, 4, 2), (6, 3, 320, 1, 1)),
)


def efficientnet(
    w: Writer, size: int = 224, width: float = 1.0, depth: float = 1.0, *, lite: bool = False
) -> onnx.ModelProto:
    """EfficientNet-B0 (Tan and Le, 2019), or with ``lite`` Lite0: ReLU6, no squeeze-excite."""
    act = "relu6" if lite else "silu"
    x = w.conv(w.image(size, size), scaled(32, width), 3, 2, act=act)
    for expansion, kernel, channels, count, stride in _EFFICIENTNET:
        for block in range(times(count, depth)):
            inner = expansion * x.channels
            reduced = 0 if lite else max(4, x.channels // 4)
            now = 1 if block else stride
            out = scaled(channels, width)
            x = _inverted(w, x, kernel, inner, out, now, act, reduced, ("silu", "sigmoid"))
    return _classes(w, w.conv(x, scaled(1280, width), 1, act=act), 1000, softmax=lite)


def efficientnet_lite(
    w: Writer, size: int = 224, width: float = 1.0, depth: float = 1.0
) -> onnx.ModelProto:
    """EfficientNet-Lite0."""
    return efficientnet(w, size, width, depth, lite=True)


def shufflenet_v2(
    w: Writer, size: int = 224, width: float = 1.0, depth: float = 1.0
) -> onnx.ModelProto:
    """ShuffleNetV2 1.0x (Ma et al., 2018)."""
    x = w.conv(w.image(size, size), 24, 3, 2, act="relu")
    x = w.max_pool(x, 3, 2, 1)
    for channels, count in ((116, 4), (232, 8), (464, 4)):
        half = scaled(channels // 2, width, 2)
        y = w.conv(x, x.channels, 3, 2, groups=x.channels)
        y = w.conv(y, half, 1, act="relu")
        z = w.conv(x, half, 1, act="relu")
        z = w.conv(w.conv(z, half, 3, 2, groups=half), half, 1, act="relu")
        x = w.shuffle(w.concat(y, z), 2)
        for _ in range(times(count - 1, depth)):
            y, z = w.split(x, half, half)
            z = w.conv(z, half, 1, act="relu")
            z = w.conv(w.conv(z, half, 3, groups=half), half, 1, act="relu")
            x = w.shuffle(w.concat(y, z), 2)
    x = w.conv(x, scaled(1024, width), 1, act="relu")
    return _classes(w, x, 1000)


def squeezenet(
    w: Writer, size: int = 224, width: float = 1.0, depth: float = 1.0
) -> onnx.ModelProto:
    """SqueezeNet 1.1 (Iandola et al., 2016)."""
    x = w.conv(w.image(size, size), scaled(64, width), 3, 2, norm=False, act="relu", padding=0)
    plan: Sequence[Sequence[int]] = ((16, 64, 64), (32, 128, 128), (48, 192, 192, 64, 256, 256))
    for squeezes in plan:
        x = w.max_pool(x, 3, 2, ceil_mode=1)
        for index in range(0, len(squeezes), 3):
            y = w.conv(x, scaled(squeezes[index], width), 1, norm=False, act="relu")
            sides = [
                w.conv(
                    y, scaled(squeezes[index + side], width), 2 * side - 1, norm=False, act="relu"
                )
                for side in (1, 2)
            ]
            x = w.concat(*sides)
    x = w.conv(x, 1000, 1, norm=False, act="relu")
    return w.model(w.flatten(w.global_pool(x)))


def regnet(w: Writer, size: int = 224, width: float = 1.0, depth: float = 1.0) -> onnx.ModelProto:
    """RegNetY-400MF: grouped convolutions and squeeze-excite (Radosavovic et al., 2020)."""
    x = w.conv(w.image(size, size), 32, 3, 2, act="relu")
    for channels, count in ((48, 1), (104, 3), (208, 6), (440, 6)):
        channels = scaled(channels, width)
        for block in range(times(count, depth)):
            stride = 1 if block else 2
            short = x if block else w.conv(x, channels, 1, stride)
            reduced = max(4, x.channels // 4)
            y = w.conv(x, channels, 1, act="relu")
            y = w.conv(y, channels, 3, stride, groups=channels // 8, act="relu")
            y = w.conv(w.squeeze_excite(y, reduced, "relu", "sigmoid"), channels, 1)
            x = w.activation(w.add(y, short), "relu")
    return _classes(w, x, 1000)


def convnext(w: Writer, size: int = 224, width: float = 1.0, depth: float = 1.0) -> onnx.ModelProto:
    """ConvNeXt-atto: depthwise 7x7, layer normalisation, GELU (Liu et al., 2022; timm)."""
    x = w.conv(w.image(size, size), scaled(40, width), 4, 4, norm=False, padding=0)
    x = _channel_norm(w, x)
    for stage, count in enumerate((2, 2, 6, 2)):
        if stage:
            x = w.conv(_channel_norm(w, x), scaled(40 << stage, width), 2, 2, norm=False, padding=0)
        for _ in range(times(count, depth)):
            y = w.conv(x, x.channels, 7, groups=x.channels, norm=False)
            y = w.layer_norm(w.transpose(y, 0, 2, 3, 1))
            y = w.linear(w.activation(w.linear(y, 4 * x.channels), "gelu"), x.channels)
            y = w.mul(y, w.constant(w.around(0.5, 0.1, x.channels)))
            x = w.add(w.transpose(y, 0, 3, 1, 2), x)
    y = w.layer_norm(w.flatten(w.global_pool(x)))
    return w.model(w.linear(y, 1000))


def _channel_norm(w: Writer, x: Value) -> Value:
    return w.transpose(w.layer_norm(w.transpose(x, 0, 2, 3, 1)), 0, 3, 1, 2)


def mobilevit(
    w: Writer, size: int = 256, width: float = 1.0, depth: float = 1.0
) -> onnx.ModelProto:
    """MobileViT-XXS: convolutions and attention over patches (Mehta and Rastegari, 2022)."""
    x = w.conv(w.image(size, size), 16, 3, 2, act="silu")
    x = _inverted(w, x, 3, 32, 16, 1, "silu")
    x = _inverted(w, x, 3, 32, scaled(24, width), 2, "silu")
    for _ in range(times(2, depth)):
        x = _inverted(w, x, 3, 2 * x.channels, x.channels, 1, "silu")
    for channels, inner, count in ((48, 64, 2), (64, 80, 4), (80, 96, 3)):
        x = _inverted(w, x, 3, 2 * x.channels, scaled(channels, width), 2, "silu")
        x = _attention_block(w, x, scaled(inner, width, 16), times(count, depth))
    return _classes(w, w.conv(x, scaled(320, width), 1, act="silu"), 1000)


def _attention_block(w: Writer, x: Value, inner: int, count: int) -> Value:
    """Append a MobileViT block: unfold into 2x2 patches, transformers, fold."""
    y = w.conv(w.conv(x, x.channels, 3, act="silu"), inner, 1, norm=False)
    height, width = (size // 2 for size in y.size)
    y = w.transpose(w.reshape(y, inner * height, 2, width, 2), 0, 2, 1, 3)
    y = w.transpose(w.reshape(y, 1, inner, height * width, 4), 0, 3, 2, 1)
    y = w.reshape(y, 4, height * width, inner)
    for _ in range(count):
        y = transformer(w, y, heads=4)
    y = w.layer_norm(y)
    y = w.transpose(w.reshape(y, 1, 4, height * width, inner), 0, 3, 2, 1)
    y = w.transpose(w.reshape(y, inner * height, width, 2, 2), 0, 2, 1, 3)
    y = w.reshape(y, 1, inner, 2 * height, 2 * width)
    y = w.conv(y, x.channels, 1, act="silu")
    return w.conv(w.concat(x, y), x.channels, 3, act="silu")


def transformer(w: Writer, x: Value, heads: int) -> Value:
    """Append a transformer's encoder layer on [batch, tokens, features]."""
    batch, tokens, features = x.shape
    each = features // heads
    y = w.linear(w.layer_norm(x), 3 * features)
    y = w.op(
        "Reshape",
        [y, w.constant([batch, tokens, 3, heads, each], "int64")],
        (batch, tokens, 3, heads, each),
    )
    y = w.transpose(y, 2, 0, 3, 1, 4)
    parts = []
    for index in range(3):
        inputs = [y, w.constant(index, "int64")]
        parts.append(w.op("Gather", inputs, (batch, heads, tokens, each), axis=0))
    query, key, value = parts
    scores = w.mul(w.matmul(query, w.transpose(key, 0, 1, 3, 2)), w.constant(each**-0.5))
    y = w.transpose(w.matmul(w.softmax(scores), value), 0, 2, 1, 3)
    y = w.op("Reshape", [y, w.constant([batch, tokens, features], "int64")], x.shape)
    x = w.add(w.linear(y, features), x)
    y = w.activation(w.linear(w.layer_norm(x), 2 * features), "silu")
    return w.add(w.linear(y, features), x)

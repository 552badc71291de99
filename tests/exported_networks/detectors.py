"""Detectors with made-up weights, layer for layer those of their papers and configurations.

``size`` is the picture's height and width, ``width`` multiplies channels, ``depth`` repetitions.
"""

from __future__ import annotations

import onnx

from .classifiers import mobilenet_v2_features, mobilenet_v3_large_features, scaled, times
from .writer import Value, Writer

CLASSES = 80


def yolov3_tiny(
    w: Writer, size: int = 416, width: float = 1.0, depth: float = 1.0
) -> onnx.ModelProto:
    """YOLOv3-tiny (darknet's cfg/yolov3-tiny.cfg) with plain heads."""
    x = w.image(size, size)
    kept = x
    for channels in (16, 32, 64, 128, 256):
        kept = w.conv(x, scaled(channels, width), 3, act="leaky")
        x = w.max_pool(kept, 2, 2)
    x = w.conv(x, scaled(512, width), 3, act="leaky")
    pads = w.constant([0, 0, 0, 0, 0, 0, 1, 1], "int64")
    shape = (1, x.channels, x.size[0] + 1, x.size[1] + 1)
    x = w.max_pool(w.op("Pad", [x, pads, w.constant(-3e38)], shape), 2, 1)
    x = w.conv(w.conv(x, scaled(1024, width), 3, act="leaky"), scaled(256, width), 1, act="leaky")
    first = _grid(w, w.conv(w.conv(x, scaled(512, width), 3, act="leaky"), 255, 1, norm=False))
    x = w.conv(x, scaled(128, width), 1, act="leaky")
    x = w.concat(w.resize(x, 2 * x.size[0], 2 * x.size[1]), kept)
    second = _grid(w, w.conv(w.conv(x, scaled(256, width), 3, act="leaky"), 255, 1, norm=False))
    return w.model(first, second)


def _grid(w: Writer, x: Value, anchors: int = 3) -> Value:
    """Append a head's ``[1, 3, h, w, 85]``."""
    height, width = x.size
    y = w.reshape(x, 1, anchors, x.channels // anchors, height, width)
    return w.transpose(y, 0, 1, 3, 4, 2)


def _c3(w: Writer, x: Value, channels: int, count: int, act: str, shortcut: bool = True) -> Value:
    """Append YOLOv5's C3: two branches, one through bottlenecks."""
    half = channels // 2
    y = w.conv(x, half, 1, act=act)
    for _ in range(count):
        z = w.conv(w.conv(y, half, 1, act=act), half, 3, act=act)
        y = w.add(y, z) if shortcut else z
    return w.conv(w.concat(y, w.conv(x, half, 1, act=act)), channels, 1, act=act)


def _sppf(w: Writer, x: Value, channels: int, act: str) -> Value:
    """Append fast spatial pyramid pooling: three 5x5 poolings in a row."""
    parts = [w.conv(x, x.channels // 2, 1, act=act)]
    for _ in range(3):
        parts.append(w.max_pool(parts[-1], 5, 1, 2))
    return w.conv(w.concat(*parts), channels, 1, act=act)


def _double(w: Writer, x: Value) -> Value:
    return w.resize(x, 2 * x.size[0], 2 * x.size[1])


def yolov5n(w: Writer, size: int = 640, width: float = 1.0, depth: float = 1.0) -> onnx.ModelProto:
    """YOLOv5n 6.x with its decoding head (sigmoid, grid, anchors)."""
    act = "silu"
    c = [scaled(n, width) for n in (16, 32, 64, 128, 256)]
    x = w.conv(w.image(size, size), c[0], 6, 2, act=act, padding=2)
    kept = []
    for channels, count in zip(c[1:], (1, 2, 3, 1), strict=True):
        x = _c3(w, w.conv(x, channels, 3, 2, act=act), channels, times(count, depth), act)
        kept.append(x)
    x = _sppf(w, x, c[4], act)
    levels = _pyramid(w, kept[1], kept[2], x, c, lambda y, n: _c3(w, y, n, 1, act, False), act)
    return w.model(w.concat(*(_yolov5_head(w, x, 8 << i) for i, x in enumerate(levels))))


def _pyramid(w: Writer, fine: Value, middle: Value, coarse: Value, c: list[int], block, act: str):
    """Append YOLOv5's path aggregation: up twice with lateral 1x1, down twice."""
    top = w.conv(coarse, c[3], 1, act=act)
    x = block(w.concat(_double(w, top), middle), c[3])
    lateral = w.conv(x, c[2], 1, act=act)
    first = block(w.concat(_double(w, lateral), fine), c[2])
    second = block(w.concat(w.conv(first, c[2], 3, 2, act=act), lateral), c[3])
    third = block(w.concat(w.conv(second, c[3], 3, 2, act=act), top), c[4])
    return first, second, third


def _yolov5_head(w: Writer, x: Value, stride: int) -> Value:
    """Append the decoding of one level: [1, 3 * h * w, 85]."""
    each = CLASSES + 5
    y = w.sigmoid(_grid(w, w.conv(x, 3 * each, 1, norm=False)))
    height, width = x.size
    place, extent, rest = w.split(y, 2, 2, CLASSES + 1, axis=4)
    grid = w.around(0, 1, 1, 3, height, width, 2)
    place = w.op("Add", [w.mul(place, w.constant(2.0)), w.constant(grid)], place.shape)
    place = w.mul(place, w.constant(float(stride)))
    extent = w.op("Pow", [w.mul(extent, w.constant(2.0)), w.constant(2.0)], extent.shape)
    extent = w.mul(extent, w.constant(w.around(20, 5, 1, 3, 1, 1, 2)))
    return w.reshape(w.concat(place, extent, rest, axis=4), 1, 3 * height * width, each)


def _c2f(
    w: Writer, x: Value, channels: int, count: int, shortcut: bool, three: bool = False
) -> Value:
    """Append YOLOv8's C2f, or YOLO11's C3k2 where ``three``."""
    half = channels // 2
    parts = w.split(w.conv(x, channels, 1, act="silu"), half, channels - half)
    for _ in range(count):
        y = parts[-1]
        if three:
            z = _c3(w, y, half, 2, "silu")
        else:
            z = w.conv(w.conv(y, half, 3, act="silu"), half, 3, act="silu")
            z = w.add(y, z) if shortcut else z
        parts.append(z)
    return w.conv(w.concat(*parts), channels, 1, act="silu")


def yolov8n(w: Writer, size: int = 640, width: float = 1.0, depth: float = 1.0) -> onnx.ModelProto:
    """YOLOv8n with its decoding head (distribution, boxes)."""
    c = [scaled(n, width) for n in (16, 32, 64, 128, 256)]
    x = w.conv(w.image(size, size), c[0], 3, 2, act="silu")
    kept = []
    for channels, count in zip(c[1:], (1, 2, 2, 1), strict=True):
        x = _c2f(w, w.conv(x, channels, 3, 2, act="silu"), channels, times(count, depth), True)
        kept.append(x)
    x = _sppf(w, x, c[4], "silu")
    middle = _c2f(w, w.concat(_double(w, x), kept[2]), c[3], 1, False)
    first = _c2f(w, w.concat(_double(w, middle), kept[1]), c[2], 1, False)
    down = w.conv(first, c[2], 3, 2, act="silu")
    second = _c2f(w, w.concat(down, middle), c[3], 1, False)
    down = w.conv(second, c[3], 3, 2, act="silu")
    third = _c2f(w, w.concat(down, x), c[4], 1, False)
    return w.model(_yolov8_head(w, (first, second, third)))


def _yolov8_head(w: Writer, levels: tuple[Value, ...], light: bool = False) -> Value:
    """Append YOLOv8's head: boxes from distributions, [1, 84, cells]."""
    parts = []
    for x in levels:
        inner, wide = max(16, levels[0].channels // 4, 64), max(levels[0].channels, 80)
        box = w.conv(w.conv(x, inner, 3, act="silu"), inner, 3, act="silu")
        if light:
            y = w.conv(w.conv(x, x.channels, 3, groups=x.channels, act="silu"), wide, 1, act="silu")
            y = w.conv(w.conv(y, wide, 3, groups=wide, act="silu"), wide, 1, act="silu")
        else:
            y = w.conv(w.conv(x, wide, 3, act="silu"), wide, 3, act="silu")
        both = w.concat(w.conv(box, 64, 1, norm=False), w.conv(y, CLASSES, 1, norm=False))
        parts.append(w.reshape(both, 1, 64 + CLASSES, x.size[0] * x.size[1]))
    x = w.concat(*parts, axis=2)
    box, scores = w.split(x, 64, CLASSES)
    cells = x.shape[2]
    y = w.transpose(w.reshape(box, 1, 4, 16, cells), 0, 2, 1, 3)
    y = w.softmax(y, axis=1)
    weight = w.constant([[[[float(i)]] for i in range(16)]])
    y = w.op("Conv", [y, weight], (1, 1, 4, cells), kernel_shape=[1, 1])
    y = w.reshape(y, 1, 4, cells)
    near, far = w.slice(y, 1, 0, 2), w.slice(y, 1, 2, 4)
    anchors = w.constant(w.around(10, 5, 1, 2, cells))
    low = w.op("Sub", [anchors, near], near.shape)
    high = w.op("Add", [anchors, far], far.shape)
    middle = w.op("Div", [w.add(low, high), w.constant(2.0)], low.shape)
    extent = w.op("Sub", [high, low], low.shape)
    boxes = w.mul(w.concat(middle, extent), w.constant(w.around(16, 4, 1, 1, cells)))
    return w.concat(boxes, w.sigmoid(scores))


def yolo11n(w: Writer, size: int = 640, width: float = 1.0, depth: float = 1.0) -> onnx.ModelProto:
    """YOLO11n: C3k2 blocks and attention at the coarsest level."""
    c = [scaled(n, width) for n in (16, 32, 64, 128, 256)]
    count = times(1, depth)
    x = w.conv(w.conv(w.image(size, size), c[0], 3, 2, act="silu"), c[1], 3, 2, act="silu")
    x = w.conv(_c2f(w, x, c[2], count, True), c[2], 3, 2, act="silu")
    fine = _c2f(w, x, c[3], count, True)
    middle = _c2f(w, w.conv(fine, c[3], 3, 2, act="silu"), c[3], count, True, three=True)
    x = _c2f(w, w.conv(middle, c[4], 3, 2, act="silu"), c[4], count, True, three=True)
    x = _attention(w, _sppf(w, x, c[4], "silu"))
    second = _c2f(w, w.concat(_double(w, x), middle), c[3], count, True)
    first = _c2f(w, w.concat(_double(w, second), fine), c[2], count, True)
    second = _c2f(w, w.concat(w.conv(first, c[2], 3, 2, act="silu"), second), c[3], count, True)
    third = _c2f(w, w.concat(w.conv(second, c[3], 3, 2, act="silu"), x), c[4], count, True, True)
    return w.model(_yolov8_head(w, (first, second, third), light=True))


def _attention(w: Writer, x: Value) -> Value:
    """Append C2PSA: half of the channels through attention and a feed-forward block."""
    half = x.channels // 2
    kept, y = w.split(w.conv(x, 2 * half, 1, act="silu"), half, half)
    height, width = y.size
    heads = max(1, half // 64)
    each, key = half // heads, half // heads // 2
    both = w.conv(y, half + 2 * key * heads, 1)
    parts = w.split(
        w.reshape(both, 1, heads, each + 2 * key, height * width), key, key, each, axis=2
    )
    scores = w.mul(w.matmul(w.transpose(parts[0], 0, 1, 3, 2), parts[1]), w.constant(key**-0.5))
    z = w.matmul(parts[2], w.transpose(w.softmax(scores), 0, 1, 3, 2))
    place = w.conv(w.reshape(parts[2], 1, half, height, width), half, 3, groups=half)
    z = w.add(w.reshape(z, 1, half, height, width), place)
    y = w.add(y, w.conv(z, half, 1))
    y = w.add(y, w.conv(w.conv(y, 2 * half, 1, act="silu"), half, 1))
    return w.conv(w.concat(kept, y), x.channels, 1, act="silu")


def yolox_nano(
    w: Writer, size: int = 416, width: float = 1.0, depth: float = 1.0
) -> onnx.ModelProto:
    """YOLOX-nano: focus by strided slices, depthwise convolutions, decoupled heads."""
    act = "silu"
    c = [scaled(n, width) for n in (16, 32, 64, 128, 256)]

    def separable(x: Value, channels: int, stride: int = 1) -> Value:
        y = w.conv(x, x.channels, 3, stride, groups=x.channels, act=act)
        return w.conv(y, channels, 1, act=act)

    def block(x: Value, channels: int, count: int = 1, shortcut: bool = False) -> Value:
        half = channels // 2
        y = w.conv(x, half, 1, act=act)
        for _ in range(count):
            z = separable(w.conv(y, half, 1, act=act), half)
            y = w.add(z, y) if shortcut else z
        return w.conv(w.concat(y, w.conv(x, half, 1, act=act)), channels, 1, act=act)

    image = w.image(size, size)
    parts = [
        w.slice(w.slice(image, 2, row, size, 2), 3, col, size, 2)
        for col in (0, 1)
        for row in (0, 1)
    ]
    x = w.conv(w.concat(*parts), c[0], 3, act=act)
    kept = []
    for level, (channels, count) in enumerate(zip(c[1:], (1, 3, 3, 1), strict=True)):
        x = separable(x, channels, 2)
        if level == 3:
            y = w.conv(x, channels // 2, 1, act=act)
            pools = [w.max_pool(y, k, 1, k // 2) for k in (5, 9, 13)]
            x = w.conv(w.concat(y, *pools), channels, 1, act=act)
        x = block(x, channels, times(count, depth), level < 3)
        kept.append(x)
    top = w.conv(kept[3], c[3], 1, act=act)
    y = block(w.concat(_double(w, top), kept[2]), c[3])
    lateral = w.conv(y, c[2], 1, act=act)
    first = block(w.concat(_double(w, lateral), kept[1]), c[2])
    second = block(w.concat(separable(first, c[2], 2), lateral), c[3])
    third = block(w.concat(separable(second, c[3], 2), top), c[4])
    heads = []
    for x in (first, second, third):
        y = w.conv(x, c[2], 1, act=act)
        kind = separable(separable(y, c[2]), c[2])
        box = separable(separable(y, c[2]), c[2])
        scores = w.sigmoid(w.conv(kind, CLASSES, 1, norm=False))
        sure = w.sigmoid(w.conv(box, 1, 1, norm=False))
        z = w.concat(w.conv(box, 4, 1, norm=False), sure, scores)
        heads.append(w.reshape(z, 1, CLASSES + 5, x.size[0] * x.size[1]))
    return w.model(w.transpose(w.concat(*heads, axis=2), 0, 2, 1))


def ssdlite(w: Writer, size: int = 320, width: float = 1.0, depth: float = 1.0) -> onnx.ModelProto:
    """SSDLite on MobileNetV2: separable heads on six levels, scores and boxes joined."""
    stages = mobilenet_v2_features(w, w.image(size, size), width, depth)
    return _ssdlite(w, [stages[4], w.conv(stages[6], scaled(1280, width), 1, act="relu6")], width)


def ssdlite_v3(
    w: Writer, size: int = 320, width: float = 1.0, depth: float = 1.0
) -> onnx.ModelProto:
    """SSDLite on MobileNetV3-Large, whose depth is fixed."""
    del depth
    return _ssdlite(w, [*mobilenet_v3_large_features(w, w.image(size, size), width)], width)


def _ssdlite(w: Writer, levels: list[Value], width: float) -> onnx.ModelProto:
    """Append coarser levels and SSDLite's heads."""
    for channels in (512, 256, 256, 128):
        inner = scaled(channels // 2, width)
        y = w.conv(levels[-1], inner, 1, act="relu6")
        y = w.conv(y, inner, 3, 2, groups=inner, act="relu6")
        levels.append(w.conv(y, scaled(channels, width), 1, act="relu6"))
    parts: list[list[Value]] = [[], []]
    for index, x in enumerate(levels):
        anchors = 6
        for into, each in zip(parts, (CLASSES + 1, 4), strict=True):
            y = w.conv(x, x.channels, 3, groups=x.channels, act="relu6")
            y = w.transpose(w.conv(y, anchors * each, 1, norm=False), 0, 2, 3, 1)
            into.append(w.reshape(y, 1, anchors * x.size[0] * x.size[1], each))
        del index
    scores, boxes = (w.concat(*found, axis=1) for found in parts)
    return w.model(w.softmax(scores, axis=2), boxes)


def centernet(
    w: Writer, size: int = 512, width: float = 1.0, depth: float = 1.0
) -> onnx.ModelProto:
    """CenterNet on ResNet-18: three deconvolutions, heat map, sizes and offsets."""
    x = w.conv(w.image(size, size), scaled(64, width), 7, 2, act="relu")
    x = w.max_pool(x, 3, 2, 1)
    for stage in range(4):
        channels = scaled(64 << stage, width)
        for block in range(times(2, depth)):
            stride = 2 if stage and not block else 1
            short = x if stride == 1 else w.conv(x, channels, 1, stride)
            y = w.conv(w.conv(x, channels, 3, stride, act="relu"), channels, 3)
            x = w.activation(w.add(y, short), "relu")
    for channels in (256, 128, 64):
        y = w.conv(x, scaled(channels, width), 3, act="relu")
        x = w.activation(w.batch_norm(w.transposed(y, y.channels, 4, 2, 1)), "relu")
    heads = []
    for channels in (CLASSES, 2, 2):
        y = w.conv(x, 64, 3, norm=False, act="relu")
        heads.append(w.conv(y, channels, 1, norm=False))
    heat = w.sigmoid(heads[0])
    return w.model(heat, w.max_pool(heat, 3, 1, 1), *heads[1:])


def retinaface(
    w: Writer, size: int = 320, width: float = 1.0, depth: float = 1.0
) -> onnx.ModelProto:
    """RetinaFace on MobileNet 0.25: feature pyramid, context modules, landmarks."""
    x = w.conv(w.image(size, size), scaled(8, width), 3, 2, act="leaky")
    kept = []
    plan = [(16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1)]
    for channels, stride in plan:
        x = w.conv(x, x.channels, 3, stride, groups=x.channels, act="leaky")
        x = w.conv(x, scaled(channels, width), 1, act="leaky")
        if stride == 1 and channels > 32:
            kept.append(x)
    sides = [w.conv(level, 64, 1, act="leaky") for level in kept]
    for index in (1, 0):
        up = w.resize(sides[index + 1], *sides[index].size)
        sides[index] = w.conv(w.add(sides[index], up), 64, 3, act="leaky")
    parts: list[list[Value]] = [[], [], []]
    for x in sides:
        wide = w.conv(x, 32, 3)
        y = w.conv(x, 16, 3, act="leaky")
        near, z = w.conv(y, 16, 3), w.conv(y, 16, 3, act="leaky")
        x = w.activation(w.concat(wide, near, w.conv(z, 16, 3)), "relu")
        for into, each in zip(parts, (4, 2, 10), strict=True):
            y = w.transpose(w.conv(x, 2 * each, 1, norm=False), 0, 2, 3, 1)
            into.append(w.reshape(y, 1, 2 * x.size[0] * x.size[1], each))
    boxes, scores, landmarks = (w.concat(*found, axis=1) for found in parts)
    return w.model(boxes, w.softmax(scores, axis=2), landmarks)

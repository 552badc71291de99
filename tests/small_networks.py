"""Small ONNX networks with synthetic weights that use every operator the quantiser supports."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from edgepipe import boards
from edgepipe.bundle import storage
from edgepipe.frontend.preprocess import Preprocess
from edgepipe.recipe import BuildOptions, build_bundle

PREPROCESS = Preprocess(
    width=16, height=16, order="BGR", mean=(120.0, 110.0, 100.0), std=(60.0, 61.0, 62.0)
)
DESCRIPTION = """
[preprocess]
width = 16
height = 16
order = "BGR"
mean = [128.0, 128.0, 128.0]
std = [64.0, 64.0, 64.0]

[postprocess]
kind = "classify"
"""


class Builder:
    """Collects nodes and initialisers; ``weights`` are drawn from a seeded generator."""

    def __init__(self, seed: int = 0) -> None:
        self._random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, name: str, values: NDArray[np.generic] | np.generic) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def node(self, op: str, inputs: list[str], *outputs: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(op, inputs, list(outputs), **attributes))
        return outputs[0]

    def conv(
        self, source: str, name: str, shape: tuple[int, int, int, int], **attributes: object
    ) -> str:
        fan_in = float(np.prod(shape[1:]))
        weight = self._random.normal(0, 1.4 / np.sqrt(fan_in), shape).astype(np.float32)
        bias = self._random.normal(0, 0.3, shape[0]).astype(np.float32)
        inputs = [source, self.constant(f"{name}.w", weight), self.constant(f"{name}.b", bias)]
        return self.node("Conv", inputs, name, kernel_shape=shape[2:], **attributes)

    def normal(self, *shape: int) -> NDArray[np.float32]:
        return self._random.normal(0, 1, shape).astype(np.float32)

    def model(
        self, shape: list[int | str], outputs: dict[str, int], *, opset: int = 13
    ) -> onnx.ModelProto:
        """Finish a model; ``outputs`` maps the names of the outputs to their ranks."""
        graph = helper.make_graph(
            self.nodes,
            "small",
            [helper.make_tensor_value_info("image", TensorProto.FLOAT, shape)],
            [
                helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * rank)
                for name, rank in outputs.items()
            ],
            self.constants,
        )
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8
        )


def detector() -> onnx.ModelProto:
    """A small detector: leaky convolutions, pool, concat, resize, sums, split sigmoid head."""
    b = Builder(1)
    same = {"pads": [1, 1, 1, 1]}
    x = b.conv("image", "stem/conv:0", (8, 3, 3, 3), strides=[2, 2], **same)
    x = b.node("LeakyRelu", [x], "stem/leaky:0", alpha=0.1)
    x = b.node(
        "MaxPool", [x], "stem/pool:0", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]
    )
    y = b.conv(x, "body/conv:0", (8, 8, 3, 3), **same)
    y = b.node("LeakyRelu", [y], "body/leaky:0", alpha=0.1)
    z = b.node("Concat", [y, x], "body/concat:0", axis=1)
    down = b.conv(z, "down/conv:0", (8, 16, 3, 3), strides=[2, 2], **same)
    scales = b.constant("scales", np.array([1, 1, 2, 2], np.float32))
    up = b.node(
        "Resize",
        [down, "", scales],
        "up/resize:0",
        mode="linear",
        coordinate_transformation_mode="half_pixel",
    )
    lateral = b.conv(z, "lateral/conv:0", (8, 16, 1, 1))
    merged = b.node("Add", [lateral, up], "merge/add:0")
    again = b.node("Add", [merged, y], "merge/again:0")
    head = b.conv(again, "head/conv:0", (12, 8, 1, 1))
    parts = b.constant("parts", np.array([4, 8], np.int64))
    b.node("Split", [head, parts], "head/split:0", "head/split:1", axis=1)
    score = b.node("Sigmoid", ["head/split:0"], "head/sigmoid:0")
    for source, channels, name in ((score, 4, "scores"), ("head/split:1", 8, "distances")):
        flat = b.constant(f"{name}.shape", np.array([1, channels, 16], np.int64))
        reshaped = b.node("Reshape", [source, flat], f"{name}/reshape:0")
        b.node("Transpose", [reshaped], f"{name}:0", perm=[0, 2, 1])
    return b.model([1, 3, 16, 16], {"scores:0": 3, "distances:0": 3})


def classifier(batch: int | str = "n") -> onnx.ModelProto:
    """A small classifier: batch norm, relu6, depthwise, residual, global pool, dense."""
    b = Builder(2)
    x = b.conv("image", "/stem/Conv_output_0", (8, 3, 3, 3), strides=[2, 2], pads=[1, 1, 1, 1])
    norm = [
        b.constant(name, values)
        for name, values in (
            ("gamma", np.linspace(0.5, 2.0, 8, dtype=np.float32)),
            ("beta", b.normal(8)),
            ("mean", b.normal(8)),
            ("variance", np.linspace(0.3, 3.0, 8, dtype=np.float32)),
        )
    ]
    x = b.node("BatchNormalization", [x, *norm], "/stem/Norm_output_0", epsilon=1e-5)
    low, high = b.constant("zero", np.float32(0)), b.constant("six", np.float32(6))
    x = b.node("Clip", [x, low, high], "/stem/Clip_output_0")
    y = b.conv(x, "/block/depth/Conv_output_0", (8, 1, 3, 3), group=8, pads=[1, 1, 1, 1])
    y = b.node("Clip", [y, low, high], "/block/depth/Clip_output_0")
    y = b.conv(y, "/block/Conv_output_0", (8, 8, 1, 1))
    x = b.node("Add", [y, x], "/block/Add_output_0")
    x = b.node("Relu", [x], "/block/Relu_output_0")
    x = b.node("GlobalAveragePool", [x], "/pool/Pool_output_0")
    x = b.node("Flatten", [x], "/Flatten_output_0")
    dense = [b.constant("dense.w", b.normal(5, 8)), b.constant("dense.b", b.normal(5))]
    b.node("Gemm", [x, *dense], "logits", transB=1)
    return b.model([batch, 3, 16, 16], {"logits": 2})


def projected() -> onnx.ModelProto:
    """The first block of a residual stage: a strided path and a strided 1x1 convolution."""
    b = Builder(4)
    x = b.conv("image", "stem:0", (24, 3, 3, 3), strides=[2, 2], pads=[1, 1, 1, 1])
    x = b.node("Relu", [x], "stem/relu:0")
    y = b.conv(x, "block/first:0", (40, 24, 3, 3), strides=[2, 2], pads=[1, 1, 1, 1])
    y = b.node("Relu", [y], "block/relu:0")
    y = b.conv(y, "block/second:0", (40, 40, 3, 3), pads=[1, 1, 1, 1])
    x = b.conv(x, "block/shortcut:0", (40, 24, 1, 1), strides=[2, 2])
    x = b.node("Add", [y, x], "block/add:0")
    x = b.node("Relu", [x], "block/out:0")
    b.conv(x, "head:0", (6, 40, 1, 1))
    return b.model([1, 3, 16, 16], {"head:0": 4})


def with_float_middle() -> onnx.ModelProto:
    """A network with operators that have no integer form between two convolutions."""
    b = Builder(3)
    x = b.conv("image", "first", (8, 3, 3, 3), pads=[1, 1, 1, 1])
    gate = b.node("HardSigmoid", [x], "gate")
    x = b.node("Mul", [x, gate], "gated")
    x = b.node("Trilu", [x], "upper")
    x = b.conv(x, "second", (4, 8, 3, 3))
    b.node("Tanh", [x], "result")
    return b.model([1, 3, 16, 16], {"result": 4}, opset=14)


def exporter_habits() -> onnx.ModelProto:
    """Exporters' constructs: a separate Pad, rounded-up and average pools, gates, a transpose."""
    b = Builder(4)
    pads = b.constant("pads", np.array([0, 0, 0, 1, 0, 0, 2, 1], np.int64))
    x = b.node("Pad", ["image", pads], "padded")
    x = b.conv(x, "first", (8, 3, 3, 3), strides=[2, 2])
    x = b.node("Relu", [x], "relu")
    x = b.node("MaxPool", [x], "pool", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    gate = b.node("Sigmoid", [x], "gate")
    x = b.node("Mul", [x, gate], "gated")
    x = b.conv(x, "second", (6, 8, 1, 1))
    double = b.node("Add", [x, x], "double")
    weight = b.constant("up.w", 0.3 * b.normal(6, 4, 4, 4))
    x = b.node(
        "ConvTranspose",
        [double, weight],
        "up",
        strides=[2, 2],
        pads=[1, 1, 1, 1],
        kernel_shape=[4, 4],
    )
    x = b.node("AveragePool", [x], "mean", kernel_shape=[2, 2], strides=[2, 2])
    b.node("Sub", [x, b.constant("shift", b.normal(1, 4, 1, 1))], "result")
    return b.model([1, 3, 16, 16], {"result": 4})


def silu_block() -> onnx.ModelProto:
    """YOLOv8's C2f block: SiLU after every convolution, a split, a residual, a concatenation."""
    b = Builder(8)

    def conv(source: str, name: str, shape: tuple[int, int, int, int], **attributes: object) -> str:
        x = b.conv(source, f"{name}/conv", shape, pads=[shape[2] // 2] * 4, **attributes)
        return b.node("Mul", [x, b.node("Sigmoid", [x], f"{name}/sigmoid")], f"{name}/mul")

    x = conv("image", "stem", (16, 3, 3, 3), strides=[2, 2])
    x = conv(x, "cv1", (16, 16, 1, 1))
    b.node("Split", [x, b.constant("halves", np.array([8, 8], np.int64))], "left", "right", axis=1)
    y = conv("right", "first", (8, 8, 3, 3))
    y = b.node("Add", ["right", conv(y, "second", (8, 8, 3, 3))], "added")
    x = b.node("Concat", ["left", "right", y], "joined", axis=1)
    x = conv(x, "cv2", (16, 24, 1, 1))
    b.conv(x, "result", (8, 16, 1, 1))
    return b.model([1, 3, 16, 16], {"result": 4})


def squeeze_excite() -> onnx.ModelProto:
    """MobileNetV3's block with squeeze-and-excitation, and a gate of one plane for all channels."""
    b = Builder(9)
    x = b.conv("image", "stem", (16, 3, 3, 3), strides=[2, 2], pads=[1] * 4)
    x = block = b.node("HardSwish", [x], "stem/swish")
    x = b.node("HardSwish", [b.conv(x, "expand", (24, 16, 1, 1))], "expand/swish")
    x = b.conv(x, "depth", (24, 1, 3, 3), group=24, pads=[1] * 4)
    x = b.node("HardSwish", [x], "depth/swish")
    y = b.node("GlobalAveragePool", [x], "squeeze")
    y = b.node("Relu", [b.conv(y, "reduce", (8, 24, 1, 1))], "reduce/relu")
    y = b.node("HardSigmoid", [b.conv(y, "excite", (24, 8, 1, 1))], "gate", alpha=1 / 6)
    x = b.node("Mul", [x, y], "gated")
    x = b.node("Add", [b.conv(x, "project", (16, 24, 1, 1)), block], "added")
    plane = b.node("Sigmoid", [b.conv(x, "attend", (1, 16, 3, 3), pads=[1] * 4)], "plane")
    x = b.node("Add", [b.node("Mul", [plane, x], "seen"), x], "emphasised")
    b.conv(x, "result", (8, 16, 1, 1))
    return b.model([1, 3, 16, 16], {"result": 4}, opset=14)


def shuffled() -> onnx.ModelProto:
    """ShuffleNet's unit: two convolutions of different ranges, joined, shuffled and split."""
    b = Builder(11)
    x = b.conv("image", "first", (8, 3, 3, 3), strides=[2, 2], pads=[1] * 4)
    y = b.conv("image", "second", (8, 3, 3, 3), strides=[2, 2], pads=[1] * 4)
    x = b.node("Concat", [x, b.node("Relu", [y], "relu")], "joined", axis=1)
    groups = b.constant("groups", np.array([1, 2, 8, 8, 8], np.int64))
    x = b.node("Reshape", [x, groups], "grouped")
    x = b.node("Transpose", [x], "turned", perm=[0, 2, 1, 3, 4])
    x = b.node("Reshape", [x, b.constant("flat", np.array([1, 16, 8, 8], np.int64))], "shuffled")
    b.node("Split", [x, b.constant("halves", np.array([8, 8], np.int64))], "left", "right", axis=1)
    x = b.node("Concat", ["left", b.conv("right", "third", (8, 8, 1, 1))], "again", axis=1)
    b.conv(x, "result", (4, 16, 1, 1))
    return b.model([1, 3, 16, 16], {"result": 4})


ACTIVATIONS: dict[str, dict[str, object]] = {
    "Atan": {},
    "Elu": {"alpha": 0.7},
    "Erf": {},
    "HardSwish": {},
    "LeakyRelu": {"alpha": -0.3},
    "Mish": {},
    "Selu": {},
    "Sigmoid": {},
    "Softplus": {},
    "Softsign": {},
    "Tanh": {},
    "ThresholdedRelu": {},
}


def activations() -> onnx.ModelProto:
    """One convolution, and after it every activation that is one ONNX operator, or several."""
    b = Builder(10)
    x = b.conv("image", "source", (8, 3, 3, 3), strides=[2, 2], pads=[1] * 4)
    made = [b.node(op, [x], op, **attributes) for op, attributes in ACTIVATIONS.items()]
    made.append(b.node("PRelu", [x, b.constant("slopes", b.normal(8, 1, 1))], "PRelu"))
    made.append(b.node("Mul", [x, b.node("Sigmoid", [x], "silu/sigmoid")], "SiLU"))
    root = b.constant("root", np.float32(np.sqrt(2)))
    one, half = b.constant("one", np.float32(1)), b.constant("half", np.float32(0.5))
    y = b.node("Erf", [b.node("Div", [x, root], "gelu/div")], "gelu/erf")
    y = b.node("Mul", [x, b.node("Add", [y, one], "gelu/add")], "gelu/mul")
    made.append(b.node("Mul", [y, half], "GELU"))
    y = b.node("Softplus", [x], "mish/softplus")
    made.append(b.node("Mul", [x, b.node("Tanh", [y], "mish/tanh")], "Mish2"))
    for name in made:
        b.conv(name, f"{name}/out", (2, 8, 1, 1))
    return b.model([1, 3, 16, 16], {f"{name}/out": 4 for name in made}, opset=18)


# Elementary functions, and a tensor of values where each is finite and not steep.
ELEMENTARY = {
    "Acos": "within",
    "Acosh": "beyond",
    "Asin": "within",
    "Asinh": "source",
    "Atanh": "within",
    "Ceil": "source",
    "Cosh": "within",
    "Floor": "source",
    "Reciprocal": "beyond",
    "Round": "source",
    "Shrink": "source",
    "Sign": "source",
    "Sinh": "within",
    "Tan": "within",
}


def elementary() -> onnx.ModelProto:
    """One convolution, and after it elementary functions of it, or of another function of it."""
    b = Builder(12)
    x = b.conv("image", "source", (8, 3, 3, 3), strides=[2, 2], pads=[1] * 4)
    share = b.constant("share", np.float32(0.9))
    b.node("Mul", [b.node("Tanh", [x], "tanh"), share], "within")
    b.node("Exp", [b.node("Softplus", ["within"], "softplus")], "beyond")
    for op, source in ELEMENTARY.items():
        more = {"lambd": 0.4, "bias": 0.1} if op == "Shrink" else {}
        b.conv(b.node(op, [source], op, **more), f"{op}/out", (2, 8, 1, 1))
    return b.model([1, 3, 16, 16], {f"{op}/out": 4 for op in ELEMENTARY})


def upsampler() -> onnx.ModelProto:
    """Grouped and dilated transposed convolutions, and the maximum over the whole picture."""
    b = Builder(5)
    x = b.conv("image", "first", (8, 3, 3, 3), strides=[2, 2], pads=[1] * 4)
    weight = b.constant("up.w", 0.3 * b.normal(8, 3, 4, 4))
    shape = {"kernel_shape": [4, 4], "strides": [2, 2], "pads": [1] * 4}
    x = b.node("ConvTranspose", [x, weight], "up", group=2, **shape)
    weight = b.constant("wide.w", 0.3 * b.normal(6, 10, 3, 3))
    x = b.node("ConvTranspose", [x, weight], "wide", kernel_shape=[3, 3], dilations=[2, 2])
    x = b.node("GlobalMaxPool", [x], "largest")
    x = b.node("Flatten", [x], "flat")
    b.node("Gemm", [x, b.constant("dense.w", b.normal(5, 10))], "logits", transB=1)
    return b.model([1, 3, 16, 16], {"logits": 2})


def reluctant() -> onnx.ModelProto:
    """Operators that stay float between two convolutions, each for a different reason."""
    b = Builder(6)
    x = b.conv("image", "first", (8, 3, 3, 3), pads=[1] * 4)
    x = b.node("Trilu", [x], "upper")
    x = b.node("AveragePool", [x], "partial", kernel_shape=[3, 3], pads=[1] * 4)
    x = b.node("AveragePool", [x], "rounded_up", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    size = b.constant("size", np.array([1, 8, 20, 20], np.int64))
    corners = {"coordinate_transformation_mode": "align_corners"}
    x = b.node("Resize", [x, "", "", size], "resized", mode="linear", **corners)
    x = b.node("HardSwish", [x], "swish")
    x = b.node("Trilu", [x], "lower", upper=0)
    x = b.conv(x, "second", (8, 8, 3, 3))
    x = b.node("Sigmoid", [x], "gate")
    x = b.conv(x, "third", (8, 8, 3, 3))
    x = b.node("Sigmoid", [x], "score")
    b.node("Transpose", [x], "result", perm=[0, 2, 3, 1])
    return b.model([1, 3, 16, 16], {"result": 4}, opset=14)


def frames(count: int, seed: int = 0) -> Iterator[NDArray[np.uint8]]:
    """Yield smooth random pictures uint8[1, 16, 16, 3]."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        coarse = random.integers(0, 256, (1, 4, 4, 3))
        fine = np.repeat(np.repeat(coarse, 4, axis=1), 4, axis=2)
        yield np.clip(fine + random.integers(-20, 21, fine.shape), 0, 255).astype(np.uint8)


def build_small_bundle(folder: Path, board: str = "host", channels: int = 16) -> Path:
    """Build a network of two convolutions on 16x16 pixels: ARM stages and a VTA stage."""
    builder = Builder(3)
    features = builder.conv("image", "features", (channels, 3, 3, 3), pads=[1] * 4)
    relu = builder.node("Relu", [features], "relu")
    body = builder.conv(relu, "body", (channels, channels, 3, 3))
    (folder / "net.onnx").write_bytes(builder.model([1, 3, 16, 16], {body: 4}).SerializeToString())
    (folder / "net.toml").write_text(
        '[preprocess]\nwidth = 16\nheight = 16\norder = "BGR"\n'
        f"mean = {[*PREPROCESS.mean]}\nstd = {[*PREPROCESS.std]}\n"
        '[postprocess]\nkind = "none"\n'
    )
    frames = np.random.default_rng(1).integers(0, 256, (4, 16, 16, 3), dtype=np.uint8)
    np.savez(folder / "frames.npz", frames=frames)
    output = folder / "net.edgepipe"
    build_bundle(
        BuildOptions(
            model=folder / "net.onnx",
            board=boards.load(board),
            calibration=folder / "frames.npz",
            output=output,
        )
    )
    return output


def with_wrong_golden(bundle: Path, folder: Path) -> Path:
    """Write the bundle into ``folder`` with one wrong bit in its first golden output."""
    manifest = storage.read_manifest(bundle)
    contents = {entry.path: storage.read_file(bundle, entry) for entry in manifest.files}
    wrong = bytearray(contents[manifest.golden.outputs[0].file])
    wrong[5] ^= 1
    contents[manifest.golden.outputs[0].file] = bytes(wrong)
    storage.write(folder, contents, lambda files: replace(manifest, files=files))
    return folder


def unknown_to_the_importer() -> onnx.ModelProto:
    """One operator that ONNX knows and TVM's importer does not."""
    node = helper.make_node("Det", ["x"], ["y"])
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, 8, 8))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 3))],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

"""MobileNetV2 with torchvision's weights for ImageNet, written as torch's exporter writes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from edgepipe import scratch
from edgepipe.zoo.torch_weights import read_weights

Weights = Mapping[str, NDArray[Any]]

_EPSILON = 1e-5  # torch.nn.BatchNorm2d's
_MOST = 6.0  # ReLU6
# Expansion, channels, repeats and first stride of the blocks: table 2 of arXiv:1801.04381.
_BLOCKS = (
    *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)),
    *((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
)


def mobilenet_v2(content: bytes) -> bytes:
    """Return the ONNX file of the network with the weights in ``content``, a file of torch.

    Its input is float32[1, 3, 224, 224], its output "logits" float32[1, 1000]. Raises
    ``pickle.UnpicklingError`` for a file of another kind.
    """
    with scratch.folder("weights") as folder:
        path = folder / "mobilenet_v2.pth"
        path.write_bytes(content)
        made: bytes = network(read_weights(path)).SerializeToString()
    return made


MAKERS: Mapping[str, Callable[[bytes], bytes]] = {"mobilenet_v2": mobilenet_v2}
"""Functions that write a network from the file of its weights, by the names in the zoo."""


def network(weights: Weights) -> onnx.ModelProto:
    """Return the network with torchvision's state dictionary ``weights``."""
    graph = _Graph(weights)
    graph.constant("zero", np.float32(0))
    graph.constant("six", np.float32(_MOST))
    x = graph.relu6(graph.conv("input", "features.0.0", "features.0.1", stride=2))
    channels, index = 32, 1
    for expansion, wide, repeats, first_stride in _BLOCKS:
        for repeat in range(repeats):
            stride = first_stride if repeat == 0 else 1
            y, part = x, f"features.{index}.conv"
            inside = expansion * channels
            layers = [(inside, stride)] if expansion == 1 else [(1, 1), (inside, stride)]
            for number, (groups, step) in enumerate(layers):
                name = f"{part}.{number}"
                y = graph.conv(y, f"{name}.0", f"{name}.1", stride=step, groups=groups)
                y = graph.relu6(y)
            y = graph.conv(y, f"{part}.{len(layers)}", f"{part}.{len(layers) + 1}")
            x = graph.node("Add", [x, y], f"features.{index}") if stride == 1 and repeat else y
            channels, index = wide, index + 1
    x = graph.relu6(graph.conv(x, "features.18.0", "features.18.1"))
    x = graph.node("ReduceMean", [x], "mean", axes=[2, 3], keepdims=0)
    for name in ("classifier.1.weight", "classifier.1.bias"):
        graph.constant(name, weights[name])
    graph.node("Gemm", [x, "classifier.1.weight", "classifier.1.bias"], "logits", transB=1)
    return graph.model()


class _Graph:
    """Collects nodes and constants; batch normalisations are folded, as torch's exporter does."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []

    def constant(self, name: str, values: NDArray[Any] | np.float32) -> str:
        self._constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def node(self, kind: str, inputs: list[str], output: str, **attributes: object) -> str:
        self._nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def relu6(self, x: str) -> str:
        return self.node("Clip", [x, "zero", "six"], f"{x}.relu6")

    def conv(self, x: str, conv: str, norm: str, *, stride: int = 1, groups: int = 1) -> str:
        weight = self._weights[f"{conv}.weight"]
        size = weight.shape[2]
        part = {key: self._weights[f"{norm}.{key}"] for key in ("weight", "bias")}
        mean, variance = (self._weights[f"{norm}.running_{key}"] for key in ("mean", "var"))
        scale = part["weight"] / np.sqrt(variance + np.float32(_EPSILON))
        inputs = [
            x,
            self.constant(f"{conv}.w", weight * scale[:, None, None, None]),
            self.constant(f"{conv}.b", part["bias"] - mean * scale),
        ]
        return self.node(
            *("Conv", inputs, conv),
            kernel_shape=[size, size],
            pads=[size // 2] * 4,
            strides=[stride, stride],
            group=groups,
        )

    def model(self) -> onnx.ModelProto:
        def value(name: str, shape: list[int]) -> onnx.ValueInfoProto:
            return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

        picture, logits = value("input", [1, 3, 224, 224]), value("logits", [1, 1000])
        graph = helper.make_graph(self._nodes, "mobilenet_v2", [picture], [logits], self._constants)
        opsets = [helper.make_opsetid("", 13)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        onnx.checker.check_model(model)
        return model

"""Time and memory of `edgepipe build` on two cores: ResNet-18 at 224x224 and NanoDet-g.

The bundles are for the Ultra96, with all default options. ResNet-18's weights are synthetic. A
bundle counts only if its pipeline, run here, gives its golden outputs bit for bit.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from bench.figures import Figure, publish
from bench.models import EXAMPLES
from edgepipe.bundle import storage
from edgepipe.bundle.manifest import GoldenFile, Manifest, Tensor
from edgepipe.loading import load

CORES = 2
MOST_SECONDS = 30
MOST_MIB = 2048
DESCRIPTION = """\
[preprocess]
width = 224
height = 224
order = "RGB"
fit = "center_crop"
resize_short_side = 256
mean = [123.675, 116.28, 103.53]
std = [58.395, 57.12, 57.375]

[postprocess]
kind = "classify"
top = 5
"""


class _Graph:
    """Nodes and synthetic weights; each method returns its output's name."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self._rng = np.random.default_rng(18)

    def node(self, kind: str, *inputs: str, **attributes: object) -> str:
        output = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [output], **attributes))
        return output

    def weight(self, *shape: int) -> str:
        """Add a weight drawn by He initialisation."""
        deviation = np.sqrt(2 / np.prod(shape[1:]))
        values = self._rng.normal(0, deviation, shape).astype(np.float32)
        self.weights.append(numpy_helper.from_array(values, f"w{len(self.weights)}"))
        return str(self.weights[-1].name)

    def bias(self, channels: int) -> str:
        values = self._rng.normal(0, 0.1, channels).astype(np.float32)
        self.weights.append(numpy_helper.from_array(values, f"w{len(self.weights)}"))
        return str(self.weights[-1].name)

    def conv(self, source: str, inputs: int, outputs: int, kernel: int, stride: int = 1) -> str:
        return self.node(
            "Conv",
            source,
            self.weight(outputs, inputs, kernel, kernel),
            self.bias(outputs),
            kernel_shape=[kernel] * 2,
            strides=[stride] * 2,
            pads=[kernel // 2] * 4,
        )

    def block(self, source: str, inputs: int, outputs: int, stride: int) -> str:
        """Add a basic block: two 3x3 convolutions and a shortcut."""
        inner = self.node("Relu", self.conv(source, inputs, outputs, 3, stride))
        shortcut = source if inputs == outputs else self.conv(source, inputs, outputs, 1, stride)
        return self.node("Relu", self.node("Add", self.conv(inner, outputs, outputs, 3), shortcut))


def resnet18() -> onnx.ModelProto:
    """Return ResNet-18 for 224x224, batch normalisation folded: float32[1, 1000] out."""
    graph = _Graph()
    at = graph.node("Relu", graph.conv("image", 3, 64, 7, 2))
    at = graph.node("MaxPool", at, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    channels = 64
    for width, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        at = graph.block(graph.block(at, channels, width, stride), width, width, 1)
        channels = width
    at = graph.node("Flatten", graph.node("GlobalAveragePool", at))
    at = graph.node("Gemm", at, graph.weight(1000, 512), graph.bias(1000), transB=1)
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "resnet18",
            [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 224, 224])],
            [helper.make_tensor_value_info(at, TensorProto.FLOAT, [1, 1000])],
            graph.weights,
        ),
        opset_imports=[helper.make_opsetid("", 13)],
        ir_version=8,
    )
    onnx.checker.check_model(model)
    return model


def run_build(model: Path, bundle: Path) -> tuple[float, float]:
    """Run `edgepipe build`; return its seconds and its peak memory in MiB."""
    command = [sys.executable, "-m", "edgepipe", "build", model, "--board", "ultra96"]
    begin = time.perf_counter()
    process = subprocess.Popen([*command, "--calib", EXAMPLES / "calibration", "-o", bundle])
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begin
    if status:
        sys.exit(f"{model.name}: `edgepipe build` ended with {os.waitstatus_to_exitcode(status)}")
    return seconds, usage.ru_maxrss / 1024


def check_golden(bundle: Path) -> None:
    """Run a bundle on its golden input; end the program if any output bit differs."""
    manifest = storage.check(bundle)
    (frame,) = (_golden(bundle, manifest, found) for found in manifest.golden.inputs)
    with load(bundle) as pipeline:
        (result,) = pipeline.map([frame])
    for expected in manifest.golden.outputs:
        if (
            result.outputs[expected.tensor].tobytes()
            != _golden(bundle, manifest, expected).tobytes()
        ):
            sys.exit(f"{bundle.name}: {expected.tensor} differs from the golden output")


def _golden(bundle: Path, manifest: Manifest, golden: GoldenFile) -> np.ndarray:
    tensor: Tensor = manifest.tensor(golden.tensor)
    (entry,) = (file for file in manifest.files if file.path == golden.file)
    content = storage.read_file(bundle, entry)
    return np.frombuffer(content, tensor.dtype).reshape(tensor.shape)


def main() -> int:
    """Build both bundles; return 1 if a limit is missed."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    figures = []
    with tempfile.TemporaryDirectory() as folder:
        made_up = Path(folder) / "resnet18.onnx"
        onnx.save(resnet18(), made_up)
        made_up.with_suffix(".toml").write_text(DESCRIPTION)
        for model in (made_up, EXAMPLES / "nanodet_g_coco_416.onnx"):
            bundle = Path(folder) / f"{model.stem}.edgepipe"
            seconds, mebibytes = run_build(model, bundle)
            check_golden(bundle)
            figures += [
                Figure(name=f"{model.stem}: build", value=seconds, unit="s", at_most=MOST_SECONDS),
                Figure(
                    name=f"{model.stem}: peak memory",
                    value=mebibytes,
                    unit="MiB",
                    at_most=MOST_MIB,
                ),
            ]
    return publish("build", figures)


if __name__ == "__main__":
    sys.exit(main())

"""Time first convolutions on one core: edgepipe's kernels, TVM's default schedule, onnxruntime.

The shapes are those of first layers that run on ARM; weights are synthetic. All three start from
8-bit pixels and end with 8-bit features (a convolution, a bias, a shift or scale per channel,
ReLU). edgepipe's kernels and TVM's run the whole stage, from the camera's interleaved bytes through
the input table; onnxruntime runs a bare QLinearConv (uint8 x int8) on planes. edgepipe and
onnxruntime each use their best kernels for this processor. Before anything is timed, edgepipe's
outputs must equal stock TVM's bit for bit, and onnxruntime's features must agree within one step,
because it rounds differently.

edgepipe's kernels also run on two threads, pinned to two cores. One thread reads data that the
other has staged, so the distance between the cores matters most in a short layer. The limit applies
to the longer layer.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from bench.figures import Figure, publish
from bench.models import LackingError
from edgepipe.codegen.arm.layouts import Blocks
from edgepipe.codegen.arm.stage import compile_arm_stage
from edgepipe.quantize.normal_forms import write_input_table, write_layer
from edgepipe.runtime.arm_stage import ArmStage
from edgepipe.tvm_adapter import CompiledModule, IRModule, ModuleBuilder
from vta_stages.accelerator import Accelerator
from vta_stages.isa.layout import unpack_activation
from vta_stages.layers.records import Conv, Epilogue, TensorSpec

ROUNDS = 15
RUNS = 5  # of each kernel in a round
BLOCK = 16  # channels of the layout that the VTA stage reads


@dataclass(frozen=True, slots=True)
class Stem:
    """A first convolution: a square picture of three channels, a square kernel."""

    name: str
    extent: int
    channels: int
    kernel: int
    stride: int
    pad: int
    least_speed_up: float | None = None  # on two cores

    @property
    def out_extent(self) -> int:
        """Height and width of the features."""
        return (self.extent + 2 * self.pad - self.kernel) // self.stride + 1

    def layer(self) -> Conv:
        """Return the layer with synthetic weights that use the full range of int8."""
        rng = np.random.default_rng(self.channels)
        bias = rng.integers(-4000, 4000, self.channels)
        shift = rng.integers(8, 11, self.channels)
        return Conv(
            name="features",
            input=TensorSpec(name="image", channels=3, height=self.extent, width=self.extent),
            output=TensorSpec(
                name="features",
                channels=self.channels,
                height=self.out_extent,
                width=self.out_extent,
            ),
            weight=rng.integers(-127, 128, (self.channels, 3, self.kernel, self.kernel), np.int8),
            epilogue=Epilogue(
                bias=(bias + (1 << (shift - 1))).astype(np.int32),
                shift=shift.astype(np.int32),
                low=0,
                high=127,
            ),
            stride=(self.stride, self.stride),
            padding=(self.pad,) * 4,
        )


STEMS = (
    Stem("ResNet-18 stem, 7x7/2 at 224x224", 224, 64, 7, 2, 3, least_speed_up=0.85 * 2),
    Stem("NanoDet-g stem, 3x3/2 at 416x416", 416, 32, 3, 2, 1),
)


def relax_stage(layer: Conv) -> IRModule:
    """Return the stage: bytes to int8 through a table that halves them, then the layer."""
    builder = ModuleBuilder()
    builder.param("frame", (1, layer.input.height, layer.input.width, 3), "uint8")
    table = np.repeat((np.arange(256) // 2).astype(np.int8)[None], 3, axis=0)
    write_input_table(builder, "image", "frame", table)
    write_layer(builder, layer)
    return builder.finish(["features"])


def onnx_model(layer: Conv) -> bytes:
    """Return the layer as a model with one QLinearConv: uint8 in, uint8 out."""
    epilogue = layer.epilogue
    half = np.where(epilogue.shift > 0, 1 << (epilogue.shift - 1), 0)
    constants = {
        "one": np.float32(1),
        "zero": np.uint8(0),
        "weight": layer.weight,
        "weight_scale": (2.0**-epilogue.shift).astype(np.float32),
        "weight_zero": np.zeros(layer.output.channels, np.int8),
        "bias": (epilogue.bias - half).astype(np.int32),
    }
    node = helper.make_node(
        "QLinearConv",
        ["image", "one", "zero", "weight", "weight_scale", "weight_zero", "one", "zero", "bias"],
        ["features"],
        kernel_shape=layer.weight.shape[2:],
        strides=layer.stride,
        pads=layer.padding,
    )
    graph = helper.make_graph(
        [node],
        "stem",
        [helper.make_tensor_value_info("image", TensorProto.UINT8, _shape(layer.input))],
        [helper.make_tensor_value_info("features", TensorProto.UINT8, _shape(layer.output))],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def onnx_session(layer: Conv) -> onnxruntime.InferenceSession:
    """Return a session of one thread with the layer as QLinearConv: uint8 in, uint8 out."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(
        onnx_model(layer), options, providers=["CPUExecutionProvider"]
    )


def _shape(spec: TensorSpec) -> tuple[int, int, int, int]:
    return (1, spec.channels, spec.height, spec.width)


def bound(session: onnxruntime.InferenceSession, image: NDArray[np.uint8]) -> Callable[[], None]:
    """Return a function that runs the session on fixed buffers, without copies."""
    binding = session.io_binding()
    binding.bind_ortvalue_input("image", onnxruntime.OrtValue.ortvalue_from_numpy(image))
    binding.bind_output("features")
    session.run_with_iobinding(binding)
    outputs = binding.get_outputs()
    binding.bind_ortvalue_output("features", outputs[0])
    return lambda: session.run_with_iobinding(binding)


@contextmanager
def first_core() -> Iterator[None]:
    """Pin this thread to the first of the process's cores; a stage's helper gets the second."""
    cores = os.sched_getaffinity(0)
    if len(cores) < 2:
        raise LackingError("a second core is missing")
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def fastest(ways: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Time the kernels alternately in rounds; return the fastest run of each in milliseconds.

    Other processes can only slow a run down, so the fastest run is the least disturbed one.
    """
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, call in ways.items():
            for _ in range(RUNS):
                start = time.perf_counter()
                call()
                times[name].append(1000 * (time.perf_counter() - start))
    return {name: min(found) for name, found in times.items()}


def measure(stem: Stem, folder: Path) -> list[Figure]:
    """Return a stem's figures; end the program if results differ."""
    layer = stem.layer()
    module = relax_stage(layer)
    frame = np.random.default_rng(1).integers(0, 256, (1, stem.extent, stem.extent, 3), np.uint8)
    stock = CompiledModule(module)
    expected = stock.run({"frame": frame})["features"]
    blocks = {"features": Blocks(block=BLOCK)}
    compile_arm_stage(module, arches=("x86_64",), output_layouts=blocks).write(folder)
    image = np.ascontiguousarray(frame.transpose(0, 3, 1, 2) // 2)
    session = onnx_session(layer)
    (theirs,) = session.run(None, {"image": image})
    steps = np.abs(np.minimum(theirs, 127).astype(int) - expected).max()
    if steps > 1:
        sys.exit(f"{stem.name}: onnxruntime's features differ by {steps} steps")
    with ArmStage(folder) as stage, ArmStage(folder, threads=2) as shared, first_core():
        for found in (stage.run({"frame": frame}), shared.run({"frame": frame})):
            ours = unpack_activation(Accelerator(), found["features"], stem.channels)
            if not np.array_equal(ours, expected):
                sys.exit(f"{stem.name}: our features differ from stock TVM's")
        ms = fastest(
            {
                "edgepipe": stage.run_bound,
                "edgepipe on two cores": shared.run_bound,
                "TVM, default schedule": lambda: stock.run({"frame": frame}),
                "onnxruntime int8, one thread": bound(session, image),
            }
        )
    ratio = ms["edgepipe"] / ms["onnxruntime int8, one thread"]
    return [
        *(Figure(name=f"{stem.name}: {way}", value=value, unit="ms") for way, value in ms.items()),
        Figure(name=f"{stem.name}: edgepipe / onnxruntime", value=ratio, unit="x", at_most=1.0),
        Figure(
            name=f"{stem.name}: speed-up on two cores",
            value=ms["edgepipe"] / ms["edgepipe on two cores"],
            unit="x",
            at_least=stem.least_speed_up,
        ),
    ]


def main() -> int:
    """Measure every stem; return 1 if a limit is missed."""
    found = []
    with tempfile.TemporaryDirectory() as scratch:
        for number, stem in enumerate(STEMS):
            found += measure(stem, Path(scratch) / str(number))
    return publish("arm", found)


if __name__ == "__main__":
    sys.exit(main())

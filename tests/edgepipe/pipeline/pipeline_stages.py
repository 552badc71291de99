"""Small real stages for the tests of pipelines: Relax modules, Python and C functions."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.pipeline import PipelineConfig, Stage, python_stage, relax_stage
from edgepipe.quantize.normal_forms import write_layer
from edgepipe.runtime.pipeline import Pipeline
from edgepipe.tvm_adapter import IRModule, ModuleBuilder
from vta_stages.layers.records import Conv, Epilogue, TensorSpec

Array = NDArray[Any]
Start = Callable[..., Pipeline]  # the type of the fixture `start`
SHAPE = (1, 8)
VECTOR = ("int32", SHAPE)
ROOT = Path(__file__).resolve().parents[3]
INCLUDE = ROOT / "cpp_runtime" / "include"


def vector(number: int) -> Array:
    """Return int32[1, 8]: number, number + 1, ..."""
    return np.arange(number, number + 8, dtype=np.int32).reshape(SHAPE)


def two_outputs() -> IRModule:
    """out0 = x + 1, out1 = x * 2."""
    builder = ModuleBuilder()
    builder.param("x", SHAPE, "int32")
    builder.emit("out0", "add", "x", np.int32([[1]]))
    builder.emit("out1", "multiply", "x", np.int32([[2]]))
    return builder.finish(["out0", "out1"])


def difference() -> IRModule:
    """out = 3 * a - b: swapping the inputs changes the result."""
    builder = ModuleBuilder()
    builder.param("a", SHAPE, "int32")
    builder.param("b", SHAPE, "int32")
    builder.emit("tripled", "multiply", "a", np.int32([[3]]))
    builder.emit("out", "subtract", "tripled", "b")
    return builder.finish(["out"])


def scaled() -> IRModule:
    """out = x * factor + offset; both are parameters."""
    builder = ModuleBuilder()
    builder.param("x", SHAPE, "int32")
    builder.param("factor", (1, 1), "int32")
    builder.param("offset", (1, 1), "int32")
    builder.emit("product", "multiply", "x", "factor")
    builder.emit("out", "add", "product", "offset")
    return builder.finish(["out"])


def scalar(number: int) -> Array:
    """Return int32[1, 1]."""
    return np.array([[number]], np.int32)


def scaled_stage(name: str = "scaled") -> Stage:
    """out = x * 2 + 0, with both parameters replaceable."""
    return relax_stage(scaled(), name=name, parameters={"factor": scalar(2), "offset": scalar(0)})


def add_ten(x: Array) -> Array:
    """A function that another process can import."""
    return x + np.int32(10)


def adder(name: str = "adder", number: int = 1) -> Stage:
    """A Python stage: out = x + number."""
    return python_stage(
        lambda x: x + np.int32(number), name=name, inputs={"x": VECTOR}, outputs={"out": VECTOR}
    )


def chain(*stages: Stage) -> PipelineConfig:
    """data -> each stage's x, its output 0 -> the next -> pipeline output."""
    config = PipelineConfig()
    config.inputs["data"] = (stages[0], "x")
    for before, after in itertools.pairwise(stages):
        config.connect(before, 0, after, "x")
    config.outputs.append((stages[-1], 0))
    return config


class GatedStage:
    """Passes its input on, but only once ``gate`` is open."""

    def __init__(self, name: str = "gated") -> None:
        self.gate = threading.Event()
        self.reached = threading.Event()
        self.stage = python_stage(
            self._run, name=name, inputs={"x": VECTOR}, outputs={"out": VECTOR}
        )

    def _run(self, x: Array) -> Array:
        self.reached.set()
        assert self.gate.wait(30)
        return x


C_SOURCE = r"""
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include "edgepipe/stage_function.h"

extern "C" int negate(void*, const EpStageBuffer* inputs, uint32_t, const EpStageBuffer* outputs,
                      uint32_t, char* error, uint64_t error_bytes) {
  const auto* x = reinterpret_cast<const int32_t*>(inputs[0].data);
  auto* out = reinterpret_cast<int32_t*>(outputs[0].data);
  for (uint64_t i = 0; i < inputs[0].bytes / 4; ++i) {
    if (x[i] == 13) {
      std::snprintf(error, error_bytes, "13 at element %d", static_cast<int>(i));
      return 1;
    }
    if (x[i] == 666) throw std::runtime_error("the number of the beast");
    out[i] = -x[i];
  }
  return 0;
}
"""


def build_library(folder: Path) -> Path:
    """Compile the C++ function ``negate`` into a shared library."""
    source, library = folder / "negate.cc", folder / "libnegate.so"
    source.write_text(C_SOURCE)
    subprocess.run(
        ["c++", "-std=c++20", "-shared", "-fPIC", f"-I{INCLUDE}", "-o", library, source], check=True
    )
    return library


def convolution() -> tuple[Any, Array]:
    """Return a convolution of int8[1, 4, 4, 4], module and picture; x -> conv."""
    rng = np.random.default_rng(4)
    conv = Conv(
        name="conv",
        input=TensorSpec(name="x", channels=4, height=4, width=4),
        output=TensorSpec(name="conv", channels=4, height=4, width=4),
        weight=rng.integers(-9, 9, (4, 4, 3, 3)).astype(np.int8),
        epilogue=Epilogue(
            bias=np.arange(4, dtype=np.int32),
            shift=np.full(4, 4, np.int32),
            low=-128,
            high=127,
        ),
        stride=(1, 1),
        padding=(1, 1, 1, 1),
    )
    builder = ModuleBuilder()
    builder.param("x", (1, 4, 4, 4), "int8")
    write_layer(builder, conv)
    return builder.finish(["conv"]), rng.integers(-128, 128, (1, 4, 4, 4)).astype(np.int8)


def printed_by_another_process(program: str, exported: Path) -> str:
    """Run a Python program with the folder of an exported pipeline; return what it prints."""
    paths = [str(ROOT), str(Path(__file__).parent)]
    found = subprocess.run(
        [sys.executable, "-c", program, str(exported)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stderr
    return found.stdout

"""Small real bundles for the pipeline's tests: an ARM, a VTA and a second ARM stage."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgepipe import __version__
from edgepipe.bundle import storage
from edgepipe.bundle.manifest import (
    FORMAT,
    Fingerprint,
    Golden,
    GoldenFile,
    Manifest,
    Stage,
    Tensor,
    tensor_bytes,
)
from edgepipe.codegen.arm.layouts import Blocks
from edgepipe.codegen.arm.stage import compile_arm_stage
from edgepipe.description import Postprocess
from edgepipe.frontend.preprocess import Preprocess
from edgepipe.quantize.normal_forms import write_dequantize, write_input_table, write_layer
from edgepipe.tvm_adapter import IRModule, ModuleBuilder, run_module
from vta_stages.accelerator import Accelerator
from vta_stages.compiler import compile_program
from vta_stages.layers.records import Conv, Epilogue, TensorSpec
from vta_stages.layers.reference import run_layers

ACCELERATOR = Accelerator()
SIZE = 16
CLASSES = 5
LABELS = ("ant", "bee", "cat", "dog", "eel")
ARCHITECTURES = ("x86_64", "aarch64")
Files = dict[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """The stages' sources, which are also the reference."""

    first: IRModule  # frame uint8[1, 16, 16, 3] -> features int8[1, 20, 8, 8]
    body: Conv  # -> body int8[1, 5, 1, 1]
    last: IRModule  # -> scores float32[1, 5]

    def run(self, frame: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return the scores as stock TVM and the numpy reference compute them."""
        features = run_module(self.first, {"frame": frame})["features"]
        body = run_layers([self.body], {"features": features[0]})["body"]
        scores: NDArray[np.float32] = run_module(self.last, {"body": body[None]})["scores"]
        return scores


def _conv(
    rng: np.random.Generator, source: TensorSpec, output: TensorSpec, kernel: int, stride: int
) -> Conv:
    shape = (output.channels, source.channels, kernel, kernel)
    shift = 6 + int(np.log2(source.channels * kernel * kernel)) // 2
    return Conv(
        name=output.name,
        input=source,
        output=output,
        weight=rng.integers(-128, 128, shape).astype(np.int8),
        epilogue=Epilogue(
            bias=rng.integers(-1000, 1000, output.channels).astype(np.int32),
            shift=np.full(output.channels, shift, np.int32),
            low=-128,
            high=127,
        ),
        stride=(stride, stride),
        padding=(1, 1, 1, 1) if kernel == 3 else (0, 0, 0, 0),
    )


def make_network(seed: int = 1) -> Network:
    """Return a network with random weights."""
    rng = np.random.default_rng(seed)
    pixels = TensorSpec(name="pixels", channels=3, height=SIZE, width=SIZE)
    features = TensorSpec(name="features", channels=20, height=SIZE // 2, width=SIZE // 2)
    body = TensorSpec(name="body", channels=CLASSES, height=1, width=1)
    first = ModuleBuilder()
    first.param("frame", (1, SIZE, SIZE, 3), "uint8")
    table = rng.integers(-128, 128, (3, 256)).astype(np.int8)
    write_input_table(first, "pixels", "frame", table)
    write_layer(first, _conv(rng, pixels, features, 3, 2))
    last = ModuleBuilder()
    last.param("body", (1, CLASSES, 1, 1), "int8")
    write_dequantize(last, "scores", "body", np.array([0.125], np.float32), reshape=(1, CLASSES))
    return Network(
        first=first.finish(["features"]),
        body=_conv(rng, features, body, SIZE // 2, 1),
        last=last.finish(["scores"]),
    )


def frames(count: int, seed: int = 2) -> list[NDArray[np.uint8]]:
    """Return random frames uint8[1, 16, 16, 3]."""
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 256, (1, SIZE, SIZE, 3)).astype(np.uint8) for _ in range(count)]


def tensor(name: str, dtype: str, shape: tuple[int, ...], layout: str = "nchw") -> Tensor:
    count = tensor_bytes(shape, dtype, layout, ACCELERATOR)
    return Tensor(name=name, dtype=dtype, shape=shape, layout=layout, bytes=count)


BODY_CYCLES = ACCELERATOR.clock_hz // 100
"""The manifest's time of the second stage, 10 ms; only timed runs use it."""


def compile_files(network: Network, architectures: Sequence[str] = ARCHITECTURES) -> Files:
    """Compile the three stages; return the bundle's files without the golden ones."""
    blocks = Blocks(block=ACCELERATOR.block_in)
    files = {}
    first = compile_arm_stage(
        network.first, output_layouts={"features": blocks}, arches=architectures
    )
    last = compile_arm_stage(network.last, input_layouts={"body": blocks}, arches=architectures)
    files |= {f"stages/0_arm/{name}": content for name, content in first.files.items()}
    files |= {f"stages/2_arm/{name}": content for name, content in last.files.items()}
    with tempfile.TemporaryDirectory() as folder:
        program = compile_program(ACCELERATOR, [network.body], ["features"], ["body"])
        dataclasses.replace(program, modelled_cycles=BODY_CYCLES).save(Path(folder))
        files |= {f"stages/1_vta/{path.name}": path.read_bytes() for path in Path(folder).iterdir()}
    return files | {"labels.txt": "\n".join(LABELS).encode() + b"\n"}


def compile_fallback(network: Network) -> Files:
    """Compile the VTA stage as ARM kernels: the files of its fallback."""
    blocks = Blocks(block=ACCELERATOR.block_in)
    body = ModuleBuilder()
    body.param("features", (1, 20, SIZE // 2, SIZE // 2), "int8")
    write_layer(body, network.body)
    compiled = compile_arm_stage(
        body.finish(["body"]), input_layouts={"features": blocks}, output_layouts={"body": blocks}
    )
    return {f"{FALLBACK}/{name}": content for name, content in compiled.files.items()}


FALLBACK = "stages/1_fallback"
TENSORS = (
    tensor("frame", "uint8", (1, SIZE, SIZE, 3), "nhwc"),
    tensor("features", "int8", (1, 20, SIZE // 2, SIZE // 2), "vta"),
    tensor("body", "int8", (1, CLASSES, 1, 1), "vta"),
    tensor("scores", "float32", (1, CLASSES)),
)
STAGES = (
    Stage(name="stem", kind="arm", folder="stages/0_arm", inputs=("frame",), outputs=("features",)),
    Stage(name="body", kind="vta", folder="stages/1_vta", inputs=("features",), outputs=("body",)),
    Stage(name="head", kind="arm", folder="stages/2_arm", inputs=("body",), outputs=("scores",)),
)
CLASSIFY = Postprocess(kind="classify", labels="labels.txt", top=3)


def write_bundle(
    path: Path,
    files: Mapping[str, bytes],
    golden: Mapping[str, NDArray[np.generic]],
    *,
    tensors: Sequence[Tensor] = TENSORS,
    inputs: Sequence[str] = ("frame",),
    postprocess: Postprocess = CLASSIFY,
    size: int = SIZE,
    preprocess: Preprocess | None = None,
    slots: int = 0,
    architectures: Sequence[str] = ARCHITECTURES,
) -> Path:
    """Write a bundle of STAGES; ``golden`` holds arrays by tensor name, inputs among them.

    If ``files`` includes those of ``compile_fallback``, the VTA stage has its fallback.
    """
    has_fallback = any(name.startswith(FALLBACK) for name in files)
    stages = [
        replace(stage, fallback=FALLBACK) if has_fallback and stage.kind == "vta" else stage
        for stage in STAGES
    ]
    contents = dict(files) | {
        f"golden/{name}.bin": np.ascontiguousarray(array).tobytes()
        for name, array in golden.items()
    }
    recorded = [GoldenFile(tensor=name, file=f"golden/{name}.bin") for name in golden]
    storage.write(
        path,
        contents,
        lambda entries: Manifest(
            format=FORMAT,
            name="tiny",
            board="host",
            architectures=tuple(architectures),
            accelerator=ACCELERATOR,
            fingerprint=Fingerprint.of(ACCELERATOR, bitstream="", builder_version=__version__),
            tensors=tuple(tensors),
            inputs=tuple(inputs),
            outputs=("scores",),
            stages=tuple(stages),
            slots=slots,
            placement=(),
            preprocess=preprocess
            or Preprocess(width=size, height=size, order="BGR", mean=(0.0,) * 3, std=(1.0,) * 3),
            postprocess=postprocess,
            golden=Golden(
                inputs=tuple(g for g in recorded if g.tensor in inputs),
                outputs=tuple(g for g in recorded if g.tensor not in inputs),
            ),
            files=entries,
        ),
    )
    return path

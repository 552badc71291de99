"""Build a network and compare its pipeline with integer Relax, bit by bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

from edgepipe import boards
from edgepipe.bundle import storage
from edgepipe.bundle.manifest import Manifest
from edgepipe.errors import EdgepipeError
from edgepipe.frontend.network import load_network
from edgepipe.loading import load
from edgepipe.recipe import BuildOptions, build_bundle
from edgepipe.tvm_adapter import run_module

BOARD = boards.load("ultra96")


def frames(height: int, width: int, channels: int = 3) -> NDArray[np.uint8]:
    """Return smooth random pictures uint8[3, height, width, channels]."""
    random = np.random.default_rng(0)
    coarse = random.integers(0, 256, (3, -(-height // 8), -(-width // 8), channels))
    fine = coarse.repeat(8, axis=1).repeat(8, axis=2)[:, :height, :width]
    return np.clip(fine + random.integers(-20, 21, fine.shape), 0, 255).astype(np.uint8)


def options(
    folder: Path,
    model: Path,
    height: int,
    width: int,
    channels: int = 3,
    *,
    reads_bytes: bool = False,
) -> BuildOptions:
    """Describe the network at ``model`` in ``folder`` and return the options to build it there.

    One that does not read bytes sees values around zero.
    """
    order = {1: "GRAY", 3: "BGR"}[channels]
    mean, std = (0.0, 1.0) if reads_bytes else (120.0, 60.0)
    numbers = f"mean = {[mean] * channels}\nstd = {[std] * channels}\n"
    text = f'[preprocess]\nwidth = {width}\nheight = {height}\norder = "{order}"\n{numbers}'
    (folder / "net.toml").write_text(text)
    np.savez(folder / "frames.npz", frames(height, width, channels))
    return BuildOptions(
        model=model,
        board=BOARD,
        calibration=folder / "frames.npz",
        output=folder / "net.edgepipe",
        description=folder / "net.toml",
        depthwise="vta",
    )


def build_exactly(given: BuildOptions) -> Manifest:
    """Build a bundle and run its golden frame; raise AssertionError if the bits differ."""
    manifest = build_bundle(given)
    entries = {entry.path: entry for entry in manifest.files}
    (golden,) = manifest.golden.inputs
    shape = manifest.tensor(golden.tensor).shape
    frame = np.frombuffer(storage.read_file(given.output, entries[golden.file]), np.uint8)
    with load(given.output) as pipeline:
        outputs = pipeline.submit(frame.reshape(shape)).result().outputs
    for wanted in manifest.golden.outputs:
        expected = storage.read_file(given.output, entries[wanted.file])
        assert outputs[wanted.tensor].tobytes() == expected, f"{wanted.tensor} has other bits"
    return manifest


def channels_of(model: onnx.ModelProto) -> int:
    """Return the channels of a random network's pictures; 3 if damage hides them."""
    inputs = model.graph.input[:1]
    sizes = [dim.dim_value for value in inputs for dim in value.type.tensor_type.shape.dim]
    return 1 if len(sizes) == 4 and 1 in sizes[1:] else 3


def outcome(model: onnx.ModelProto, folder: Path, size: int) -> str:
    """Build a network for pictures of ``size``; return "exact" or the error in one line.

    Raises AssertionError if the bits differ, the float network that was imported computes other
    values than onnxruntime, an error has several lines, or a refused network leaves a bundle
    behind; and whatever else a build lets through.
    """
    path = folder / "net.onnx"
    path.write_bytes(model.SerializeToString())
    given = options(folder, path, size, size, channels_of(model))
    given.output.unlink(missing_ok=True)
    try:
        build_exactly(given)
    except EdgepipeError as error:
        assert "\n" not in str(error), error
        assert not given.output.exists()
        return f"{type(error).__name__}: {error}".replace(str(folder), "")
    require_same_values(path, (channels_of(model), size, size))
    return "exact"


def require_same_values(path: Path, picture: tuple[int, int, int]) -> None:
    """Raise AssertionError if Relax over float32 differs from onnxruntime on the file as it is.

    ``picture`` are the channels, height and width of a network whose own are dynamic. Nothing is
    compared if onnxruntime refuses a file that edgepipe repairs: mixed float types, a batch of
    several pictures.
    """
    network = load_network(path, picture)
    values = np.random.default_rng(0).normal(0, 1, network.input_shape).astype(np.float32)
    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(
            path.read_bytes(), quiet, providers=["CPUExecutionProvider"], enable_fallback=0
        )
        shape = session.get_inputs()[0].shape
        is_last = shape[-1] == network.input_shape[1] != shape[1]
        given = np.ascontiguousarray(np.moveaxis(values, 1, 3)) if is_last else values
        expected = session.run(None, {session.get_inputs()[0].name: given})
    except Exception:  # onnxruntime's exceptions have no common base
        return
    found = run_module(network.module, {network.input_name: values}).values()
    for one, other in zip(found, expected, strict=True):
        size = float(np.abs(other[np.isfinite(other)]).max(initial=0))
        assert one.shape == other.shape, f"{one.shape} for {other.shape}"
        assert np.allclose(one, other, rtol=0.01, atol=1e-3 * (1 + size), equal_nan=True)

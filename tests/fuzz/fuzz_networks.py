"""Build random and damaged networks: each must build exactly or be refused in one line.

    .venv/bin/python tests/fuzz/fuzz_networks.py COUNT [FIRST_SEED]

Of every three seeds, one is a random network and two are damaged ones. A finding is written with
its seed; the exit code is 1 if there was one.
"""

from __future__ import annotations

import collections
import sys
import tempfile
import time
import traceback
from pathlib import Path

import numpy as np
import onnx

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from exported_networks.random import SIZE, damaged, random_network

from edgepipe import boards
from edgepipe.bundle import storage
from edgepipe.errors import EdgepipeError
from edgepipe.loading import load
from edgepipe.recipe import BuildOptions, build_bundle

DESCRIPTION = f"""
[preprocess]
width = {SIZE}
height = {SIZE}
order = "BGR"
mean = [120.0, 120.0, 120.0]
std = [60.0, 60.0, 60.0]
"""


def network(seed: int) -> onnx.ModelProto:
    """Return the network of a seed."""
    model = random_network(seed // 3)
    return damaged(model, seed) if seed % 3 else model


def outcome(model: onnx.ModelProto, folder: Path, board: str = "ultra96") -> str:
    """Build ``model`` and run its golden frame; return "exact" or the error's text.

    Raises AssertionError if the pipeline's bits are not those of integer Relax, or if an error has
    several lines, and whatever else a build lets through.
    """
    (folder / "net.onnx").write_bytes(model.SerializeToString())
    (folder / "net.toml").write_text(DESCRIPTION)
    coarse = np.random.default_rng(1).integers(0, 256, (2, SIZE // 4, SIZE // 4, 3), np.uint8)
    np.savez(folder / "frames.npz", coarse.repeat(4, axis=1).repeat(4, axis=2))
    bundle = folder / "net.edgepipe"
    bundle.unlink(missing_ok=True)
    options = BuildOptions(
        model=folder / "net.onnx",
        board=boards.load(board),
        calibration=folder / "frames.npz",
        output=bundle,
    )
    try:
        manifest = build_bundle(options)
    except EdgepipeError as error:
        assert "\n" not in str(error), error
        assert not bundle.exists()
        return f"{type(error).__name__}: {error}".replace(str(folder), "")
    entries = {entry.path: entry for entry in manifest.files}
    (given,) = manifest.golden.inputs
    (tensor,) = (t for t in manifest.tensors if t.name == given.tensor)
    frame = np.frombuffer(storage.read_file(bundle, entries[given.file]), np.uint8)
    with load(bundle) as pipeline:
        outputs = pipeline.submit(frame.reshape(tensor.shape)).result().outputs
    for wanted in manifest.golden.outputs:
        expected = storage.read_file(bundle, entries[wanted.file])
        assert outputs[wanted.tensor].tobytes() == expected, f"{wanted.tensor} has other bits"
    return "exact"


def main() -> int:
    """Run the seeds that the command line names."""
    count, first = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    kinds: collections.Counter[str] = collections.Counter()
    findings = 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        for seed in range(first, first + count):
            try:
                found = outcome(network(seed), Path(name))
            except Exception:
                findings += 1
                print(f"seed {seed}:\n{traceback.format_exc()}", flush=True)  # noqa: T201
                continue
            kinds[found if found == "exact" else "refused"] += 1
            if seed % 3 == 0 and found != "exact":
                print(f"seed {seed} is a real network: {found}", flush=True)  # noqa: T201
    text = ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items()))
    took = time.monotonic() - began
    print(f"{count} networks: {text}, {findings} findings in {took:.0f} s")  # noqa: T201
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())

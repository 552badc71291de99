"""Bundles and runs that the tests of reports share."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import small_networks

from edgepipe import boards
from edgepipe.bundle import storage
from edgepipe.bundle.manifest import Manifest
from edgepipe.bundle.network import FILE
from edgepipe.recipe import BuildOptions, build_bundle

DURATION = dict.fromkeys(("min_ms", "median_ms", "p95_ms", "p99_ms", "max_ms", "mean_ms"), 1.0)


def branches() -> onnx.ModelProto:
    """Return a convolution with a pooling, and a concatenation that two outputs read."""
    b = small_networks.Builder(7)
    x = b.conv("image", "stem", (16, 3, 3, 3), pads=[1] * 4)
    x = b.conv(b.node("Relu", [x], "stem/relu"), "body", (32, 16, 3, 3), pads=[1] * 4)
    x = b.node(
        "MaxPool", [b.node("Relu", [x], "body/relu")], "pool", kernel_shape=[2, 2], strides=[2, 2]
    )
    left = b.conv(x, "left", (16, 32, 1, 1))
    right = b.conv(x, "right", (16, 32, 3, 3), pads=[1] * 4)
    x = b.node("Concat", [left, right], "joined", axis=1)
    b.conv(x, "boxes", (8, 32, 1, 1))
    b.conv(x, "scores", (4, 32, 1, 1))
    return b.model([1, 3, 16, 16], {"boxes": 4, "scores": 4})


def build(folder: Path, model: onnx.ModelProto, **options: Any) -> Path:
    """Build a network on 16x16 pixels for the Ultra96, by default with a split by rule."""
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(model, folder / "net.onnx")
    description = small_networks.DESCRIPTION.replace('"classify"', '"none"')
    (folder / "net.toml").write_text(description)
    frames = np.concatenate(list(small_networks.frames(4)))
    np.savez(folder / "frames.npz", frames=frames)
    build_bundle(
        BuildOptions(
            model=folder / "net.onnx",
            board=boards.load("ultra96"),
            calibration=folder / "frames.npz",
            output=folder / "net.edgepipe",
            **{"objective": "rule", **options},
        )
    )
    return folder / "net.edgepipe"


def changed(
    bundle: Path,
    path: Path,
    change: Callable[[dict[str, Any]], object] = lambda _: None,
    manifest: Callable[[Manifest], Manifest] = lambda same: same,
    files: Mapping[str, bytes | None] | None = None,
) -> Path:
    """Write the bundle to ``path`` with its record, manifest or files changed (None: left out)."""
    found = storage.read_manifest(bundle)
    contents: dict[str, bytes | None] = {
        entry.path: storage.read_file(bundle, entry) for entry in found.files
    }
    record = json.loads(contents[FILE] or b"")
    change(record)
    contents[FILE] = json.dumps(record).encode()
    contents |= files or {}
    kept = {name: content for name, content in contents.items() if content is not None}
    storage.write(path, kept, lambda entries: dataclasses.replace(manifest(found), files=entries))
    return path


def statistics(stages: Mapping[str, float], **changes: Any) -> dict[str, Any]:
    """Return statistics as a pipeline writes them, given the stages' mean times in ms."""
    return {
        "submitted": 50,
        "delivered": 50,
        "dropped": 0,
        "failed": 0,
        "in_flight": 0,
        "slots": 4,
        "latency": {"count": 50, **DURATION},
        "elapsed_s": 1.0,
        "frames_per_second": 49.5,
        "stages": [
            {
                "name": name,
                "cores": [0],
                "busy": {"count": 50, **DURATION, "mean_ms": ms},
                "utilisation": 0.5,
                "waiting": 0,
                "hangs": 0,
                "retries": 0,
                "fallback_frames": 0,
                "fault": "",
            }
            for name, ms in stages.items()
        ],
        **changes,
    }


def trace(stages: Mapping[str, float], frames: int = 20, first: int = 0) -> dict[str, Any]:
    """Return a trace as a pipeline writes it: a thread for each stage, given their times in ms.

    Every stage starts a frame as soon as the stage before it has finished it. The first frame has
    the number ``first``; filling a frame takes 0.5 ms.
    """
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "edgepipe pipeline"}}
    ]
    names = ["source", *(f"stage thread {name}" for name in stages)]
    for thread, name in enumerate(names, 1):
        events.append(
            {"ph": "M", "name": "thread_name", "pid": 1, "tid": thread, "args": {"name": name}}
        )
    free = dict.fromkeys(stages, 0.0)
    for frame in range(first, first + frames):
        begin = min(free.values())
        events.append(_slice(1, "fill", frame, begin, 0.5))
        ready = begin + 0.5
        for thread, (name, ms) in enumerate(stages.items(), 2):
            start = max(ready, free[name])
            events.append(_slice(thread, name, frame, start, ms))
            ready = free[name] = start + ms
        events.append({"ph": "C", "pid": 1, "tid": 0, "ts": 1e3 * ready, "name": "waiting"})
    return {"displayTimeUnit": "ms", "otherData": {"frames": frames}, "traceEvents": events}


def _slice(thread: int, name: str, frame: int, begin_ms: float, ms: float) -> dict[str, Any]:
    return {
        "ph": "X",
        "pid": 1,
        "tid": thread,
        "ts": 1e3 * begin_ms,
        "name": name,
        "cat": "stage",
        "dur": 1e3 * ms,
        "args": {"frame": frame},
    }

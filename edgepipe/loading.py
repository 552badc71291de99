"""``edgepipe.load``: run a bundle or an exported pipeline."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from edgepipe.bundle import storage
from edgepipe.errors import PipelineError
from edgepipe.fitting import PictureFitter
from edgepipe.integers import core_number, slot_count
from edgepipe.runtime.device_options import device_options
from edgepipe.runtime.library import call
from edgepipe.runtime.pipeline import TRACE_SPANS, Pinning, Pipeline

_EXPORTED = "pipeline.json"  # exists in an exported pipeline's folder, but not in a bundle


def load(
    path: str | os.PathLike[str],
    *,
    device: str = "auto",
    serial: bool = False,
    cores: Sequence[int] | None = None,
    slots: int | None = None,
    pinning: Pinning = Pinning.REQUIRED,
    trace: bool = False,
    device_timeout_s: float | None = None,
    device_hangs: tuple[int, int] = (3, 20),
    device_trial: int = 100,
) -> Pipeline:
    """Load a bundle or an exported pipeline's folder and start a thread for each stage.

        pipeline = edgepipe.load("net.edgepipe")
        for box in pipeline("street.jpg").detections:
            print(box.label, box.score, box.left, box.top, box.right, box.bottom)

    ``device`` runs VTA stages: ``auto`` is the accelerator if there is one, otherwise the
    simulator; ``timed`` is the simulator, and gives all stages their modelled time on the board.
    ``serial`` runs all stages on one thread. Stage k of a bundle runs on the k-th of ``cores``,
    starting over after the last one; the default is the board's setting. ``slots`` limits the
    frames in flight, including results that have not been taken. ``trace`` records a trace for
    ``write_trace``.

    A run of a VTA stage that takes longer than ``device_timeout_s`` (None: 20 times the modelled
    time, but at least 1 s, and 10 s on simulators) hangs: the device is reset and runs the frame
    again. After ``device_hangs[0]`` hangs in the last ``device_hangs[1]`` runs the bundle's ARM
    kernels take over, or the pipeline ends. Every ``device_trial`` frames (0: never) the device
    then runs a frame again as a trial, and is used again after three that gave the same bytes.

    A bundle's own decoder runs here if it has one in Python; otherwise its library for this machine
    does. Loading an exported pipeline imports its Python stages, and a bundle is native code, so
    load only what you trust.

    Raises BundleError for a damaged bundle, PipelineError for a damaged exported pipeline, and
    RuntimeFailure for a missing stage, device or core.
    """
    root = Path(path)
    if (root / _EXPORTED).is_file():
        from edgepipe.pipeline.artifact import load as load_exported  # it imports TVM's compiler

        if cores is not None:
            raise PipelineError(
                f"{root}: the stages of an exported pipeline name their own cores",
                hint="give relax_stage(), arm_stage() or python_stage() a core",
            )
        return load_exported(root).start(
            serial=serial,
            slots=slots,
            pinning=pinning,
            device=device,
            trace=trace,
            device_timeout_s=device_timeout_s,
            device_hangs=device_hangs,
            device_trial=device_trial,
        )
    manifest = storage.read_manifest(root)
    options = {
        "serial": serial,
        "pinning": pinning,
        "slots": slot_count(slots),
        "cores": [core_number("cores: a core", core) for core in cores or ()],
        "trace_spans": TRACE_SPANS if trace else 0,
        "leaves_python": True,
        **device_options(device, device_timeout_s, device_hangs, device_trial),
    }
    module = call("load_pipeline", os.fsencode(root), json.dumps(options))
    fitter = PictureFitter(manifest.preprocess)
    return Pipeline(module, fitter=fitter)

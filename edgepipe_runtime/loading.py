"""``edgepipe_runtime.load``: run a bundle on this board."""

from __future__ import annotations

import json
import os
from typing import Any, Mapping, Sequence

import numpy as np

from edgepipe_runtime.errors import PipelineError
from edgepipe_runtime.library import OpenPipeline, OwnBuffer
from edgepipe_runtime.pipeline import TRACE_SPANS, Pipeline

PINNINGS = ("required", "preferred", "off")


def load(
    path: str | os.PathLike[str],
    *,
    device: str = "auto",
    serial: bool = False,
    cores: Sequence[int] | None = None,
    slots: int | None = None,
    pinning: str = "required",
    trace: bool = False,
    device_timeout_s: float | None = None,
    device_hangs: tuple[int, int] = (3, 20),
    device_trial: int = 100,
    buffers: Mapping[str, Sequence[Any]] | None = None,
) -> Pipeline:
    """Load a bundle and start a thread for each stage.

        pipeline = edgepipe_runtime.load("net.edgepipe")
        for box in pipeline("street.jpg").detections:
            print(box.label, box.score, box.left, box.top, box.right, box.bottom)

    All arguments but ``buffers`` are those of ``edgepipe.load``: ``device`` runs VTA stages
    (``auto`` is the accelerator if there is one, otherwise the simulator), ``slots`` limits the
    frames in flight, ``pinning`` is ``required``, ``preferred`` or ``off``.

    ``buffers`` gives arrays of the caller's by the name of an input or output, one for each slot
    (without ``slots``, as many slots as arrays), such as those of ``pynq.allocate``: frame f uses
    buffer f modulo ``slots``, and nothing is copied. Each has the tensor's dtype and shape, is in C
    order and begins at a multiple of 64 bytes. The network's stages on the CPU read and write it,
    so invalidate what the FPGA has written, and flush what it is to read. They are kept as long as
    the pipeline.

    Raises BundleError for a damaged bundle, PipelineError for a wrong argument or buffer, and
    RuntimeFailure for a missing stage, device or core.
    """
    if pinning not in PINNINGS:
        raise PipelineError(
            f"pinning is {pinning!r}, expected one of {', '.join(PINNINGS)}",
            hint="omit pinning to pin every stage to its core",
        )
    options: dict[str, Any] = {
        "device": device,
        "serial": bool(serial),
        "pinning": str(pinning),
        "slots": slots or 0,
        "cores": [int(core) for core in cores or ()],
        "trace_spans": TRACE_SPANS if trace else 0,
        "device_hangs": list(device_hangs),
        "device_trial": device_trial,
    }
    if device_timeout_s is not None:
        options["device_timeout_s"] = device_timeout_s
    own = _own_buffers(buffers or {})
    if slots is None and buffers:
        options["slots"] = max(map(len, buffers.values()))
    opened = OpenPipeline(os.fsencode(path), json.dumps(options).encode(), own)
    try:
        pipeline = Pipeline(opened, keep=buffers)
    except BaseException:
        opened.end(0.0)
        raise
    for name, arrays in (buffers or {}).items():
        _check_types(pipeline, name, arrays)
    return pipeline


def _own_buffers(buffers: Mapping[str, Sequence[Any]]) -> list[OwnBuffer]:
    found = []
    for name, arrays in buffers.items():
        for slot, array in enumerate(arrays):
            what = f"buffer {slot} of {name!r}"
            if not isinstance(array, np.ndarray):
                raise PipelineError(
                    f"{what}: found {type(array).__name__}, expected a NumPy array",
                    hint="give the arrays that pynq.allocate returns",
                )
            if not (array.flags.c_contiguous and array.flags.writeable):
                raise PipelineError(
                    f"{what}: is read-only or not in C order",
                    hint="give a writable array as it was allocated",
                )
            found.append(OwnBuffer(name.encode(), slot, array.ctypes.data, array.nbytes))
    return found


def _check_types(pipeline: Pipeline, name: str, arrays: Sequence[Any]) -> None:
    ports = pipeline.inputs if name in pipeline.inputs else pipeline.outputs
    port = ports[name]
    for slot, array in enumerate(arrays):
        if str(array.dtype) != port.dtype or array.shape != port.array_shape:
            pipeline.close()
            raise PipelineError(
                f"buffer {slot} of {name!r}: found {array.dtype}{list(array.shape)}, "
                f"expected {port.type_text}",
                hint="give it the dtype and shape of the tensor",
            )

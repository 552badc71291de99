"""One ARM stage on this machine: the C++ ArmStage, called from Python."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.errors import RuntimeFailure
from edgepipe.runtime.handle import Handle
from edgepipe.runtime.library import check, runtime_library

_ALIGNMENT = 64


class ArmStage(Handle):
    """A compiled ARM stage loaded from its folder; arrays are in the stage's own layouts.

    Raises RuntimeFailure with the C++ text when the folder is damaged or does not fit this machine.
    Not thread-safe. Usable as a context manager; otherwise closed with the object.
    """

    def __init__(self, folder: Path) -> None:
        library = runtime_library()
        handle = ctypes.c_void_p()
        check(library, library.ep_arm_stage_open(str(folder).encode(), ctypes.byref(handle)))
        super().__init__("ARM stage", handle, "ep_arm_stage_close")
        plan = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
        self.inputs = {t["name"]: _aligned(t["dtype"], t["shape"]) for t in plan["inputs"]}
        self.outputs = {t["name"]: _aligned(t["dtype"], t["shape"]) for t in plan["outputs"]}
        arrays = [*self.inputs.values(), *self.outputs.values()]
        data = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
        sizes = (ctypes.c_uint64 * len(arrays))(*(a.nbytes for a in arrays))
        counts = (ctypes.c_uint64(len(self.inputs)), ctypes.c_uint64(len(self.outputs)))
        self._call("ep_arm_stage_bind", data, sizes, *counts)

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Run on named arrays of the plan's dtypes and shapes; return copies of the outputs."""
        for name, array in self.inputs.items():
            given = inputs[name]
            if given.shape != array.shape or given.dtype != array.dtype:
                raise RuntimeFailure(
                    f"{name}: found {given.dtype}{list(given.shape)}, "
                    f"expected {array.dtype}{list(array.shape)}"
                )
            array[...] = given
        self.run_bound()
        return {name: array.copy() for name, array in self.outputs.items()}

    def run_bound(self) -> None:
        """Run on what ``inputs`` hold; the result is in ``outputs``. What a benchmark times."""
        self._call("ep_arm_stage_run")


def _aligned(dtype: str, shape: list[int]) -> NDArray[Any]:
    """Return zeros whose first element is 64-byte aligned, as every stage's buffers are."""
    count = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    raw = np.zeros(count + _ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % _ALIGNMENT
    return raw[start : start + count].view(dtype).reshape(shape)

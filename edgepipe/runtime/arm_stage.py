"""One ARM stage on this machine: the C++ ArmStage, called from Python."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.errors import RuntimeFailure
from edgepipe.runtime.handle import Functions, Handle
from edgepipe.runtime.library import as_array, call


class ArmStage(Handle):
    """A compiled ARM stage loaded from its folder; arrays are in the stage's own layouts.

    ``inputs`` and ``outputs`` are the stage's own memory, by name. With more than one thread,
    including the caller's, kernels share their loops among them. Raises RuntimeFailure with the C++
    text if the folder is damaged or does not fit this machine, or if the number of threads is not 1
    to 64. Not thread-safe. Usable as a context manager; otherwise closed with the object.
    """

    def __init__(self, folder: Path, *, threads: int = 1) -> None:
        super().__init__(Functions("ARM stage", call("open_stage", str(folder))))
        self._call("set_threads", threads)
        plan = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
        self.inputs = {t["name"]: self._tensor(t) for t in plan["inputs"]}
        self.outputs = {t["name"]: self._tensor(t) for t in plan["outputs"]}

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Run on named arrays of the plan's dtypes and shapes; return copies of the outputs.

        Raises RuntimeFailure for a missing array, and for another dtype or shape.
        """
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
        """Run on the contents of ``inputs``; the result is in ``outputs``. For benchmarks."""
        self._call("run")

    def _tensor(self, entry: Mapping[str, Any]) -> NDArray[Any]:
        memory = as_array(self._call("tensor", entry["name"]))
        array: NDArray[Any] = memory.view(np.dtype(entry["dtype"])).reshape(entry["shape"])
        return array

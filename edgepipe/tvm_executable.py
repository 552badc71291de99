"""Relax modules as compiled files: export for a TVM target, load again, run on borrowed arrays.

Beside ``tvm_adapter`` the only module outside the ARM code generator that calls TVM; it needs none
of the compiler's names when it only loads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import relax

from edgepipe.tvm_adapter import IRModule

Array = NDArray[Any]
Target = str | Mapping[str, Any]


class ExecutableError(Exception):
    """TVM refused a module, a target or a library; the text is its reason in one line."""


def export_executable(module: IRModule, target: Target, path: Path) -> None:
    """Compile ``main`` for ``target`` (TVM's name or table) into a shared library at ``path``.

    Raises ``ExecutableError``.
    """
    try:
        wanted = tvm.target.Target(target if isinstance(target, str) else dict(target))
        fused = relax.get_pipeline("zero")(module)
        tvm.compile(fused, target=wanted).export_library(str(path))
    except Exception as cause:  # TVM raises many kinds, and the linker another
        raise ExecutableError(_reason(cause)) from cause


class Executable:
    """A library written by ``export_executable``, ready to run ``main`` on one device.

    Not thread-safe. Raises ``ExecutableError`` when the library or the device is not there.
    """

    def __init__(self, path: Path, device_kind: str, device_index: int) -> None:
        try:
            self._device = tvm.device(device_kind, device_index)
            exists = bool(self._device.exist)
        except Exception as cause:
            raise ExecutableError(f"device {device_kind}: {_reason(cause)}") from cause
        if not exists:
            raise ExecutableError(f"device {device_kind}:{device_index} does not exist")
        try:
            module = tvm.runtime.load_module(str(path))
            self._main = relax.VirtualMachine(module, self._device)["main"]
        except Exception as cause:
            raise ExecutableError(f"{path}: {_reason(cause)}") from cause

    def upload(self, array: Array) -> Any:
        """Copy an array to the device, once; the result may be an argument of many runs."""
        return tvm.runtime.tensor(np.ascontiguousarray(array), self._device)

    def run(self, arguments: Sequence[Any]) -> list[Array]:
        """Run on arrays or uploaded tensors, in the order of main's parameters.

        Arrays are copied to the device, results back from it.
        """
        prepared = [
            self.upload(value) if isinstance(value, np.ndarray) else value for value in arguments
        ]
        found = self._main(*prepared)
        tensors = [found] if isinstance(found, tvm.runtime.Tensor) else list(found)
        return [tensor.numpy() for tensor in tensors]


def _reason(cause: Exception) -> str:
    lines = [line for line in str(cause).strip().splitlines() if line.strip()]
    return lines[-1].strip() if lines else type(cause).__name__

"""Relax modules as compiled files: export for a TVM target, load, run on borrowed arrays.

Apart from ``tvm_adapter``, this is the only module outside the ARM code generator that calls TVM.
It uses the compiler's names only for exporting.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import relax
from tvm.support import cc

from edgepipe import scratch
from edgepipe.tvm_adapter import IRModule, fetch_remote

Array = NDArray[Any]
Target = str | Mapping[str, Any]
BuildFunction = Callable[[IRModule, Any], Any]  # module and TVM's target to an executable
Linker = str | Callable[..., Any]  # a compiler's name, or a function as TVM's fcompile


class ExecutableError(Exception):
    """TVM refused a module, a target or a library; the text is the reason in one line."""


def export_executable(
    module: IRModule,
    target: Target,
    path: Path,
    *,
    build_func: BuildFunction | None = None,
    export_cc: Linker | None = None,
) -> None:
    """Compile ``main`` for ``target`` (TVM's name or table) into a shared library at ``path``.

    ``build_func`` compiles the module instead of TVM's usual pipeline. ``export_cc`` links the
    library; without it, a target with the ``mtriple`` of another machine is linked with that
    triple's g++, e.g. ``aarch64-linux-gnu-g++``. Raises ``ExecutableError``.
    """
    with scratch.folder("link") as work:
        try:
            wanted = tvm.target.Target(target if isinstance(target, str) else dict(target))
            compiled = (build_func or _compile)(module, wanted)
            if not hasattr(compiled, "export_library"):
                raise ExecutableError(
                    f"build_func returned {type(compiled).__name__}, "
                    "expected an executable, as of tvm.compile"
                )
            linker = _linker(target, export_cc)
            compiled.export_library(str(path), fcompile=linker, workspace_dir=str(work))
        except ExecutableError:
            raise
        except Exception as cause:  # TVM raises many types, and the linker others
            raise ExecutableError(_reason(cause)) from cause
    if not path.is_file():
        raise ExecutableError("export_cc wrote no library")


def _compile(module: IRModule, target: Any) -> Any:
    return tvm.compile(relax.get_pipeline("zero")(module), target=target)


def _linker(target: Target, export_cc: Linker | None) -> Callable[..., Any] | None:
    """Return TVM's ``fcompile``; None for the host's own compiler."""
    if callable(export_cc):
        return export_cc
    triple = _foreign_triple(target)
    if export_cc is None and triple is None:
        return None
    found: Callable[..., Any] = cc.cross_compiler(export_cc or f"{triple}-g++")
    return found


def _foreign_triple(target: Target) -> str | None:
    """Return the target's triple if it differs from this machine's."""
    triple = target.get("mtriple") if isinstance(target, Mapping) else None
    if triple is None or triple.partition("-")[0] == platform.machine():
        return None
    return str(triple)


class Executable:
    """A library written by ``export_executable``, ready to run ``main`` on one device.

    Not thread-safe. Raises ``ExecutableError`` if the library or the device does not exist.
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

    def reopen(self) -> None:
        """Do nothing: a library in this process stays loaded."""

    def upload(self, array: Array) -> Any:
        """Copy an array to the device, once; the result may be an argument of many runs.

        The array may have any dtype and shape.
        """
        return tvm.runtime.tensor(np.ascontiguousarray(array), self._device)

    def run(self, arguments: Sequence[Any]) -> list[Array]:
        """Run on arrays or uploaded tensors, in the order of main's parameters.

        Arrays are copied to the device, and results back. The results have the dtypes and shapes of
        main's outputs.
        """
        prepared = [
            self.upload(value) if isinstance(value, np.ndarray) else value for value in arguments
        ]
        found = self._main(*prepared)
        tensors = [found] if isinstance(found, tvm.runtime.Tensor) else list(found)
        return [tensor.numpy() for tensor in tensors]


class RemoteExecutable:
    """A library written by ``export_executable``, run on the server of an RPC session.

    ``session`` returns the session to use, a new one after ``reopen``. Not thread-safe. Failures on
    the server or of the connection raise one of ``RPC_ERRORS``.
    """

    def __init__(
        self, session: Callable[[], Any], path: Path, device_kind: str, device_index: int
    ) -> None:
        self._session = session
        self._path = path
        self._device_name = (device_kind, device_index)
        self._kept: list[Any] = []  # kept until the session ends, since freeing uses it
        self.reopen()

    def reopen(self) -> None:
        """Upload and load the library in the current session."""
        remote = self._session()
        # Named after its stage's folder, so that several stages can share a session.
        name = f"{self._path.parent.name}{self._path.suffix}"
        remote.upload(str(self._path), name)
        module = remote.load_module(name)
        self._device = remote.device(*self._device_name)
        self._machine = relax.VirtualMachine(module, self._device)
        self._arguments: list[Any] | None = None
        self._kept += [module, self._machine]

    def upload(self, array: Array) -> Any:
        """Copy an array to the server; the result may be an argument of many runs.

        The array may have any dtype and shape.
        """
        tensor = tvm.runtime.tensor(np.ascontiguousarray(array), self._device)
        self._kept.append(tensor)
        return tensor

    def run(self, arguments: Sequence[Any]) -> list[Array]:
        """Run on arrays or uploaded tensors, in the order of main's parameters.

        The results have the dtypes and shapes of main's outputs.
        """
        if self._arguments is None:  # the input tensors on the server are reused for every frame
            self._arguments = [
                self.upload(value) if isinstance(value, np.ndarray) else value
                for value in arguments
            ]
        for index, value in enumerate(arguments):
            if isinstance(value, np.ndarray):
                self._arguments[index].copyfrom(value)
            else:
                self._arguments[index] = value
        machine = self._machine
        machine.set_input("main", *self._arguments)
        machine.invoke_stateful("main")
        count = machine._get_output_arity("main")
        indices: list[tuple[int, ...]] = [()] if count == -1 else [(i,) for i in range(count)]
        return [fetch_remote(machine._get_output, "main", *index) for index in indices]


def _reason(cause: Exception) -> str:
    lines = [line for line in str(cause).strip().splitlines() if line.strip()]
    return lines[-1].strip() if lines else type(cause).__name__

"""Stages that run in Python: TVM executables and Python functions, called by the C++ pipeline."""

from __future__ import annotations

import ctypes
import threading
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from edgepipe.errors import PipelineError
from edgepipe.pipeline.relax_stages import LIBRARY_FILE, PARAMETERS_FILE
from edgepipe.runtime.library import as_array
from edgepipe.runtime.ports import Port, as_port, check_array, dense_port
from edgepipe.tvm_executable import Executable, ExecutableError

Array = NDArray[Any]


class StageAbandoned(BaseException):
    """Ends a Python stage whose pipeline was closed without waiting for it any longer."""


class Runner(ABC):
    """Computes a stage's results: one ``run`` per frame, in order, on one thread.

    ``failure`` is the exception of the last failed run.
    """

    failure: BaseException | None = None

    @abstractmethod
    def run(self, inputs: Sequence[Array]) -> Sequence[Any]:
        """Return one array per output; any exception becomes the frame's error.

        Each array has the dtype and shape of its port.
        """

    @abstractmethod
    def restart(self) -> None:
        """Prepare for frame 0, while nothing is running."""

    def replace(self, parameters: Mapping[str, Array], first_frame: int) -> None:
        """Use ``parameters`` from frame ``first_frame`` on; only Relax stages have parameters.

        Each array has the dtype and shape of its parameter. Raises PipelineError for a stage
        without parameters.
        """
        raise PipelineError(f"{type(self).__name__} has no parameters")

    def interrupt(self) -> None:  # noqa: B027
        """Make a ``run`` that waits for another process end soon. Any thread."""

    def abandon(self) -> None:  # noqa: B027
        """Make a ``run`` that does not return end with an exception, if that is possible."""

    def close(self) -> None:  # noqa: B027
        """Release resources outside this process, after the last run."""


class Machine(Protocol):
    """Runs a compiled Relax module, here or on a server; see ``tvm_executable``."""

    def upload(self, array: Array) -> Any:
        """Copy an array to the module's device.

        The array may have any dtype and shape.
        """

    def run(self, arguments: Sequence[Any]) -> list[Array]:
        """Run on arrays or uploaded tensors.

        The results have the dtypes and shapes of main's outputs.
        """

    def reopen(self) -> None:
        """Load the module again if its session was lost."""


class PythonRunner(Runner):
    """A Python function of the stage's inputs."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._thread = 0

    def run(self, inputs: Sequence[Array]) -> Sequence[Any]:
        """Call the function with read-only arrays; a bare result is the only output.

        Each array has the dtype and shape of its port.
        """
        self._thread = threading.get_ident()
        found = self._function(*inputs)
        if found is None:
            return ()
        return found if isinstance(found, tuple | list) else (found,)

    def abandon(self) -> None:
        """Raise StageAbandoned in the function as soon as it runs Python code again."""
        # Otherwise its thread would end in the middle of C++ code when the interpreter ends.
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(self._thread), ctypes.py_object(StageAbandoned)
        )

    def restart(self) -> None:
        """Do nothing: a function manages its own state."""


class TvmRunner(Runner):
    """A Relax executable whose parameters can be replaced from a given frame on."""

    def __init__(
        self, machine: Machine, order: Sequence[str], parameters: Mapping[str, Array]
    ) -> None:
        self._machine = machine
        self._order = tuple(order)
        self._lock = threading.Lock()
        self._arrays = dict(parameters)  # the newest
        self._versions = deque([(0, self._uploaded(parameters))])  # (first frame, ...), ascending
        self._frame = 0  # used by the stage's thread only

    @classmethod
    def load(cls, root: Path, entry: Mapping[str, Any]) -> Self:
        """Load an exported stage; raise PipelineError with TVM's reason."""
        library = root / entry["folder"] / LIBRARY_FILE
        try:
            executable = Executable(library, entry["device_kind"], entry["device_index"])
        except ExecutableError as cause:
            raise PipelineError(
                f"stage {entry['name']!r}: {cause}",
                hint="export the pipeline again, for a target and device of this machine",
            ) from cause
        return cls(executable, entry["order"], load_parameters(root, entry))

    def run(self, inputs: Sequence[Array]) -> Sequence[Any]:
        """Run the module with the parameters of this frame.

        Each array has the dtype and shape of its port.
        """
        with self._lock:
            while len(self._versions) > 1 and self._versions[1][0] <= self._frame:
                self._versions.popleft()
            parameters = self._versions[0][1]
        self._frame += 1
        following = iter(inputs)
        arguments = [parameters[n] if n in parameters else next(following) for n in self._order]
        return self._machine.run(arguments)

    def replace(self, parameters: Mapping[str, Array], first_frame: int) -> None:
        """Use ``parameters`` from frame ``first_frame`` on; others stay unchanged.

        Each array has the dtype and shape of its parameter.
        """
        arrays = {key: np.array(array) for key, array in parameters.items()}
        uploaded = self._uploaded(arrays)
        with self._lock:
            self._arrays |= arrays
            self._versions.append((first_frame, self._versions[-1][1] | uploaded))

    def restart(self) -> None:
        """Keep the newest parameters, from frame 0 on."""
        self._versions = deque([(0, self._versions[-1][1])])
        self._frame = 0

    def reopen(self) -> None:
        """Like ``restart``, but send the module and its parameters again."""
        self._machine.reopen()
        self._versions = deque([(0, self._uploaded(self._arrays))])
        self._frame = 0

    def _uploaded(self, arrays: Mapping[str, Array]) -> dict[str, Any]:
        return {key: self._machine.upload(array) for key, array in arrays.items()}


@dataclass(frozen=True, kw_only=True, eq=False)
class HostedStage:
    """A runner and its stage's tensors; the C++ pipeline calls it for each frame."""

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    runner: Runner
    _arrays: dict[int, tuple[list[Array], list[Array]]] = field(default_factory=dict, init=False)

    def __call__(self, *tensors: Any) -> None:
        """Compute the outputs from the inputs: tensors of bytes, which later frames reuse.

        Raises PipelineError with the frame's error for any exception of the runner, which is kept
        as the runner's ``failure``.
        """
        slot = tensors[0].data_ptr()  # frames of the same slot have the same memory
        if slot not in self._arrays:
            self._arrays[slot] = self._views(tensors)
        inputs, outputs = self._arrays[slot]
        try:
            found = self.runner.run([array.view() for array in inputs])
            if len(found) != len(self.outputs):
                raise PipelineError(
                    f"it returned {len(found)} arrays, expected {len(self.outputs)}"
                )
            for port, array, result in zip(self.outputs, outputs, found, strict=True):
                if (
                    type(result) is not np.ndarray
                    or result.dtype != array.dtype
                    or result.shape != array.shape
                ):
                    check_array(f"output {port.name!r}", result, port)
                array[...] = result
        except PipelineError as cause:
            self.runner.failure = cause
            raise
        except BaseException as cause:  # adds class and position, which C++ would not pass on
            self.runner.failure = cause
            place = _place(cause.__traceback__)
            raise PipelineError(f"{type(cause).__name__}: {cause}{place}") from cause

    def _views(self, tensors: Sequence[Any]) -> tuple[list[Array], list[Array]]:
        """Return a slot's inputs, read-only as another stage may read them too, and outputs."""
        arrays = [
            as_port(as_array(tensor), port)
            for tensor, port in zip(tensors, self.inputs + self.outputs, strict=True)
        ]
        inputs, outputs = arrays[: len(self.inputs)], arrays[len(self.inputs) :]
        for array in inputs:
            array.flags.writeable = False
        return inputs, outputs


def _place(trace: TracebackType | None) -> str:
    """Return the position of an exception: the innermost line outside installed packages."""
    frames = [frame for frame in traceback.extract_tb(trace) if frame.filename != __file__]
    own = [frame for frame in frames if "site-packages" not in Path(frame.filename).parts]
    if not frames:
        return ""
    found = (own or frames)[-1]
    return f" ({found.filename}:{found.lineno}, in {found.name})"


def load_parameters(root: Path, entry: Mapping[str, Any]) -> dict[str, Array]:
    """Return the parameters written by ``RelaxStage.write``.

    Each has the dtype and shape that its entry in ``pipeline.json`` records.
    """
    content = (root / entry["folder"] / PARAMETERS_FILE).read_bytes()
    found: dict[str, Array] = {}
    offset = 0
    for item in entry["parameters"]:
        port = dense_port(item["name"], item["dtype"], item["shape"])
        memory = np.frombuffer(content, np.uint8, port.bytes, offset)
        found[port.name] = as_port(memory, port).copy()
        offset += port.bytes
    return found

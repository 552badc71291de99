"""A whole pipeline at the other end of a session: the functions that run it here, by RPC.

with rpc.connect(port) as session:
    pipeline = session.load_pipeline(Path("exported"))
    pipeline.set_input("data_0", array)
    pipeline.run()
    result = pipeline.next(timeout_s=1.0)
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe import tvm_adapter
from edgepipe.errors import DeadlinePassed, PipelineError, RpcError
from edgepipe.names import suggest
from edgepipe.pipeline.artifact import DESCRIPTION_FILE
from edgepipe.pipeline.hosted import array_shape, as_port, check_array
from edgepipe.pipeline.ports import Port
from edgepipe.pipeline.running import WAITS, PipelineResult
from edgepipe.rpc.link import last_line
from edgepipe.rpc.session import Session
from edgepipe.runtime.frames import read_frame
from edgepipe.runtime.library import status_failure
from edgepipe.runtime.pipeline import TIMEOUT_S, Pinning, Statistics, statistics_from_json

Array = NDArray[Any]
_SLICE_S = 0.05  # a wait over there keeps the session from other calls


def load_on(
    session: Session, path: str | Path, *, device: str = "auto", slots: int | None = None
) -> ServedPipeline:
    """Upload a bundle or an exported pipeline's folder and start it at the session's other end.

    ``device`` runs VTA stages, ``slots`` bounds the frames under way. Relax stages for the CPU run
    in the server; Python stages cannot. Raises ``RpcError`` with the server's reason.
    """
    root = Path(path)
    if (root / DESCRIPTION_FILE).is_file():
        session.upload_folder(root, name := "pipeline")
    else:
        name = session.upload_bundle(root)
    options = {"device": device, "slots": slots or 0, "pinning": Pinning.PREFERRED}
    return ServedPipeline(
        session, session.call("edgepipe.load_pipeline", name, json.dumps(options))
    )


class ServedPipeline:
    """Made by ``load_on``; its stages run as long as the session lasts.

    Frames, results and ends are as those of ``RunningPipeline``, without futures: a call is a
    round trip, and one thread calls at a time.
    """

    def __init__(self, session: Session, module: Any) -> None:
        names = (
            "describe set_input get_input set_parameter run get_output drain stop cancel restart"
            " statistics"
        )
        self._functions = {name: session.keep(module[name]) for name in names.split()}
        found = json.loads(self._call("describe"))
        self.name: str = found["name"]
        self.device: str = found["device"]
        self.slots: int = found["slots"]
        self.stages: tuple[str, ...] = tuple(found["stages"])
        self.inputs = {entry["name"]: _port(entry) for entry in found["inputs"]}
        self.outputs = tuple(_port(entry) for entry in found["outputs"])
        self.parameter_groups: Mapping[str, str] = found["parameter_groups"]

    @property
    def num_inputs(self) -> int:
        """Return how many arrays a frame has."""
        return len(self.inputs)

    @property
    def num_outputs(self) -> int:
        """Return how many arrays a result has."""
        return len(self.outputs)

    @property
    def num_executing(self) -> int:
        """Return how many frames have been run and not been taken."""
        return self.statistics().in_flight

    def set_input(self, name: str, array: Array) -> None:
        """Send an array for the next runs, until it is set again."""
        check_array(f"input {name!r}", array, self._input(name))
        self._call("set_input", name, array.tobytes())

    def get_input(self, name: str) -> Array:
        """Return what ``set_input`` has sent."""
        port = self._input(name)
        return _arrays(bytes(self._call("get_input", name)), (port,))[0]

    def set_parameters(self, group: str, parameters: Mapping[str, Array]) -> None:
        """Replace parameters of a group for every frame that is run after this call."""
        if group not in self.parameter_groups:
            raise PipelineError(
                f"parameter group {group!r} is unknown",
                hint=suggest(group, list(self.parameter_groups)),
            )
        for name, array in parameters.items():
            self._call("set_parameter", group, name, np.ascontiguousarray(array).tobytes())

    def run(self, *, timeout_s: float = 0.0, **inputs: Array) -> int:
        """Send one frame on its way and return its number. By default never waits for a slot."""
        for name, array in inputs.items():
            check_array(f"input {name!r}", array, self._input(name))
        given = [inputs[name].tobytes() if name in inputs else None for name in self.inputs]
        return int(self._waiting("run", timeout_s, *given))

    def get_output(self) -> PipelineResult | None:
        """Return the next finished frame, or None when none is ready. Never waits for it."""
        try:
            return self.next(timeout_s=0.0)
        except DeadlinePassed:
            return None

    def next(self, *, timeout_s: float = TIMEOUT_S) -> PipelineResult:
        """Wait for the next frame. Raises DeadlinePassed, PipelineEnded, or a stage's failure."""
        found = read_frame(bytes(self._waiting("get_output", timeout_s)))
        return PipelineResult(
            frame=found.frame,
            latency_ms=found.latency_ms,
            outputs=tuple(_arrays(found.outputs, self.outputs)),
        )

    def drain(self, *, timeout_s: float = TIMEOUT_S) -> None:
        """Wait until every frame that was run is finished; goes on running."""
        self._waiting("drain", timeout_s)

    def stop(self, *, timeout_s: float = TIMEOUT_S) -> None:
        """Take no more frames and wait until those run are finished; they can still be taken."""
        self._waiting("stop", timeout_s)

    def cancel(self) -> None:
        """Drop every frame that has not been taken."""
        self._call("cancel")

    def restart(self, *, timeout_s: float = TIMEOUT_S) -> None:
        """Run again after ``stop``, ``cancel`` or a failure; frames count from 0."""
        self._waiting("restart", timeout_s)

    def statistics(self) -> Statistics:
        """Return what has been measured since the start or the last restart."""
        return statistics_from_json(str(self._call("statistics")))

    def _input(self, name: str) -> Port:
        if name not in self.inputs:
            raise PipelineError(
                f"input {name!r}: the pipeline has no such input",
                hint=suggest(name, list(self.inputs)),
            )
        return self.inputs[name]

    def _waiting(self, function: str, timeout_s: float, *arguments: object) -> Any:
        """Call until it no longer ends by its deadline, in slices that let others call too."""
        end = time.monotonic() + timeout_s
        while True:
            left = end - time.monotonic()
            try:
                return self._call(function, min(max(left, 0.0), _SLICE_S), *arguments)
            except DeadlinePassed:
                if left <= _SLICE_S:
                    raise

    def _call(self, function: str, *arguments: object) -> Any:
        call: Callable[..., Any] = self._functions[function]
        try:
            return call(*arguments)
        except tvm_adapter.RPC_ERRORS as cause:
            found = status_failure(str(cause), WAITS)
            raise found or RpcError(f"RPC: {last_line(cause)}") from cause


def _port(entry: Mapping[str, Any]) -> Port:
    return Port(**{**entry, "shape": tuple(entry["shape"])})


def _arrays(content: bytes | memoryview, ports: tuple[Port, ...]) -> list[Array]:
    """Return one array for each port from their bytes, one after the other."""
    found: list[Array] = []
    offset = 0
    for port in ports:
        memory = np.frombuffer(content, np.uint8, port.bytes, offset)
        found.append(as_port(memory, port).reshape(array_shape(port)).copy())
        offset += port.bytes
    return found

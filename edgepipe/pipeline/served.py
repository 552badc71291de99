"""A whole pipeline at the other end of a session: the functions that run it here, by RPC.

with rpc.connect(port) as session:
    pipeline = load_on(session, Path("exported"))
    pipeline.set_input("data_0", array)
    pipeline.run()
    result = pipeline.next(timeout_s=1.0)
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from edgepipe import tvm_adapter
from edgepipe.errors import DeadlinePassed, RpcError
from edgepipe.integers import slot_count
from edgepipe.pipeline.artifact import DESCRIPTION_FILE
from edgepipe.rpc.failures import rpc_error
from edgepipe.rpc.session import Session
from edgepipe.runtime.frames import TakenFrame, read_frame
from edgepipe.runtime.library import Function, status_failure
from edgepipe.runtime.pipeline import Pinning, Pipeline, split_arrays

Array = NDArray[Any]
_SLICE_S = 0.05  # a wait over there keeps the session from other calls


def load_on(
    session: Session, path: str | Path, *, device: str = "auto", slots: int | None = None
) -> ServedPipeline:
    """Upload a bundle or an exported pipeline's folder and start it at the session's other end.

    ``device`` runs VTA stages, ``slots`` bounds the frames under way. Relax stages for the CPU run
    in the server; Python stages cannot. Raises ``RpcError`` with the server's reason.
    """
    root, count = Path(path), slot_count(slots)
    if (root / DESCRIPTION_FILE).is_file():
        session.upload_folder(root, name := "pipeline")
    else:
        name = session.upload_bundle(root)
    options = {"device": device, "slots": count, "pinning": Pinning.PREFERRED}
    module = session.call("edgepipe.load_pipeline", name, json.dumps(options))
    return ServedPipeline(session, module)


class ServedPipeline(Pipeline):
    """Made by ``load_on``; its stages run until it is closed, or the session ends.

    The same functions are called as for a pipeline of this process. A call is a round trip, calls
    of several threads are made one after the other, arrays travel with them.
    """

    def __init__(self, session: Session, module: Any) -> None:
        self._exchange = session.exchange
        super().__init__(_Kept(session, module), end="")

    def close(self) -> None:
        """Drop what has not been taken and free everything over there, if the session still is."""
        with contextlib.suppress(RpcError):
            if self._finalizer.alive:
                self._call("close")
        super().close()

    def _sent(self, array: Array) -> Any:
        return array.tobytes()

    def _send(self, timeout_s: float, sent: Sequence[Any]) -> int:
        if timeout_s > 0.0:
            self._wait("await_slot", timeout_s)  # the arrays travel once, after the wait
        return super()._send(0.0, sent)

    def _receive(self, timeout_s: float) -> tuple[TakenFrame, tuple[Array, ...]]:
        found = read_frame(bytes(self._wait("get_output", timeout_s)))
        return found, split_arrays(found.outputs, self.outputs)

    def _wait(self, function: str, timeout_s: float, *arguments: object) -> Any:
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
        try:
            return self._exchange.call(super()._call, function, *arguments)
        except tvm_adapter.RPC_ERRORS as cause:
            found = status_failure(str(cause), self._kinds)
            raise found or rpc_error(cause) from cause


class _Kept:
    """A module over there, whose functions are freed after the session."""

    def __init__(self, session: Session, module: Any) -> None:
        self._session = session
        self._module = module

    def get_function(self, name: str) -> Function:
        found: Function = self._session.keep(self._module[name])
        return found

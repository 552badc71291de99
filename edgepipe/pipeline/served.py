"""Run a whole pipeline on an RPC server, with the same methods as a local one.

with rpc.connect(port, key=key) as session:
    pipeline = load_on(session, Path("exported"))
    pipeline.set_input("data_0", array)
    pipeline.run()
    result = pipeline.next(timeout_s=1.0)
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from edgepipe import tvm_adapter
from edgepipe.errors import EdgepipeError
from edgepipe.integers import slot_count
from edgepipe.pipeline.exported_description import DESCRIPTION_FILE
from edgepipe.rpc.failures import rpc_error
from edgepipe.rpc.session import Session
from edgepipe.runtime.frames import read_frames
from edgepipe.runtime.handle import Functions
from edgepipe.runtime.library import Function
from edgepipe.runtime.named import Named
from edgepipe.runtime.pipeline import Pinning, Pipeline
from edgepipe.runtime.ports import Port, split_arrays
from edgepipe.runtime.transport import COUNT_BITS, Taken, Transport

Array = NDArray[Any]


def load_on(
    session: Session, path: str | Path, *, device: str = "auto", slots: int | None = None
) -> Pipeline:
    """Upload a bundle or an exported pipeline's folder and start it on the session's server.

    It runs until it is closed or the session ends. Each call is a round trip that carries its
    arrays; calls from several threads are made one after another. ``device`` runs VTA stages,
    ``slots`` limits the frames in flight. Relax stages for the CPU run on the server; Python stages
    cannot. Raises ``RpcError`` with the server's reason.
    """
    root, count = Path(path), slot_count(slots)
    if (root / DESCRIPTION_FILE).is_file():
        session.upload_folder(root, name := "pipeline")
    else:
        name = session.upload_bundle(root)
    options = {"device": device, "slots": count, "pinning": Pinning.PREFERRED}
    module = session.call("edgepipe.load_pipeline", name, json.dumps(options))
    return Pipeline(_Module(session, module), functions=_Functions, transport=_Transport)


class _Module:
    """A module on the server; its functions are freed after the session."""

    def __init__(self, session: Session, module: Any) -> None:
        self.session = session
        self._module = module

    def get_function(self, name: str) -> Function:
        found: Function = self.session.keep(self._module[name])
        return found


class _Functions(Functions):
    """Calls a module's functions, one call of the session at a time."""

    def __init__(self, what: str, module: Any, **options: Any) -> None:
        super().__init__(what, module, **options)
        self._session: Session = module.session

    def call(self, function: str, *arguments: object) -> Any:
        try:
            return self._session.exchange.call(super().call, function, *arguments)
        except tvm_adapter.RPC_ERRORS as cause:
            raise self.failure(cause) or rpc_error(cause) from cause


class _Transport(Transport):
    """Sends arrays as bytes; an interrupted send may or may not have arrived."""

    slice_s = 0.05  # a wait on the server blocks the session's other calls
    most_sent = 1
    _most_frames = 16

    def __init__(self, functions: Functions, inputs: Named[Port], outputs: Named[Port]) -> None:
        super().__init__(functions, inputs, outputs)
        self._doubts = threading.local()

    def pack(self, array: Array) -> object:
        return array.tobytes()

    def begin(self, packed: Sequence[object], is_owned: bool) -> int:
        doubt: tuple[int, Sequence[object]] | None = getattr(self._doubts, "sent", None)
        if doubt is None:
            return super().begin(packed, is_owned)
        id, sent = doubt
        if sent == packed and id & 1 == is_owned:
            return id  # the server knows whether it already has this frame
        self.call("withdraw", id)
        self._doubts.sent = None
        return super().begin(packed, is_owned)

    def send(self, id: int, packed: Sequence[object]) -> Iterator[int]:
        self._doubts.sent = (id, packed)
        try:
            number = self.call("send", id, *packed)
        except EdgepipeError:
            self._doubts.sent = None
            raise
        self._doubts.sent = None
        yield number

    def send_many(self, frames: Sequence[tuple[int, Sequence[object]]]) -> Iterator[int]:
        ((id, packed),) = frames
        for number in self.send(id, packed):
            yield 0 if number < 0 else number << COUNT_BITS | 1

    def take(self, first: int, most: int, owned_only: bool) -> Sequence[Taken]:
        content = bytes(self.call("take", first, min(most, self._most_frames), owned_only, 0))
        output_bytes = sum(port.bytes for port in self._outputs)
        return [
            (found, split_arrays(memoryview(content)[offset:], self._outputs))
            for found, offset in read_frames(content, output_bytes)
        ]

    def _hold_lock(self, inputs: Named[Port], outputs: Named[Port]) -> None:
        """Do nothing: a round trip is long."""

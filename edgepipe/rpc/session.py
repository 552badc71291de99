"""A session with ``edgepipe-rpcd``: TVM's own client and edgepipe's functions on the server."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgepipe import scratch, tvm_adapter
from edgepipe.bundle import storage
from edgepipe.closing import Closing
from edgepipe.errors import RpcError
from edgepipe.rpc.connecting import Opened, open_session
from edgepipe.rpc.exchange import Exchange
from edgepipe.rpc.failures import last_line, rpc_error

_BUNDLE = f"bundle{storage.ARCHIVE_SUFFIX}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTime:
    """The time of a stage on the server, over ``runs`` runs, in microseconds.

    ``fault`` is the last fault of its device. ``retries`` runs were repeated on the device and
    ``fallback_runs`` were made by the stage's fallback, among all runs.
    """

    name: str
    kind: str
    runs: int
    min_us: float
    median_us: float
    max_us: float
    retries: int
    fallback_runs: int
    fault: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenReport:
    """A bit-equal golden run: the device of the VTA stages, and the time of every stage."""

    network: str
    device: str
    stages: tuple[StageTime, ...]

    def check_device(self, host: str = "") -> None:
        """Raise ``RpcError`` unless the device ran every VTA stage without a fault.

        ``host`` is the board, for the hint.
        """
        for stage in self.stages:
            if stage.fault:
                raise RpcError(
                    f"the outputs are right, but stage '{stage.name}' did not run on {self.device} "
                    f"without a fault ({stage.retries} runs repeated, {stage.fallback_runs} on its "
                    f"fallback): {stage.fault}",
                    hint="examine the board",
                    option="examination" if host else "",
                    value=host,
                )


class Session(Closing):
    """One client's session, a context manager; the server's process for it ends with it.

    Any thread may use it; calls are made one after another. An exception of a signal
    handler, such as KeyboardInterrupt, ends the wait for a call within 50 ms. The server finishes
    the call, and its result is dropped. After a call that failed without an answer, every later
    call raises ``RpcError`` because the session is broken.
    """

    def __init__(self, remote: Any) -> None:
        """Take over an open ``Exchange``, or TVM's ``RPCSession`` from elsewhere.

        The socket of the latter is unknown, so ``close`` must wait for a pending call.
        """
        opened = isinstance(remote, Exchange)
        self.exchange: Exchange = remote if opened else Exchange(Opened(remote=remote))
        # Objects of the server are freed after the session. Earlier, TVM would free them over the
        # network while holding the interpreter lock, and all threads of this process would wait.
        self._kept: list[Any] = []

    @property
    def remote(self) -> Any:
        """TVM's ``RPCSession``: upload, load_module, get_function, cpu.

        An interrupt stops a call through it in the middle of a message, which breaks the session.
        ``exchange.call(function, ...)`` calls without this risk.
        """
        self.exchange.check()
        return self.exchange.remote

    def close(self) -> None:
        """End the session: the server kills its process, even if it is busy."""
        self.exchange.close()

    def info(self) -> dict[str, Any]:
        """Return facts about the server's machine: kernel, cores, memory, accelerator."""
        found: dict[str, Any] = json.loads(self.call("edgepipe.info"))
        return found

    def run_golden(self, path: Path, *, device: str = "auto", repeat: int = 10) -> GoldenReport:
        """Upload the bundle, run its golden input ``repeat`` times stage by stage, and compare.

        ``device`` runs the VTA stages: auto, simulator, timed or uio. Raises ``RpcError`` if a
        stage fails or an output is not bit-equal. The outputs are also right if a stage's fallback
        ran: ``GoldenReport.check_device`` tells. The time of the first run is not counted.
        """
        if repeat < 1:
            raise RpcError(
                f"repeat: found {repeat}, expected 1 or more", hint="run it at least once"
            )
        with self.opened(path, device) as module:
            names = ("describe", "load_golden", "run", "check_golden", "statistics")
            functions = {name: self.function(module, name) for name in names}
            description = json.loads(functions["describe"]())
            for name in ("load_golden", "run", "check_golden", "statistics", *repeat * ("run",)):
                functions[name]()
            functions["check_golden"]()
            times = json.loads(functions["statistics"]())
        return GoldenReport(
            network=description["name"],
            device=description["device"],
            stages=tuple(
                StageTime(
                    name=stage["name"],
                    kind=stage["kind"],
                    runs=time["runs"],
                    min_us=time["min_us"],
                    median_us=time["median_us"],
                    max_us=time["max_us"],
                    retries=time["retries"],
                    fallback_runs=time["fallback_runs"],
                    fault=time["fault"],
                )
                for stage, time in zip(description["stages"], times, strict=True)
            ),
        )

    @contextlib.contextmanager
    def opened(self, path: Path, device: str) -> Iterator[Any]:
        """Upload a bundle and open it for the block: a module that runs its stages one by one.

        ``device`` runs the VTA stages. It is free again after the block, for other bundles of this
        session, too. Raises ``RpcError``.
        """
        module = self.call("edgepipe.open_bundle", self.upload_bundle(path), device)
        try:
            yield module
        finally:
            if not self.exchange.broken:  # otherwise the server's process ends
                self.function(module, "close")()

    def upload_folder(self, path: Path, name: str) -> None:
        """Send every file below a folder to the server, below ``name`` there."""
        for file in sorted(path.rglob("*")):
            if file.is_file():
                self._send(file, str(Path(name) / file.relative_to(path)))

    def upload_bundle(self, path: Path) -> str:
        """Check a bundle's digests and send it as one archive; return its name on the server."""
        with scratch.folder("rpc") as folder:
            self._send(storage.pack(path, folder / _BUNDLE), _BUNDLE)
        return _BUNDLE

    def keep(self, value: Any) -> Any:
        """Keep an object of the server until the session has ended; return it."""
        self._kept.append(value)
        return value

    def call(self, name: str, *arguments: object) -> Any:
        """Call a function of the server by its name. Raises ``RpcError``."""

        def fetch_and_call() -> Any:
            return self.keep(self.keep(self.exchange.remote.get_function(name))(*arguments))

        return self._run(fetch_and_call)

    def function(self, module: Any, name: str) -> Callable[..., Any]:
        """Return a function of one of the server's modules; calls raise ``RpcError``."""
        found = self._run(lambda: self.keep(module[name]))

        def call(*arguments: object) -> Any:
            return self._run(found, *arguments)

        return call

    def _send(self, file: Path, name: str) -> None:
        self._run(self.exchange.remote.upload, str(file), name)

    def _run(self, function: Callable[..., Any], *arguments: object) -> Any:
        try:
            return self.exchange.call(function, *arguments)
        except tvm_adapter.RPC_ERRORS as cause:
            raise rpc_error(cause) from cause


def connect(port: int, *, key: str, host: str = "127.0.0.1", limit_s: float = 0.0) -> Session:
    """Open a session with a server; wait while it serves another one.

    ``key`` is the server's, such as ``LocalServer.key``. ``limit_s``, unless 0, is the server's
    time limit for the session. Raises ``RpcError``.
    """
    try:
        return Session(Exchange(open_session(host, port, key, limit_s=limit_s)))
    except tvm_adapter.RPC_ERRORS as cause:
        raise RpcError(
            f"{host}:{port}: no RPC session ({last_line(cause)})",
            hint="check that edgepipe-rpcd is running there with the same key; through SSH, "
            "sshd on the board must forward ports (AllowTcpForwarding yes)",
        ) from cause

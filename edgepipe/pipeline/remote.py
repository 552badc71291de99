"""Stages that run on a TVM RPC server, and the runners that send them frames.

    board = RpcServer(host="192.168.2.99", port=9190, key="ultra96")
    body = remote_stage(relax_stage(module, name="body", target=aarch64), board)

A stage's files are uploaded when the pipeline starts. Stages on the same server share a session and
take turns, because a server serves one session at a time. Stages of one bundle are opened together
there, and those of several bundles share the accelerator run by run.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe import scratch
from edgepipe.bundle import storage
from edgepipe.errors import PipelineError, RpcError
from edgepipe.pipeline.compiled_stages import ArmStage, BundleStage
from edgepipe.pipeline.hosted import Runner, TvmRunner, load_parameters
from edgepipe.pipeline.relax_stages import LIBRARY_FILE, RelaxStage
from edgepipe.pipeline.stage import Entry, Stage, checked_cores
from edgepipe.rpc.link import Link, RpcServer
from edgepipe.runtime.ports import Port, as_port
from edgepipe.tvm_adapter import RPC_ERRORS
from edgepipe.tvm_executable import RemoteExecutable

Array = NDArray[Any]
CALL_ERRORS = (RpcError, *RPC_ERRORS)
_DEVICE = "auto:shared"  # bundles of one client, and other processes, may use it meanwhile


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RemoteStage(Stage):
    """A compiled stage that runs on an RPC server; its thread here sends and waits."""

    stage: Stage
    server: RpcServer

    def write(self, root: Path, folder: str) -> Entry:
        """Write the stage's own files; they are uploaded when the pipeline starts."""
        return {
            "kind": "remote",
            "server": asdict(self.server),
            "stage": self.stage.write(root, folder),
        }


def remote_stage(stage: Stage, server: RpcServer, *, core: int | None = None) -> RemoteStage:
    """Run ``stage`` on ``server``: Relax stages on any TVM RPC server, others on edgepipe-rpcd.

    ``core`` is the core of the local thread. A Relax stage's target and device are those of the
    server. Raises PipelineError for a function, which exists only in this process.
    """
    if not isinstance(stage, RelaxStage | ArmStage | BundleStage):
        raise PipelineError(
            f"stage {stage.name!r}: {type(stage).__name__} cannot run on an RPC server",
            hint="relax_stage(), arm_stage() and bundle_stage() can",
        )
    return RemoteStage(
        name=stage.name,
        inputs=stage.inputs,
        outputs=stage.outputs,
        cores=checked_cores(stage.name, core),
        stage=stage,
        server=server,
    )


class RemoteHost:
    """The session with one server, shared by all its stages; replaced after a failure."""

    def __init__(self, server: RpcServer) -> None:
        self.server = server
        self._link: Link | None = None
        self._old: list[Link] = []  # kept until their objects are freed
        self._lock = threading.Lock()
        self._bundles: dict[tuple[Link, Path], Any] = {}

    @property
    def link(self) -> Link:
        """The session, or a new one if the last is broken; raise PipelineError on failure."""
        with self._lock:
            if self._link is None or self._link.broken:
                if self._link is not None:
                    self._link.close()
                    self._old.append(self._link)
                    self._link = None
                try:
                    self._link = Link(self.server)
                except RpcError as cause:
                    raise PipelineError(str(cause), hint=cause.hint) from cause
            return self._link

    def bundle(self, link: Link, path: Path) -> Any:
        """Return the module of a bundle on the server, uploaded and opened once in each session.

        To be called in a call of ``link``, so that no other stage uploads it meanwhile.
        """
        if (link, path) not in self._bundles:
            name = f"bundle_{len(self._bundles)}{storage.ARCHIVE_SUFFIX}"
            with scratch.folder("rpc") as folder:
                link.remote.upload(str(storage.pack(path, folder / name)), name)
            opened = link.remote.get_function("edgepipe.open_bundle")(name, _DEVICE)
            self._bundles[link, path] = opened
        return self._bundles[link, path]

    def error(self, cause: BaseException, stage: str = "") -> PipelineError:
        """Return the error to raise for ``cause``, which a call of ``stage`` may have met."""
        where = f"stage {stage!r}: " if stage else ""
        if self._link is None:
            return PipelineError(f"{where}{self.server}: {cause}")
        failure = self._link.error(cause)
        return PipelineError(f"{where}{failure}", hint=failure.hint)

    def cut(self) -> None:
        """Close the connection while a stage waits for it."""
        if self._link is not None:
            self._link.cut()

    def close(self) -> None:
        """End the session."""
        if self._link is not None:
            self._link.close()


class RemoteRunner(Runner):
    """Sends a stage's inputs to its server and receives its outputs."""

    def __init__(
        self, host: RemoteHost, root: Path, entry: Mapping[str, Any], outputs: Sequence[Port]
    ) -> None:
        """Upload and load the stage. ``entry`` is its entry in pipeline.json.

        Raises PipelineError if the server cannot be reached or refuses the stage.
        """
        self._host = host
        self._root = root
        self._name: str = entry["name"]
        self._stage: Mapping[str, Any] = entry["stage"]
        self._outputs = tuple(outputs)
        self._link = host.link
        try:
            self._far = self._link.call(self._open, self._link)
        except CALL_ERRORS as cause:
            raise host.error(cause, self._name) from cause

    def run(self, inputs: Sequence[Array]) -> Sequence[Any]:
        """Compute one frame on the server; raise PipelineError that names the server.

        Each array has the dtype and shape of its port.
        """
        try:
            found: Sequence[Any] = self._link.call(self._far.run, inputs)
            return found
        except CALL_ERRORS as cause:
            raise self._host.error(cause) from cause

    def replace(self, parameters: Mapping[str, Array], first_frame: int) -> None:
        """Send new parameters; frames in flight keep the old ones.

        Each array has the dtype and shape of its parameter.
        """
        try:
            self._link.call(self._far.replace, parameters, first_frame)
        except CALL_ERRORS as cause:
            raise self._host.error(cause) from cause

    def restart(self) -> None:
        """Send the stage again if its session was lost; raise PipelineError on failure."""
        link = self._host.link
        if link is self._link:
            self._far.restart()
            return
        try:
            if isinstance(self._far, TvmRunner):
                link.call(self._far.reopen)
            else:
                self._far = link.call(self._open, link)
            self._link = link
        except CALL_ERRORS as cause:
            raise self._host.error(cause, self._name) from cause

    def interrupt(self) -> None:
        """Close the connection."""
        self._host.cut()

    def close(self) -> None:
        """End the session."""
        self._host.close()

    def _open(self, link: Link) -> TvmRunner | _RemoteModule:
        if self._stage["kind"] == "tvm":
            executable = RemoteExecutable(
                lambda: self._host.link.remote,
                self._root / self._stage["folder"] / LIBRARY_FILE,
                self._stage["device_kind"],
                self._stage["device_index"],
            )
            parameters = load_parameters(self._root, self._stage)
            return TvmRunner(executable, self._stage["order"], parameters)
        if self._stage["kind"] == "arm":
            return _RemoteModule(self._arm_stage(link.remote), 0, self._outputs)
        bundle = self._root / self._stage["bundle"]
        names = [entry.name for entry in storage.read_manifest(bundle).stages]
        index = names.index(self._stage["stage"])
        return _RemoteModule(self._host.bundle(link, bundle), index, self._outputs)

    def _arm_stage(self, remote: Any) -> Any:
        folder = self._root / self._stage["folder"]
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                remote.upload(str(file), str(Path(self._name) / file.relative_to(folder)))
        return remote.get_function("edgepipe.open_stage")(self._name)


class _RemoteModule(Runner):
    """An ARM stage, or a stage of a bundle, opened by edgepipe-rpcd."""

    def __init__(self, module: Any, index: int, outputs: Sequence[Port]) -> None:
        self._kept = module  # kept until the session ends
        self._index, self._outputs = index, outputs
        self._call_stage = module["call_stage"]

    def run(self, inputs: Sequence[Array]) -> Sequence[Any]:
        """Send all inputs and receive all outputs in one call."""
        found = self._call_stage(self._index, *(array.tobytes() for array in inputs))
        return _split(np.frombuffer(bytes(found), np.uint8), self._outputs)

    def restart(self) -> None:
        """Do nothing: such a stage has no state between frames."""


def _split(content: NDArray[np.uint8], ports: Sequence[Port]) -> list[Array]:
    """Return one array for each port from their consecutive bytes."""
    ends = np.cumsum([port.bytes for port in ports])
    if content.size != int(ends[-1]):
        raise PipelineError(f"it returned {content.size} bytes, expected {int(ends[-1])}")
    parts = np.split(content, ends[:-1])
    return [as_port(part, port) for part, port in zip(parts, ports, strict=True)]

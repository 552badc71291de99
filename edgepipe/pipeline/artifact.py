"""A built pipeline: a movable folder with pipeline.json and the files of every stage.

    built = config.build()
    built.export("exported")
    with load("exported").start() as pipeline: ...

``exported_description.py`` and ``cpp_runtime/src/session/pipeline_description.cc`` read
pipeline.json; its paths are relative.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from edgepipe import scratch
from edgepipe.bundle.storage import digest
from edgepipe.errors import PipelineError
from edgepipe.integers import slot_count
from edgepipe.pipeline import exported_description
from edgepipe.pipeline.exported_description import DESCRIPTION_FILE, FORMAT
from edgepipe.pipeline.hosted import HostedStage, PythonRunner, Runner, TvmRunner
from edgepipe.pipeline.python_stages import PythonStage, export_function, load_function
from edgepipe.pipeline.remote import RemoteHost, RemoteRunner
from edgepipe.pipeline.stage import Stage
from edgepipe.rpc.link import RpcServer
from edgepipe.runtime.device_options import device_options
from edgepipe.runtime.library import call
from edgepipe.runtime.pipeline import TRACE_SPANS, Pinning, Pipeline
from edgepipe.runtime.ports import Port


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """A checked graph: tensors by name, ``reads`` one for each port of a stage."""

    name: str
    inputs: Mapping[str, Port]
    outputs: tuple[str, ...]
    stages: tuple[Stage, ...]
    reads: Mapping[Stage, tuple[str, ...]]
    parameter_groups: Mapping[str, str]


class BuiltPipeline:
    """The result of ``PipelineConfig.build`` and ``load``; it can be started any number of times.

    ``functions`` are the Python functions of this process by stage; the code of other stages is in
    ``folder``.
    """

    def __init__(
        self,
        folder: Path,
        description: dict[str, Any],
        functions: Mapping[str, Callable[..., Any]],
    ) -> None:
        self.folder = folder
        self._functions = dict(functions)
        self._description = description

    @property
    def input_map(self) -> dict[str, tuple[tuple[str, str], ...]]:
        """Return, for each input of the pipeline, the stages' inputs that it feeds.

        A stage's input is a pair: the stage's name and the input's name.
        """
        found = self._description
        readers: dict[str, list[tuple[str, str]]] = {name: [] for name in found["inputs"]}
        for entry in found["stages"]:
            for tensor, name in zip(entry["inputs"], entry["input_names"], strict=True):
                if tensor in readers:
                    readers[tensor].append((entry["name"], name))
        return {name: tuple(ends) for name, ends in readers.items()}

    def start(
        self,
        *,
        serial: bool = False,
        slots: int | None = None,
        pinning: Pinning = Pinning.REQUIRED,
        device: str = "auto",
        trace: bool = False,
        device_timeout_s: float | None = None,
        device_hangs: tuple[int, int] = (3, 20),
        device_trial: int = 100,
    ) -> Pipeline:
        """Load the stages and start a thread for each, on the stage's cores.

        ``slots`` is the number of frames in flight, including results that have not been taken; by
        default one per stage and eight for the caller. ``serial`` runs all stages on one thread.
        ``device`` runs VTA stages; ``device_timeout_s``, ``device_hangs`` and ``device_trial`` say
        what happens when it hangs, as in ``edgepipe.load``. ``trace`` records a trace for
        ``write_trace``. Raises RuntimeFailure with the message from C++, PipelineError for a
        missing device.
        """
        count = slot_count(slots)
        found = self._description
        ports = {entry["name"]: _port(entry) for entry in found["tensors"]}
        hosts: dict[RpcServer, RemoteHost] = {}
        hosted: list[HostedStage] = []
        try:
            for entry in found["stages"]:
                outputs = tuple(ports[name] for name in entry["outputs"])
                if runner := self._runner(entry, outputs, hosts):
                    inputs = tuple(ports[name] for name in entry["inputs"])
                    hosted.append(
                        HostedStage(
                            name=entry["name"], inputs=inputs, outputs=outputs, runner=runner
                        )
                    )
            options = {
                "serial": serial,
                "slots": count or len(found["stages"]) + 8,
                "pinning": pinning,
                "trace_spans": TRACE_SPANS if trace else 0,
                **device_options(device, device_timeout_s, device_hangs, device_trial),
            }
            functions = [part for stage in hosted for part in (stage.name, stage)]
            module = call(
                "load_pipeline", os.fsencode(self.folder), json.dumps(options), *functions
            )
            runners = {stage.name: stage.runner for stage in hosted}
            return Pipeline(module, runners=runners, keep=self)
        except BaseException:
            for host in hosts.values():
                host.close()
            raise

    def _runner(
        self,
        entry: Mapping[str, Any],
        outputs: tuple[Port, ...],
        hosts: dict[RpcServer, RemoteHost],
    ) -> Runner | None:
        """Return the runner of a stage that runs in Python, None for one that runs in C++."""
        if entry["kind"] == "tvm" and entry["device_kind"] != "cpu":
            return TvmRunner.load(self.folder, entry)
        if entry["kind"] == "python":
            return PythonRunner(self._functions[entry["name"]])
        if entry["kind"] == "remote":
            server = RpcServer(**entry["server"])
            host = hosts.setdefault(server, RemoteHost(server))
            return RemoteRunner(host, self.folder, entry, outputs)
        return None

    def export(self, folder: str | Path) -> Path:
        """Copy everything into a new ``folder``, which can be moved anywhere, and return its path.

        A Python function is exported by its name if importing that name gives exactly this
        function, otherwise by value (cloudpickle), for the same minor version of Python. Raises
        PipelineError if the folder exists or cannot be written, or if a function cannot be copied.
        In these cases nothing is left behind.
        """
        target = Path(folder)
        if target.exists():
            raise PipelineError(f"{target}: already exists", hint="choose a new folder")
        unfinished = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            with scratch.removed_if_killed(unfinished):
                try:
                    shutil.copytree(self.folder, unfinished)
                    self._export_functions(unfinished)
                    unfinished.rename(target)
                finally:
                    shutil.rmtree(unfinished, ignore_errors=True)
        except (OSError, shutil.Error) as cause:
            raise PipelineError(
                f"{target}: cannot be written ({cause})",
                hint="choose another folder, free some space, or fix the permissions",
            ) from cause
        return target

    def _export_functions(self, root: Path) -> None:
        description = _read_description(root)
        for entry in description["stages"]:
            if entry["kind"] == "python":
                function, folder = self._functions[entry["name"]], entry["folder"]
                for key in ("function", "pickle", "python"):
                    entry.pop(key, None)
                entry |= export_function(entry["name"], function, root, folder)
        _write_description(root, description)


def load(folder: str | Path) -> BuiltPipeline:
    """Open an exported folder and check its files.

    Loading imports modules and unpickles functions, which runs code from the folder's author: load
    only what you trust. The digests detect damage, not malice. Raises PipelineError for a damaged
    ``pipeline.json``, a missing or modified file, another format, and a function that cannot be
    imported or was exported by another version of Python.
    """
    root = Path(folder)
    try:
        found = _read_description(root)
        for entry in found["files"]:
            path = root / entry["path"]
            # Opening a pipe would wait for its writer.
            if not path.is_file() and path.exists():
                raise PipelineError(
                    f"{path}: is not a regular file", hint="export the pipeline again"
                )
            if digest(path.read_bytes()) != entry["sha256"]:
                raise PipelineError(
                    f"{path}: is not the file that was exported",
                    hint="export the pipeline again",
                )
    except OSError as cause:
        raise PipelineError(
            f"{cause.filename}: cannot be read ({cause.strerror})",
            hint="name the folder of an exported pipeline, with all its files",
        ) from cause
    functions = {
        entry["name"]: load_function(entry["name"], entry, root)
        for entry in found["stages"]
        if entry["kind"] == "python"
    }
    return BuiltPipeline(root, found, functions)


def build_wiring(wiring: Wiring) -> BuiltPipeline:
    """Compile the stages of a checked graph into a temporary folder.

    The folder is removed with the result, at the latest when the process ends for any reason.
    """
    root = scratch.new_folder("pipeline")
    try:
        _write(wiring, root)
        description = _read_description(root)
    except BaseException:
        scratch.remove(root)
        raise
    functions = {s.name: s.function for s in wiring.stages if isinstance(s, PythonStage)}
    built = BuiltPipeline(root, description, functions)
    scratch.remove_after(built, root)
    return built


def _write(wiring: Wiring, root: Path) -> None:
    tensors = [asdict(port) | {"name": name} for name, port in wiring.inputs.items()]
    stages = []
    for index, stage in enumerate(wiring.stages):
        folder = f"stages/{index}_{stage.name}"
        (root / folder).mkdir(parents=True)
        written = [f"{stage.name}.{port.name}" for port in stage.outputs]
        tensors += [
            asdict(port) | {"name": name} for name, port in zip(written, stage.outputs, strict=True)
        ]
        entry = {
            "name": stage.name,
            "inputs": list(wiring.reads[stage]),
            "input_names": [port.name for port in stage.inputs],
            "outputs": written,
            "cores": list(stage.cores),
        }
        stages.append(entry | stage.write(root, folder))
    _write_description(
        root,
        {
            "format": FORMAT,
            "name": wiring.name,
            "tensors": tensors,
            "inputs": list(wiring.inputs),
            "outputs": list(wiring.outputs),
            "stages": stages,
            "parameter_groups": dict(wiring.parameter_groups),
        },
    )


def _read_description(root: Path) -> dict[str, Any]:
    return exported_description.parse((root / DESCRIPTION_FILE).read_bytes(), str(root))


def _write_description(root: Path, description: dict[str, Any]) -> None:
    """Write pipeline.json with the digests of the folder's other files."""
    (root / DESCRIPTION_FILE).unlink(missing_ok=True)
    files = sorted(path for path in root.rglob("*") if path.is_file())
    description["files"] = [
        {"path": str(path.relative_to(root)), "sha256": digest(path.read_bytes())} for path in files
    ]
    (root / DESCRIPTION_FILE).write_text(json.dumps(description, indent=1) + "\n")


def _port(entry: Mapping[str, Any]) -> Port:
    return Port(
        name=entry["name"],
        dtype=entry["dtype"],
        shape=tuple(entry["shape"]),
        layout=entry["layout"],
        bytes=entry["bytes"],
    )

"""A built pipeline: a folder with pipeline.json and every stage's files, that can be moved.

    built = config.build()
    built.export("exported")
    with load("exported").start() as pipeline: ...

``cpp_runtime/src/session/pipeline_description.cc`` reads pipeline.json; its paths are relative.
"""

from __future__ import annotations

import importlib
import json
import operator
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from edgepipe.bundle.storage import digest
from edgepipe.errors import PipelineError
from edgepipe.pipeline.hosted import HostedStage, PythonRunner, Runner, TvmRunner
from edgepipe.pipeline.remote import RemoteHost, RemoteRunner
from edgepipe.pipeline.stages import PythonStage, Stage
from edgepipe.rpc.link import RpcServer
from edgepipe.runtime.library import call
from edgepipe.runtime.pipeline import TRACE_SPANS, Pinning, Pipeline
from edgepipe.runtime.ports import Port

FORMAT = 2
DESCRIPTION_FILE = "pipeline.json"


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
    """What ``PipelineConfig.build`` and ``load`` return; any number of runs start from it.

    ``functions`` are the Python functions of this process by stage; other stages' code is in
    ``folder``.
    """

    def __init__(self, folder: Path, functions: Mapping[str, Callable[..., Any]]) -> None:
        self.folder = folder
        self._functions = dict(functions)
        self._description: dict[str, Any] = json.loads((folder / DESCRIPTION_FILE).read_bytes())

    def start(
        self,
        *,
        serial: bool = False,
        slots: int | None = None,
        pinning: Pinning = Pinning.REQUIRED,
        device: str = "auto",
        trace: bool = False,
    ) -> Pipeline:
        """Load the stages and start a thread for each, on the cores that the stage names.

        ``slots`` is how many frames are under way at once, results that were not taken included;
        by default one per stage and eight for the caller. ``serial`` runs all stages on one thread.
        ``device`` runs VTA stages, ``trace`` records what ``write_trace`` writes.
        Raises RuntimeFailure with the C++ text, PipelineError for a device that is not there.
        """
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
                "slots": slots or len(found["stages"]) + 8,
                "pinning": pinning,
                "device": device,
                "trace_spans": TRACE_SPANS if trace else 0,
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
        """Return what runs a stage from Python, None for one that C++ runs."""
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
        """Copy everything into a new ``folder``, which can be moved to any place, and return it.

        Raises PipelineError when it exists, and for a Python function that no other process could
        import: a lambda, a local function, one of ``__main__``.
        """
        target = Path(folder)
        for entry in self._description["stages"]:
            if entry["kind"] == "python" and not entry["function"]:
                raise PipelineError(
                    f"stage {entry['name']!r}: its function cannot be imported by another process",
                    hint="define it at the top of a module",
                )
        if target.exists():
            raise PipelineError(f"{target}: exists already", hint="give a folder that is not there")
        try:
            shutil.copytree(self.folder, target)
        except OSError as cause:
            raise PipelineError(f"{target}: cannot be written ({cause})") from cause
        return target


def load(folder: str | Path) -> BuiltPipeline:
    """Open an exported folder; check its files; import its Python functions, so trust it.

    Raises PipelineError for a missing or altered file, another format, or a function that cannot
    be imported.
    """
    root = Path(folder)
    try:
        found = json.loads((root / DESCRIPTION_FILE).read_bytes())
        if found["format"] != FORMAT:
            raise PipelineError(
                f"{root}: format {found['format']}, this edgepipe reads format {FORMAT}"
            )
        for entry in found["files"]:
            if digest((root / entry["path"]).read_bytes()) != entry["xxh3_128"]:
                raise PipelineError(
                    f"{root / entry['path']}: is not the file that was exported",
                    hint="export the pipeline again",
                )
        stages = found["stages"]
    except OSError as cause:
        raise PipelineError(f"{cause.filename}: cannot be read ({cause.strerror})") from cause
    except (ValueError, KeyError, TypeError) as cause:
        raise PipelineError(f"{root / DESCRIPTION_FILE}: is damaged: {cause!r}") from cause
    functions = {
        entry["name"]: _imported(entry["name"], entry["function"])
        for entry in stages
        if entry["kind"] == "python"
    }
    return BuiltPipeline(root, functions)


def build_wiring(wiring: Wiring) -> BuiltPipeline:
    """Compile the stages of a checked graph into a temporary folder, deleted with the result."""
    root = Path(tempfile.mkdtemp(prefix="edgepipe-pipeline-"))
    try:
        _write(wiring, root)
    except BaseException:
        shutil.rmtree(root)
        raise
    functions = {s.name: s.function for s in wiring.stages if isinstance(s, PythonStage)}
    built = BuiltPipeline(root, functions)
    weakref.finalize(built, shutil.rmtree, root, ignore_errors=True)
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
            "outputs": written,
            "cores": list(stage.cores),
        }
        stages.append(entry | stage.write(root, folder))
    files = sorted(path for path in root.rglob("*") if path.is_file())
    description = {
        "format": FORMAT,
        "name": wiring.name,
        "tensors": tensors,
        "inputs": list(wiring.inputs),
        "outputs": list(wiring.outputs),
        "stages": stages,
        "parameter_groups": dict(wiring.parameter_groups),
        "files": [
            {"path": str(path.relative_to(root)), "xxh3_128": digest(path.read_bytes())}
            for path in files
        ],
    }
    (root / DESCRIPTION_FILE).write_text(json.dumps(description, indent=1) + "\n")


def _imported(stage: str, name: str) -> Callable[..., Any]:
    module, _, qualified = name.partition(":")
    try:
        function: Callable[..., Any] = operator.attrgetter(qualified)(
            importlib.import_module(module)
        )
    except (ImportError, AttributeError, ValueError) as cause:
        raise PipelineError(
            f"stage {stage!r}: function {name!r} cannot be imported: {cause}",
            hint="put its module on PYTHONPATH",
        ) from cause
    return function


def _port(entry: Mapping[str, Any]) -> Port:
    return Port(
        name=entry["name"],
        dtype=entry["dtype"],
        shape=tuple(entry["shape"]),
        layout=entry["layout"],
        bytes=entry["bytes"],
    )

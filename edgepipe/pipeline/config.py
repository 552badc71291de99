"""PipelineConfig: stages of any kind, wired into a graph; every wrong wire is an error by name.

    config = PipelineConfig()
    config.inputs["data_0"] = (a, "x")
    config.connect(a, 0, b, "y")
    config.outputs.append((b, 0))
    print(config)
    with config.build().start() as pipeline: ...

An output is named by its index or its name, an input by its name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgepipe.bundle import storage
from edgepipe.errors import PipelineError
from edgepipe.names import suggest
from edgepipe.pipeline.artifact import BuiltPipeline, Wiring, build_wiring
from edgepipe.pipeline.remote import RemoteStage, remote_stage
from edgepipe.pipeline.stages import RelaxStage, Stage, bundle_stage, check_name
from edgepipe.rpc.link import RpcServer
from edgepipe.runtime.ports import Port

InputEnd = tuple[Stage, str]
OutputEnd = tuple[Stage, int | str]


@dataclass(frozen=True, slots=True)
class _StageOutput:
    stage: Stage
    index: int

    @property
    def tensor(self) -> str:
        return f"{self.stage.name}.{self.stage.outputs[self.index].name}"


_Source = str | _StageOutput  # a pipeline input by name, or a stage's output


class PipelineInputs(MutableMapping[str, tuple[InputEnd, ...]]):
    """``config.inputs``: assign ``(stage, "input")``, or a list of such to feed several."""

    def __init__(self, config: PipelineConfig) -> None:
        self._config = config
        self._ends: dict[str, tuple[InputEnd, ...]] = {}

    def __setitem__(self, name: str, ends: InputEnd | Sequence[InputEnd]) -> None:
        check_name("pipeline input", name)
        wanted: list[InputEnd] = list(ends) if isinstance(ends, list) else [ends]  # type: ignore[list-item]
        self._config._feed(name, wanted, self._ends.get(name, ()))
        self._ends[name] = tuple(wanted)

    def __getitem__(self, name: str) -> tuple[InputEnd, ...]:
        return self._ends[name]

    def __delitem__(self, name: str) -> None:
        for end in self._ends.pop(name):
            del self._config._drivers[end]

    def __iter__(self) -> Iterator[str]:
        return iter(self._ends)

    def __len__(self) -> int:
        return len(self._ends)


class PipelineOutputs(Sequence[OutputEnd]):
    """``config.outputs``: append ``(stage, output)``; the order is that of the results."""

    def __init__(self, config: PipelineConfig) -> None:
        self._config = config
        self._ends: list[_StageOutput] = []

    def append(self, end: OutputEnd) -> None:
        """Add an output of a stage; raise PipelineError when it is none."""
        stage, output = _pair("pipeline output", end)
        found = self._config._source(stage, output, "as a pipeline output")
        self._config._add(stage)
        self._ends.append(found)

    def __getitem__(self, index: int) -> OutputEnd:  # type: ignore[override]
        return self._ends[index].stage, self._ends[index].index

    def __len__(self) -> int:
        return len(self._ends)


class ParameterGroups(MutableMapping[str, Stage]):
    """``config.parameter_groups``: a name for the parameters of one Relax stage."""

    def __init__(self, config: PipelineConfig) -> None:
        self._config = config
        self._stages: dict[str, Stage] = {}

    def __setitem__(self, name: str, stage: Stage) -> None:
        compiled = stage.stage if isinstance(stage, RemoteStage) else stage
        if not isinstance(compiled, RelaxStage) or not compiled.parameters:
            raise PipelineError(
                f"parameter group {name!r}: {_name(stage)} has no parameters",
                hint="give some to relax_stage(..., parameters=...)",
            )
        self._config._add(stage)
        self._stages[name] = stage

    def __getitem__(self, name: str) -> Stage:
        return self._stages[name]

    def __delitem__(self, name: str) -> None:
        del self._stages[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._stages)

    def __len__(self) -> int:
        return len(self._stages)


class PipelineConfig:
    """A graph of stages under construction; see the module's text for an example.

    Every method raises PipelineError and changes nothing when the wire it adds is wrong.
    """

    def __init__(self, name: str = "pipeline") -> None:
        check_name("pipeline", name)
        self.name = name
        self.inputs = PipelineInputs(self)
        self.outputs = PipelineOutputs(self)
        self.parameter_groups = ParameterGroups(self)
        self._stages: list[Stage] = []  # in the order in which they were first named
        self._drivers: dict[InputEnd, _Source] = {}

    @classmethod
    def from_bundle(
        cls, bundle: str | Path, *, servers: Mapping[str, RpcServer] | None = None
    ) -> PipelineConfig:
        """Return a bundle's own pipeline, to be extended by stages before or after it.

        ``servers`` names the stages that run on RPC servers, and these.
        """
        manifest = storage.read_manifest(Path(bundle))
        elsewhere = dict(servers or {})
        names = [entry.name for entry in manifest.stages]
        if unknown := next((name for name in elsewhere if name not in names), None):
            raise PipelineError(
                f"bundle {bundle}: has no stage {unknown!r}", hint=suggest(unknown, names)
            )
        config = cls(manifest.name)
        makers: dict[str, tuple[Stage, int]] = {}
        readers: dict[str, list[InputEnd]] = {name: [] for name in manifest.inputs}
        for entry in manifest.stages:
            stage: Stage = bundle_stage(bundle, entry.name)
            if entry.name in elsewhere:
                stage = remote_stage(stage, elsewhere[entry.name])
            config._add(stage)
            for tensor in entry.inputs:
                if tensor in makers:
                    config.connect(*makers[tensor], stage, tensor)
                else:
                    readers[tensor].append((stage, tensor))
            makers |= {tensor: (stage, i) for i, tensor in enumerate(entry.outputs)}
        for name, ends in readers.items():
            config.inputs[name] = ends
        for name in manifest.outputs:
            config.outputs.append(makers[name])
        return config

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Return the stages in the order in which they were first named."""
        return tuple(self._stages)

    def stage(self, name: str) -> Stage:
        """Return the stage of that name; raise PipelineError that suggests others."""
        for stage in self._stages:
            if stage.name == name:
                return stage
        raise PipelineError(
            f"pipeline {self.name!r}: has no stage {name!r}",
            hint=suggest(name, [stage.name for stage in self._stages]),
        )

    def connect(
        self, source: Stage, output: int | str, destination: Stage, input_name: str
    ) -> None:
        """Let ``destination`` read its input ``input_name`` from an output of ``source``."""
        self._refuse_border(source, destination)
        found = self._source(source, output, "as a source")
        end = self._input_end(destination, input_name)
        if source is destination:
            raise PipelineError(
                f"stage {source.name!r}: its output {output!r} is connected to its own input "
                f"{input_name!r}",
                hint="a stage reads only what other stages have made of the same frame",
            )
        self._check_free(end)
        made, wanted = source.outputs[found.index], _port(destination, input_name)
        _check_types(found.tensor, made, end, wanted)
        if path := self._path(destination, source):
            names = " -> ".join(stage.name for stage in [source, *path])
            raise PipelineError(
                f"{found.tensor} -> {destination.name}.{input_name} closes a cycle: {names}",
                hint="a frame passes every stage once",
            )
        self._add(source)
        self._add(destination)
        self._drivers[end] = found

    def validate(self) -> Wiring:
        """Return the complete wiring, stages in an order in which they can run.

        Raises PipelineError for a pipeline without input or output, and for an input of a stage
        that nothing feeds.
        """
        where = f"pipeline {self.name!r}"
        if not self.inputs:
            raise PipelineError(
                f"{where}: has no input", hint='config.inputs["data"] = (stage, "x")'
            )
        if not self.outputs:
            raise PipelineError(f"{where}: has no output", hint="config.outputs.append((stage, 0))")
        for stage in self._stages:
            for port in stage.inputs:
                if (stage, port.name) not in self._drivers:
                    raise PipelineError(
                        f"{stage.name}.{port.name}: nothing feeds this input",
                        hint="connect an output of a stage to it, or a pipeline input",
                    )
        return Wiring(
            name=self.name,
            inputs={name: _port(*ends[0]) for name, ends in self.inputs.items()},
            outputs=tuple(end.tensor for end in self.outputs._ends),
            stages=tuple(self._ordered()),
            reads={
                stage: tuple(self._tensor(stage, port) for port in stage.inputs)
                for stage in self._stages
            },
            parameter_groups={name: s.name for name, s in self.parameter_groups.items()},
        )

    def build(self) -> BuiltPipeline:
        """Check the whole, compile what is to be compiled, and return the result.

        Raises PipelineError, and CodegenError for a Relax module that ARM kernels cannot express.
        """
        return build_wiring(self.validate())

    def __str__(self) -> str:
        lines = [f"pipeline {self.name}"]
        lines += ["  inputs"]
        for name, ends in self.inputs.items():
            fed = ", ".join(f"{stage.name}.{port}" for stage, port in ends)
            lines.append(f"    {name}: {_port(*ends[0]).type_text} -> {fed}")
        lines += ["  stages"]
        for stage in self._ordered():
            core = f" on core {', '.join(map(str, stage.cores))}" if stage.cores else ""
            where = f" on {stage.server}" if isinstance(stage, RemoteStage) else ""
            lines.append(f"    {stage.name} ({type(stage).__name__}{where}{core})")
            lines += [
                f"      {port.name}: {port.type_text} <- {self._tensor(stage, port) or 'nothing'}"
                for port in stage.inputs
            ]
        lines += ["  outputs"]
        for index, end in enumerate(self.outputs._ends):
            lines.append(f"    {index}: {end.stage.outputs[end.index].type_text} <- {end.tensor}")
        return "\n".join(lines)

    # ---- the rules

    def _tensor(self, stage: Stage, port: Port) -> str:
        driver = self._drivers.get((stage, port.name), "")
        return driver if isinstance(driver, str) else driver.tensor

    def _add(self, stage: Stage) -> None:
        if stage in self._stages:
            return
        if any(known.name == stage.name for known in self._stages):
            raise PipelineError(
                f"pipeline {self.name!r}: two stages are called {stage.name!r}",
                hint="give one of them another name",
            )
        self._stages.append(stage)

    def _feed(self, name: str, wanted: list[InputEnd], old: tuple[InputEnd, ...]) -> None:
        if not wanted:
            raise PipelineError(f"pipeline input {name!r}: feeds no stage")
        ends: list[InputEnd] = []
        for given in wanted:
            stage, port = _pair(f"pipeline input {name!r}", given)
            end = self._input_end(stage, port)
            if end in ends:
                raise PipelineError(f"pipeline input {name!r}: feeds {stage.name}.{port} twice")
            if end not in old:
                self._check_free(end)
            first = _port(*(ends[0] if ends else end))
            _check_types(f"pipeline input {name!r}", first, end, _port(*end))
            ends.append(end)
        for end in old:
            del self._drivers[end]
        for end in ends:
            self._add(end[0])
            self._drivers[end] = name

    def _source(self, stage: Stage, output: int | str, role: str) -> _StageOutput:
        _check_stage(stage)
        names = [port.name for port in stage.outputs]
        if isinstance(output, str):
            if output in names:
                return _StageOutput(stage, names.index(output))
            if any(port.name == output for port in stage.inputs):
                raise PipelineError(f"{stage.name}.{output}: is an input, and used {role}")
        elif 0 <= output < len(names):
            return _StageOutput(stage, output)
        outputs = ", ".join(f"{index} ({name})" for index, name in enumerate(names)) or "none"
        raise PipelineError(
            f"stage {stage.name!r}: has no output {output!r}", hint=f"its outputs: {outputs}"
        )

    def _input_end(self, stage: Stage, name: str) -> InputEnd:
        _check_stage(stage)
        names = [port.name for port in stage.inputs]
        if name in names:
            return stage, name
        is_index = isinstance(name, int) and 0 <= name < len(stage.outputs)
        if is_index or any(port.name == name for port in stage.outputs):
            raise PipelineError(
                f"stage {stage.name!r}: {name!r} is an output, and something is connected to it",
                hint=f"its inputs: {', '.join(names) or 'none'}",
            )
        raise PipelineError(
            f"stage {stage.name!r}: has no input {name!r}",
            hint=f"its inputs: {', '.join(names) or 'none'}",
        )

    def _refuse_border(self, source: object, destination: object) -> None:
        if source is self.inputs:
            raise PipelineError(
                "a pipeline input is used as a source of connect()",
                hint="config.inputs[name] = (stage, input)",
            )
        if source is self.outputs:
            raise PipelineError(
                "a pipeline output is used as a source", hint="connect the stage that makes it"
            )
        if destination is self.inputs:
            raise PipelineError(
                "a stage's output is connected to a pipeline input",
                hint="pipeline inputs are fed by the caller",
            )
        if destination is self.outputs:
            raise PipelineError(
                "a pipeline output is used as a destination of connect()",
                hint="config.outputs.append((stage, output))",
            )

    def _check_free(self, end: InputEnd) -> None:
        if end not in self._drivers:
            return
        driver = self._drivers[end]
        by = f"pipeline input {driver!r}" if isinstance(driver, str) else driver.tensor
        raise PipelineError(
            f"{end[0].name}.{end[1]}: is already fed by {by}", hint="an input has one source"
        )

    def _path(self, start: Stage, end: Stage) -> list[Stage]:
        """Return stages from ``start`` to ``end`` along connections, empty when there are none."""
        if start is end:
            return [end]
        for (reader, _), driver in self._drivers.items():
            if isinstance(driver, _StageOutput) and driver.stage is start:
                found = self._path(reader, end)
                if found:
                    return [start, *found]
        return []

    def _ordered(self) -> list[Stage]:
        """Return the stages so that each comes after those it reads; else in order of naming."""
        waiting, ordered = list(self._stages), list[Stage]()
        while waiting:
            ready = next(
                stage
                for stage in waiting
                if not any(
                    isinstance(driver, _StageOutput) and driver.stage in waiting
                    for (reader, _), driver in self._drivers.items()
                    if reader is stage
                )
            )
            waiting.remove(ready)
            ordered.append(ready)
        return ordered


def _pair(what: str, end: object) -> tuple[Stage, str]:
    if isinstance(end, tuple) and len(end) == 2:
        return end
    raise PipelineError(f"{what}: found {end!r}, expected a pair of a stage and its tensor")


def _check_stage(stage: object) -> None:
    if not isinstance(stage, Stage):
        raise PipelineError(
            f"found {type(stage).__name__}, expected a stage",
            hint="wrap a Relax module in relax_stage(), a function in python_stage()",
        )


def _name(stage: object) -> str:
    return f"stage {stage.name!r}" if isinstance(stage, Stage) else type(stage).__name__


def _port(stage: Stage, name: str) -> Port:
    return next(port for port in stage.inputs if port.name == name)


def _check_types(source: str, made: Port, end: InputEnd, wanted: Port) -> None:
    if not wanted.accepts(made):
        raise PipelineError(
            f"{source} -> {end[0].name}.{end[1]}: found {made.type_text}, "
            f"expected {wanted.type_text}"
        )

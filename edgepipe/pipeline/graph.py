"""Graph: stages and wires as a value. An edit returns a new graph, or raises and changes nothing.

    graph = Graph(name="pipeline")
    graph = graph.with_wire(a, 0, b, "x")
    graph = graph.with_input("data", [(a, "x")])
    graph = graph.with_output(b, 0)

A stage belongs to the graph for as long as a wire, an output or a parameter group names it.
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from edgepipe.errors import PipelineError
from edgepipe.integers import is_whole_number
from edgepipe.names import suggest
from edgepipe.pipeline.stage import Stage, check_name
from edgepipe.runtime.ports import RESERVED_INPUT_NAMES, Port

InputEnd = tuple[Stage, str]


@dataclass(frozen=True, slots=True)
class StageOutput:
    """An output of a stage, by its index."""

    stage: Stage
    index: int

    @property
    def port(self) -> Port:
        """The port of the output."""
        return self.stage.outputs[self.index]

    @property
    def tensor(self) -> str:
        """The tensor's name in the pipeline, ``stage.output``."""
        return f"{self.stage.name}.{self.port.name}"


Source = str | StageOutput  # a pipeline input by name, or a stage's output


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """Stages in the order in which they were first named, and the source of each input."""

    name: str
    stages: tuple[Stage, ...] = ()
    drivers: Mapping[InputEnd, Source] = field(default_factory=lambda: MappingProxyType({}))
    inputs: tuple[str, ...] = ()
    outputs: tuple[StageOutput, ...] = ()
    groups: Mapping[str, Stage] = field(default_factory=lambda: MappingProxyType({}))

    # ---- edits

    def with_wire(
        self, source: object, output: object, destination: object, input_name: object
    ) -> Graph:
        """Let an input of ``destination`` read an output of ``source``.

        Raises PipelineError for an input that is fed already, for other types, and for a cycle.
        """
        found = stage_output(source, output, "as a source")
        end = input_end(destination, input_name)
        if found.stage is end[0]:
            raise PipelineError(
                f"stage {end[0].name!r}: its output {output!r} is connected to its own input "
                f"{end[1]!r}",
                hint="a stage reads only the results of other stages for the same frame",
            )
        self._check_free(end)
        _check_types(found.tensor, found.port, end)
        if path := self._path(end[0], found.stage):
            names = " -> ".join(stage.name for stage in [found.stage, *path])
            raise PipelineError(
                f"{found.tensor} -> {_text(end)} closes a cycle: {names}",
                hint="a frame passes every stage once",
            )
        return self._edited((found.stage, end[0]), drivers={**self.drivers, end: found})

    def without_wire(self, destination: object, input_name: object) -> Graph:
        """Remove the wire that feeds an input from another stage.

        Raises PipelineError for an input that no stage feeds.
        """
        end = input_end(destination, input_name)
        driver = self.drivers.get(end)
        if driver is None:
            raise PipelineError(
                f"{_text(end)}: is not connected", hint="print(config) lists the connections"
            )
        if isinstance(driver, str):
            raise PipelineError(
                f"{_text(end)}: is fed by pipeline input {driver!r}, not by a stage",
                hint=f"del config.inputs[{driver!r}], or assign it other inputs",
            )
        return self._edited(drivers=_without(self.drivers, [end]))

    def with_input(self, name: object, wanted: Sequence[object]) -> Graph:
        """Let a pipeline input feed ``wanted``, pairs of a stage and an input, and nothing else.

        Raises PipelineError for a reserved name, no stage, a stage's input named twice or fed
        already, and for inputs of different types.
        """
        known = check_name("pipeline input", name)
        what = f"pipeline input {known!r}"
        if known in RESERVED_INPUT_NAMES:
            raise PipelineError(
                f"{what}: is the name of an argument of run() and submit()",
                hint="give the input another name",
            )
        if not wanted:
            raise PipelineError(
                f"{what}: feeds no stage", hint="del config.inputs[name] removes an input"
            )
        ends: list[InputEnd] = []
        for given in wanted:
            end = input_end(*pair_of(what, given))
            if end in ends:
                raise PipelineError(f"{what}: feeds {_text(end)} twice", hint="name it once")
            if self.drivers.get(end) != known:
                self._check_free(end)
            _check_types(what, port_of((ends or [end])[0]), end)
            ends.append(end)
        rest = _without(self.drivers, self.fed_by(known))
        return self._edited(
            [stage for stage, _ in ends],
            drivers=rest | dict.fromkeys(ends, known),
            inputs=self.inputs if known in self.inputs else (*self.inputs, known),
        )

    def without_input(self, name: str) -> Graph:
        """Remove a pipeline input and its wires; raise KeyError for an unknown one."""
        if name not in self.inputs:
            raise KeyError(name)
        return self._edited(
            drivers=_without(self.drivers, self.fed_by(name)),
            inputs=tuple(known for known in self.inputs if known != name),
        )

    def with_output(self, stage: object, output: object) -> Graph:
        """Add an output of a stage to the pipeline's outputs, after the existing ones."""
        found = stage_output(stage, output, "as a pipeline output")
        return self._edited((found.stage,), outputs=(*self.outputs, found))

    def without_outputs(self, indices: Sequence[int]) -> Graph:
        """Remove the pipeline outputs of these indices; the others keep their order."""
        return self._edited(
            outputs=tuple(end for i, end in enumerate(self.outputs) if i not in indices)
        )

    def with_group(self, name: object, stage: Stage) -> Graph:
        """Name the parameters of a stage, which the caller has checked."""
        known = check_name("parameter group", name)
        return self._edited((stage,), groups={**self.groups, known: stage})

    def without_group(self, name: str) -> Graph:
        """Remove a parameter group; raise KeyError for an unknown one."""
        groups = dict(self.groups)
        del groups[name]
        return self._edited(groups=groups)

    # ---- queries

    def stage(self, name: str) -> Stage:
        """Return the stage of that name; raise PipelineError that suggests others."""
        for stage in self.stages:
            if stage.name == name:
                return stage
        raise PipelineError(
            f"pipeline {self.name!r}: has no stage {name!r}",
            hint=suggest(str(name), [stage.name for stage in self.stages]),
        )

    def fed_by(self, name: str) -> tuple[InputEnd, ...]:
        """Return the stages' inputs that a pipeline input feeds."""
        return tuple(end for end, driver in self.drivers.items() if driver == name)

    def tensor(self, end: InputEnd) -> str:
        """Return the name of the tensor that an input reads, empty if nothing feeds it."""
        driver = self.drivers.get(end, "")
        return driver if isinstance(driver, str) else driver.tensor

    def wires(self) -> Iterator[tuple[StageOutput, InputEnd]]:
        """Yield every wire between two stages, in the order in which they run."""
        for stage in self.ordered():
            for index in range(len(stage.outputs)):
                output = StageOutput(stage, index)
                for end, driver in self.drivers.items():
                    if driver == output:
                        yield output, end

    def ordered(self) -> tuple[Stage, ...]:
        """Return the stages with each after those it reads, otherwise in the order of naming."""
        waiting, ordered = list(self.stages), list[Stage]()
        while waiting:
            ready = next(
                stage
                for stage in waiting
                if not any(
                    isinstance(driver, StageOutput) and driver.stage in waiting
                    for (reader, _), driver in self.drivers.items()
                    if reader is stage
                )
            )
            waiting.remove(ready)
            ordered.append(ready)
        return tuple(ordered)

    def check_complete(self) -> None:
        """Raise PipelineError if there is no input or output, or if nothing feeds an input."""
        where = f"pipeline {self.name!r}"
        if not self.inputs:
            raise PipelineError(
                f"{where}: has no input", hint='config.inputs["data"] = (stage, "x")'
            )
        if not self.outputs:
            raise PipelineError(f"{where}: has no output", hint="config.outputs.append((stage, 0))")
        for stage in self.stages:
            for port in stage.inputs:
                if (stage, port.name) not in self.drivers:
                    raise PipelineError(
                        f"{stage.name}.{port.name}: nothing feeds this input",
                        hint="connect an output of a stage to it, or a pipeline input",
                    )

    def _edited(self, named: Sequence[Stage] = (), **changes: Any) -> Graph:
        """Return a graph with these changes and only the stages that are still connected."""
        new = replace(self, **changes)
        used: set[Stage] = {end.stage for end in new.outputs} | set(new.groups.values())
        for (reader, _), driver in new.drivers.items():
            used |= {reader} if isinstance(driver, str) else {reader, driver.stage}
        stages: list[Stage] = []
        for stage in (*self.stages, *named):
            if stage in stages or stage not in used:
                continue
            if any(known.name == stage.name for known in stages):
                raise PipelineError(
                    f"pipeline {self.name!r}: two stages are called {stage.name!r}",
                    hint="give one of them another name",
                )
            stages.append(stage)
        return replace(new, stages=tuple(stages))

    def _check_free(self, end: InputEnd) -> None:
        if end not in self.drivers:
            return
        driver = self.drivers[end]
        by = f"pipeline input {driver!r}" if isinstance(driver, str) else driver.tensor
        raise PipelineError(
            f"{_text(end)}: is already fed by {by}",
            hint="an input has one source: remove the other one first",
        )

    def _path(self, start: Stage, end: Stage) -> list[Stage]:
        """Return the stages on a path from ``start`` to ``end``, empty if there is none."""
        paths: deque[list[Stage]] = deque([[start]])
        seen = {start}
        while paths:
            path = paths.popleft()
            if path[-1] is end:
                return path
            for (reader, _), driver in self.drivers.items():
                follows = isinstance(driver, StageOutput) and driver.stage is path[-1]
                if follows and reader not in seen:
                    seen.add(reader)
                    paths.append([*path, reader])
        return []


def stage_output(stage: object, output: object, role: str) -> StageOutput:
    """Return the output of a stage by index or name; raise PipelineError that lists them."""
    found = _checked_stage(stage)
    names = [port.name for port in found.outputs]
    listed = ", ".join(f"{index} ({name})" for index, name in enumerate(names)) or "none"
    hint = f"its outputs: {listed}"
    if isinstance(output, str):
        if output in names:
            return StageOutput(found, names.index(output))
        if any(port.name == output for port in found.inputs):
            raise PipelineError(f"{found.name}.{output}: is an input, and used {role}", hint=hint)
        raise PipelineError(f"stage {found.name!r}: has no output {output!r}", hint=hint)
    if not is_whole_number(output):
        raise PipelineError(
            f"stage {found.name!r}: output is {output!r}, expected an index or a name", hint=hint
        )
    index = operator.index(output)
    if not 0 <= index < len(names):
        raise PipelineError(f"stage {found.name!r}: has no output {index}", hint=hint)
    return StageOutput(found, index)


def input_end(stage: object, name: object) -> InputEnd:
    """Return the input of a stage by its name; raise PipelineError that lists them."""
    found = _checked_stage(stage)
    names = [port.name for port in found.inputs]
    hint = f"its inputs: {', '.join(names) or 'none'}"
    if isinstance(name, str) and name in names:
        return found, name
    is_index = type(name) is int and 0 <= name < len(found.outputs)
    if is_index or any(port.name == name for port in found.outputs):
        raise PipelineError(
            f"stage {found.name!r}: {name!r} is an output, and something is connected to it",
            hint=hint,
        )
    if not isinstance(name, str):
        raise PipelineError(
            f"stage {found.name!r}: an input's name is {name!r}, expected text", hint=hint
        )
    raise PipelineError(f"stage {found.name!r}: has no input {name!r}", hint=hint)


def port_of(end: InputEnd) -> Port:
    """Return the port of a stage's input."""
    return next(port for port in end[0].inputs if port.name == end[1])


def pair_of(what: str, end: object) -> tuple[object, object]:
    """Return a pair of a stage and its tensor; raise PipelineError for anything else."""
    if isinstance(end, tuple) and len(end) == 2:
        return end
    raise PipelineError(
        f"{what}: found {end!r}, expected a pair of a stage and its tensor",
        hint='for example (stage, "x")',
    )


def _checked_stage(stage: object) -> Stage:
    if not isinstance(stage, Stage):
        raise PipelineError(
            f"found {type(stage).__name__}, expected a stage",
            hint="wrap a Relax module in relax_stage(), a function in python_stage()",
        )
    return stage


def _check_types(source: str, made: Port, end: InputEnd) -> None:
    wanted = port_of(end)
    if not wanted.accepts(made):
        raise PipelineError(
            f"{source} -> {_text(end)}: found {made.type_text}, expected {wanted.type_text}",
            hint="insert a stage that converts the tensor between them",
        )


def _text(end: InputEnd) -> str:
    return f"{end[0].name}.{end[1]}"


def _without(
    drivers: Mapping[InputEnd, Source], ends: Sequence[InputEnd]
) -> dict[InputEnd, Source]:
    return {end: driver for end, driver in drivers.items() if end not in ends}

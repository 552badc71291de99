"""The collections of a PipelineConfig: its inputs, its outputs and its parameter groups.

A change, even of a list, is made completely or fails with a PipelineError and has no effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from edgepipe.errors import PipelineError
from edgepipe.pipeline.graph import Graph, InputEnd, pair_of, stage_output
from edgepipe.pipeline.relax_stages import RelaxStage
from edgepipe.pipeline.remote import RemoteStage
from edgepipe.pipeline.stage import Stage

if TYPE_CHECKING:
    from edgepipe.pipeline.config import PipelineConfig

OutputEnd = tuple[Stage, int | str]


class PipelineInputs(MutableMapping[str, tuple[InputEnd, ...]]):
    """``config.inputs``: assign ``(stage, "input")``, or a list of such pairs.

    ``del config.inputs[name]`` removes an input and its wires.
    """

    def __init__(self, config: PipelineConfig) -> None:
        self._config = config

    def __setitem__(self, name: str, ends: InputEnd | Sequence[InputEnd]) -> None:
        self._config._graph = _with_input(self._config._graph, name, ends)

    def update(self, other: Any = (), /, **more: Any) -> None:
        """Assign several inputs, all or none."""
        graph = self._config._graph
        for name, ends in dict(other, **more).items():
            graph = _with_input(graph, name, ends)
        self._config._graph = graph

    def __getitem__(self, name: str) -> tuple[InputEnd, ...]:
        if name not in self._config._graph.inputs:
            raise KeyError(name)
        return self._config._graph.fed_by(name)

    def __delitem__(self, name: str) -> None:
        self._config._graph = self._config._graph.without_input(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._config._graph.inputs)

    def __len__(self) -> int:
        return len(self._config._graph.inputs)


class PipelineOutputs(Sequence[OutputEnd]):
    """``config.outputs``: append ``(stage, output)``; the order is that of the results.

    ``del config.outputs[0]`` and ``config.outputs.remove((stage, output))`` remove one.
    """

    def __init__(self, config: PipelineConfig) -> None:
        self._config = config

    def append(self, end: OutputEnd) -> None:
        """Add an output of a stage; raise PipelineError if the stage does not have it."""
        self.extend([end])

    def extend(self, ends: Iterable[OutputEnd]) -> None:
        """Add several outputs, all or none."""
        graph = self._config._graph
        for end in ends:
            graph = graph.with_output(*pair_of("pipeline output", end))
        self._config._graph = graph

    def remove(self, end: OutputEnd) -> None:
        """Remove the first equal output; raise PipelineError if there is none."""
        graph = self._config._graph
        found = stage_output(*pair_of("pipeline output", end), "as a pipeline output")
        if found not in graph.outputs:
            raise PipelineError(
                f"{found.tensor}: is not an output of the pipeline",
                hint="print(config) lists the outputs",
            )
        self._config._graph = graph.without_outputs([graph.outputs.index(found)])

    def clear(self) -> None:
        """Remove all outputs."""
        del self[:]

    def __delitem__(self, index: int | slice) -> None:
        graph = self._config._graph
        chosen = range(len(graph.outputs))[index]
        self._config._graph = graph.without_outputs([chosen] if isinstance(chosen, int) else chosen)

    @overload
    def __getitem__(self, index: int) -> OutputEnd: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[OutputEnd]: ...
    def __getitem__(self, index: int | slice) -> OutputEnd | Sequence[OutputEnd]:
        return [(end.stage, end.index) for end in self._config._graph.outputs][index]

    def __len__(self) -> int:
        return len(self._config._graph.outputs)


class ParameterGroups(MutableMapping[str, Stage]):
    """``config.parameter_groups``: a name for the parameters of one Relax stage."""

    def __init__(self, config: PipelineConfig) -> None:
        self._config = config

    def __setitem__(self, name: str, stage: Stage) -> None:
        compiled = stage.stage if isinstance(stage, RemoteStage) else stage
        if not isinstance(compiled, RelaxStage) or not compiled.parameters:
            found = f"stage {stage.name!r}" if isinstance(stage, Stage) else type(stage).__name__
            raise PipelineError(
                f"parameter group {name!r}: {found} has no parameters",
                hint="give it parameters: relax_stage(..., parameters=...)",
            )
        self._config._graph = self._config._graph.with_group(name, stage)

    def __getitem__(self, name: str) -> Stage:
        return self._config._graph.groups[name]

    def __delitem__(self, name: str) -> None:
        self._config._graph = self._config._graph.without_group(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._config._graph.groups)

    def __len__(self) -> int:
        return len(self._config._graph.groups)


def _with_input(graph: Graph, name: object, ends: object) -> Graph:
    return graph.with_input(name, ends if isinstance(ends, list) else [ends])

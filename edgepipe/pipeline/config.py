"""PipelineConfig: stages of any kind, connected to a graph; errors name every wrong connection.

    config = PipelineConfig()
    config.inputs["data_0"] = (a, "x")
    config.connect(a, 0, b, "y")
    config.outputs.append((b, 0))
    print(config)
    with config.build().start() as pipeline: ...

    config.disconnect(b, "y")  # wires, inputs and outputs can be removed again
    del config.inputs["data_0"]
    config.outputs.remove((b, 0))

An output is named by its index or its name, an input by its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from edgepipe.bundle import storage
from edgepipe.errors import PipelineError
from edgepipe.names import suggest
from edgepipe.pipeline.artifact import BuiltPipeline, Wiring, build_wiring
from edgepipe.pipeline.borders import ParameterGroups, PipelineInputs, PipelineOutputs
from edgepipe.pipeline.compiled_stages import bundle_stage
from edgepipe.pipeline.graph import Graph, InputEnd, port_of
from edgepipe.pipeline.remote import RemoteStage, remote_stage
from edgepipe.pipeline.stage import Stage, check_name
from edgepipe.rpc.link import RpcServer


class PipelineConfig:
    """A graph of stages under construction.

        config = PipelineConfig()
        config.inputs["picture"] = (stem, "x")  # a stage's input by its name
        config.connect(stem, 0, head, "features")  # an output by its index or name
        config.outputs.append((head, "scores"))
        print(config)  # every wire, with shapes and dtypes
        with config.build().start() as pipeline: ...

    Every change, even of several connections, is made completely, or raises PipelineError and has
    no effect. A stage without any connection is no longer part of the pipeline.
    """

    def __init__(self, name: str = "pipeline") -> None:
        self._graph = Graph(name=check_name("pipeline", name))
        self._inputs = PipelineInputs(self)
        self._outputs = PipelineOutputs(self)
        self._parameter_groups = ParameterGroups(self)

    @classmethod
    def from_bundle(
        cls, bundle: str | Path, *, servers: Mapping[str, RpcServer] | None = None
    ) -> PipelineConfig:
        """Return a bundle's own pipeline, which can be extended by further stages.

        ``servers`` maps the names of stages that run on an RPC server to that server. Raises
        PipelineError for a stage that the bundle does not have.
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
    def name(self) -> str:
        """Return the pipeline's name."""
        return self._graph.name

    @property
    def inputs(self) -> PipelineInputs:
        """Return the pipeline's inputs by name, with the stages' inputs that each feeds."""
        return self._inputs

    @property
    def outputs(self) -> PipelineOutputs:
        """Return the stages' outputs that leave the pipeline, in the order of the results."""
        return self._outputs

    @property
    def parameter_groups(self) -> ParameterGroups:
        """Return the stages whose parameters can be replaced, by the groups' names."""
        return self._parameter_groups

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Return the stages in the order in which they were first named."""
        return self._graph.stages

    def stage(self, name: str) -> Stage:
        """Return the stage of that name; raise PipelineError that suggests others."""
        return self._graph.stage(name)

    def connect(
        self, source: Stage, output: int | str, destination: Stage, input_name: str
    ) -> None:
        """Let ``destination`` read its input ``input_name`` from an output of ``source``.

        Raises PipelineError for an output or input that does not exist, tensors of other dtypes,
        shapes or layouts, an input that is fed already, and a cycle.
        """
        self._refuse_border(source, destination)
        self._graph = self._graph.with_wire(source, output, destination, input_name)

    def disconnect(self, destination: Stage, input_name: str) -> None:
        """Remove the wire from another stage to ``destination``'s input ``input_name``.

        Raises PipelineError if no stage feeds that input.
        """
        self._graph = self._graph.without_wire(destination, input_name)

    def validate(self) -> Wiring:
        """Return the complete graph, with the stages in an order in which they can run.

        Raises PipelineError for a pipeline without input or output, and for an input of a stage
        that nothing feeds.
        """
        graph = self._graph
        graph.check_complete()
        return Wiring(
            name=graph.name,
            inputs={name: port_of(graph.fed_by(name)[0]) for name in graph.inputs},
            outputs=tuple(end.tensor for end in graph.outputs),
            stages=graph.ordered(),
            reads={
                stage: tuple(graph.tensor((stage, port.name)) for port in stage.inputs)
                for stage in graph.stages
            },
            parameter_groups={name: stage.name for name, stage in graph.groups.items()},
        )

    def build(self) -> BuiltPipeline:
        """Check the graph, compile its stages, and return the result.

        Raises PipelineError, and CodegenError for a Relax module that ARM kernels cannot express.
        """
        return build_wiring(self.validate())

    def __str__(self) -> str:
        graph = self._graph
        lines = [f"pipeline {graph.name}", "  inputs"]
        for name in graph.inputs:
            ends = graph.fed_by(name)
            fed = ", ".join(f"{stage.name}.{port}" for stage, port in ends)
            lines.append(f"    {name}: {port_of(ends[0]).type_text} -> {fed}")
        lines += ["  stages"]
        for stage in graph.ordered():
            core = f" on core {', '.join(map(str, stage.cores))}" if stage.cores else ""
            where = f" on {stage.server}" if isinstance(stage, RemoteStage) else ""
            lines.append(f"    {stage.name} ({type(stage).__name__}{where}{core})")
            lines += [
                f"      {port.name}: {port.type_text} <- "
                f"{graph.tensor((stage, port.name)) or 'nothing'}"
                for port in stage.inputs
            ]
        lines += ["  outputs"]
        for index, output in enumerate(graph.outputs):
            lines.append(f"    {index}: {output.port.type_text} <- {output.tensor}")
        lines += ["  connections"]
        lines += [
            f"    {output.tensor} -> {stage.name}.{port}" for output, (stage, port) in graph.wires()
        ] or ["    none"]
        return "\n".join(lines)

    def _refuse_border(self, source: object, destination: object) -> None:
        if source is self.inputs:
            raise PipelineError(
                "a pipeline input is used as a source of connect()",
                hint="config.inputs[name] = (stage, input)",
            )
        if source is self.outputs:
            raise PipelineError(
                "a pipeline output is used as a source", hint="connect the stage that computes it"
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

"""Bundles of probes: each program or kernel is a stage that can be run and timed on its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from edgepipe import __version__, scratch
from edgepipe.board_costs.arm_probes import ArmProbe
from edgepipe.boards import Board
from edgepipe.bundle import storage
from edgepipe.bundle.manifest import (
    FORMAT,
    Fingerprint,
    Golden,
    Manifest,
    Stage,
    Tensor,
    is_in_blocks,
    tensor_bytes,
)
from edgepipe.codegen.arm.layouts import Layout, blocks_of
from edgepipe.codegen.arm.stage import compile_arm_stage
from edgepipe.description import Postprocess
from edgepipe.frontend.preprocess import Preprocess
from edgepipe.partition.split import StageModule
from edgepipe.progress import Progress
from edgepipe.tvm_adapter import read_main
from vta_stages.program import Program

ProbeFiles = Mapping[str, bytes]
"""The files of a bundle by their paths in it."""


class ProbeBundle:
    """Stages that are collected, then written as one bundle. Use it once.

    ``architecture`` is that of the machine which runs them; in a trial it is not the board's.
    """

    def __init__(self, name: str, board: Board, architecture: str) -> None:
        self._name, self._board, self._architecture = name, board, architecture
        self._files: dict[str, bytes] = {}
        self._stages: list[Stage] = []
        self._tensors: dict[str, Tensor] = {}
        self._written: list[str] = []

    @property
    def files(self) -> ProbeFiles:
        """The files of all stages so far."""
        return self._files

    def add_program(self, name: str, program: Program) -> None:
        """Add a program of the accelerator; its tensors are those of its regions."""
        inputs, outputs = ([r.name for r in rs] for rs in (program.inputs, program.outputs))
        for region in (*program.inputs, *program.outputs):
            self._add_tensor(region.name, "int8", (1, region.bytes, 1, 1), "nchw")
        self._add(name, "vta", inputs, outputs, program.save)

    def add_kernels(self, name: str, probe: ArmProbe) -> None:
        """Compile a stage of the cores and add it.

        Raises CodegenError if it cannot be compiled.
        """
        output, dtype = probe.output
        for tensor, kind in probe.inputs.items():
            self._add_tensor(tensor, kind, probe.shape, "nchw")
        self._add_tensor(output, dtype, probe.shape, "nchw")
        artifact = compile_arm_stage(probe.module, arches=[self._architecture])
        self._add(name, "arm", list(probe.inputs), [output], artifact.write)

    def add_range(
        self,
        name: str,
        stage: StageModule,
        layouts: Mapping[str, str],
        program: Program | None,
        modelled_us: int,
    ) -> None:
        """Add a stage of a network: a program of the accelerator, or kernels compiled here.

        ``layouts`` are those of its tensors, ``modelled_us`` the time of kernels on the board by
        its file. Raises CodegenError if kernels cannot be compiled.
        """
        main = read_main(stage.module)
        types = {each.name: (each.shape, each.dtype) for each in main.params}
        types |= {each.name: (each.shape, each.dtype) for each in main.bindings}
        for tensor in (*stage.inputs, *stage.outputs):
            shape, dtype = types[tensor]
            self._add_tensor(tensor, dtype, shape, layouts[tensor])
        inputs, outputs = list(stage.inputs), list(stage.outputs)
        if program is not None:
            self._add(name, "vta", inputs, outputs, program.save)
            return

        def blocked(names: Sequence[str]) -> dict[str, Layout]:
            return {
                each: blocks_of(layouts[each], types[each][0], self._board.accelerator)
                for each in names
                if is_in_blocks(layouts[each])
            }

        artifact = compile_arm_stage(
            stage.module,
            input_layouts=blocked(inputs),
            output_layouts=blocked(outputs),
            arches=[self._architecture],
        )
        self._add(name, "arm", inputs, outputs, artifact.write, modelled_us)

    def write(self, path: Path) -> Path:
        """Write the bundle to ``path``; return it. Raises BundleError."""
        board = self._board
        read = {tensor for stage in self._stages for tensor in stage.inputs}
        accelerator = board.accelerator
        storage.write(
            path,
            self._files,
            lambda entries: Manifest(
                format=FORMAT,
                name=self._name,
                board=board.name,
                board_architecture=board.architecture,
                architectures=(self._architecture,),
                accelerator=accelerator,
                fingerprint=Fingerprint.of(
                    accelerator, bitstream=board.bitstream, builder_version=__version__
                ),
                tensors=tuple(self._tensors.values()),
                inputs=tuple(t for t in self._tensors if t not in self._written),
                outputs=tuple(t for t in self._written if t not in read),
                stages=tuple(self._stages),
                placement=(),
                preprocess=Preprocess(width=1, height=1, order="GRAY", mean=(0.0,), std=(1.0,)),
                postprocess=Postprocess(kind="none"),
                golden=Golden(inputs=(), outputs=()),
                files=entries,
            ),
        )
        return path

    def _add_tensor(self, name: str, dtype: str, shape: tuple[int, ...], layout: str) -> None:
        count = tensor_bytes(shape, dtype, layout, self._board.accelerator)
        self._tensors[name] = Tensor(
            name=name, dtype=dtype, shape=shape, layout=layout, bytes=count
        )

    def _add(
        self,
        name: str,
        kind: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        save: Callable[[Path], None],
        modelled_us: int = 0,
    ) -> None:
        folder = f"stages/{len(self._stages)}_{kind}"
        with scratch.folder("probe") as work:
            save(work)
            self._files |= {f"{folder}/{p.name}": p.read_bytes() for p in work.iterdir()}
        threads = self._board.threads.vta if kind == "vta" else self._board.threads.arm
        turn = len(self._stages) % max(len(threads.cores), 1)  # neighbours have different cores
        self._stages.append(
            Stage(
                name=name,
                kind=kind,
                folder=folder,
                inputs=tuple(inputs),
                outputs=tuple(outputs),
                cores=threads.cores[turn : turn + 1],
                modelled_us=modelled_us,
            )
        )
        self._written += outputs


def of_programs(programs: Mapping[str, Program], board: Board, architecture: str) -> ProbeBundle:
    """Return a bundle with one stage for each program."""
    bundle = ProbeBundle("accelerator-probes", board, architecture)
    for name, program in programs.items():
        bundle.add_program(name, program)
    return bundle


def of_kernels(
    probes: Mapping[str, ArmProbe], board: Board, architecture: str, progress: Progress
) -> ProbeBundle:
    """Return a bundle with one stage for each kernel probe. Raises CodegenError."""
    bundle = ProbeBundle("core-probes", board, architecture)
    for done, (name, probe) in enumerate(probes.items()):
        progress.update(done, len(probes))
        bundle.add_kernels(name, probe)
    return bundle

"""The recipe of ``edgepipe build``: from an ONNX file to a bundle, step by step."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgepipe import __version__, description
from edgepipe.bitstream import manifest as bitstream_manifest
from edgepipe.bitstream.fingerprint import check_board
from edgepipe.boards import Board, architectures
from edgepipe.bundle import manifest as bundle
from edgepipe.bundle import storage
from edgepipe.bundle.manifest import FileEntry, Manifest
from edgepipe.codegen.stages import CompiledStage, compile_stage
from edgepipe.description import NetworkDescription
from edgepipe.errors import FrontendError, PartitionError
from edgepipe.frontend.frames import frames_from
from edgepipe.frontend.network import Network, load_network
from edgepipe.names import suggest
from edgepipe.partition import depthwise
from edgepipe.partition.cores import StageCores, divide
from edgepipe.partition.operators import Operator, match_operators
from edgepipe.partition.placement import PlacedOperator, Segment, place, segment
from edgepipe.partition.reasons import VtaCheck
from edgepipe.partition.split import StageModule, split_by_groups
from edgepipe.progress import Progress, Silent
from edgepipe.quantize.quantizer import QuantizedNetwork, QuantizeOptions, quantize
from edgepipe.tvm_adapter import IRModule, read_main, run_module

Array = NDArray[np.generic]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOptions:
    """What ``edgepipe build`` was asked for; ``description`` None: the file beside the model.

    ``depthwise`` is one of ``partition.depthwise.CHOICES``; ``placement`` wins over it.
    ``fallback`` adds ARM kernels for the VTA stages, for when the accelerator fails.
    """

    model: Path
    board: Board
    calibration: Path
    output: Path
    cuts: tuple[str, ...] = ()
    placement: Mapping[str, str] = field(default_factory=dict)
    depthwise: str = "auto"
    description: Path | None = None
    calibration_frames: int = 64
    fallback: bool = False


def build_bundle(options: BuildOptions, progress: Progress | None = None) -> Manifest:
    """Build the bundle that ``options`` describe and return its manifest.

    Nothing is written before every stage has been compiled; the bundle appears whole or not at all.
    Raises an ``EdgepipeError`` of the step that failed.
    """
    progress = progress or Silent()
    storage.check_replaceable(options.output)
    progress.step("reading the network")
    network = load_network(options.model)
    for notice in network.notices:
        progress.notice(notice)
    where = options.description or description.beside(options.model)
    described = _described(where, options.model)
    description.check_outputs(described, network.output_names, where)
    labels = description.labels_of(described, where)

    progress.step("quantising to int8")
    frames = list(
        itertools.islice(
            frames_from(options.calibration, described.preprocess), options.calibration_frames
        )
    )
    quantized = quantize(
        network,
        frames,
        described.preprocess,
        QuantizeOptions(frames=options.calibration_frames),
    )

    progress.step("placing operators")
    segments = partition(quantized, network, options, progress)
    stages = split_by_groups(
        quantized.module, [[p.operator.name for p in part.operators] for part in segments]
    )

    progress.step("running integer Relax for the golden output")
    golden_outputs = run_module(quantized.module, {quantized.input_name: frames[0]})
    golden = {quantized.input_name: frames[0]} | {
        name: golden_outputs[name] for name in quantized.output_names
    }

    tensors = border_tensors(quantized, segments, stages, options.board)
    cores = stage_cores(segments, options.board)
    compiled: list[CompiledStage] = []
    for index, (part, stage, on) in enumerate(zip(segments, stages, cores, strict=True)):
        name = f"{part.device}{index}"
        progress.step(f"compiling stage {name} ({len(part.operators)} operators)")
        compiled.append(
            compile_stage(
                name,
                index,
                part,
                stage,
                tensors,
                options.board,
                progress,
                on=on,
                fallback=options.fallback,
            )
        )

    progress.step("writing the bundle")
    files = {path: content for stage in compiled for path, content in stage.files.items()}
    files |= {f"golden/{name}.bin": np.ascontiguousarray(a).tobytes() for name, a in golden.items()}
    if labels:
        files[description.BUNDLED_LABELS] = ("\n".join(labels) + "\n").encode()

    def make_manifest(entries: tuple[FileEntry, ...]) -> Manifest:
        return Manifest(
            format=bundle.FORMAT,
            name=network.name,
            board=options.board.name,
            board_architecture=options.board.architecture,
            architectures=architectures(options.board),
            accelerator=options.board.accelerator,
            fingerprint=fingerprint(options.board),
            tensors=tuple(tensors.values()),
            inputs=(quantized.input_name,),
            outputs=quantized.output_names,
            stages=tuple(stage.entry for stage in compiled),
            slots=options.board.slots(len(compiled)),
            placement=_placements(segments, compiled),
            preprocess=described.preprocess,
            postprocess=described.postprocess.in_bundle(),
            golden=bundle.Golden(
                inputs=(_golden(quantized.input_name),),
                outputs=tuple(_golden(name) for name in quantized.output_names),
            ),
            files=entries,
        )

    return storage.write(options.output, files, make_manifest)


def fingerprint(board: Board) -> bundle.Fingerprint:
    """Return what a board must match to run a bundle built for ``board``.

    Raises ``FingerprintError`` when ``board`` contradicts the published bitstream that it names.
    """
    check_board(board, bitstream_manifest.load())
    return bundle.Fingerprint(
        configuration=board.accelerator.configuration,
        revision=board.accelerator.revision,
        clock_hz=board.accelerator.clock_hz,
        bitstream=board.bitstream,
        builder_version=__version__,
    )


def partition(
    quantized: QuantizedNetwork, network: Network, options: BuildOptions, progress: Progress
) -> tuple[Segment, ...]:
    """Place the operators and group them into segments, one for each stage to be."""
    operators = match_operators(quantized.module)
    border, cuts = _border_and_cuts(operators, options.cuts)
    board = options.board
    check = VtaCheck(board.accelerator, network, operators, quantized.reasons, board.timing)

    def arrange(on_arm: Mapping[str, str]) -> tuple[Segment, ...]:
        placed = place(operators, check, border=border, overrides=options.placement, on_arm=on_arm)
        return segment(placed, cuts)

    tensor_bytes = {
        name: int(np.prod(shape)) * np.dtype(dtype).itemsize
        for name, (shape, dtype) in _types(quantized.module).items()
        if dtype != "tuple"
    }
    choice = depthwise.choose(arrange, check.cycles, tensor_bytes, board, options.depthwise)
    if choice.text:
        progress.notice(choice.text)
    return choice.segments


def stage_cores(segments: Sequence[Segment], board: Board) -> tuple[StageCores, ...]:
    """Return where each stage's threads run: ARM stages divide their cores if these suffice."""
    arm_stages = [depthwise.stage_arm_ms(part, board) for part in segments if part.device == "arm"]
    arm = iter(divide(arm_stages, board.threads.arm.cores))
    vta = StageCores(cores=board.threads.vta.cores)
    return tuple(vta if part.device == "vta" else next(arm) for part in segments)


def border_tensors(
    quantized: QuantizedNetwork,
    segments: Sequence[Segment],
    stages: Sequence[StageModule],
    board: Board,
) -> dict[str, bundle.Tensor]:
    """Describe every tensor between stages; those that a VTA stage touches have its layout."""
    touched = {
        name
        for part, stage in zip(segments, stages, strict=True)
        if part.device == "vta"
        for name in (*stage.inputs, *stage.outputs)
    }
    types = _types(quantized.module)
    names = dict.fromkeys(n for stage in stages for n in (*stage.inputs, *stage.outputs))
    tensors = {}
    for name in names:
        shape, dtype = types[name]
        inside = "vta" if name in touched else "nchw"
        layout = "nhwc" if name == quantized.input_name else inside
        tensors[name] = bundle.Tensor(
            name=name,
            dtype=dtype,
            shape=shape,
            layout=layout,
            bytes=bundle.tensor_bytes(shape, dtype, layout, board.accelerator),
        )
    return tensors


def _types(module: IRModule) -> dict[str, tuple[tuple[int, ...], str]]:
    main = read_main(module)
    return {p.name: (p.shape, p.dtype) for p in main.params} | {
        b.name: (b.shape, b.dtype) for b in main.bindings
    }


def _border_and_cuts(
    operators: Sequence[Operator], cuts: Sequence[str]
) -> tuple[str | None, tuple[str, ...]]:
    """Sort the cuts by program order; the first is the border between ARM and VTA."""
    names = [operator.name for operator in operators]
    for cut in cuts:
        if cut not in names:
            raise PartitionError(f"cut {cut!r} is unknown", hint=suggest(cut, names))
    ordered = tuple(sorted(set(cuts), key=names.index))
    return (ordered[0] if ordered else None), ordered


def _described(where: Path, model: Path) -> NetworkDescription:
    if not where.is_file():
        raise FrontendError(
            f"{model}: no description of the network at {where}",
            hint="write a TOML file with a [preprocess] table (docs/description.md), "
            "or name one with --description",
        )
    return description.load(where)


def _placements(
    segments: Sequence[Segment], compiled: Sequence[CompiledStage]
) -> tuple[bundle.Placement, ...]:
    def entry(placed: PlacedOperator, stage: CompiledStage) -> bundle.Placement:
        return bundle.Placement(
            operator=placed.operator.name,
            kind=placed.operator.kind,
            device=placed.device,
            stage=stage.entry.name,
            reason=placed.reason,
        )

    return tuple(
        entry(placed, stage)
        for part, stage in zip(segments, compiled, strict=True)
        for placed in part.operators
    )


def _golden(name: str) -> bundle.GoldenFile:
    return bundle.GoldenFile(tensor=name, file=f"golden/{name}.bin")

"""The recipe of ``edgepipe build``: from an ONNX file to a bundle, step by step."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from shlex import quote

import numpy as np
from numpy.typing import NDArray

from edgepipe import __version__, description, exports, placement_file
from edgepipe.arrangement import Arrangement
from edgepipe.beside import Neighbour
from edgepipe.beside import shared as rest_of
from edgepipe.bitstream import manifest as bitstream_manifest
from edgepipe.bitstream.fingerprint import check_board
from edgepipe.boards import Board, architectures
from edgepipe.bundle import decoder_files, signature, storage
from edgepipe.bundle import manifest as bundle
from edgepipe.bundle import network as network_file
from edgepipe.bundle.decoder_files import DecoderFiles
from edgepipe.bundle.manifest import MOST_VERSION, FileEntry, Manifest
from edgepipe.bundle.network import NetworkRecord
from edgepipe.codegen.foreign_trial import try_calls
from edgepipe.codegen.planned_stages import PlannedStage
from edgepipe.codegen.stages import CompiledStage, compile_stage
from edgepipe.decoder_trial import try_decoder
from edgepipe.description import NetworkDescription
from edgepipe.errors import BundleError, FrontendError
from edgepipe.exports import Export
from edgepipe.frontend.frames import sample_of
from edgepipe.frontend.makers import are_probabilities
from edgepipe.frontend.network import Network, import_network, read_model
from edgepipe.frontend.preprocess import Frame
from edgepipe.interrupts import Interrupts, remembered
from edgepipe.partition.folding import with_folds
from edgepipe.partition.measured import cost_file
from edgepipe.partition.measured.costs import measured_costs
from edgepipe.partition.network_record import network_record
from edgepipe.partition.operators import match_operators
from edgepipe.partition.reasons import VtaCheck
from edgepipe.partition.rules.rule import RuleSet
from edgepipe.partition.rules.rule_file import rule_sets
from edgepipe.partition.wishes import Wishes
from edgepipe.picture_size import MOST_PIXELS
from edgepipe.progress import Progress, Silent
from edgepipe.quantize import float_islands, scheme_file
from edgepipe.quantize.options import needs_one_table, require_seed
from edgepipe.quantize.quantizer import QuantizedNetwork, QuantizeOptions, quantize
from edgepipe.quantize.scheme import Scheme
from edgepipe.sharing import Task, arrange_shared
from edgepipe.tvm_adapter import run_module

Array = NDArray[np.generic]

FEWEST_PICTURES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOptions:
    """The options of ``edgepipe build``; ``description`` defaults to the file next to the model.

    ``depthwise`` is one of ``partition.choices.DEPTHWISE``; ``placement`` takes precedence over it.
    ``objective``, ``max_latency_ms``, ``stages`` and ``slots`` are those of ``Wishes``.
    ``fallback`` adds ARM kernels for the VTA stages, in case the accelerator fails. ``sign`` is
    the OpenSSH key that signs the bundle, ``version`` the version that the signature also covers.
    ``most_pixels`` limits the size of a calibration picture. ``scheme`` is the file of a
    quantisation scheme, which takes the place of calibration; then ``calibration`` may be None, and
    only gives the picture of the golden output. ``export_scheme`` is the file to which the scheme
    is written. ``float_layers`` are computed in floating point on ARM, as are those of ``scheme``,
    and ``int16_layers`` in int16 there.
    ``rounding`` is the rule by which weights are rounded, one of ``quantize.rounding.RULES``; None
    is the scheme's, or ``"nearest"``. ``seed`` decides what is drawn at random: which pictures of a
    folder with more than ``calibration_frames``, what the golden input is without pictures, and
    where reconstruction samples them; None is the scheme's, or 0. ``rules`` are files of placement
    rules, which take precedence over the package's. ``placement_file`` has the devices of all
    operators; ``placement`` takes precedence over it. ``export_placement`` is the file to which
    they are written. ``costs`` is a file of measured costs, by which the search places operators.
    ``beside`` are other networks on the same board.
    """

    model: Path
    board: Board
    calibration: Path | None
    output: Path
    cuts: tuple[str, ...] = ()
    placement: Mapping[str, str] = field(default_factory=dict)
    depthwise: str = "auto"
    objective: str = ""
    max_latency_ms: float | None = None
    stages: int | None = None
    slots: int | None = None
    description: Path | None = None
    calibration_frames: int = 64
    fallback: bool = False
    version: int = 0
    sign: Path | None = None
    most_pixels: int = MOST_PIXELS
    scheme: Path | None = None
    export_scheme: Path | None = None
    float_layers: tuple[str, ...] = ()
    int16_layers: tuple[str, ...] = ()
    rounding: str | None = None
    seed: int | None = None
    rules: tuple[Path, ...] = ()
    placement_file: Path | None = None
    export_placement: Path | None = None
    costs: Path | None = None
    beside: tuple[Neighbour, ...] = ()

    @property
    def wishes(self) -> Wishes:
        """What is asked for of the arrangement."""
        return Wishes(
            cuts=self.cuts,
            depthwise=self.depthwise,
            objective=self.objective,
            max_latency_ms=self.max_latency_ms,
            stages=self.stages,
            slots=self.slots,
        ).placed(self.placement)

    def __post_init__(self) -> None:
        scheme_file.require_ranges(self.calibration, self.scheme)
        require_seed(self.seed or 0)
        if not 0 <= self.version <= MOST_VERSION:
            raise BundleError(
                f"version {self.version}: expected 0 (none) to {MOST_VERSION}",
                hint="give every release a higher version than the one before",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedNetwork:
    """A float network and the description of its tensors; ``labels`` name its classes.

    ``decoder`` has the files of the user's own postprocessing, if there is one.
    """

    network: Network
    description: NetworkDescription
    labels: tuple[str, ...]
    decoder: DecoderFiles


def build_bundle(
    options: BuildOptions,
    progress: Progress | None = None,
    interrupts: Interrupts | None = None,
) -> Manifest:
    """Build the bundle that ``options`` describe and return its manifest.

    Nothing is written until every stage has been compiled: the bundle and the scheme appear
    complete or not at all. An interrupt (SIGINT, SIGTERM) ends the build, and what was there before
    stays, until all files are written and only have to be renamed. From then on it comes too late:
    it is raised when the bundle and the scheme are in their places. ``interrupts`` are those of the
    caller's block, which then decides what becomes of a late one. Raises an ``EdgepipeError`` of
    the step that failed.
    """
    if interrupts is not None:
        return _build(options, progress or Silent(), interrupts)
    with remembered() as own:
        return _build(options, progress or Silent(), own)


def _build(options: BuildOptions, progress: Progress, interrupts: Interrupts) -> Manifest:
    def begin(step: str) -> None:
        interrupts.check()
        progress.step(step)

    storage.check_replaceable(options.output)
    check_targets(options)
    if options.sign is not None:
        signature.check_key(options.sign)
    scheme = None
    if options.scheme is not None:
        scheme = scheme_file.read(options.scheme)
        scheme = scheme.rounded_by(options.rounding).seeded_by(options.seed)
    rules = rule_sets(options.rules)
    placement = None
    if options.placement_file is not None:
        placement = placement_file.read(options.placement_file)
    costs = None
    if options.costs is not None:
        costs = cost_file.read(options.costs)
        cost_file.require_board(costs, options.board.name)
    rest = rest_of(options.board, options.beside)
    for text in rest.notices:
        progress.notice(text)
    begin("reading the network")
    described = describe(options, progress)
    begin("quantising to int8")
    frames = calibration_frames(described, options, scheme)
    if scheme is None:
        notice_few_pictures(len(frames), progress)
    quantized = quantized_network(described, frames, options, progress, scheme)
    begin("placing operators")
    check = vta_check(quantized, described.network, options.board, rules)
    measured = measured_costs(costs, check, quantized.input_name, rest.board)
    wishes = placement_file.combined(options.wishes, placement, check.operators)
    with placement_file.naming_lines(placement, options.placement):
        found = arrange_shared(
            Task(
                quantized=quantized,
                check=check,
                board=rest.board,
                wishes=wishes,
                measured=measured,
            ),
            progress,
        )
    arranged, task = found.arrangement, found.task
    calls = [call for stage in arranged.stages for call in stage.segment.calls]
    if calls:
        progress.step(f"trying functions of code generators ({len(calls)})")
        try_calls(calls, {o.name: o for o in task.check.operators}, task.quantized.module)
    record = network_record(task.check, options.board)
    begin("running integer Relax for the golden output")
    golden = golden_tensors(quantized, frames[0])
    try_decoder(described.decoder, described.labels, golden, options.board, progress)
    compiled = compile_stages(arranged, options, progress)
    begin("writing the bundle")
    text = ""
    if options.export_placement is not None:
        wishes = replace(wishes, shares=found.shares)
        text = placement_file.to_toml(arranged, check.operators, wishes)
    with (
        exported_scheme(quantized, options) as place_scheme,
        exported(placement_file.EXPORT, options.export_placement, text) as place_placement,
    ):

        def commit() -> None:
            interrupts.commit()
            place_scheme()
            place_placement()

        return storage.write(
            options.output,
            bundle_files(compiled, golden, described, record),
            lambda entries: make_manifest(
                described, quantized, arranged, compiled, options, entries
            ),
            None if options.sign is None else partial(signature.make_signature, key=options.sign),
            commit,
        )


def exported_scheme(
    quantized: QuantizedNetwork, options: BuildOptions
) -> contextlib.AbstractContextManager[Callable[[], None]]:
    """Return a block in which the bundle is written; its function places the scheme, if asked for.

    If the block fails, the scheme's file is what it was. Raises ``QuantizeError`` if it cannot be
    written.
    """
    text = ""
    if options.export_scheme is not None:
        text = scheme_file.to_toml(quantized.scheme, quantized.scales, quantized.zeros)
    return exported(scheme_file.EXPORT, options.export_scheme, text)


def exported(
    export: Export, path: Path | None, text: str
) -> contextlib.AbstractContextManager[Callable[[], None]]:
    """Return ``exports.prepared``, or a block whose function does nothing if ``path`` is None."""
    if path is None:
        return contextlib.nullcontext(lambda: None)
    return exports.prepared(export, path, text)


def check_targets(options: BuildOptions) -> None:
    """Raise ``QuantizeError`` or ``PartitionError`` for an export that cannot be written."""
    scheme, placement = options.export_scheme, options.export_placement
    if scheme is not None:
        exports.check_target(scheme_file.EXPORT, scheme, options.output)
    if placement is not None:
        exports.check_target(placement_file.EXPORT, placement, options.output)
        if scheme is not None and placement.resolve() == scheme.resolve():
            raise placement_file.EXPORT.refused(placement, "is the file of the scheme, too")


def describe(options: BuildOptions, progress: Progress) -> DescribedNetwork:
    """Read the network and its description, and check that the two fit each other.

    Raises ``FrontendError`` if either cannot be read, or if the description names an output that
    the network does not have.
    """
    model = read_model(options.model)
    where = options.description or description.beside(options.model)
    described = _described(where, options.model)
    probabilities = are_probabilities(model)
    preprocess = described.preprocess
    network = import_network(
        options.model, model, (preprocess.channels, preprocess.height, preprocess.width)
    )
    for notice in network.notices:
        progress.notice(notice)
    description.check_outputs(described, network.output_names, where)
    described = description.settled(
        described, dict(zip(network.output_names, probabilities, strict=True))
    )
    labels = description.labels_of(described, where)
    decoder = decoder_files.read(described.postprocess, where, network.output_names)
    return DescribedNetwork(network=network, description=described, labels=labels, decoder=decoder)


def calibration_frames(
    described: DescribedNetwork, options: BuildOptions, scheme: Scheme | None = None
) -> list[Frame]:
    """Return the calibration frames, uint8[1, h, w, c], as many as ``options`` allow.

    The first is that of the golden output. A ``scheme`` needs others only if its rounding does, but
    chooses among as many pictures as when it was exported; without pictures the first is noise.
    The seed decides both choice and noise. Raises ``MediaError`` if they cannot be
    read, and ``QuantizeError`` if pictures are needed and there is no folder of them.
    """
    preprocess = described.description.preprocess
    seed = (options.seed or 0) if scheme is None else scheme.options.seed
    if options.calibration is None:
        if scheme is not None:
            scheme.require_frames(0)
        shape = preprocess.frame_shape
        noise = np.random.PCG64(seed).random_raw(int(np.prod(shape)))
        return [noise.astype(np.uint8).reshape(shape)]
    most = options.calibration_frames if scheme is None else scheme.frames
    frames = sample_of(options.calibration, preprocess, most, seed, options.most_pixels)
    if scheme is None:
        return list(frames)
    return list(itertools.islice(frames, max(scheme.frames_read, 1)))


def notice_few_pictures(count: int, progress: Progress) -> None:
    """Say that ``count`` calibration pictures are too few to know the ranges of tensors well."""
    if count < FEWEST_PICTURES:
        progress.notice(
            f"calibrated with {count} picture{'s' if count > 1 else ''}: ranges are reliable with "
            f"{FEWEST_PICTURES} or more typical ones"
        )


def quantized_network(
    described: DescribedNetwork,
    frames: Sequence[Frame],
    options: BuildOptions,
    progress: Progress,
    scheme: Scheme | None = None,
) -> QuantizedNetwork:
    """Return the network in integer Relax, with the ranges of ``scheme``, or those on ``frames``.

    Each frame is uint8[1, height, width, channels].
    """
    quantized = quantize(
        described.network,
        frames,
        described.description.preprocess,
        QuantizeOptions(
            frames=options.calibration_frames,
            float_layers=options.float_layers,
            int16_layers=options.int16_layers,
            rounding=options.rounding or "nearest",
            seed=options.seed or 0,
            one_table=needs_one_table(options.board.accelerator),
        ),
        scheme,
    )
    for notice in quantized.notices:
        progress.notice(notice)
    islands = float_islands.float_islands(quantized.module, quantized.reasons)
    if islands:
        progress.notice(float_islands.notice(islands, str(options.model)))
    return quantized


def vta_check(
    quantized: QuantizedNetwork,
    network: Network,
    board: Board,
    rules: Sequence[RuleSet] | None = None,
) -> VtaCheck:
    """Return the check of which operators the VTA can run, and in how many cycles.

    ``rules`` are tables of placement rules, by default the package's.
    """
    operators = with_folds(
        match_operators(quantized.module), quantized.output_names, board.accelerator
    )
    return VtaCheck(board.accelerator, network, operators, quantized.reasons, board.timing, rules)


def golden_tensors(quantized: QuantizedNetwork, frame: Frame) -> dict[str, Array]:
    """Run integer Relax on stock TVM; return ``frame`` and the outputs it must give, by name.

    ``frame`` is uint8[1, height, width, channels]; outputs have the dtypes and shapes of the
    network's outputs.
    """
    outputs = run_module(quantized.module, {quantized.input_name: frame})
    golden: dict[str, Array] = {quantized.input_name: frame}
    return golden | {name: outputs[name] for name in quantized.output_names}


def compile_stages(
    arranged: Arrangement, options: BuildOptions, progress: Progress
) -> tuple[CompiledStage, ...]:
    """Compile the kernels of every stage for the board, and for the host.

    Raises ``LayerError`` or ``CodegenError`` if a stage cannot be compiled.
    """
    compiled = []
    for index, stage in enumerate(arranged.stages):
        program = arranged.programs.get(stage.name)
        if program is None or options.fallback:
            operators = len(stage.segment.operators)
            what = "stage" if program is None else "the fallback of stage"
            progress.step(f"compiling {what} {stage.name} ({operators} operators)")
        compiled.append(
            compile_stage(
                stage.name,
                index,
                stage.segment,
                stage.module,
                arranged.tensors,
                options.board,
                progress,
                on=stage.cores,
                program=program,
                fallback=options.fallback,
            )
        )
    return tuple(compiled)


def bundle_files(
    compiled: Sequence[CompiledStage],
    golden: Mapping[str, Array],
    described: DescribedNetwork,
    record: NetworkRecord,
) -> dict[str, bytes]:
    """Return the bundle's files except the manifest, by their paths in the bundle.

    ``golden`` has arrays of the dtypes and shapes of the network's inputs and outputs.
    """
    files = {path: content for stage in compiled for path, content in stage.files.items()}
    for name, array in golden.items():
        files[_golden(name).file] = np.ascontiguousarray(array).tobytes()
    if described.labels:
        files[description.BUNDLED_LABELS] = ("\n".join(described.labels) + "\n").encode()
    files[network_file.FILE] = network_file.to_json(record).encode()
    return {**files, **described.decoder.files}


def make_manifest(
    described: DescribedNetwork,
    quantized: QuantizedNetwork,
    arranged: Arrangement,
    compiled: Sequence[CompiledStage],
    options: BuildOptions,
    files: tuple[FileEntry, ...],
) -> Manifest:
    """Return the manifest of a bundle that holds ``files``."""
    board = options.board
    return Manifest(
        format=bundle.FORMAT,
        name=described.network.name,
        version=options.version,
        board=board.name,
        board_architecture=board.architecture,
        architectures=architectures(board),
        accelerator=board.accelerator,
        fingerprint=fingerprint(board),
        tensors=tuple(arranged.tensors.values()),
        inputs=(quantized.input_name,),
        outputs=quantized.output_names,
        stages=tuple(stage.entry for stage in compiled),
        slots=arranged.slots,
        live_slots=arranged.live_slots,
        seed=quantized.scheme.options.seed,
        placement=_placements(arranged.stages),
        preprocess=described.description.preprocess,
        postprocess=described.decoder.postprocess,
        golden=bundle.Golden(
            inputs=(_golden(quantized.input_name),),
            outputs=tuple(_golden(name) for name in quantized.output_names),
        ),
        files=files,
    )


def fingerprint(board: Board) -> bundle.Fingerprint:
    """Return what a board must match to run a bundle built for ``board``.

    Raises ``FingerprintError`` if ``board`` contradicts the published bitstream that it names.
    """
    check_board(board, bitstream_manifest.load())
    return bundle.Fingerprint.of(
        board.accelerator, bitstream=board.bitstream, builder_version=__version__
    )


def _described(where: Path, model: Path) -> NetworkDescription:
    if not where.is_file():
        elsewhere = "" if where == description.beside(model) else f" -o {quote(str(where))}"
        raise FrontendError(
            f"{model}: no description of the network at {where}",
            hint=f"draft one: `edgepipe init {quote(str(model))}{elsewhere}`, "
            "or name one that is elsewhere",
            option="description",
            value="FILE",
        )
    return description.load(where)


def _placements(stages: Sequence[PlannedStage]) -> tuple[bundle.Placement, ...]:
    return tuple(
        bundle.Placement(
            operator=placed.operator.name,
            kind=placed.operator.kind,
            device=placed.device,
            stage=stage.name,
            reason=placed.reason,
        )
        for stage in stages
        for placed in stage.segment.operators
    )


def _golden(name: str) -> bundle.GoldenFile:
    return bundle.GoldenFile(tensor=name, file=f"golden/{name}.bin")

"""Read a bundle as a report: its operators, stages and memory, and what the model predicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgepipe.bundle import network, storage
from edgepipe.bundle.manifest import Manifest
from edgepipe.bundle.manifest import Stage as StageEntry
from edgepipe.bundle.network import NetworkRecord, OperatorRecord
from edgepipe.bundle_report.memory import memory_map
from edgepipe.bundle_report.model import (
    Load,
    Memory,
    Operator,
    PredictedRates,
    Prediction,
    Report,
    Stage,
)
from edgepipe.bundle_report.programs import StageWork, stage_work
from edgepipe.bundle_report.timeline import timeline
from edgepipe.bundle_report.what_if import what_if
from edgepipe.errors import BundleError
from edgepipe.partition.crew_rate import Crews, StageTime, crews, frame_interval_ms
from edgepipe.partition.shared_dram import operators_bytes, shared_interval_ms, tensor_bytes
from edgepipe.report.pipelining_limit import Limit, Unit, accelerator, pipelining_limit
from vta_stages.timing.timing_model import program_bytes

MOST_SLOTS = 4096
"""More frames in flight than any pipeline needs; the simulation takes time for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Contents:
    """What a bundle has in it, and what its stages take by the model."""

    manifest: Manifest
    record: NetworkRecord
    operators: tuple[Operator, ...]
    stages: tuple[Stage, ...]
    memory: Memory

    def prediction(self, slots: int | None = None) -> Prediction:
        """Return what the model expects of the pipeline, by default with the bundle's slots."""
        used = self.memory.slots if slots is None else min(slots, MOST_SLOTS)
        return _prediction(self.stages, self.record, used)


def read_report(path: Path, slots: int | None = None) -> Report:
    """Return the report of the bundle at ``path``, without a measurement.

    ``slots`` are the frames in flight for the prediction, by default those of the bundle. The same
    bundle always gives the same report. Raises BundleError for a bundle that is damaged,
    or from before bundles recorded the costs of their operators, and VerificationError for a
    damaged program.
    """
    found = _contents(path)
    manifest, record = found.manifest, found.record
    accelerator = manifest.accelerator
    return Report(
        name=manifest.name,
        version=manifest.version,
        board=manifest.board,
        board_description=record.board.description,
        accelerator=accelerator.configuration,
        clock_hz=accelerator.clock_hz,
        macs_per_cycle=accelerator.macs_per_cycle,
        inputs=_in_words(manifest, manifest.inputs),
        outputs=_in_words(manifest, manifest.outputs),
        operators=found.operators,
        stages=found.stages,
        memory=found.memory,
        prediction=found.prediction(slots),
        what_if=what_if(manifest, record),
    )


def read_rates(path: Path, slots: int | None = None) -> PredictedRates | None:
    """Return what ``read_report`` predicts of the bundle's board, without the rest of a report.

    ``slots`` are the frames in flight, by default those of the bundle. Return None for a bundle for
    this machine: how many cores its board has, only a run can tell. Raises as ``read_report`` does.
    """
    found = _contents(path)
    if not found.record.board.cores:
        return None
    prediction = found.prediction(slots)
    return PredictedRates(
        board=found.manifest.board,
        stage_ms={stage.name: stage.ms for stage in found.stages},
        limit=_limit(found, prediction, found.memory.slots if slots is None else slots),
        hop_ms=prediction.hop_ms,
        interval_ms=prediction.interval_ms,
        serial_ms=prediction.serial_ms,
    )


def _limit(found: _Contents, prediction: Prediction, slots: int) -> Limit:
    """Return what limits the predicted pipeline: its stages, each with its hop, and their crews."""
    on = {
        device: tuple(stage.name for stage in found.stages if stage.device == device)
        for device in ("arm", "vta")
    }
    cores = Unit(name="the ARM cores", stages=on["arm"], places=prediction.arm_cores)
    if prediction.arm_cores == 1:
        cores = replace(cores, name="the ARM core")
    return pipelining_limit(
        {stage.name: stage.ms + prediction.hop_ms for stage in found.stages},
        [accelerator(on["vta"]), cores],
        slots=slots,
    )


def read_load(path: Path) -> Load:
    """Return what a bundle takes of its board. Raises as ``read_report`` does."""
    found = _contents(path)
    prediction = found.prediction()
    hop_ms = found.record.board.arm_timing.handover_us / 1e3
    by_device = {"vta": 0.0, "arm": 0.0}
    for stage in found.stages:
        by_device[stage.device] += stage.ms * stage.threads + hop_ms
    return Load(
        board=found.manifest.board,
        vta_ms=by_device["vta"],
        arm_ms=by_device["arm"],
        bytes=found.memory.used_bytes,
        most_fps=prediction.frames_per_second,
    )


def _contents(path: Path) -> _Contents:
    manifest = storage.check(path)
    record = network.read(path, manifest)
    if not 0 <= manifest.slots <= MOST_SLOTS:
        raise BundleError(
            f"{path}: slots is {manifest.slots}, expected 0 to {MOST_SLOTS}",
            hint="build the bundle again",
        )
    records = {operator.name: operator for operator in record.operators}
    work = {
        stage.name: stage_work(path, manifest, stage, _of_stage(manifest, stage, records))
        for stage in manifest.stages
        if stage.kind == "vta"
    }
    operators = _operators(manifest, record, work)
    programs = {name: each.program for name, each in work.items()}
    return _Contents(
        manifest=manifest,
        record=record,
        operators=operators,
        stages=_stages(manifest, record, work, operators),
        memory=memory_map(manifest, programs, record.board),
    )


def stage_times(stages: Sequence[Stage], ms: Sequence[float] | None = None) -> list[StageTime]:
    """Return the stages for a simulation, with their predicted times or with ``ms``."""
    times = [stage.ms for stage in stages] if ms is None else ms
    return [
        StageTime(crew=stage.crew, ms=each, reads=stage.reads)
        for stage, each in zip(stages, times, strict=True)
    ]


def threads_of(stages: Sequence[Stage], arm_cores: int) -> Mapping[str, int]:
    """Return the number of threads of each crew of these stages."""
    return _crews(stages, arm_cores).threads


def _crews(stages: Sequence[Stage] | Sequence[StageEntry], arm_cores: int) -> Crews:
    devices = [each.device if isinstance(each, Stage) else each.kind for each in stages]
    return crews([each.name for each in stages], devices, arm_cores)


def _of_stage(
    manifest: Manifest, stage: StageEntry, records: Mapping[str, OperatorRecord]
) -> list[OperatorRecord]:
    return [records[p.operator] for p in manifest.placement if p.stage == stage.name]


def _operators(
    manifest: Manifest, record: NetworkRecord, work: Mapping[str, StageWork]
) -> tuple[Operator, ...]:
    """Return the operators in the order in which the stages run them."""
    clock_hz = manifest.accelerator.clock_hz
    records = {operator.name: operator for operator in record.operators}
    threads = {stage.name: stage.threads for stage in manifest.stages}
    made = []
    for placed in manifest.placement:
        known = records[placed.operator]
        found = work[placed.stage].operators[known.name] if placed.stage in work else None
        ms = known.arm_ms / threads[placed.stage]
        if found is not None:
            ms = 1e3 * found.layer.cycles / clock_hz
        made.append(
            Operator(
                name=known.name,
                kind=placed.kind,
                can=tuple(
                    device
                    for device, refusal in (("arm", known.arm_refusal), ("vta", known.refusal))
                    if not refusal
                ),
                device=placed.device,
                stage=placed.stage,
                reason=placed.reason,
                inputs=known.inputs,
                dtype=known.dtype,
                shape=known.shape,
                products=known.products,
                constant_bytes=known.constant_bytes,
                ms=ms,
                arm_ms=known.arm_ms,
                vta_ms=None if known.refusal else 1e3 * known.vta_cycles / clock_hz,
                refusal=known.refusal,
                layer=None if found is None else found.layer,
                computed_with="" if found is None else found.computed_with,
            )
        )
    return tuple(made)


def _stages(
    manifest: Manifest,
    record: NetworkRecord,
    work: Mapping[str, StageWork],
    operators: Sequence[Operator],
) -> tuple[Stage, ...]:
    who = _crews(manifest.stages, record.board.arm_cores)
    made_by = {name: n for n, stage in enumerate(manifest.stages) for name in stage.outputs}
    bytes_of = {tensor.name: tensor.bytes for tensor in manifest.tensors}
    sizes = {o.name: tensor_bytes(o.shape, o.dtype) for o in record.operators}
    stages = []
    for entry, crew in zip(manifest.stages, who.of_stages, strict=True):
        own = [operator for operator in operators if operator.stage == entry.name]
        timing = work[entry.name].timing if entry.name in work else None
        cycles = timing.cycles if timing is not None else 0
        ms = sum(operator.ms for operator in own)
        share = None
        if timing is not None and cycles:
            ms = 1e3 * cycles / manifest.accelerator.clock_hz
            products = sum(operator.products for operator in own)
            share = products / manifest.accelerator.macs_per_cycle / cycles
        folders = tuple(f"{folder}/" for folder in (entry.folder, entry.fallback) if folder)
        stages.append(
            Stage(
                name=entry.name,
                device=entry.kind,
                crew=crew,
                operators=len(own),
                ms=ms,
                threads=entry.threads,
                cores=entry.cores,
                has_fallback=bool(entry.fallback),
                bytes=sum(file.bytes for file in manifest.files if file.path.startswith(folders)),
                written_bytes=sum(bytes_of[name] for name in entry.outputs),
                moved_bytes=program_bytes(work[entry.name].program)
                if entry.name in work
                else operators_bytes(own, sizes),
                reads=tuple(sorted({made_by[name] for name in entry.inputs if name in made_by})),
                cycles=cycles,
                launch_cycles=timing.launch_cycles if timing is not None else 0,
                ideal_share=share,
            )
        )
    return tuple(stages)


def _prediction(stages: Sequence[Stage], record: NetworkRecord, slots: int) -> Prediction:
    board = record.board
    hop_ms = board.arm_timing.handover_us / 1e3
    who = _crews(stages, board.arm_cores)
    vta = sum(stage.ms for stage in stages if stage.device == "vta")
    arm = sum(stage.ms * stage.threads for stage in stages if stage.device == "arm")
    return Prediction(
        interval_ms=shared_interval_ms(
            lambda ms: frame_interval_ms(stage_times(stages, ms), who.threads, slots, hop_ms),
            [stage.ms for stage in stages],
            [stage.moved_bytes for stage in stages],
            who,
            board.arm_timing.dram_bytes_per_s,
        ),
        serial_ms=sum(stage.ms + hop_ms for stage in stages),
        bound_ms=max(vta, arm / board.arm_cores),
        vta_ms=vta,
        arm_ms=arm,
        arm_cores=board.arm_cores,
        hop_ms=hop_ms,
        timeline=timeline(stage_times(stages), who.threads, slots, hop_ms),
    )


def _in_words(manifest: Manifest, names: Sequence[str]) -> tuple[tuple[str, str], ...]:
    tensors = [manifest.tensor(name) for name in names]
    return tuple((t.name, f"{t.dtype}[{', '.join(map(str, t.shape))}]") for t in tensors)

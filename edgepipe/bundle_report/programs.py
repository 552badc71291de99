"""What the programs of a bundle's VTA stages take: by stage, by operator, and in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgepipe import schema
from edgepipe.bundle.manifest import Manifest, Stage
from edgepipe.bundle.network import OperatorRecord
from edgepipe.bundle.stages import read_program
from edgepipe.bundle_report.model import Layer, Stalls
from edgepipe.errors import BundleError, advise
from vta_stages.isa.instructions import Module
from vta_stages.program import Program, operators_of
from vta_stages.timing.cost_model import CostModel
from vta_stages.timing.timing_model import LayerTiming, ModuleTiming, Timing, time_program
from vta_stages.verification.verifier import verify


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorWork:
    """The layer of an operator, and the operator that computes it, "" if it does so itself."""

    layer: Layer
    computed_with: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageWork:
    """A VTA stage's program, its timing, and what each of its operators adds to it, by name."""

    program: Program
    timing: Timing
    operators: Mapping[str, OperatorWork]


def timed(path: Path, manifest: Manifest, stage: Stage) -> tuple[Program, Timing]:
    """Return a VTA stage's program with its timing, by the costs that it was compiled with.

    Only verified programs are timed, because others may never end or move data that does not exist.
    Raises BundleError for a damaged bundle and for costs that this version does not know,
    VerificationError for a damaged program.
    """
    program = read_program(path, manifest, stage)
    with advise("the program is damaged: build or copy the bundle again"):
        verify(program)
    with advise("build the bundle again with this version of edgepipe"):
        where = f"{path}: {stage.folder}/program.json: costs"
        cost = schema.from_table(CostModel, _known_costs(program.costs, where), where, BundleError)
    return program, time_program(program, cost)


def _known_costs(costs: Mapping[str, int], where: str) -> dict[str, object]:
    """Return costs without ``load_rows``, which bundles from before 2026-11-28 contain.

    Raises BundleError for a value other than 1, because the timing model no longer has its meaning.
    """
    known: dict[str, object] = dict(costs)
    load_rows = known.pop("load_rows", 1)
    if load_rows != 1:
        raise BundleError(
            f"{where}: load_rows is {load_rows}, expected 1: reads_in_flight has replaced it",
            hint="replace load_rows in the board's file by reads_in_flight and build the bundle "
            "again",
        )
    return known


def stage_work(
    path: Path, manifest: Manifest, stage: Stage, operators: Sequence[OperatorRecord]
) -> StageWork:
    """Return what the program of a VTA stage and each of its ``operators`` take.

    Raises as ``timed`` does.
    """
    program, timing = timed(path, manifest, stage)
    macs_per_cycle = manifest.accelerator.macs_per_cycle
    parts: dict[str, list[LayerTiming]] = {operator.name: [] for operator in operators}
    leader = {}
    for layer in timing.layers:
        first, *others = operators_of(layer.name)
        parts.setdefault(first, []).append(layer)
        leader.update(dict.fromkeys(others, first))
    return StageWork(
        program=program,
        timing=timing,
        operators={
            operator.name: OperatorWork(
                layer=_layer(operator, parts[operator.name], macs_per_cycle),
                computed_with=leader.get(operator.name, ""),
            )
            for operator in operators
        },
    )


def _layer(operator: OperatorRecord, parts: Sequence[LayerTiming], macs_per_cycle: int) -> Layer:
    cycles = sum(part.cycles for part in parts)
    modules = [part.modules for part in parts]
    compute = [each[Module.COMPUTE] for each in modules]
    all_modules = [timing for each in modules for timing in each.values()]
    share = None
    if operator.products and cycles:
        share = operator.products / macs_per_cycle / cycles
    return Layer(
        cycles=cycles,
        ideal_share=share,
        moved_bytes=_total(all_modules, "moved_bytes"),
        stalls=Stalls(
            load=_total(compute, "previous_cycles"),
            store=_total(compute, "next_cycles"),
            fetch=_total(compute, "fetch_cycles"),
            port=_total(all_modules, "port_cycles"),
        ),
    )


def _total(timings: Sequence[ModuleTiming], name: str) -> int:
    return sum(getattr(timing, name) for timing in timings)

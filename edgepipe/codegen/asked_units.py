"""The cores and accelerators that were asked for, as the units of stages.

All operators of a stage run on its unit, so asking for one operator asks for its stage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from edgepipe.boards import Board
from edgepipe.codegen.planned_stages import PlannedStage
from edgepipe.errors import PartitionError
from edgepipe.partition import depthwise
from edgepipe.partition.cores import StageCores, divide
from edgepipe.partition.target import unit_text

Units = tuple[int, ...]


def on_units(
    stages: Sequence[PlannedStage], units: Mapping[str, Units], board: Board
) -> tuple[PlannedStage, ...]:
    """Return ``stages`` on the ``units`` asked for, by operator; other ARM stages divide the rest.

    A stage with several cores has a thread on each. Raises ``PartitionError`` for units that the
    board does not have, for two different ones of a stage, for a core of two stages, and if a
    stage is left without a core.
    """
    asked: dict[str, tuple[str, Units]] = {}  # by stage: the operator that asks, and its unit
    for stage in stages:
        for placed in stage.segment.operators:
            name = placed.operator.name
            if name in units:
                _require(name, stage.segment.device, units[name], board)
                first, unit = asked.setdefault(stage.name, (name, units[name]))
                if unit != units[name]:
                    raise _refused(
                        name,
                        stage.segment.device,
                        units[name],
                        f"{first} is in the same stage and asks for {_text(unit)}",
                        "ask for one unit for both, or for any",
                    )
    on_arm = [stage for stage in stages if stage.segment.device == "arm"]
    given = {stage.name: asked[stage.name] for stage in on_arm if stage.name in asked}
    if not given:
        return tuple(stages)
    owner: dict[int, str] = {}
    for name, cores in given.values():
        for core in cores:
            other = owner.setdefault(core, name)
            if other != name:
                raise _refused(
                    name,
                    "arm",
                    cores,
                    f"the stage of {other} has core {core}",
                    "give each stage other cores, or any",
                )
    free = [core for core in board.threads.arm.cores or range(board.cores) if core not in owner]
    others = [stage for stage in on_arm if stage.name not in given]
    if len(others) > len(free):
        name, cores = next(iter(given.values()))
        raise _refused(
            name,
            "arm",
            cores,
            f"{len(others)} other ARM stages have {len(free)} cores left, expected one for each",
            "ask for fewer cores, for fewer stages, or for any cores",
        )
    work = [depthwise.stage_arm_ms(stage.segment, board) for stage in others]
    cores_of = {
        stage.name: on
        for stage, on in zip(
            others, divide(work, free, board.threads.arm.light_percent), strict=True
        )
    }
    cores_of |= {
        stage: StageCores(cores=cores, threads=len(cores)) for stage, (_, cores) in given.items()
    }
    return tuple(replace(stage, cores=cores_of.get(stage.name, stage.cores)) for stage in stages)


def _require(name: str, device: str, unit: Units, board: Board) -> None:
    """Raise ``PartitionError`` for a unit that the board does not have."""
    if device == "vta":
        if unit != (0,):
            raise _refused(
                name, device, unit, f"{board.name} has one accelerator, 0", "leave its number out"
            )
        return
    if not board.cores:
        raise _refused(
            name,
            device,
            unit,
            f"the file of {board.name} does not say how many cores it has",
            "state cores in the board's file, or leave them out",
        )
    missing = [core for core in unit if core >= board.cores]
    if missing:
        raise _refused(
            name,
            device,
            unit,
            f"core {missing[0]} does not exist",
            f"{board.name} has cores 0 to {board.cores - 1}; or leave them out",
        )


def _text(unit: Units) -> str:
    return ",".join(map(str, unit))


def _refused(name: str, device: str, unit: Units, why: str, hint: str) -> PartitionError:
    return PartitionError(
        f"{name}: cannot be placed on {device}{unit_text(unit)}: {why}",
        hint=hint,
        option="placement",
        value=f"{name}={device}",
    )

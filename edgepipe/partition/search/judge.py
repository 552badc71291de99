"""What a placement gives: its stages, a bound, and its rate by the simulation of the runtime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from edgepipe.partition.cores import divide, longest_ms
from edgepipe.partition.crew_rate import StageTime, crews, frame_interval_ms
from edgepipe.partition.search.table import CostTable, Placement

_FIRST = 40  # frames until a pipeline has settled, fewer than for a forecast: many are tried
_MEASURED = 80
_LONG = (120, 120)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """The stages of a placement, as ``placement.segment`` would make them.

    ``alone_ms`` are their times on one core, or on the accelerator with what the host does for a
    run; ``times_ms`` those with the cores that an ARM stage gets, of which ``longest_ms`` is what
    the longest ARM stage takes, None without one (:func:`~edgepipe.partition.cores.longest_ms`).
    ``reads`` are the stages that each reads from.
    """

    devices: tuple[str, ...]
    alone_ms: tuple[float, ...]
    times_ms: tuple[float, ...]
    reads: tuple[tuple[int, ...], ...]
    longest_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A placement with what follows from it without a simulation; all times are for a frame, in ms.

    ``vta_ms`` and ``arm_ms`` are the work on each device with hops, the latter on one core;
    ``floor_ms`` is a time between frames that the pipeline cannot beat with any number of slots,
    ``latency_ms`` the time of one frame alone. ``slots`` is the usual number for these stages.
    """

    placement: Placement
    stages: Stages = field(repr=False)
    vta_ms: float
    arm_ms: float
    floor_ms: float
    latency_ms: float
    slots: int

    @property
    def busy_ms(self) -> float:
        """The time that any unit is busy, as ``energy-proxy`` counts it."""
        return self.vta_ms + self.arm_ms


def stage_numbers(table: CostTable, placement: Placement) -> tuple[int, ...]:
    """Return the number of each row's stage: even ones are on ARM, and some may be empty.

    A row is in the first stage of its device that is not before those of its inputs, which is what
    ``placement.segment`` does.
    """
    numbers: list[int] = []
    for inputs, on_vta in zip(table.inputs, placement, strict=True):
        ready = 0
        for each in inputs:  # many are looked at: ``max`` with a generator takes twice as long
            ready = max(ready, numbers[each])
        numbers.append(ready + (ready + on_vta) % 2)
    return tuple(numbers)


def stages_of(table: CostTable, placement: Placement) -> Stages:
    """Return the stages of a placement. Every row must be able to run on its device."""
    numbers = stage_numbers(table, placement)
    index = {number: at for at, number in enumerate(sorted({*numbers}))}
    devices = tuple("vta" if number % 2 else "arm" for number in index)
    alone = [table.launch_ms if device == "vta" else 0.0 for device in devices]
    for number, size in _borders(table, numbers).items():
        alone[index[number]] += size * table.border_byte_ms
    reads: list[set[int]] = [set() for _ in index]
    for inputs, takes_ms, number in zip(table.inputs, table.device_ms, numbers, strict=True):
        ms = takes_ms[number % 2]
        assert ms is not None
        stage = index[number]
        alone[stage] += ms
        for each in inputs:
            if numbers[each] != number:
                reads[stage].add(index[numbers[each]])
    arm = [ms for device, ms in zip(devices, alone, strict=True) if device == "arm"]
    on_arm = table.board.threads.arm
    given = divide(arm, on_arm.cores, on_arm.light_percent)
    threads = iter(given)
    return Stages(
        devices=devices,
        alone_ms=tuple(alone),
        times_ms=tuple(
            ms / next(threads).threads if device == "arm" else ms
            for device, ms in zip(devices, alone, strict=True)
        ),
        reads=tuple(tuple(sorted(each)) for each in reads),
        longest_ms=longest_ms(arm, given, on_arm.light_percent) if arm else None,
    )


def _borders(table: CostTable, numbers: Sequence[int]) -> dict[int, int]:
    """Return for stages on the VTA, by number, the bytes of all that they read and pass on."""
    tensors: dict[tuple[int, int], int] = {}  # by stage and by the row that makes them
    found: dict[int, int] = {}
    for reader, source, size in table.crossings:
        number, made = numbers[reader], numbers[source]
        if made == number:
            continue
        for stage in (number, made):
            if stage % 2 and size > tensors.get((stage, source), 0):
                tensors[stage, source] = size
    for row, size in table.results:
        number = numbers[row]
        if number % 2:
            found[number] = found.get(number, 0) + size
    for (number, _), size in tensors.items():
        found[number] = found.get(number, 0) + size
    return found


class Judge:
    """Estimates and simulates placements of one table.

    ``most_slots`` gives the frames in flight that a placement's memory allows, at most those that
    are wanted.
    """

    def __init__(
        self, table: CostTable, most_slots: Callable[[Placement, int], int] | None = None
    ) -> None:
        self.table = table
        self._most_slots = most_slots
        self._intervals: dict[tuple[Placement, int, bool], float] = {}

    def estimate(self, placement: Placement) -> Estimate:
        """Return what follows from a placement without a simulation."""
        table, board = self.table, self.table.board
        stages = stages_of(table, placement)
        hop_ms = table.hop_ms
        by_device: dict[str, list[float]] = {"arm": [], "vta": []}
        for device, ms in zip(stages.devices, stages.alone_ms, strict=True):
            by_device[device].append(ms)
        vta_ms, arm_ms = (
            sum(times) + len(times) * hop_ms for times in (by_device["vta"], by_device["arm"])
        )
        longest = -hop_ms if stages.longest_ms is None else stages.longest_ms
        latency_ms = sum(stages.times_ms) + len(stages.devices) * hop_ms
        slots = board.slots(len(stages.devices))
        return Estimate(
            placement=placement,
            stages=stages,
            vta_ms=vta_ms,
            arm_ms=arm_ms,
            floor_ms=max(vta_ms, arm_ms / board.arm_cores, longest + hop_ms),
            latency_ms=latency_ms,
            slots=slots,
        )

    def slots(self, estimate: Estimate, wanted: int | None = None) -> int:
        """Return the frames in flight: those wanted, or the usual number, as far as they fit."""
        most = wanted or estimate.slots
        if self._most_slots is None:
            return most
        return max(1, min(most, self._most_slots(estimate.placement, most)))

    def interval_ms(self, estimate: Estimate, slots: int, *, for_long: bool = False) -> float:
        """Return the time between frames, simulated with ``slots`` frames in flight.

        With ``for_long``, as many frames are simulated as for a forecast.
        """
        key = estimate.placement, slots, for_long
        if key not in self._intervals:
            # So few frames can end faster than the pipeline can go on.
            least_ms = max(estimate.floor_ms, estimate.latency_ms / slots)
            simulated_ms = self._simulated(estimate.stages, slots, for_long)
            self._intervals[key] = max(simulated_ms, least_ms)
        return self._intervals[key]

    def _simulated(self, stages: Stages, slots: int, for_long: bool) -> float:
        names = [str(number) for number in range(len(stages.devices))]
        who = crews(names, stages.devices, self.table.board.arm_cores)
        times = [
            StageTime(crew=crew, ms=ms, reads=reads)
            for crew, ms, reads in zip(who.of_stages, stages.times_ms, stages.reads, strict=True)
        ]
        first, measured = _LONG if for_long else (_FIRST + slots, _MEASURED)
        return frame_interval_ms(
            times, who.threads, slots, self.table.hop_ms, first=first, measured=measured
        )

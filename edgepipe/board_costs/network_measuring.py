"""Measure the operators and stages of a network on boards, into a file of costs.

    1  every operator alone, on each device that can run it
    2  the stages of the split by rule, and of the best one by the costs so far
    3  the stages of what is then the best split, until that has no new ones

What the file has already is not measured again, nor is what failed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from edgepipe import scratch
from edgepipe.board_costs.board_session import Measurer
from edgepipe.board_costs.farm import Farm, Job
from edgepipe.board_costs.network_ranges import MeasuredNetwork, Work
from edgepipe.errors import CodegenError, LayerError, PartitionError, RpcError
from edgepipe.interrupts import remembered
from edgepipe.partition.measured.cost_file import CostFile, Entry
from edgepipe.progress import Progress

_MOST_ROUNDS = 3  # of splits, each by what was measured of the one before


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkCosts:
    """The ranges of a network with their entries, in the order in which they were measured.

    ``known`` of them were in the file before. ``counts`` are those measured now, by host.
    """

    entries: tuple[Entry, ...]
    known: int
    counts: Mapping[str, int]

    @property
    def failed(self) -> tuple[Entry, ...]:
        """The ranges that could not be measured."""
        return tuple(entry for entry in self.entries if entry.failure)


@dataclass(slots=True)
class _Run:
    """One call of ``measure_network``: the ranges so far, by their keys."""

    network: MeasuredNetwork
    costs: CostFile
    progress: Progress
    folder: Path
    works: dict[str, Work] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    modelled_us: dict[str, float] = field(default_factory=dict)

    def new(self, works: Sequence[Work]) -> list[Work]:
        """Return the ranges that neither the file nor an earlier round has."""
        found = {work.key: work for work in works if work.key not in self.works}
        self.works |= found
        self.known |= self.costs.entries.keys() & found.keys()
        return [work for key, work in found.items() if key not in self.known]

    def jobs(self, works: Sequence[Work], check: Callable[[], None]) -> Iterator[Job]:
        """Compile the ranges one after another; those that cannot be compiled have failed."""
        for done, work in enumerate(works):
            check()
            self.progress.update(done, len(works))
            try:
                compiled = self.network.compiled(work)
                path = self.network.write(compiled, self.folder / f"{work.key}.edgepipe")
            except (CodegenError, LayerError, PartitionError) as cause:
                self.add(work, 0.0, f"cannot be compiled: {cause}", "")
                continue
            self.works[work.key] = compiled
            yield Job(key=work.key, path=path, threads=work.part.threads)

    def report(self, job: Job, us: float, failure: str, host: str) -> None:
        """Add what a board has measured to the file."""
        job.path.unlink(missing_ok=True)
        self.add(self.works[job.key], us, failure, host)

    def add(self, work: Work, us: float, failure: str, host: str) -> None:
        self.costs.add(
            Entry(
                key=work.key,
                device=work.part.device,
                threads=work.part.threads,
                operators=work.part.names,
                modelled_us=round(self.network.modelled_us(work), 3),
                us=0.0 if failure else round(us, 3),
                failure=failure,
                host=host,
                date=time.strftime("%Y-%m-%d"),
            )
        )


def measure_network(
    connect: Callable[[], Measurer],
    boards: int,
    network: MeasuredNetwork,
    costs: CostFile,
    progress: Progress,
) -> NetworkCosts:
    """Measure what ``costs`` lacks of a network, on up to ``boards`` boards at once.

    ``connect`` waits until a board is free. The file is written after
    every range, so an interrupt loses nothing else. Raises BoardError for a machine that is not
    such a board and for a file that cannot be written, RpcError if no board is left.
    """
    with remembered() as interrupts, scratch.folder("measure") as folder:
        run = _Run(network, costs, progress, folder)
        progress.step("find the ranges")
        works = [*network.singles(), *network.stages(costs)]
        with Farm(connect, boards, run.report) as farm:
            for _ in range(_MOST_ROUNDS):
                new = run.new(works)
                if new:
                    progress.step(f"measure {len(new)} of {len(run.works)} ranges")
                    try:
                        farm.measure(run.jobs(new, interrupts.check))
                    except RpcError as cause:
                        raise RpcError(
                            f"{cause}",
                            hint=f"measure again: what {costs.path.name} holds is not measured "
                            "again",
                        ) from cause
                    progress.update(len(new), len(new))
                interrupts.check()
                works = network.stages(costs)
                if all(work.key in run.works for work in works):
                    break
    return NetworkCosts(
        entries=tuple(costs.entries[key] for key in run.works if key in costs.entries),
        known=len(run.known),
        counts=dict(farm.counts),
    )

"""The search for a split beside a look at every placement, and the time that it takes.

The networks are well-known ones of ``tests/exported_networks`` with made-up weights on an Ultra96.
Their costs are those of the timing model, and those that a trial on this machine measures
(``split_costs``), in which the processor is far faster than the board's and its times are not
smooth. A whole network has too many placements to look at each, so its table is also searched in
windows: neighbouring operators, of which 11 can run on either device. The search treats them as it
treats large tables; the pipeline simulation judges both. Names on the command line select networks,
and ``--modelled`` leaves out the trial.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx

from bench.figures import Figure, publish
from bench.network_cases import cases
from bench.split_costs import trial_costs
from edgepipe import boards, recipe
from edgepipe.arrangement import arrange, partition
from edgepipe.frontend.network import import_network, read_model
from edgepipe.partition.measured.costs import MeasuredCosts
from edgepipe.partition.reasons import VtaCheck
from edgepipe.partition.search.judge import Judge
from edgepipe.partition.search.split import Goal, every_placement, find_split
from edgepipe.partition.search.table import CostTable, Placement, Row, contracted, cost_table
from edgepipe.partition.wishes import Wishes
from edgepipe.progress import Silent
from edgepipe.quantize.quantizer import QuantizedNetwork, QuantizeOptions, quantize
from edgepipe.rehearsal import made_up_frames
from edgepipe.sharing import Task, propose

BOARD = boards.load("ultra96")
NETWORKS = ("resnet18", "mobilenet_v2", "efficientnet_b0", "yolox_nano", "densenet")
FREE = 11  # operators of a window that can run on either device
WINDOWS = 6
MOST_RATIO = 1.02
MOST_SECONDS = 5.0
MODELLED = "--modelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A network to split: as it is quantised, with its check, and its devices by the rule."""

    name: str
    quantized: QuantizedNetwork
    check: VtaCheck
    device: Mapping[str, str]

    @classmethod
    def read(cls, name: str) -> Subject:
        """Import and quantise a network of the benchmarks."""
        case = cases()[name]
        pre = case.preprocess
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "network.onnx"
            onnx.save(case.read(), path)
            network = import_network(path, read_model(path), (pre.channels, pre.height, pre.width))
            quantized = quantize(network, made_up_frames(pre), pre, QuantizeOptions(frames=2))
        check = recipe.vta_check(quantized, network, BOARD)
        rule = partition(quantized, check, BOARD, Wishes(objective="rule"))
        device = {p.operator.name: p.device for part in rule.segments for p in part.operators}
        return cls(name=name, quantized=quantized, check=check, device=device)

    def table(self, measured: MeasuredCosts) -> CostTable:
        """Return the costs of the operators."""
        check = self.check
        return cost_table(check.operators, check, check.cycles, BOARD, {}, measured)


def windows(table: CostTable) -> Iterator[CostTable]:
    """Yield neighbouring rows with ``FREE`` free ones, from all over the table."""
    rows = contracted(table).table.rows
    free = [number for number, row in enumerate(rows) if row.is_free]
    starts = max(len(free) - FREE, 0)
    for begin in sorted({starts * number // (WINDOWS - 1) for number in range(WINDOWS)}):
        first, last = free[begin], free[min(begin + FREE, len(free)) - 1]
        yield CostTable(rows=_window(rows, first, last + 1), board=table.board)


def _window(rows: Sequence[Row], first: int, end: int) -> tuple[Row, ...]:
    """Return some of the rows after one on ARM, from which they read what is not among them."""
    camera = Row(name="camera", inputs=(), arm_ms=0.01, vta_ms=None)
    return (
        camera,
        *(
            Row(
                name=row.name,
                inputs=tuple(
                    dict.fromkeys(each - first + 1 if each >= first else 0 for each in row.inputs)
                ),
                arm_ms=row.arm_ms,
                vta_ms=row.vta_ms,
            )
            for row in rows[first:end]
        ),
    )


def least_interval_ms(judge: Judge) -> float:
    """Return the shortest interval of all placements; only those that can win are simulated."""
    every = map(judge.estimate, every_placement(judge.table.rows))
    best = float("inf")
    for estimate in sorted(every, key=lambda each: each.floor_ms):
        if estimate.floor_ms >= best:
            break
        best = min(best, judge.interval_ms(estimate, estimate.slots))
    return best


def figures(subject: Subject, measured: MeasuredCosts, kind: str) -> list[Figure]:
    """Return a network's figures for one kind of costs: ratios to the best of all, seconds, and
    what it gains."""
    table = subject.table(measured)
    rule: Placement = tuple(subject.device[row.name] == "vta" for row in table.rows)
    name = f"{subject.name}, {kind} costs"
    ratios = []
    for window in windows(table):
        judge = Judge(window)
        found = find_split(judge, Goal(), few=0).best.interval_ms
        ratios.append(found / least_interval_ms(judge))
    made = [
        Figure(
            name=f"{name}: interval of the search / best of all placements, worst of "
            f"{len(ratios)} windows",
            value=max(ratios),
            unit="",
            at_most=MOST_RATIO,
            source="pipeline simulation",
        )
    ]
    for objective in ("throughput", "latency"):
        judge = Judge(table)
        begin = time.process_time()
        outcome = find_split(judge, Goal(objective=objective), [rule])
        seconds = time.process_time() - begin
        best, plain = outcome.best, judge.estimate(rule)
        plain_ms = judge.interval_ms(plain, plain.slots)
        made.append(
            Figure(
                name=f"{name}: search for {objective}",
                value=seconds,
                unit="s",
                at_most=MOST_SECONDS,
            )
        )
        values = [
            ("frame rate", "frames/s", 1e3 / best.interval_ms, 1e3 / plain_ms),
            ("latency", "ms", best.estimate.latency_ms, plain.latency_ms),
            ("stages", "", len(best.estimate.stages.devices), len(plain.stages.devices)),
        ]
        made += [
            Figure(
                name=f"{name}, {objective}: {what}",
                value=value,
                unit=unit,
                source=f"{before:.4g} without a search",
            )
            for what, unit, value, before in values
        ]
    return made


def sharing_figures(subject: Subject) -> list[Figure]:
    """Return the time of the search for shared operators, and what they gain by the model."""
    task = Task(
        quantized=subject.quantized,
        check=subject.check,
        board=BOARD,
        wishes=Wishes(objective="throughput"),
        measured=MeasuredCosts(board=BOARD),
    )
    arrangement = arrange(task.quantized, task.check, BOARD, task.wishes, Silent(), task.measured)
    begin = time.process_time()
    found = propose(task, arrangement)
    seconds = time.process_time() - begin
    return [
        Figure(
            name=f"{subject.name}: search for operators to share",
            value=seconds,
            unit="s",
            at_most=MOST_SECONDS,
        ),
        Figure(
            name=f"{subject.name}: frames per second with shared operators / without",
            value=1.0 if found is None else found.gain,
            unit="",
            source="before compilation",
        ),
    ]


def main(arguments: Sequence[str]) -> int:
    """Search the networks, all of them without names; return 1 if a limit is missed."""
    names = [each for each in arguments if each != MODELLED]
    found: list[Figure] = []
    for name in names or NETWORKS:
        print(name, file=sys.stderr, flush=True)
        subject = Subject.read(name)
        found += figures(subject, MeasuredCosts(board=BOARD), "modelled")
        if MODELLED not in arguments:
            measured = trial_costs(name, subject.quantized, subject.check, BOARD)
            found += figures(subject, measured, "measured")
        found += sharing_figures(subject)
    return publish("split", found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

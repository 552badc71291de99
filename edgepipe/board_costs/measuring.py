"""Measure a board: run every probe there over RPC, and find the costs from the times."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgepipe import scratch
from edgepipe.board_costs import probe_bundle
from edgepipe.board_costs.arm_probes import ArmProbe, arm_probes, hop_stages
from edgepipe.board_costs.cost_fit import Fit, fit_costs
from edgepipe.board_costs.probes import CACHED, EMPTY, probe_programs
from edgepipe.board_costs.record import Record, identity
from edgepipe.board_costs.runner import TRIAL, Runner, check_machine
from edgepipe.boards import ArmTiming, Board
from edgepipe.errors import BoardError, RpcError
from edgepipe.interrupts import remembered
from edgepipe.pipeline import load_on
from edgepipe.progress import Progress
from edgepipe.rpc.session import Session
from vta_stages.program import Program
from vta_stages.timing.timing_model import time_program

_HOP = "handover"
_HOST = "host"
"""What a launch takes before the accelerator starts and after it ends: the empty program's time
without the accelerator's. Of other programs, only the accelerator's time counts, because the host
also checks each of their instructions. Of the one for the caches, the host's time counts, too."""
_LEAST_US = 1e-3
_HOP_PAUSE_S = 0.005  # threads that wait for a frame sleep by then
_HOP_FRAMES = 50
_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureOptions:
    """How to measure: ``device`` runs the programs, and each probe runs ``repeat`` times at once.

    That is repeated until the least time no longer falls, because something else may have slowed
    all runs down. ``record`` is the file that keeps the times until the measurement is complete,
    ``host`` the name of the board, by which they are found again.
    """

    record: Path
    host: str = ""
    device: str = "auto"
    repeat: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The costs of a board's accelerator and of its cores, and the machine that was measured.

    ``arm_us`` are the measured times of the kernels.
    """

    machine: Mapping[str, Any]
    device: str
    repeat: int
    fit: Fit
    arm_timing: ArmTiming
    arm_us: Mapping[str, float]


def measure(
    connect: Callable[[], Session], board: Board, options: MeasureOptions, progress: Progress
) -> Measured:
    """Measure the board that ``connect`` opens a session with.

    ``board`` states its accelerator, its architecture and the clock of its cores. Costs that cannot
    be measured (``cost_fit.KEPT``) are kept. Times that ``options.record`` holds of an earlier,
    interrupted measurement of the same board are not measured again. The file stays: its owner
    removes it once the costs are safe. Raises RpcError if a probe fails, BoardError for a machine
    of another architecture or without an accelerator, LayerError or CodegenError for a board that
    no probe fits.
    """
    progress.step("connect")
    # TVM may swallow an interrupt while it compiles.
    with (
        scratch.folder("measure") as folder,
        remembered() as interrupts,
        connect() as session,
        _repeatable(session, options.record),
    ):
        machine = session.info()
        architecture = check_machine(machine, board, trial=options.device == TRIAL)
        progress.step("write the accelerator's programs")
        programs = {
            name: dataclasses.replace(
                program, modelled_cycles=time_program(program, board.timing).cycles
            )
            for name, program in probe_programs(board.accelerator, board.timing).items()
        }
        accelerator_stages = probe_bundle.of_programs(programs, board, architecture)
        known = identity(options.host, options.device, machine["machine"], accelerator_stages.files)
        record = Record.open(options.record, known)
        if record.times_us:
            progress.notice(
                f"{options.record.name} has the times of {len(record.times_us.keys() - {_HOST})} "
                "probes, which are not measured again"
            )
        progress.step("measure the accelerator")
        path = accelerator_stages.write(folder / "accelerator.edgepipe")
        device = _time_stages(session, path, programs, options, record, progress)
        progress.step("compile the cores' kernels")
        kernels = arm_probes()
        hops = {f"{_HOP}_{n}": stage for n, stage in enumerate(hop_stages(2))}
        core_stages, hop_pair = (
            probe_bundle.of_kernels(probes, board, architecture, progress)
            for probes in (kernels, hops)
        )
        interrupts.check()
        progress.step("measure the cores")
        path = core_stages.write(folder / "cores.edgepipe")
        _time_stages(session, path, kernels, options, record, progress)
        if _HOP not in record.times_us:
            path = hop_pair.write(folder / "hops.edgepipe")
            record.add(_HOP, _time_hop(session, path, list(hops.values()), options))
    progress.step("find the costs")
    times = record.times_us
    host_us = times[_HOST]
    fit = fit_costs(programs, {name: times[name] + host_us for name in programs}, board.timing)
    return Measured(
        machine=machine,
        device=device,
        repeat=options.repeat,
        fit=fit,
        arm_timing=_arm_timing(kernels, times, board),
        arm_us={name: times[name] for name in (*kernels, _HOP)},
    )


@contextlib.contextmanager
def _repeatable(session: Session, record: Path) -> Iterator[None]:
    """Say of a lost session that nothing that was measured is lost with it."""
    try:
        yield
    except RpcError as cause:
        if not session.exchange.broken:
            raise
        raise RpcError(
            f"the session with the board has ended: {cause}",
            hint=f"measure again: what {record.name} holds is not measured again",
        ) from cause


def _time_stages(
    session: Session,
    path: Path,
    stages: Mapping[str, Program | ArmProbe],
    options: MeasureOptions,
    record: Record,
    progress: Progress,
) -> str:
    """Time every stage of a bundle that ``record`` lacks; return the device of its programs."""
    with Runner.open(session, path, options.device) as runner:
        for done, name in enumerate(stages):
            progress.update(done, len(stages))
            if name in record.times_us:
                continue
            least = runner.least(done, options.repeat)
            if least.fault:
                raise BoardError(
                    f"probe '{name}' did not run without a fault: {least.fault}",
                    hint="examine the board",
                    option="examination",
                    value=options.host,
                )
            if name == EMPTY:
                record.add(_HOST, max(least.us - least.device_us, _LEAST_US))
            us = least.device_us or least.us
            if name == CACHED:  # differs from the empty program only in what the host does
                us = max(least.us - record.times_us[_HOST], _LEAST_US)
            record.add(name, us)
        progress.update(len(stages), len(stages))
        return runner.device


def _time_hop(
    session: Session, path: Path, stages: list[ArmProbe], options: MeasureOptions
) -> float:
    """Return the time from the end of a stage to the start of the next one, in microseconds.

    Threads sleep between the frames, so each stage is woken once for a frame.
    """
    first = stages[0]
    with load_on(session, path, device=options.device) as pipeline:
        for name, dtype in first.inputs.items():
            pipeline.set_input(name, np.zeros(first.shape, dtype))
        for _ in range(_HOP_FRAMES):
            time.sleep(_HOP_PAUSE_S)
            pipeline.run()
            pipeline.next(timeout_s=_TIMEOUT_S)
        found = pipeline.statistics()
    busy_ms = sum(stage.busy.median_ms for stage in found.stages)
    return max(1e3 * (found.latency.median_ms - busy_ms) / len(stages), 0.1)


def _arm_timing(
    kernels: Mapping[str, ArmProbe], times_us: Mapping[str, float], board: Board
) -> ArmTiming:
    costs: dict[str, Any] = {
        probe.cost: _rounded(probe.cost_of(times_us[name] / 1e3, board))
        for name, probe in kernels.items()
    }
    return dataclasses.replace(board.arm_timing, handover_us=_rounded(times_us[_HOP]), **costs)


def _rounded(value: float) -> float:
    """Return a value with three digits, as accurate as a measurement is."""
    return float(f"{value:.3g}")

"""Simulate the timing of a program: fetch, load, compute and store, which share one port.

The fetch unit reads instructions from DRAM in bursts and pushes them, in order, to three bounded
command queues. Each module runs its queue in order: it waits for its instruction, pops tokens,
works, and pushes tokens. If it is several users of the port, their instructions overlap, but each
begins after those before it have begun, and pushes its tokens after they have. The rows of a
transfer run one after the other. Each waits for the latency of the memory and then moves its bytes
in bursts over the :mod:`port <vta_stages.timing.port>`, which serves one burst at a time in order
of request, or takes several requests at the same time. Costs come from
:class:`vta_stages.timing.cost_model.CostModel`.

    load      |wait fetch|wait token|12| 80 |wait port|bytes| 80 |bytes|
                                    ^busy, except for the waits for the port
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from vta_stages.isa.instructions import (
    SINGLE_ROW,
    MemoryType,
    Module,
    Opcode,
    Token,
    element_bytes,
)
from vta_stages.program import Program
from vta_stages.timing.cost_model import CostModel
from vta_stages.timing.port import FETCH, Burst, Port, Transfer, port_of

INSTRUCTION_BYTES = 16
_PUSHES = ((Token.PUSH_PREV, -1), (Token.PUSH_NEXT, 1))
_POPS = ((Token.POP_PREV, -1), (Token.POP_NEXT, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleTiming:
    """How a module spent its time, and the bytes that it moved.

    ``previous_cycles`` and ``next_cycles`` are waits for a token from a neighbour, in the order
    load, compute, store. The rest of a program's time comes after the module's last instruction.
    """

    busy_cycles: int = 0
    fetch_cycles: int = 0
    previous_cycles: int = 0
    next_cycles: int = 0
    port_cycles: int = 0
    moved_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerTiming:
    """The share of a layer: its cycles and the work of the modules.

    Layers overlap. The cycles of a layer are those from the end of the layer before it to its own
    end: what it adds to the program.
    """

    name: str
    cycles: int
    gemm_steps: int
    modules: Mapping[Module, ModuleTiming]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The cycles of a run: the host's launch, then from the start to the end of FINISH.

    The launch includes the maintenance of the host's caches. Modules and layers do not contain it.
    """

    cycles: int
    launch_cycles: int
    gemm_steps: int
    modules: Mapping[Module, ModuleTiming]
    layers: tuple[LayerTiming, ...]


def time_program(
    program: Program, cost: CostModel | None = None, port: Port | None = None
) -> Timing:
    """Return the timing of a verified program; ``cost`` defaults to the HLS source's.

    ``port``, at rest, moves the bytes; by default the one that ``cost`` describes.
    """
    cost = cost or CostModel()
    work = _Work.of(program, cost)
    machine = _Machine(program, work, cost, port or port_of(cost))
    machine.run()
    waits = {name: np.array(values, np.int64) for name, values in machine.waits.items()}
    modules = program.table.modules
    spent = _spent(modules, np.array(machine.begins, np.int64), np.array(machine.ends, np.int64))
    busy = np.maximum(spent - waits["port_cycles"], 0)
    columns = {"busy_cycles": busy, **waits, "moved_bytes": work.moved}

    def summary(first: int, end: int) -> dict[Module, ModuleTiming]:
        chosen = modules[first:end]
        return {
            module: ModuleTiming(
                **{
                    name: int(column[first:end][chosen == module].sum())
                    for name, column in columns.items()
                }
            )
            for module in Module
        }

    layers = []
    before = 0
    for span in program.layers:
        end = span.first + span.count
        done = max([before, *machine.ends[span.first : end]])
        layers.append(
            LayerTiming(
                name=span.name,
                cycles=done - before,
                gemm_steps=int(work.gemm_steps[span.first : end].sum()),
                modules=summary(span.first, end),
            )
        )
        before = done
    borders = (*program.inputs, *program.outputs)
    launch_cycles = cost.host_cycles(sum(region.bytes for region in borders))
    return Timing(
        cycles=launch_cycles + max(machine.ends, default=0),
        launch_cycles=launch_cycles,
        gemm_steps=int(work.gemm_steps.sum()),
        modules=summary(0, len(modules)),
        layers=tuple(layers),
    )


def program_bytes(program: Program) -> int:
    """Return the bytes that a run of a program moves, its instructions included."""
    moved = int(_Work.of(program, CostModel()).moved.sum())
    return moved + len(program.instructions) * INSTRUCTION_BYTES


def _spent(
    modules: NDArray[np.uint8], begins: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return each instruction's cycles, without those before the end of its module's last one."""
    spent = np.zeros(len(ends), np.int64)
    for module in Module:
        own = modules == module
        before = np.concatenate([[0], ends[own]])[:-1]
        spent[own] = ends[own] - np.maximum(begins[own], before)
    return spent


@dataclass(frozen=True, slots=True, eq=False)
class _Work:
    """The work of each instruction by itself, [n] each; only transfers have ``rows``."""

    cycles: NDArray[np.int64]
    rows: NDArray[np.int64]
    row_bytes: NDArray[np.int64]
    row_cycles: NDArray[np.int64]
    gemm_steps: NDArray[np.int64]
    loads_weights: NDArray[np.bool_]

    @property
    def moved(self) -> NDArray[np.int64]:
        """The bytes that each instruction moves."""
        moved: NDArray[np.int64] = self.rows * self.row_bytes
        return moved

    @staticmethod
    def of(program: Program, cost: CostModel) -> _Work:
        """Return the work of a program's instructions."""
        table = program.table
        cycles = np.full(len(table), cost.instruction_cycles, np.int64)
        rows, row_bytes, gemm_steps = (np.zeros(len(table), np.int64) for _ in range(3))
        row_cycles = np.full(len(table), cost.dma_row_cycles, np.int64)
        loads_weights = np.zeros(len(table), np.bool_)
        sizes = np.array([element_bytes(program.accelerator, memory) for memory in MemoryType])
        for opcode in (Opcode.LOAD, Opcode.STORE):
            columns, at = table.columns[opcode], table.positions[opcode]
            memory = columns.get("memory_type", np.full(len(at), MemoryType.OUT))
            rows[at] = np.where(np.isin(memory, SINGLE_ROW), 1, columns["y_size"])
            row_bytes[at] = columns["x_size"] * sizes[memory]
            loads_weights[at] = memory == MemoryType.WGT
            if opcode is Opcode.LOAD:
                is_tensor = (memory == MemoryType.INP) | (memory == MemoryType.WGT)
                cycles[at[is_tensor]] += cost.tensor_load_cycles
            else:
                latencies = [cost.store_row_latency(count) for count in row_bytes[at].tolist()]
                row_cycles[at] = np.array(latencies, np.int64)
        for opcode, step_cycles in (
            (Opcode.GEMM, cost.gemm_step_cycles),
            (Opcode.ALU, cost.alu_step_cycles),
        ):
            columns, at = table.columns[opcode], table.positions[opcode]
            loops = columns["iter_out"] * columns["iter_in"]
            steps = loops * (columns["uop_end"] - columns["uop_bgn"])
            cycles[at] += loops * cost.loop_cycles + steps * step_cycles
            if opcode is Opcode.GEMM:
                gemm_steps[at] = steps
            else:
                more = cost.vector_step_cycles - cost.alu_step_cycles
                cycles[at] += steps * more * (columns["use_imm"] == 0)
        return _Work(cycles, rows, row_bytes, row_cycles, gemm_steps, loads_weights)


@dataclass(slots=True, eq=False)
class _Queue:
    """A bounded queue as the times of its pushes and pops; push n waits for pop n - depth."""

    depth: int
    pushed: list[int] = field(default_factory=list)
    popped: list[int] = field(default_factory=list)

    def room(self) -> int | None:
        """Return the time from which there is room for the next push, None if not known yet."""
        over = len(self.pushed) - self.depth
        if over < 0:
            return 0
        return self.popped[over] if over < len(self.popped) else None

    def filled(self) -> int | None:
        """Return the time at which the next entry to pop was pushed, None if not known yet."""
        at = len(self.popped)
        return self.pushed[at] if at < len(self.pushed) else None


@dataclass(slots=True, eq=False)
class _Unit:
    """A module, which is processing the instructions ``queue[ended:begun]`` of its queue.

    There is more than one only if it ``overlaps``. ``free`` is when each of its users has ended its
    work; ``transferring`` has the instruction of each that is not known yet, and ``endings`` the
    times of those that are.
    """

    module: Module
    queue: list[int]
    commands: _Queue
    overlaps: bool
    begun: int = 0
    ended: int = 0
    last_begin: int = 0
    last_end: int = 0
    free: dict[int, int] = field(default_factory=dict)
    transferring: dict[int, int] = field(default_factory=dict)
    endings: dict[int, int] = field(default_factory=dict)


class _Machine:
    """Processes the events of a program in order of time. Call :meth:`run` once."""

    def __init__(self, program: Program, work: _Work, cost: CostModel, port: Port) -> None:
        table, accelerator = program.table, program.accelerator
        self._cost = cost
        self._cycles: list[int] = work.cycles.tolist()
        self._rows: list[int] = work.rows.tolist()
        self._row_bytes: list[int] = work.row_bytes.tolist()
        self._row_cycles: list[int] = work.row_cycles.tolist()
        self._loads_weights: list[bool] = work.loads_weights.tolist()
        self._flags: list[int] = table.tokens.tolist()
        self._modules: list[int] = table.modules.tolist()
        self._users = [
            port.user(module, weights=weights)
            for module, weights in zip(self._modules, self._loads_weights, strict=True)
        ]
        count = len(self._modules)
        self._units = [
            _Unit(
                module,
                np.flatnonzero(table.modules == module).tolist(),
                _Queue(
                    accelerator.load_commands
                    if module is Module.LOAD
                    else accelerator.command_queue_depth
                ),
                overlaps=port.user(module, weights=True) != port.user(module, weights=False),
            )
            for module in Module
        ]
        self._tokens: dict[tuple[int, int], _Queue] = {
            (m, n): _Queue(accelerator.token_queue_depth)
            for m in Module
            for n in Module
            if abs(m - n) == 1
        }
        self.begins, self.ends = [0] * count, [0] * count
        names = ("fetch_cycles", "previous_cycles", "next_cycles", "port_cycles")
        self.waits: dict[str, list[int]] = {name: [0] * count for name in names}
        # The fetch unit: instructions requested, arrival times of those not yet pushed, its clock.
        self._requested = self._fetched = 0
        self._arrivals: list[int] = []
        self._fetch_free = 0
        self._port = port

    def run(self) -> None:
        """Simulate the program; fill ``begins``, ``ends`` and ``waits``, in cycles."""
        self._fetch()
        while True:
            # No later request is earlier than the burst that was served last.
            while any([self._push_fetched(), *(self._advance(unit) for unit in self._units)]):
                pass
            burst = self._port.serve()
            if burst is None:
                return
            self._take(burst)

    def _take(self, burst: Burst) -> None:
        """Take a burst that the port has moved."""
        if burst.user == FETCH:
            self._arrivals = [
                burst.begin + self._cost.port_cycles(done)
                for done in range(INSTRUCTION_BYTES, burst.count_bytes + 1, INSTRUCTION_BYTES)
            ]
            return
        (unit,) = (unit for unit in self._units if burst.user in unit.transferring)
        index = unit.transferring[burst.user]
        self.waits["port_cycles"][index] += burst.port_cycles
        if burst.last:
            del unit.transferring[burst.user]
            unit.endings[index] = unit.free[burst.user] = burst.end

    # The fetch unit.

    def _fetch(self) -> None:
        """Request the next burst of instructions."""
        left = len(self._modules) - self._requested
        if not left:
            return
        count = min(left, self._cost.burst_bytes // INSTRUCTION_BYTES)
        self._requested += count
        burst = Transfer(
            rows=1, row_bytes=count * INSTRUCTION_BYTES, row_cycles=self._cost.dma_row_cycles
        )
        self._port.start(FETCH, self._fetch_free, burst)

    def _push_fetched(self) -> bool:
        """Push instructions that have arrived while there is room; return whether any was
        pushed."""
        first = self._fetched
        begin = first - (self._requested - len(self._arrivals))
        for arrival in self._arrivals[begin:]:
            commands = self._units[self._modules[self._fetched]].commands
            room = commands.room()
            if room is None:
                return self._fetched > first
            self._fetch_free = max(self._fetch_free, arrival, room)
            commands.pushed.append(self._fetch_free)
            self._fetched += 1
        if self._arrivals:
            self._arrivals = []
            self._fetch()
        return self._fetched > first

    # Modules.

    def _advance(self, unit: _Unit) -> bool:
        """Run a module until it waits or uses the port; return whether it made progress."""
        moved = False
        while self._finish(unit) or self._begin(unit):
            moved = True
        return moved

    def _begin(self, unit: _Unit) -> bool:
        if unit.begun == len(unit.queue) or (unit.begun > unit.ended and not unit.overlaps):
            return False
        index, module = unit.queue[unit.begun], unit.module
        user = self._users[index]
        free = unit.last_begin if unit.overlaps else unit.last_end
        fetched = unit.commands.filled() if unit.begun == len(unit.commands.popped) else None
        if fetched is None and unit.begun == len(unit.commands.popped):
            return False
        if fetched is not None:
            unit.commands.popped.append(max(free, fetched))
            self.waits["fetch_cycles"][index] = max(fetched - max(free, unit.last_end), 0)
        if user in unit.transferring:
            return fetched is not None
        flags = self._flags[index]
        pops = [self._tokens[module + step, module] for flag, step in _POPS if flags & flag]
        tokens = [queue.filled() for queue in pops]
        if None in tokens:
            # Taking an instruction made room in its queue, even if it has to wait now.
            return fetched is not None
        at = max(unit.commands.popped[unit.begun], unit.free.get(user, 0))
        for (flag, _), name in zip(_POPS, ("previous_cycles", "next_cycles"), strict=True):
            if flags & flag:
                pushed = tokens.pop(0) or 0
                self.waits[name][index] = max(pushed - at, 0)
                at = max(at, pushed)
        for queue in pops:
            queue.popped.append(at)
        self.begins[index] = unit.last_begin = at
        unit.begun += 1
        if self._rows[index]:
            unit.transferring[user] = index
            self._port.start(user, at + self._cycles[index], self._transfer(index, module))
        else:
            unit.endings[index] = unit.free[user] = at + self._cycles[index]
        return True

    def _transfer(self, index: int, module: Module) -> Transfer:
        return Transfer(
            rows=self._rows[index],
            row_bytes=self._row_bytes[index],
            row_cycles=self._row_cycles[index],
            weights=self._loads_weights[index],
            writes=module is Module.STORE,
        )

    def _finish(self, unit: _Unit) -> bool:
        if unit.ended == unit.begun:
            return False
        index, module = unit.queue[unit.ended], unit.module
        ending = unit.endings.get(index)
        flags = self._flags[index]
        pushes = [self._tokens[module, module + step] for flag, step in _PUSHES if flags & flag]
        rooms = [queue.room() for queue in pushes]
        if ending is None or None in rooms:
            return False
        end = max([ending, unit.last_end, *(room for room in rooms if room is not None)])
        for queue in pushes:
            queue.pushed.append(end)
        self.ends[index] = unit.last_end = end
        del unit.endings[index]
        unit.ended += 1
        return True

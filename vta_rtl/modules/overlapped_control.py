"""The life of instructions that run at the same time, with their tokens in order."""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from vta_rtl.isa.layouts import INSTRUCTION_BITS, head_layout
from vta_rtl.modules.instruction_control import control_members, token_port

MOST_BEGUN = 4
"""Instructions that have begun and not pushed their token, those that have ended included."""


def unit_port() -> wiring.Signature:
    """Return the side of the control to a unit that runs one instruction at a time.

    ``start`` Out(1), for one cycle; ``instruction`` Out(128), which stays from then until ``busy``
    In(1) is 0 again, which is 1 from the cycle after ``start`` on for as long as it runs.
    """
    return wiring.Signature({"start": Out(1), "instruction": Out(INSTRUCTION_BITS), "busy": In(1)})


class OverlappedControl(wiring.Component):
    """Gives instructions to several units, which run one each at the same time.

    An instruction begins when it has popped its token, its unit is free and all before it have
    begun. It pushes its token when it has ended and all before it have pushed theirs. So to a
    neighbour, instructions look as if they ran one after the other.

    Members: ``command`` In, a stream of instructions, which leave when they begin; ``unit`` In, the
    place of the command's unit among ``units``; by the name of a unit, :func:`unit_port` Out;
    ``next`` Out, a token port. There is no neighbour before it.

    ``active`` Out(1) is 1 while an instruction has begun and has not pushed; ``waiting`` Out(1) is
    1 while no unit runs, and a token or room for one is missing. With ``abort`` In(1), instructions
    that run end without pushing tokens, and all others leave without running.
    """

    def __init__(self, units: tuple[str, ...]) -> None:
        self._units = units
        super().__init__(
            {
                "command": In(stream.Signature(INSTRUCTION_BITS)),
                "unit": In(ceil_log2(len(units))),
                "next": Out(token_port()),
                **{name: Out(unit_port()) for name in units},
                **control_members(),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Return the circuit."""
        m = Module()
        head = data.View(head_layout(), self.command.payload)
        # For each instruction that has begun: whether it pushes, and its unit.
        m.submodules.begun = begun = SyncFIFO(width=1 + len(self.unit), depth=MOST_BEGUN)
        popped, pops, begins = Signal(), Signal(), Signal()
        free = Array(Signal(name=f"{name}_free") for name in self._units)
        # By unit, how many of its instructions have ended and not pushed.
        ended = Array(Signal(range(MOST_BEGUN + 1), name=f"{n}_ended") for n in self._units)
        runs = Signal(len(self._units))
        pushes, oldest = begun.r_data[0], begun.r_data[1:]
        retires, can_retire = Signal(), Signal()
        m.d.comb += [
            pops.eq(self.command.valid & head.pop_next & ~popped & ~self.abort),
            self.next.pop_ready.eq(pops),
            begins.eq(
                self.command.valid
                & (~pops | self.next.pop_valid)
                & free[self.unit]
                & begun.w_rdy
                & ~self.abort
            ),
            self.command.ready.eq(begins | self.abort),
            begun.w_en.eq(begins),
            begun.w_data.eq(Cat(head.push_next, self.unit)),
            can_retire.eq(begun.r_rdy & (ended[oldest] != 0)),
            self.next.push_valid.eq(can_retire & pushes & ~self.abort),
            retires.eq(can_retire & (~pushes | self.next.push_ready | self.abort)),
            begun.r_en.eq(retires),
            self.active.eq(begun.r_rdy),
            self.waiting.eq(
                ~runs.any()
                & ((pops & ~self.next.pop_valid) | (self.next.push_valid & ~self.next.push_ready))
            ),
        ]
        with m.If(self.command.ready):
            m.d.sync += popped.eq(0)
        with m.Elif(pops & self.next.pop_valid):
            m.d.sync += popped.eq(1)
        for number, name in enumerate(self._units):
            unit = getattr(self, name)
            takes, ends = begins & (self.unit == number), Signal(name=f"{name}_ends")
            m.d.comb += [
                ends.eq(runs[number] & ~unit.start & ~unit.busy),
                free[number].eq(~runs[number] | ends),
            ]
            m.d.sync += [
                unit.start.eq(takes),
                ended[number].eq(ended[number] + ends - (retires & (oldest == number))),
            ]
            with m.If(takes):
                m.d.sync += [runs[number].eq(1), unit.instruction.eq(self.command.payload)]
            with m.Elif(ends):
                m.d.sync += runs[number].eq(0)
        return m

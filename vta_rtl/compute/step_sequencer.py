"""The loops of a GEMM or ALU instruction, one step a cycle."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vta_rtl.buffers.ports import READ_CYCLES, read_port
from vta_rtl.isa.layouts import INSTRUCTION_BITS, instruction_layout, uop_layout
from vta_stages.accelerator import Accelerator
from vta_stages.isa.instructions import Opcode

_OPERANDS = ("dst", "src", "wgt")

STEP_CYCLES = READ_CYCLES + 1
"""Cycles from the beginning of a step to its indices: its uop, and a sum."""


class StepSequencer(wiring.Component):
    """Walks through ``iter_out``, ``iter_in`` and the uops, and names the elements of each step.

    Members: ``start`` In(1), for one cycle in which ``busy`` is 0; ``instruction`` In(128), which
    the caller holds until ``busy`` Out(1) is 0 again; ``uop``, a read port; ``valid`` Out(1) and
    the indices ``dst``, ``src`` and ``wgt`` Out of one step a cycle. No cycle is lost between
    iterations. Loops without iterations or uops give no step. ``stop`` In(1) ends the
    loops at once. No step begins while ``hold`` In(1) is 1; ``STEP_CYCLES`` steps that have begun
    may still come.

    An index is that of the uop plus ``o * factor_out + i * factor_in``, modulo the size of its
    buffer. ``src`` has enough bits for the input and the accumulator buffer, because the ALU reads
    the latter. An ALU instruction has no ``wgt`` factors; its ``wgt`` means nothing.
    """

    def __init__(self, accelerator: Accelerator) -> None:
        self._gemm = instruction_layout(accelerator, Opcode.GEMM)
        self._uop = uop_layout(accelerator)
        widths = {name: self._uop[name].width for name in _OPERANDS}
        widths["src"] = max(widths["src"], widths["dst"])
        self._widths = widths
        super().__init__(
            {
                "start": In(1),
                "stop": In(1),
                "hold": In(1),
                "instruction": In(INSTRUCTION_BITS),
                "busy": Out(1),
                "uop": Out(read_port(8 * accelerator.uop_bytes, accelerator.uop_depth)),
                "valid": Out(1),
                **{name: Out(width) for name, width in widths.items()},
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Return the circuit."""
        m = Module()
        # The loops' fields are at the same bits in GEMM and ALU.
        loops = data.View(self._gemm, self.instruction)
        running = Signal()
        next_uop = Signal(self._gemm["uop_end"].width)
        outer = Signal(self._gemm["iter_out"].width)
        inner = Signal(self._gemm["iter_in"].width)
        widths = self._widths.items()
        offset = {name: Signal(width, name=f"{name}_offset") for name, width in widths}
        row = {name: Signal(width, name=f"{name}_row") for name, width in widths}

        has_steps = (loops.uop_bgn < loops.uop_end) & (loops.iter_out != 0) & (loops.iter_in != 0)
        with m.If(self.start & has_steps):
            m.d.sync += [running.eq(1), next_uop.eq(loops.uop_bgn), outer.eq(1), inner.eq(1)]
            m.d.sync += [signal.eq(0) for signal in (*offset.values(), *row.values())]
        with m.Elif(running & ~self.hold):
            m.d.sync += next_uop.eq(next_uop + 1)
            with m.If(next_uop + 1 == loops.uop_end):
                m.d.sync += next_uop.eq(loops.uop_bgn)
                with m.If(inner != loops.iter_in):
                    m.d.sync += inner.eq(inner + 1)
                    for name in _OPERANDS:
                        factor = getattr(loops, f"{name}_factor_in")
                        m.d.sync += offset[name].eq(offset[name] + factor)
                with m.Else():
                    m.d.sync += [inner.eq(1), outer.eq(outer + 1)]
                    for name in _OPERANDS:
                        begin = row[name] + getattr(loops, f"{name}_factor_out")
                        m.d.sync += [row[name].eq(begin), offset[name].eq(begin)]
                    with m.If(outer == loops.iter_out):
                        m.d.sync += running.eq(0)
        with m.If(self.stop):
            m.d.sync += running.eq(0)
        m.d.comb += self.uop.address.eq(next_uop)

        # The offsets wait for their uop.
        begins = running & ~self.hold
        valid, offsets, valids = begins, offset, [running]
        for cycle in range(READ_CYCLES):
            delayed = {
                name: Signal(width, name=f"{name}_offset_{cycle}")
                for name, width in self._widths.items()
            }
            delayed_valid = Signal(name=f"valid_{cycle}")
            m.d.sync += [delayed[name].eq(offsets[name]) for name in _OPERANDS]
            m.d.sync += delayed_valid.eq(valid)
            valid, offsets = delayed_valid, delayed
            valids.append(valid)
        uop = data.View(self._uop, self.uop.data)
        m.d.sync += self.valid.eq(valid)
        m.d.sync += [
            getattr(self, name).eq(getattr(uop, name) + offsets[name]) for name in _OPERANDS
        ]
        m.d.comb += self.busy.eq(sum(valids) != 0)
        return m

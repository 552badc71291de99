"""The module that computes, and loads uops, accumulators and tables."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from vta_rtl.buffers.accumulator_buffer import AccumulatorBuffer
from vta_rtl.buffers.ports import read_port, write_port
from vta_rtl.buffers.uop_buffer import UopBuffer, uops_at_once
from vta_rtl.compute.dsp_cell import ProductCell
from vta_rtl.compute.engine import Engine
from vta_rtl.compute.table_lookup import TableLookup
from vta_rtl.dram.axi import ADDRESS_BITS, read_bus
from vta_rtl.dram.loader import Loader
from vta_rtl.isa.layouts import INSTRUCTION_BITS, head_layout
from vta_rtl.modules.instruction_control import (
    NEIGHBOURS,
    InstructionControl,
    control_members,
    token_port,
)
from vta_stages.accelerator import Accelerator, Extension
from vta_stages.isa.instructions import MemoryType, Opcode


def _widened(element: Value) -> Value:
    """Return an element of accumulators with the int8 lanes of ``element``."""
    lanes = [element.word_select(n, 8) for n in range(len(element) // 8)]
    return Cat(*(Cat(lane, lane[-1].replicate(24)) for lane in lanes))


class ComputeModule(wiring.Component):
    """Runs the compute queue's instructions, with the uop and accumulator buffers in it.

    Members: ``command`` In, a stream of instructions; ``prev`` and ``next`` Out, the token ports to
    load and store; ``bus``, a master that reads; ``inp`` and ``wgt``, read ports, ``out``, a write
    port; ``uop_base`` and ``acc_base`` In, where ``dram_base`` counts from, in bytes, for tables as
    for uops; ``finished`` Out(1), 1 for one cycle in each FINISH, when its tokens have been popped;
    ``active``, ``waiting`` and ``abort``, those of
    :class:`~vta_rtl.modules.instruction_control.InstructionControl`.

    An instruction with an unknown opcode only moves its tokens, and ``unknown_opcode`` Out(1) is 1
    for one cycle.

    Raises AcceleratorError if the bus does not fit the accelerator.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        *,
        bus_bytes: int,
        cell: ProductCell = ProductCell.BEHAVIOURAL,
    ) -> None:
        self._accelerator = a = accelerator
        self._cell = cell
        self._bus_bytes = bus_bytes
        super().__init__(
            {
                "command": In(stream.Signature(INSTRUCTION_BITS)),
                **{neighbour: Out(token_port()) for neighbour in NEIGHBOURS},
                **control_members(),
                "bus": Out(read_bus(bus_bytes)),
                "uop_base": In(ADDRESS_BITS),
                "acc_base": In(ADDRESS_BITS),
                "inp": Out(read_port(8 * a.inp_bytes, a.inp_depth)),
                "wgt": Out(read_port(8 * a.wgt_bytes, a.wgt_depth)),
                "out": Out(write_port(8 * a.out_bytes, a.out_depth)),
                "finished": Out(1),
                "unknown_opcode": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Return the circuit."""
        m = Module()
        a = self._accelerator
        m.submodules.control = control = InstructionControl()
        for name in ("active", "waiting"):
            m.d.comb += getattr(self, name).eq(getattr(control, name))
        m.d.comb += control.abort.eq(self.abort)
        m.submodules.engine = engine = Engine(a, cell=self._cell)
        kinds: tuple[MemoryType, ...] = (MemoryType.UOP, MemoryType.ACC)
        if a.has(Extension.TABLE):
            kinds += (MemoryType.TABLE,)
        if a.has(Extension.WIDEN):
            kinds += (MemoryType.ACC8,)
        m.submodules.loader = loader = Loader(a, kinds, bus_bytes=self._bus_bytes)
        m.submodules.uop = uop = UopBuffer(a, at_once=uops_at_once(a, self._bus_bytes))
        m.submodules.acc = acc = AccumulatorBuffer(a)

        wiring.connect(m, wiring.flipped(self.command), control.command)
        for neighbour in NEIGHBOURS:
            ours = wiring.flipped(getattr(self, neighbour))
            wiring.connect(m, getattr(control, neighbour), ours)
        wiring.connect(m, loader.bus, wiring.flipped(self.bus))
        for name in ("inp", "wgt"):
            wiring.connect(m, getattr(engine, name), wiring.flipped(getattr(self, name)))
        if a.has(Extension.TABLE):
            m.submodules.table = table = TableLookup(a)
            m.d.comb += [
                table.instruction.eq(self.command.payload),
                loader.table_base.eq(self.uop_base),
            ]
            wiring.connect(m, loader.table, table.table)
            wiring.connect(m, engine.out, table.results)
            wiring.connect(m, table.out, wiring.flipped(self.out))
        else:
            wiring.connect(m, engine.out, wiring.flipped(self.out))
        wiring.connect(m, engine.uop, uop.read)
        wiring.connect(m, loader.uop, uop.write)
        wiring.connect(m, engine.acc_dst, acc.read_0)
        wiring.connect(m, engine.acc_src, acc.read_1)
        # Only one instruction runs, so at most one of them writes.
        writers = [(loader.acc, loader.acc.data), (engine.acc, engine.acc.data)]
        if a.has(Extension.WIDEN):
            m.d.comb += loader.acc8_base.eq(self.acc_base)
            writers.append((loader.acc8, _widened(loader.acc8.data)))
        for writer, element in writers:
            with m.If(writer.enable):
                m.d.comb += [
                    acc.write.enable.eq(1),
                    acc.write.address.eq(writer.address),
                    acc.write.data.eq(element),
                ]

        opcode = data.View(head_layout(), self.command.payload).opcode
        m.d.comb += [
            engine.instruction.eq(self.command.payload),
            loader.instruction.eq(self.command.payload),
            loader.uop_base.eq(self.uop_base),
            loader.acc_base.eq(self.acc_base),
            engine.stop.eq(self.abort),
            control.busy.eq(engine.busy | loader.busy),
        ]
        with m.Switch(opcode):
            with m.Case(Opcode.GEMM, Opcode.ALU):
                m.d.comb += engine.start.eq(control.start)
            with m.Case(Opcode.LOAD):
                m.d.comb += loader.start.eq(control.start)
            with m.Case(Opcode.FINISH):
                m.d.comb += self.finished.eq(control.start)
            with m.Default():
                m.d.comb += self.unknown_opcode.eq(control.start)
        return m

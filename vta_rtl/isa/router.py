"""Decide which module runs an instruction."""

from __future__ import annotations

from amaranth.hdl import Module as HardwareModule
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vta_rtl.isa.layouts import INSTRUCTION_BITS, instruction_layout, whole_field
from vta_stages.accelerator import Accelerator
from vta_stages.isa.instructions import MemoryType, Module, Opcode


class InstructionRouter(wiring.Component):
    """Combinational: the module whose queue takes an instruction.

    Members: ``instruction`` In(128), ``module`` Out(2), a value of
    :class:`~vta_stages.isa.instructions.Module`.

    Loads of INP and WGT go to load, stores to store, and all else to compute, which ignores
    opcodes that it does not know. Source: ``fetch`` in apache/tvm-vta's ``vta.cc``.
    """

    def __init__(self, accelerator: Accelerator) -> None:
        self._layout = instruction_layout(accelerator, Opcode.LOAD)
        super().__init__({"instruction": In(INSTRUCTION_BITS), "module": Out(2)})

    def elaborate(self, platform: object) -> HardwareModule:
        """Return the circuit."""
        m = HardwareModule()
        load = data.View(self._layout, self.instruction)
        memory = whole_field(load, "memory_type")
        m.d.comb += self.module.eq(Module.COMPUTE)
        with m.If(load.opcode == Opcode.STORE):
            m.d.comb += self.module.eq(Module.STORE)
        with m.Elif(
            (load.opcode == Opcode.LOAD) & ((memory == MemoryType.INP) | (memory == MemoryType.WGT))
        ):
            m.d.comb += self.module.eq(Module.LOAD)
        return m

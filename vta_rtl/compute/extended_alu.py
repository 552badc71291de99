"""The operations of ALU instructions, with those of the accelerator's extensions."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vta_rtl.compute.leaky_relu import LeakyRelu
from vta_rtl.compute.multiplier import Multiplier
from vta_rtl.compute.requantiser import Requantiser
from vta_rtl.compute.vector_alu import VectorAlu
from vta_rtl.isa.layouts import INSTRUCTION_BITS, instruction_layout
from vta_stages.accelerator import Accelerator
from vta_stages.isa.instructions import AluOp, Opcode, alu_operations

_EXTENSIONS: dict[AluOp, type[Requantiser | Multiplier | LeakyRelu]] = {
    AluOp.REQUANTISE: Requantiser,
    AluOp.MULTIPLY: Multiplier,
    AluOp.LEAKY: LeakyRelu,
}


class ExtendedAlu(wiring.Component):
    """Combinational: a :class:`~vta_rtl.compute.vector_alu.VectorAlu` with more operations.

    Members are those of VectorAlu: ``instruction`` In(128); ``dst`` and ``src`` In and ``result``
    Out, int32[batch * block_out].
    """

    def __init__(self, accelerator: Accelerator) -> None:
        self._accelerator = accelerator
        element = data.ArrayLayout(signed(32), accelerator.acc_bytes // 4)
        super().__init__(
            {
                "instruction": In(INSTRUCTION_BITS),
                "dst": In(element),
                "src": In(element),
                "result": Out(element),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Return the circuit."""
        m = Module()
        layout = instruction_layout(self._accelerator, Opcode.ALU)
        alu = data.View(layout, self.instruction)
        operation = alu.alu_opcode
        if "alu_opcode_high" in layout.fields:
            operation = Cat(operation, alu.alu_opcode_high)
        m.submodules.vector_alu = stock = VectorAlu(self._accelerator)
        added = {
            operation: part(self._accelerator)
            for operation, part in _EXTENSIONS.items()
            if operation in alu_operations(self._accelerator)
        }
        for name, part in added.items():
            m.submodules[name.name.lower()] = part
        for part in (stock, *added.values()):
            m.d.comb += [
                part.instruction.eq(self.instruction),
                part.dst.eq(self.dst),
                part.src.eq(self.src),
            ]
        m.d.comb += self.result.eq(stock.result)
        with m.Switch(operation):
            for code, part in added.items():
                with m.Case(code):
                    m.d.comb += self.result.eq(part.result)
        return m


def alu_of(accelerator: Accelerator) -> VectorAlu | ExtendedAlu:
    """Return the ALU of an accelerator; without extensions that is the VectorAlu alone."""
    return ExtendedAlu(accelerator) if accelerator.extensions else VectorAlu(accelerator)

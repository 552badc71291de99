"""The operations of ALU instructions, with those of the accelerator's extensions."""

from __future__ import annotations

from amaranth.hdl import Module, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vta_rtl.compute.leaky_relu import LeakyRelu
from vta_rtl.compute.multiplier import Multiplier
from vta_rtl.compute.requantiser import Requantiser
from vta_rtl.compute.vector_alu import VectorAlu
from vta_rtl.isa.layouts import INSTRUCTION_BITS, instruction_layout, whole_field
from vta_stages.accelerator import Accelerator
from vta_stages.isa.instructions import AluOp, Opcode, alu_operations

_PARTS: tuple[tuple[type[Requantiser | Multiplier | LeakyRelu], tuple[AluOp, ...]], ...] = (
    (Requantiser, (AluOp.REQUANTISE, AluOp.TABLE)),
    (Multiplier, (AluOp.MULTIPLY,)),
    (LeakyRelu, (AluOp.LEAKY,)),
)
"""What computes operations; a TABLE looks the result up on its way to the out buffer."""


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
        alu = data.View(instruction_layout(self._accelerator, Opcode.ALU), self.instruction)
        m.submodules.vector_alu = stock = VectorAlu(self._accelerator)
        has = alu_operations(self._accelerator)
        added: dict[Requantiser | Multiplier | LeakyRelu, tuple[AluOp, ...]] = {}
        for kind, operations in _PARTS:
            there = tuple(operation for operation in operations if operation in has)
            if there:
                added[kind(self._accelerator)] = there
        for part, operations in added.items():
            m.submodules[operations[0].name.lower()] = part
        for part in (stock, *added):
            m.d.comb += [
                part.instruction.eq(self.instruction),
                part.dst.eq(self.dst),
                part.src.eq(self.src),
            ]
        m.d.comb += self.result.eq(stock.result)
        with m.Switch(whole_field(alu, "alu_opcode")):
            for part, operations in added.items():
                with m.Case(*operations):
                    m.d.comb += self.result.eq(part.result)
        return m


def alu_of(accelerator: Accelerator) -> VectorAlu | ExtendedAlu:
    """Return the ALU of an accelerator; without extensions that is the VectorAlu alone."""
    return ExtendedAlu(accelerator) if accelerator.extensions else VectorAlu(accelerator)

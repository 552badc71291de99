"""The operations of ALU instructions, with those of the accelerator's extensions."""

from __future__ import annotations

from collections.abc import Iterator

from amaranth.hdl import Module, Signal

from vta_rtl.compute.alu_part import AfterShift, AluPart, choose
from vta_rtl.compute.dsp_cell import ProductCell
from vta_rtl.compute.leaky_relu import LeakyRelu
from vta_rtl.compute.multiplier import Multiplier
from vta_rtl.compute.requantiser import Requantiser
from vta_rtl.compute.shifted_sum import ShiftedSum
from vta_rtl.compute.vector_alu import VectorAlu
from vta_rtl.isa.layouts import whole_field
from vta_stages.accelerator import Accelerator
from vta_stages.isa.instructions import REQUANTISING, AluOp, alu_operations


class ExtendedAlu(AluPart):
    """A :class:`~vta_rtl.compute.vector_alu.VectorAlu` with more operations.

    Members are those of :class:`~vta_rtl.compute.alu_part.AluPart`.
    """

    def __init__(self, accelerator: Accelerator, cell: ProductCell) -> None:
        super().__init__(accelerator)
        self._cell = cell

    def elaborate(self, platform: object) -> Module:
        """Return the circuit."""
        m = Module()
        parts: list[AluPart] = [VectorAlu(self._accelerator)]
        m.submodules.vector_alu = parts[0]
        index = Signal(2)
        with m.Switch(whole_field(self._fields, "alu_opcode")):
            for part, operations in self._added():
                m.submodules[operations[0].name.lower()] = part
                with m.Case(*operations):
                    m.d.comb += index.eq(len(parts))
                parts.append(part)
        chosen = choose(index, [part.result.as_value() for part in parts])
        m.d.comb += self.result.as_value().eq(chosen)
        after_shift = [part for part in parts if isinstance(part, AfterShift)]
        if after_shift:
            m.submodules.shifted_sum = shifted_sum = ShiftedSum(self._accelerator)
            m.d.comb += [part.shifted.eq(shifted_sum.result) for part in after_shift]
            parts.append(shifted_sum)
        for part in parts:
            m.d.comb += [
                part.instruction.eq(self.instruction),
                part.dst.eq(self.dst),
                part.src.eq(self.src),
            ]
        return m

    def _added(self) -> Iterator[tuple[AluPart, list[AluOp]]]:
        """Yield the parts for what a VectorAlu lacks, with their operations.

        A TABLE looks the Requantiser's result up on its way to the out buffer.
        """
        has = alu_operations(self._accelerator)
        if requantising := [operation for operation in has if operation in REQUANTISING]:
            yield Requantiser(self._accelerator), requantising
        if AluOp.MULTIPLY in has:
            # The products of rectangular blocks take so many DSP cells that hardly one is left.
            in_logic = self._accelerator.parts > 1 and self._cell is not ProductCell.BEHAVIOURAL
            multiplier = Multiplier(self._accelerator, self._cell, in_logic=in_logic)
            yield multiplier, [AluOp.MULTIPLY]
        if AluOp.LEAKY in has:
            yield LeakyRelu(self._accelerator), [AluOp.LEAKY]


def alu_of(accelerator: Accelerator, cell: ProductCell = ProductCell.BEHAVIOURAL) -> AluPart:
    """Return the ALU of an accelerator; without extensions that is the VectorAlu alone."""
    if not accelerator.extensions:
        return VectorAlu(accelerator)
    return ExtendedAlu(accelerator, cell)

"""What the parts of the ALU have in common."""

from __future__ import annotations

from amaranth.hdl import Cat, Mux, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Member, Out

from vta_rtl.isa.layouts import INSTRUCTION_BITS, instruction_layout
from vta_stages.accelerator import Accelerator
from vta_stages.isa.instructions import Opcode


class AluPart(wiring.Component):
    """Combinational: a result in every lane.

    Members: ``instruction`` In(128), an ALU instruction; ``dst`` and ``src`` In and ``result`` Out,
    int32[batch * block_out]; and ``more``.
    """

    def __init__(self, accelerator: Accelerator, **more: Member) -> None:
        self._accelerator = accelerator
        self._lanes = accelerator.acc_bytes // 4
        self._layout = instruction_layout(accelerator, Opcode.ALU)
        element = _element(accelerator)
        super().__init__(
            {
                "instruction": In(INSTRUCTION_BITS),
                "dst": In(element),
                "src": In(element),
                **more,
                "result": Out(element),
            }
        )

    @property
    def _fields(self) -> data.View:
        """The fields of the instruction."""
        return data.View(self._layout, self.instruction)


class AfterShift(AluPart):
    """A part that goes on with a shifted sum.

    Members, in addition: ``shifted`` In, int32[batch * block_out], the result of a
    :class:`~vta_rtl.compute.shifted_sum.ShiftedSum` for the same operands.
    """

    def __init__(self, accelerator: Accelerator) -> None:
        super().__init__(accelerator, shifted=In(_element(accelerator)))


def choose(index: Value, values: list[Value]) -> Value:
    """Return a value by its place. A choice of four takes a LUT for each bit."""
    for bit in index:
        pairs = zip(values[::2], values[1::2], strict=False)
        values = [Mux(bit, odd, even) for even, odd in pairs] + values[len(values) // 2 * 2 :]
    return values[0]


def sum_of(value: Value, addend: Value) -> Value:
    """Return ``value + addend``, which have the same bits, as the sum has.

    It is written as ``value - ~addend - 1``. yosys then gives ``value`` to the carry chain as it
    is, and what makes ``addend`` fits the LUTs of the chain. Of a sum it may choose the other way,
    which takes two LUTs for each bit.
    """
    return (Cat(0, value) - Cat(1, ~addend))[1 : len(value) + 1]


def _element(accelerator: Accelerator) -> data.ArrayLayout:
    return data.ArrayLayout(signed(32), accelerator.acc_bytes // 4)

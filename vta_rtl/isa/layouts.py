"""Instructions and uops as Amaranth layouts.

The positions come from :mod:`vta_stages.isa.fields`, so the hardware cannot disagree with the
codec about them.

    instruction = Signal(INSTRUCTION_BITS)
    gemm = data.View(instruction_layout(accelerator, Opcode.GEMM), instruction)
    m.d.comb += more.eq(gemm.uop_bgn < gemm.uop_end)
"""

from __future__ import annotations

from typing import cast

from amaranth.hdl import Cat, Value, signed, unsigned
from amaranth.lib import data

from vta_stages.accelerator import Accelerator
from vta_stages.isa.fields import Field, instruction_fields, uop_fields
from vta_stages.isa.instructions import INSTRUCTION_BYTES, TOKEN_FLAGS, TOKEN_SHIFT, Opcode

INSTRUCTION_BITS = 8 * INSTRUCTION_BYTES
_WORD_BITS = 64


def _head() -> dict[str, data.Field]:
    """Return what every instruction starts with: the opcode and the four token flags."""
    flags = {
        name: data.Field(unsigned(1), TOKEN_SHIFT + token.bit_length() - 1)
        for name, token in TOKEN_FLAGS.items()
    }
    return {"opcode": data.Field(unsigned(TOKEN_SHIFT), 0), **flags}


def _layout_field(field: Field) -> data.Field:
    shape = signed(field.bits) if field.signed else unsigned(field.bits)
    return data.Field(shape, _WORD_BITS * field.word + field.low_bit)


def head_layout() -> data.FlexibleLayout:
    """Return the layout of what all instructions share: ``opcode`` and the token flags.

    The flags are ``pop_prev``, ``pop_next``, ``push_prev`` and ``push_next``.
    """
    return data.FlexibleLayout(INSTRUCTION_BITS, _head())


def instruction_layout(accelerator: Accelerator, opcode: Opcode) -> data.FlexibleLayout:
    """Return the layout of an opcode's instructions, 128 bits, with the head's fields.

    Fields that can hold a single value, such as a store's pads, are included.

    Raises EncodingError if the accelerator's buffers are too deep for 64-bit words.
    """
    fields = instruction_fields(accelerator)[opcode]
    own = {field.name: _layout_field(field) for field in fields}
    return data.FlexibleLayout(INSTRUCTION_BITS, {**_head(), **own})


def whole_field(instruction: data.View, name: str) -> Value:
    """Return a field of an instruction, with its highest bits if they are in a place of their own.

    These are fields such as ``alu_opcode_high``, which only an accelerator with extensions has.
    """
    high = f"{name}_high"
    layout = cast(data.Layout, instruction.shape())
    if high not in dict(layout):
        return Value.cast(instruction[name])
    return Cat(instruction[name], instruction[high])


def uop_layout(accelerator: Accelerator) -> data.FlexibleLayout:
    """Return the layout of a uop: ``dst``, ``src`` and ``wgt`` in 32 bits.

    Raises EncodingError if the accelerator's buffers are too deep for 32 bits.
    """
    fields = {field.name: _layout_field(field) for field in uop_fields(accelerator)}
    return data.FlexibleLayout(8 * accelerator.uop_bytes, fields)

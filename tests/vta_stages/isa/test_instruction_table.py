"""The C++ decoder has the same fields as the table, for every revision and configuration."""

from __future__ import annotations

from dataclasses import replace

import pytest
from accelerators import ALL_EXTENSIONS, CHISEL, FOUR_BY_EIGHT

from edgepipe.runtime.simulator import describe
from vta_stages.accelerator import Accelerator
from vta_stages.isa.fields import instruction_fields
from vta_stages.isa.instructions import TOKEN_FLAGS, TOKEN_SHIFT, Opcode

CONFIGURATIONS = {
    "1x16": Accelerator(),
    "4x8": FOUR_BY_EIGHT,
    "1x32": Accelerator(block_in=32, block_out=32),
    "chisel": CHISEL,
    "half": Accelerator(uop_buffer_bytes_log2=14, wgt_buffer_bytes_log2=17),
    "extended": Accelerator(extensions=ALL_EXTENSIONS),
}


def test_an_index_may_be_wider_than_its_buffer() -> None:
    narrow = replace(CHISEL, uop_index_bits=0)
    for target, bits in ((CHISEL, 13), (narrow, 11)):
        fields = {field.name: field for field in instruction_fields(target)[Opcode.GEMM]}
        assert (fields["uop_bgn"].bits, fields["uop_end"].bits) == (bits, bits + 1)
        assert target.uop_depth == 2048


@pytest.mark.sim
@pytest.mark.parametrize("revision", ["0.0.1", "0.0.2"])
@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_the_runtime_decodes_with_the_same_table(configuration: str, revision: str) -> None:
    target = replace(CONFIGURATIONS[configuration], revision=revision)
    described = describe(target).fields
    head = [("opcode", 0, 0, TOKEN_SHIFT)]
    head += [(f"{name}_dep", 0, TOKEN_SHIFT + n, 1) for n, name in enumerate(TOKEN_FLAGS)]
    assert set(described) == {opcode.name for opcode in Opcode}
    for opcode, fields in instruction_fields(target).items():
        expected = [*head, *((f.name, f.word, f.low_bit, f.bits) for f in fields)]
        assert list(described[opcode.name]) == expected

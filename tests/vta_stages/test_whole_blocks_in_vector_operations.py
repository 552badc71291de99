"""Vector operations on rectangular blocks: the parts of an element follow each other.

The accumulators of even and of odd addresses are in two banks (vta_rtl/README.md). If all steps of
an instruction met one bank, each of them would wait.
"""

from __future__ import annotations

import numpy as np
from accelerators import THIRTYTWO_BY_SIXTEEN
from compiler_support import check_program, conv, tensor

from vta_stages.isa.codec import decode_uops
from vta_stages.isa.instructions import MemoryType, Opcode


def test_their_accumulators_alternate_between_even_and_odd_addresses() -> None:
    layer = conv(np.random.default_rng(0), "c", tensor("x", 32, 8, 8), 32, 3, pad=1)
    program = check_program(THIRTYTWO_BY_SIXTEEN, [layer], ["x"], ["c.out"])
    table = program.table
    loads, alu = table.columns[Opcode.LOAD], table.columns[Opcode.ALU]
    buffer = np.zeros(THIRTYTWO_BY_SIXTEEN.uop_depth, "<u4")
    for row in np.flatnonzero(loads["memory_type"] == MemoryType.UOP):
        words = np.frombuffer(program.consts, "<u4")[loads["dram_base"][row] :]
        count = loads["x_size"][row]
        buffer[loads["sram_base"][row] :][:count] = words[:count]
    vectors = np.flatnonzero(alu["use_imm"] == 0)
    assert len(vectors)
    for row in vectors:
        uops = decode_uops(THIRTYTWO_BY_SIXTEEN, buffer[alu["uop_bgn"][row] : alu["uop_end"][row]])
        dst = uops[:, 0]
        assert (dst[::2] % 2 == 0).all()
        assert (dst[1::2] == dst[::2] + 1).all()

"""A random program, as it is written and as it is run."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vta_stages.accelerator import Accelerator
from vta_stages.isa.codec import InstructionTable, decode_table
from vta_stages.isa.instruction_buffer import encode
from vta_stages.isa.instructions import TOKEN_FLAGS, Instruction


@dataclass(frozen=True)
class RandomProgram:
    """Instructions, and the DRAM that they begin with.

    The same ``seed`` and ``steps`` make the same program. One with fewer steps has the beginning of
    its instructions.
    """

    accelerator: Accelerator
    seed: int
    steps: int
    instructions: tuple[Instruction, ...]
    dram: NDArray[np.uint8]

    @property
    def words(self) -> NDArray[np.uint64]:
        """uint64[n, 2]: the encoded instructions."""
        return encode(self.accelerator, self.instructions)

    @property
    def table(self) -> InstructionTable:
        """The instructions as columns."""
        return decode_table(self.accelerator, self.words)


def with_tokens(instruction: Instruction, tokens: int) -> Instruction:
    """Return an instruction with a set of ``Token`` bits."""
    return replace(instruction, **{name: bool(tokens & bit) for name, bit in TOKEN_FLAGS.items()})

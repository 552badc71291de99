"""An accelerator with rectangular blocks, seen as one with square blocks.

In hardware of 1x32x16 an input element has 32 lanes, an output or accumulator element 16. Layers,
tilings and tensors know only blocks of 32 channels. Such a block takes two accumulator elements,
two output elements and, with its weights for 32 inputs, two weight elements, all neighbours:

    pixel     0  0  1  1  2  2        a STORE of three pixels writes six output elements,
    channels  lo hi lo hi lo hi       which are [3][32] in DRAM: three input elements

So the compiler works with the square accelerator of :func:`whole_blocks`, and only
:mod:`vta_stages.emission.program_builder` counts in the elements of the real one.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from vta_stages.accelerator import Accelerator


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeBlocks(Accelerator):
    """The square accelerator whose elements are ``parts`` elements of ``real``.

    Its buffers hold as many bytes. Uops are those of ``real``, of which an element takes up to
    ``parts``.
    """

    real: Accelerator = field(default_factory=Accelerator)

    @property
    def parts(self) -> int:
        """How many output elements of ``real`` an element of a tensor consists of."""
        return self.real.parts

    @property
    def configuration(self) -> str:
        """The name of ``real``'s configuration."""
        return self.real.configuration


def whole_blocks(accelerator: Accelerator) -> Accelerator:
    """Return the accelerator as the compiler sees it; one with square blocks is returned as is."""
    if accelerator.block_in == accelerator.block_out:
        return accelerator
    values = {f.name: getattr(accelerator, f.name) for f in dataclasses.fields(Accelerator)}
    values["block_out"] = accelerator.block_in
    return WholeBlocks(**values, real=accelerator)


def real_accelerator(accelerator: Accelerator) -> Accelerator:
    """Return the hardware that programs for ``accelerator`` run on."""
    return accelerator.real if isinstance(accelerator, WholeBlocks) else accelerator

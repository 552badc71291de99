"""One operator of a network, as placement, cutting and code generation see it.

It is apart from ``operators.py``, which reads operators from a module, so that what only looks at a
bundle's operators needs no TVM.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from vta_stages.layers.records import Layer

if TYPE_CHECKING:
    from edgepipe.tvm_adapter import Binding

PART = "__"
"""What is between the name of an operator and that of an inner variable of its chain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """One operator of a module: the unit of placement, cutting and code generation.

    ``layer`` is its record, or None for kinds ``generic`` and ``input_table``. ``inputs`` are the
    tensors it reads (each once), ``output`` the tensor it computes (= ``name``), ``bindings`` its
    part of ``main`` in order. On the accelerator, ``folds`` x ``folds`` pixels of its input are one
    (``folding.py``). On ARM it also copies ``copied_bytes`` of pictures into another layout
    (``layout_copies.py``).
    """

    name: str
    kind: str
    layer: Layer | None
    inputs: tuple[str, ...]
    output: str
    bindings: tuple[Binding, ...] = field(repr=False)
    folds: int = 1
    copied_bytes: int = 0

    @property
    def constant_bytes(self) -> int:
        """The bytes of the constants in its part of ``main``."""
        constants = (a for b in self.bindings for a in b.args if isinstance(a, np.ndarray))
        return sum(constant.nbytes for constant in constants)

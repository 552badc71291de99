"""The accelerator as a value: VTA configuration, encoding revision, clock, queues and hazards."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from vta_stages.errors import AcceleratorError

REVISIONS = ("0.0.1", "0.0.2")
IMPLEMENTATIONS = ("hls", "chisel")

OPTIONAL: Mapping[str, object] = MappingProxyType(
    {"implementation": "", "load_queue_depth": 0, "uop_index_bits": 0, "extensions": ()}
)
"""Fields that a description may lack, with the values that this means."""


class Extension(StrEnum):
    """What an accelerator of our own (``vta_rtl``) can do beyond upstream's instructions."""

    REQUANTISE = "requantise"
    MULTIPLY = "multiply"
    TABLE = "table"
    LEAKY = "leaky"
    CLEAR = "clear"
    WIDEN = "widen"
    PAD_VALUE = "pad_value"


_MOST_UOP_INDEX_BITS = 13  # two indices and the loops share a word

# The limits of Accelerator::validate() in the C++ runtime.
_MOST_BLOCK = 256
_MOST_BUFFER_LOG2 = 28


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """One VTA build. The defaults are the stock Ultra96 configuration ``1x16_i8w8a32_15_15_18_17``.

    Inputs, weights and outputs are always int8, accumulators int32, as in every published
    bitstream. ``block_in`` may be several times ``block_out`` in hardware of our own: then an
    element of a tensor is an input element, which takes several output elements. Buffer sizes are
    log2 of bytes, as in upstream's ``vta_config.json``. Steps that touch the same accumulator entry
    must be ``acc_hazard_steps`` apart. Queue depths are entries; ``load_queue_depth`` is that of
    the load module, 0: as the other modules'. ``uop_index_bits`` is the width of a uop's index in
    instructions, 0: as many as the buffer needs.

    ``implementation`` is the upstream source of the build. In ``"hls"`` a negative lane of a vector
    SHR shifts left, and the operand of an immediate is at dst; in ``"chisel"`` no lane shifts left,
    and that operand is at src. Programs for ``""`` run on both. ``extensions`` are names of
    :class:`Extension`, kept in alphabetical order. Raises AcceleratorError for values that no VTA
    build has.
    """

    revision: str = "0.0.1"
    clock_hz: int = 333_000_000
    batch: int = 1
    block_in: int = 16
    block_out: int = 16
    uop_buffer_bytes_log2: int = 15
    inp_buffer_bytes_log2: int = 15
    wgt_buffer_bytes_log2: int = 18
    acc_buffer_bytes_log2: int = 17
    acc_hazard_steps: int = 8
    command_queue_depth: int = 512
    token_queue_depth: int = 1024
    implementation: str = ""
    load_queue_depth: int = 0
    uop_index_bits: int = 0
    extensions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.revision not in REVISIONS:
            raise AcceleratorError(
                f"accelerator: encoding revision {self.revision!r} is unknown",
                hint=f"known revisions: {', '.join(REVISIONS)}",
            )
        for name in ("clock_hz", "acc_hazard_steps", "command_queue_depth", "token_queue_depth"):
            if getattr(self, name) < 1:
                raise AcceleratorError(
                    f"accelerator: {name} is {getattr(self, name)}, expected >= 1"
                )
        if self.implementation not in ("", *IMPLEMENTATIONS):
            raise AcceleratorError(
                f"accelerator: implementation {self.implementation!r} is unknown",
                hint=f"known implementations: {', '.join(IMPLEMENTATIONS)}; omit it if neither is "
                "certain",
            )
        if self.implementation == "chisel" and self.acc_hazard_steps < 2:
            raise AcceleratorError(
                f"accelerator: acc_hazard_steps is {self.acc_hazard_steps}, expected >= 2: this "
                "implementation does not pass a result on to the next step"
            )
        self._check_extensions()
        self._check_blocks()
        if self.load_queue_depth < 0:
            raise AcceleratorError(
                f"accelerator: load_queue_depth is {self.load_queue_depth}, expected >= 0"
            )
        self._check_sizes()
        least = self.uop_depth.bit_length() - 1
        if self.uop_index_bits and not least <= self.uop_index_bits <= _MOST_UOP_INDEX_BITS:
            raise AcceleratorError(
                f"accelerator: uop_index_bits is {self.uop_index_bits}, expected {least} to "
                f"{_MOST_UOP_INDEX_BITS}, or 0"
            )

    def _check_extensions(self) -> None:
        known = [extension.value for extension in Extension]
        for name in self.extensions:
            if name not in known:
                raise AcceleratorError(
                    f"accelerator: extension {name!r} is unknown",
                    hint=f"known extensions: {', '.join(known)}",
                )
        if self.extensions and self.implementation:
            raise AcceleratorError(
                f"accelerator: implementation {self.implementation!r} with extensions "
                f"{', '.join(self.extensions)}, expected none",
                hint="no upstream build has extensions: leave out implementation",
            )
        object.__setattr__(self, "extensions", tuple(sorted(set(map(str, self.extensions)))))

    def _check_blocks(self) -> None:
        for name in ("batch", "block_in", "block_out"):
            found = getattr(self, name)
            if not 1 <= found <= _MOST_BLOCK or found & (found - 1):
                raise AcceleratorError(
                    f"accelerator: {name} is {found}, expected a power of two up to {_MOST_BLOCK}"
                )
        if self.block_in == self.block_out:
            return
        found_blocks = f"accelerator: block_in {self.block_in}, block_out {self.block_out}"
        if self.block_in < self.block_out:
            raise AcceleratorError(
                f"{found_blocks}, expected block_out <= block_in",
                hint="a layer's output feeds the next layer's input, so an input block is one or "
                "several output blocks",
            )
        if self.implementation:
            raise AcceleratorError(
                f"{found_blocks}, expected equal blocks for implementation {self.implementation!r}",
                hint="no upstream build has rectangular blocks: leave out implementation",
            )
        if self.batch > 1:
            raise AcceleratorError(
                f"{found_blocks}, batch {self.batch}, expected equal blocks or a batch of 1",
                hint="the output blocks of an input block are neighbours only without a batch",
            )

    def _check_sizes(self) -> None:
        for name in ("uop", "inp", "wgt", "acc"):
            log2, element = (
                getattr(self, f"{name}_buffer_bytes_log2"),
                getattr(self, f"{name}_bytes"),
            )
            if not 0 <= log2 <= _MOST_BUFFER_LOG2 or 1 << log2 < element:
                raise AcceleratorError(
                    f"accelerator: {name} buffer of 2^{log2} bytes, expected at least one element "
                    f"of {element} bytes and at most 2^{_MOST_BUFFER_LOG2}"
                )

    def values(self) -> dict[str, object]:
        """Return the fields as JSON describes them, without optional ones that say nothing."""
        found = dataclasses.asdict(self)
        return {n: value for n, value in found.items() if value != OPTIONAL.get(n, None)}

    @property
    def is_own(self) -> bool:
        """Whether this can only be hardware of our own (``vta_rtl``): no build of upstream has
        extensions, or passes a result on to the next step."""
        return bool(self.extensions) or self.acc_hazard_steps == 1

    @property
    def shifts_left(self) -> bool:
        """Whether a negative lane of a vector SHR is known to shift left."""
        return self.implementation == "hls"

    def has(self, extension: Extension) -> bool:
        """Return whether the accelerator has an extension."""
        return extension.value in self.extensions

    @property
    def parts(self) -> int:
        """How many output elements an element of a tensor, an input element, consists of."""
        return self.block_in // self.block_out

    @property
    def load_commands(self) -> int:
        """How many instructions fit between the fetch and the load module."""
        return self.load_queue_depth or self.command_queue_depth

    @property
    def uop_bits(self) -> int:
        """The width of a uop's index in instructions."""
        return self.uop_index_bits or self.uop_depth.bit_length() - 1

    @property
    def uop_bytes(self) -> int:
        """Bytes of an encoded uop."""
        return 4

    @property
    def inp_bytes(self) -> int:
        """Bytes of an input element: int8[batch, block_in]."""
        return self.batch * self.block_in

    @property
    def wgt_bytes(self) -> int:
        """Bytes of a weight element: int8[block_out, block_in]."""
        return self.block_out * self.block_in

    @property
    def acc_bytes(self) -> int:
        """Bytes of an accumulator element: int32[batch, block_out]."""
        return self.batch * self.block_out * 4

    @property
    def out_bytes(self) -> int:
        """Bytes of an output element: int8[batch, block_out]."""
        return self.batch * self.block_out

    @property
    def uop_depth(self) -> int:
        """How many uops the uop buffer holds."""
        return (1 << self.uop_buffer_bytes_log2) // self.uop_bytes

    @property
    def inp_depth(self) -> int:
        """How many elements the input buffer holds."""
        return (1 << self.inp_buffer_bytes_log2) // self.inp_bytes

    @property
    def wgt_depth(self) -> int:
        """How many elements the weight buffer holds."""
        return (1 << self.wgt_buffer_bytes_log2) // self.wgt_bytes

    @property
    def acc_depth(self) -> int:
        """How many elements the accumulator buffer holds."""
        return (1 << self.acc_buffer_bytes_log2) // self.acc_bytes

    @property
    def out_depth(self) -> int:
        """How many elements the out buffer holds, the same number as the accumulator."""
        return self.acc_depth

    @property
    def macs_per_cycle(self) -> int:
        """Multiplications of a GEMM step."""
        return self.batch * self.block_in * self.block_out

    @property
    def configuration(self) -> str:
        """The configuration's name in upstream's notation, e.g. ``1x16_i8w8a32_15_15_18_17``.

        Rectangular blocks, which upstream lacks, have both sizes: ``1x32x16_i8w8a32_15_16_18_17``.
        """
        block = f"{self.block_in}" + (f"x{self.block_out}" if self.parts > 1 else "")
        return (
            f"{self.batch}x{block}_i8w8a32_{self.uop_buffer_bytes_log2}"
            f"_{self.inp_buffer_bytes_log2}_{self.wgt_buffer_bytes_log2}_{self.acc_buffer_bytes_log2}"
        )

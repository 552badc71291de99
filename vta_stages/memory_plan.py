"""Plan where each tensor of a program lies in DRAM.

The regions are the constants, scratch, then one per input and output of the program. Intermediate
tensors share the scratch region, each only as long as it is needed. Most concatenations cost
nothing: their parts are written directly to their channel blocks of the result. Nor do picks of
whole channel blocks: what reads them reads these blocks of the picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from vta_stages.accelerator import Accelerator
from vta_stages.isa.layout import activation_bytes
from vta_stages.layers.inputs import layer_inputs
from vta_stages.layers.records import Concat, Epilogue, Pick, Sum, TensorSpec, Term
from vta_stages.layers.tabled_layer import PlannedLayer
from vta_stages.program import Region, RegionKind

CONST_REGION = 0
SCRATCH_REGION = 1

ALIGN_BYTES = 256

_COPY = ":copy"
"""What follows the name of a concatenation in that of a layer which copies one of its parts."""


@dataclass(frozen=True, slots=True)
class View:
    """A tensor that is part of a larger one: it starts at channel block ``block`` of ``buffer``."""

    buffer: str
    block: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorAddress:
    """The position of a tensor's first byte: a region and the offset in it."""

    region: int
    offset_bytes: int


@dataclass(slots=True, kw_only=True)
class MemoryPlan:
    """The regions of a program, the layers left to compile, and the addresses of tensors."""

    layers: list[PlannedLayer]
    regions: list[Region]
    addresses: dict[str, TensorAddress]


@dataclass(slots=True)
class _Buffers:
    """All tensors by name, and which of them are views of others."""

    accelerator: Accelerator
    specs: dict[str, TensorSpec] = field(default_factory=dict)
    views: dict[str, View] = field(default_factory=dict)

    def resolve(self, name: str) -> View:
        """Return the buffer that holds a tensor, and the tensor's first block in it."""
        block = 0
        while (view := self.views.get(name)) is not None:
            name, block = view.buffer, block + view.block
        return View(name, block)

    def bytes_of(self, name: str) -> int:
        """Return the size of a tensor in bytes."""
        spec = self.specs[name]
        return activation_bytes(self.accelerator, spec.channels, spec.height, spec.width)


def plan_memory(
    accelerator: Accelerator,
    layers: Sequence[PlannedLayer],
    inputs: Sequence[TensorSpec],
    outputs: Sequence[str],
) -> MemoryPlan:
    """Place all tensors of a consistent network; ``outputs`` names tensors that layers compute."""
    buffers = _Buffers(accelerator)
    for spec in [*inputs, *(layer.output for layer in layers)]:
        buffers.specs[spec.name] = spec
    fixed = {spec.name for spec in inputs} | set(outputs)
    remaining = _elide_moves(accelerator, layers, fixed, buffers)
    regions = [
        Region(name="consts", bytes=0, kind=RegionKind.CONST),
        Region(name="scratch", bytes=0, kind=RegionKind.SCRATCH),
    ]
    roots: dict[str, TensorAddress] = {}
    for kind, names in (
        (RegionKind.INPUT, [spec.name for spec in inputs]),
        (RegionKind.OUTPUT, list(outputs)),
    ):
        for name in names:
            roots[name] = TensorAddress(region=len(regions), offset_bytes=0)
            regions.append(Region(name=name, bytes=buffers.bytes_of(name), kind=kind))
    scratch_bytes = _place_scratch(remaining, buffers, roots)
    regions[SCRATCH_REGION] = Region(name="scratch", bytes=scratch_bytes, kind=RegionKind.SCRATCH)
    addresses = {}
    for name, spec in buffers.specs.items():
        view = buffers.resolve(name)
        if view.buffer in roots:
            block_bytes = spec.height * spec.width * accelerator.inp_bytes
            root = roots[view.buffer]
            addresses[name] = TensorAddress(
                region=root.region, offset_bytes=root.offset_bytes + view.block * block_bytes
            )
    return MemoryPlan(layers=remaining, regions=regions, addresses=addresses)


def _elide_moves(
    accelerator: Accelerator, layers: Sequence[PlannedLayer], fixed: set[str], buffers: _Buffers
) -> list[PlannedLayer]:
    """Turn parts of concatenations and picks of blocks into views; return the layers that are left.

    A pick stays a layer if it must lie elsewhere, as an output or a part of a concatenation. A
    part that must lie elsewhere (an input or output of the program, or a part of two
    concatenations) is copied to ``<output>:part<n>``; no operator's name contains a colon. A
    concatenation whose parts do not all start at whole blocks stays a layer, which moves lanes.
    """
    block = accelerator.block_in
    remaining: list[PlannedLayer] = []
    for layer in reversed(layers):
        if isinstance(layer, Pick) and _is_of_blocks(layer, block):
            name = layer.output.name
            if name not in fixed and name not in buffers.views:
                buffers.views[name] = View(layer.input.name, layer.channels[0] // block)
                continue
        if not isinstance(layer, Concat) or not _starts_at_blocks(layer, block):
            remaining.append(layer)
            continue
        copies: list[PlannedLayer] = []
        channel = 0
        for index, part in enumerate(layer.inputs):
            name = part.name
            if name in fixed or name in buffers.views:
                name = f"{layer.output.name}:part{index}"
                piece = TensorSpec(
                    name=name, channels=part.channels, height=part.height, width=part.width
                )
                buffers.specs[name] = piece
                copies.append(copy_layer(f"{layer.name}{_COPY}{index}", part, piece))
            buffers.views[name] = View(layer.output.name, channel // block)
            channel += part.channels
        remaining += reversed(copies)
    return remaining[::-1]


def _starts_at_blocks(layer: Concat, block: int) -> bool:
    return all(part.channels % block == 0 for part in layer.inputs[:-1])


def _is_of_blocks(layer: Pick, block: int) -> bool:
    """Return whether a pick takes neighbouring blocks, with nothing but zeros behind the last."""
    first, end = layer.channels[0], layer.channels[-1] + 1
    is_whole = end % block == 0 or end == layer.input.channels
    return first % block == 0 and is_whole and layer.channels == tuple(range(first, end))


def copy_layer(name: str, tensor: TensorSpec, output: TensorSpec) -> Sum:
    """Return a layer that copies ``tensor`` to ``output``."""
    return Sum(
        name=name,
        output=output,
        terms=(Term(tensor=tensor, factor=np.ones(tensor.channels, np.int32)),),
        epilogue=Epilogue(
            bias=np.zeros(tensor.channels, np.int32),
            shift=np.zeros(tensor.channels, np.int32),
            low=-128,
            high=127,
        ),
    )


def _place_scratch(
    layers: Sequence[PlannedLayer], buffers: _Buffers, roots: dict[str, TensorAddress]
) -> int:
    """Place tensors that have no region by first fit; return the size in bytes."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for index, layer in enumerate(layers):
        for spec in [layer.output, *layer_inputs(layer)]:
            name = buffers.resolve(spec.name).buffer
            if name not in roots:
                first.setdefault(name, index)
                last[name] = index
    total = 0
    live: list[tuple[int, int, int]] = []  # (offset, end, last layer)
    for name in sorted(first, key=lambda n: (first[n], n)):
        live = [span for span in live if span[2] >= first[name]]
        needed = -(-buffers.bytes_of(name) // ALIGN_BYTES) * ALIGN_BYTES
        offset = 0
        for begin, end, _ in sorted(live):
            if offset + needed <= begin:
                break
            offset = max(offset, end)
        live.append((offset, offset + needed, last[name]))
        roots[name] = TensorAddress(region=SCRATCH_REGION, offset_bytes=offset)
        total = max(total, offset + needed)
    return total

"""How the input and weight buffers can be divided into slots for tiles of one size."""

from __future__ import annotations

from typing import NamedTuple

from vta_stages.tiling.kernel_shape import KernelShape, TileSize
from vta_stages.tiling.loop_nest import LoopNest

SlotOption = tuple[int, bool]
"""A number of slots, and whether blocks stay in them as long as the outer loop needs them."""


class SlotNeeds(NamedTuple):
    """What tiles of one size need.

    ``inp_slot`` and ``wgt_slot`` are the elements of the largest chunk of input and weights,
    ``temp_entries`` the accumulator entries for intermediate values, and ``chunks`` the chunks of a
    tile's reduction over all sources. ``rereads`` says that several steps read the same source.
    """

    inp_slot: int
    wgt_slot: int
    temp_entries: int
    chunks: int
    rereads: bool


def slot_needs(shape: KernelShape, size: TileSize) -> SlotNeeds:
    """Return what tiles of one size need; the slots have at least one element each."""
    inp_slot = wgt_slot = 1
    chunks = 0
    for index, source in enumerate(shape.kernel.sources):
        blocks, source_chunks = shape.input_chunks(source, size)
        pairs = 1 if source.shared else size.co if source.diagonal else size.co * blocks
        inp_slot = max(inp_slot, shape.patch(index, size.rows, size.cols).pixels * blocks)
        wgt_slot = max(wgt_slot, source.weight_blocks * pairs)
        chunks += source_chunks
    temp_entries = size.co if shape.kernel.uses_channels else 0
    if shape.kernel.uses_temp:
        temp_entries = size.rows * size.cols * size.co
    for index in shape.folded:
        pixels = shape.patch(index, size.rows, size.cols).pixels
        temp_entries = max(temp_entries, pixels * size.co)
    return SlotNeeds(inp_slot, wgt_slot, temp_entries, chunks, shape.rereads)


def inp_options(
    needs: SlotNeeds, loops: LoopNest, depth: int, *, channels_outer: bool
) -> list[SlotOption]:
    """Return the useful divisions of an input buffer that holds ``depth`` >= 1 slots."""
    chunks = needs.chunks
    options = [(min(depth, 2), False)]
    if depth >= 3 and chunks > 2:
        options.append((min(depth, 4), False))
    is_read_again = loops.channel_chunks > 1 and not (channels_outer and loops.areas > 1)
    if is_read_again and depth > chunks:
        options.append((min(depth, 2 * chunks), True))
    if needs.rereads and depth >= chunks > 2:
        # Blocks stay until the last part has used them.
        options.append((min(depth, 2 * chunks), False))
    return options


def wgt_options(
    needs: SlotNeeds, loops: LoopNest, depth: int, *, channels_outer: bool
) -> list[SlotOption]:
    """Return the useful divisions of a weight buffer that holds ``depth`` >= 1 slots."""
    chunks = needs.chunks
    everything = max(chunks * loops.channel_chunks, 1)
    options = [(min(depth, 2, everything), everything == 1)]
    if depth >= 4 < everything:
        options.append((4, False))
    if needs.rereads and depth >= chunks > 2:
        options.append((min(depth, 2 * chunks), False))
    if depth >= everything > 1:
        options.append((everything, True))
    elif channels_outer and loops.areas > 1 and depth > chunks:
        options.append((min(depth, 2 * chunks), True))
    return options

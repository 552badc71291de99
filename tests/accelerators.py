"""Accelerators other than the stock one, which tests share."""

from __future__ import annotations

from vta_stages.accelerator import Accelerator, Extension

ALL_EXTENSIONS = tuple(extension.value for extension in Extension)

FOUR_BY_EIGHT = Accelerator(
    batch=4,
    block_in=8,
    block_out=8,
    inp_buffer_bytes_log2=16,
    wgt_buffer_bytes_log2=16,
    acc_buffer_bytes_log2=18,
)

HALF_BUFFERS = Accelerator(
    uop_buffer_bytes_log2=14,
    inp_buffer_bytes_log2=14,
    wgt_buffer_bytes_log2=17,
    acc_buffer_bytes_log2=16,
)
ONE_BY_THIRTYTWO = Accelerator(block_in=32, block_out=32, wgt_buffer_bytes_log2=20)
RECTANGULAR = Accelerator(
    block_in=8,
    block_out=4,
    uop_buffer_bytes_log2=12,
    inp_buffer_bytes_log2=13,
    wgt_buffer_bytes_log2=14,
    acc_buffer_bytes_log2=14,
    acc_hazard_steps=1,
    extensions=ALL_EXTENSIONS,
)
"""1x8x4: a few lanes, and small buffers."""

THIRTYTWO_BY_SIXTEEN = Accelerator(
    block_in=32, inp_buffer_bytes_log2=16, acc_hazard_steps=1, extensions=ALL_EXTENSIONS
)
"""1x32x16: 512 products a cycle, 16 lanes out."""

QUARTERS = Accelerator(
    revision="0.0.2",
    block_in=16,
    block_out=4,
    wgt_buffer_bytes_log2=16,
    acc_buffer_bytes_log2=15,
)
"""1x16x4, with a hazard: four output elements make an input element."""

CHISEL = Accelerator(
    revision="0.0.2",
    uop_buffer_bytes_log2=13,
    uop_index_bits=13,
    command_queue_depth=512,
    load_queue_depth=128,
    token_queue_depth=255,
    implementation="chisel",
)
"""As upstream's Chisel sources build it: fewer micro-ops than an index can name."""

SECOND_REVISION = Accelerator(revision="0.0.2")

TINY = Accelerator(
    block_in=8,
    block_out=8,
    uop_buffer_bytes_log2=8,
    inp_buffer_bytes_log2=8,
    wgt_buffer_bytes_log2=9,
    acc_buffer_bytes_log2=8,
    command_queue_depth=4,
    token_queue_depth=2,
)
"""Quick to compile as Verilog, for a bus of 8 bytes."""

"""Accelerators other than the stock one, which tests share."""

from __future__ import annotations

from vta_stages.accelerator import Accelerator

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
SECOND_REVISION = Accelerator(revision="0.0.2")

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

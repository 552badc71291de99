"""Transfers between DRAM and the on-chip buffers, over AXI."""

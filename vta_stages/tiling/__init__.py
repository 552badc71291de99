"""Tiling: how a kernel is cut into tiles that fit the buffers, and what each tile needs."""

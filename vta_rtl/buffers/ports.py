"""The ports of an on-chip buffer, as signatures from the side of the module that uses it."""

from __future__ import annotations

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

READ_CYCLES = 2
"""Cycles from an address to its data: block RAM with its output register."""


def read_port(element_bits: int, depth: int) -> wiring.Signature:
    """Return ``address`` Out and ``data`` In, the element ``READ_CYCLES`` cycles later."""
    return wiring.Signature({"address": Out(ceil_log2(depth)), "data": In(element_bits)})


def write_port(element_bits: int, depth: int) -> wiring.Signature:
    """Return ``enable`` Out, ``address`` Out and ``data`` Out, written at the end of the cycle."""
    return wiring.Signature(
        {"enable": Out(1), "address": Out(ceil_log2(depth)), "data": Out(element_bits)}
    )

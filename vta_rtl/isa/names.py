"""Names that ports and registers share: modules, masters, and memories with a base address."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from vta_stages.isa.instructions import Module

RUNNERS = tuple(module.name.lower() for module in Module)
"""The modules that run instructions."""

MODULES = ("fetch", *RUNNERS)

MASTERS: Mapping[str, str] = MappingProxyType(
    {"fetch": "fetch", "load": "load", "weight": "load", "compute": "compute", "store": "store"}
)
"""The AXI masters, in the order of their numbers, and the module of each. Load's second one reads
weights."""

WRITER = "store"
"""The master that writes. The others read."""

BASES = ("inp", "wgt", "uop", "acc", "out")

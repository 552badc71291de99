"""Names that ports and registers share: modules, and memories with a base address."""

from __future__ import annotations

from vta_stages.isa.instructions import Module

RUNNERS = tuple(module.name.lower() for module in Module)
"""The modules that run instructions."""

MODULES = ("fetch", *RUNNERS)

BASES = ("inp", "wgt", "uop", "acc", "out")

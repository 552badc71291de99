"""What memory costs in the runs of a random program: at random, and so that some are last.

Tokens leave open in which order modules run many of their instructions, and only time decides.
Masters whose transfers take ``SLOW_CYCLES`` are last wherever they may be, but for few transfers.
Those are held, one in a run.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from vta_rtl.verilated.memory_costs import MemoryCosts

SLOW_CYCLES = 500
"""Longer than the GEMM and ALU instructions between most transfers of a random program."""

SLOW = (
    ("load",),
    ("weight",),
    ("compute",),
    ("store",),
    ("load", "weight"),
    ("load", "store"),
    ("weight", "store"),
)
"""Other sets of masters bring about hardly any order that these do not."""

_QUICK = MemoryCosts(
    read_latency_cycles=1, write_latency_cycles=0, bytes_per_cycle=64, refresh_interval_cycles=0
)


def _order(*, load: int = 0, weight: int = 0, compute: int = 0, store: int = 0) -> MemoryCosts:
    return replace(
        _QUICK,
        write_latency_cycles=store,
        load_delay_cycles=load,
        weight_delay_cycles=weight,
        compute_delay_cycles=compute,
    )


def held(port: int, burst: int, cycles: int) -> MemoryCosts:
    """Return the costs of a run in which one burst of a master takes so many cycles, and others
    hardly any."""
    return replace(_QUICK, held_port=port, held_burst=burst, held_cycles=cycles)


ORDERS = {
    f"slow {' and '.join(masters)}": _order(**dict.fromkeys(masters, SLOW_CYCLES))
    for masters in SLOW
}


def random_costs(seed: int) -> MemoryCosts:
    """Return random latencies, bandwidth, refreshes and pauses of all channels."""
    draw = Random(seed)
    interval = draw.choice((0, draw.randint(20, 400)))
    return MemoryCosts(
        read_latency_cycles=draw.choice((0, 1, draw.randint(0, 60))),
        write_latency_cycles=draw.choice((0, 1, draw.randint(0, 60))),
        bytes_per_cycle=draw.choice((64, 16, draw.randint(4, 32))),
        refresh_interval_cycles=interval,
        refresh_cycles=draw.randint(0, interval // 2),
        stall_percent=draw.choice((0, 10, 30, 60)),
        seed=seed % (1 << 31),
        load_delay_cycles=draw.choice((0, draw.randint(0, 60))),
        weight_delay_cycles=draw.choice((0, draw.randint(0, 60))),
        compute_delay_cycles=draw.choice((0, draw.randint(0, 60))),
    )


def timings(seed: int) -> dict[str, MemoryCosts]:
    """Return the runs of a program by name."""
    return {"random": random_costs(seed), **ORDERS}

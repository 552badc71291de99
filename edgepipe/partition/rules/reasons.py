"""The reasons of placements that code decides, read from ``reasons.toml``."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

from edgepipe import schema
from edgepipe.errors import PartitionError

_FILE = Path(__file__).with_name("reasons.toml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasons:
    """A text for each reason, as ``edgepipe inspect`` shows it."""

    fits: str
    computed: str
    preferred: str
    requested: str
    weights: str
    tensors: str
    depthwise_requested: str
    depthwise_faster: str
    short_stage: str
    time_left: str
    shared: str
    joined: str
    picked: str


@functools.cache
def reasons() -> Reasons:
    """Return the package's texts."""
    document = schema.read_toml(_FILE, PartitionError)
    return schema.from_table(Reasons, document, _FILE.name, PartitionError)

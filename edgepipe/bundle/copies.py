"""Copies that the kernels of a bundle's ARM stages make, as its plans list them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgepipe.bundle import storage
from edgepipe.bundle.manifest import Manifest
from edgepipe.errors import BundleError

_PLAN = "plan.json"
_COPY = re.compile(r"(flat_)?copy_\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A call of a stage's plan that only copies a tensor, ``bytes`` of it for each frame.

    ``operator`` is the one that makes the tensor: the next kernel needs it in another layout, or in
    another place.
    """

    stage: str
    operator: str
    bytes: int


def copies(path: Path, manifest: Manifest) -> tuple[Copy, ...]:
    """Return the copies in the ARM stages of the bundle at ``path``, in the order of calls.

    Raises BundleError for a plan that is missing or damaged.
    """
    entries = {entry.path: entry for entry in manifest.files}
    found: list[Copy] = []
    for stage in manifest.stages:
        if stage.kind != "arm":
            continue
        name = f"{stage.folder}/{_PLAN}"
        if name not in entries:
            raise BundleError(f"{path}: {name} is missing", hint="build the bundle again")
        try:
            plan: Any = json.loads(storage.read_file(path, entries[name]))
            found += [
                Copy(
                    stage=stage.name,
                    operator=str(call["operator"]),
                    bytes=_bytes(plan["tensors"][call["args"][-1]]),
                )
                for call in plan["calls"]
                if _COPY.fullmatch(call["kernel"])
            ]
        except (KeyError, IndexError, TypeError, ValueError, RecursionError) as cause:
            raise BundleError(
                f"{path}: {name} is damaged: {cause!r}", hint="build the bundle again"
            ) from cause
    return tuple(found)


def _bytes(tensor: Any) -> int:
    """Return the bytes of an entry of a plan's tensors."""
    elements = int(np.prod(tensor["shape"], dtype=np.int64))
    return elements * int(np.dtype(tensor["dtype"]).itemsize)

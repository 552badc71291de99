"""Stage: the base of all kinds of stages, and their common checks."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.errors import PipelineError
from edgepipe.integers import core_number
from edgepipe.runtime.ports import Port

Array = NDArray[Any]
Entry = dict[str, Any]  # one stage in pipeline.json, without name, tensors and cores


@dataclass(frozen=True, kw_only=True, eq=False)
class Stage(ABC):
    """The base of all stages: a name, ports, and a core per thread (none: any core).

    Stages are compared by identity: two stages with the same content are different.
    """

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    cores: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_name("stage", self.name)
        for role, ports in (("input", self.inputs), ("output", self.outputs)):
            names = [port.name for port in ports]
            if twice := next((n for n in names if names.count(n) > 1), None):
                raise PipelineError(
                    f"stage {self.name!r}: has two {role}s called {twice!r}",
                    hint="give one of them another name",
                )

    @abstractmethod
    def write(self, root: Path, folder: str) -> Entry:
        """Write the stage's files below ``root``, its own into ``folder``; return its entry."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


def checked_cores(
    stage: str, core: int | Sequence[int] | None, *, several: bool = False
) -> tuple[int, ...]:
    """Return a stage's cores, given as one core, as ``several`` or not at all.

    Raises PipelineError for anything else, for an impossible core, and for a repeated core.
    """
    if core is None:
        return ()
    what = f"stage {stage!r}: core"
    is_list = isinstance(core, Sequence | np.ndarray) and not isinstance(core, str | bytes)
    if is_list and not several:
        raise PipelineError(f"{what} is {core!r}, expected one core", hint="it has one thread")
    cores = tuple(core_number(what, one) for one in (core if is_list else (core,)))  # type: ignore[union-attr]
    twice = next((one for one in cores if cores.count(one) > 1), None)
    if twice is not None:
        raise PipelineError(
            f"stage {stage!r}: has two threads on core {twice}", hint="name each core once"
        )
    return cores


def check_name(what: str, name: object) -> str:
    """Return a name of letters, digits, _ and -; raise PipelineError for anything else."""
    if not isinstance(name, str):
        raise PipelineError(
            f"{what} {name!r}: found {type(name).__name__}, expected a name", hint="give it as text"
        )
    if not re.fullmatch(r"[A-Za-z0-9_\-]+", name):
        raise PipelineError(
            f"{what} {name!r}: found other characters than letters, digits, _ and -"
            if name
            else f"{what}: the name is empty",
            hint="give it another name",
        )
    return name

"""What is proved, and how."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from types import FunctionType
from unittest.mock import patch

from .circuit import Circuit


class Method(StrEnum):
    """How far a proof reaches."""

    INDUCTION = "k-induction"
    """All runs of any length."""
    BOUNDED = "bounded"
    """All runs of as many cycles as the proof's depth, from reset."""


@dataclass(frozen=True)
class Mutation:
    """A line of the accelerator's source, changed so that a proof must fail."""

    module: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.before} -> {self.after}"

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Let the classes of the module have the methods of its changed source.

        Methods that begin with two underscores are left: they belong to the class as it was.
        """
        module = import_module(self.module)
        text = Path(str(module.__file__)).read_text()
        assert text.count(self.before) == 1, f"{self.module}: {self.before!r} is not there once"
        changed: dict[str, object] = {"__name__": self.module}
        code = compile(text.replace(self.before, self.after), self.module, "exec")
        exec(code, changed)
        with ExitStack() as stack:
            for name, owner in list(vars(module).items()):
                if not isinstance(owner, type) or owner.__module__ != self.module:
                    continue
                for method, function in vars(changed[name]).items():
                    if isinstance(function, FunctionType) and not method.startswith("__"):
                        stack.enter_context(patch.object(owner, method, function))
            yield


@dataclass(frozen=True)
class Proof:
    """``depth`` is the k of an induction, or the cycles of a bounded proof. ``reach_cycles`` are
    enough for all that must be reached. ``parameters`` say what was proved, if not the real thing.
    """

    name: str
    says: str
    build: Callable[[], Circuit]
    method: Method
    depth: int
    reach_cycles: int
    parameters: str = "stock"
    mutations: tuple[Mutation, ...] = field(default=())

"""Run the quantiser's passes, and check what each one requires and ensures.

    value before -> requires -> apply -> ensures -> value after

A pass is a small frozen dataclass with these three methods; its options are its fields.
``requires`` and ``ensures`` yield one sentence for every condition that does not hold. A value with
a method ``problems`` (``Graph``, ``IntegerNetwork``) is also verified before and after every pass.

    graph = run(ReadRelax(), read_main(network.module))
    graph = run(Recognise(), graph)
    graph = run(Fuse(), graph)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, TypeVar, runtime_checkable

from edgepipe.errors import FAULT, QuantizeError

Before_contra = TypeVar("Before_contra", contravariant=True)
After = TypeVar("After")
Value_contra = TypeVar("Value_contra", contravariant=True)


class Pass(Protocol[Before_contra, After]):
    """A step from one value to another, with a contract; it changes neither."""

    def requires(self, before: Before_contra) -> Iterator[str]:
        """Yield what prevents the pass from running on ``before``."""

    def apply(self, before: Before_contra) -> After:
        """Return the value after the pass."""

    def ensures(self, before: Before_contra, after: After) -> Iterator[str]:
        """Yield the promises that ``after`` breaks."""


@runtime_checkable
class Verifiable(Protocol):
    """A value that can check whether it is well formed, regardless of which pass made it."""

    def problems(self) -> Iterator[str]:
        """Yield what is wrong with the value."""


def run(step: Pass[Before_contra, After], before: Before_contra) -> After:
    """Return the result of ``step`` on ``before``.

    Raises ``QuantizeError`` with the name of the pass and the first condition that does not hold,
    and the errors of the pass itself.
    """
    name = type(step).__name__
    _require(f"pass {name} cannot run", _problems(before))
    _require(f"pass {name} cannot run", step.requires(before))
    after = step.apply(before)
    _require(f"pass {name} made a malformed result", _problems(after))
    _require(f"pass {name} broke its promise", step.ensures(before, after))
    return after


def _problems(value: object) -> Iterator[str]:
    if isinstance(value, Verifiable):
        yield from value.problems()


def _require(what: str, problems: Iterator[str]) -> None:
    for problem in problems:
        raise QuantizeError(
            f"{what}: {problem}",
            hint=FAULT,
        )

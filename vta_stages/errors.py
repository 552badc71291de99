"""The error tree that both packages share.

Every message names the object, what was found and what was expected. What to do about it is the
error's ``hint``, given where the error is raised, or by a caller that knows more (``advise``).
``edgepipe.errors`` re-exports the tree, so users import it from there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

FAULT = "this is a bug in edgepipe: report it with the steps that led to it"
"""The hint of an error that no input should cause."""


class EdgepipeError(Exception):
    """Anything that a user can cause or must act on; ``str()`` is one line.

    ``hint`` says what to do about it, in one line; it is empty if the text says that already.
    ``option`` names the parameter that the hint asks to change, and ``value`` what to set it to. A
    command line shows its own flag for ``option`` (``edgepipe/cli/hints.py``).
    """

    def __init__(
        self, message: str, *, hint: str | None = None, option: str = "", value: str = ""
    ) -> None:
        super().__init__(message)
        self.hint = hint or ""
        self.option = option
        self.value = value


@contextmanager
def advise(hint: str, *, option: str = "", value: str = "") -> Iterator[None]:
    """Give a hint to errors that leave the block without one.

    with advise("build or copy the bundle again"):
        program = Program.load(folder)
    """
    try:
        yield
    except EdgepipeError as error:
        if not error.hint:
            error.hint, error.option, error.value = hint, option, value
        raise


class AcceleratorError(EdgepipeError):
    """An accelerator description that no VTA can have."""


class EncodingError(EdgepipeError):
    """A value that does not fit its instruction field, or an instruction that cannot be decoded."""


class LayerError(EdgepipeError):
    """A layer that the VTA compiler refuses, with the numbers that explain why."""


class VerificationError(EdgepipeError):
    """A program that breaks a rule of the hardware: a compiler fault or a damaged file."""


class ProgramError(EdgepipeError):
    """A program whose parts contradict each other, or whose files are missing or damaged."""

"""The error tree that both packages share.

Every message names the object, what was found and what was expected; the remedy goes into ``hint``.
``edgepipe.errors`` re-exports the tree, so users import it from there.
"""

from __future__ import annotations


class EdgepipeError(Exception):
    """Anything a user can cause or must act on; ``str()`` is one line, ``remedy`` how to go on.

    ``hint`` is the remedy of this very error; without one there is ``usual_remedy``, that of all
    errors of its class.
    """

    usual_remedy = "if the text does not help, report it with the command that led to it"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint

    @property
    def remedy(self) -> str:
        """What to do about it, one line."""
        return self.hint or self.usual_remedy


class AcceleratorError(EdgepipeError):
    """An accelerator description that no VTA can have."""

    usual_remedy = "correct the value in the board's file"


class EncodingError(EdgepipeError):
    """A value that does not fit its instruction field, or an instruction that cannot be decoded."""

    usual_remedy = "the program is damaged, or a fault of edgepipe: build it again, or report it"


class LayerError(EdgepipeError):
    """A layer that the VTA compiler refuses, with the numbers that say why."""

    usual_remedy = "let the ARM cores run it: --place OPERATOR=arm"


class VerificationError(EdgepipeError):
    """A program that breaks a rule of the hardware: a compiler fault or a damaged file."""

    usual_remedy = "the program is damaged, or a fault of edgepipe: build it again, or report it"


class ProgramError(EdgepipeError):
    """A program that is put together wrongly, or whose files are missing, truncated or altered."""

    usual_remedy = "the program is damaged: build or copy the bundle again"

"""The error tree that both packages share.

Every message names the object, what was found and what was expected; the remedy goes into ``hint``.
``edgepipe.errors`` re-exports the tree, so users import it from there.
"""

from __future__ import annotations


class EdgepipeError(Exception):
    """Anything a user can cause or must act on; ``str()`` is one line, ``hint`` the remedy."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class AcceleratorError(EdgepipeError):
    """An accelerator description that no VTA can have."""


class EncodingError(EdgepipeError):
    """A value that does not fit its instruction field, or an instruction that cannot be decoded."""


class LayerError(EdgepipeError):
    """A layer that the VTA compiler refuses, with the numbers that say why."""


class VerificationError(EdgepipeError):
    """A program that breaks a rule of the hardware: a compiler fault or a damaged file."""


class ProgramError(EdgepipeError):
    """A program that is put together wrongly, or whose files are missing, truncated or altered."""

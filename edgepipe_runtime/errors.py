"""What can go wrong while a bundle is opened or run; the classes have the names of edgepipe's."""

from __future__ import annotations


class EdgepipeError(Exception):
    """The base of all errors; ``hint`` says what to do, or is None."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class BundleError(EdgepipeError):
    """A bundle that is missing, truncated, altered or of another format version."""


class MediaError(EdgepipeError):
    """A picture that cannot be read or does not fit the network."""


class PipelineError(EdgepipeError):
    """A frame or a setting that does not fit the pipeline."""


class RuntimeFailure(EdgepipeError):  # noqa: N818  (RuntimeError is Python's)
    """An error reported by the C++ runtime while a pipeline was started or ran."""


class DeadlinePassed(RuntimeFailure):
    """A wait that ended before its event: no free slot, no finished frame, a running stage."""


class PipelineEnded(RuntimeFailure):
    """A pipeline that accepts or delivers no more frames, because it was stopped or cancelled."""


class FrameCancelled(RuntimeFailure):
    """The result of a frame whose future was cancelled."""

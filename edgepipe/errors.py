"""The errors of the host SDK: one tree, one exit code (1) at the command line."""

from __future__ import annotations

from vta_stages.errors import (
    FAULT,
    AcceleratorError,
    EdgepipeError,
    EncodingError,
    LayerError,
    ProgramError,
    VerificationError,
    advise,
)


class BoardError(EdgepipeError):
    """An unknown board, or a board file with unknown or impossible values."""


class BitstreamError(EdgepipeError):
    """A bitstream file or manifest that is damaged, or a bitstream that does not fit a board."""


class FingerprintError(EdgepipeError):
    """A bundle and a board whose accelerators differ; ``exit_code`` says in what."""

    def __init__(self, message: str, *, hint: str | None = None, exit_code: int) -> None:
        super().__init__(message, hint=hint)
        self.exit_code = exit_code


class DeployError(EdgepipeError):
    """A deploy that was refused or failed; the message says which release the board still runs."""


class RpcError(EdgepipeError):
    """A session with a board's RPC server that could not be opened, or a call that failed there."""


class ClusterError(EdgepipeError):
    """A Dask cluster that does not answer, has no workers that fit, or lost its work."""


class FrontendError(EdgepipeError):
    """A network file that cannot be read or imported."""


class QuantizeError(EdgepipeError):
    """Calibration data or a network that the quantiser cannot use."""


class PartitionError(EdgepipeError):
    """An unknown cut or operator name, or an impossible placement."""


class CodegenError(EdgepipeError):
    """A stage that could not be compiled, or a missing cross compiler."""


class UnbuildableError(EdgepipeError):
    """A network that was read, but that a build would refuse; the message says why."""

    exit_code = 3


class BundleError(EdgepipeError):
    """A bundle that is missing, truncated, altered or of another format version."""


class SignatureError(BundleError):
    """A bundle whose signature is missing or refused; ``exit_code`` says why."""

    def __init__(
        self, message: str, *, hint: str, exit_code: int, option: str = "", value: str = ""
    ) -> None:
        super().__init__(message, hint=hint, option=option, value=value)
        self.exit_code = exit_code


class AccuracyError(EdgepipeError):
    """Data or a measure that does not fit a bundle, or a network that the bundle is not from."""


class DifferenceError(AccuracyError):
    """A board that computed other bits than the simulator."""

    exit_code = 20


class MediaError(EdgepipeError):
    """A picture, video or folder that cannot be read or does not fit the network."""


class RuntimeFailure(EdgepipeError):  # noqa: N818  (RuntimeError is Python's)
    """An error reported by the C++ runtime while a pipeline was built or ran."""


class DeadlinePassed(RuntimeFailure):
    """A wait that ended before its event: no free slot, no finished frame, a running stage."""


class PipelineEnded(RuntimeFailure):
    """A pipeline that accepts or delivers no more frames, because it was stopped or cancelled."""


class FrameCancelled(RuntimeFailure):
    """The result of a frame whose future was cancelled."""


class PipelineError(EdgepipeError):
    """A pipeline whose parts do not fit together, or a frame that does not fit the pipeline."""


class VirtualBoardError(EdgepipeError):
    """A virtual board that cannot be built, started, reached or stopped."""


class ZooError(EdgepipeError):
    """A network of the zoo that is unknown, cannot be downloaded, or is not the expected one."""


class DownloadError(ZooError):
    """A package that pip could not download."""


__all__ = [
    "FAULT",
    "AcceleratorError",
    "AccuracyError",
    "BitstreamError",
    "BoardError",
    "BundleError",
    "ClusterError",
    "CodegenError",
    "DeadlinePassed",
    "DeployError",
    "DifferenceError",
    "DownloadError",
    "EdgepipeError",
    "EncodingError",
    "FingerprintError",
    "FrameCancelled",
    "FrontendError",
    "LayerError",
    "MediaError",
    "PartitionError",
    "PipelineEnded",
    "PipelineError",
    "ProgramError",
    "QuantizeError",
    "RuntimeFailure",
    "SignatureError",
    "UnbuildableError",
    "VerificationError",
    "VirtualBoardError",
    "ZooError",
    "advise",
]

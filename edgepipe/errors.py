"""The errors of the host SDK: one tree, one exit code (1) at the command line."""

from __future__ import annotations

from vta_stages.errors import (
    AcceleratorError,
    EdgepipeError,
    EncodingError,
    LayerError,
    ProgramError,
    VerificationError,
)


class BoardError(EdgepipeError):
    """An unknown board, or a board file with unknown or impossible values."""

    usual_remedy = "correct the board's file; those that edgepipe has, in board/, show every key"


class BitstreamError(EdgepipeError):
    """A bitstream file or manifest that is damaged, or a bitstream that does not fit a board."""

    usual_remedy = (
        "`edgepipe bitstream list` shows the published files; download it again from there"
    )


class FingerprintError(EdgepipeError):
    """A bundle or board whose accelerator is not the other side's; ``exit_code`` says in what."""

    def __init__(self, message: str, *, hint: str | None = None, exit_code: int) -> None:
        super().__init__(message, hint=hint)
        self.exit_code = exit_code


class DeployError(EdgepipeError):
    """A deploy that was refused or failed; the message says which release the board still runs."""

    usual_remedy = "`edgepipe doctor --host HOST` examines a board"


class RpcError(EdgepipeError):
    """A session with a board's RPC server that could not be had, or a call that failed there."""

    usual_remedy = "see that edgepipe-rpcd of this version is there; --server names another"


class FrontendError(EdgepipeError):
    """A network file that cannot be read or imported."""

    usual_remedy = (
        "correct the network's description; docs/reference/description.md explains every key"
    )


class QuantizeError(EdgepipeError):
    """Calibration data or a network that the quantiser cannot work with."""

    usual_remedy = "give calibration pictures like those the network was trained on"


class PartitionError(EdgepipeError):
    """An unknown cut or operator name, or a placement that cannot be had."""

    usual_remedy = "`edgepipe inspect BUNDLE --operators` lists a network's operators"


class CodegenError(EdgepipeError):
    """A stage that could not be compiled, or a missing cross compiler."""

    usual_remedy = (
        "if it is not a missing compiler, it is a fault of edgepipe: report it with the network"
    )


class BundleError(EdgepipeError):
    """A bundle that is missing, truncated, altered or of another format version."""

    usual_remedy = "build or copy the bundle again"


class MediaError(EdgepipeError):
    """A picture, video or folder that cannot be read or does not fit the network."""

    usual_remedy = (
        "give a video, a picture or a folder of pictures; docs/reference/description.md says what "
        "fits"
    )


class RuntimeFailure(EdgepipeError):  # noqa: N818  (RuntimeError is Python's)
    """An error reported by the C++ runtime while a pipeline was built or ran."""

    usual_remedy = "if the bundle is good (`edgepipe inspect BUNDLE`), report it with the command"


class DeadlinePassed(RuntimeFailure):
    """A wait that ended before its event: no free slot, no finished frame, a stage at work."""

    usual_remedy = "allow more time, or more slots"


class PipelineEnded(RuntimeFailure):
    """A pipeline that takes or gives no more frames, because it was stopped or cancelled."""

    usual_remedy = "`restart()` it, or open it again"


class PipelineError(EdgepipeError):
    """A pipeline that is put together wrongly, or a frame that does not fit it."""

    usual_remedy = "docs/guides/pipelines.md shows how pipelines are put together"


class VirtualBoardError(EdgepipeError):
    """A virtual board that cannot be built, started, reached or stopped."""

    usual_remedy = "`edgepipe virtual-board up --rebuild` makes everything anew"


__all__ = [
    "AcceleratorError",
    "BitstreamError",
    "BoardError",
    "BundleError",
    "CodegenError",
    "DeadlinePassed",
    "DeployError",
    "EdgepipeError",
    "EncodingError",
    "FingerprintError",
    "FrontendError",
    "LayerError",
    "MediaError",
    "PartitionError",
    "PipelineEnded",
    "PipelineError",
    "ProgramError",
    "QuantizeError",
    "RuntimeFailure",
    "VerificationError",
    "VirtualBoardError",
]

"""A build's trial of the user's own decoder, before a board runs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.boards import Board
from edgepipe.bundle.decoder_files import DecoderFiles
from edgepipe.errors import FrontendError
from edgepipe.progress import Progress
from edgepipe.runtime.named import Named
from edgepipe.runtime.own_decoder import DecoderSettings, OwnDecoder
from edgepipe.runtime.results import FrameResult


def try_decoder(
    decoder: DecoderFiles,
    labels: tuple[str, ...],
    golden: Mapping[str, NDArray[Any]],
    board: Board,
    progress: Progress,
) -> None:
    """Run the user's own decoder in Python, if there is one, on the golden outputs.

    ``golden`` has arrays of the dtypes and shapes of the network's outputs. Says if no library
    decodes on ``board``. Raises ``RuntimeFailure`` if the decoder fails, or returns something else
    than the description says, and ``FrontendError`` for an output that is not float32.
    """
    postprocess = decoder.postprocess
    if postprocess.kind != "own":
        return
    for name in postprocess.outputs:
        if golden[name].dtype != np.float32:
            raise FrontendError(
                f"postprocess: output {name!r} is {golden[name].dtype}, expected float32",
                hint="name other outputs, or end the network in DequantizeLinear or Cast",
            )
    if decoder.source:
        settings = DecoderSettings(
            function=postprocess.function,
            source=decoder.source,
            outputs=postprocess.outputs,
            gives=postprocess.gives,
            most=postprocess.most,
            points=postprocess.points,
        )
        outputs = Named(tuple(golden), list(golden.values()))
        OwnDecoder(settings, labels).decode(FrameResult(0, 0.0, outputs))
    if board.architecture not in decoder.architectures:
        progress.notice(
            f"the decoder has no library for {board.architecture}: programs in C++, such as "
            f"edgepipe-run, cannot run this bundle on {board.name}"
        )

"""A detector's boxes in the pixels of the picture, from a network's outputs."""

from __future__ import annotations

import dataclasses

import numpy as np

from edgepipe.accuracy.data import Sample
from edgepipe.accuracy.measures import Outputs
from edgepipe.bundle.manifest import Manifest
from edgepipe.description import DETECTION_KINDS
from edgepipe.errors import AccuracyError
from edgepipe.report.detection import Boxes
from edgepipe.runtime.decoding import OutputDecoder

# Average precision sweeps the score, so boxes count from a much lower score than a user would show,
# and in larger numbers.
LEAST_SCORE = 0.01
MOST_BOXES = 1000
MOST_CANDIDATES = 10_000


class BoxReader:
    """Finds a picture's boxes in a network's outputs, as a board does.

    Raises ``AccuracyError`` if the bundle's description does not say how to find boxes.
    """

    def __init__(self, manifest: Manifest) -> None:
        if manifest.postprocess.kind not in DETECTION_KINDS:
            raise AccuracyError(
                f"{manifest.name}: its outputs are described as {manifest.postprocess.kind!r}, "
                "expected a detector's",
                hint="describe the boxes in [postprocess] and build the bundle again, or write a "
                "function for this network's measure",
                option="metric",
                value="MODULE:FUNCTION",
            )
        self._postprocess = dataclasses.replace(manifest.postprocess, score_threshold=LEAST_SCORE)
        self._preprocess = manifest.preprocess
        self._decoder: OutputDecoder | None = None

    def __call__(self, picture: Sample, outputs: Outputs) -> Boxes:
        """Return the boxes of a picture, best first, in its pixels.

        ``outputs`` are arrays as the network returns them.
        """
        preprocess = self._preprocess
        if self._decoder is None:
            names = self._postprocess.tensors()
            self._decoder = OutputDecoder(
                dataclasses.asdict(self._postprocess),
                (preprocess.width, preprocess.height),
                {name: outputs[name].shape for name in names},
                most_boxes=MOST_BOXES,
                most_candidates=MOST_CANDIDATES,
            )
        boxes = np.array(self._decoder.decode(outputs).boxes, np.float64).reshape(-1, 6)
        height, width = picture.size
        scale_x, scale_y, left, top = preprocess.placement(width, height)
        corners = (boxes[:, :4] + np.array([left, top, left, top])) / np.array(
            [scale_x, scale_y, scale_x, scale_y]
        )
        return Boxes(corners=corners, scores=boxes[:, 4], classes=boxes[:, 5].astype(np.int64))

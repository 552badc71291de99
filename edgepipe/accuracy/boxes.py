"""A detector's boxes in the pixels of the picture, from a network's outputs."""

from __future__ import annotations

import numpy as np

from edgepipe.accuracy.data import Sample
from edgepipe.accuracy.measures import Outputs
from edgepipe.bundle.manifest import Manifest
from edgepipe.errors import AccuracyError
from edgepipe.report.detection import Boxes, decode_nanodet

# Average precision sweeps the score, so boxes count from a much lower score than a user would show.
LEAST_SCORE = 0.01


def require_detector(manifest: Manifest) -> None:
    """Raise ``AccuracyError`` if the bundle's description does not say how to find boxes."""
    if manifest.postprocess.kind != "nanodet":
        raise AccuracyError(
            f"{manifest.name}: its outputs are described as {manifest.postprocess.kind!r}, "
            "expected a detector's",
            hint="describe the boxes in [postprocess] and build the bundle again, or write a "
            "function for this network's measure",
            option="metric",
            value="MODULE:FUNCTION",
        )


def boxes_of(manifest: Manifest, picture: Sample, outputs: Outputs) -> Boxes:
    """Return the boxes of a picture, best first, in its pixels.

    ``outputs`` are arrays as the network returns them.
    """
    post, preprocess = manifest.postprocess, manifest.preprocess
    found = decode_nanodet(
        outputs,
        post.scores,
        post.distances,
        strides=post.strides,
        input_size=(preprocess.height, preprocess.width),
        score_threshold=LEAST_SCORE,
        iou_threshold=post.iou_threshold,
    )
    height, width = picture.size
    scale_x, scale_y, left, top = preprocess.placement(width, height)
    corners = (found.corners + np.array([left, top, left, top])) / np.array(
        [scale_x, scale_y, scale_x, scale_y]
    )
    return Boxes(corners=corners, scores=found.scores, classes=found.classes)

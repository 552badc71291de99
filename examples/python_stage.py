"""Add Python stages to a network: report a person only while something moves.

    python examples/python_stage.py build/demo/nanodet.edgepipe examples/pedestrians.avi

The graph has a branch and a join. Every stage has its own thread, so while `alarm` works on one
frame, the network already works on the next:

    frame --+--> arm0 --> vta1 --> arm2 --scores--+--> alarm --> score
            |                                     |
            +--> motion --------changed-----------+
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator

import cv2
import numpy as np
from numpy.typing import NDArray

import edgepipe

PERSON = 0  # the first line of coco80.txt
SCORES = {"scores8": "Identity", "scores16": "Identity_1", "scores32": "Identity_2"}


class Motion:
    """Measure which share of the picture has changed since the previous frame.

    A stage is any callable that takes arrays and returns arrays. The pipeline calls it once for
    each frame, in order, and from one thread, so it may keep values from one frame to the next.
    """

    def __init__(self) -> None:
        self.before: NDArray[np.int16] | None = None

    def __call__(self, frame: NDArray[np.uint8]) -> NDArray[np.float32]:
        # `frame` is the pipeline's own memory, valid during this call: copy what you keep.
        now = frame[0, ::8, ::8].astype(np.int16)
        changed = 0.0 if self.before is None else (np.abs(now - self.before) > 24).mean()
        self.before = now
        return np.array([changed], np.float32)


def alarm(
    scores8: NDArray[np.float32],
    scores16: NDArray[np.float32],
    scores32: NDArray[np.float32],
    changed: NDArray[np.float32],
) -> NDArray[np.float32]:
    """Return the best score of a person, or 0 if less than 0.5 % of the picture has changed."""
    best = max(scores[0, :, PERSON].max() for scores in (scores8, scores16, scores32))
    return np.array([best if changed[0] > 0.005 else 0.0], np.float32)


def make_config(bundle: str) -> edgepipe.PipelineConfig:
    """Return the graph: the bundle's own stages and the two Python stages."""
    config = edgepipe.PipelineConfig.from_bundle(bundle)
    (name,) = config.inputs  # NanoDet has one input
    (first, port) = config.inputs[name][0]  # and one stage reads it
    last = config.stages[-1]
    types = {port.name: (port.dtype, port.shape) for port in (*first.inputs, *last.outputs)}

    motion = edgepipe.python_stage(
        Motion(),
        name="motion",
        inputs={"frame": types[port]},
        outputs={"changed": ("float32", (1,))},
    )
    join = edgepipe.python_stage(
        alarm,
        inputs={
            **{argument: types[output] for argument, output in SCORES.items()},
            "changed": ("float32", (1,)),
        },
        outputs={"score": ("float32", (1,))},
    )
    config.inputs[name] = [(first, port), (motion, "frame")]  # the branch
    for argument, output in SCORES.items():
        config.connect(last, output, join, argument)
    config.connect(motion, "changed", join, "changed")  # the join
    config.outputs.append((join, "score"))
    return config


def pictures(clip: str) -> Iterator[NDArray[np.uint8]]:
    """Yield the pictures of a video, uint8[height, width, 3] in the order blue, green, red."""
    video = cv2.VideoCapture(clip)
    while True:
        found, picture = video.read()
        if not found:
            return
        yield picture


def main(bundle: str, clip: str) -> None:
    """Print the score of a moving person for the first 40 frames of a clip."""
    config = make_config(bundle)
    print(config)  # every wire, with shapes and types
    with config.build().start() as pipeline:
        _, height, width, _ = pipeline.inputs[0].shape
        frames = (cv2.resize(picture, (width, height))[None] for picture in pictures(clip))
        # map() keeps every stage busy, and gives the results in the order of the frames.
        for result in pipeline.map(itertools.islice(frames, 40)):
            print(f"frame {result.frame:2}: {result.outputs[-1][0]:.2f}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(f"usage: {sys.argv[0]} BUNDLE CLIP")
    main(sys.argv[1], sys.argv[2])

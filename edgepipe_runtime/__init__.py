"""Run edgepipe's bundles from Python on a board: needs NumPy alone, Python 3.8 or newer.

    import edgepipe_runtime as edgepipe

    with edgepipe.load("net.edgepipe") as pipeline:
        for box in pipeline("street.jpg").detections:
            print(box.label, box.score, box.left, box.top, box.right, box.bottom)

The functions and classes are those of ``edgepipe`` on the host. Bundles are built on the host.
"""

from edgepipe_runtime.errors import (
    BundleError,
    DeadlinePassed,
    EdgepipeError,
    FrameCancelled,
    MediaError,
    PipelineEnded,
    PipelineError,
    RuntimeFailure,
)
from edgepipe_runtime.futures import FrameFuture
from edgepipe_runtime.loading import load
from edgepipe_runtime.pipeline import Pipeline
from edgepipe_runtime.results import (
    ClassArea,
    ClassMap,
    ClassScore,
    Detection,
    FrameResult,
    Named,
    Point,
)
from edgepipe_runtime.statistics import Durations, StageStatistics, Statistics

__all__ = [
    "BundleError",
    "ClassArea",
    "ClassMap",
    "ClassScore",
    "DeadlinePassed",
    "Detection",
    "Durations",
    "EdgepipeError",
    "FrameCancelled",
    "FrameFuture",
    "FrameResult",
    "MediaError",
    "Named",
    "Pipeline",
    "PipelineEnded",
    "PipelineError",
    "Point",
    "RuntimeFailure",
    "StageStatistics",
    "Statistics",
    "load",
]

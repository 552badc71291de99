"""Compare int8 with float: Fashion-MNIST's test set, NanoDet's boxes, networks of packages.

Every frame runs through the bundle's pipeline: ARM kernels, and VTA programs on the simulator.
Calibration pictures are never part of the evaluation.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from functools import partial

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

from bench.figures import Figure, publish
from bench.models import BUILD, EXAMPLES, build, description, fashion_mnist, model
from bench.shipped import SUBJECTS, compare
from edgepipe import description as descriptions
from edgepipe import media
from edgepipe.cli.console import ConsoleProgress
from edgepipe.loading import load
from edgepipe.report.detection import Boxes, average_precision, decode_nanodet

CALIBRATION_PICTURES = 256
CLIP_FRAMES = 100
# Float boxes with at least this score are the ground truth. int8 boxes count from a lower score on,
# because average precision sweeps the score.
TRUTH_SCORE = 0.4
LEAST_SCORE = 0.05


def fashion(name: str, progress: ConsoleProgress) -> list[Figure]:
    """Evaluate a classifier on all 10,000 test pictures."""
    path = BUILD / "fashion_train.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, frames=fashion_mnist("train")[0][:CALIBRATION_PICTURES])
    bundle = build(name, path)
    frames, labels = fashion_mnist("t10k")
    preprocess = descriptions.load(description(name)).preprocess
    session = onnxruntime.InferenceSession(str(model(name)))
    (entry,) = session.get_inputs()
    exact = np.concatenate(
        [
            session.run(None, {entry.name: preprocess.normalise(batch)})[0].argmax(axis=1)
            for batch in np.split(frames, 20)
        ]
    )
    progress.step(f"{name}: {len(frames)} pictures through the pipeline")
    found = np.empty(len(frames), np.int64)
    with load(bundle) as pipeline:
        for result in pipeline.map(frame[None] for frame in frames):
            found[result.frame] = result.outputs[0].argmax()
            progress.update(result.frame + 1, len(frames))
    progress.finish()
    hits, float_hits = int((found == labels).sum()), int((exact == labels).sum())
    return [
        Figure(name=f"{name}: float right", value=float_hits, unit="of 10000"),
        Figure(name=f"{name}: int8 right", value=hits, unit="of 10000"),
        Figure(name=f"{name}: loss", value=(float_hits - hits) / 100, unit="points", at_most=0.1),
        Figure(name=f"{name}: same answer", value=int((found == exact).sum()), unit="of 10000"),
    ]


def nanodet(progress: ConsoleProgress) -> list[Figure]:
    """Compare int8 boxes with float boxes on the clip."""
    name = "nanodet_g_coco_416"
    bundle = build(name, EXAMPLES / "calibration")
    described = descriptions.load(description(name))
    clip = media.read_source(EXAMPLES / "pedestrians.avi")
    frames = [
        described.preprocess.frame(picture.picture)
        for picture in itertools.islice(clip, CLIP_FRAMES)
    ]
    session = onnxruntime.InferenceSession(str(model(name)))
    (entry,) = session.get_inputs()
    outputs = [output.name for output in onnx.load(model(name)).graph.output]
    names = [output.replace(":0", "") for output in outputs]
    post = described.postprocess

    def boxes(values: dict[str, NDArray[np.float32]], least: float) -> Boxes:
        return decode_nanodet(values, post.scores, post.distances, score_threshold=least)

    progress.step(f"{name}: {len(frames)} frames, float and int8")
    truth, found = [], []
    with load(bundle) as pipeline:
        for result in pipeline.map(frames):
            frame = described.preprocess.normalise(frames[result.frame])
            exact = dict(zip(names, session.run(outputs, {entry.name: frame}), strict=True))
            truth.append(boxes(exact, TRUTH_SCORE))
            found.append(boxes(dict(result.outputs.items()), LEAST_SCORE))
            progress.update(result.frame + 1, len(frames))
    progress.finish()
    return [
        Figure(
            name=f"{name}: float boxes >= {TRUTH_SCORE}",
            value=sum(len(b.scores) for b in truth),
            unit="boxes",
        ),
        Figure(
            name=f"{name}: AP50 of int8 against float",
            value=average_precision(found, truth),
            unit="",
            at_least=0.9,
        ),
        Figure(
            name=f"{name}: AP50, int8 boxes also >= {TRUTH_SCORE}",
            value=average_precision([b.above(TRUTH_SCORE) for b in found], truth),
            unit="",
            at_least=0.95,
        ),
    ]


def main() -> int:
    """Evaluate all networks, or those named; return 1 if a limit is missed."""
    progress = ConsoleProgress()
    runs: dict[str, Callable[[], list[Figure]]] = {"NanoDet": lambda: nanodet(progress)}
    for name in ("fmnist_resnet8", "fmnist_resnet18"):
        runs[name] = partial(fashion, name, progress)
    for subject in SUBJECTS:
        runs[subject.name] = partial(compare, subject, progress)
    unknown = [name for name in sys.argv[1:] if name not in runs]
    if unknown:
        raise SystemExit(f"unknown network {unknown[0]!r}, expected one of {', '.join(runs)}")
    figures = [figure for name in sys.argv[1:] or runs for figure in runs[name]()]
    return publish("accuracy", figures)


if __name__ == "__main__":
    sys.exit(main())

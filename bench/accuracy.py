"""Compare int8 with float: Fashion-MNIST's test set, NanoDet's boxes, networks of packages.

Every frame runs through the bundle's pipeline: ARM kernels, and VTA programs on the simulator.
Beside it are onnxruntime's int8, one power of two for each tensor, and free steps of weights.
Calibration pictures are never part of the evaluation. `edgepipe accuracy` then runs on the same
10,000 test pictures, with a limit on its time.

    python -m bench.accuracy [NAME | CLASSIFIER.onnx ...]

Without names, all networks. A classifier of Fashion-MNIST that is none of the zoo has the
description of fmnist_resnet8, if there is none beside it.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

from bench.accuracy_command import run_command
from bench.figures import Figure, publish
from bench.int8_forms import FREE_STEPS, Forms, mean_cosine, price_of_shifts
from bench.models import (
    BUILD,
    EXAMPLES,
    build,
    build_network,
    description,
    fashion_mnist,
    model,
)
from bench.onnxruntime_int8 import Float, Outputs
from bench.shipped import SUBJECTS, compare
from edgepipe import description as descriptions
from edgepipe import media
from edgepipe.cli.console import ConsoleProgress
from edgepipe.frontend.frames import frames_from
from edgepipe.frontend.network import load_network
from edgepipe.frontend.preprocess import Frame, Preprocess
from edgepipe.loading import load
from edgepipe.quantize.quantizer import QuantizeOptions
from edgepipe.report.detection import Boxes, average_precision, decode_nanodet

CALIBRATION_PICTURES = 256
CLIP_FRAMES = 100
CLASSES = 10  # of Fashion-MNIST
BESIDE = 2000  # test pictures for the other int8 forms of a classifier; all would take minutes
# Float boxes with at least this score are the ground truth. int8 boxes count from a lower score on,
# because average precision sweeps the score.
TRUTH_SCORE = 0.4
LEAST_SCORE = 0.05


def fashion(network: Path, progress: ConsoleProgress) -> list[Figure]:
    """Evaluate a classifier on all 10,000 test pictures."""
    name, described = network.stem, network.with_suffix(".toml")
    if not described.exists():
        described = description("fmnist_resnet8")
    path = BUILD / "fashion_train.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, frames=fashion_mnist("train")[0][:CALIBRATION_PICTURES])
    bundle = build_network(network, described, path, BUILD / f"{name}.edgepipe")
    frames, labels = fashion_mnist("t10k")
    preprocess = descriptions.load(described).preprocess
    session = onnxruntime.InferenceSession(str(network))
    (entry,) = session.get_inputs()
    exact = np.concatenate(
        [
            session.run(None, {entry.name: preprocess.normalise(batch)})[0].argmax(axis=1)
            for batch in np.split(frames, 20)
        ]
    )
    progress.step(f"{name}: {len(frames)} pictures through the pipeline")
    logits = np.empty((len(frames), CLASSES), np.float32)
    with load(bundle) as pipeline:
        for result in pipeline.map(frame[None] for frame in frames):
            logits[result.frame] = result.outputs[0]
            progress.update(result.frame + 1, len(frames))
    progress.finish()
    found = logits.argmax(axis=1)
    hits, float_hits = int((found == labels).sum()), int((exact == labels).sum())
    return [
        Figure(name=f"{name}: float right", value=float_hits, unit="of 10000"),
        Figure(name=f"{name}: int8 right", value=hits, unit="of 10000"),
        Figure(name=f"{name}: loss", value=(float_hits - hits) / 100, unit="points", at_most=0.1),
        Figure(name=f"{name}: same answer", value=int((found == exact).sum()), unit="of 10000"),
        *run_command(network, bundle, path, hits),
        *_fashion_beside(network, preprocess, np.load(path)["frames"], logits[:BESIDE], progress),
    ]


def _fashion_beside(
    network: Path,
    preprocess: Preprocess,
    calibration: NDArray[np.uint8],
    found: Float,
    progress: ConsoleProgress,
) -> list[Figure]:
    """Compare ``found``, int8 logits float32[n, classes], with other forms on n test pictures."""
    name = network.stem
    frames, labels = (values[: len(found)] for values in fashion_mnist("t10k"))
    given = [frame[None] for frame in calibration[: QuantizeOptions().frames]]
    forms = _forms(network, preprocess, given)
    pictures = [frame[None] for frame in frames]
    exact = list(forms.exact(pictures))
    runs: dict[str, Iterable[Outputs]] = {
        "edgepipe": ((row,) for row in found),
        FREE_STEPS: forms.with_free_steps()(pictures),
        **{form: run(pictures) for form, run in forms.others().items()},
    }
    right, cosines = {"float": _right(exact, labels)}, {}
    for form, run in runs.items():
        progress.step(f"{name}: {len(frames)} pictures, {form}")
        outputs = list(run)
        right[form] = _right(outputs, labels)
        cosines[form] = mean_cosine(exact, outputs)
    progress.finish()
    of = f"of {len(frames)}"
    return [
        *(Figure(name=f"{name}: right, {form}", value=v, unit=of) for form, v in right.items()),
        *_cosine_figures(f"{name}: logit cosine", cosines),
    ]


def _right(outputs: Sequence[Outputs], labels: NDArray[np.uint8]) -> int:
    """Return how often the largest logit of the only output is the label's."""
    return int((np.array([int(logits.argmax()) for (logits,) in outputs]) == labels).sum())


def _forms(path: Path, pre: Preprocess, calibration: Sequence[Frame]) -> Forms:
    network = load_network(path, (pre.channels, pre.height, pre.width))
    return Forms(network=network, calibration=calibration, preprocess=pre)


def _cosine_figures(what: str, cosines: dict[str, float]) -> list[Figure]:
    return [
        *(Figure(name=f"{what}, {form}", value=value, unit="") for form, value in cosines.items()),
        price_of_shifts(what, cosines["edgepipe"], cosines[FREE_STEPS]),
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
    names = [output.name.removesuffix(":0") for output in onnx.load(model(name)).graph.output]
    post = described.postprocess

    def boxes(outputs: Outputs, least: float) -> Boxes:
        values = dict(zip(names, outputs, strict=True))
        return decode_nanodet(values, post.scores, post.distances, score_threshold=least)

    calibration = frames_from(EXAMPLES / "calibration", described.preprocess)
    given = list(itertools.islice(calibration, QuantizeOptions().frames))
    forms = _forms(model(name), described.preprocess, given)
    exact = list(forms.exact(frames))
    truth = [boxes(outputs, TRUTH_SCORE) for outputs in exact]
    runs: dict[str, Iterable[Outputs]] = {
        "edgepipe": _through_pipeline(bundle, frames, names),
        FREE_STEPS: forms.with_free_steps()(frames),
        **{form: run(frames) for form, run in forms.others().items()},
    }
    figures = [
        Figure(
            name=f"{name}: float boxes >= {TRUTH_SCORE}",
            value=sum(len(b.scores) for b in truth),
            unit="boxes",
        )
    ]
    cosines = {}
    for form, run in runs.items():
        progress.step(f"{name}: {len(frames)} frames, {form}")
        outputs = list(run)
        found = [boxes(values, LEAST_SCORE) for values in outputs]
        cut = [b.above(TRUTH_SCORE) for b in found]
        ours = form == "edgepipe"
        figures += [
            Figure(
                name=f"{name}: AP50 against float, {form}",
                value=average_precision(found, truth),
                unit="",
                at_least=0.9 if ours else None,
            ),
            Figure(
                name=f"{name}: AP50, int8 boxes also >= {TRUTH_SCORE}, {form}",
                value=average_precision(cut, truth),
                unit="",
                at_least=0.95 if ours else None,
            ),
        ]
        cosines[form] = mean_cosine(exact, outputs)
    progress.finish()
    return [*figures, *_cosine_figures(f"{name}: output cosine", cosines)]


def _through_pipeline(
    bundle: Path, frames: Sequence[Frame], names: Sequence[str]
) -> Iterator[Outputs]:
    with load(bundle) as pipeline:
        for result in pipeline.map(frames):
            yield tuple(np.asarray(result.outputs[name], np.float32) for name in names)


def main() -> int:
    """Evaluate all networks, or those named; return 1 if a limit is missed."""
    progress = ConsoleProgress()
    runs: dict[str, Callable[[], list[Figure]]] = {"NanoDet": lambda: nanodet(progress)}
    runs["fmnist_resnet8"] = partial(fashion, model("fmnist_resnet8"), progress)
    for subject in SUBJECTS:
        runs[subject.name] = partial(compare, subject, progress)
    for name in sys.argv[1:]:
        if name.endswith(".onnx") and Path(name).is_file():
            runs[name] = partial(fashion, Path(name), progress)
        if name not in runs:
            expected = f"one of {', '.join(runs)}, or the .onnx file of a classifier"
            raise SystemExit(f"unknown network {name!r}, expected {expected}")
    figures = [figure for name in sys.argv[1:] or runs for figure in runs[name]()]
    return publish("accuracy", figures)


if __name__ == "__main__":
    sys.exit(main())

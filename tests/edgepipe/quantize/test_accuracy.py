"""The loss of accuracy with int8 on real networks and data; docs and bench have the full sets.

The float network in onnxruntime is the reference for integer Relax on stock TVM. Each limit is next
to the measured value (2026-11, calibration as in the test).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray

from bench import models
from edgepipe import description
from edgepipe.frontend.frames import frames_from
from edgepipe.frontend.network import load_network
from edgepipe.quantize.quantizer import quantize
from edgepipe.report.detection import average_precision, decode_nanodet
from edgepipe.tvm_adapter import CompiledModule

pytestmark = pytest.mark.models

CLIP = models.EXAMPLES / "pedestrians.avi"  # 200 frames
CALIBRATION = models.EXAMPLES / "calibration"
FashionMnist = Callable[[str], tuple[NDArray[np.uint8], NDArray[np.uint8]]]


def fashion_hits(path: Path, data: FashionMnist, count: int) -> tuple[int, int, int]:
    """Return how often float and int8 are correct, and how often they agree."""
    preprocess = description.load(models.description(path.stem)).preprocess
    training, _ = data("train")
    frames, labels = data("t10k")
    network = load_network(path)
    result = quantize(network, (frame[None] for frame in training), preprocess)
    session = onnxruntime.InferenceSession(network.onnx_model.SerializeToString())
    compiled = CompiledModule(result.module)
    answers = []
    for frame in frames[:count]:
        (reference,) = session.run(None, {network.onnx_input: preprocess.normalise(frame[None])})
        found = compiled.run({result.input_name: frame[None]})["logits"]
        answers.append((int(reference.argmax()), int(found.argmax())))
    float_answers, int_answers = np.array(answers).T
    truth = labels[:count]
    return (
        int((float_answers == truth).sum()),
        int((int_answers == truth).sum()),
        int((float_answers == int_answers).sum()),
    )


def test_resnet8_agrees_with_float(
    model_path: Callable[[str], Path], fashion_mnist: FashionMnist
) -> None:
    _, _, agreed = fashion_hits(model_path("fmnist_resnet8"), fashion_mnist, 500)
    assert agreed >= 490  # measured on all 10,000: 9,959


@pytest.mark.networks
def test_resnet8_loses_at_most_thirty_of_ten_thousand(
    model_path: Callable[[str], Path], fashion_mnist: FashionMnist
) -> None:
    exact, found, _ = fashion_hits(model_path("fmnist_resnet8"), fashion_mnist, 10_000)
    assert found >= exact - 30  # measured: 9,114 of 9,113


def nanodet_precision(model: Path, count: int) -> float:
    """Return AP50 of the int8 boxes against the float boxes of at least 0.4 over ``count`` frames.

    int8 boxes count from a score of 0.05, because the precision-recall curve needs their order.
    """
    described = description.load(models.description(model.stem))
    preprocess, names = described.preprocess, described.postprocess
    network = load_network(model)
    result = quantize(network, frames_from(CALIBRATION, preprocess), preprocess)
    session = onnxruntime.InferenceSession(network.onnx_model.SerializeToString())
    compiled = CompiledModule(result.module)
    truth, found = [], []
    for frame in list(frames_from(CLIP, preprocess))[:: 200 // count]:
        values = session.run(None, {network.onnx_input: preprocess.normalise(frame)})
        reference = dict(zip(network.output_names, values, strict=True))
        heads = (names.scores, names.distances)
        truth.append(decode_nanodet(reference, *heads, score_threshold=0.4))
        outputs = compiled.run({result.input_name: frame})
        found.append(decode_nanodet(outputs, *heads, score_threshold=0.05))
    return average_precision(found, truth)


@pytest.mark.networks
def test_nanodet_boxes_are_those_of_float(model_path: Callable[[str], Path]) -> None:
    assert nanodet_precision(model_path("nanodet_g_coco_416"), 5) >= 0.95


@pytest.mark.networks
def test_nanodet_boxes_over_a_hundred_frames(model_path: Callable[[str], Path]) -> None:
    assert nanodet_precision(model_path("nanodet_g_coco_416"), 100) >= 0.95

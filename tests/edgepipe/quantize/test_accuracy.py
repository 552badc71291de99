"""What int8 costs on real networks and data; the figures of the full sets are in docs and bench.

The float network by onnxruntime is the reference, integer Relax by stock TVM what is judged. Each
limit stands next to what was measured (2026-11, calibration as in the test).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray

from edgepipe.frontend.frames import frames_from
from edgepipe.frontend.network import load_network
from edgepipe.frontend.preprocess import Preprocess
from edgepipe.quantize.quantizer import quantize
from edgepipe.report.detection import average_precision, decode_nanodet
from edgepipe.tvm_adapter import CompiledModule

pytestmark = pytest.mark.models

FASHION = Preprocess(
    width=28, height=28, order="GRAY", mean=(0.2860,), std=(0.3530,), scale=1 / 255
)
NANODET = Preprocess(
    width=416,
    height=416,
    order="BGR",
    mean=(103.53, 116.28, 123.675),
    std=(57.375, 57.12, 58.395),
)
SCORES = ("Identity", "Identity_1", "Identity_2")
DISTANCES = ("Identity_3", "Identity_4", "Identity_5")
FashionMnist = Callable[[str], tuple[NDArray[np.uint8], NDArray[np.uint8]]]


def fashion_hits(path: Path, data: FashionMnist, count: int) -> tuple[int, int, int]:
    """Return how often float and int8 are right, and how often they agree, on ``count`` frames."""
    training, _ = data("train")
    frames, labels = data("t10k")
    network = load_network(path)
    result = quantize(network, (frame[None] for frame in training), FASHION)
    session = onnxruntime.InferenceSession(network.onnx_model.SerializeToString())
    compiled = CompiledModule(result.module)
    answers = []
    for frame in frames[:count]:
        (reference,) = session.run(None, {network.onnx_input: FASHION.normalise(frame[None])})
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
    _, _, agreed = fashion_hits(model_path("fmnist_resnet8.onnx"), fashion_mnist, 500)
    assert agreed >= 490  # measured on all 10,000: 9,959


@pytest.mark.slow
@pytest.mark.parametrize("file", ["fmnist_resnet8.onnx", "fmnist_resnet18.onnx"])
def test_resnets_lose_at_most_thirty_of_ten_thousand(
    file: str, model_path: Callable[[str], Path], fashion_mnist: FashionMnist
) -> None:
    exact, found, _ = fashion_hits(model_path(file), fashion_mnist, 10_000)
    assert found >= exact - 30  # measured: resnet8 9,114 of 9,113; resnet18 8,985 of 8,985


def nanodet_precision(model: Path, clip: Path, count: int) -> float:
    """Return AP50 of the int8 boxes against the float boxes of at least 0.4 over ``count`` frames.

    The int8 boxes are taken down to 0.05, as the precision-recall curve needs their order.
    """
    frames = list(islice(frames_from(clip, NANODET), 795))
    network = load_network(model)
    result = quantize(network, frames[::24], NANODET)
    session = onnxruntime.InferenceSession(network.onnx_model.SerializeToString())
    compiled = CompiledModule(result.module)
    truth, found = [], []
    for frame in frames[3 :: 795 // count][:count]:
        values = session.run(None, {network.onnx_input: NANODET.normalise(frame)})
        reference = dict(zip(network.output_names, values, strict=True))
        truth.append(decode_nanodet(reference, SCORES, DISTANCES, score_threshold=0.4))
        outputs = compiled.run({result.input_name: frame})
        found.append(decode_nanodet(outputs, SCORES, DISTANCES, score_threshold=0.05))
    return average_precision(found, truth)


def test_nanodet_boxes_are_those_of_float(
    model_path: Callable[[str], Path], media_path: Callable[[str], Path]
) -> None:
    model, clip = model_path("nanodet_g_coco_416.onnx"), media_path("vtest.avi")
    assert nanodet_precision(model, clip, 6) >= 0.95


@pytest.mark.slow
def test_nanodet_boxes_over_a_hundred_frames(
    model_path: Callable[[str], Path], media_path: Callable[[str], Path]
) -> None:
    model, clip = model_path("nanodet_g_coco_416.onnx"), media_path("vtest.avi")
    assert nanodet_precision(model, clip, 100) >= 0.95  # measured: 0.997 of 906 boxes

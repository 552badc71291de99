"""A drafted description gives the boxes that numpy makes of the same outputs, with usual anchors.

The anchors are computed here as the families' own programs do: box by box, in shares of the
picture.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import box_reference as reference
import numpy as np
import onnx
import onnxruntime
import pipeline_bundles as bundles
import pytest
from exported_networks import NETWORKS
from exported_networks.exact import frames, options

from edgepipe import description
from edgepipe.drafting.draft import draft, write
from edgepipe.loading import load
from edgepipe.recipe import build_bundle
from edgepipe.runtime.results import Detection

Array = np.ndarray


@dataclass(frozen=True)
class Decoded:
    """Corners, scores and points of all boxes, in pixels."""

    corners: Array
    scores: Array
    points: Array


def retinaface(outputs: dict[str, Array], size: int) -> Decoded:
    priors = []
    for step, sides in ((8, (16, 32)), (16, (64, 128)), (32, (256, 512))):
        cells = range(math.ceil(size / step))
        for y, x, side in itertools.product(cells, cells, sides):
            share = side / size
            priors.append(((x + 0.5) * step / size, (y + 0.5) * step / size, share, share))
    boxes, scores, marks = (outputs[f"output{index}"][0].astype(float) for index in range(3))
    p = np.array(priors)
    points = marks.reshape(-1, 5, 2) * 0.1 * p[:, None, 2:] + p[:, None, :2]
    points = np.concatenate([points * size, np.ones((len(p), 5, 1))], axis=2)
    return Decoded(from_priors(boxes, p, size), scores[:, 1:], points)


def ssdlite(outputs: dict[str, Array], size: int) -> Decoded:
    scales = [*np.linspace(0.2, 0.95, 6), 1.0]
    priors = []
    for level, cells in enumerate((8, 4, 2, 1, 1, 1)):
        one, between = scales[level], math.sqrt(scales[level] * scales[level + 1])
        shapes = [(one, one), (between, between)]
        for ratio in (2, 3):
            wide, high = one * math.sqrt(ratio), one / math.sqrt(ratio)
            shapes += [(wide, high), (high, wide)]
        for y, x, (w, h) in itertools.product(range(cells), range(cells), shapes):
            priors.append(((x + 0.5) / cells, (y + 0.5) / cells, min(w, 1), min(h, 1)))
    scores, boxes = (outputs[f"output{index}"][0].astype(float) for index in range(2))
    return Decoded(
        from_priors(boxes, np.array(priors), size), scores[:, 1:], np.zeros((len(boxes), 0, 3))
    )


def from_priors(boxes: Array, priors: Array, size: int) -> Array:
    middle = priors[:, :2] + boxes[:, :2] * 0.1 * priors[:, 2:]
    sides = priors[:, 2:] * np.exp(boxes[:, 2:] * 0.2)
    return np.concatenate([middle - sides / 2, middle + sides / 2], axis=1) * size


def yolov3_tiny(outputs: dict[str, Array], size: int) -> Decoded:
    anchors = {32: ((81, 82), (135, 169), (344, 319)), 16: ((10, 14), (23, 27), (37, 58))}
    corners, scores = [], []
    for name, stride in (("output0", 32), ("output1", 16)):
        grid = reference.sigmoid(outputs[name][0].astype(float))  # [3, h, w, 85]
        raw = outputs[name][0].astype(float)
        for y, x, index in itertools.product(*map(range, (*grid.shape[1:3], 3))):
            values = grid[index, y, x]
            middle = (np.array([x, y]) + values[:2]) * stride
            sides = np.array(anchors[stride][index]) * np.exp(raw[index, y, x, 2:4])
            corners.append(np.concatenate([middle - sides / 2, middle + sides / 2]))
            scores.append(values[4] * values[5:])
    return Decoded(np.array(corners), np.array(scores), np.zeros((len(corners), 0, 3)))


def yolov3_tiny_last(outputs: dict[str, Array], size: int) -> Decoded:
    """Decode heads [1, h, w, 3, 85], as TensorFlow leaves them."""
    return yolov3_tiny({name: v.transpose(0, 3, 1, 2, 4) for name, v in outputs.items()}, size)


CASES = {
    "retinaface": (retinaface, 0.4),
    "ssdlite": (ssdlite, 0.04),
    "yolov3_tiny": (yolov3_tiny, 0.4),
    "yolov3_tiny_last": (yolov3_tiny_last, 0.4),
}


def drafted(name: str, folder: Path, width: float) -> tuple[Path, int]:
    """Write a network and its drafted description, with the case's threshold."""
    network = NETWORKS[name.removesuffix("_last")]
    # 3x3 cells of 3 boxes would not show which axis is which.
    size = 128 if name.endswith("_last") else network.size
    network = replace(network, width=width, size=size)
    path = folder / "net.onnx"
    model = network.model()
    if name.endswith("_last"):
        for node in [n for n in model.graph.node if n.output[0].startswith("output")]:
            node.op_type = "Transpose"  # it was Identity
            node.attribute.append(onnx.helper.make_attribute("perm", [0, 2, 3, 1, 4]))
    onnx.save(model, path)
    asked = None if name.startswith("yolov3") else (size, size)
    write(draft(path, size=asked), folder / "net.toml")
    text = (folder / "net.toml").read_text()
    threshold = f"score_threshold = {CASES[name][1]}"
    (folder / "net.toml").write_text(text.replace("score_threshold = 0.4", threshold))
    return path, size


@pytest.mark.parametrize("name", CASES)
def test_a_drafted_head_is_decoded(name: str, files: bundles.Files, tmp_path: Path) -> None:
    path, size = drafted(name, tmp_path, NETWORKS[name.removesuffix("_last")].width)
    model = onnx.load(path)
    shape = (1, size, size, 3) if name == "ssdlite" else (1, 3, size, size)
    picture = np.random.default_rng(3).uniform(-2, 2, shape).astype(np.float32)
    session = onnxruntime.InferenceSession(path)
    names = [value.name for value in model.graph.output]
    outputs = dict(zip(names, session.run(None, {"image": picture}), strict=True))
    described = description.load(tmp_path / "net.toml")
    bundle = bundles.write_bundle(
        tmp_path / "heads",
        files,
        {},
        tensors=[
            *bundles.TENSORS,
            *(bundles.tensor(key, "float32", array.shape) for key, array in outputs.items()),
        ],
        inputs=("frame", *outputs),
        postprocess=described.postprocess,
        size=size,
    )
    with load(bundle) as pipeline:
        pipeline.run(bundles.frames(1)[0], *outputs.values())
        result = pipeline.next()
    check(result.detections, name, outputs, size)


@pytest.mark.networks
def test_a_build_with_a_draft_gives_boxes(tmp_path: Path) -> None:
    path, size = drafted("retinaface", tmp_path, 0.25)
    text = (tmp_path / "net.toml").read_text()
    given = options(tmp_path, path, size, size)
    given.description.write_text(text)
    build_bundle(given)
    with load(given.output) as pipeline:
        result = pipeline(frames(size, size)[0])
    check(result.detections, "retinaface", result.outputs, size)


def check(found: Sequence[Detection], name: str, outputs: dict[str, Array], size: int) -> None:
    decode, threshold = CASES[name]
    wanted = decode(outputs, size)
    expected = reference.choose(
        [(wanted.corners, wanted.scores, wanted.points)],
        size=(size, size),
        score_threshold=threshold,
        iou_threshold=0.5,
    )
    assert len(found) == len(expected.scores) >= 5
    boxes = [[b.left, b.top, b.right, b.bottom] for b in found]
    np.testing.assert_allclose(boxes, expected.corners, atol=0.01)
    np.testing.assert_allclose([b.score for b in found], expected.scores, atol=1e-6)
    assert [b.label_index for b in found] == list(expected.classes)
    points = np.array([[[p.x, p.y, p.score] for p in b.points] for b in found])
    np.testing.assert_allclose(points.reshape(expected.points.shape), expected.points, atol=0.01)

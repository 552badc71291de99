"""Descriptions: those of the shipped examples, post-processing that cannot be, activations."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import onnx
import pytest

from edgepipe import description
from edgepipe.description import NetworkDescription, Postprocess
from edgepipe.errors import FrontendError
from edgepipe.frontend.makers import are_probabilities
from edgepipe.frontend.preprocess import Preprocess

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.parametrize("where", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.stem)
def test_an_example_names_its_classes(where: Path) -> None:
    described = description.load(where)
    labels = description.labels_of(described, where)
    graph = onnx.load(where.with_suffix(".onnx")).graph
    outputs = {output.name.removesuffix(":0"): output for output in graph.output}
    scores = outputs[next(iter(described.postprocess.scores), next(iter(outputs)))]
    assert len(labels) == scores.type.tensor_type.shape.dim[-1].dim_value
    assert all(label.strip() == label != "" for label in labels)


@pytest.mark.parametrize(
    ("last", "activation"),
    [("Softmax", "none"), ("Sigmoid", "none"), ("Relu", "default")],
)
def test_probabilities_of_the_network_stay_as_they_are(last: str, activation: str) -> None:
    nodes = [
        onnx.helper.make_node(last, ["x"], ["p"]),
        onnx.helper.make_node("Flatten", ["p"], ["y"]),
    ]
    ends = [onnx.helper.make_tensor_value_info(n, 1, [1, 5]) for n in ("x", "y")]
    model = onnx.helper.make_model(onnx.helper.make_graph(nodes, "net", ends[:1], ends[1:]))
    outputs = dict(zip(["y"], are_probabilities(model), strict=True))
    for kind, settings in (
        ("classify", {}),
        ("ctc", {"outputs": ("y",), "labels": "x.txt"}),
        ("ssd", {"scores": ("y",), "distances": ("b",), "strides": (8,), "anchors": ((9, 9),)}),
        ("distances", {"scores": ("y",), "distances": ("b",), "strides": (8,)}),
    ):
        described = described_as(kind=kind, **settings)
        found = description.settled(described, outputs | {"b": False})
        assert found.postprocess.activation == activation
        chosen = described_as(kind=kind, activation="softmax", **settings)
        assert description.settled(chosen, outputs | {"b": False}) == chosen
    boxes = described_as(kind="boxes", outputs=("y",))
    assert description.settled(boxes, outputs) == boxes


def test_the_described_output_decides_and_not_the_first() -> None:
    settings = {"kind": "ctc", "outputs": ("y",), "labels": "x.txt"}
    for first, second in ((True, False), (False, True)):
        found = description.settled(described_as(**settings), {"x": first, "y": second})
        assert found.postprocess.activation == ("none" if second else "default")


def test_scores_of_all_strides_are_probabilities_or_none_is() -> None:
    names = {"scores": ("a", "b"), "distances": ("c", "d"), "strides": (8, 16)}
    described = described_as(kind="distances", **names)
    assert description.settled(described, {"a": True, "b": False}) == described


def described_as(**postprocess: Any) -> NetworkDescription:
    preprocess = Preprocess(width=1, height=1, order="GRAY", mean=(0.0,), std=(1.0,))
    return NetworkDescription(preprocess=preprocess, postprocess=Postprocess(**postprocess))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "yolo"}, "postprocess: kind 'yolo' is unknown"),
        ({"kind": "boxes"}, "postprocess: 0 outputs, expected the one with the boxes"),
        ({"kind": "yolox", "outputs": ("a",)}, "postprocess: no strides, expected one for each"),
        ({"kind": "yolox", "strides": (8,)}, "postprocess: no tensors, expected their names in"),
        (
            {"kind": "yolox", "strides": (8, 16, 32), "outputs": ("a", "b")},
            "postprocess: 2 outputs, expected 1 or 3, one for each stride",
        ),
        (
            {"kind": "ssd", "strides": (8,), "scores": ("s",), "distances": ("d",)},
            "postprocess: anchors for 0 strides, expected 1, each a list of widths and heights",
        ),
        (
            {"kind": "distances", "strides": (8,), "outputs": ("a",), "points": 5},
            "postprocess: 5 points and 0 landmarks, expected both or none",
        ),
        (
            {
                "kind": "yolox",
                "strides": (8,),
                "outputs": ("a",),
                "points": 5,
                "landmarks": ("b",),
            },
            "postprocess: landmarks of kind 'yolox', expected kind distances or ssd",
        ),
        ({"kind": "boxes", "outputs": ("a",), "point_values": 4}, "point_values is 4, expected 2"),
        (
            {"kind": "boxes", "outputs": ("a",), "variances": (1.0,)},
            "postprocess: 1 variances, expected 2: of centre and size",
        ),
        (
            {"kind": "boxes", "outputs": ("a",), "objectness": True, "activation": "softmax"},
            "postprocess: activation is softmax, expected none or sigmoid beside an objectness",
        ),
        ({"kind": "keypoints"}, "postprocess: 0 outputs, expected the one of kind 'keypoints'"),
        ({"kind": "db", "outputs": ("a",), "unclip": 11.0}, "unclip is 11, expected 0 to 10"),
        (
            {"kind": "ctc", "outputs": ("a",)},
            "postprocess: no labels, expected a file with one character per line",
        ),
        (
            {"kind": "own", "gives": "boxes", "libraries": ("a.so",), "most": 0},
            "postprocess: most is 0, expected 1 to 10000",
        ),
        (
            {"kind": "own", "gives": "boxes", "libraries": ("a.so",), "points": 513},
            "postprocess: points is 513, expected 0 to 512",
        ),
        ({"kind": "none", "grids": (0,)}, "postprocess: stride 0, expected 1 to 1000000 pixels"),
    ],
)
def test_impossible_heads_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(FrontendError, match=re.escape(message)):
        Postprocess(**settings)


@pytest.mark.parametrize(
    ("settings", "message", "hint"),
    [
        (
            {"gives": "masks"},
            "postprocess: gives 'masks' is unknown",
            "known results of a decoder: boxes, classes, points, text",
        ),
        (
            {"gives": "boxes"},
            "postprocess: kind 'own' has no decoder, expected a function or libraries",
            'name a Python function, function = "decoder.py:decode", or shared libraries, '
            'libraries = ["libdecoder.so"]',
        ),
        (
            {"gives": "boxes", "function": "decoder.py"},
            "postprocess: function is 'decoder.py', expected FILE.py:NAME",
            'name the file beside the description, as in "decoder.py:decode"',
        ),
    ],
)
def test_an_own_decoder_that_cannot_be_is_refused(
    settings: dict[str, Any], message: str, hint: str
) -> None:
    with pytest.raises(FrontendError, match=re.escape(message)) as caught:
        Postprocess(kind="own", **settings)
    assert caught.value.hint == hint


def test_the_results_of_an_own_decoder_have_a_known_form() -> None:
    forms = {
        gives: Postprocess(kind="own", gives=gives, libraries=("a.so",)).results
        for gives in ("boxes", "classes", "points", "text")
    }
    assert forms == {"boxes": "boxes", "classes": "classify", "points": "keypoints", "text": "ctc"}
    assert Postprocess(kind="classify").results == "classify"

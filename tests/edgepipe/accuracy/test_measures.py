"""The measures of tasks, on cases worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
from provoked_hints import hint_of

from edgepipe.accuracy import measures
from edgepipe.accuracy.boxes import BoxReader
from edgepipe.accuracy.data import Sample, TrueBoxes
from edgepipe.accuracy.measures import AveragePrecision, MeanIou, OwnMeasure, TopK
from edgepipe.description import Postprocess
from edgepipe.errors import AccuracyError
from edgepipe.frontend.preprocess import Preprocess
from edgepipe.report.detection import Boxes

WHERE = Path("truth")
SQUARE = (0, 0, 100, 100)


def picture(name: str = "a.png", height: int = 4, width: int = 4) -> Sample:
    return Sample(name=name, frame=np.zeros((1, height, width, 3), np.uint8), size=(height, width))


def true(*corners: tuple[int, ...], crowd: int = 0, number: int = 0) -> TrueBoxes:
    """Return true boxes of one class, the last ``crowd`` of which are crowds."""
    count = len(corners)
    return TrueBoxes(
        corners=np.array(corners, np.float64).reshape(-1, 4),
        classes=np.full(count, number),
        crowd=np.arange(count) >= count - crowd,
    )


def found(*boxes: tuple[float, ...], number: int = 0) -> Boxes:
    """Return found boxes of one class, each (score, left, top, right, bottom)."""
    table = np.array(boxes, np.float64).reshape(-1, 5)
    return Boxes(
        corners=table[:, 1:], scores=table[:, 0], classes=np.full(len(table), number, np.int64)
    )


def precision(*pictures: tuple[TrueBoxes, Boxes]) -> dict[str, float]:
    """Return AP50 and AP50:95 over pictures, each its true and its found boxes."""
    truth = {str(number): pair[0] for number, pair in enumerate(pictures)}
    answers = {str(number): pair[1] for number, pair in enumerate(pictures)}
    measure = AveragePrecision(truth, WHERE, lambda shown, _: answers[shown.name])
    for name in truth:
        measure.add(picture(name), {})
    return measure.result()


def test_a_box_that_is_exactly_right() -> None:
    assert precision((true(SQUARE), found((0.9, *SQUARE)))) == {"AP50": 1.0, "AP50:95": 1.0}


def test_half_of_the_boxes_are_found_at_full_precision() -> None:
    # Of the recalls 0, 0.01 ... 1, the 51 up to 0.5 have precision 1.
    far = (200, 200, 300, 300)
    assert precision((true(SQUARE, far), found((0.9, *SQUARE))))["AP50"] == pytest.approx(51 / 101)


def test_an_overlap_of_72_percent_counts_at_five_of_ten_thresholds() -> None:
    result = precision((true(SQUARE), found((0.9, 0, 0, 72, 100))))
    assert result == {"AP50": 1.0, "AP50:95": pytest.approx(0.5)}


def test_a_wrong_box_with_a_better_score_halves_the_precision() -> None:
    # In another picture, so the order is that of all pictures together.
    pictures = [
        (true(SQUARE), found((0.8, *SQUARE))),
        (true(), found((0.9, *SQUARE))),
    ]
    assert precision(*pictures)["AP50"] == pytest.approx(0.5)


def test_a_true_box_is_found_only_once() -> None:
    twice = found((0.9, *SQUARE), (0.8, *SQUARE))
    assert precision((true(SQUARE, (200, 0, 300, 100)), twice))["AP50"] == pytest.approx(51 / 101)


def test_a_box_inside_a_crowd_does_not_count() -> None:
    crowd = true(SQUARE, (200, 0, 400, 200), crowd=1)
    inside = found((0.95, 210, 10, 250, 50), (0.94, 300, 10, 350, 50), (0.9, *SQUARE))
    assert precision((crowd, inside))["AP50"] == 1.0


def test_classes_without_true_boxes_do_not_count() -> None:
    pictures = [
        (true(SQUARE), found((0.9, *SQUARE))),
        (true(), found((0.9, *SQUARE), number=3)),
        (true(SQUARE, number=1), found()),
    ]
    assert precision(*pictures) == {"AP50": 0.5, "AP50:95": 0.5}
    assert precision((true(), found((0.9, *SQUARE)))) == {"AP50": 0.0, "AP50:95": 0.0}


def test_a_hundred_boxes_of_a_class_count_in_a_picture() -> None:
    wrong = [(0.9 - 0.001 * i, 500, 500, 510, 510) for i in range(99)]
    assert precision((true(SQUARE), found(*wrong, (0.1, *SQUARE))))["AP50"] > 0
    wrong.append((0.7, 500, 500, 510, 510))
    assert precision((true(SQUARE), found(*wrong, (0.1, *SQUARE))))["AP50"] == 0.0


def test_boxes_come_back_to_the_pixels_of_the_picture() -> None:
    # One cell of 4x4 pixels; the first of two bins is certain on every side: the box is a point at
    # the centre (2, 2) of the frame, which is (6, 4) of a picture of 12x8 pixels.
    post = Postprocess(kind="nanodet", strides=(4,), bins=2, scores=("s",), distances=("d",))
    preprocess = Preprocess(width=4, height=4, order="BGR", mean=(0, 0, 0), std=(1, 1, 1))
    manifest = SimpleNamespace(name="net", postprocess=post, preprocess=preprocess)
    outputs = {
        "s": np.array([[[0.02]]], np.float32),  # below the score that a user would show
        "d": np.tile(np.array([50, -50], np.float32), 4).reshape(1, 1, 8),
    }
    boxes = BoxReader(manifest)(picture(height=8, width=12), outputs)  # type: ignore[arg-type]
    np.testing.assert_allclose(boxes.corners, [[6, 4, 6, 4]], atol=1e-9)
    assert boxes.scores == pytest.approx([0.02])


def test_top_1_and_top_5() -> None:
    measure = TopK({"a": 0, "b": 1, "c": 6}, WHERE)
    scores = np.array([[7, 6, 5, 4, 3, 2, 1]], np.float32)
    for name in "abc":
        measure.add(picture(name), {"logits": scores})
    assert measure.result() == {"top-1": pytest.approx(1 / 3), "top-5": pytest.approx(2 / 3)}


def test_top_5_of_five_classes_is_not_shown() -> None:
    measure = TopK({"a": 4}, WHERE)
    measure.add(picture("a"), {"logits": np.arange(5, dtype=np.float32)})
    assert measure.result() == {"top-1": 1.0}


def test_mean_intersection_over_union(tmp_path: Path) -> None:
    # The mask has twice the network's size; one pixel of four has no class.
    mask = np.repeat(np.repeat(np.array([[0, 1], [1, 255]], np.uint8), 2, axis=0), 2, axis=1)
    cv2.imwrite(str(tmp_path / "a.png"), mask)
    preprocess = Preprocess(width=2, height=2, order="BGR", mean=(0, 0, 0), std=(1, 1, 1))
    measure = MeanIou(tmp_path, preprocess)
    scores = np.zeros((1, 2, 2, 2), np.float32)
    scores[0, 1, 0, :] = 1  # class 1 in the upper row, class 0 below
    measure.add(picture(), {"scores": scores})
    # Class 0: none of 2 pixels; class 1: 1 of 3.
    assert measure.result() == {"mIoU": pytest.approx((0 + 1 / 3) / 2)}
    measure = MeanIou(tmp_path, preprocess)
    measure.add(picture(), {"classes": np.array([[[0, 1], [1, 1]]], np.int64)})
    assert measure.result() == {"mIoU": 1.0}


def test_bars_beside_the_picture_do_not_count(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "a.png"), np.array([[1, 0]], np.uint8))
    # One row of the frame above the picture and one below; the network is wrong in both.
    preprocess = SimpleNamespace(
        frame_shape=(1, 3, 2, 3), placement=lambda width, height: (1.0, 1.0, 0, -1)
    )
    measure = MeanIou(tmp_path, preprocess)  # type: ignore[arg-type]
    classes = np.array([[[7, 7], [1, 0], [7, 7]]], np.int64)
    measure.add(picture(height=1, width=2), {"classes": classes})
    assert measure.result() == {"mIoU": 1.0}
    classes[0, 1] = 1000  # a class that no mask of 8 bits can have
    measure.add(picture(height=1, width=2), {"classes": classes})
    assert measure.result() == {"mIoU": pytest.approx((1 / 2 + 1 / 2 + 0) / 3)}


def test_a_function_of_the_user() -> None:
    measure = OwnMeasure("own:best", lambda name, outputs: {"best": outputs["y"].max(), "one": 1})
    for name, value in (("a", 2.0), ("b", 4.0)):
        measure.add(picture(name), {"y": np.array([value, 0])})
    assert measure.result() == {"best": 3.0, "one": 1.0}


def test_a_function_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_accuracy.py").write_text("def first(name, outputs):\n    return len(name)\n")
    monkeypatch.syspath_prepend(tmp_path)
    measure = measures.own_measure("own_accuracy:first")()
    measure.add(picture("abc"), {})
    assert measure.result() == {"first": 3.0}


def fails(name: str, outputs: object) -> float:
    raise ValueError("no peaks")


def two_outputs() -> object:
    return measures.only_output({"a": np.zeros(1), "b": np.zeros(1)})


ERRORS: list[tuple[Callable[[], object], str, str]] = [
    (
        lambda: TopK({}, WHERE).add(picture(), {"y": np.zeros(3)}),
        "truth: says nothing about picture a.png",
        "name every picture as its file is named, without the folder",
    ),
    (
        lambda: TopK({"a.png": 3}, WHERE).add(picture(), {"y": np.zeros(3)}),
        "truth: picture a.png has class 3, the network knows 3",
        "number the classes from 0",
    ),
    (
        two_outputs,
        "the network has 2 outputs (a, b), expected one",
        "write a function for this network's measure",
    ),
    (
        lambda: MeanIou(WHERE, SimpleNamespace()).add(  # type: ignore[arg-type]
            picture(), {"y": np.zeros((1, 3), np.float32)}
        ),
        "the output is float32[1, 3], expected scores [1, classes, h, w] or classes [1, h, w]",
        "masks are for networks that give every pixel a class",
    ),
    (
        lambda: OwnMeasure("own:fails", fails).add(picture(), {}),
        "own:fails: failed at picture a.png: ValueError: no peaks",
        "call the function with this picture's outputs to find the fault",
    ),
    (
        lambda: OwnMeasure("own:word", lambda *_: {"x": "word"}).add(picture(), {}),
        "own:word: returned str for picture a.png, expected a number",
        "return a number, or a dict of numbers by their names",
    ),
    (
        lambda: measures.own_measure("module"),
        "metric 'module': expected module:function",
        "name a module that Python can import, and a function in it",
    ),
    (
        lambda: measures.own_measure("no_such_module:f"),
        "metric 'no_such_module:f': no_such_module cannot be imported: "
        "No module named 'no_such_module'",
        "run the command in the folder of the module, or install the module",
    ),
    (
        lambda: measures.own_measure("json:measure"),
        "metric 'json:measure': json has no function measure",
        "name a function that takes a picture's name and a dict of outputs",
    ),
    (
        lambda: BoxReader(
            SimpleNamespace(name="net", postprocess=Postprocess(kind="classify"))  # type: ignore[arg-type]
        ),
        "net: its outputs are described as 'classify', expected a detector's",
        "describe the boxes in [postprocess] and build the bundle again, or write a function for "
        "this network's measure",
    ),
]


@pytest.mark.parametrize(("fail", "text", "hint"), ERRORS)
def test_an_error_of_a_measure(fail: Callable[[], object], text: str, hint: str) -> None:
    with pytest.raises(AccuracyError) as caught:
        fail()
    assert str(caught.value) == text
    assert hint_of(fail) == hint

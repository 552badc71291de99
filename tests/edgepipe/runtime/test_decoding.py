"""OutputDecoder: the results that a pipeline gives, for outputs that no pipeline computed."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from edgepipe.description import Postprocess
from edgepipe.errors import RuntimeFailure
from edgepipe.runtime.decoding import OutputDecoder

BOXES = Postprocess(kind="boxes", outputs=("out",), score_threshold=0.5, iou_threshold=0.5)


def decoder(postprocess: Postprocess, *shape: int, **settings: int) -> OutputDecoder:
    table = dataclasses.asdict(postprocess)
    return OutputDecoder(table, (100, 80), {"out": shape}, labels=("a", "b"), **settings)


def test_boxes_above_the_threshold_best_first() -> None:
    values = np.zeros((6, 5), np.float32)
    values[1] = (20, 20, 10, 10, 0.6)
    values[3] = (50, 50, 10, 20, 0.9)
    values[5] = (5, 5, 1, 1, 0.4)
    found = decoder(BOXES, 1, 5, 6).decode({"out": values.T[None], "other": values})
    assert [box[:4] for box in found.boxes] == [(45, 40, 55, 60), (15, 15, 25, 25)]
    assert [box[4] for box in found.boxes] == pytest.approx([0.9, 0.6])


def test_as_many_boxes_as_asked_for() -> None:
    values = np.zeros((1, 300, 5), np.float32)
    values[0, :, 0] = np.arange(300) % 100
    values[0, :, 1] = np.arange(300) // 100 * 20
    values[0, :, 2:4] = 0.5
    values[0, :, 4] = 0.9
    assert len(decoder(BOXES, 1, 300, 5).decode({"out": values}).boxes) == 100
    more = decoder(BOXES, 1, 300, 5, most_boxes=250, most_candidates=5000)
    assert len(more.decode({"out": values}).boxes) == 250


def test_a_map_and_a_text() -> None:
    scores = np.zeros((1, 3, 8, 10), np.float32)
    scores[0, 2, 4:] = 1
    found = decoder(Postprocess(kind="segmentation", outputs=("out",)), 1, 3, 8, 10)
    expected = np.repeat([0, 2], 4)[:, None].repeat(10, axis=1)
    np.testing.assert_array_equal(found.decode({"out": scores}).class_map, expected)
    steps = np.eye(3, dtype=np.float32)[[2, 0, 1]][None]
    reads = Postprocess(kind="ctc", outputs=("out",), labels="x.txt", activation="none")
    text = decoder(reads, 1, 3, 3).decode({"out": steps})
    assert (text.text, text.text_score) == ("ba", 1.0)


@pytest.mark.parametrize("shape", [(1, 3, 5, 6), (1, 5, 6, 3)])
def test_a_map_that_was_rounded_up_has_the_proportion_of_the_input(shape: tuple[int, ...]) -> None:
    scores = np.zeros(shape, np.float32)  # 4.8 rows would be exact for 100x80 pixels
    found = decoder(Postprocess(kind="segmentation", outputs=("out",)), *shape)
    class_map = found.decode({"out": scores}).class_map
    assert class_map is not None
    assert class_map.shape == (5, 6)


def test_outputs_of_another_size_are_refused() -> None:
    with pytest.raises(RuntimeFailure, match="decode: 'out' has 80 bytes, expected 100"):
        decoder(BOXES, 1, 5, 5).decode({"out": np.zeros((1, 4, 5))})


def test_a_description_that_does_not_fit_is_refused() -> None:
    with pytest.raises(RuntimeFailure, match=r"tensor 'out' is \[1, 3, 3\], expected 5 values or"):
        decoder(BOXES, 1, 3, 3)
    with pytest.raises(RuntimeFailure, match="the description gives plain tensors"):
        decoder(Postprocess(kind="none"), 1, 3, 3)

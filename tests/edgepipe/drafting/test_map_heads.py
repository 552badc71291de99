"""Maps: of several outputs the main one is read, and a single one may be a mask."""

from __future__ import annotations

import pytest
from seen_heads import Shapes, described, guesses, recognised


@pytest.mark.parametrize(
    ("shape", "names", "chosen"),
    [
        ((1, 21, 64, 96), "out aux", "out"),
        ((1, 21, 64, 96), "aux out", "out"),
        ((1, 19, 64, 96), "a b c", "a"),
        ((1, 21, 8, 12), "out aux_out", "out"),
    ],
)
def test_a_segmentation_with_auxiliary_outputs_reads_its_main_one(
    shape: tuple[int, ...], names: str, chosen: str
) -> None:
    head = recognised([shape] * len(names.split()), (64, 96), names=names.split())
    found = described(head)
    assert (found.kind, found.outputs, head.classes) == ("segmentation", (chosen,), shape[1])
    assert guesses(head) == {"kind", "outputs"}


def test_the_output_of_a_segmentation_with_one_is_no_guess() -> None:
    assert guesses(recognised([(1, 21, 64, 96)], (64, 96))) == {"kind"}


@pytest.mark.parametrize(
    "shapes",
    [
        [(1, 21, 64, 96), (1, 21, 32, 48)],
        [(1, 21, 8, 12), (1, 21, 8, 12)],
        [(1, 21, 64, 96), (1, 21)],
    ],
)
def test_other_outputs_beside_a_map_are_not_guessed(shapes: Shapes) -> None:
    assert recognised(shapes, (64, 96)).family == ""


@pytest.mark.parametrize("names", ["o0", "o0 o1"])
def test_a_mask_may_be_left_without_its_sigmoid(names: str) -> None:
    shapes: Shapes = [(1, 1, 64, 96)] * len(names.split())
    head = recognised(shapes, (64, 96), names=names.split(), range_=(-7, 5))
    found = described(head)
    assert (found.kind, found.outputs, head.classes) == ("segmentation", ("o0",), 2)
    assert (found.activation, found.score_threshold) == ("sigmoid", 0.5)
    assert {"kind", "activation"} <= guesses(head)
    assert head.text.endswith('kind = "none" if they are depths or other quantities')


def test_a_map_without_negative_values_is_no_mask() -> None:
    assert recognised([(1, 1, 64, 96)], (64, 96), range_=(0, 40)).family == ""
    assert recognised([(1, 1, 64, 96)], (64, 96), "Sigmoid").family == "text map"

"""Which operators read a folded picture on the accelerator."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from partition_records import stem

from edgepipe.partition.folding import vta_layer, with_folds
from edgepipe.partition.operator import Operator
from vta_stages.accelerator import Accelerator
from vta_stages.layers.folding import folded
from vta_stages.layers.records import Conv

ACCELERATOR = Accelerator()


def made(name: str, kind: str, *inputs: str) -> Operator:
    return Operator(name=name, kind=kind, layer=None, inputs=inputs, output=name, bindings=())


def strided(name: str = "first", source: str = "image.int8") -> Operator:
    found = stem(name, source, 16, 32)
    assert isinstance(found.layer, Conv)
    output = dataclasses.replace(found.layer.output, height=16, width=16)
    layer = dataclasses.replace(found.layer, stride=(2, 2), output=output)
    return dataclasses.replace(found, layer=layer)


CAMERA = made("image.int8", "input_table", "image")


@pytest.mark.parametrize("kind", ["input_table", "generic"])
def test_the_first_layer_folds_what_only_arm_can_write(kind: str) -> None:
    source = dataclasses.replace(CAMERA, kind=kind)
    _, first = with_folds([source, strided()], ["first"], ACCELERATOR)
    assert first.folds == 2
    layer = strided().layer
    assert isinstance(layer, Conv)
    found, expected = vta_layer(first), folded(layer, 2)
    assert isinstance(found, Conv)
    np.testing.assert_array_equal(found.weight, expected.weight)
    assert (found.input, found.padding) == (expected.input, expected.padding)
    assert first.layer is not None  # what ARM computes


@pytest.mark.parametrize(
    ("operators", "outputs", "accelerator"),
    [
        pytest.param([CAMERA, strided()], ["image.int8"], ACCELERATOR, id="an output"),
        pytest.param(
            [CAMERA, strided(), strided("second")], ["first"], ACCELERATOR, id="another reader"
        ),
        pytest.param(
            [CAMERA, made("image.float", "generic", "image.int8"), strided()],
            ["first"],
            ACCELERATOR,
            id="a float reader",
        ),
        pytest.param([strided()], ["first"], ACCELERATOR, id="the network's input"),
        pytest.param(
            [strided("before", "x"), strided("first", "before")],
            ["first"],
            ACCELERATOR,
            id="a picture that the accelerator can write",
        ),
        pytest.param(
            [CAMERA, strided()], ["first"], dataclasses.replace(ACCELERATOR, batch=2), id="batch 2"
        ),
    ],
)
def test_other_pictures_are_not_folded(
    operators: list[Operator], outputs: list[str], accelerator: Accelerator
) -> None:
    assert with_folds(operators, outputs, accelerator) == tuple(operators)
    assert vta_layer(operators[-1]) is operators[-1].layer

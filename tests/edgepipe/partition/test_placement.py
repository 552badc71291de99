"""Placement: the first convolution and its inputs on ARM, the rest on VTA if it fits."""

import pytest

from edgepipe.errors import LayerError, PartitionError
from edgepipe.partition.operator import Operator
from edgepipe.partition.placement import place, segment


def operator(name, kind, *inputs):
    layer = None if kind in ("generic", "input_table") else object()
    return Operator(name=name, kind=kind, layer=layer, inputs=inputs, output=name, bindings=())


NETWORK = (
    operator("table", "input_table", "frame"),
    operator("conv1", "conv", "table"),
    operator("conv2", "conv", "conv1"),
    operator("head_a", "conv", "conv2"),
    operator("sigmoid_a", "generic", "head_a"),
    operator("head_b", "conv", "conv2"),
    operator("sigmoid_b", "generic", "head_b"),
)


def fits(candidate):
    if candidate.layer is None:
        raise LayerError(f"{candidate.kind}: has no integer form")


def refuse(name):
    def check(candidate):
        fits(candidate)
        if candidate.name == name:
            raise LayerError(f"{name}: weights need 2.0x the weight buffer")

    return check


def devices(placed):
    return {p.operator.name: p.device for p in placed}


def stages(segments):
    return [(s.device, [p.operator.name for p in s.operators]) for s in segments]


def test_the_first_convolution_and_the_float_tail_are_on_arm():
    placed = place(NETWORK, fits)
    assert devices(placed) == {
        "table": "arm",
        "conv1": "arm",
        "conv2": "vta",
        "head_a": "vta",
        "sigmoid_a": "arm",
        "head_b": "vta",
        "sigmoid_b": "arm",
    }


def test_operators_are_ordered_into_one_segment_per_device():
    assert stages(segment(place(NETWORK, fits))) == [
        ("arm", ["table", "conv1"]),
        ("vta", ["conv2", "head_a", "head_b"]),
        ("arm", ["sigmoid_a", "sigmoid_b"]),
    ]


def test_a_refused_layer_goes_to_arm_with_the_compilers_reason():
    placed = place(NETWORK, refuse("head_a"))
    reason = next(p.reason for p in placed if p.operator.name == "head_a")
    assert devices(placed)["head_a"] == "arm"
    assert reason == "head_a: weights need 2.0x the weight buffer"


def test_an_override_takes_precedence():
    placed = place(NETWORK, fits, overrides={"conv2": "arm"})
    assert devices(placed)["conv2"] == "arm"


def test_a_border_moves_its_ancestors_to_arm():
    placed = place(NETWORK, fits, border="conv2")
    assert devices(placed)["conv2"] == "arm"
    assert devices(placed)["head_a"] == "vta"


def test_cuts_end_stages():
    assert stages(segment(place(NETWORK, fits), cuts=["conv1", "conv2"])) == [
        ("arm", ["table", "conv1"]),
        ("vta", ["conv2"]),
        ("vta", ["head_a", "head_b"]),
        ("arm", ["sigmoid_a", "sigmoid_b"]),
    ]


def test_an_operator_between_two_devices_makes_stages_on_both_sides():
    assert stages(segment(place(NETWORK, refuse("conv2")))) == [
        ("arm", ["table", "conv1", "conv2"]),
        ("vta", ["head_a", "head_b"]),
        ("arm", ["sigmoid_a", "sigmoid_b"]),
    ]


def test_an_operator_that_vta_cannot_run_cannot_be_placed_there():
    with pytest.raises(PartitionError, match="sigmoid_a: cannot be placed on vta") as caught:
        place(NETWORK, fits, overrides={"sigmoid_a": "vta"})
    assert caught.value.hint == "leave it on arm"


@pytest.mark.parametrize("arguments", [{"overrides": {"conv9": "arm"}}, {"border": "conv9"}])
def test_unknown_operators_are_errors_with_suggestions(arguments):
    with pytest.raises(PartitionError, match="operator 'conv9' is unknown") as caught:
        place(NETWORK, fits, **arguments)
    assert "conv1" in caught.value.hint


def test_an_unknown_cut_is_an_error_with_suggestions():
    with pytest.raises(PartitionError, match="cut 'conv3' is unknown") as caught:
        segment(place(NETWORK, fits), cuts=["conv3"])
    assert "conv2" in caught.value.hint


def test_an_unknown_device_is_an_error():
    with pytest.raises(PartitionError, match="conv2: device 'gpu' is unknown") as caught:
        place(NETWORK, fits, overrides={"conv2": "gpu"})
    assert caught.value.hint == (
        "give arm or vta, arm@1,2 for these cores, vta+arm:32 to share it, with its last 32 "
        "channels on arm, or arm/GENERATOR for a code generator"
    )

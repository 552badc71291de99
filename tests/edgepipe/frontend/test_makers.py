"""Whether a network's first output is a probability already."""

import pytest
from onnx import TensorProto, helper

from edgepipe.frontend.makers import gives_probabilities


def model(outputs: list[str]):
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 4]) for n in ("x", *outputs)]
    nodes = [
        helper.make_node("Softmax", ["x"], ["soft"]),
        helper.make_node("Flatten", ["soft"], ["moved"]),
        helper.make_node("Relu", ["soft"], ["other"]),
    ]
    return helper.make_model(helper.make_graph(nodes, "net", values[:1], values[1:]))


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [(["soft"], True), (["moved"], True), (["other"], False), (["other", "soft"], False)],
)
def test_the_first_output_decides_even_behind_operators_that_only_move_it(outputs, expected):
    assert gives_probabilities(model(outputs)) is expected


def test_a_network_without_outputs_gives_no_probabilities():
    assert not gives_probabilities(model([]))

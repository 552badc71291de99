"""Which outputs of a network are probabilities already."""

import pytest
from onnx import TensorProto, helper

from edgepipe.frontend.makers import are_probabilities


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
    [
        (["soft"], (True,)),
        (["moved"], (True,)),
        (["other"], (False,)),
        (["other", "soft"], (False, True)),
        ([], ()),
    ],
)
def test_outputs_are_probabilities_even_behind_operators_that_only_move_them(outputs, expected):
    assert are_probabilities(model(outputs)) == expected

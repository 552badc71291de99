"""Networks in half and double precision become networks of float32; undefined ones are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_networks import Builder

from edgepipe.drafting.draft import draft
from edgepipe.errors import FrontendError
from edgepipe.frontend.float_types import single_precision
from edgepipe.frontend.network import Network, load_network
from edgepipe.tvm_adapter import read_main, run_module

SHAPE = [1, 3, 9, 12]
KINDS = {"float16": np.float16, "double": np.float64}


def network() -> onnx.ModelProto:
    b = Builder()
    x = b.node("Relu", [b.conv("image", "first", (8, 3, 3, 3), pads=[1] * 4)], "relu")
    b.nodes.append(helper.make_node("Constant", [], ["k"], value=_tensor("k", np.float32(1.5))))
    b.conv(b.node("Mul", [x, "k"], "scaled"), "result", (4, 8, 1, 1))
    return b.model(SHAPE, {"result": 4})


def _tensor(name: str, value: object) -> TensorProto:
    return numpy_helper.from_array(np.asarray(value), name)


def in_precision(kind: str, *, inside: bool) -> onnx.ModelProto:
    """The network in another precision; only ``inside``, its input and output are float32."""
    model = network()
    constants = [*model.graph.initializer]
    constants += [a.t for node in model.graph.node for a in node.attribute if a.name == "value"]
    for constant in constants:
        values = numpy_helper.to_array(constant).astype(KINDS[kind])
        constant.CopyFrom(numpy_helper.from_array(values, constant.name))
    number = helper.np_dtype_to_tensor_dtype(np.dtype(KINDS[kind]))
    if not inside:
        for value in (*model.graph.input, *model.graph.output):
            value.type.tensor_type.elem_type = number
        return model
    nodes = list(model.graph.node)
    nodes[0].input[0], nodes[-1].output[0] = "image_inside", "result_inside"
    first = helper.make_node("Cast", ["image"], ["image_inside"], to=number)
    last = helper.make_node("Cast", ["result_inside"], ["result"], to=TensorProto.FLOAT)
    copies = [onnx.NodeProto.FromString(n.SerializeToString()) for n in (first, *nodes, last)]
    del model.graph.node[:]
    model.graph.node.extend(copies)
    return model


def loaded(model: onnx.ModelProto, folder: Path) -> Network:
    onnx.save(model, folder / "net.onnx")
    return load_network(folder / "net.onnx")


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_another_precision_becomes_float(kind: str, inside: bool, tmp_path: Path) -> None:
    found = loaded(in_precision(kind, inside=inside), tmp_path)
    assert found.notices == (f"tensors of {kind} become float",)
    assert {binding.dtype for binding in read_main(found.module).bindings} == {"float32"}
    assert "astype" not in {binding.op for binding in read_main(found.module).bindings}
    picture = np.random.default_rng(0).normal(0, 1, SHAPE).astype(np.float32)
    (wanted,) = run_module(loaded(network(), tmp_path).module, {"image": picture}).values()
    (result,) = run_module(found.module, {"image": picture}).values()
    np.testing.assert_allclose(result, wanted, rtol=1e-2, atol=1e-2)


def test_a_network_in_half_precision_is_drafted(tmp_path: Path) -> None:
    onnx.save(in_precision("float16", inside=False), tmp_path / "net.onnx")
    assert draft(tmp_path / "net.onnx").description.preprocess.width == SHAPE[3]


def test_numbers_beyond_float32_become_its_largest() -> None:
    model = network()
    values = np.array([1e300, -1e300, np.inf, 1.0])
    model.graph.initializer.append(numpy_helper.from_array(values, "bounds"))
    assert single_precision(model) == ("tensors of double become float",)
    limit = np.finfo(np.float32).max
    found = numpy_helper.to_array(model.graph.initializer[-1])
    np.testing.assert_array_equal(found, np.array([limit, -limit, np.inf, 1], np.float32))


@pytest.mark.parametrize("kind", ["float32", "int64"])
def test_a_constant_output_is_refused(kind: str, tmp_path: Path) -> None:
    model = network()
    values = np.array([3, 1, 2], kind)
    model.graph.initializer.append(numpy_helper.from_array(values, "labels"))
    number = helper.np_dtype_to_tensor_dtype(values.dtype)
    model.graph.output.append(helper.make_tensor_value_info("labels", number, [3]))
    message = "output 'labels' does not depend on the input"
    with pytest.raises(FrontendError, match=message) as raised:
        loaded(model, tmp_path)
    assert raised.value.hint == "export the network without this output"


@pytest.mark.filterwarnings("error")
def test_a_variance_without_a_square_root_is_refused(tmp_path: Path) -> None:
    b = Builder()
    x = b.conv("image", "first", (4, 3, 1, 1))
    variance = np.array([1, 0, 2, -0.1], np.float32)
    names = [b.constant(f"n{n}", b.normal(4)) for n in range(3)]
    b.node("BatchNormalization", [x, *names, b.constant("variance", variance)], "result")
    message = "'result': the variance of channel 3 is -0.1, expected at least 0"
    with pytest.raises(FrontendError, match=message) as raised:
        loaded(b.model(SHAPE, {"result": 4}), tmp_path)
    assert raised.value.hint == (
        "train the network further or export it again: its results are not numbers"
    )

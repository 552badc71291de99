"""Layers of an integer network in place of one of its operators."""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx
import pytest
import small_networks

from edgepipe.frontend.network import load_network
from edgepipe.partition.operators import match_operators
from edgepipe.quantize.quantizer import QuantizedNetwork, quantize
from edgepipe.quantize.replacing import Replacement, replaced
from edgepipe.tvm_adapter import read_main, run_module


@pytest.fixture(scope="module")
def quantized(tmp_path_factory: pytest.TempPathFactory) -> QuantizedNetwork:
    path = tmp_path_factory.mktemp("network") / "net.onnx"
    onnx.save(small_networks.classifier(1), path)
    frames = small_networks.frames(2)
    return quantize(load_network(path), frames, small_networks.PREPROCESS)


def replacement(quantized: QuantizedNetwork, name: str) -> Replacement:
    """Return a convolution whose weights are all 0, and what it replaces."""
    operator = next(o for o in match_operators(quantized.module) if o.name == name)
    layer = dataclasses.replace(operator.layer, weight=np.zeros_like(operator.layer.weight))
    return Replacement(bindings={b.name for b in operator.bindings}, layers=[layer])


def test_only_the_named_operator_is_replaced(quantized: QuantizedNetwork) -> None:
    before = match_operators(quantized.module)
    name = next(o.name for o in before if o.kind == "conv")
    after = match_operators(replaced(quantized.module, {name: replacement(quantized, name)}))
    assert [o.name for o in after] == [o.name for o in before]
    for old, new in zip(before, after, strict=True):
        assert (old.kind, old.inputs) == (new.kind, new.inputs)
        calls = [[b.op for b in operator.bindings] for operator in (old, new)]
        assert calls[0] == calls[1]
        if new.kind == "conv":
            assert new.layer.weight.any() == (new.name != name)


def test_outputs_follow_the_replacement(quantized: QuantizedNetwork) -> None:
    frame = {quantized.input_name: next(small_networks.frames(1))}
    same = replaced(quantized.module, {})
    assert read_main(same).outputs == read_main(quantized.module).outputs
    last = [o.name for o in match_operators(same) if o.kind == "conv"][-1]
    other = replaced(quantized.module, {last: replacement(quantized, last)})
    (name,) = quantized.output_names
    plain, kept, changed = (
        run_module(module, frame)[name] for module in (quantized.module, same, other)
    )
    np.testing.assert_array_equal(plain, kept)
    assert (changed != plain).any()


def test_a_name_that_is_taken_is_refused(quantized: QuantizedNetwork) -> None:
    first, second = [o.name for o in match_operators(quantized.module) if o.kind == "conv"][:2]
    given = replacement(quantized, second)
    clash = dataclasses.replace(given.layers[0], name=first)
    with pytest.raises(ValueError, match="bound twice"):
        replaced(
            quantized.module, {second: dataclasses.replace(given, layers=[clash, *given.layers])}
        )

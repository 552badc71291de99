"""split: for any cuts, the stages in sequence give the same bits as the whole network."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import small_networks
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bench import models
from edgepipe import description
from edgepipe.errors import PartitionError
from edgepipe.frontend.network import load_network
from edgepipe.names import suggest
from edgepipe.partition.operators import match_operators
from edgepipe.partition.split import StageModule, split, split_by_groups
from edgepipe.quantize.quantizer import QuantizedNetwork, quantize
from edgepipe.tvm_adapter import read_main, run_module


@pytest.fixture(scope="module")
def detector(tmp_path_factory: pytest.TempPathFactory) -> QuantizedNetwork:
    path = tmp_path_factory.mktemp("split") / "detector.onnx"
    onnx.save(small_networks.detector(), path)
    network = load_network(path)
    return quantize(network, small_networks.frames(8), small_networks.PREPROCESS)


@pytest.fixture(scope="module")
def expected(detector: QuantizedNetwork) -> dict[str, NDArray[Any]]:
    return run_module(detector.module, {detector.input_name: picture()})


def picture() -> NDArray[np.uint8]:
    return next(small_networks.frames(1, seed=5))


def run(stages: Sequence[StageModule], inputs: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    tensors = dict(inputs)
    for stage in stages:
        tensors |= run_module(stage.module, {name: tensors[name] for name in stage.inputs})
    return tensors


@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_cuts_give_the_same_bits(
    data: st.DataObject, detector: QuantizedNetwork, expected: dict[str, NDArray[Any]]
) -> None:
    names = [operator.name for operator in match_operators(detector.module)]
    cuts = data.draw(st.lists(st.sampled_from(names), unique=True, max_size=3))
    stages = split(detector.module, cuts)
    assert [name for stage in stages for name in stage.operators] == names
    found = run(stages, {detector.input_name: picture()})
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)


def test_a_stage_may_read_any_earlier_stage(detector: QuantizedNetwork) -> None:
    first, second, third = split(detector.module, ["body_leaky", "up_resize"])
    assert first.inputs == ("image",)
    assert first.outputs == ("stem_pool", "body_leaky")
    assert set(third.inputs) == {"body_concat", "up_resize", "body_leaky"}
    assert second.outputs == ("body_concat", "up_resize")
    for stage in (first, second, third):
        main = read_main(stage.module)
        assert tuple(p.name for p in main.params) == stage.inputs
        assert main.outputs == stage.outputs
        assert main.returns_tuple


def test_stage_operators_are_still_recognised(detector: QuantizedNetwork) -> None:
    whole = {operator.name: operator.kind for operator in match_operators(detector.module)}
    for stage in split(detector.module, ["stem_leaky", "body_concat", "head_conv"]):
        for operator in match_operators(stage.module):
            assert operator.kind == whole[operator.name]


def test_no_cut_is_one_stage_and_a_last_cut_adds_none(detector: QuantizedNetwork) -> None:
    last = match_operators(detector.module)[-1].name
    assert len(split(detector.module, [])) == 1
    assert len(split(detector.module, [last])) == 1


def test_wrong_cuts_and_groups_are_explained(detector: QuantizedNetwork) -> None:
    module = detector.module
    names = [operator.name for operator in match_operators(module)]
    with pytest.raises(PartitionError, match="cut 'stem_leeky' is not an operator") as caught:
        split(module, ["stem_leeky"])
    assert caught.value.hint is not None
    assert "stem_leaky" in caught.value.hint
    cases = [
        (
            lambda: split(module, ["stem_pool", "stem_pool"]),
            "cut 'stem_pool' is given twice",
            "name each cut once",
        ),
        (
            lambda: split_by_groups(module, [names[:-1]]),
            f"{names[-1]!r} is in no group",
            "name every operator in exactly one group",
        ),
        (
            lambda: split_by_groups(module, [names, names[:1]]),
            f"{names[0]!r} is in 2 places",
            "name every operator in exactly one group",
        ),
        (
            lambda: split_by_groups(module, [["nothing"]]),
            "operator 'nothing' is unknown",
            suggest("nothing", names),
        ),
        (
            lambda: split_by_groups(module, [names[1:], names[:1]]),
            "stem_leaky: reads image.int8, which is made later",
            "order the operators so that each follows its inputs",
        ),
    ]
    for call, message, hint in cases:
        with pytest.raises(PartitionError) as caught:
            call()
        assert message in str(caught.value)
        assert caught.value.hint == hint


@pytest.mark.models
@pytest.mark.networks
def test_cuts_of_a_real_detector_give_the_same_bits(
    model_path: Callable[[str], Path], tmp_path: Path
) -> None:
    network = load_network(model_path("nanodet_g_coco_416"))
    preprocess = description.load(models.description("nanodet_g_coco_416")).preprocess
    frame = np.random.default_rng(0).integers(0, 256, (1, 416, 416, 3)).astype(np.uint8)
    quantized = quantize(network, [frame], preprocess)
    whole = run_module(quantized.module, {"input_1": frame})
    stages = split(
        quantized.module,
        ["PartitionedCall_onnx_tf_prefix_LeakyRelu_1", "PartitionedCall_onnx_tf_prefix_Concat_42"],
    )
    assert len(stages) == 3
    found = run(stages, {"input_1": frame})
    for name, value in whole.items():
        np.testing.assert_array_equal(found[name], value)

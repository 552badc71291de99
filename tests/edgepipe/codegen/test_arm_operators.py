"""Every operator kind, in every layout, gives the bits of stock TVM in every variant."""

import arm_layers
import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from levels import long

from edgepipe.codegen.arm import targets, tensor_ir
from edgepipe.codegen.arm.stage import compile_arm_stage
from edgepipe.runtime.arm_stage import ArmStage
from edgepipe.tvm_adapter import run_module

LAYERS = {
    "convolution": arm_layers.convolutions(),
    "transposed_convolution": arm_layers.transposed_convolutions(),
    "sum": arm_layers.sums(),
    "max_pool": arm_layers.max_pools(),
    "resize": arm_layers.resizes(),
    "concat": arm_layers.concats() | arm_layers.picks(),
    "table": arm_layers.looked_up(),
    "product": arm_layers.products() | arm_layers.quotients(),
    "part": arm_layers.halves() | arm_layers.pixel_affines(),
    "chain": arm_layers.chains(),
}


*_OTHERS, _COMMON = targets.X86_64.variants
OF_EVERY_VARIANT = ("convolution", "table")
"""Kinds for which variants have instructions of their own; for others they are flags of LLVM.

`make test` runs all other kinds for boards only (``test_arm_cross.py``).
"""

CASES = [
    *((kind, _COMMON) for kind in OF_EVERY_VARIANT),
    *((kind, variant) for variant in _OTHERS for kind in OF_EVERY_VARIANT),
    *(
        long(k, variant)
        for variant in (_COMMON, *_OTHERS)
        for k in LAYERS
        if k not in OF_EVERY_VARIANT
    ),
]


@pytest.mark.parametrize(
    ("kind", "variant"), CASES, indirect=["variant"], ids=lambda v: getattr(v, "name", v)
)
def test_an_operator_gives_the_bits_of_stock_tvm(kind, variant, monkeypatch, tmp_path_factory):
    monkeypatch.setattr(tensor_ir, "LEAST_SHARED", 0)  # kernels share loops of any size

    @hypothesis.settings(
        max_examples=6,
        phases=[hypothesis.Phase.generate],
        deadline=None,
        derandomize=True,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(layer=LAYERS[kind], seed=st.integers(0, 1 << 30), data=st.data())
    def check(layer, seed, data):
        layers = layer if isinstance(layer, list) else [layer]
        inputs = arm_layers.inputs_of(layers)
        chosen = {t.name: data.draw(arm_layers.LAYOUTS, t.name) for t in inputs}
        output = data.draw(arm_layers.LAYOUTS, "output")
        arm_layers.assert_same_bits(
            tmp_path_factory.mktemp(kind),
            layers,
            inputs,
            seed,
            {name: layout for name, layout in chosen.items() if layout},
            {"y": output} if output else {},
        )

    check()


@pytest.mark.parametrize("kernel", [1, 3, 5, 7, 11], ids="{0}x{0}".format)
@pytest.mark.parametrize("channels", [1, 3])
def test_first_convolutions_of_every_run_length_give_the_bits_of_stock_tvm(
    kernel, channels, variant, tmp_path
):
    module, frame = arm_layers.first_convolution(kernel, channels)
    compile_arm_stage(module, arches=("x86_64",)).write(tmp_path)
    with ArmStage(tmp_path) as stage:
        found = stage.run({"frame": frame})
    expected = run_module(module, {"frame": frame})["features"]
    np.testing.assert_array_equal(found["features"], expected)

"""Operators on both devices side by side: the bits of their halves, and what is refused."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from partition_records import conv as conv_operator
from partition_records import table

from edgepipe.errors import PartitionError
from edgepipe.partition.operator import Operator
from edgepipe.partition.sharing import Halves, halves, require, shares
from edgepipe.partition.target import EXPECTED, Target, share_text, target
from edgepipe.partition.wishes import Wishes
from vta_stages.layers import reference
from vta_stages.layers.records import (
    Conv,
    Epilogue,
    Layer,
    Leaky,
    LeakySum,
    Projection,
    TensorSpec,
    Term,
    TransposedConv,
)

BLOCK = 16


def operator(layer: Layer) -> Operator:
    kind = "conv" if isinstance(layer, Conv) else "transposed_conv"
    return Operator(
        name=layer.output.name, kind=kind, layer=layer, inputs=(), output=layer.output.name,
        bindings=(),
    )  # fmt: skip


def spec(name: str, channels: int, extent: int = 6) -> TensorSpec:
    return TensorSpec(name=name, channels=channels, height=extent, width=extent)


def epilogue(rng: np.random.Generator, channels: int) -> Epilogue:
    def values(low: int, high: int) -> np.ndarray:
        return rng.integers(low, high, channels).astype(np.int32)

    leaky = Leaky(offset=values(-99, 99), steps=((1, LeakySum.TO_BRANCH), (4, LeakySum.NOTHING)))
    return Epilogue(bias=values(-5000, 5000), shift=values(4, 9), low=-120, high=127, leaky=leaky)


def residual(channels: int) -> Conv:
    """Return a convolution with two residual terms, a projection and values by channel."""
    rng = np.random.default_rng(channels)
    factors = rng.integers(-64, 64, (2, channels)).astype(np.int32)
    return Conv(
        name="y",
        input=spec("x", 20),
        output=spec("y", channels),
        weight=rng.integers(-128, 128, (channels, 20, 3, 3)).astype(np.int8),
        epilogue=epilogue(rng, channels),
        padding=(1, 1, 1, 1),
        terms=tuple(
            Term(tensor=spec(f"t{at}", channels), factor=each) for at, each in enumerate(factors)
        ),
        projections=(
            Projection(
                tensor=spec("p", 7), weight=rng.integers(-99, 99, (channels, 7)).astype(np.int8)
            ),
        ),
    )


def transposed(channels: int) -> TransposedConv:
    rng = np.random.default_rng(channels)
    return TransposedConv(
        name="y",
        input=spec("x", 20),
        output=spec("y", channels, 12),
        weight=rng.integers(-128, 128, (20, channels, 2, 2)).astype(np.int8),
        epilogue=epilogue(rng, channels),
        stride=(2, 2),
    )


def computed(found: Halves | Layer) -> np.ndarray:
    rng = np.random.default_rng(1)
    tensors = {
        name: rng.integers(-128, 128, (channels, 6, 6)).astype(np.int8)
        for name, channels in (("x", 20), ("p", 7), ("t0", 40), ("t1", 40))
    }
    layers = found.layers if isinstance(found, Halves) else [found]
    return reference.run_layers(layers, tensors)["y"]


@pytest.mark.parametrize("layer", [residual(40), transposed(40)], ids=["conv", "transposed"])
@pytest.mark.parametrize("arm_channels", [8, 24])
def test_halves_compute_the_bits_of_the_whole(layer: Layer, arm_channels: int) -> None:
    found = halves(operator(layer), arm_channels, "arm")
    np.testing.assert_array_equal(computed(found), computed(layer))
    assert found.parts == ("y.vta", "y.arm")
    assert found.devices["y"] == "arm"
    assert {found.devices[name] for name in found.picks} <= {"vta", "arm"}
    assert found.reasons["y.arm"] == (
        f"channels {40 - arm_channels} to 39 of y; vta has its other {40 - arm_channels}"
    )


def test_the_accelerator_has_whole_blocks() -> None:
    assert shares(operator(residual(40)), BLOCK) == (8, 24)
    assert shares(operator(residual(48)), BLOCK) == (16, 32)
    assert shares(operator(residual(16)), BLOCK) == ()
    assert shares(conv_operator("depth", "x", 32, 32), BLOCK) == ()
    assert shares(table("swish", "x", 32, 8), BLOCK) == ()


def test_a_share_is_a_target() -> None:
    assert target("vta+arm:32") == Target(device="", arm_channels=32)
    assert share_text(32) == "vta+arm:32"
    found = Wishes().placed({"y": "vta+arm:32", "z": "vta"})
    assert (found.shares, found.placement) == ({"y": 32}, {"z": "vta"})
    assert found.placed({"y": "arm", "z": "vta+arm:16"}) == found


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("vta+arm", "share '' is no number of channels"),
        ("vta+arm:0", "share '0' is no number of channels"),
        ("vta+arm:half", "share 'half' is no number of channels"),
        ("vta+arm:32@1", "share '32@1' is no number of channels"),
        ("arm+vta:32", "device 'arm+vta:32' is unknown"),
    ],
)
def test_other_texts_are_no_shares(text: str, why: str) -> None:
    with pytest.raises(PartitionError) as caught:
        Wishes().placed({"y": text})
    assert (str(caught.value), caught.value.hint) == (f"y: {why}", f"give {EXPECTED}")


ONE = "place it on one device"


@pytest.mark.parametrize(
    ("what", "arm_channels", "unable", "why", "hint", "value"),
    [
        (residual(40), 16, {}, "leaves 24 of its 40 output channels to vta, expected a multiple of "
         "16", "give arm another number of channels", "y=vta+arm:8"),
        (residual(40), 40, {}, "it has 40 output channels, which leaves none to vta, expected a "
         "multiple of 16", "give arm another number of channels", "y=vta+arm:24"),
        (residual(16), 8, {}, "it has 16 output channels, expected more than the 16 that vta "
         "computes at once", ONE, "y=vta"),
        (residual(40), 8, {"vta": "kernel 9"}, "vta cannot run it: kernel 9", ONE, "y=arm"),
        (residual(40), 8, {"arm": "a rule"}, "arm cannot run it: a rule", ONE, "y=vta"),
    ],
)  # fmt: skip
def test_shares_that_are_refused(
    what: Conv, arm_channels: int, unable: dict[str, str], why: str, hint: str, value: str
) -> None:
    with pytest.raises(PartitionError) as caught:
        require(operator(what), arm_channels, BLOCK, {"y"}, unable)
    assert str(caught.value) == f"y: cannot be shared as vta+arm:{arm_channels}: {why}"
    assert (caught.value.hint, caught.value.value) == (hint, value)


def test_operators_that_cannot_be_divided() -> None:
    for made, why in (
        (conv_operator("depth", "x", 32, 32), "it has 32 groups, each with channels of its own, "
         "expected one group"),
        (table("swish", "x", 32, 8), "it is table, expected a convolution or dense layer in int8"),
    ):  # fmt: skip
        with pytest.raises(PartitionError) as caught:
            require(made, 16, BLOCK, {made.name}, {})
        assert str(caught.value) == f"{made.name}: cannot be shared as vta+arm:16: {why}"
        assert caught.value.hint == "place it on one device"


def test_the_names_of_halves_must_be_free() -> None:
    with pytest.raises(PartitionError) as caught:
        require(operator(residual(40)), 8, BLOCK, {"y", "y.arm"}, {})
    assert str(caught.value) == (
        "y: cannot be shared as vta+arm:8: its half would be called y.arm, as an operator of the "
        "network is"
    )
    assert caught.value.hint == "rename that operator in the network"


def test_a_half_without_terms_has_no_picks() -> None:
    layer = dataclasses.replace(residual(40), terms=())
    assert halves(operator(layer), 8, "vta").picks == ()

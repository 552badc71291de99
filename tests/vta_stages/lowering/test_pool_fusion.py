"""Convolutions merged with the poolings after them are exact; others stay separate."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from compiler_support import ACCELERATORS, STOCK, check_program, conv, tensor

from vta_stages.layers.records import Conv, MaxPool
from vta_stages.lowering.pool_fusion import can_pool, fuse_pools


def always(_) -> bool:
    return True


def pooled(
    *,
    extent: int = 24,
    inputs: int = 16,
    channels: int = 32,
    kernel: int = 2,
    stride: int = 2,
    pads: tuple[int, int, int, int] = (0, 0, 0, 0),
    leaky: bool = True,
    conv_stride: int = 1,
) -> tuple[Conv, MaxPool]:
    first = conv(
        np.random.default_rng(3), "c", tensor("x", inputs, extent, extent), channels, 3,
        pad=1, leaky=leaky, stride=conv_stride,
    )  # fmt: skip
    size = first.output.height
    pool = MaxPool(
        name="p",
        input=first.output,
        output=tensor(
            "y",
            channels,
            (size + pads[0] + pads[2] - kernel) // stride + 1,
            (size + pads[1] + pads[3] - kernel) // stride + 1,
        ),
        kernel=(kernel, kernel),
        stride=(stride, stride),
        padding=pads,
    )
    return first, pool


@pytest.mark.sim
@pytest.mark.parametrize("accelerator", ACCELERATORS, ids=lambda a: f"{a.configuration}")
@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"extent": 23, "pads": (1, 0, 0, 1)},  # windows that stick out
        {"extent": 27, "kernel": 3, "stride": 3, "leaky": False},
        {"extent": 21, "kernel": 1, "stride": 2},  # pixels that no output needs
        {"extent": 30, "inputs": 100, "channels": 72, "conv_stride": 2},  # several chunks
    ],
)
def test_a_pooled_convolution_is_exact(accelerator, shape) -> None:
    first, pool = pooled(**shape)
    program = check_program(accelerator, [first, pool], ["x"], ["y"])
    if accelerator.inp_depth >= STOCK.inp_depth // 2:  # else two layers may be cheaper
        assert [layer.name for layer in program.layers] == ["c+p"]


def test_a_convolution_with_other_readers_is_not_fused() -> None:
    first, pool = pooled()
    other = conv(np.random.default_rng(4), "other", first.output, 16, 1)
    assert fuse_pools([first, pool], ["y"], always)[0].name == "c+p"
    assert fuse_pools([first, pool], ["c.out", "y"], always) == [first, pool]
    layers = [first, pool, other]
    assert fuse_pools(layers, ["y", "other.out"], always) == layers


def test_overlapping_windows_are_not_fused() -> None:
    assert not can_pool(*pooled(kernel=3, stride=2))


def test_sums_that_could_wrap_are_not_fused() -> None:
    """After a wrap, the largest accumulator may not have the largest output."""
    first, pool = pooled()
    bias = np.full(32, 1 << 30, np.int32)
    wrapping = dataclasses.replace(first, epilogue=dataclasses.replace(first.epilogue, bias=bias))
    assert can_pool(first, pool)
    assert not can_pool(wrapping, pool)


def test_only_fusions_that_pay_off_are_done() -> None:
    first, pool = pooled()
    assert fuse_pools([first, pool], ["y"], lambda _: False) == [first, pool]


def test_yolo_like_pooling_is_fused_on_the_stock_accelerator() -> None:
    first, pool = pooled(extent=52, inputs=64, channels=128)
    program = check_program(STOCK, [first, pool], ["x"], ["y"])
    assert [layer.name for layer in program.layers] == ["c+p"]

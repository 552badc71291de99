"""The errors of the compiler."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from compiler_support import STOCK, conv, epilogue, tensor

from vta_stages.accelerator import Accelerator
from vta_stages.compiler import check_layer, compile_program
from vta_stages.errors import LayerError
from vta_stages.layers.records import (
    Concat,
    Conv,
    Layer,
    MaxPool,
    Pick,
    PixelAffine,
    Product,
    Quotient,
    Resize,
    Sum,
    Table,
    Term,
)

RNG = np.random.default_rng(0)
X = tensor("x", 16, 8, 8)


def refusal(layer: Layer, accelerator: Accelerator = STOCK) -> LayerError:
    with pytest.raises(LayerError) as caught:
        check_layer(accelerator, layer)
    return caught.value


def refused(layer: Layer, accelerator: Accelerator = STOCK) -> str:
    return str(refusal(layer, accelerator))


def simple_conv() -> Conv:
    return conv(RNG, "c", X, 16, 3, pad=1)


def test_a_layer_that_fits_is_accepted() -> None:
    check_layer(STOCK, simple_conv())


def test_a_window_beyond_the_buffers_names_the_numbers() -> None:
    big = conv(RNG, "big", tensor("x", 16, 64, 64), 16, 64)
    assert refused(big) == (
        "big: one output pixel needs 4096 weight blocks, of 1024 that fit "
        "(1x16_i8w8a32_15_15_18_17)"
    )


def test_the_hint_is_another_placement() -> None:
    with pytest.raises(LayerError) as caught:
        check_layer(STOCK, conv(RNG, "big", tensor("x", 16, 64, 64), 16, 64))
    error = caught.value
    assert (error.hint, error.option, error.value) == ("place it on arm", "placement", "big=arm")


ONES = np.ones(16, np.int32)
ENTRIES = np.zeros((1, 256), np.int8)
INVERSES = np.zeros((1, 256), np.int32)
PIXELS = np.zeros((1, 1, 8, 8), np.int32)
ON_ARM: dict[str, Layer] = {
    "t: values are looked up in a table, which the accelerator does not have": Table(
        name="t", input=X, output=tensor("t", 16, 8, 8), table=ENTRIES
    ),
    "p: multiplies two tensors; the accelerator multiplies only by constants": Product(
        name="p",
        first=X,
        second=tensor("gate", 16, 1, 1),
        output=tensor("p", 16, 8, 8),
        factor=ONES,
        epilogue=epilogue(RNG, 16),
    ),
    "q: divides two tensors; the accelerator multiplies only by constants": Quotient(
        name="q",
        first=X,
        second=X,
        output=tensor("q", 16, 8, 8),
        table=INVERSES,
        epilogue=epilogue(RNG, 16),
    ),
    "a: has constants for each pixel; the accelerator's are for each channel": PixelAffine(
        name="a",
        input=X,
        output=tensor("a", 16, 8, 8),
        factor=PIXELS,
        bias=PIXELS,
        epilogue=epilogue(RNG, 16),
    ),
}


@pytest.mark.parametrize("message", ON_ARM)
def test_what_the_accelerator_cannot_compute_belongs_on_arm(message: str) -> None:
    error = refusal(ON_ARM[message])
    assert str(error) == message
    assert (error.hint, error.option) == ("place it on arm", "placement")
    assert error.value == f"{ON_ARM[message].name}=arm"


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (
            Table(
                name="t", input=X, output=tensor("t", 8, 8, 8), table=np.zeros((1, 256), np.int8)
            ),
            "t: shape of the output is (8, 8, 8), expected (16, 8, 8)",
        ),
        (
            Table(
                name="t", input=X, output=tensor("t", 16, 8, 8), table=np.zeros((3, 256), np.int8)
            ),
            "t: shape of the table is (3, 256), expected (16, 256)",
        ),
        (
            Product(
                name="p",
                first=X,
                second=tensor("gate", 16, 4, 1),
                output=tensor("p", 16, 8, 8),
                factor=ONES,
                epilogue=epilogue(RNG, 16),
            ),
            "p: shape of gate is (16, 4, 1), expected (16, 8, 1)",
        ),
        (
            Product(
                name="p",
                first=X,
                second=X,
                output=tensor("p", 16, 8, 8),
                factor=ONES[:3],
                epilogue=epilogue(RNG, 16),
            ),
            "p: shape of the factor is (3,), expected (16,)",
        ),
        (
            Quotient(
                name="q",
                first=X,
                second=tensor("gate", 1, 8, 8),
                output=tensor("q", 16, 8, 8),
                table=np.zeros((2, 256), np.int32),
                epilogue=epilogue(RNG, 16),
            ),
            "q: shape of the table is (2, 256), expected (16, 256)",
        ),
        (
            PixelAffine(
                name="a",
                input=X,
                output=tensor("a", 16, 8, 8),
                factor=PIXELS[:, :, :4],
                bias=PIXELS,
                epilogue=epilogue(RNG, 16),
            ),
            "a: shape of the factor is (1, 4, 8), expected (1, 8, 8)",
        ),
        (
            Pick(name="s", input=X, output=tensor("s", 2, 8, 8), channels=(3, 16)),
            "s: channel is 16, expected 0 to 15",
        ),
        (
            Pick(name="s", input=X, output=tensor("s", 2, 8, 8), channels=(3,)),
            "s: number of channels is 1, expected 2",
        ),
    ],
)
def test_layers_for_arm_whose_parts_do_not_fit(layer: Layer, message: str) -> None:
    assert refused(layer) == message


def test_a_factor_with_too_many_bits() -> None:
    factor = np.full(16, 64, np.int32)
    factor[3] = 257
    term = Term(tensor=X, factor=factor)
    layer = Sum(name="s", output=tensor("y", 16, 8, 8), terms=(term,), epilogue=epilogue(RNG, 16))
    assert refused(layer) == (
        "s: term x has factor 257 on channel 3, expected f * 2**k with -128 <= f <= 127 and k <= 16"
    )
    assert refusal(layer).hint == (
        "choose the scale of the term's tensor so that the factor has at most 8 bits"
    )


def test_resize_weights_beyond_int8() -> None:
    matrix = np.full((8, 8), 12, np.int32)
    layer = Resize(
        name="r", input=X, output=tensor("y", 16, 8, 8), rows=matrix, cols=matrix, shift=8
    )
    assert refused(layer) == (
        "r: a product of a row and a column weight is 144, expected -128 to 127"
    )
    assert refusal(layer).hint == "use a smaller shift for the resize"


def test_a_pool_window_in_the_padding() -> None:
    layer = MaxPool(
        name="p",
        input=X,
        output=tensor("y", 16, 12, 8),
        kernel=(2, 1),
        stride=(1, 1),
        padding=(3, 0, 2, 0),
    )
    assert refused(layer) == (
        "p: a window of 2 along the height lies at -3, outside the picture of 8"
    )
    assert refusal(layer).hint == "reduce the padding so that every window contains a pixel"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"output": tensor("y", 16, 9, 8)}, "output picture is (9, 8), expected (8, 8)"),
        ({"output": tensor("y", 17, 8, 8)}, "output channels of the weight is 16, expected 17"),
        ({"groups": 3}, "16 input and 16 output channels in 3 groups"),
        ({"groups": 2}, "input channels of the weight is 16, expected 8"),
        ({"dilation": (0, 1)}, "dilation is (0, 1), expected >= 1"),
        ({"stride": (0, 1)}, "expected kernel and stride >= 1"),
        ({"terms": (Term(tensor=tensor("r", 16, 4, 4), factor=np.ones(16, np.int32)),)},
         "shape of r is (16, 4, 4), expected (16, 8, 8)"),
        ({"epilogue": epilogue(RNG, 8)}, "shape of the bias is (8,), expected (16,)"),
        ({"epilogue": epilogue(RNG, 16, low=5, high=4)}, "lower clip is 5, expected -128 to 4"),
        ({"epilogue": epilogue(RNG, 16, shift=31)}, "expected 0 to 30"),
    ],
)  # fmt: skip
def test_contradictions_in_a_convolution(change: dict[str, object], text: str) -> None:
    assert text in refused(dataclasses.replace(simple_conv(), **change))  # type: ignore[arg-type]


def test_concat_channels_must_add_up() -> None:
    layer = Concat(name="j", inputs=(X, X), output=tensor("y", 33, 8, 8))
    assert refused(layer) == "j: output channels is 33, expected 32"


def test_names_of_a_program() -> None:
    layer = simple_conv()

    def message(layers: list[Layer], inputs: list[str], outputs: list[str]) -> str:
        with pytest.raises(LayerError) as caught:
            compile_program(STOCK, layers, inputs, outputs)
        return str(caught.value)

    assert "x is neither an input" in message([layer], [], ["c.out"])
    assert "no layer computes output z" in message([layer], ["x"], ["z"])
    with pytest.raises(LayerError) as caught:
        compile_program(STOCK, [layer], ["x"], ["z"])
    assert caught.value.hint == "computed tensors: c.out"
    assert "no layer reads input w" in message([layer], ["x", "w"], ["c.out"])
    assert "named twice: c.out" in message([layer], ["x"], ["c.out", "c.out"])
    assert "c.out already exists" in message([layer, layer], ["x"], ["c.out"])
    other = conv(RNG, "d", tensor("x", 16, 4, 4), 16, 1)
    assert "as elsewhere" in message([layer, other], ["x"], ["c.out", "d.out"])


def test_a_layer_is_tiled_rather_than_refused() -> None:
    """Smaller buffers mean smaller tiles; the limit is one pixel of one block."""
    small = Accelerator(
        uop_buffer_bytes_log2=12,
        inp_buffer_bytes_log2=10,
        wgt_buffer_bytes_log2=14,
        acc_buffer_bytes_log2=12,
    )
    layer = conv(RNG, "c", tensor("x", 64, 30, 30), 64, 5, pad=2)
    check_layer(small, layer)
    assert "one output pixel needs" in refused(conv(RNG, "c", X, 16, 8), small)

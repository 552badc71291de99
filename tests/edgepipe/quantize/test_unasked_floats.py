"""Operators without an int8 form between int8 ones: the build says which, and why."""

from __future__ import annotations

from pathlib import Path

import onnx
import ordinary_operators
import pytest
from exported_networks.exact import options
from ordinary_operators import CHANNELS, HEIGHT, WIDTH, Parts
from small_networks import Builder
from test_attention import FRAMES, PREPROCESS, ratio

from edgepipe.frontend.network import load_network
from edgepipe.progress import Progress
from edgepipe.quantize.float_islands import float_islands, notice
from edgepipe.quantize.options import QuantizeOptions
from edgepipe.quantize.quantizer import QuantizedNetwork, quantize
from edgepipe.recipe import calibration_frames, describe, quantized_network

NO_WEIGHTS = "its weights are not constant"


def sums(b: Builder, u: str, v: str) -> str:
    """A network without islands."""
    return b.node("Add", [u, v], "sums")


def quantised(maker: ordinary_operators.Maker, folder: Path, **wishes: object) -> QuantizedNetwork:
    onnx.save(ordinary_operators.network([maker]), folder / "net.onnx")
    network = load_network(folder / "net.onnx")
    return quantize(network, FRAMES, PREPROCESS, QuantizeOptions(frames=3, **wishes))


def test_operators_between_int8_ones_are_islands_with_their_reasons(tmp_path: Path) -> None:
    made = quantised(ratio, tmp_path)
    found = float_islands(made.module, made.reasons)
    assert list(found.values()) == ["only results depend on it", NO_WEIGHTS]


def test_a_network_in_int8_has_no_islands(tmp_path: Path) -> None:
    made = quantised(sums, tmp_path)
    assert float_islands(made.module, made.reasons) == {}


def decoded(b: Builder, u: str, v: str) -> str:
    """What is decoded from one branch is a result; the other goes on in int8."""
    p = Parts(b, "decoded")
    pixels = p.integers(1, CHANNELS, HEIGHT * WIDTH)
    b.node("Softmax", [p("Reshape", u, pixels)], "shares", axis=0)
    return v


def test_results_in_floating_point_are_no_islands(tmp_path: Path) -> None:
    made = quantised(decoded, tmp_path)
    assert float_islands(made.module, made.reasons) == {}


def test_floats_that_were_asked_for_are_no_islands(tmp_path: Path) -> None:
    made = quantised(sums, tmp_path, float_layers=("sums",))
    assert "stays float: requested" in made.reasons.values()
    assert float_islands(made.module, made.reasons) == {}


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (
            1,
            "1 operator between int8 ones computes in floating point on ARM: op0 (why 0); "
            "`edgepipe inspect net.onnx` says what to do",
        ),
        (
            5,
            "5 operators between int8 ones compute in floating point on ARM: op0 (why 0), "
            "op1 (why 1), op2 (why 2), and 2 more; `edgepipe inspect net.onnx` says what to do",
        ),
    ],
)
def test_the_notice_names_the_first_islands(count: int, expected: str) -> None:
    islands = {f"op{index}": f"why {index}" for index in range(count)}
    assert notice(islands, "net.onnx") == expected


def test_a_build_says_which_operators_are_islands(tmp_path: Path) -> None:
    onnx.save(ordinary_operators.network([ratio]), tmp_path / "net.onnx")
    chosen = options(tmp_path, tmp_path / "net.onnx", HEIGHT, WIDTH)
    notices: list[str] = []

    class Heard(Progress):
        def notice(self, text: str) -> None:
            notices.append(text)

    described = describe(chosen, Heard())
    quantized_network(described, calibration_frames(described, chosen), chosen, Heard())
    (found,) = (text for text in notices if "floating point" in text)
    assert found.startswith("2 operators between int8 ones compute in floating point on ARM: ")
    assert NO_WEIGHTS in found

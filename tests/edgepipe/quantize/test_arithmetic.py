"""The integer forms of slopes, factors, weights and resizes, each against its real meaning."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from edgepipe.errors import QuantizeError
from edgepipe.quantize.calibrate import TensorStatistics
from edgepipe.quantize.leaky import gain_of, leaky, longest_leaky_shift, slope_of, steps_for
from edgepipe.quantize.resampling import resize_matrices
from edgepipe.quantize.thresholds import RULES
from edgepipe.quantize.weights import (
    longest_shift,
    quantise_factors,
    quantise_rows,
    require_no_overflow,
    snap,
)
from vta_stages.layers.records import Epilogue, LeakySum
from vta_stages.layers.reference import leaky_values


@pytest.mark.parametrize(
    ("slope", "most", "expected"),
    [(0.1, 3, 1 / 10), (0.1, 2, 1 / 10), (0.1, 1, 1 / 9), (0.25, 3, 1 / 4), (0.2, 3, 1 / 5)],
)
def test_slopes_become_shifts_and_adds(slope: float, most: int, expected: float) -> None:
    assert float(slope_of(steps_for(slope, most=most))) == expected


@settings(deadline=None)  # the first example also builds a table
@given(st.floats(0.005, 0.6), st.integers(2, 3))
def test_slopes_are_close(slope: float, most: int) -> None:
    steps = steps_for(slope, most=most)
    assert abs(slope_of(steps) - slope) < (0.05 if most == 2 else 0.02)
    assert gain_of(steps) < 2


def test_the_cheapest_of_close_slopes_is_chosen() -> None:
    assert steps_for(0.126) == ((3, LeakySum.NOTHING),)


@pytest.mark.parametrize("slope", [0.1, 0.2, 0.03, 0.3])
@pytest.mark.parametrize("shift", [6, 8, 12])
def test_leaky_branch_rounds_without_bias(slope: float, shift: int) -> None:
    record, constant = leaky(slope, np.array([shift], np.int32))
    exact = np.arange(-(2**18), 2**18, 7)
    epilogue = Epilogue(
        bias=constant.astype(np.int32),
        shift=np.array([0], np.int32),
        low=-128,
        high=127,
        leaky=record,
    )
    made = leaky_values(epilogue, exact.reshape(1, 1, -1).astype(np.int32)).ravel() >> shift
    slope, gain = slope_of(record.steps), gain_of(record.steps)
    wanted = np.where(exact > 0, exact, slope * exact) * gain / 2**shift
    error = made - wanted
    assert np.abs(error).max() < 0.6
    assert abs(error.mean()) < 0.05


@pytest.mark.parametrize("slope", [1e-6, 0.01, 0.03, 0.1, 0.25, 0.9])
def test_the_constants_of_a_leaky_branch_fit_beside_an_accumulator(slope: float) -> None:
    """A channel with tiny values is shifted far; longer than that, the offset would wrap."""
    shift = longest_leaky_shift(slope)
    record, constant = leaky(slope, np.array([shift], np.int32))
    exact = np.linspace(-(2**29), 2**29, 999).astype(np.int64)
    largest = np.abs(exact).max() + max(abs(int(record.offset[0])), abs(int(constant[0])))
    assert largest < 2**31
    epilogue = Epilogue(
        bias=constant.astype(np.int32),
        shift=np.array([0], np.int32),
        low=-128,
        high=127,
        leaky=record,
    )
    made = leaky_values(epilogue, exact.reshape(1, 1, -1).astype(np.int32)).ravel() >> shift
    factor = np.where(exact > 0, 1.0, slope_of(record.steps)) * gain_of(record.steps)
    assert np.abs(made - exact * factor / 2.0**shift).max() < 0.6


@given(st.lists(st.floats(1e-4, 0.9), min_size=1, max_size=30), st.integers(0, 99))
def test_weight_rows_use_int8_well(scales: list[float], seed: int) -> None:
    random = np.random.default_rng(seed)
    rows = random.normal(0, 1, (len(scales), 27)) * np.array(scales)[:, None]
    quantised, shift = quantise_rows(rows)
    assert quantised.min() >= -127
    assert quantised.max() <= 127
    assert shift.min() >= 0
    step = 2.0 ** -shift.astype(np.float64)
    error = np.abs(quantised * step[:, None] - rows)
    # Only the weights that clip may err by more than half a step.
    assert (error <= 0.5 * step[:, None] + 1e-12).mean() > 0.9
    full = np.abs(quantised).max(axis=1)
    assert np.all((full >= 63) | (shift >= 15) | (np.abs(rows).max(axis=1) > 63))


def test_rows_that_are_int8_already_stay_the_same() -> None:
    rows = np.array([[-128.0, 3.0, 127.0], [-128.0, 3.4, 127.0], [5.0, -3.0, 0.0]])
    quantised, shift = quantise_rows(rows / 16)
    assert quantised.tolist() == [[-128, 3, 127], [-127, 3, 127], [80, -48, 0]]
    assert shift.tolist() == [4, 4, 8]


def test_exact_rows_get_the_finer_of_two_shifts() -> None:
    """The shift also holds the bias, of which the other one would lose a bit."""
    quantised, shift = quantise_rows(np.array([[-64.0, 2.0, 62.0], [-64.0, 2.0, 64.0]]))
    assert quantised.tolist() == [[-128, 4, 124], [-64, 2, 64]]
    assert shift.tolist() == [1, 0]


def test_a_row_of_zeros_has_shift_zero() -> None:
    quantised, shift = quantise_rows(np.zeros((2, 4)))
    assert not quantised.any()
    assert shift.tolist() == [0, 0]


def test_a_shift_is_no_longer_than_the_accumulator_allows() -> None:
    rows = np.array([[1e-8, -1e-8], [0.5, 0.25]])
    longest = longest_shift(np.array([3000.0, 300.0]))
    assert longest.tolist() == [18, 21]
    quantised, shift = quantise_rows(rows, longest)
    assert shift.tolist() == [18, 7]
    assert quantised.tolist() == [[0, 0], [64, 32]]
    assert longest_shift(np.array([0.0, 1e12])).tolist() == [22, 0]


@given(st.floats(-8e6, 8e6))
def test_factors_have_seven_bits_and_a_power_of_two(factor: float) -> None:
    made = int(quantise_factors(np.array([factor]))[0])
    mantissa, k = abs(made), 0
    while mantissa > 127:
        assert mantissa % 2 == 0
        mantissa, k = mantissa // 2, k + 1
    assert k <= 16
    assert abs(made - factor) <= max(0.5, abs(factor) / 127)


def test_snap_makes_the_first_residual_exact() -> None:
    scale, residual = np.array([0.0371, 0.0371]), np.array([0.05, 0.021])
    shift = np.array([9, 6], np.int32)
    snapped = snap(scale, residual, shift)
    factor = residual / snapped * 2.0**shift
    np.testing.assert_allclose(factor, quantise_factors(factor), rtol=1e-12)
    assert np.all(np.abs(snapped / scale - 1) < 0.02)


def test_overflow_is_refused_with_the_bound() -> None:
    with pytest.raises(
        QuantizeError, match="conv_3: an accumulator could reach 1280000000"
    ) as caught:
        require_no_overflow("conv_3", np.array([10_000_000]), [], np.array([0]))
    assert caught.value.hint == ("the ranges seen in calibration are implausible; check the frames")


@pytest.mark.filterwarnings("error")
def test_the_shortest_shift_is_for_what_is_not_finite() -> None:
    shift = longest_shift(np.array([np.inf, np.nan, 1e-30, 2.0**20]))
    assert shift.tolist() == [0, 0, 22, 9]


@pytest.mark.parametrize("mode", ["half_pixel", "asymmetric", "pytorch_half_pixel"])
@pytest.mark.parametrize("method", ["linear", "nearest"])
@pytest.mark.parametrize("scale", [2.0, 0.5])
def test_resize_matrices_are_what_onnx_means(mode: str, method: str, scale: float) -> None:
    size = (6, 8)
    made = (int(size[0] * scale), int(size[1] * scale))
    kind = "nearest_neighbor" if method == "nearest" else "linear"
    found = resize_matrices((size, made), kind, mode, "floor")
    assert found is not None
    rows, cols, shift = found
    assert np.all(rows.sum(axis=1)[:, None] * cols.sum(axis=1) == 1 << shift)
    node = helper.make_node(
        "Resize",
        ["x", "", "s"],
        ["y"],
        mode=method,
        coordinate_transformation_mode=mode,
        nearest_mode="floor",
    )
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, *size])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1, *made])],
        [numpy_helper.from_array(np.array([1, 1, scale, scale], np.float32), "s")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    x = np.random.default_rng(0).normal(0, 1, (1, 1, *size)).astype(np.float32)
    (expected,) = session.run(None, {"x": x})
    np.testing.assert_allclose(rows @ x @ cols.T / 2**shift, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("sizes", "method", "coordinates"),
    [
        (((6, 6), (9, 9)), "linear", "half_pixel"),  # thirds have no exact binary weights
        (((6, 6), (12, 12)), "cubic", "half_pixel"),
        (((6, 6), (12, 12)), "linear", "tf_crop_and_resize"),
        (((4, 4), (64, 64)), "linear", "half_pixel"),  # weights beyond int8
    ],
)
def test_other_resizes_have_no_integer_form(
    sizes: tuple[tuple[int, int], tuple[int, int]], method: str, coordinates: str
) -> None:
    assert resize_matrices(sizes, method, coordinates, "floor") is None


def statistics(values: np.ndarray) -> TensorStatistics:
    found = TensorStatistics(values.shape[1])
    for part in np.array_split(values, 4):
        found.add(part)
    return found


def test_statistics_of_parts_are_those_of_the_whole() -> None:
    values = np.random.default_rng(0).normal(0, 1, (8, 3, 5, 5)).astype(np.float32)
    values[7] *= 9  # a late outlier makes the histogram widen
    found = statistics(values)
    assert found.counts.sum() == values.size
    np.testing.assert_allclose(found.mean, values.mean(axis=(0, 2, 3)), atol=1e-6)
    np.testing.assert_allclose(found.magnitude, np.abs(values).max(axis=(0, 2, 3)))


def test_thresholds_order_and_optimality() -> None:
    random = np.random.default_rng(1)
    values = random.laplace(0, 1, (8, 4, 40, 40)).astype(np.float32)
    found = statistics(values)
    assert RULES["max"](found) == pytest.approx(float(np.abs(values).max()))
    assert RULES["percentile"](found) < RULES["max"](found)

    def error(threshold: float) -> float:
        step = threshold / 127
        made = np.clip(np.rint(values / step), -128, 127) * step
        return float(((made - values) ** 2).mean())

    best = RULES["mse"](found)
    assert error(best) < error(RULES["max"](found))
    assert error(best) < 1.02 * min(error(t) for t in np.linspace(4, 14, 41))
    assert best < RULES["weighted-mse"](found) < RULES["max"](found)


def test_a_tensor_of_zeros_has_thresholds_of_zero() -> None:
    found = statistics(np.zeros((4, 2, 3, 3), np.float32))
    assert [rule(found) for rule in RULES.values()] == [0.0] * len(RULES)

"""VtaCheck: every operator that is not on the VTA has a reason that says why."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
import small_networks

from edgepipe.errors import LayerError
from edgepipe.frontend.network import load_network
from edgepipe.partition.operators import match_operators
from edgepipe.partition.reasons import VtaCheck
from edgepipe.quantize.options import QuantizeOptions
from edgepipe.quantize.quantizer import quantize
from vta_stages.accelerator import Accelerator


def reasons(
    model: onnx.ModelProto,
    folder: Path,
    accelerator: Accelerator | None = None,
    options: QuantizeOptions | None = None,
) -> dict[str, str]:
    """Return the refusals by operator."""
    onnx.save(model, folder / "net.onnx")
    network = load_network(folder / "net.onnx")
    quantized = quantize(network, small_networks.frames(4), small_networks.PREPROCESS, options)
    operators = match_operators(quantized.module)
    check = VtaCheck(accelerator or Accelerator(), network, operators, quantized.reasons)
    found = {}
    for operator in operators:
        try:
            check(operator)
        except LayerError as error:
            found[operator.name] = str(error)
    return found


def test_what_stays_float_inside_a_network_is_named_with_its_cause(tmp_path: Path) -> None:
    assert reasons(small_networks.reluctant(), tmp_path) == {
        "image.int8": "camera bytes become int8 through a table",
        "first.float": "conversion to float for Trilu",
        "upper": "Trilu: stays float: it has no integer form",
        "upper.int8": "conversion to int8 after Trilu",
        "swish": "HardSwish: values are looked up in a table on arm",
        "lower": "Trilu: stays float: it has no integer form",
        "lower.int8": "conversion to int8 after Trilu",
        "gate": "Sigmoid: values are looked up in a table on arm",
        "score": "Sigmoid: values are looked up in a table on arm",
        "result": "decoding: layout and type of the network's outputs",
    }


def test_everything_else_runs_on_the_vta(tmp_path: Path) -> None:
    assert set(reasons(small_networks.upsampler(), tmp_path)) == {"image.int8", "logits"}


def test_a_pool_that_does_not_fit_is_refused_with_numbers(tmp_path: Path) -> None:
    small = Accelerator(inp_buffer_bytes_log2=12)
    found = reasons(small_networks.upsampler(), tmp_path, small)
    needs = "largest: one output pixel needs 400 input elements, of 255 that fit"
    assert found["largest"].startswith(needs)


@pytest.mark.parametrize("make", [small_networks.detector, small_networks.classifier])
def test_operators_after_the_last_layer_are_decoding(
    make: Callable[[], onnx.ModelProto], tmp_path: Path
) -> None:
    found = reasons(make(), tmp_path)
    tail = {name for name, why in found.items() if why.startswith("decoding: ")}
    assert set(found) - tail <= {"image.int8", "head_sigmoid"}


def test_int16_layers_and_the_ends_of_their_region_say_why_they_run_on_arm(tmp_path: Path) -> None:
    options = QuantizeOptions(int16_layers=("stem_Clip", "block_Relu", "logits"))
    found = reasons(small_networks.classifier(), tmp_path, options=options)
    assert found == {
        "image.int16": "camera bytes become int16 through a table",
        "stem_Clip": "Clip: computed in int16: requested",
        "stem_Clip.int8": "conversion to int8 after Clip",
        "block_Relu": "Relu: computed in int16: requested",
        "block_Relu.int8": "conversion to int8 after Relu",
        "logits.int16": "Gemm: computed in int16: requested",
        "logits": "decoding: layout and type of the network's outputs",
    }

"""Files that quantisation tools wrote build, and compute what onnxruntime computes from them.

tests/data/quantised/README.md says how they were made.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from exported_networks.exact import build_exactly, frames, options
from numpy.typing import NDArray
from onnx import numpy_helper

from edgepipe.errors import FrontendError
from edgepipe.frontend.network import load_network
from edgepipe.frontend.preprocess import Preprocess
from edgepipe.quantize.quantizer import quantize
from edgepipe.tvm_adapter import CompiledModule

FILES = Path(__file__).resolve().parents[2] / "data/quantised"
UNITS = Preprocess(width=16, height=16, order="BGR", mean=(127.5,) * 3, std=(127.5,) * 3)
MOST_BYTES = 60_000
ALL_EXACT = "quantised network: 4 of 4 layers keep their int8 weights and steps exactly"

# How many of the four layers keep their integers, the least signal-to-noise ratio of other layers'
# weights, and that of the outputs beside onnxruntime's, in dB.
BUILT = {
    "brevitas_int4": (0, 42, 24),
    "brevitas_per_channel": (0, 42, 24),
    "brevitas_power_of_two": (3, 42, 27),  # the last layer's output has no step in the file
    "quark_a8w8_per_channel": (0, 42, 28),
    "quark_xint8": (4, np.inf, 34),
    "tflite_int8": (0, 42, 24),
    "tflite_uint8_per_tensor": (0, 42, 24),
}
REFUSED = {
    "brevitas_qonnx": (
        "Quant /image/act_quant/export_handler/Quant_output_0 of qonnx.custom_op.general has no "
        "float form",
        "export the network from Brevitas with export_onnx_qcdq, or give the float network, which "
        "edgepipe quantises",
    ),
    "quark_bfp16": (
        "of com.amd.quark has no float form",
        "give the float network, which edgepipe quantises, or quantise it with onnxruntime's "
        "quantize_static(..., quant_format=QuantFormat.QDQ)",
    ),
}


def linear(model: onnx.ModelProto, *, of_input: bool) -> tuple[float, int]:
    """Return the scale and zero point of the integers of a network's input or output."""
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    if of_input:
        name = model.graph.input[0].name
        readers = {name: node for node in model.graph.node for name in node.input}
        while (node := readers[name]).op_type == "Transpose":
            name = node.output[0]
    else:
        makers = {name: node for node in model.graph.node for name in node.output}
        node = makers[model.graph.output[0].name]
    scale, zero = (numpy_helper.to_array(constants[name]).item() for name in node.input[1:])
    return scale, zero


def there(path: Path, pictures: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Return what onnxruntime computes from a file, in real numbers: float64[pictures, 10]."""
    model = onnx.load(path)
    constants = {tensor.name for tensor in model.graph.initializer}
    (given,) = (value for value in model.graph.input if value.name not in constants)
    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level = 3  # Brevitas's constants are inputs, too
    # Operator by operator: of fused ones, sums of uint8 times int8 saturate on processors without
    # VNNI.
    quiet.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, quiet, providers=["CPUExecutionProvider"])
    kind = onnx.helper.tensor_dtype_to_np_dtype(given.type.tensor_type.elem_type)
    found = []
    for picture in pictures[:, None]:
        values = UNITS.normalise(picture)
        if given.type.tensor_type.shape.dim[3].dim_value == 3:
            values = values.transpose(0, 2, 3, 1)
        if kind != np.float32:
            scale, zero = linear(model, of_input=True)
            most = np.iinfo(kind)
            values = np.clip(np.rint(values / scale) + zero, most.min, most.max).astype(kind)
        (scores,) = session.run(None, {given.name: values})
        found.append(scores.reshape(-1).astype(np.float64))
    scores = np.stack(found)
    if kind != np.float32:
        scale, zero = linear(model, of_input=False)
        scores = (scores - zero) * scale
    return scores


@pytest.mark.parametrize("name", BUILT)
def test_a_file_of_a_tool_computes_here_what_it_computes_there(name: str) -> None:
    exact, least_db, outputs_db = BUILT[name]
    path = FILES / f"{name}.onnx"
    pictures = np.concatenate([frames(16, 16), 255 - frames(16, 16)])
    found = quantize(load_network(path), list(pictures[:, None]), UNITS)
    assert found.notices[0] == ALL_EXACT.replace("4 of", f"{exact} of")
    ratios = [layer.snr_db for layer in found.fidelities if not layer.is_exact]
    assert len(ratios) == 4 - exact
    assert min(ratios, default=np.inf) >= least_db
    assert all(layer.name in "".join(found.notices) for layer in found.fidelities[exact:])
    compiled = CompiledModule(found.module, runs=len(pictures))
    (output,) = found.output_names
    runs = [compiled.run({found.input_name: picture})[output] for picture in pictures[:, None]]
    here, expected = np.stack(runs).reshape(len(runs), -1), there(path, pictures)
    noise = np.square(here - expected).mean() / expected.var()
    assert -10 * np.log10(noise) >= outputs_db
    if exact == 4:  # then only sums and halves are rounded in another way
        step, _ = linear(onnx.load(path), of_input=False)
        assert set(np.abs(here - expected).reshape(-1) / step) <= {0, 1}


@pytest.mark.sim
@pytest.mark.parametrize("name", ["quark_xint8", "tflite_int8"])
def test_a_file_of_a_tool_builds_exactly(name: str, tmp_path: Path) -> None:
    given = options(tmp_path, FILES / f"{name}.onnx", 16, 16)
    assert "vta" in [stage.kind for stage in build_exactly(given).stages]


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_of_a_tool_is_refused_in_one_line_with_a_remedy(name: str) -> None:
    message, hint = REFUSED[name]
    with pytest.raises(FrontendError) as caught:
        load_network(FILES / f"{name}.onnx")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.hint == hint


def test_every_file_is_tested_and_small() -> None:
    found = {path.stem: path.stat().st_size for path in FILES.glob("*.onnx")}
    assert found.keys() == BUILT.keys() | REFUSED.keys()
    assert max(found.values()) <= MOST_BYTES

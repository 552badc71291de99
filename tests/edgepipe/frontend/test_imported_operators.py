"""Operators that TVM's importer would change compute what onnxruntime does, or are refused."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from levels import every
from small_networks import Builder

from edgepipe.errors import FrontendError
from edgepipe.frontend.folding import infer_shapes
from edgepipe.frontend.imported_operators import ImportedOperators, operator_alone
from edgepipe.frontend.network import load_network
from edgepipe.tvm_adapter import run_module

SHAPE = (1, 3, 8, 10)
Make = Callable[[Builder, str], str]


def transposed(kernel: int = 3, stride: int = 2, **attributes: object) -> Make:
    def make(b: Builder, x: str) -> str:
        weight = b.constant("weight", b.normal(3, 3, kernel, kernel))
        strides = [stride, stride]
        return b.node("ConvTranspose", [x, weight], "made", strides=strides, **attributes)

    return make


def resize(*, scales: tuple[float, float] | None = None, **attributes: object) -> Make:
    sizes = attributes.pop("sizes", None)
    region = attributes.pop("region", None)

    def make(b: Builder, x: str) -> str:
        inputs = [x, "", "", ""]
        if region is not None:
            inputs[1] = b.constant("region", np.float32([0, 0, *region[:2], 1, 1, *region[2:]]))
        if scales is not None:
            inputs[2] = b.constant("scales", np.float32([1, 1, *scales]))
            inputs.pop()
        else:
            inputs[3] = b.constant("sizes", np.array([1, 3, *sizes], np.int64))
        return b.node("Resize", inputs, "made", **attributes)

    return make


CROP = {"coordinate_transformation_mode": "tf_crop_and_resize"}
FORMS: dict[str, Make] = {
    "transposed, with a shape": transposed(output_shape=[16, 20]),
    "transposed, with a smaller shape": transposed(output_shape=[15, 19]),
    "transposed, with a shape and the upper rule": transposed(
        output_shape=[16, 20], auto_pad="SAME_UPPER"
    ),
    "transposed, with a shape and the lower rule": transposed(
        output_shape=[15, 19], auto_pad="SAME_LOWER"
    ),
    "transposed, by the upper rule": transposed(auto_pad="SAME_UPPER"),
    "transposed, by the lower rule": transposed(kernel=4, auto_pad="SAME_LOWER"),
    "transposed, with gaps": transposed(kernel=2, stride=3, auto_pad="SAME_UPPER"),
    "transposed, without a rule for pads": transposed(auto_pad="VALID"),
    "nearest, by other factors than its size": resize(scales=(1.6, 1.3), mode="nearest"),
    "nearest, down by a factor": resize(scales=(0.6, 0.7), mode="nearest"),
    "nearest, rounded up": resize(
        scales=(1.6, 3),
        mode="nearest",
        nearest_mode="ceil",
        coordinate_transformation_mode="asymmetric",
    ),
    "nearest, whose result is larger in float32 only": resize(scales=(1.3, 1.3), mode="nearest"),
    "cubic, whose result is larger in float32 only": resize(scales=(1.6, 1.3), mode="cubic"),
    "nearest, by a factor of nearly 1 in one direction": resize(
        scales=(float(np.nextafter(np.float32(1), np.float32(2))), 2.0000002),
        mode="nearest",
        nearest_mode="floor",
        coordinate_transformation_mode="asymmetric",
    ),
    "a region of the same size": resize(
        sizes=(8, 10), region=(0.1, 0.2, 0.8, 0.9), mode="linear", **CROP
    ),
    "linear, by other factors than its size": resize(scales=(1.6, 1.3), mode="linear"),
    "linear, with a filter": resize(scales=(0.5, 0.5), mode="linear", antialias=1),
    "cubic, with a filter": resize(scales=(0.5, 0.4), mode="cubic", antialias=1),
    "linear, symmetric": resize(
        sizes=(9, 7), mode="linear", coordinate_transformation_mode="half_pixel_symmetric"
    ),
    "a region": resize(sizes=(9, 7), region=(0.1, 0.2, 0.8, 0.9), mode="linear", **CROP),
}


def network(make: Make, *, between_layers: bool) -> onnx.ModelProto:
    b = Builder(4)
    if not between_layers:
        b.node("Relu", [make(b, "image")], "y")
    else:
        x = b.node("Relu", [b.conv("image", "first", (3, 3, 3, 3), pads=[1] * 4)], "relu")
        b.conv(make(b, x), "y", (4, 3, 1, 1))
    return b.model([*SHAPE], {"y": 4}, opset=19)


@pytest.mark.parametrize("between_layers", [True, False])
@pytest.mark.parametrize("form", every(2, FORMS))
def test_relax_computes_what_onnxruntime_does(form, between_layers, tmp_path: Path) -> None:
    model = network(FORMS[form], between_layers=between_layers)
    onnx.save(model, tmp_path / "net.onnx")
    picture = np.random.default_rng(0).normal(0, 1, SHAPE).astype(np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    expected = session.run(None, {"image": picture})[0]
    loaded = load_network(tmp_path / "net.onnx")
    (found,) = run_module(loaded.module, {loaded.input_name: picture}).values()
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


def test_what_would_be_something_else_is_refused(tmp_path: Path) -> None:
    """A value around the picture is no product with a matrix."""
    outside = resize(
        sizes=(5, 4),
        region=(-0.5, 0, 1.5, 1),
        mode="linear",
        antialias=1,
        extrapolation_value=7.0,
        **CROP,
    )
    onnx.save(network(outside, between_layers=True), tmp_path / "net.onnx")
    with pytest.raises(FrontendError, match="Resize 'made' cannot be imported: TVM would") as error:
        load_network(tmp_path / "net.onnx")
    assert error.value.hint == (
        "write it in another form, for example a Resize with sizes in place of scales, without "
        "antialias or a region of interest, or use another opset"
    )


def test_a_shape_that_the_importer_changes_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last check, should a network have what nobody foresaw."""
    monkeypatch.setattr("edgepipe.frontend.onnx_passes.explicit_padding", lambda model: None)
    monkeypatch.setattr(ImportedOperators, "require_exact", lambda *_: None)
    made = network(transposed(output_shape=[16, 20]), between_layers=True)
    onnx.save(made, tmp_path / "net.onnx")
    with pytest.raises(FrontendError) as error:
        load_network(tmp_path / "net.onnx")
    assert str(error.value).endswith(
        "made (nn.conv2d_transpose) cannot be imported: its shape would be [1, 3, 17, 21], "
        "expected [1, 3, 16, 20]"
    )
    assert error.value.hint == (
        "write the operator in another form, or export with a different opset"
    )


def test_each_form_of_an_operator_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    b = Builder()
    for number in range(3):
        stride = 1 + number // 2
        x = "image" if number != 1 else "pool0"
        b.node(
            "MaxPool", [x], f"pool{number}", kernel_shape=[3, 3], strides=[stride] * 2, pads=[1] * 4
        )
    b.node("Relu", ["pool1"], "relu")
    model = b.model([*SHAPE], {"relu": 4, "pool2": 4})
    infer_shapes(model)
    tried = []
    monkeypatch.setattr(
        "edgepipe.frontend.imported_operators._is_exact", lambda alone: not tried.append(alone)
    )
    ImportedOperators().require_exact(Path("net.onnx"), model)
    assert len(tried) == 2


@pytest.mark.parametrize(("group", "channels"), [(1, 4), (2, 64)])
def test_few_channels_of_a_transposed_convolution_are_tried(
    group, channels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All 64 would take seconds in a large network; groups are few or small."""
    b = Builder()
    x = b.conv("image", "first", (64, 3, 1, 1))
    inputs = [x, b.constant("w", b.normal(64, 32, 3, 3)), b.constant("b", b.normal(32 * group))]
    b.node("ConvTranspose", inputs, "y", group=group)
    model = b.model([*SHAPE], {"y": 4})
    infer_shapes(model)
    tried = []
    monkeypatch.setattr(
        "edgepipe.frontend.imported_operators._is_exact", lambda alone: not tried.append(alone)
    )
    assert ImportedOperators().is_exact(model, model.graph.node[1])
    (alone,) = tried
    assert alone.graph.input[0].type.tensor_type.shape.dim[1].dim_value == channels
    onnx.checker.check_model(onnx.shape_inference.infer_shapes(alone, strict_mode=True))


def test_an_operator_with_computed_inputs_is_not_tried() -> None:
    b = Builder()
    sizes = b.node("Cast", ["image"], "sizes", to=onnx.TensorProto.INT64)
    b.node("Tile", ["image", sizes], "tiled")
    model = b.model([*SHAPE], {"tiled": 4})
    assert operator_alone(model, model.graph.node[1]) is None
    assert ImportedOperators().is_exact(model, model.graph.node[1])


def test_the_importer_says_nothing_of_its_own(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """TVM warns of powers, and of what it had begun when it refuses an operator."""
    b = Builder()
    cube = b.node("Pow", ["image", b.constant("three", np.float32(3))], "cube")
    b.conv(cube, "y", (4, 3, 1, 1))
    onnx.save(b.model([*SHAPE], {"y": 4}), tmp_path / "cube.onnx")
    load_network(tmp_path / "cube.onnx")
    kept = resize(sizes=(12, 20), mode="linear", keep_aspect_ratio_policy="not_larger")
    onnx.save(network(kept, between_layers=True), tmp_path / "kept.onnx")
    with pytest.raises(FrontendError):
        load_network(tmp_path / "kept.onnx")
    assert capfd.readouterr() == ("", "")


def test_a_process_without_standard_error_imports(tmp_path: Path) -> None:
    b = Builder()
    b.conv("image", "y", (4, 3, 1, 1))
    onnx.save(b.model([*SHAPE], {"y": 4}), tmp_path / "net.onnx")
    program = (
        "import os, sys; os.close(2); sys.stderr = None\n"
        "from edgepipe.frontend.network import load_network\n"
        f"print(load_network({str(tmp_path / 'net.onnx')!r}).output_names)"
    )
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True)
    assert done.stdout == b"('y',)\n"


def test_two_threads_import_and_what_they_say_later_is_seen(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    b = Builder()
    b.conv("image", "y", (4, 3, 1, 1))
    onnx.save(b.model([*SHAPE], {"y": 4}), tmp_path / "net.onnx")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(load_network, [tmp_path / "net.onnx"] * 8))
    os.write(2, b"said")
    assert capfd.readouterr().err == "said"

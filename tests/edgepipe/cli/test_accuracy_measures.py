"""``edgepipe accuracy`` with boxes and masks, on networks whose answers are known by hand."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import cv2
import numpy as np
import onnx
import pytest
from command_line import run
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

pytestmark = pytest.mark.sim

PREPROCESS = """
[preprocess]
width = 16
height = 16
order = "BGR"
mean = [0.0, 0.0, 0.0]
std = [255.0, 255.0, 255.0]
"""
BLUE, RED = 0, 2  # channels


def network(outputs: dict[str, NDArray[np.float64]], biases: dict[str, list[float]]) -> bytes:
    """Return a network of one convolution for each output; its stride is the size of its kernel."""
    nodes, constants, results = [], [], []
    for name, weight in outputs.items():
        for part, values in (("w", weight), ("b", np.array(biases[name]))):
            constants.append(numpy_helper.from_array(values.astype(np.float32), f"{name}.{part}"))
        extent = list(weight.shape[2:])
        inputs = ["image", f"{name}.w", f"{name}.b"]
        nodes.append(helper.make_node("Conv", inputs, [name], kernel_shape=extent, strides=extent))
        results.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * 4))
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 16, 16])
    graph = helper.make_graph(nodes, "measured", [image], results, constants)
    opset = [helper.make_opsetid("", 13)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()


def measured(
    folder: Path,
    content: bytes,
    postprocess: str,
    pictures: list[NDArray[np.uint8]],
    truth: tuple[object, ...],
    capsys: pytest.CaptureFixture[str],
) -> dict[str, tuple[float, float]]:
    """Build the network, measure it with JSON and a chart; return float and int8 by figure."""
    onnx.checker.check_model(onnx.load_from_string(content))
    (folder / "net.onnx").write_bytes(content)
    (folder / "net.toml").write_text(PREPROCESS + postprocess)
    data, bundle, chart = folder / "data", folder / "net.edgepipe", folder / "layers.svg"
    data.mkdir()
    for index, picture in enumerate(pictures):
        cv2.imwrite(str(data / f"{index}.png"), picture)
    arguments = ("--board", "host", "--calib", data, "-o", bundle)
    assert run("build", folder / "net.onnx", *arguments) == 0
    capsys.readouterr()
    arguments = ("--calib", data, "--data", data, "--json", "--chart", chart)
    assert run("accuracy", bundle, *arguments, *truth) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["pictures"] == found["layer_pictures"] == len(pictures)
    assert all(layer["so_far"]["cosine"] > 0.999 for layer in found["layers"])
    titles = [t.text for t in ElementTree.parse(chart).iter() if t.tag.endswith("title")]
    assert len(titles) == 2 * len(found["layers"])
    return {figure["name"]: (figure["exact"], figure["found"]) for figure in found["figures"]}


def test_boxes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every cell of 4x4 pixels that is blue or red is a box."""
    scores, distances = np.zeros((2, 3, 4, 4)), np.zeros((4, 3, 4, 4))
    scores[0, BLUE] = scores[1, RED] = 1  # 16 in a cell of its colour
    distances[:, [BLUE, RED]] = 0.5 / 16  # half a cell to each side
    content = network(
        {"scores": scores, "distances": distances},
        {"scores": [-8.0, -8.0], "distances": [0.0] * 4},
    )
    (tmp_path / "classes.txt").write_text("blue\nred\n")
    postprocess = (
        '[postprocess]\nkind = "distances"\nactivation = "sigmoid"\nstrides = [4]\nbins = 1\n'
        'scores = ["scores"]\ndistances = ["distances"]\nlabels = "classes.txt"\n'
    )
    pictures, entries = [], []
    for index in range(4):
        picture = np.zeros((16, 16, 3), np.uint8)
        picture[4 * index : 4 * index + 4, 8:12, RED] = 255
        entries.append({"image_id": index, "category_id": 7, "bbox": [8, 4 * index, 4, 4]})
        if index < 2:  # the other two blue boxes are in no picture
            picture[:4, :4, BLUE] = 255
        entries.append({"image_id": index, "category_id": 9, "bbox": [0, 0, 4, 4]})
        pictures.append(picture)
    coco = {
        "images": [{"id": index, "file_name": f"{index}.png"} for index in range(4)],
        "annotations": entries,
        "categories": [{"id": 9, "name": "blue"}, {"id": 7, "name": "red"}],
    }
    (tmp_path / "boxes.json").write_text(json.dumps(coco))
    truth = ("--boxes", tmp_path / "boxes.json")
    figures = measured(tmp_path, content, postprocess, pictures, truth, capsys)
    # Red is right; of blue, the recalls 0, 0.01 ... 0.5 of 101 have precision 1.
    expected = pytest.approx((1 + 51 / 101) / 2)
    assert figures == {"AP50": (expected, expected), "AP50:95": (expected, expected)}


def test_masks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every bright pixel is of class 1."""
    weight = np.full((2, 3, 1, 1), 2 / 3)
    weight[0] = -weight[0]
    content = network({"classes": weight}, {"classes": [1.0, -1.0]})
    postprocess = '[postprocess]\nkind = "segmentation"\noutputs = ["classes"]\n'
    picture = np.zeros((16, 16, 3), np.uint8)
    picture[:, :8] = 255
    masks = np.repeat((picture[None, :, :, 0] > 0).astype(np.uint8), 2, axis=0)
    masks[0, 15] = 255  # this row does not count
    masks[1, :4] = 0  # half of these 64 pixels are bright
    (tmp_path / "masks").mkdir()
    for index, mask in enumerate(masks):
        cv2.imwrite(str(tmp_path / "masks" / f"{index}.png"), mask)
    truth = ("--masks", tmp_path / "masks")
    figures = measured(tmp_path, content, postprocess, [picture, picture], truth, capsys)
    bright, dark = (120 + 96) / (120 + 128), (120 + 128) / (120 + 160)
    assert figures == {"mIoU": (pytest.approx((bright + dark) / 2),) * 2}

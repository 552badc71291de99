"""Drafted descriptions: what is known, what is guessed and marked, and that they load unchanged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import quantised_networks
from exported_networks import WITH_PROLOGUE
from onnx import TensorProto, helper, numpy_helper
from small_networks import Builder, classifier

from edgepipe import description
from edgepipe.drafting.draft import Draft, draft, write
from edgepipe.drafting.settings import GUESS
from edgepipe.errors import FrontendError

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def drafted(folder: Path, model: onnx.ModelProto, **arguments: object) -> Draft:
    onnx.save(model, folder / "net.onnx")
    return draft(folder / "net.onnx", **arguments)  # type: ignore[arg-type]


def reasons(made: Draft) -> dict[str, str]:
    return {s.key: s.comment for s in (*made.preprocess, *made.postprocess)}


def small(
    shape: list[int | str], *first: tuple[str, object], dtype: int = TensorProto.FLOAT
) -> onnx.ModelProto:
    """Return a network that applies ``first`` to its input, then a convolution and a mean."""
    b = Builder(3)
    x = "image"
    if dtype != TensorProto.FLOAT:
        x = b.node("Cast", [x], "floats", to=TensorProto.FLOAT)
    for index, (op, value) in enumerate(first):
        constant = b.constant(f"c{index}", np.asarray(value, np.float32))
        x = b.node(op, [x, constant], f"v{index}")
    x = b.conv(x, "conv", (4, int(shape[1]), 3, 3))
    b.node("GlobalAveragePool", [x], "out")
    model = b.model(shape, {"out": 4})
    model.graph.input[0].type.tensor_type.elem_type = dtype
    return model


@pytest.mark.parametrize("name", ["nanodet_g_coco_416", "fmnist_resnet8"])
def test_the_draft_of_an_example_is_its_description(name: str, tmp_path: Path) -> None:
    shipped = description.load(EXAMPLES / f"{name}.toml")
    made = draft(EXAMPLES / f"{name}.onnx")
    write(made, tmp_path / "net.toml")
    found = description.load(tmp_path / "net.toml")
    assert found == made.description
    if name.startswith("nanodet"):  # its file does not say the classes' names
        assert found.preprocess == shipped.preprocess
        assert found.postprocess == shipped.postprocess.__class__(
            **{
                key: getattr(shipped.postprocess, key)
                for key in ("kind", "strides", "bins", "scores", "distances")
            }
        )
    else:
        assert (found.preprocess.width, found.preprocess.order) == (28, "GRAY")
        assert found.postprocess.kind == "classify"


def test_every_key_has_a_comment_and_guesses_are_marked(tmp_path: Path) -> None:
    made = drafted(tmp_path, classifier())
    lines = made.text.splitlines()
    for setting in (*made.preprocess, *made.postprocess):
        above = lines[lines.index(setting.assignment) - 1]
        assert above.startswith("#")
    marked = [line for line in lines if line.startswith(f"# {GUESS}")]
    assert len(marked) == len(made.guesses) > 0


def test_classes_come_from_the_metadata(tmp_path: Path) -> None:
    model = classifier()
    names = {0: "cat", 1: "dog\n", 2: "tab\there", 3: "quote's", 4: ""}
    helper.set_model_props(model, {"names": str(names)})
    made = drafted(tmp_path, model)
    written = write(made, tmp_path / "net.toml")
    assert [path.name for path in written] == ["labels.txt", "net.toml"]
    loaded = description.load(tmp_path / "net.toml")
    assert description.labels_of(loaded, tmp_path / "net.toml") == (
        *("cat", "dog", "tab here", "quote's", "?"),
    )
    assert reasons(made)["labels"] == "5 class names from 'names' in the file's metadata"


@pytest.mark.parametrize("text", ["{0: 'a', 2: 'b'}", "[1, 2]", "(", "{'a': 'b'}", "[" * 9999])
def test_class_names_that_cannot_be_read_are_left_out(text: str, tmp_path: Path) -> None:
    model = classifier()
    helper.set_model_props(model, {"names": text, "imgsz": text})
    assert drafted(tmp_path, model).labels == ()


def test_a_wrong_number_of_classes_is_marked(tmp_path: Path) -> None:
    model = classifier()
    helper.set_model_props(model, {"names": "['cat', 'dog']"})
    assert reasons(drafted(tmp_path, model))["labels"].startswith(GUESS)


def test_names_of_files_and_inputs_cannot_break_the_file(tmp_path: Path) -> None:
    model = small([1, 3, 16, 16])
    evil = 'a"\n[preprocess]\nwidth = 9 # \x1b[31m\x7f'
    model.graph.input[0].name = model.graph.node[0].input[0] = evil
    onnx.save(model, tmp_path / "net.onnx")
    made = draft(tmp_path / "net.onnx", labels_name=f"{evil}.txt")
    assert made.description.preprocess.width == 16
    assert "\x1b" not in made.text


@pytest.mark.parametrize(
    ("first", "scale", "order", "reason"),
    [
        ([("Div", 255.0)], 1.0, "RGB", "begins with Div, which fits values from 0 to 255"),
        ([("Mul", 1 / 127.5), ("Sub", 1.0)], 1.0, "RGB", "begins with Mul, Sub"),
        ([("Sub", [[[123.7]], [[116.3]], [[103.5]]])], 1.0, "RGB", "values from 0 to 255"),
        (
            [("Sub", [[[0.48]], [[0.45]], [[0.4]]]), ("Div", [[[0.2]], [[0.2]], [[0.2]]])],
            1 / 255,
            "RGB",
            "begins with Sub, Div, which fits values from 0 to 1",
        ),
        ([], 1 / 255, "RGB", "guess: values from 0 to 1"),
    ],
)
def test_a_network_that_normalises_gets_plain_values(
    first: list[tuple[str, object]], scale: float, order: str, reason: str, tmp_path: Path
) -> None:
    made = drafted(tmp_path, small([1, 3, 16, 16], *first))
    preprocess = made.description.preprocess
    assert (preprocess.mean, preprocess.std) == ((0.0,) * 3, (1.0,) * 3)
    assert preprocess.scale == pytest.approx(scale)
    assert preprocess.order == order
    assert reason in reasons(made)["scale"]


def test_batch_normalisation_of_the_input_is_seen(tmp_path: Path) -> None:
    model = small([1, 3, 16, 16])
    norm = [np.ones(3), np.zeros(3), np.full(3, 120.0), np.full(3, 3600.0)]
    for name, values in zip(("g", "b", "m", "v"), norm, strict=True):
        model.graph.initializer.append(numpy_helper.from_array(values.astype(np.float32), name))
    node = helper.make_node("BatchNormalization", ["image", "g", "b", "m", "v"], ["normed"])
    model.graph.node.insert(0, node)
    model.graph.node[1].input[0] = "normed"
    assert "BatchNormalization" in reasons(drafted(tmp_path, model))["scale"]


def test_bytes_stay_bytes_for_an_integer_input(tmp_path: Path) -> None:
    made = drafted(tmp_path, small([1, 3, 16, 16], dtype=TensorProto.UINT8))
    assert made.description.preprocess.scale == 1.0
    assert "the input is uint8" in reasons(made)["scale"]


@pytest.mark.parametrize(
    ("model", "mean", "std"),
    [
        (quantised_networks.like_tflite(np.uint8), 128.0, 128.0),
        (quantised_networks.like_tflite(np.int8), 128.0, 128.0),
        (quantised_networks.powers_of_two(), 128.0, 32.0),
    ],
)
def test_values_are_those_that_a_network_was_quantised_for(
    model: onnx.ModelProto, mean: float, std: float, tmp_path: Path
) -> None:
    made = drafted(tmp_path, model)
    preprocess = made.description.preprocess
    assert (preprocess.mean, preprocess.std, preprocess.scale) == ((mean,) * 3, (std,) * 3, 1.0)
    low, high = (0 - mean) / std, (255 - mean) / std
    comment = f"the network was quantised for values from {low:.4g} to {high:.4g}"
    assert comment in reasons(made)["scale"]


@pytest.mark.parametrize(("step", "scale"), [(1 / 127, 1 / 255), (1 / 32, 1.0)])
def test_a_range_that_usual_values_fit_keeps_them(
    step: float, scale: float, tmp_path: Path
) -> None:
    b = quantised_networks.Builder(3)
    b.node("GlobalAveragePool", [b.conv(b.pair("image", "in", step), "conv", (4, 3, 3, 3))], "out")
    made = drafted(tmp_path, b.model([1, 3, 16, 16], {"out": 4}))
    assert made.description.preprocess.scale == pytest.approx(scale)


def test_imagenet_classifiers_are_cropped_and_normalised(tmp_path: Path) -> None:
    model = small([1, 3, 32, 32])
    weight = np.zeros((1000, 4, 1, 1), np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    model.graph.node.append(helper.make_node("Conv", ["out", "w"], ["classes"]))
    model.graph.output[0].name = "classes"
    preprocess = drafted(tmp_path, model).description.preprocess
    assert (preprocess.fit, preprocess.resize_short_side) == ("center_crop", 37)
    assert preprocess.mean == (0.485, 0.456, 0.406)


def map_network(channels: int, last: str) -> onnx.ModelProto:
    """Return a network that ends in a map of ``channels`` at the size of its input."""
    b = Builder(3)
    x = b.conv("image", "conv", (channels, 3, 1, 1))
    b.node(last, [x], "out")
    return b.model([1, 3, 32, 32], {"out": 4})


def test_a_map_of_classes_is_a_guess(tmp_path: Path) -> None:
    made = drafted(tmp_path, map_network(5, "Relu"))
    assert (made.description.postprocess.kind, made.description.postprocess.outputs) == (
        "segmentation",
        ("out",),
    )
    (kind,) = (s for s in made.postprocess if s.key == "kind")
    assert kind.is_guess
    assert 'kind = "keypoints" if they are heat maps of points' in kind.comment


def test_a_single_map_may_be_text_or_a_mask(tmp_path: Path) -> None:
    made = drafted(tmp_path, map_network(1, "Sigmoid"))
    assert made.description.postprocess.kind == "none"
    remedy = 'set kind = "db" if it shows where text is, or "segmentation" for a mask'
    assert reasons(made)["kind"].endswith(remedy)


def test_a_single_map_of_both_signs_may_be_a_mask(tmp_path: Path) -> None:
    made = drafted(tmp_path, map_network(1, "Identity"))
    postprocess = made.description.postprocess
    assert (postprocess.kind, postprocess.activation) == ("segmentation", "sigmoid")
    assert {"kind", "activation"} <= {guess.key for guess in made.guesses}


def test_a_map_that_the_network_chose_from_is_seen(tmp_path: Path) -> None:
    b = Builder(3)
    b.node("ArgMax", [b.conv("image", "conv", (5, 3, 1, 1))], "out", axis=1, keepdims=0)
    model = b.model([1, 3, 32, 32], {"out": 3})
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    made = drafted(tmp_path, model)
    assert made.description.postprocess.kind == "none"
    remedy = 'export the network without its ArgMax to have it decoded (kind = "segmentation")'
    assert reasons(made)["kind"].endswith(remedy)


def test_a_direction_is_no_class(tmp_path: Path) -> None:
    """A network for faces ends with a vector that is divided by its length."""
    b = Builder(3)
    x = b.node("GlobalAveragePool", [b.conv("image", "conv", (32, 3, 3, 3))], "means")
    x = b.node("Flatten", [x], "flat")
    b.node("LpNormalization", [x], "out", axis=1, p=2)
    made = drafted(tmp_path, b.model([1, 3, 32, 32], {"out": 2}))
    assert made.description.postprocess.kind == "none"
    remedy = "compare it with those of other pictures: its values are no scores of classes"
    assert reasons(made)["kind"].endswith(remedy)


@pytest.mark.parametrize("last", ["Identity", "Softmax"])
def test_plain_scores_are_only_a_guess(last: str, tmp_path: Path) -> None:
    b = Builder(3)
    x = b.node("GlobalAveragePool", [b.conv("image", "conv", (10, 3, 3, 3))], "means")
    b.node(last, [b.node("Flatten", [x], "flat")], "out")
    made = drafted(tmp_path, b.model([1, 3, 32, 32], {"out": 2}))
    assert made.description.postprocess.kind == "classify"
    assert ("kind" in {guess.key for guess in made.guesses}) == (last == "Identity")


def test_a_reader_of_text_needs_its_characters(tmp_path: Path) -> None:
    b = Builder(3)
    shape = b.constant("shape", np.array([1, 16, 128], np.int64))
    b.node("Reshape", [b.conv("image", "conv", (2, 3, 1, 1)), shape], "out")
    made = drafted(tmp_path, b.model([1, 3, 16, 64], {"out": 3}))
    remedy = 'to read them, set kind = "ctc", outputs, and labels with one character per line'
    assert reasons(made)["kind"].endswith(remedy)


def test_a_dynamic_size_is_a_guess_that_the_network_runs_with(tmp_path: Path) -> None:
    made = drafted(tmp_path, small([1, 3, "height", "width"]))
    preprocess = made.description.preprocess
    assert (preprocess.height, preprocess.width) == (224, 224)
    assert reasons(made)["width"] == (
        "guess: the input has any size; this one is usual for classification"
    )


def test_a_dynamic_size_is_the_one_in_the_metadata(tmp_path: Path) -> None:
    model = small([1, 3, "height", "width"])
    helper.set_model_props(model, {"imgsz": "[96, 128]", "author": "Ultralytics"})
    made = drafted(tmp_path, model)
    preprocess = made.description.preprocess
    assert (preprocess.height, preprocess.width) == (96, 128)
    assert not {"width", "height", "order", "scale"} & {guess.key for guess in made.guesses}


def test_a_dynamic_size_can_be_given(tmp_path: Path) -> None:
    made = drafted(tmp_path, small([1, 3, "height", 48]), size=(40, 48))
    assert made.description.preprocess.height == 40
    assert reasons(made)["height"] == "as asked for; the input has any size"


def test_channels_may_be_last(tmp_path: Path) -> None:
    model = small([1, 3, 16, 16])
    model.graph.node.insert(0, helper.make_node("Transpose", ["image"], ["t"], perm=[0, 3, 1, 2]))
    model.graph.node[1].input[0] = "t"
    dims = model.graph.input[0].type.tensor_type.shape.dim
    for dim, size in zip(dims, (1, 24, 20, 3), strict=True):
        dim.dim_value = size
    made = drafted(tmp_path, model)
    assert str(made.picture) == "image float32[1, 24, 20, 3], channels last"
    assert (made.description.preprocess.height, made.description.preprocess.width) == (24, 20)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("rescale", "begins with Mul, Add, which fits values from 0 to 255"),
        ("normalise", "begins with Mul, Add, Mul, which fits values from 0 to 255"),
        ("reverse", "begins with Add, which fits values from 0 to 255"),
        ("grey", "begins with Mul, Add, which fits values from 0 to 255"),
    ],
)
def test_preprocessing_by_layers_of_keras_is_seen(name: str, reason: str, tmp_path: Path) -> None:
    made = drafted(tmp_path, WITH_PROLOGUE[name].model())
    preprocess = made.description.preprocess
    assert made.picture.channels_last
    assert (preprocess.height, preprocess.width, preprocess.scale) == (64, 64, 1.0)
    assert preprocess.order == ("GRAY" if name == "grey" else "RGB")
    assert reason in reasons(made)["scale"]


def test_a_dynamic_size_with_channels_last_is_tried(tmp_path: Path) -> None:
    model = WITH_PROLOGUE["rescale"].model()
    for axis, name in ((1, "height"), (2, "width")):
        model.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = name
    made = drafted(tmp_path, model)
    assert made.picture.channels_last
    assert (made.description.preprocess.height, made.description.preprocess.width) == (224, 224)


@pytest.mark.parametrize(
    ("shape", "size", "message", "hint"),
    [
        (
            [1, 4, 16, 16],
            None,
            "input image has 4 channels, expected 1 (gray) or 3 (colours)",
            "a description turns pictures into the input; export a network that reads one",
        ),
        (
            [1, 3, 16, 16],
            (20, 16),
            "the size 16x20 was given, but input image is [1, 3, 16, 16]",
            "give a size only for inputs whose height or width is dynamic",
        ),
        (
            [1, 3, 2, 2],
            None,
            "onnxruntime cannot run the network for 1x3x2x2: ",
            "correct the network until onnxruntime runs it, or use a newer onnxruntime",
        ),
    ],
)
def test_a_network_that_cannot_be_described_is_refused(
    shape: list[int | str], size: tuple[int, int] | None, message: str, hint: str, tmp_path: Path
) -> None:
    with pytest.raises(FrontendError) as caught:
        drafted(tmp_path, small(shape), size=size)
    assert message in str(caught.value)
    assert caught.value.hint == hint


def test_an_input_that_is_not_a_picture_is_refused(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("Relu", ["tokens"], ["out"])],
        "small",
        [helper.make_tensor_value_info("tokens", TensorProto.FLOAT, [1, "n"])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, [None] * 2)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    with pytest.raises(FrontendError, match=r"tokens is \[1, n\], expected a picture") as caught:
        drafted(tmp_path, model)
    assert caught.value.hint == "describe a network that reads one picture"


def test_nothing_is_written_over_a_file_that_exists(tmp_path: Path) -> None:
    model = classifier()
    helper.set_model_props(model, {"names": "['a', 'b', 'c', 'd', 'e']"})
    made = drafted(tmp_path, model)
    (tmp_path / "net.toml").write_text("mine")
    with pytest.raises(FrontendError, match=r"net\.toml: exists already") as caught:
        write(made, tmp_path / "net.toml")
    assert caught.value.hint == "give the description another name, or replace the file"
    assert not (tmp_path / "labels.txt").exists()
    write(made, tmp_path / "net.toml", overwrite=True)
    assert description.load(tmp_path / "net.toml") == made.description


def test_a_folder_that_does_not_exist_is_one_error(tmp_path: Path) -> None:
    made = drafted(tmp_path, classifier())
    with pytest.raises(FrontendError, match="cannot be written") as caught:
        write(made, tmp_path / "no" / "net.toml")
    assert caught.value.hint == "name a file in another folder"

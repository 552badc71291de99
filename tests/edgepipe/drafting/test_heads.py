"""Heads are recognised from the shapes of outputs, for the forms that exporters write."""

from __future__ import annotations

import pytest
from seen_heads import Shapes, described, guesses, recognised

from edgepipe.description import Postprocess
from edgepipe.drafting.heads import recognise
from edgepipe.drafting.metadata import Metadata
from edgepipe.drafting.probe import Output


def metadata(task: str = "") -> Metadata:
    return Metadata(
        producer="pytorch",
        is_ultralytics=bool(task),
        labels=(),
        labels_key="",
        size=(0, 0),
        task=task,
    )


def outputs(*shapes: tuple[int, ...], maker: str = "Conv") -> list[Output]:
    return [
        Output(name=f"output{index}", shape=shape, maker=maker, are_shares=maker == "Sigmoid")
        for index, shape in enumerate(shapes)
    ]


@pytest.mark.parametrize(
    ("shapes", "size", "family", "classes"),
    [
        ([(1, 1000)], (224, 224), "classification", 1000),
        ([(1, 10, 1, 1)], (28, 28), "classification", 10),
        ([(1, 84, 8400)], (640, 640), "YOLOv8", 80),
        ([(1, 6, 2100)], (320, 320), "YOLOv8", 2),
        ([(1, 116, 8400), (1, 32, 160, 160)], (640, 640), "YOLOv8", 80),
        ([(1, 25200, 85)], (640, 640), "YOLOv5", 80),
        ([(1, 252, 85)], (64, 64), "YOLOv5", 80),
        ([(1, 3549, 85)], (416, 416), "YOLOX", 80),
        ([(1, 300, 6)], (640, 640), "YOLOv10", 0),
        ([(1, 255, 13, 13), (1, 255, 26, 26)], (416, 416), "YOLOv3", 80),
        ([(1, 3, 13, 13, 85), (1, 3, 26, 26, 85)], (416, 416), "YOLOv3", 80),
        ([(1, 3000, 21), (1, 3000, 4)], (300, 300), "SSD", 20),
        ([(1, 80, 128, 128), (1, 2, 128, 128), (1, 2, 128, 128)], (512, 512), "CenterNet", 80),
        ([(1, 4200, 4), (1, 4200, 2), (1, 4200, 10)], (320, 320), "RetinaFace", 1),
        ([(800, 1), (200, 1), (800, 4), (200, 4), (800, 10), (200, 10)], (160, 160), "SCRFD", 1),
        ([(1, 40, 6625)], (48, 320), "text line", 6625),
        ([(80, 1, 97)], (32, 320), "text line", 97),
        ([(26, 1, 37)], (32, 100), "text line", 37),
        ([(1, 19, 512, 512)], (512, 512), "segmentation", 19),
        ([(1, 3, 128, 128)], (64, 64), "picture", 0),
        ([(1, 7, 5, 3)], (64, 64), "", 0),
    ],
)
def test_a_family_is_recognised(
    shapes: list[tuple[int, ...]], size: tuple[int, int], family: str, classes: int
) -> None:
    head = recognise(outputs(*shapes), *size, metadata())
    assert (head.family, head.classes) == (family, classes)


@pytest.mark.parametrize(
    ("shapes", "size", "kind"),
    [
        ([(1, 84, 8400)], (640, 640), "boxes"),
        ([(1, 56, 8400)], (640, 640), "boxes"),
        ([(1, 25200, 85)], (640, 640), "boxes"),
        ([(1, 3549, 85)], (416, 416), "yolox"),
        ([(1, 80, 128, 128), (1, 2, 128, 128), (1, 2, 128, 128)], (512, 512), "centernet"),
        ([(800, 1), (200, 1), (800, 4), (200, 4), (800, 10), (200, 10)], (160, 160), "distances"),
        ([(1, 116, 8400), (1, 32, 160, 160)], (640, 640), "none"),
        ([(1, 19, 128, 128)], (512, 512), "segmentation"),
    ],
)
def test_a_head_is_described_as_its_decoder_expects(
    shapes: list[tuple[int, ...]], size: tuple[int, int], kind: str
) -> None:
    head = recognise(outputs(*shapes), *size, metadata("pose" if shapes[0][1] == 56 else ""))
    described = Postprocess(kind=head.kind, **{s.key: s.value for s in head.settings})  # type: ignore[arg-type]
    assert described.kind == kind
    assert bool(described.tensors()) == (kind != "none")


def test_unknown_outputs_are_listed() -> None:
    head = recognise(outputs((1, 7, 5, 3), (4,)), 64, 64, metadata())
    assert head.kind == "none"
    assert head.text == "no known form of outputs: output0 [1, 7, 5, 3], output1 [4]"


@pytest.mark.parametrize(("largest", "kind"), [(9.5, "yolox"), (415.0, "boxes")])
def test_boxes_in_pixels_are_decoded_already(largest: float, kind: str) -> None:
    """YOLOv6, and a YOLOX that was exported with its decoding, have YOLOX's shape."""
    made = Output(
        name="boxes", shape=(1, 3549, 85), maker="Concat", are_shares=False, largest=largest
    )
    head = recognise([made], 416, 416, metadata())
    settings = {setting.key: setting.value for setting in head.settings}
    assert (head.kind, head.classes) == (kind, 80)
    assert settings.get("objectness", False) == (kind == "boxes")


def test_a_map_of_chosen_classes_says_how_to_have_it_decoded() -> None:
    for shape in [(1, 64, 96), (1, 1, 32, 48)]:
        head = recognise(outputs(shape, maker="ArgMax"), 64, 96, metadata())
        assert (head.family, head.kind) == ("class map", "none")
    other = recognise(outputs((1, 64, 5), maker="ArgMax"), 64, 96, metadata())
    assert other.family == ""


def test_the_task_in_the_metadata_says_what_the_columns_are() -> None:
    head = recognise(outputs((1, 56, 8400)), 640, 640, metadata("pose"))
    assert head.classes == 1
    assert "keypoints" in head.text


def test_a_classifier_says_whether_its_softmax_is_in_the_network() -> None:
    texts = [
        recognise(outputs((1, 10), maker=maker), 28, 28, metadata()).text
        for maker in ("Gemm", "Softmax")
    ]
    assert texts == [
        "output0 [1, 10] is one of 10 scores",
        "output0 [1, 10] is one of 10 probabilities",
    ]


def test_a_vector_without_an_axis_of_pictures_is_one_of_classes() -> None:
    for maker, is_guess in (("Softmax", False), ("Gemm", True)):
        head = recognise(outputs((10,), maker=maker), 28, 28, metadata())
        assert (head.kind, head.classes, head.is_guess) == ("classify", 10, is_guess)
    assert recognise(outputs((10, 4)), 28, 28, metadata()).kind == "none"


def test_a_classifier_with_a_second_output_says_how_to_have_it_decoded() -> None:
    head = recognise(outputs((1, 10), (1, 64)), 28, 28, metadata())
    assert (head.family, head.kind, head.classes) == ("classification", "none", 10)
    assert head.text == "a vector in each of 2 outputs: output0 [1, 10], output1 [1, 64]"
    assert head.remedy == (
        'kind "classify" reads the only output of a network; export it with nothing but the '
        "scores of the classes"
    )


@pytest.mark.parametrize(
    ("names", "sizes", "offsets", "why"),
    [
        ("hm wh reg", "wh", "reg", "by the names"),
        ("hm reg wh", "wh", "reg", "by the names"),
        ("hm offset output2", "output2", "offset", "by the names"),
        ("hm output1 size", "size", "output1", "by the names"),
        ("hm a b", "a", "b", "by the order of the outputs"),
    ],
)
def test_names_tell_the_sizes_of_boxes_from_the_offsets_of_centres(
    names: str, sizes: str, offsets: str, why: str
) -> None:
    shapes: Shapes = [(1, 80, 80, 80), (1, 2, 80, 80), (1, 2, 80, 80)]
    head = recognised(shapes, (320, 320), names=names.split())
    found = described(head)
    assert (found.distances, found.centers) == ((sizes,), (offsets,))
    (reason,) = (s.reason for s in head.settings if s.key == "distances")
    assert reason.endswith(why)
    assert guesses(head) == {"distances", "centers"}


def nanodet(*, named: bool, sigmoid: bool) -> list[Output]:
    """Return the six outputs for a picture of 64x64, in an exporter's order."""
    made = []
    for columns, kind in ((32, "reg"), (20, "cls")):
        for index, cells in enumerate((4, 64, 16)):
            name = f"{kind}_{index}" if named else f"output{columns + index}"
            scores = sigmoid and kind == "cls"
            made.append(Output(name=name, shape=(1, cells, columns), maker="", are_shares=scores))
    return made


@pytest.mark.parametrize(("named", "sigmoid"), [(True, True), (True, False), (False, True)])
def test_nanodet_is_decoded_with_its_outputs_in_the_order_of_strides(
    named: bool, sigmoid: bool
) -> None:
    head = recognise(nanodet(named=named, sigmoid=sigmoid), 64, 64, metadata())
    settings = {setting.key: setting for setting in head.settings}
    names = ("cls_1", "cls_2", "cls_0") if named else ("output21", "output22", "output20")
    assert head.kind == "nanodet"
    assert settings["strides"].value == (8, 16, 32)
    assert settings["bins"].value == 8
    assert settings["scores"].value == names
    assert settings["scores"].is_guess != sigmoid

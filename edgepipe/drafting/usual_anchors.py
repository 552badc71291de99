"""The anchors that families of detectors are usually trained with; no ONNX file contains them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

_FIRST_STRIDE = 16
_MOBILE_LEVELS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchors:
    """For each level of a head, width and height in pixels of every anchor of a cell.

    ``who`` is trained with them. An SSD also has the cells of a side of each level (``grids``), or,
    if the cells of the last column may end beyond the picture, pixels per cell (``strides``).
    """

    levels: tuple[tuple[float, ...], ...]
    who: str
    grids: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()


# Keys are strides. YOLOv3: section 2.3 of Redmon and Farhadi, "YOLOv3", 2018, and darknet's
# yolov3-tiny.cfg; P6: YOLOv5's models/hub/yolov5n6.yaml.
_YOLO: Mapping[tuple[int, ...], Anchors] = {
    (16, 32): Anchors(
        levels=((10, 14, 23, 27, 37, 58), (81, 82, 135, 169, 344, 319)),
        who="YOLOv3-tiny on COCO",
    ),
    (8, 16, 32): Anchors(
        levels=(
            (10, 13, 16, 30, 33, 23),
            (30, 61, 62, 45, 59, 119),
            (116, 90, 156, 198, 373, 326),
        ),
        who="YOLOv3 and YOLOv5 on COCO; YOLOv4 and YOLOv7 have others",
    ),
    (8, 16, 32, 64): Anchors(
        levels=(
            (19, 27, 44, 40, 38, 94),
            (96, 68, 86, 152, 180, 137),
            (140, 301, 303, 264, 238, 542),
            (436, 615, 739, 380, 925, 792),
        ),
        who="YOLOv5's P6 networks on COCO",
    ),
}


def yolo_anchors(strides: Sequence[int]) -> Anchors | None:
    """Return the anchors for these strides, in their order; None if no usual network has them."""
    found = _YOLO.get(tuple(sorted(strides)))
    if found is None:
        return None
    by_stride = dict(zip(sorted(strides), found.levels, strict=True))
    return Anchors(levels=tuple(by_stride[stride] for stride in strides), who=found.who)


@dataclass(frozen=True, slots=True, kw_only=True)
class Faces:
    """The square anchors of a detector of faces: sides in pixels for each stride."""

    strides: tuple[int, ...]
    sides: tuple[tuple[int, ...], ...]
    who: str

    @property
    def anchors(self) -> tuple[tuple[float, ...], ...]:
        """Width and height of every anchor."""
        return tuple(tuple(side for side in level for _ in "wh") for level in self.sides)

    def count(self, height: int, width: int) -> int:
        """Return how many anchors a picture of ``height`` x ``width`` pixels has."""
        return sum(
            -(-height // stride) * -(-width // stride) * len(sides)
            for stride, sides in zip(self.strides, self.sides, strict=True)
        )


RETINAFACE = Faces(
    strides=(8, 16, 32),
    sides=((16, 32), (64, 128), (256, 512)),
    who="RetinaFace on MobileNet or ResNet",
)
SMALL_FACES = Faces(
    strides=(8, 16, 32, 64),
    sides=((10, 16, 24), (32, 48), (64, 96), (128, 192, 256)),
    who="the Ultra-Light detector of faces",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Priors:
    """The rule of an SSD: sizes are shares of the picture's side, one more than there are levels.

    A cell has a square of the level's size, one between that and the next level's, and for every
    ratio r two rectangles. ``first_between`` says whether the first level has the second square.
    Cells divide the picture evenly unless ``strides`` has their pixels.
    """

    who: str
    grids: tuple[int, ...]
    sizes: tuple[float, ...]
    ratios: tuple[tuple[int, ...], ...]
    strides: tuple[int, ...] = ()
    first_between: bool = True
    clipped: bool = True

    def anchors(self, side: int) -> Anchors:
        levels = []
        following = self.sizes[1:]
        for level, (size, after) in enumerate(zip(self.sizes, following, strict=False)):
            shapes = [(size, size)]
            if level or self.first_between:
                shapes.append((math.sqrt(size * after),) * 2)
            for ratio in self.ratios[level]:
                wide, high = size * math.sqrt(ratio), size / math.sqrt(ratio)
                shapes += [(wide, high), (high, wide)]
            most = 1.0 if self.clipped else math.inf
            levels.append(tuple(_short(min(v, most) * side) for shape in shapes for v in shape))
        return Anchors(
            levels=tuple(levels),
            who=self.who,
            grids=() if self.strides else self.grids,
            strides=self.strides,
        )

    def count(self) -> int:
        """Return how many anchors the rule gives."""
        return sum(
            len(v) // 2 * g * g for g, v in zip(self.grids, self.anchors(1).levels, strict=True)
        )


def ssd_anchors(count: int, classes: int, height: int, width: int) -> Anchors | None:
    """Return the anchors of an SSD that has ``count`` for pictures of this size.

    None if the picture is not square, or if no usual SSD has that many.
    """
    if height != width:
        return None
    for rule in _ssd_rules(classes, height):
        if rule.count() == count:
            return rule.anchors(height)
    return None


def _ssd_rules(classes: int, side: int) -> Iterator[_Priors]:
    """Yield the rules of usual networks for a picture of ``side`` x ``side`` pixels.

    Sizes of SSD300 and SSD512: Liu et al., "SSD", 2016, for Pascal VOC (20 classes) and COCO; of
    SSDLite: torchvision's ssdlite320_mobilenet_v3_large.
    """
    many = (2, 3)
    voc = classes == 20
    data = "Pascal VOC" if voc else "COCO"
    if side == 300:
        sizes = (0.1, 0.2, 0.37, 0.54, 0.71, 0.88, 1.05)
        if not voc:
            sizes = (0.07, 0.15, 0.33, 0.51, 0.69, 0.87, 1.05)
        yield _Priors(
            who=f"SSD300 on {data}",
            grids=(38, 19, 10, 5, 3, 1),
            strides=(8, 16, 32, 64, 100, 300),
            sizes=sizes,
            ratios=((2,), many, many, many, (2,), (2,)),
        )
    if side == 512:
        wide_sizes = (0.07, 0.15, 0.3, 0.45, 0.6, 0.75, 0.9, 1.05)
        if not voc:
            wide_sizes = (0.04, 0.1, 0.26, 0.42, 0.58, 0.74, 0.9, 1.06)
        yield _Priors(
            who=f"SSD512 on {data}",
            grids=(64, 32, 16, 8, 4, 2, 1),
            sizes=wide_sizes,
            ratios=((2,), many, many, many, many, (2,), (2,)),
        )
    grids = [-(-side // _FIRST_STRIDE)]
    while len(grids) < _MOBILE_LEVELS:
        grids.append(-(-grids[-1] // 2))
    shares = (0.2, 0.35, 0.5, 0.65, 0.8, 0.95)
    yield _Priors(
        who="SSDLite on MobileNet",
        grids=tuple(grids),
        sizes=(*shares, 1.1 if side == 300 else 1.0),
        strides=(16, 32, 64, 100, 150, 300) if side == 300 else (),
        ratios=(many,) * _MOBILE_LEVELS,
    )
    yield _Priors(
        who="SSD on MobileNet in Caffe",
        grids=tuple(grids),
        sizes=(*shares, 1.0),
        ratios=((2,), *(many,) * (_MOBILE_LEVELS - 1)),
        first_between=False,
        clipped=False,
    )


def is_tensorflows_ssd(count: int, side: int) -> bool:
    """Return whether an SSD of TensorFlow has ``count``: 3 in a cell of the first level, then 6."""
    return any(not rule.first_between and rule.count() == count for rule in _ssd_rules(0, side))


def _short(pixels: float) -> float:
    return float(f"{pixels:.6g}")

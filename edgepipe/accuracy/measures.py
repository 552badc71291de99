"""The measures of tasks: top-1 and top-5, AP50 and AP50:95, mIoU, or a user's own function."""

from __future__ import annotations

import importlib
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from edgepipe.accuracy.data import Sample, TrueBoxes, read_mask, truth_of
from edgepipe.errors import AccuracyError
from edgepipe.frontend.preprocess import Preprocess
from edgepipe.picture_size import MOST_PIXELS
from edgepipe.report.detection import Boxes

Array = NDArray[Any]
Float = NDArray[np.float64]
Outputs = Mapping[str, Array]

IGNORED = 255  # the class of pixels that do not count, as in PASCAL VOC and Cityscapes
TOP = 5
# COCO's measure (pycocotools/cocoeval.py): IoU thresholds 0.50, 0.55 ... 0.95, precision at 101
# recalls, and at most 100 boxes of each class in a picture.
THRESHOLDS = np.linspace(0.5, 0.95, 10)
RECALLS = np.linspace(0.0, 1.0, 101)
MOST_BOXES = 100


class Measure(Protocol):
    """Gathers the answers of a network, and returns figures by their names."""

    def add(self, picture: Sample, outputs: Outputs) -> None:
        """Add the network's outputs for one picture, arrays as the network returns them."""

    def result(self) -> dict[str, float]:
        """Return the figures over all pictures."""


class TopK:
    """The share of pictures whose class is the best, or among the best five, of the only output."""

    def __init__(self, labels: Mapping[str, int], where: Path) -> None:
        self._labels = labels
        self._where = where
        self._pictures = 0
        self._classes = 0
        self._hits = np.zeros(TOP, np.int64)  # by rank

    def add(self, picture: Sample, outputs: Outputs) -> None:
        """Add the scores of all classes. Raises ``AccuracyError`` for an unknown picture."""
        scores = only_output(outputs).reshape(-1)
        label = truth_of(picture.name, self._labels, self._where)
        if label >= scores.size:
            raise AccuracyError(
                f"{self._where}: picture {picture.name} has class {label}, the network knows "
                f"{scores.size}",
                hint="number the classes from 0",
            )
        best = np.argsort(-scores, kind="stable")[:TOP]
        self._hits[: best.size] += best == label
        self._classes = scores.size
        self._pictures += 1

    def result(self) -> dict[str, float]:
        """Return top-1, and top-5 if there are more classes than five."""
        shares = np.cumsum(self._hits) / max(self._pictures, 1)
        found = {"top-1": float(shares[0])}
        return found | ({"top-5": float(shares[-1])} if self._classes > TOP else {})


class AveragePrecision:
    """COCO's AP50 and AP50:95 of boxes, the means over all classes that have true boxes.

    For each class and IoU threshold: found boxes in descending order of score, each matched with
    the free true box that it overlaps most; a box that matches a crowd does not count. Precision is
    made non-increasing and averaged at 101 recalls (Lin et al., Microsoft COCO, 2014).
    """

    def __init__(
        self,
        boxes: Mapping[str, TrueBoxes],
        where: Path,
        decode: Callable[[Sample, Outputs], Boxes],
    ) -> None:
        """``decode`` returns a picture's boxes in its own pixels, best first."""
        self._boxes = boxes
        self._where = where
        self._decode = decode
        self._true: defaultdict[int, int] = defaultdict(int)
        # By class: the scores of found boxes, and whether they are right and whether they count,
        # bool[thresholds, n].
        self._found: defaultdict[int, list[tuple[Float, Array, Array]]] = defaultdict(list)

    def add(self, picture: Sample, outputs: Outputs) -> None:
        """Match the boxes of one picture. Raises ``AccuracyError`` for an unknown picture."""
        true = truth_of(picture.name, self._boxes, self._where)
        found = self._decode(picture, outputs)
        for number in np.union1d(true.classes, found.classes).tolist():
            mine, of_class = found.classes == number, true.classes == number
            crowd = true.crowd[of_class]
            self._true[number] += int((~crowd).sum())
            right, counts = match(found.corners[mine][:MOST_BOXES], true.corners[of_class], crowd)
            self._found[number].append((found.scores[mine][:MOST_BOXES], right, counts))

    def result(self) -> dict[str, float]:
        """Return AP50 and AP50:95; both are 0 if no picture has a true box."""
        by_class = [self._precision(number, true) for number, true in self._true.items() if true]
        mean = np.mean(by_class, axis=0) if by_class else np.zeros(len(THRESHOLDS))
        return {"AP50": float(mean[0]), "AP50:95": float(mean.mean())}

    def _precision(self, number: int, true: int) -> Float:
        """Return a class's average precision at each threshold, float64[thresholds]."""
        parts = zip(*self._found[number], strict=True)
        scores, right, counts = (np.concatenate(part, axis=-1) for part in parts)
        order = np.argsort(-scores, kind="stable")
        result = np.zeros(len(THRESHOLDS))
        for index in range(len(THRESHOLDS)):
            hits = right[index, order][counts[index, order]]
            total = np.cumsum(hits)
            precision = total / np.arange(1, hits.size + 1)
            precision = np.maximum.accumulate(precision[::-1])[::-1]
            at = np.searchsorted(total / true, RECALLS, side="left")
            result[index] = np.append(precision, 0.0)[np.minimum(at, hits.size)].mean()
        return result


def match(found: Float, true: Float, crowd: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Match boxes of one class in one picture at every IoU threshold, as COCO does.

    ``found: float64[n, 4]`` is best first; ``true: float64[m, 4]``, ``crowd: bool[m]``. Returns
    which found boxes are right and which count, both bool[thresholds, n]. A box that overlaps only
    a crowd does not count.
    """
    right = np.zeros((len(THRESHOLDS), len(found)), np.bool_)
    counts = np.ones_like(right)
    if not len(true):
        return right, counts
    overlaps = _overlaps(found, true, crowd)
    for level, threshold in enumerate(THRESHOLDS):
        free = ~crowd
        for index, overlap in enumerate(overlaps):
            close = np.where(free & (overlap >= threshold), overlap, -1.0)
            # Of equally close boxes COCO takes the last.
            best = len(true) - 1 - int(close[::-1].argmax())
            if close[best] >= 0:
                right[level, index] = True
                free[best] = False
            elif (overlap[crowd] >= threshold).any():
                counts[level, index] = False
    return right, counts


def _overlaps(found: Float, true: Float, crowd: NDArray[np.bool_]) -> Float:
    """Return the IoU, float64[n, m]; for a crowd the share of the found box that is inside."""
    low = np.maximum(found[:, None, :2], true[None, :, :2])
    high = np.minimum(found[:, None, 2:], true[None, :, 2:])
    shared = np.prod(np.clip(high - low, 0, None), axis=2)
    areas = [np.prod(boxes[:, 2:] - boxes[:, :2], axis=1) for boxes in (found, true)]
    union = areas[0][:, None] + np.where(crowd, 0.0, areas[1][None] - shared)
    result: Float = shared / np.maximum(union, 1e-9)
    return result


class MeanIou:
    """The mean over classes of intersection over union of pixels (Everingham et al., PASCAL VOC).

    The only output has scores [1, classes, h, w] or classes [1, h, w]. It is stretched to the
    network's input, the mask is fitted there as the picture was, both to the nearest pixel. Pixels
    of class 255 do not count.
    """

    def __init__(self, masks: Path, preprocess: Preprocess, most_pixels: int = MOST_PIXELS) -> None:
        self._masks = masks
        self._preprocess = preprocess
        self._most_pixels = most_pixels
        self._shared: Counter[int] = Counter()  # pixels, by class
        self._either: Counter[int] = Counter()

    def add(self, picture: Sample, outputs: Outputs) -> None:
        """Add one picture. Raises ``AccuracyError`` for an output or a mask of another form."""
        output = only_output(outputs)
        if output.ndim not in (3, 4) or output.shape[0] != 1:
            raise AccuracyError(
                f"the output is {output.dtype}{list(output.shape)}, expected scores "
                "[1, classes, h, w] or classes [1, h, w]",
                hint="masks are for networks that give every pixel a class",
            )
        classes = output[0].argmax(axis=0) if output.ndim == 4 else np.rint(output[0])
        size = self._preprocess.frame_shape[1:3]
        rows, columns = (
            np.minimum((np.arange(to) + 0.5) * of / to, of - 1).astype(np.int64)
            for to, of in zip(size, classes.shape, strict=True)
        )
        found = classes[np.ix_(rows, columns)]
        mask = self._fitted(read_mask(self._masks, picture, self._most_pixels))
        counted = mask != IGNORED
        found, mask = found[counted], mask[counted]
        for number in np.union1d(found, mask).astype(np.int64).tolist():
            self._shared[number] += int(((found == number) & (mask == number)).sum())
            self._either[number] += int(((found == number) | (mask == number)).sum())

    def _fitted(self, mask: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return the mask uint8[h, w] where the network's input shows the picture."""
        scale_x, scale_y, left, top = self._preprocess.placement(mask.shape[1], mask.shape[0])
        _, height, width, _ = self._preprocess.frame_shape
        rows = np.floor((np.arange(height) + 0.5 + top) / scale_y).astype(np.int64)
        columns = np.floor((np.arange(width) + 0.5 + left) / scale_x).astype(np.int64)
        fitted = np.full((height, width), IGNORED, np.uint8)  # as are bars beside the picture
        in_rows, in_columns = _inside(rows, mask.shape[0]), _inside(columns, mask.shape[1])
        fitted[np.ix_(in_rows, in_columns)] = mask[np.ix_(rows[in_rows], columns[in_columns])]
        return fitted

    def result(self) -> dict[str, float]:
        """Return the mean over the classes that a mask or an answer has."""
        shares = [self._shared[number] / pixels for number, pixels in self._either.items()]
        return {"mIoU": float(np.mean(shares)) if shares else 0.0}


def _inside(places: NDArray[np.int64], extent: int) -> NDArray[np.bool_]:
    """Return which places are from 0 to below ``extent``."""
    return (places >= 0) & (places < extent)


class OwnMeasure:
    """A user's function of one picture's name and outputs; its figures are averaged.

    It returns a number, or numbers by their names.
    """

    def __init__(self, name: str, function: Callable[[str, dict[str, Array]], Any]) -> None:
        self._name = name
        self._function = function
        self._figures: defaultdict[str, list[float]] = defaultdict(list)

    def add(self, picture: Sample, outputs: Outputs) -> None:
        """Call the function. Raises ``AccuracyError`` if it fails or returns something else."""
        try:
            found = self._function(picture.name, dict(outputs))
        except Exception as cause:  # whatever the user's code raises
            raise AccuracyError(
                f"{self._name}: failed at picture {picture.name}: {type(cause).__name__}: {cause}",
                hint="call the function with this picture's outputs to find the fault",
            ) from cause
        figures = found if isinstance(found, Mapping) else {self._function.__name__: found}
        for name, value in figures.items():
            try:
                self._figures[str(name)].append(float(value))
            except (TypeError, ValueError) as cause:
                raise AccuracyError(
                    f"{self._name}: returned {type(value).__name__} for picture {picture.name}, "
                    "expected a number",
                    hint="return a number, or a dict of numbers by their names",
                ) from cause

    def result(self) -> dict[str, float]:
        """Return the means over all pictures."""
        return {name: float(np.mean(values)) for name, values in self._figures.items()}


def own_measure(name: str) -> Callable[[], Measure]:
    """Return what makes the measure ``module:function``.

    Raises ``AccuracyError`` if the module cannot be imported or has no such function.
    """
    module_name, _, function_name = name.partition(":")
    if not module_name or not function_name:
        raise AccuracyError(
            f"metric {name!r}: expected module:function",
            hint="name a module that Python can import, and a function in it",
        )
    try:
        module = importlib.import_module(module_name)
    except Exception as cause:  # whatever the user's code raises
        raise AccuracyError(
            f"metric {name!r}: {module_name} cannot be imported: {cause}",
            hint="run the command in the folder of the module, or install the module",
        ) from cause
    function = getattr(module, function_name, None)
    if not callable(function):
        raise AccuracyError(
            f"metric {name!r}: {module_name} has no function {function_name}",
            hint="name a function that takes a picture's name and a dict of outputs",
        )
    return lambda: OwnMeasure(name, function)


def only_output(outputs: Outputs) -> Array:
    """Return a network's only output, of its own dtype and shape.

    Raises ``AccuracyError`` if there are several.
    """
    if len(outputs) != 1:
        raise AccuracyError(
            f"the network has {len(outputs)} outputs ({', '.join(outputs)}), expected one",
            hint="write a function for this network's measure",
            option="metric",
            value="MODULE:FUNCTION",
        )
    (output,) = outputs.values()
    return output

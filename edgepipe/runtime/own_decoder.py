"""A bundle's own decoder in Python: the user's function turns a frame's outputs into results.

    def decode(outputs: Mapping[str, NDArray[np.float32]]) -> list[edgepipe.Detection]:
        return [edgepipe.Detection(*box, score, 0) for *box, score in outputs["boxes"][0]]

The library of the same bundle does this on boards (``edgepipe/decoder_function.h``). Both give
equal results: numbers become float32, and the same limits hold.
"""

from __future__ import annotations

import hashlib
import math
import operator
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from types import ModuleType
from typing import Any

import numpy as np

from edgepipe.errors import RuntimeFailure
from edgepipe.runtime.results import ClassScore, Detection, FrameResult, Point, label_of

_CORRECT_HINT = "correct the bundle's own decoder and build the bundle again"
_TOO_MANY_HINT = (
    "report only the best results, or raise `most` in the description and build the bundle again"
)
_EXPECTED = {
    "boxes": (Detection, "a list of edgepipe.Detection"),
    "classes": (ClassScore, "a list of edgepipe.ClassScore"),
    "points": (Point, "a list of edgepipe.Point"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderSettings:
    """A decoder's Python source, its function ``FILE:NAME``, and what it takes and gives.

    ``outputs`` are the names of the tensors that the function gets. ``gives`` is ``boxes``,
    ``classes``, ``points`` or ``text``; ``most`` limits the results of a frame, or the bytes of a
    text, and ``points`` those of a box.
    """

    function: str
    source: str
    outputs: tuple[str, ...]
    gives: str
    most: int
    points: int


class OwnDecoder:
    """Calls the function of one pipeline. One thread at a time.

    Runs the source, which can do whatever this process can. Raises RuntimeFailure if that fails or
    gives no such function.
    """

    def __init__(self, settings: DecoderSettings, labels: tuple[str, ...]) -> None:
        self._settings = settings
        self._labels = labels
        path, _, self._name = settings.function.rpartition(":")
        self._file = PurePosixPath(path).name
        self._function = self._load()
        self.failure: RuntimeFailure | None = None
        """Why a frame could not be decoded; every later frame fails like this."""

    def _load(self) -> Callable[[dict[str, Any]], Any]:
        source = self._settings.source
        name = f"edgepipe_decoder_{hashlib.sha256(source.encode()).hexdigest()[:16]}"
        module = ModuleType(name)
        sys.modules[name] = module  # dataclasses look for their module there
        try:
            exec(compile(source, self._file, "exec"), module.__dict__)
        except Exception as cause:
            raise RuntimeFailure(
                f"own decoder: {self._file}: {self._reason(cause)}", hint=_CORRECT_HINT
            ) from cause
        function = getattr(module, self._name, None)
        if not callable(function):
            raise RuntimeFailure(
                f"own decoder: {self._file}: no function {self._name!r}",
                hint="correct `function` in the description and build the bundle again",
            )
        found: Callable[[dict[str, Any]], Any] = function
        return found

    def decode(self, result: FrameResult) -> None:
        """Fill in what the outputs of ``result`` show, in pixels of the network's input.

        Raises RuntimeFailure, with the function's own exception as its cause, if the function fails
        or returns something else than its description says.
        """
        if self.failure is not None:
            raise self.failure
        outputs = {}
        for name in self._settings.outputs:
            outputs[name] = result.outputs[name].view()
            outputs[name].flags.writeable = False
        context = f"postprocessing of frame {result.frame}: own decoder: "
        try:
            self._take(result, self._function(outputs))
        except _WrongResults as wrong:
            self.failure = RuntimeFailure(f"{context}{wrong}", hint=wrong.hint)
            raise self.failure from None
        except Exception as cause:
            self.failure = RuntimeFailure(f"{context}exception: {self._reason(cause)}")
            raise self.failure from cause

    def _take(self, result: FrameResult, found: Any) -> None:
        gives = self._settings.gives
        if gives == "text":
            result.text, result.text_score = self._text(found)
            return
        kind, expected = _EXPECTED[gives]
        if not isinstance(found, list | tuple):
            raise _WrongResults(f"{self._name} returned {_a(found)}, expected {expected}")
        for item in found:
            if not isinstance(item, kind):
                raise _WrongResults(
                    f"{self._name} returned a list that holds {_a(item)}, expected {expected}"
                )
        self._check_count(gives, len(found))
        if gives == "boxes":
            result.detections = self._boxes(found)
        elif gives == "classes":
            result.classes = tuple(self._class(index, item) for index, item in enumerate(found))
        else:
            result.points = tuple(
                replace(_point(index, item), label=label_of(self._labels, index))
                for index, item in enumerate(found)
            )

    def _boxes(self, found: Sequence[Detection]) -> tuple[Detection, ...]:
        counts = [len(box.points) for box in found]
        total = sum(counts)
        most = self._settings.most * self._settings.points
        if total > most:
            raise _WrongResults(
                f"found {total} points, expected at most {most}", hint=_TOO_MANY_HINT
            )
        if len(set(counts)) > 1:
            raise _WrongResults(
                f"found {total} points for {len(found)} boxes, expected as many for each box"
            )
        boxes = []
        points = 0  # counted over all boxes, as in the C interface
        for index, box in enumerate(found):
            left, top, right, bottom, score = _finite(
                "box", index, (box.left, box.top, box.right, box.bottom, box.score)
            )
            label = _label("box", index, box.label_index)
            taken = tuple(_point(points + k, point) for k, point in enumerate(box.points))
            points += len(taken)
            name = label_of(self._labels, label)
            boxes.append(Detection(left, top, right, bottom, score, label, name, taken))
        return tuple(boxes)

    def _class(self, index: int, item: ClassScore) -> ClassScore:
        score, probability = _finite("class", index, (item.score, item.probability))
        label = _label("class", index, item.label_index)
        return ClassScore(score, probability, label, label_of(self._labels, label))

    def _text(self, found: Any) -> tuple[str, float]:
        match found:
            case (str(text), int() | float() | np.floating() as score):
                try:
                    content = text.encode()
                except UnicodeEncodeError:
                    raise _WrongResults("the text has a surrogate, which UTF-8 lacks") from None
                self._check_count("bytes of text", len(content))
                if not math.isfinite(score):
                    raise _WrongResults("the score of the text is not a finite number")
                return text, float(np.float32(score))
        raise _WrongResults(
            f"{self._name} returned {_a(found)}, expected a tuple of a text and its score"
        )

    def _check_count(self, what: str, found: int) -> None:
        most = self._settings.most
        if found > most:
            raise _WrongResults(
                f"found {found} {what}, expected at most {most}", hint=_TOO_MANY_HINT
            )

    def _reason(self, cause: Exception) -> str:
        """Return the exception's type and text, and the line of the decoder's file."""
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(cause.__traceback__)
            if frame.filename == self._file
        ]
        place = f" ({self._file}:{lines[-1]})" if lines else ""
        return f"{type(cause).__name__}: {cause}{place}"


class _WrongResults(Exception):  # noqa: N818  (never leaves this module)
    def __init__(self, text: str, hint: str = _CORRECT_HINT) -> None:
        super().__init__(text)
        self.hint = hint


def _finite(what: str, index: int, values: Sequence[float]) -> list[float]:
    """Return values as the float32 that the C interface has; JSON has only finite ones."""
    with np.errstate(over="ignore"):
        rounded = [float(np.float32(value)) for value in values]
    if not all(map(math.isfinite, rounded)):
        raise _WrongResults(f"{what} {index} has a value that is not a finite number")
    return rounded


def _label(what: str, index: int, label_index: int) -> int:
    label = operator.index(label_index)
    if label < 0:
        raise _WrongResults(f"{what} {index} has label_index {label}, expected 0 or more")
    return label


def _point(index: int, item: Point) -> Point:
    x, y, score = _finite("point", index, (item.x, item.y, item.score))
    return Point(x, y, score)


def _a(found: object) -> str:
    """Name the type of a value, with its article."""
    name = "None" if found is None else type(found).__name__
    article = "an" if name[0].lower() in "aeiou" else "a"
    return name if found is None else f"{article} {name}"

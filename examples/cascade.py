"""Find objects with one network, and look at each of them with another one.

    python examples/cascade.py build/demo/nanodet.edgepipe build/demo/classifier.edgepipe \\
        examples/calibration --label person --label dog

Runs on a board with the wheel `edgepipe_runtime` and OpenCV, and on this machine. Both networks use
one accelerator: each has it for one run of a stage at a time. Three things happen at once:

    pictures --> [ detector ] --boxes--> cut out, plain Python --crops--> [ classifier ] --> lines
"""

from __future__ import annotations

import argparse
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np

import edgepipe_runtime as edgepipe


class Found(NamedTuple):
    """An object: the detector's box, and what the classifier says of it."""

    box: edgepipe.Detection
    seen: edgepipe.FrameResult


class Cascade:
    """Two pipelines, and between them a plain function that cuts boxes out of pictures."""

    def __init__(
        self,
        detector: edgepipe.Pipeline,
        classifier: edgepipe.Pipeline,
        *,
        labels: Sequence[str] = (),
        most: int = 8,
        margin: float = 0.1,
    ) -> None:
        """Look at the ``most`` best boxes of a picture that have one of the ``labels`` (or any).

        Each crop is larger than its box by ``margin`` of the box's sides, as far as there is
        picture.
        """
        self.detector = detector
        self.classifier = classifier
        self.labels = frozenset(labels)
        self.most = most
        self.margin = margin

    def crops(
        self, picture: np.ndarray, result: edgepipe.FrameResult
    ) -> list[tuple[edgepipe.Detection, np.ndarray]]:
        """Return boxes with their part of the picture uint8[height, width, 3], without copies."""
        height, width = picture.shape[:2]
        cut = []
        for box in result.detections:
            if self.labels and box.label not in self.labels:
                continue
            across = self.margin * (box.right - box.left) / 2
            down = self.margin * (box.bottom - box.top) / 2
            left, right = int(max(0, box.left - across)), int(min(width, box.right + across + 1))
            top, bottom = int(max(0, box.top - down)), int(min(height, box.bottom + down + 1))
            if right > left and bottom > top:
                cut.append((box, picture[top:bottom, left:right]))
            if len(cut) == self.most:
                break
        return cut

    def map(self, pictures: Iterable[np.ndarray]) -> Iterator[tuple[np.ndarray, list[Found]]]:
        """Yield each picture with what was found, in order.

        As many pictures are ahead as the detector has slots, so that both networks stay busy. Each
        call of a pipeline waits for its result, so each runs on a thread of its own.
        """
        detecting: deque[tuple[np.ndarray, Future[Any]]] = deque()
        looking: deque[tuple[np.ndarray, list[tuple[edgepipe.Detection, Future[Any]]]]] = deque()
        with (
            ThreadPoolExecutor(self.detector.slots) as detectors,
            ThreadPoolExecutor(self.classifier.slots) as classifiers,
        ):
            source = iter(pictures)
            more = True
            while more or detecting or looking:
                while more and len(detecting) + len(looking) <= self.detector.slots:
                    picture = next(source, None)
                    more = picture is not None
                    if picture is not None:
                        detecting.append((picture, detectors.submit(self.detector, picture)))
                if detecting:
                    picture, boxes = detecting.popleft()
                    cut = self.crops(picture, boxes.result())
                    seen = [(box, classifiers.submit(self.classifier, crop)) for box, crop in cut]
                    looking.append((picture, seen))
                if looking and (len(looking) > 1 or not detecting):
                    picture, seen = looking.popleft()
                    yield picture, [Found(box, future.result()) for box, future in seen]


def pictures(source: str) -> Iterator[np.ndarray]:
    """Yield the pictures of a folder, a video, or a camera's number, in BGR."""
    if Path(source).is_dir():
        for path in sorted(Path(source).iterdir()):
            picture = cv2.imread(str(path))
            if picture is not None:
                yield picture
        return
    video = cv2.VideoCapture(int(source) if source.isdigit() else source)
    while True:
        more, picture = video.read()
        if not more:
            return
        yield picture


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("detector", help="a bundle that finds boxes")
    parser.add_argument("classifier", help="a bundle that looks at them")
    parser.add_argument("source", help="a folder of pictures, a video, or the number of a camera")
    parser.add_argument("--label", action="append", default=[], help="only such boxes")
    parser.add_argument("--device", default="auto:shared", help="default: %(default)s")
    options = parser.parse_args()

    def load(bundle: str) -> edgepipe.Pipeline:
        return edgepipe.load(bundle, device=options.device, pinning="preferred")

    with load(options.detector) as detector, load(options.classifier) as classifier:
        cascade = Cascade(detector, classifier, labels=options.label)
        for number, (_, found) in enumerate(cascade.map(pictures(options.source))):
            for box, seen in found:
                best = seen.classes[0]
                print(
                    f"picture {number}: {box.label} {box.score:.2f} at"
                    f" {box.left:.0f},{box.top:.0f}: {best.label} {best.probability:.2f}"
                )


if __name__ == "__main__":
    main()

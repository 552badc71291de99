"""Run a bundle on a camera's pictures, in Python on a board.

Needs the wheel `edgepipe_runtime` and, for the camera, OpenCV. Picture files need NumPy alone:

    python examples/board_camera.py build/demo/nanodet.edgepipe --pictures examples/calibration
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

import edgepipe_runtime as edgepipe


def camera_pictures(number: int) -> Iterator[np.ndarray]:
    """Yield the pictures of a V4L2 camera as uint8[height, width, 3] in BGR."""
    import cv2

    camera = cv2.VideoCapture(number)
    # Of the formats that a driver may prefer, OpenCV does not convert all.
    camera.set(cv2.CAP_PROP_FOURCC, cv2.VideoWriter.fourcc(*"YUYV"))
    while True:
        found, picture = camera.read()
        if not found:
            raise SystemExit(f"camera {number}: gives no picture")
        yield picture


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bundle")
    parser.add_argument("--camera", type=int, default=0, help="number of /dev/videoN")
    parser.add_argument("--pictures", type=Path, help="a folder, in place of the camera")
    parser.add_argument("--frames", type=int, default=100)
    options = parser.parse_args()
    pictures: Iterable[str | np.ndarray] = (
        (str(path) for path in sorted(options.pictures.iterdir()))
        if options.pictures
        else camera_pictures(options.camera)
    )
    with edgepipe.load(options.bundle, pinning="preferred") as pipeline:
        begun = time.monotonic()
        count = 0
        for picture in pictures:
            result = pipeline(picture)
            found = [f"{box.label} {box.score:.2f}" for box in result.detections]
            found += [f"{entry.label} {entry.probability:.2f}" for entry in result.classes[:1]]
            print(f"frame {result.frame}: {', '.join(found) or result.text or 'nothing'}")
            count += 1
            if count == options.frames:
                break
        print(f"{count / (time.monotonic() - begun):.1f} frames/s on {pipeline.device}")


if __name__ == "__main__":
    main()

"""Run a bundle on a picture and print what the network recognised.

    python examples/run_bundle.py build/demo/nanodet.edgepipe examples/calibration/dog.jpg

`make demo` builds the bundle. On a board the same program uses the accelerator, on any other
machine the simulator; the results are bit-identical.
"""

from __future__ import annotations

import sys

import edgepipe


def main(bundle: str, picture: str) -> None:
    """Print boxes for a detector, classes for a classifier, shapes for any other network."""
    with edgepipe.load(bundle) as pipeline:  # starts one thread for each stage
        result = pipeline(picture)  # fits the picture to the input, runs it, and waits
    for box in result.detections:
        print(
            f"{box.label:12} {box.score:4.2f}  "
            f"({box.left:.0f}, {box.top:.0f}) to ({box.right:.0f}, {box.bottom:.0f})"
        )
    for found in result.classes:
        print(f"{found.label:12} {found.probability:6.1%}")
    if not result.detections and not result.classes:
        for name, array in result.outputs.items():
            print(f"{name}: {array.dtype}{list(array.shape)}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(f"usage: {sys.argv[0]} BUNDLE PICTURE")
    try:
        main(sys.argv[1], sys.argv[2])
    except edgepipe.EdgepipeError as error:  # one line that says what is wrong and how to fix it
        sys.exit(f"{error}\nhint: {error.hint}")

"""Build a small network for your own board and run it on a simulator of its accelerator.

python examples/own_board/run.py examples/own_board/zcu102.toml
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import edgepipe

EXAMPLES = Path(__file__).resolve().parent.parent


def main(board: str) -> None:
    """Print the stages of a ResNet-8 and the time that each takes here."""
    with tempfile.TemporaryDirectory() as folder:
        bundle = edgepipe.build(
            EXAMPLES / "fmnist_resnet8.onnx",
            board=board,
            calibration=EXAMPLES / "calibration",
            output=Path(folder) / "resnet8.edgepipe",
        )
        with edgepipe.load(bundle) as pipeline:
            result = pipeline(EXAMPLES / "calibration/dog.jpg")
            print(f"frame {result.frame}: {len(result.classes)} classes")
            for stage in pipeline.statistics().stages:
                print(f"{stage.name}: {stage.busy.median_ms:.2f} ms")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} BOARD.toml")
    try:
        main(sys.argv[1])
    except edgepipe.EdgepipeError as error:  # for example an unknown key in the board's file
        sys.exit(f"{error}\nhint: {error.hint}")

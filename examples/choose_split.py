"""Split a network by the costs of its board file, measure the board, and split it again.

Both bundles run on the board, with the same bits. Without --host this machine stands in for it: the
accelerator is the simulator at the modelled speed, and the cores are this machine's.

    python examples/choose_split.py examples/fmnist_resnet8.onnx \
        --calib examples/calibration --output build/splits
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path


def edgepipe(*arguments: object) -> None:
    """Run a command of edgepipe as a shell would; end with its exit code if it fails."""
    command = [sys.executable, "-m", "edgepipe", *map(str, arguments)]
    print("edgepipe", *arguments[:2], "...", flush=True)
    code = subprocess.run(command, check=False).returncode
    if code:
        sys.exit(code)


def main() -> None:
    """Build, measure, build again, and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("network", type=Path, help="ONNX network")
    parser.add_argument("--calib", type=Path, required=True, help="calibration pictures")
    parser.add_argument("--board", default="ultra96", help="board to begin with")
    parser.add_argument("--host", help="board to measure, as ssh knows it")
    parser.add_argument("--output", type=Path, required=True, help="folder for all results")
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    where = ("--host", given.host) if given.host else ("--timed",)
    # Root may try it in a container: the server is this machine's, and ends with the command.
    trial = () if given.host or os.geteuid() else ("--allow-root",)
    measured = given.output / "measured.toml"
    for name, board in (("shipped", given.board), ("measured", measured)):
        if board == measured:
            edgepipe("measure", "--board", given.board, "-o", measured, *where, *trial)
        bundle = given.output / f"{name}.edgepipe"
        options = ("--board", board, "--calib", given.calib, "-o", bundle)
        edgepipe("build", given.network, *options, "--objective", "throughput")
        edgepipe("bench", bundle, "-o", given.output / f"{name}.json", *where)
    edgepipe("bench", "--compare", given.output / "shipped.json", given.output / "measured.json")


if __name__ == "__main__":
    main()

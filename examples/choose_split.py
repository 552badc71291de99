"""Split a network three times: by the shipped costs, by the board's own, and by the network's own.

The second split follows what the board's accelerator and cores take in general
(`edgepipe measure`), the third what this network's operators and stages take there (`--network`).
All bundles run on the board, with the same bits. Without --host this machine stands in for it: the
accelerator is the simulator at the modelled speed, and the cores are this machine's.

    python examples/choose_split.py examples/fmnist_resnet8.onnx \
        --calib examples/calibration --output build/splits
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path


def edgepipe(*arguments: object, quiet: bool = False) -> str:
    """Run a command of edgepipe as a shell would; end with its exit code if it fails.

    Return what it printed if that is not shown.
    """
    command = [sys.executable, "-m", "edgepipe", *map(str, arguments)]
    print("edgepipe", *arguments[:2], "...", flush=True)
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE if quiet else None)
    if done.returncode:
        sys.exit(done.returncode)
    return (done.stdout or b"").decode()


def shown(bundle: Path) -> tuple[str, dict[str, str], list[str]]:
    """Return a bundle's stages in words, each operator's device, and digests of its outputs."""
    found = json.loads(edgepipe("inspect", bundle, "--json", quiet=True))
    devices = {placed["operator"]: placed["device"] for placed in found["placement"]}
    on_vta = sum(device == "vta" for device in devices.values())
    digests = {each["path"]: each["sha256"] for each in found["files"]}
    golden = [digests[each["file"]] for each in found["golden"]["outputs"]]
    return f"{len(found['stages'])} stages, {on_vta} operators on the VTA", devices, golden


def main() -> None:
    """Build, measure the board, build again, measure the network, build again, and compare."""
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
    board, costs = given.output / "board.toml", given.output / "costs.toml"
    splits: dict[str, tuple[object, ...]] = {
        "shipped": ("--board", given.board),
        "board": ("--board", board),
        "network": ("--board", board, "--costs", costs),
    }
    bundles = {name: given.output / f"{name}.edgepipe" for name in splits}
    for name, options in splits.items():
        if name == "board":
            edgepipe("measure", "--board", given.board, "-o", board, *where, *trial)
        elif name == "network":
            what = ("--network", given.network, "--board", board, "-o", costs)
            edgepipe("measure", *what, *where, *trial)
        bundle = bundles[name]
        options = (*options, "--calib", given.calib, "--objective", "throughput", "-o", bundle)
        edgepipe("build", given.network, *options)
        edgepipe("bench", bundle, "-o", given.output / f"{name}.json", *where)
    _, first_devices, first_bits = shown(bundles["shipped"])
    for name, bundle in bundles.items():
        words, devices, bits = shown(bundle)
        moved = sum(devices[operator] != first_devices[operator] for operator in devices)
        if bits != first_bits:
            sys.exit(f"{bundle}: other bits than {bundles['shipped']}")
        print(f"{name}: {words}, {moved} on another device than at first, the same bits")
    for name in ("board", "network"):
        edgepipe("bench", "--compare", given.output / "shipped.json", given.output / f"{name}.json")


if __name__ == "__main__":
    main()

"""Forecast every well-known network of the tests at its full size, and compare with the bars.

The networks are those of ``tests/exported_networks``, with made-up weights, written as the usual
exporters write them. Each must build by the checks of ``edgepipe inspect net.onnx``, which also
gives the figures. Nothing is timed: all times are the model's (docs/reference/timing-model.md).
Names on the command line select networks.
"""

from __future__ import annotations

import dataclasses
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import onnx

from bench.figures import Figure, publish
from bench.models import ROOT
from edgepipe import boards
from edgepipe.cli.console import ConsoleProgress
from edgepipe.errors import EdgepipeError
from edgepipe.forecast import Forecast, ForecastOptions, forecast
from edgepipe.report.table import format_table

sys.path.insert(0, str(ROOT / "tests"))

from exported_networks import NETWORKS

BOARD = boards.load("ultra96")
MEBIBYTE = 1 << 20
LEAST_SHARE = 0.9
MOST_STAGES = 3

# Input sizes of the networks as they are published; the others are for 224x224.
SIZES = {
    "yolov3_tiny": 416, "yolov5n": 320, "yolov8n": 320, "yolov8n_dynamic": 320, "yolo11n": 320,
    "yolox_nano": 416, "ssdlite": 320, "ssdlite_v3": 320, "centernet": 256, "retinaface": 320,
    "unet": 256, "bisenet": 256, "fpn": 256, "mobilevit": 256, "blazeface": 128,
    "yolov5_focus": 320, "deeplab": 257,
}  # fmt: skip
# The frame rate must come near what the busier device alone allows.
BUSY = ("yolov8n", "yolox_nano", "ssdlite_v3", "efficientnet_b0")
# These must be one program between two ARM stages when depthwise convolutions are on the VTA.
# RegNetY and BiSeNet are not among them: their gates are products of two tensors.
WHOLE = (
    "resnet18", "resnet50", "mobilenet_v1", "mobilenet_v2", "efficientnet_lite0", "shufflenet_v2",
    "squeezenet", "yolov3_tiny", "ssdlite", "centernet", "retinaface", "unet", "fpn",
    "super_resolution", "densenet", "blazeface", "yolov5_focus", "deeplab",
)  # fmt: skip


def foresee(name: str, progress: ConsoleProgress) -> dict[str, Forecast]:
    """Return a network's forecasts by where its depthwise convolutions run, "vta" only if asked."""
    size = SIZES.get(name, 224)
    network = dataclasses.replace(NETWORKS[name], size=size, width=1.0, depth=1.0)
    wishes = ("auto", "vta") if name in WHOLE else ("auto",)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.onnx"
        onnx.save(network.model(), path)
        path.with_suffix(".toml").write_text(
            f'[preprocess]\nwidth = {size}\nheight = {size}\norder = "RGB"\n'
            f"mean = {[120.0] * 3}\nstd = {[60.0] * 3}\n"
        )
        return {
            wish: forecast(ForecastOptions(model=path, board=BOARD, depthwise=wish), progress)
            for wish in wishes
        }


def builds(name: str, error: str = "") -> Figure:
    """Return whether a network builds; ``error`` says why it does not."""
    return Figure(name=f"{name}: builds", value=float(not error), unit="", at_least=1, source=error)


def figures(name: str, found: dict[str, Forecast]) -> list[Figure]:
    """Return a network's figures, with those limits that apply to it."""
    best = found["auto"]
    label = f"{name} {SIZES.get(name, 224)}"

    def model(
        what: str,
        value: float,
        unit: str,
        at_least: float | None = None,
        at_most: float | None = None,
    ) -> Figure:
        return Figure(
            name=f"{label}: {what}",
            value=value,
            unit=unit,
            at_least=at_least,
            at_most=at_most,
            source="timing model",
        )

    share = best.bound_ms / best.interval_ms
    limit = BOARD.dma_bytes / MEBIBYTE
    made = [
        model("stages", len(best.stages), "stages"),
        model("hops", best.hops, "hops"),
        model("VTA load", 100 * best.vta_load, "%"),
        model("core load", 100 * best.arm_load, "%"),
        model("memory", best.memory.used_bytes / MEBIBYTE, "MiB", at_most=limit),
        model("frame rate", 1e3 / best.interval_ms, "frames/s"),
        model("latency", best.latency_ms, "ms"),
        model(
            "share of what the busier device allows",
            share,
            "",
            at_least=LEAST_SHARE if name in BUSY else None,
        ),
    ]
    if "vta" in found:
        whole = found["vta"]
        made += [
            model("stages, depthwise on VTA", len(whole.stages), "stages", at_most=MOST_STAGES),
            model(
                "memory, depthwise on VTA",
                whole.memory.used_bytes / MEBIBYTE,
                "MiB",
                at_most=limit,
            ),
        ]
    return made


def row(name: str, found: Forecast) -> list[str]:
    """Return a network as cells of the table."""
    return [
        f"{name} {SIZES.get(name, 224)}",
        str(len(found.stages)),
        str(found.hops),
        f"{100 * found.vta_load:.0f} %",
        f"{100 * found.arm_load:.0f} %",
        f"{found.memory.used_bytes / MEBIBYTE:.0f}",
        str(found.memory.slots),
        f"{1e3 / found.interval_ms:.1f}",
        f"{found.latency_ms:.1f}",
        f"{found.bound_ms / found.interval_ms:.2f}",
    ]


def main(names: Sequence[str]) -> int:
    """Forecast the networks, all of them without names; return 1 if a limit is missed."""
    unknown = [name for name in names if name not in NETWORKS]
    if unknown:
        print(f"{unknown[0]}: unknown; known: {', '.join(NETWORKS)}", file=sys.stderr)
        return 2
    progress = ConsoleProgress()
    rows, found = [], []
    for name in names or NETWORKS:
        progress.step(name)
        try:
            forecasts = foresee(name, progress)
        except EdgepipeError as error:
            found.append(builds(name, str(error)))
            continue
        found.append(builds(name))
        rows.append(row(name, forecasts["auto"]))
        found += figures(name, forecasts)
    progress.finish()
    header = [
        "network",
        "stages",
        "hops",
        "VTA",
        "cores",
        "MiB",
        "slots",
        "frames/s",
        "ms",
        "share",
    ]
    print(format_table(header, rows))
    print()
    return publish("networks", found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

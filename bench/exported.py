"""Forecast every well-known network at its full size, and compare with the bars and with float.

The networks are those of ``tests/exported_networks``, with made-up weights, written as the usual
exporters write them, and networks with real weights (``network_cases.py``). Each must build by the
checks of ``edgepipe inspect net.onnx``, which also gives the figures. Nothing is timed: all times
are the model's (docs/reference/timing-model.md). Names on the command line select networks.
``build/bench/networks/`` keeps a row for each network, and ``python -m bench.network_page`` makes
docs/reference/networks.md of them.
"""

from __future__ import annotations

import datetime
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import onnx

from bench.figures import Figure, publish
from bench.models import BUILD, LackingError
from bench.network_accuracy import Nearness, nearness
from bench.network_cases import Case, cases
from edgepipe import boards
from edgepipe.cli.console import ConsoleProgress
from edgepipe.errors import EdgepipeError
from edgepipe.forecast import Forecast, ForecastOptions, forecast
from edgepipe.report.table import format_table

BOARD = boards.load("ultra96")
MEBIBYTE = 1 << 20
LEAST_SHARE = 0.9
MOST_STAGES = 3

ROWS = BUILD / "networks"

# The frame rate must come near what the busier device alone allows.
BUSY = ("yolov8n", "yolox_nano", "ssdlite_v3", "efficientnet_b0")
# These must be one program between two ARM stages when depthwise convolutions are on the VTA.
# RegNetY and BiSeNet are not among them: their gates are products of two tensors.
WHOLE = (
    "resnet18", "resnet50", "mobilenet_v1", "mobilenet_v2", "efficientnet_lite0", "shufflenet_v2",
    "squeezenet", "yolov3_tiny", "ssdlite", "centernet", "retinaface", "unet", "fpn",
    "super_resolution", "densenet", "blazeface", "yolov5_focus", "deeplab",
)  # fmt: skip


def written(case: Case, folder: Path) -> Path:
    """Write a network and its description into a folder and return the network's path."""
    path = folder / f"{case.name.replace(' ', '_')}.onnx"
    onnx.save(case.read(), path)
    pre = case.preprocess
    path.with_suffix(".toml").write_text(
        f'[preprocess]\nwidth = {pre.width}\nheight = {pre.height}\norder = "{pre.order}"\n'
        f"mean = {list(pre.mean)}\nstd = {list(pre.std)}\nscale = {pre.scale}\n"
    )
    return path


def foresee(case: Case, path: Path, progress: ConsoleProgress) -> dict[str, Forecast]:
    """Return a network's forecasts: "auto", "rule" without a search, and "vta" only if asked."""
    plain = ForecastOptions(model=path, board=BOARD)
    wishes = {"auto": plain, "rule": replace(plain, objective="rule")}
    if case.name in WHOLE:
        wishes["vta"] = replace(plain, depthwise="vta")
    return {name: forecast(wish, progress) for name, wish in wishes.items()}


def builds(name: str, error: str = "") -> Figure:
    """Return whether a network builds; ``error`` says why it does not."""
    return Figure(name=f"{name}: builds", value=float(not error), unit="", at_least=1, source=error)


def figures(case: Case, found: dict[str, Forecast], near: Nearness) -> list[Figure]:
    """Return a network's figures, with those limits that apply to it."""
    best, rule = found["auto"], found["rule"]
    name, label = case.name, case.title
    weights = "real weights" if case.weights else "made-up weights"

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
            "frame rate / that without a search",
            rule.interval_ms / best.interval_ms,
            "",
            at_least=1.0,
        ),
        *(
            model(
                f"share of what the busier device allows{way}",
                each.bound_ms / each.interval_ms,
                "",
                at_least=LEAST_SHARE if name in BUSY else None,
            )
            for way, each in (("", best), (", without a search", rule))
        ),
    ]
    made += [
        Figure(
            name=f"{label}: {what} to float, {case.compares}",
            value=value,
            unit=unit,
            source=f"integer Relax, {weights}",
        )
        for what, value, unit in (
            ("cosine", near.cosine, ""),
            ("signal to noise", near.snr_db, "dB"),
        )
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


def row(case: Case, forecasts: dict[str, Forecast], near: Nearness) -> dict[str, object]:
    """Return what the page says about a network; zeros for a forecast that was not asked for."""
    found, whole = forecasts["auto"], forecasts.get("vta")
    return {
        "network": case.title,
        "weights": case.weights,
        "stages": len(found.stages),
        "hops": found.hops,
        "vta_percent": round(100 * found.vta_load),
        "cores_percent": round(100 * found.arm_load),
        "memory_mebibytes": round(found.memory.used_bytes / MEBIBYTE),
        "slots": found.memory.slots,
        "frames_per_second": round(1e3 / found.interval_ms, 1),
        "latency_ms": round(found.latency_ms, 1),
        "share": round(found.bound_ms / found.interval_ms, 2),
        "stages_on_vta": len(whole.stages) if whole else 0,
        "frames_per_second_on_vta": round(1e3 / whole.interval_ms, 1) if whole else 0,
        "compares": case.compares,
        "pictures": near.pictures,
        "cosine": round(near.cosine, 5),
        "snr_db": round(near.snr_db, 1),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }


def row_file(name: str) -> Path:
    """Return the path of a network's row."""
    return ROWS / f"{name.replace(' ', '_')}.json"


def keep(name: str, made: dict[str, object]) -> None:
    """Write a network's row for the page."""
    ROWS.mkdir(parents=True, exist_ok=True)
    row_file(name).write_text(json.dumps(made, indent=1) + "\n")


def main(names: Sequence[str]) -> int:
    """Forecast the networks, all of them without names; return 1 if a limit is missed."""
    known = cases()
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"{unknown[0]}: unknown; known: {', '.join(known)}", file=sys.stderr)
        return 2
    progress = ConsoleProgress()
    rows: list[dict[str, object]] = []
    found: list[Figure] = []
    for name in names or known:
        progress.step(name)
        case = known[name]
        with tempfile.TemporaryDirectory() as folder:
            try:
                path = written(case, Path(folder))
                forecasts = foresee(case, path, progress)
                near = nearness(case, path)
            except EdgepipeError as error:
                found.append(builds(name, str(error)))
                continue
            except LackingError as error:
                progress.notice(f"{name} is left out: {error}")
                continue
        found += [builds(name), *figures(case, forecasts, near)]
        rows.append(row(case, forecasts, near))
        keep(name, rows[-1])
    progress.finish()
    columns = ("network", "stages", "hops", "vta_percent", "cores_percent", "memory_mebibytes")
    columns += ("slots", "frames_per_second", "latency_ms", "share", "cosine", "snr_db")
    header = ["network", "stages", "hops", "VTA %", "cores %", "MiB", "slots", "frames/s", "ms"]
    header += ["share", "cosine", "SNR dB"]
    print(format_table(header, [[str(made[key]) for key in columns] for made in rows]))
    print()
    return publish("networks", found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

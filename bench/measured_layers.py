"""Convolutions that TVM measured on boards: on VTAs with the tiling of each, and on ARM cores.

``measured_layers.json`` holds the facts and says where they come from.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

LAYERS = Path(__file__).with_suffix(".json")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Convolution:
    """A convolution on square pictures, and its time on the day that it was measured."""

    name: str
    date: str
    milliseconds: float
    size: int
    in_channels: int
    out_channels: int
    kernel: int
    stride: int
    pad: int

    @property
    def out_size(self) -> int:
        """Rows and columns of the output."""
        return (self.size + 2 * self.pad - self.kernel) // self.stride + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredLayer(_Convolution):
    """One convolution on ``batch`` square pictures, its tiling in TVM, and its measured time.

    ``set`` is ``A`` (ResNet-18, to fit against), ``B`` (later sessions) or ``group``. ``tile_ci``
    and ``tile_co`` are channel blocks, ``co_threads`` and ``row_threads`` TVM's virtual threads
    over tiles of output blocks and of rows. ``channels_per_group`` is 0 for a dense convolution.
    """

    board: str
    set: str
    channels_per_group: int
    tile_rows: int
    tile_cols: int
    tile_ci: int
    tile_co: int
    co_threads: int
    row_threads: int

    @property
    def macs(self) -> int:
        """Multiplications for one picture."""
        per_output = (self.channels_per_group or self.in_channels) * self.kernel**2
        return self.out_size**2 * self.out_channels * per_output


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredArmLayer(_Convolution):
    """One int8 convolution on a square picture, and its time on four Cortex-A53 of an Ultra96."""

    @property
    def macs(self) -> int:
        """Multiplications for one picture."""
        return self.out_size**2 * self.out_channels * self.in_channels * self.kernel**2


def measured_arm_layers() -> tuple[MeasuredArmLayer, ...]:
    """Return ResNet-18's convolutions; the first of them is the network's first layer."""
    return tuple(MeasuredArmLayer(**item) for item in json.loads(LAYERS.read_text())["arm"])


def measured_layers(board: str, chosen_set: str) -> tuple[MeasuredLayer, ...]:
    """Return the layers of a board (``ultra96``, ``pynq 1x16`` or ``pynq 4x8``) and a set."""
    layers = [MeasuredLayer(**item) for item in json.loads(LAYERS.read_text())["layers"]]
    return tuple(item for item in layers if (item.board, item.set) == (board, chosen_set))

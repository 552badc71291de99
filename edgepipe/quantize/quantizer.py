"""Quantise a float network to integer Relax: options, result and the recipe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from edgepipe.frontend.network import Network
from edgepipe.frontend.preprocess import Frame, Preprocess
from edgepipe.quantize.calibrate import collect_statistics
from edgepipe.quantize.graph import is_integer
from edgepipe.quantize.options import QuantizeOptions
from edgepipe.quantize.ranges import measured_tensors
from edgepipe.quantize.recognise import recognise
from edgepipe.quantize.writer import Writer
from edgepipe.tvm_adapter import IRModule

Float = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizedNetwork:
    """A network in integer Relax.

    ``module`` reads ``input_name: uint8[1, h, w, c]`` and returns the float network's outputs.
    ``scales`` gives the real value of one step of every int8 tensor, float64[channels]; ``reasons``
    says of every operator that is for the CPU (by its float tensor) why.
    """

    name: str
    module: IRModule = field(repr=False)
    preprocess: Preprocess
    input_name: str
    output_names: tuple[str, ...]
    scales: Mapping[str, Float] = field(repr=False)
    reasons: Mapping[str, str] = field(repr=False)
    calibration_frames: int


def quantize(
    network: Network,
    frames: Iterable[Frame],
    preprocess: Preprocess,
    options: QuantizeOptions | None = None,
) -> QuantizedNetwork:
    """Quantise ``network`` with the ranges that it shows on ``frames`` (uint8[1, h, w, c]).

    Raises ``QuantizeError`` when there are no frames, when frames or preprocess do not fit the
    network, and when a tensor's range is not finite.
    """
    options = options or QuantizeOptions()
    graph = recognise(network.module, network.values)
    measured = [tensor for tensor in measured_tensors(graph) if tensor in network.values]
    statistics, count = collect_statistics(
        network, measured, frames, preprocess, limit=options.frames
    )
    writer = Writer(graph, network.module, statistics, preprocess, options)
    module = writer.write()
    return QuantizedNetwork(
        name=network.name,
        module=module,
        preprocess=preprocess,
        input_name=network.input_name,
        output_names=network.output_names,
        scales=writer.scales,
        reasons={node.name: node.reason for node in graph.nodes if not is_integer(node)},
        calibration_frames=count,
    )


__all__ = ["QuantizeOptions", "QuantizedNetwork", "quantize"]

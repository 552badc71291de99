"""How far the integers of a network that was quantised already differ from those it came with.

A shift-only layer keeps int8 weights exactly if their step is that of the output times a power of
two. Otherwise they are rounded again; the error is reported for each layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edgepipe.frontend.given_ranges import GivenRange
from edgepipe.frontend.preprocess import Preprocess
from edgepipe.quantize.graph import ConvNode, Graph
from edgepipe.quantize.integers import IntegerNetwork
from edgepipe.quantize.leaky import gain_for
from edgepipe.quantize.options import QuantizeOptions
from edgepipe.quantize.weights import WHOLE, input_rows
from vta_stages.layers.records import Conv, TransposedConv

Float = NDArray[np.float64]

_SAME_STEP = 1e-6
_NEAR = 0.005  # of 1: ratios this close to it need more digits
_BEYOND = 0.1  # of an input's given range
_LEAST_USED = 0.25  # of an input's given range


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerFidelity:
    """What became of a layer of a network that was quantised already.

    ``snr_db`` is the signal-to-noise ratio of its weights, infinite if their integers are kept.
    ``coarser`` is the largest step of its output divided by the given one, 1 if none was given.
    """

    name: str
    snr_db: float
    coarser: float

    @property
    def is_exact(self) -> bool:
        """Whether the layer has the given integers and the given step."""
        return bool(np.isinf(self.snr_db)) and abs(self.coarser - 1) < _SAME_STEP


def layer_fidelities(
    graph: Graph,
    integers: IntegerNetwork,
    given: Mapping[str, GivenRange],
    options: QuantizeOptions,
) -> tuple[LayerFidelity, ...]:
    """Compare the weights and steps of every convolution and dense layer with the given ones."""
    layers = {o.name: o for o in integers.operations if isinstance(o, Conv | TransposedConv)}
    found = []
    for node in graph.nodes:
        layer = layers.get(node.name) or layers.get(f"{node.name}.int8")
        if not isinstance(node, ConvNode) or layer is None:
            continue
        step = integers.scales[layer.name]
        coarser = 1.0
        if node.name in given:
            coarser = float(step.max()) / given[node.name].step
        unit = gain_for(node.activation.slope, most=options.leaky_steps) * step
        unit = unit * 2.0 ** -layer.epilogue.shift.astype(np.float64)
        found.append(
            LayerFidelity(
                name=node.name,
                snr_db=_snr_db(node, layer, integers.scales, unit),
                coarser=coarser,
            )
        )
    return tuple(found)


def notices(
    layers: tuple[LayerFidelity, ...],
    picture: GivenRange | None,
    preprocess: Preprocess,
) -> tuple[str, ...]:
    """Return sentences about ``layers``, and about an input whose range the pictures do not fit.

    ``picture`` is the given range of the input.
    """
    found = []
    other = [layer for layer in layers if not layer.is_exact]
    if layers:
        kept = len(layers) - len(other)
        found.append(
            f"quantised network: {kept} of {len(layers)} layers keep their int8 weights and steps "
            "exactly"
        )
    found += [_notice(layer) for layer in other]
    if picture is not None:
        values = preprocess.values()
        low, high = float(values.min()), float(values.max())
        width = picture.high - picture.low
        outside = max(picture.low - low, high - picture.high)
        if outside > _BEYOND * width or high - low < _LEAST_USED * width:
            found.append(
                f"the description gives the input values from {low:.4g} to {high:.4g}, the "
                f"network was quantised for {picture.low:.4g} to {picture.high:.4g}: check mean, "
                "std and scale"
            )
    return tuple(found)


def _notice(layer: LayerFidelity) -> str:
    parts = []
    if np.isinf(layer.snr_db):
        parts.append("weights exact")
    else:
        parts.append(f"weights re-quantised with a signal-to-noise ratio of {layer.snr_db:.1f} dB")
    if abs(layer.coarser - 1) >= _SAME_STEP:
        digits = 3 if abs(layer.coarser - 1) >= _NEAR else 6
        parts.append(f"output in steps of {layer.coarser:.{digits}g} times the given one")
    return f"{layer.name}: {', '.join(parts)}"


def _snr_db(
    node: ConvNode,
    layer: Conv | TransposedConv,
    scales: Mapping[str, Float],
    unit: Float,
) -> float:
    """Return the ratio of the weights to their error, each weighted by its input's step."""
    source = scales[layer.input.name]
    real = [input_rows(node, source)]
    weight = layer.weight.astype(np.float64)
    integers = [input_rows(replace(node, weight=weight), np.ones(source.shape))]
    if isinstance(layer, Conv):
        for part, projection in zip(node.projections, layer.projections, strict=True):
            real.append(part.weight * scales[projection.tensor.name])
            integers.append(projection.weight.astype(np.float64))
    wanted = np.hstack(real)
    error = wanted - np.hstack(integers) * unit[:, None]
    if (np.abs(error) < WHOLE * unit[:, None]).all():
        return float("inf")
    return float(10 * np.log10((wanted**2).sum() / (error**2).sum()))

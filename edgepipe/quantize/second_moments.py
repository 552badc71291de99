"""Second moments of what a convolution's weights are multiplied with, from calibration frames."""

from __future__ import annotations

import zlib
from collections.abc import Container, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from edgepipe.frontend.network import Network
from edgepipe.frontend.preprocess import Frame, Preprocess
from edgepipe.quantize.calibrate import float_session
from edgepipe.quantize.graph import ConvNode, Graph

Float = NDArray[np.float64]
Float32 = NDArray[np.float32]

MOST_WEIGHTS = 8192
"""The most weights of a channel: their moments are as many squared."""

_MOST_BYTES = 256 << 20  # of moments that are gathered in one pass over the frames
_FEWEST_SAMPLES = 4096
_SAMPLES_A_WEIGHT = 2  # more samples than weights, so that the moments have full rank


@dataclass(frozen=True, slots=True, kw_only=True)
class Taps:
    """What one of a ConvNode's weighted inputs contributes to a result: a window of ``tensor``.

    ``kernel``, ``stride`` and ``dilation`` are (height, width), ``padding`` is top, left, bottom,
    right, and ``channels`` are those of the tensor.
    """

    tensor: str
    channels: int
    groups: int = 1
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)

    @property
    def weights(self) -> int:
        """How many weights a channel of the result has."""
        return self.channels // self.groups * self.kernel[0] * self.kernel[1]

    @property
    def bytes(self) -> int:
        """The size of the moments in bytes."""
        return 4 * self.groups * self.weights**2

    def sample(self, value: Float32, most: int, generator: np.random.Generator) -> Float32:
        """Return windows of ``value: float32[1, channels, h, w]`` at ``most`` places or fewer.

        The result is float32[groups, places, weights]; padding reads as 0. The places are random.
        """
        top, left, bottom, right = self.padding
        padded = np.pad(value[0], ((0, 0), (top, bottom), (left, right)))
        reach = [self.dilation[axis] * (self.kernel[axis] - 1) + 1 for axis in (0, 1)]
        rows = (padded.shape[1] - reach[0]) // self.stride[0] + 1
        columns = (padded.shape[2] - reach[1]) // self.stride[1] + 1
        places = np.arange(rows * columns)
        if len(places) > most:
            places = np.sort(generator.choice(len(places), most, replace=False))
        y = places // columns * self.stride[0]
        x = places % columns * self.stride[1]
        windows = [
            padded[:, y + self.dilation[0] * i, x + self.dilation[1] * j]
            for i in range(self.kernel[0])
            for j in range(self.kernel[1])
        ]
        stacked = np.stack(windows, axis=1)  # [channels, taps, places]
        return stacked.reshape(self.groups, self.weights, len(places)).swapaxes(1, 2)


class _Gathered:
    """The sums of one window's products and values so far."""

    def __init__(self, taps: Taps) -> None:
        self._products = np.zeros((taps.groups, taps.weights, taps.weights), np.float32)
        self._values = np.zeros((taps.groups, taps.weights))
        self._count = 0

    def add(self, samples: Float32) -> None:
        """Add ``samples: float32[groups, places, weights]``."""
        self._products += samples.swapaxes(1, 2) @ samples
        self._values += samples.sum(axis=1, dtype=np.float64)
        self._count += samples.shape[1]

    def moments(self, *, central: bool) -> Float:
        """Return float64[groups, weights, weights]: mean products, about the mean if ``central``.

        A central moment cannot be negative; what rounding leaves below 0 is 0.
        """
        found = self._products.astype(np.float64) / self._count
        if central:
            mean = self._values / self._count
            found -= mean[:, :, None] * mean[:, None, :]
            diagonal = np.einsum("gii->gi", found)
            np.maximum(diagonal, 0, out=diagonal)
        return found


def taps_of(node: ConvNode, graph: Graph) -> tuple[Taps, ...]:
    """Return the windows of a convolution's weighted inputs; none if it is transposed."""
    if node.transposed:
        return ()
    height, width = node.weight.shape[2:]
    own = Taps(
        tensor=node.input,
        channels=graph.channels(node.input),
        groups=node.groups,
        kernel=(height, width),
        stride=node.stride,
        padding=node.padding,
        dilation=node.dilation,
    )
    projected = [
        Taps(tensor=part.input, channels=part.weight.shape[1], stride=part.stride)
        for part in node.projections
    ]
    return (own, *projected)


def is_measurable(node: ConvNode, graph: Graph, network: Network) -> bool:
    """Return whether a layer has second moments, see ``SecondMoments.of``."""
    taps = taps_of(node, graph)
    known = {graph.input, *network.values}
    return bool(taps) and all(
        part.tensor in known and part.weights <= MOST_WEIGHTS for part in taps
    )


@dataclass(kw_only=True)
class SecondMoments:
    """The second moments of a network's convolutions, by their nodes, in the graph's order.

    They are gathered for several nodes at once, when the first of them is asked for, and dropped
    when others are: those of a whole network may take gigabytes. ``frames`` are uint8[1, h, w, c].
    ``seed`` decides at which of their places a layer is sampled. ``layers`` are those that will be
    asked for; None is all.
    """

    network: Network
    graph: Graph
    frames: Sequence[Frame] = field(repr=False)
    preprocess: Preprocess
    seed: int = 0
    layers: Container[str] | None = None
    _held: dict[str, tuple[_Gathered, ...]] = field(default_factory=dict, repr=False)

    def of(self, node: ConvNode, *, central: bool) -> tuple[Float, ...]:
        """Return float64[groups, n, n] for each weighted input; none if they cannot be measured.

        ``n`` weights of a group are in the order of ``weights.input_rows``. ``central`` moments are
        about the mean, for a layer whose bias makes up for what changes the mean. A transposed
        convolution has none, nor has one with more than ``MOST_WEIGHTS`` weights a channel or an
        input that is no value of the ONNX network.
        """
        if not is_measurable(node, self.graph, self.network):
            return ()
        if node.name not in self._held:
            self._gather(node)
        return tuple(part.moments(central=central) for part in self._held[node.name])

    def _generator(self, layer: str, frame: int) -> np.random.Generator:
        """Return a generator for a layer, so that its sample does not depend on other layers."""
        own = zlib.crc32(layer.encode("utf-8", "surrogatepass"))
        return np.random.default_rng((self.seed, frame, own))

    def _gather(self, first: ConvNode) -> None:
        """Hold the moments of ``first`` and of as many nodes after it as memory allows."""
        self._held = {}
        wanted: dict[str, tuple[Taps, ...]] = {}
        size = 0
        nodes = list(self.graph.nodes)
        for node in nodes[nodes.index(first) :]:
            if not isinstance(node, ConvNode):
                continue
            if not is_measurable(node, self.graph, self.network):
                continue
            if self.layers is not None and node.name not in self.layers:
                continue
            taps = taps_of(node, self.graph)
            size += sum(part.bytes for part in taps)
            if wanted and size > _MOST_BYTES:
                break
            wanted[node.name] = taps
        tensors = dict.fromkeys(part.tensor for taps in wanted.values() for part in taps)
        tensors.pop(self.graph.input, None)
        session = float_session(self.network, [self.network.values[name] for name in tensors])
        held = {
            name: tuple((part, _Gathered(part)) for part in taps) for name, taps in wanted.items()
        }
        for index, frame in enumerate(self.frames):
            picture = self.preprocess.normalise(frame)
            values = dict(
                zip(tensors, session.run(None, {self.network.onnx_input: picture}), strict=False)
            )
            values[self.graph.input] = picture
            for name, parts in held.items():
                generator = self._generator(name, index)
                for taps_part, gathered in parts:
                    samples = max(_FEWEST_SAMPLES, _SAMPLES_A_WEIGHT * taps_part.weights)
                    most = -(-samples // len(self.frames))
                    value = values[taps_part.tensor]
                    shaped = value.reshape(*value.shape, *(1,) * (4 - value.ndim))
                    gathered.add(taps_part.sample(shaped, most, generator))
        self._held = {
            name: tuple(gathered for _, gathered in parts) for name, parts in held.items()
        }

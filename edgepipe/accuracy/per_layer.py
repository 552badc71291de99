"""Compare the layers of a network in float and in integers over many pictures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgepipe.accuracy.data import Sample
from edgepipe.accuracy.layers import LayerRunner
from edgepipe.accuracy.networks import NetworkPair
from edgepipe.bundle.manifest import Placement
from edgepipe.partition.sharing import ON_ARM, ON_VTA

Float = NDArray[np.float64]
_TINY = 1e-30


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstElement:
    """The element that is furthest from float: in which picture, where, and both real values."""

    picture: str
    index: tuple[int, ...]
    expected: float
    found: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A layer's integers against float over all pictures.

    ``snr_db`` is 10 log10 of the energy of the float values over that of the differences, and None
    if there is no difference. ``cosine`` is that of the angle between both, as vectors over all
    pictures. ``worst`` is None if there is no difference.
    """

    snr_db: float | None
    cosine: float
    worst: WorstElement | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerAccuracy:
    """A layer, where the bundle runs it, and its accuracy in both modes of ``layers.py``.

    Of a layer that both devices share, ``device`` and ``stage`` name both, such as ``vta+arm``.
    """

    name: str
    kind: str
    device: str
    stage: str
    so_far: Comparison
    alone: Comparison


class _Sums:
    """The sums from which a ``Comparison`` is made."""

    def __init__(self) -> None:
        self._signal = self._noise = self._found = self._both = 0.0
        self._worst: WorstElement | None = None

    def add(self, picture: str, expected: Float, found: Float) -> None:
        """Add one picture's values, both float64 of the same shape."""
        difference = np.abs(found - expected)
        self._signal += float(np.vdot(expected, expected))
        self._noise += float(np.vdot(difference, difference))
        self._found += float(np.vdot(found, found))
        self._both += float(np.vdot(expected, found))
        index = np.unravel_index(int(difference.argmax()), difference.shape)
        least = abs(self._worst.expected - self._worst.found) if self._worst else 0.0
        if difference[index] > least:
            self._worst = WorstElement(
                picture=picture,
                index=tuple(int(i) for i in index),
                expected=float(expected[index]),
                found=float(found[index]),
            )

    def comparison(self) -> Comparison:
        """Return the comparison over all pictures so far."""
        exact = self._noise == 0.0
        ratio = max(self._signal, _TINY) / max(self._noise, _TINY)
        norms = np.sqrt(self._signal) * np.sqrt(self._found)
        return Comparison(
            snr_db=None if exact else float(10 * np.log10(ratio)),
            cosine=1.0 if exact else float(self._both / max(norms, _TINY)),
            worst=self._worst,
        )


def compare_layers(
    pair: NetworkPair, runner: LayerRunner, pictures: Iterable[Sample]
) -> tuple[LayerAccuracy, ...]:
    """Return the accuracy of every layer over ``pictures``, in program order."""
    so_far = [_Sums() for _ in runner.layers]
    alone = [_Sums() for _ in runner.layers]
    for picture in pictures:
        for index, values in enumerate(runner.run(picture.frame)):
            so_far[index].add(picture.name, values.expected, values.so_far)
            alone[index].add(picture.name, values.expected, values.alone)
    placed = {entry.operator: entry for entry in pair.manifest.placement}

    def places(name: str) -> list[Placement]:
        halves = [placed[name + half] for half in (ON_VTA, ON_ARM) if name + half in placed]
        return halves or [placed[name]]

    return tuple(
        LayerAccuracy(
            name=layer.name,
            kind=layer.operator.kind,
            device="+".join(place.device for place in places(layer.name)),
            stage="+".join(place.stage for place in places(layer.name)),
            so_far=first.comparison(),
            alone=second.comparison(),
        )
        for layer, first, second in zip(runner.layers, so_far, alone, strict=True)
    )

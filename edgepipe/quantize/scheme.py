"""A quantisation scheme: what calibration tells the quantiser, apart from the pictures."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from edgepipe.errors import QuantizeError
from edgepipe.frontend.network import Network
from edgepipe.frontend.preprocess import Preprocess
from edgepipe.names import printable, suggest
from edgepipe.quantize.calibrate import TensorStatistics
from edgepipe.quantize.options import QuantizeOptions
from edgepipe.quantize.thresholds import RULES

Float = NDArray[np.float64]

_EXPORT_AGAIN = "export the scheme again, from a build with calibration pictures"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TensorRange:
    """What calibration saw of a float tensor, each float64[channels], and what int8 should cover.

    ``threshold`` is the largest magnitude that int8 covers without clipping, ``thresholds`` are
    those that the rules give, by name; none if they are unknown.
    """

    low: Float
    high: Float
    mean: Float
    threshold: float
    thresholds: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, statistics: TensorStatistics, rule: str) -> TensorRange:
        """Return the range of measured ``statistics``, with the threshold of a rule by name."""
        thresholds = {name: find(statistics) for name, find in RULES.items()}
        return cls(
            low=statistics.low,
            high=statistics.high,
            mean=statistics.mean,
            threshold=thresholds[rule],
            thresholds=thresholds,
        )

    @property
    def magnitude(self) -> Float:
        """Largest magnitude of every channel, float64[channels]."""
        magnitude: Float = np.maximum(np.abs(self.low), np.abs(self.high))
        return magnitude


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scheme:
    """All that the quantiser needs besides the network, its preprocessing and pictures.

    ``network`` and ``preprocess`` are the digests of those that it belongs to, ``frames`` is how
    many calibration frames were seen, ``tensors`` maps float tensors to their ranges, and ``where``
    names the scheme in errors.
    """

    network: str
    preprocess: str
    frames: int
    options: QuantizeOptions
    tensors: Mapping[str, TensorRange] = field(repr=False)
    where: str = "scheme"

    @property
    def frames_read(self) -> int:
        """How many calibration frames a build with this scheme reads."""
        return self.frames if self.options.reconstructs else 0

    def rounded_by(self, rounding: str | None) -> Scheme:
        """Return the scheme with another rule for rounding all weights, or as it is for None.

        Raises ``QuantizeError`` for an unknown rule.
        """
        if rounding is None:
            return self
        return replace(self, options=self.options.rounded_by(rounding))

    def seeded_by(self, seed: int | None) -> Scheme:
        """Return the scheme with another seed, or as it is for None.

        Raises ``QuantizeError`` for a seed that is out of range.
        """
        if seed is None:
            return self
        return replace(self, options=replace(self.options, seed=seed))

    def with_rules_of_layers(self) -> Scheme:
        """Return the scheme with the thresholds that the rules of single layers give.

        Raises ``QuantizeError`` for a layer whose thresholds are unknown, or whose threshold was
        chosen by hand.
        """
        tensors = dict(self.tensors)
        for name, layer in self.options.layers.items():
            if layer.threshold is None:
                continue
            found = tensors[name]
            if layer.threshold not in found.thresholds:
                raise QuantizeError(
                    f"{self.where}: layer {printable(name)}: threshold_rule: the thresholds of its "
                    "tensor by rule are missing",
                    hint=f"give its tensor another threshold, or {_EXPORT_AGAIN}",
                )
            if found.threshold not in found.thresholds.values():
                raise QuantizeError(
                    f"{self.where}: layer {printable(name)}: threshold_rule: its tensor has the "
                    f"threshold {found.threshold}, which no rule gave",
                    hint="remove threshold_rule to use it, or restore the tensor's threshold",
                )
            tensors[name] = replace(found, threshold=found.thresholds[layer.threshold])
        return replace(self, tensors=tensors)

    def require_frames(self, count: int) -> None:
        """Raise ``QuantizeError`` if ``count`` calibration frames are fewer than are read."""
        if count < self.frames_read:
            raise QuantizeError(
                f'{self.where}: rounding "reconstruct" reads the {self.frames} calibration '
                f"pictures, found {count}",
                hint='give the same pictures, or set rounding = "nearest" in the scheme',
                option="calibration",
                value="DIR",
            )


def network_digest(network: Network) -> str:
    """Return the SHA-256 digest, 64 hex digits, of a network as it was imported."""
    found = hashlib.sha256(network.onnx_model.SerializeToString(deterministic=True))
    found.update(repr(sorted(network.values.items())).encode("utf-8", "surrogatepass"))
    given = sorted(network.given.items(), key=lambda item: item[0])
    found.update(repr(given).encode("utf-8", "surrogatepass"))
    return found.hexdigest()


def preprocess_digest(preprocess: Preprocess) -> str:
    """Return the SHA-256 digest, 64 hex digits, of the preprocessing's settings."""
    return hashlib.sha256(repr(preprocess).encode()).hexdigest()


def check_fits(
    scheme: Scheme, network: Network, preprocess: Preprocess, channels: Mapping[str, int]
) -> None:
    """Raise ``QuantizeError`` if ``scheme`` belongs to another network or preprocessing.

    ``channels`` has the number of channels of every tensor that the scheme must have.
    """
    for what, found, expected in (
        ("network", scheme.network, network_digest(network)),
        ("preprocess", scheme.preprocess, preprocess_digest(preprocess)),
    ):
        if found != expected:
            other = "network" if what == "network" else "preprocessing in a description"
            raise QuantizeError(
                f"{scheme.where}: {what}: belongs to another {other}: digest {found[:16]}..., "
                f"expected {expected[:16]}...",
                hint=f"give the {what} that it was exported with, or {_EXPORT_AGAIN}",
            )
    for name in scheme.tensors:
        if name not in channels:
            raise QuantizeError(
                f"{scheme.where}: tensor {printable(name)} is not one that the quantiser measures",
                hint=suggest(name, list(channels)),
            )
    for name, count in channels.items():
        if name not in scheme.tensors:
            raise QuantizeError(
                f"{scheme.where}: tensor {printable(name)} is missing",
                hint=f"restore its table, or {_EXPORT_AGAIN}",
            )
        found_count = scheme.tensors[name].low.size
        if found_count != count:
            raise QuantizeError(
                f"{scheme.where}: tensor {printable(name)}: found {found_count} channels in low, "
                f"high and mean, expected {count}",
                hint=f"restore its values, or {_EXPORT_AGAIN}",
            )

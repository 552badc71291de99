"""The user's options for quantisation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

from edgepipe.errors import QuantizeError
from edgepipe.names import suggest
from edgepipe.quantize.leaky import MAX_STEPS
from edgepipe.quantize.rounding import RULES as ROUNDINGS
from edgepipe.quantize.thresholds import RULES
from vta_stages.accelerator import Accelerator, Extension

MOST_SEED = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerOptions:
    """What is quantised otherwise in one layer than in the others; None is as in the others.

    ``threshold`` and ``equalise`` are about the layer's result, ``bias_correction`` and
    ``rounding`` about its own weights.
    """

    threshold: str | None = None
    equalise: float | None = None
    bias_correction: bool | None = None
    rounding: str | None = None

    def __post_init__(self) -> None:
        _check_choices(self.threshold, self.equalise, self.rounding)

    @property
    def choices(self) -> dict[str, str | float | bool]:
        """What the layer has of its own, by the names of the fields."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizeOptions:
    """How to quantise.

    ``threshold`` names the rule for a tensor's range (see ``thresholds.RULES``); ``frames`` is how
    many calibration frames to use at most; ``leaky_steps`` how many shifts a leaky slope may take
    (0.1 is exact with two or more and becomes 1/9 with one); ``bias_correction`` adds to each bias
    what rounding the weights removes from the mean; ``equalise`` is how much the scales of a
    tensor's channels may differ, from 0 (one for all) to 1; ``float_layers`` are computed in
    floating point on ARM, ``int16_layers`` in int16 there; ``rounding`` names the rule by which
    weights are rounded (see ``rounding.RULES``). ``seed`` decides what is drawn at random: the
    places of the calibration frames at which reconstruction samples what a layer reads. ``layers``
    have choices of their own, by name. ``one_table`` says that functions between int8 operators
    have one table for all channels, as an accelerator needs that looks values up, and not a row
    for each channel.
    """

    threshold: str = "weighted-mse"
    frames: int = 64
    leaky_steps: int = MAX_STEPS
    bias_correction: bool = True
    equalise: float = 0.5
    float_layers: tuple[str, ...] = ()
    int16_layers: tuple[str, ...] = ()
    rounding: str = "nearest"
    seed: int = 0
    layers: Mapping[str, LayerOptions] = field(default_factory=dict)
    one_table: bool = False

    def __post_init__(self) -> None:
        _check_choices(self.threshold, self.equalise, self.rounding)
        if not 1 <= self.leaky_steps <= MAX_STEPS:
            raise QuantizeError(f"leaky_steps is {self.leaky_steps}, expected 1 to {MAX_STEPS}")
        require_seed(self.seed)
        if self.frames < 1:
            raise QuantizeError(f"calibration over {self.frames} frames, expected at least 1")

    def of(self, layer: str) -> QuantizeOptions:
        """Return the options of one layer, with its own choices in place of the others'."""
        own = self.layers.get(layer, LayerOptions())
        corrects = own.bias_correction
        return replace(
            self,
            layers={},
            threshold=own.threshold or self.threshold,
            equalise=self.equalise if own.equalise is None else own.equalise,
            bias_correction=self.bias_correction if corrects is None else corrects,
            rounding=own.rounding or self.rounding,
        )

    @property
    def reconstructs(self) -> bool:
        """Whether the weights of any layer are rounded by what it reads."""
        roundings = (self.rounding, *(layer.rounding for layer in self.layers.values()))
        return "reconstruct" in roundings

    def rounded_by(self, rounding: str) -> QuantizeOptions:
        """Return the options with another rule for rounding the weights of all layers.

        Raises ``QuantizeError`` for an unknown rule.
        """
        layers = {name: replace(layer, rounding=None) for name, layer in self.layers.items()}
        layers = {name: layer for name, layer in layers.items() if layer.choices}
        return replace(self, rounding=rounding, layers=layers)


def needs_one_table(accelerator: Accelerator) -> bool:
    """Return whether functions should have ``one_table``: then the accelerator can look them up."""
    return accelerator.has(Extension.TABLE)


def require_seed(seed: int) -> None:
    """Raise ``QuantizeError`` if ``seed`` is not a whole number from 0 to ``MOST_SEED``."""
    if not isinstance(seed, int) or not 0 <= seed <= MOST_SEED:
        raise QuantizeError(f"seed is {seed}, expected a whole number from 0 to {MOST_SEED}")


def _check_choices(threshold: str | None, equalise: float | None, rounding: str | None) -> None:
    """Raise ``QuantizeError`` for a choice that no network could have."""
    if threshold is not None and threshold not in RULES:
        raise QuantizeError(
            f"threshold rule {threshold!r} is unknown",
            hint=f"known rules: {', '.join(RULES)}",
        )
    if rounding is not None and rounding not in ROUNDINGS:
        raise QuantizeError(
            f"rounding {rounding!r} is unknown, expected {' or '.join(ROUNDINGS)}",
            hint=suggest(rounding, list(ROUNDINGS)),
        )
    if equalise is not None and not 0.0 <= equalise <= 1.0:
        raise QuantizeError(f"equalise is {equalise}, expected 0 to 1")

"""The user's options for quantisation."""

from __future__ import annotations

from dataclasses import dataclass

from edgepipe.errors import QuantizeError
from edgepipe.names import suggest
from edgepipe.quantize.leaky import MAX_STEPS
from edgepipe.quantize.rounding import RULES as ROUNDINGS
from edgepipe.quantize.thresholds import RULES

MOST_SEED = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizeOptions:
    """How to quantise.

    ``threshold`` names the rule for a tensor's range (see ``thresholds.RULES``); ``frames`` is how
    many calibration frames to use at most; ``leaky_steps`` how many shifts a leaky slope may take
    (0.1 is exact with two or more and becomes 1/9 with one); ``bias_correction`` adds to each bias
    what rounding the weights removes from the mean; ``equalise`` is how much the scales of a
    tensor's channels may differ, from 0 (one for all) to 1; ``float_layers`` are computed in
    floating point on ARM; ``rounding`` names the rule by which weights are rounded (see
    ``rounding.RULES``). ``seed`` decides what is drawn at random: the places of the calibration
    frames at which reconstruction samples what a layer reads.
    """

    threshold: str = "weighted-mse"
    frames: int = 64
    leaky_steps: int = MAX_STEPS
    bias_correction: bool = True
    equalise: float = 0.5
    float_layers: tuple[str, ...] = ()
    rounding: str = "nearest"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.threshold not in RULES:
            raise QuantizeError(
                f"threshold rule {self.threshold!r} is unknown",
                hint=f"known rules: {', '.join(RULES)}",
            )
        if self.rounding not in ROUNDINGS:
            raise QuantizeError(
                f"rounding {self.rounding!r} is unknown, expected {' or '.join(ROUNDINGS)}",
                hint=suggest(self.rounding, list(ROUNDINGS)),
            )
        if not 0.0 <= self.equalise <= 1.0:
            raise QuantizeError(f"equalise is {self.equalise}, expected 0 to 1")
        if not 1 <= self.leaky_steps <= MAX_STEPS:
            raise QuantizeError(f"leaky_steps is {self.leaky_steps}, expected 1 to {MAX_STEPS}")
        require_seed(self.seed)
        if self.frames < 1:
            raise QuantizeError(f"calibration over {self.frames} frames, expected at least 1")


def require_seed(seed: int) -> None:
    """Raise ``QuantizeError`` if ``seed`` is not a whole number from 0 to ``MOST_SEED``."""
    if not isinstance(seed, int) or not 0 <= seed <= MOST_SEED:
        raise QuantizeError(f"seed is {seed}, expected a whole number from 0 to {MOST_SEED}")

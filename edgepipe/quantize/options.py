"""The choices a user has in quantising."""

from __future__ import annotations

from dataclasses import dataclass

from edgepipe.errors import QuantizeError
from edgepipe.quantize.leaky import MAX_STEPS
from edgepipe.quantize.thresholds import RULES


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizeOptions:
    """How to quantise.

    ``threshold`` names the rule for a tensor's range (see ``thresholds.RULES``); ``frames`` is how
    many calibration frames to use at most; ``leaky_steps`` how many shifts a leaky slope may take.
    """

    threshold: str = "mse"
    frames: int = 64
    leaky_steps: int = MAX_STEPS
    bias_correction: bool = True

    def __post_init__(self) -> None:
        if self.threshold not in RULES:
            raise QuantizeError(
                f"threshold rule {self.threshold!r} is unknown",
                hint=f"known rules: {', '.join(RULES)}",
            )
        if self.frames < 1:
            raise QuantizeError(f"calibration over {self.frames} frames, expected at least 1")

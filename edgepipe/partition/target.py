"""Where an operator is wanted, as one text: device, unit and code generator (``arm@1,2/mine``), or
both devices side by side (``vta+arm:32``)."""

from __future__ import annotations

from dataclasses import dataclass

from edgepipe.partition.choices import DEVICES
from edgepipe.partition.foreign import SEPARATOR

UNIT = "@"
"""What is between a device and its unit: the numbers of cores, or of an accelerator."""

SHARED = "vta+arm"
"""What stands for both devices; the output channels on ARM follow after a colon."""

EXPECTED = (
    "arm or vta, arm@1,2 for these cores, vta+arm:32 to share it, with its last 32 channels on "
    "arm, or arm/GENERATOR for a code generator"
)
"""What such a text can be, for errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A device with its unit and code generator, which are empty if none was asked for.

    An operator that both devices share has no device, but the number of its output channels on ARM.
    """

    device: str
    unit: tuple[int, ...] = ()
    generator: str = ""
    arm_channels: int = 0


def target(text: str) -> Target:
    """Return what ``text`` asks for; raise ``ValueError`` with the reason if it is no target."""
    both, _, channels = text.partition(":")
    if both == SHARED:
        if not _is_number(channels) or not int(channels):
            raise ValueError(f"share {channels!r} is no number of channels")
        return Target(device="", arm_channels=int(channels))
    place, _, generator = text.partition(SEPARATOR)
    device, has_unit, unit = place.partition(UNIT)
    if device not in DEVICES:
        raise ValueError(f"device {device!r} is unknown")
    if not has_unit:
        return Target(device=device, generator=generator)
    parts = unit.split(",")
    if not all(map(_is_number, parts)):
        raise ValueError(f"unit {unit!r} is no list of numbers")
    numbers = tuple(map(int, parts))
    twice = next((each for each in numbers if numbers.count(each) > 1), None)
    if twice is not None:
        raise ValueError(f"unit {unit!r} names {twice} twice")
    return Target(device=device, unit=numbers, generator=generator)


def _is_number(text: str) -> bool:
    """Return whether a text is a number of a core or of channels."""
    # Longer ones are neither, and other digits than these are not decimal.
    return text.isascii() and text.isdigit() and len(text) <= 5


def share_text(arm_channels: int) -> str:
    """Return the target of an operator with so many output channels on ARM."""
    return f"{SHARED}:{arm_channels}"


def unit_text(unit: tuple[int, ...]) -> str:
    """Return the part of a target's text for a unit, empty without one."""
    return UNIT + ",".join(map(str, unit)) if unit else ""

"""Where an operator is wanted, as one text: device, unit and code generator (``arm@1,2/mine``)."""

from __future__ import annotations

from dataclasses import dataclass

from edgepipe.partition.choices import DEVICES
from edgepipe.partition.foreign import SEPARATOR

UNIT = "@"
"""What is between a device and its unit: the numbers of cores, or of an accelerator."""

EXPECTED = "arm or vta, arm@1,2 for these cores, or arm/GENERATOR for a code generator"
"""What such a text can be, for errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A device with its unit and code generator, which are empty if none was asked for."""

    device: str
    unit: tuple[int, ...] = ()
    generator: str = ""


def target(text: str) -> Target:
    """Return what ``text`` asks for; raise ``ValueError`` with the reason if it is no target."""
    place, _, generator = text.partition(SEPARATOR)
    device, has_unit, unit = place.partition(UNIT)
    if device not in DEVICES:
        raise ValueError(f"device {device!r} is unknown")
    if not has_unit:
        return Target(device=device, generator=generator)
    parts = unit.split(",")
    # Longer ones are no numbers of cores, and other digits than these are not decimal.
    if not all(part.isascii() and part.isdigit() and len(part) <= 5 for part in parts):
        raise ValueError(f"unit {unit!r} is no list of numbers")
    numbers = tuple(map(int, parts))
    twice = next((each for each in numbers if numbers.count(each) > 1), None)
    if twice is not None:
        raise ValueError(f"unit {unit!r} names {twice} twice")
    return Target(device=device, unit=numbers, generator=generator)


def unit_text(unit: tuple[int, ...]) -> str:
    """Return the part of a target's text for a unit, empty without one."""
    return UNIT + ",".join(map(str, unit)) if unit else ""

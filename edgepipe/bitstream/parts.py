"""Parts: the die and package behind a part's many spellings, and the die's configuration IDCODE."""

from __future__ import annotations

import re
from dataclasses import dataclass

# IDCODEs in configuration streams, without the silicon revision in bits 31..28. A Zynq UltraScale+
# has two: these are the PL's, which streams write; the TAP of the processors has another.
_IDCODES = {
    "7z020": 0x03727093,
    "zu3": 0x04A42093,
    "zu7": 0x04A5A093,
    "k26": 0x04A49093,
}
_PART = re.compile(
    r"(?:x[caq])?(7z\d{3}s?|zu\d+|k\d\d)"  # die
    r"(?:[a-z]{2}(?=-|[a-z]{4}\d))?-?"  # processors: cg, eg, ev
    r"([a-z]{3,4}\d+)"  # package
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A die and its package; speed grade and temperature range do not matter here."""

    die: str
    package: str

    @property
    def idcode(self) -> int | None:
        """The die's IDCODE without revision, or None if it is not in the table."""
        return _IDCODES.get(self.die)


def parse(text: str) -> Part | None:
    """Return the part that ``text`` names, or None if it is not a Zynq part.

    ``xc7z020clg484-1`` and ``7z020clg484`` name the same part. So do ``xczu3eg-sbva484-1-e`` and
    ``xczu3cg-sbva484-1-i``, whose PL is the same die.
    """
    match = _PART.match(text.strip().lower())
    return Part(die=match[1], package=match[2]) if match else None


def die_of_idcode(idcode: int) -> str:
    """Return the name of the die with this IDCODE, or the code itself in hex."""
    names = {code: die for die, code in _IDCODES.items()}
    return names.get(idcode, f"IDCODE {idcode:#010x}")

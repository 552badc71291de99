"""What the accelerator in the FPGA says of itself: the registers that edgepipe's own hardware has
(vta_rtl/registers.md), as ``edgepipe-vta-run --registers`` prints them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from edgepipe import schema
from edgepipe.doctor.finding import Finding
from edgepipe.errors import DeployError


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """A report of the registers; ``own`` is false for a published bitstream, which has none.

    ``error`` is why the device ended its last program. ``differs`` is how it differs from the
    accelerator that it was compared with, and ``remedy`` what to do then.
    """

    own: bool
    map_version: int = 0
    revision: str = ""
    configuration: int = 0
    capabilities: tuple[str, ...] = ()
    error: str = ""
    differs: str = ""
    remedy: str = ""


def parse(text: str, where: str) -> Hardware:
    """Parse a report; raise ``DeployError`` if it is not one."""
    try:
        return schema.from_table(Hardware, json.loads(text), where, DeployError)
    except (ValueError, RecursionError) as cause:
        raise DeployError(
            f"{where}: unexpected report of the accelerator's registers: {text[:200]!r}",
            hint="use the edgepipe-vta-run of this version",
        ) from cause


def findings(hardware: Hardware) -> Iterator[Finding]:
    """Judge a report."""
    check = "hardware"
    if not hardware.own:
        text = "a published bitstream, or one like it: no registers that say what it is"
        yield Finding(check=check, state="ok", text=text)
        return
    capabilities = ", ".join(hardware.capabilities)
    if hardware.differs:
        text = hardware.differs + (f"; it has {capabilities}" if capabilities else "")
        yield Finding(check=check, state="fail", text=text, remedy=hardware.remedy)
    else:
        text = f"edgepipe's own, instructions {hardware.revision}, configuration "
        text += f"{hardware.configuration:#010x} as expected, {capabilities}"
        yield Finding(check=check, state="ok", text=text)
    if hardware.error:
        yield Finding(
            check="last program",
            state="warn",
            text=f"the accelerator ended it: {hardware.error}",
            remedy="deploy the bundle again, whose golden run names the stage that fails, or build "
            "it again for this accelerator",
        )

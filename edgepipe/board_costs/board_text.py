"""The board's file with the measured costs in place of those it had; everything else is kept."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass

from edgepipe.board_costs.cost_fit import KEPT
from edgepipe.board_costs.measuring import Measured
from edgepipe.boards import ArmTiming
from edgepipe.errors import BoardError
from vta_stages.timing.cost_model import CostModel

_HEADER = re.compile(r"\s*\[+\s*([^\]\s]+)\s*\]")
_REPLACED = ("timing", "arm_timing")


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where and when costs were measured."""

    date: str
    host: str


def with_costs(text: str, measured: Measured, origin: Origin) -> str:
    """Return a board file's text with the tables ``timing`` and ``arm_timing`` as measured.

    Raises BoardError if the text has these costs in another form than as tables.
    """
    kept = "\n".join(_without(text.splitlines())).rstrip()
    result = f"{kept}\n\n{tables(measured, origin)}"
    try:
        tomllib.loads(result)
    except tomllib.TOMLDecodeError as cause:
        raise BoardError(
            f"the board's file has costs that are not in a table of their own ({cause})",
            hint="write them below [timing] and [arm_timing], or remove them",
        ) from cause
    return result


def tables(measured: Measured, origin: Origin) -> str:
    """Return the two tables as TOML, each with a comment that says where it is from."""
    fit, machine = measured.fit, measured.machine
    default = CostModel()
    costs = {
        name: value
        for name, value in dataclasses.asdict(fit.costs).items()
        if name not in KEPT or value != getattr(default, name)
    }
    worst = fit.worst
    lines = [
        f"# Measured by `edgepipe measure` on {origin.date}: {origin.host}, device "
        f"{measured.device}, least of {measured.repeat} runs or more.",
        f"# The program that these costs explain worst is {worst}: modelled {fit.error(worst):+.1%}"
        " of what was measured.",
        "[timing]",
        *_values(costs.items()),
        "",
        f"# Measured in the same way: {machine['cores']} cores, {machine['machine']}, Linux "
        f"{machine['kernel']}. The clock is that of the board's file.",
        "[arm_timing]",
        *_values(_arm_costs(measured.arm_timing)),
    ]
    return "\n".join(lines) + "\n"


def _arm_costs(timing: ArmTiming) -> Iterable[tuple[str, float]]:
    return dataclasses.asdict(timing).items()


def _values(values: Iterable[tuple[str, float]]) -> list[str]:
    return [f"{name} = {value}" for name, value in values]


def _without(lines: Iterable[str]) -> list[str]:
    """Return the lines without the replaced tables and the comments right above them."""
    result: list[str] = []
    above: list[str] = []  # comments and blank lines, which belong to what follows
    dropping = False
    for line in lines:
        header = _HEADER.match(line)
        if header:
            if dropping:
                above = above[next((n for n, each in enumerate(above) if each.strip()), 0) :]
            dropping = header[1] in _REPLACED
            if dropping:
                above = _until_blank(above)
        elif not line.strip() or line.lstrip().startswith("#"):
            above.append(line)
            continue
        if not dropping:
            result += [*above, line]
        elif header:
            result += above
        above = []
    return result + above


def _until_blank(lines: list[str]) -> list[str]:
    """Return comments without the block that follows the last blank line."""
    last = max((n for n, line in enumerate(lines) if not line.strip()), default=-1)
    return lines[: last + 1]

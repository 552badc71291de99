"""Examine a board: connect, survey in one round trip, self-test in another, draw conclusions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgepipe.deploy import payload, plan
from edgepipe.deploy.connection import Connection, Target
from edgepipe.doctor import checks, self_test, survey
from edgepipe.doctor.finding import Finding
from edgepipe.doctor.needs import Needs
from edgepipe.doctor.survey import Survey
from edgepipe.errors import DeployError
from edgepipe.progress import Progress, Silent
from vta_stages.accelerator import Accelerator

BOARD_SIDE = Path(__file__).with_name("board_side.sh")
READINGS = Path(__file__).with_name("readings.sh")
_SELF_TEST_S = 150.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """What to examine.

    ``accelerator`` overrides the bundle's accelerator for the self-test. ``programs`` are builds of
    edgepipe-vta-run for boards. ``system`` is a prefix of the board's /sys, /dev, /proc and /run,
    for tests.
    """

    needs: Needs | None = None
    accelerator: Accelerator | None = None
    programs: tuple[Path, ...] = ()
    system: str = ""


def examine(
    target: Target, examination: Examination, progress: Progress | None = None
) -> tuple[Finding, ...]:
    """Return all findings. Raises ``DeployError`` if the board cannot be reached."""
    progress = progress or Silent()
    progress.step("connect")
    with Connection(target, script=BOARD_SIDE, shared=(READINGS,)) as connection:
        progress.step("survey")
        seen = survey.parse(connection.run("survey", examination.system), target.host)
        progress.step("self-test of the accelerator")
        tested = _self_test(connection, seen, examination)
    return (*checks.findings(seen, examination.needs), *tested)


def _self_test(connection: Connection, seen: Survey, examination: Examination) -> Sequence[Finding]:
    accelerator = checks.needs_accelerator(examination.needs, examination.accelerator)
    if accelerator is None:
        reason = "the board's accelerator is not known"
        return [checks.self_test_left_out(reason, "name a bundle with VTA stages, or a board")]
    if not checks.can_self_test(seen):
        reason = "this user cannot access both registers and buffers"
        return [checks.self_test_left_out(reason, "see the findings on registers and buffers")]
    try:
        architecture = plan.MACHINES.get(seen.machine, seen.machine)
        program = payload.find_program(payload.VTA_RUN, architecture, examination.programs)
    except DeployError as error:
        return [checks.self_test_left_out(str(error), error.hint)]
    test = self_test.make(accelerator)
    archive = self_test.make_archive(test, program.content)
    printed = connection.run(
        "self_test", str(self_test.RUNS), stdin=archive, timeout_s=_SELF_TEST_S
    )
    return checks.judge_self_test(self_test.parse_report(printed, test))

"""What the doctor makes of the accelerator's own registers."""

from __future__ import annotations

import json

import pytest

from edgepipe.doctor import checks, hardware, self_test
from edgepipe.doctor.finding import Finding
from edgepipe.doctor.hardware import Hardware
from edgepipe.errors import DeployError
from vta_stages.accelerator import Accelerator

OWN = {
    "own": True,
    "map_version": 1,
    "revision": "0.0.1",
    "configuration": 0x35AC0F86,
    "capabilities": ["counters", "window", "table"],
    "error": "",
    "differs": "",
    "remedy": "",
}
REBUILD = "name the accelerator in the board's file as the bitstream has it, then build again"


def findings(**changes: object) -> tuple[Finding, ...]:
    return tuple(hardware.findings(hardware.parse(json.dumps(OWN | changes), "board")))


def test_hardware_of_edgepipe_is_named_with_what_it_has() -> None:
    (found,) = findings()
    assert (found.check, found.state, found.remedy) == ("hardware", "ok", "")
    assert found.text == (
        "edgepipe's own, instructions 0.0.1, configuration 0x35ac0f86 as expected, "
        "counters, window, table"
    )


def test_a_published_bitstream_has_no_registers_to_read() -> None:
    (found,) = hardware.findings(hardware.parse('{"own": false}', "board"))
    assert (found.check, found.state) == ("hardware", "ok")
    assert found.text.startswith("a published bitstream")


def test_another_accelerator_than_the_bundles_fails() -> None:
    differs = "vta: the FPGA has another accelerator (hash 0x1234), expected 1x16"
    (found,) = findings(differs=differs, remedy=REBUILD)
    assert (found.state, found.remedy) == ("fail", REBUILD)
    assert found.text == f"{differs}; it has counters, window, table"


def test_a_map_of_registers_that_is_not_known_says_only_its_version() -> None:
    differs = "vta: its map of registers has version 9, expected 1"
    (found,) = findings(differs=differs, capabilities=[], remedy="use a newer edgepipe")
    assert found.text == differs


def test_why_the_last_program_ended_early_is_said() -> None:
    _, found = findings(error="load_outside at 0x1000")
    assert (found.check, found.state) == ("last program", "warn")
    assert found.text == "the accelerator ended it: load_outside at 0x1000"
    assert found.remedy == (
        "deploy the bundle again, whose golden run names the stage that fails, or build it "
        "again for this accelerator"
    )


@pytest.mark.parametrize("text", ["", "{", "[]", '{"own": 3}', '{"own": true, "more": 1}'])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(DeployError, match=r"^board: "):
        hardware.parse(text, "board")


def test_a_report_that_is_not_one_has_a_remedy() -> None:
    with pytest.raises(DeployError, match="unexpected report of the accelerator's reg") as caught:
        hardware.parse("Segmentation fault", "board")
    assert caught.value.hint == "use the edgepipe-vta-run of this version"


def test_the_self_test_reports_it_before_its_runs() -> None:
    text = f"hardware {json.dumps(OWN)}\nbefore 7\nafter 47"
    report = self_test.parse_report(text, self_test.make(Accelerator()))
    assert report.hardware is not None
    assert report.hardware.capabilities == ("counters", "window", "table")
    assert checks.judge_self_test(report)[0].check == "hardware"


def test_a_program_without_that_report_leaves_it_out() -> None:
    report = self_test.parse_report("before 7\nafter 47", self_test.make(Accelerator()))
    assert report.hardware is None
    assert [f.check for f in checks.judge_self_test(report)] == ["self-test"]


def test_hardware_without_registers_has_nothing_else_to_say() -> None:
    assert Hardware(own=False).capabilities == ()

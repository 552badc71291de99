"""The conformance suites on the Verilated accelerator, behind the board's driver."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from needs import BUILD, built
from random_programs.machines import MACHINES

pytestmark = [pytest.mark.sim, pytest.mark.slow]

TESTS = {"Device": 25, "Memory": 20, "Stage": 10}
"""How many tests of each suite pass. Of those of the stage, one needs inputs that no run refuses,
and the model of DRAM allocates in a run."""

ULTRA96 = "stock-0.0.1"
DEVICES = ("Rtl", "RtlThatIsPolled", "RtlWithoutAReset")
OTHERS = ("stock-0.0.2", "1x32x16-0.0.1")


def ran(machine: str, pattern: str, *options: str) -> dict[str, int]:
    """Run the tests whose names match; return how many of each implementation passed."""
    library = MACHINES[machine].library(BUILD / "vta_rtl")
    command = [built("edgepipe-rtl-conformance"), f"--library={library}", *options]
    done = subprocess.run(
        [*command, "--gtest_brief=1", f"--gtest_filter={pattern}"],
        env={**os.environ, "CI": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.findall(r"Conformance: (\w+): (\d+) passed, 0 failed, [02] skipped", done.stdout)
    return {name: int(passed) for name, passed in found}


def test_device_memory_and_stage_keep_the_promises_of_their_headers() -> None:
    found = ran(ULTRA96, "*/Rtl:*/HostSeenByRtl:*/VtaOnRtl")
    assert found == {
        "Rtl": TESTS["Device"],
        "HostSeenByRtl": TESTS["Memory"],
        "VtaOnRtl": TESTS["Stage"],
    }


@pytest.mark.systems
def test_a_device_that_is_polled_or_has_no_reset_line_keeps_them() -> None:
    found = ran(ULTRA96, "*/RtlThatIsPolled:*/RtlWithoutAReset")
    assert found == dict.fromkeys(DEVICES[1:], TESTS["Device"])


@pytest.mark.systems
@pytest.mark.parametrize("machine", OTHERS)
def test_another_revision_and_rectangular_blocks_keep_them(machine: str, tmp_path: Path) -> None:
    accelerator = tmp_path / "accelerator.json"
    accelerator.write_text(json.dumps(MACHINES[machine].accelerator.values()))
    found = ran(machine, "*DeviceConformance*", f"--accelerator={accelerator}")
    assert found == dict.fromkeys(DEVICES, TESTS["Device"])

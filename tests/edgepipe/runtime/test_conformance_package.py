"""The conformance suites outside this repository: an example that passes, and broken promises."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from needs import cpp_package

pytestmark = [pytest.mark.sim, pytest.mark.systems]

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cpp_package("host", tmp_path_factory.mktemp("installed"))


def build(package: Path, source: Path, folder: Path) -> None:
    for command in (
        ["cmake", "-S", source, "-B", folder, f"-Dedgepipe_DIR={package}", "-G", "Ninja"],
        ["cmake", "--build", folder],
    ):
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_users_memory_device_and_stage_pass(package: Path, tmp_path: Path) -> None:
    build(package, ROOT / "examples" / "conformance", tmp_path)
    done = subprocess.run(
        [tmp_path / "own-conformance", "--gtest_brief=1"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    for line in ("MemoryConformance: OwnMemory", "DeviceConformance: OwnDevice"):
        assert re.search(rf"{line}: \d+ passed, 0 failed, 0 skipped", done.stdout)
    assert re.search(r"StageConformance: OwnStage: \d+ passed, 0 failed, 1 skipped", done.stdout)
    assert "1 skipped: no inputs make a run of this stage fail" in done.stdout


@pytest.fixture(scope="module")
def broken(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("broken")
    build(package, ROOT / "tests" / "broken_conformance", folder)
    return folder / "broken-conformance"


def output_of(broken: Path, test: str, **environment: str) -> tuple[int, str]:
    done = subprocess.run(
        [broken, "--gtest_brief=1", f"--gtest_filter=Broken/{test}"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={key: value for key, value in os.environ.items() if key != "CI"} | environment,
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("test", "text"),
    [
        (
            "DeviceConformance.EndsAtItsTimeLimitAndRunsAgain/ForgetsTheTimeLimit",
            "the run went on beyond its limit",
        ),
        (
            "DeviceConformance.RunsAProgramAsItIsNow/KeepsTheFirstProgram",
            "16 of 16 bytes differ, the first is byte 0",
        ),
        (
            "MemoryConformance.AllocationsAreZeroForTheCpu/IsDirty",
            "1 of 5000 bytes differ, the first is byte 2500: found 1, expected 0",
        ),
        (
            "StageConformance.WritesNothingAroundItsBuffers/WritesTooFar",
            "it wrote before or behind one of its buffers",
        ),
        (
            "DeviceConformance.MultipliesInputAndWeights/KeepsWhatItSaysItBreaks",
            "keeps this promise, although it is in its deviations",
        ),
    ],
)
def test_a_broken_promise_is_found_and_reported(broken: Path, test: str, text: str) -> None:
    code, output = output_of(broken, test)
    assert code == 1
    assert text in output
    assert f"[  FAILED  ] Broken/{test}" in output


def test_a_missing_implementation_is_reported_and_fails_if_ci_is_set(broken: Path) -> None:
    test = "DeviceConformance.MultipliesInputAndWeights/IsNotHere"
    code, output = output_of(broken, test)
    assert code == 0
    assert "1 skipped: not on this machine: no such board" in output
    code, output = output_of(broken, test, CI="1")
    assert code == 1
    assert "IsNotHere cannot be created: no such board" in output

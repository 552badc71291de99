"""The doctor's program: correct on the simulator for every board; evaluation of its report."""

import json
import subprocess
from pathlib import Path

import needs
import numpy as np
import pytest

from edgepipe import boards
from edgepipe.deploy import board_script
from edgepipe.doctor import checks, self_test
from edgepipe.runtime.simulator import Simulator
from vta_stages.accelerator import Accelerator

TEST = self_test.make(Accelerator())


def printed(*, digests=None, late=0, before="7", after="107", lost=0):
    """Return what the board prints after good runs, with changes."""
    digests = digests or {image.name: image.digest for image in TEST.images}
    report = {"ended": self_test.RUNS, "late": late, "lost_interrupts": lost, "mean_us": 200.0}
    lines = [f"ran {name} {digest} {json.dumps(report)}" for name, digest in digests.items()]
    return "\n".join([f"before {before}", *lines, f"after {after}"])


def states(text):
    found = checks.judge_self_test(self_test.parse_report(text, TEST))
    return {finding.check: finding.state for finding in found}


@pytest.mark.sim
@pytest.mark.parametrize("board", ["ultra96", "pynq-z2"])
def test_it_leaves_the_expected_memory(board):
    accelerator = boards.load(board).accelerator
    for image in self_test.make(accelerator).images:
        with Simulator(accelerator) as simulator:
            after = simulator.run_image(self_test.make(accelerator).instructions, image.before)
        np.testing.assert_array_equal(after, image.after)


def test_stale_memory_is_always_noticed():
    a, b = TEST.images
    assert a.digest != b.digest
    assert a.before.shape == b.before.shape
    assert np.mean(a.before != a.after) > 0.1


def test_good_runs_are_two_good_findings():
    assert states(printed()) == {"coherency": "ok", "interrupt": "ok"}


def test_the_other_images_memory_is_a_failure():
    a, _ = TEST.images
    assert states(printed(digests={"a": a.digest, "b": a.digest})) == {"self-test": "fail"}
    assert states(printed(digests={"a": a.digest})) == {"self-test": "fail"}
    assert states(printed(late=1)) == {"self-test": "fail"}
    assert states("failed a edgepipe-vta-run: error: vta: no end")["self-test"] == "fail"


def test_an_accelerator_in_use_is_not_a_failure():
    busy = "failed a edgepipe-vta-run: error: /dev/uio0: another process uses it"
    report = self_test.parse_report(busy, TEST)
    (finding,) = checks.judge_self_test(report)
    assert (finding.state, finding.text) == ("warn", "/dev/uio0: another process uses it")


@pytest.mark.sim
def test_a_run_that_fails_is_reported_by_its_error_and_not_by_its_hint(tmp_path):
    """The real program has no accelerator here, so it fails on every image."""
    script = board_script.read(Path(self_test.__file__).with_name("board_side.sh"))
    archive = self_test.make_archive(TEST, needs.built("edgepipe-vta-run").read_bytes())
    command = ["sh", "-c", script, "sh", "self_test", tmp_path, "1"]
    printed = subprocess.run(command, input=archive, capture_output=True, check=True, timeout=60)
    errors = self_test.parse_report(printed.stdout.decode(), TEST).errors
    assert len(errors) == len(TEST.images)
    assert all(error.startswith(("memory: ", "uio: ")) for error in errors), errors


def test_interrupts_are_counted():
    assert states(printed(after="7"))["interrupt"] == "fail"
    assert states(printed(lost=3))["interrupt"] == "warn"
    assert states(printed(before="none", after="none"))["interrupt"] == "warn"

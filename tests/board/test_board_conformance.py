"""The conformance suites on the board's own accelerator, driver and buffers."""

from __future__ import annotations

import json
import re
from dataclasses import asdict

import pytest
from needs import built

from edgepipe import boards

pytestmark = pytest.mark.board

# What the virtual board has. XRT's kernel driver zocl is not there, and 32-bit programs cannot
# maintain the caches of a dma-heap's buffers.
DEVICES = {"Uio", "UioThatIsPolled"}
MEMORIES = {"aarch64": {"Udmabuf", "DmaHeap"}, "armhf": {"Udmabuf"}}
LEFT_OUT = {"aarch64": "*/Zocl", "armhf": "*/Zocl:*/DmaHeap"}


def test_device_and_buffers_keep_the_promises_of_their_headers(machine, architecture):
    program = built("edgepipe-board-conformance", architecture).read_bytes()
    accelerator = json.dumps(asdict(boards.load("ultra96").accelerator))
    script = (
        "set -e; cd $(mktemp -d); cat > conformance; chmod +x conformance;"
        f" echo '{accelerator}' > accelerator.json;"
        " CI=1 ./conformance --accelerator=accelerator.json --gtest_brief=1"
        f" --gtest_filter=-{LEFT_OUT[architecture]}; rm conformance"
    )
    done = machine.run([script], stdin=program, deadline_s=900)
    output = done.stdout.decode()
    assert done.returncode == 0, output + done.stderr.decode()
    ran = re.findall(r"(\w+)Conformance: (\w+): (\d+) passed, 0 failed, 0 skipped", output)
    assert {name for suite, name, _ in ran if suite.endswith("Device")} == DEVICES
    assert {name for suite, name, _ in ran if suite.endswith("Memory")} == MEMORIES[architecture]
    assert all(int(passed) > 10 for *_, passed in ran)

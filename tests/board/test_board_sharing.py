"""Two networks at once: two processes share the board's accelerator, bit for bit."""

from __future__ import annotations

import io
import json
import tarfile

import pytest
from needs import built
from small_networks import build_small_bundle

pytestmark = pytest.mark.board

FRAMES = 20
FOLDER = "edgepipe-test/sharing"
RUN = f"./edgepipe-run --golden --frames {FRAMES} --json"


@pytest.fixture(scope="module")
def sent(board, tmp_path_factory):
    """Return the board with two bundles and the program that runs them."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        tar.add(built("edgepipe-run", "aarch64"), "edgepipe-run")
        for name, channels in (("one", 16), ("other", 32)):
            folder = tmp_path_factory.mktemp(name)
            tar.add(build_small_bundle(folder, "ultra96", channels), f"{name}.edgepipe")
    done = board.run([f"mkdir -p {FOLDER} && tar -x -C {FOLDER}"], stdin=content.getvalue())
    assert done.returncode == 0, done.stderr.decode()
    return board


def test_two_processes_share_the_accelerator_and_each_has_its_own_bits(sent):
    script = (
        f"cd {FOLDER}; {RUN} one.edgepipe --device uio:shared > one & first=$!;"
        f" {RUN} other.edgepipe --device uio:shared,priority=1 > other || exit 1;"
        " wait $first || exit 1; tail -qn 1 one other"
    )
    done = sent.run([script], deadline_s=120)
    said = done.stderr.decode()
    assert done.returncode == 0, said
    assert said.count(f"golden: {FRAMES} frames x 1 outputs are bit-equal") == 2
    assert said.count("VTA stages ran on: uio") == 2
    ends = [json.loads(line) for line in done.stdout.splitlines()]
    stages = [stage for end in ends for stage in end["statistics"]["stages"]]
    assert sum(stage["device_wait_s"] for stage in stages) > 0
    assert all(stage["hangs"] == 0 for stage in stages)


def test_one_that_wants_it_alone_is_refused_meanwhile(sent):
    script = (
        f"cd {FOLDER}; ./edgepipe-run one.edgepipe --golden --frames 100000 --quiet"
        " --device uio:shared > /dev/null 2>&1 & first=$!;"
        " for i in $(seq 100); do grep -q OFDLCK /proc/locks && break; sleep 0.1; done;"
        f" {RUN} other.edgepipe --device uio; result=$?; kill $first; wait $first; exit $result"
    )
    done = sent.run([script], deadline_s=120)
    assert done.returncode == 1
    assert b"/dev/uio0: another process uses it and shares it, expected none" in done.stderr

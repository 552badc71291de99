"""A deploy that is cut off anywhere leaves one complete release current; the next one succeeds."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest
from levels import every

from edgepipe.deploy import deployment
from edgepipe.errors import DeployError
from edgepipe.progress import Silent

STEPS = (
    "connect",
    "pre-flight check",
    "send",
    "ask the board's policy",
    "golden run on the board",
    "switch to release 2",
    "remove old releases",
)


class CutAt(Silent):
    """Cuts the link, or does something else, when a step begins; records the steps."""

    def __init__(self, cut=None, at=""):
        self.cut = cut
        self.at = at
        self.seen = []

    def step(self, text):
        self.seen.append(text)
        if self.cut and text.startswith(self.at):
            self.cut()


def current_is_whole(board):
    """Return the current release's number after checking all of it, as on the board."""
    release = board.root / "current"
    check = ["sha256sum", "--quiet", "-c", "SHA256SUMS"]
    assert subprocess.run(check, cwd=release).returncode == 0
    assert (
        subprocess.run([release / "bin/edgepipe-run", release / "bundle", "--golden"]).returncode
        == 0
    )
    return int(release.readlink().name)


def deploy(board, bundle, options, progress=None):
    return deployment.deploy(board.target(), deployment.open_source(bundle), options, progress)


def test_the_steps_are_those_that_the_cuts_below_are_made_at(board, make_bundle, options):
    deploy(board, make_bundle(), options)
    progress = CutAt()
    deploy(board, make_bundle(kernels=b"2"), options, progress)
    assert len(progress.seen) == len(STEPS)
    for seen, step in zip(progress.seen, STEPS, strict=True):
        assert seen.startswith(step)


@pytest.mark.parametrize("step", every(3, STEPS))
@pytest.mark.parametrize("what", ["link", "power"])
def test_the_link_or_the_power_cut_as_a_step_begins(board, make_bundle, options, step, what):
    deploy(board, make_bundle(), options)

    def cut():
        board.link.cut()
        if what == "power":
            board.reboot()

    said = hint = ""
    try:
        deploy(board, make_bundle(kernels=b"2"), options, CutAt(cut, step))
    except DeployError as error:
        said, hint = str(error), error.hint
    board.link.mend()
    if step == "remove old releases":
        assert not said or "release 2 is current" in said  # it may have finished before the cut
        assert current_is_whole(board) == 2
    elif step.startswith("switch"):
        assert "either release 2 is current, or release 1 is still current" in said
        assert hint == "list the releases on the board to see which"
        assert current_is_whole(board) in (1, 2)
    else:
        assert said
        assert current_is_whole(board) == 1
    outcome = deploy(board, make_bundle(kernels=b"3"), options)
    assert current_is_whole(board) == outcome.release
    left = [p.name for p in (board.root / "releases").iterdir() if not p.name.isdecimal()]
    assert left == []


def test_the_link_cut_at_any_byte(board, make_bundle, options):
    deploy(board, make_bundle(), options)
    before = board.link.bytes_to_board
    deploy(board, make_bundle(kernels=os.urandom(100_000)), options)
    total = board.link.bytes_to_board - before
    for count in range(total // 20, total, total // 10):
        board.link.cut_after(count)
        old = current_is_whole(board)
        with contextlib.suppress(DeployError):
            deploy(board, make_bundle(kernels=os.urandom(100_000)), options)
        board.link.mend()
        assert current_is_whole(board) in (old, old + 1)
    outcome = deploy(board, make_bundle(kernels=b"last"), options)
    assert current_is_whole(board) == outcome.release


def test_what_an_interrupted_deploy_had_sent_is_not_sent_again(board, make_bundle, options):
    deploy(board, make_bundle(), options)
    bundle = make_bundle(kernels=os.urandom(200_000))
    with pytest.raises(DeployError, match="connection lost") as caught:
        deploy(board, bundle, options, CutAt(board.link.cut, "golden"))
    assert caught.value.hint == (
        "deploy again once the board is reachable; files already sent are not sent again"
    )
    board.link.mend()
    outcome = deploy(board, bundle, options)
    assert (outcome.result, outcome.sent_files, outcome.release) == ("deployed", 0, 2)
    assert current_is_whole(board) == 2


def test_a_deploy_that_is_killed_releases_the_lock(board, make_bundle, options, runtime):
    deploy(board, make_bundle(), options)
    bundle = make_bundle("slow.edgepipe", verdict="hang")
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from edgepipe.deploy import deployment\n"
        "from edgepipe.deploy.connection import Target\n"
        "config, bundle, runtime = map(Path, sys.argv[1:])\n"
        "options = deployment.DeployOptions(operator='killed', runtimes=(runtime,))\n"
        "target = Target(host='board', root='edgepipe', ssh_config=config)\n"
        "deployment.deploy(target, deployment.open_source(bundle), options)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program, board.ssh_config, bundle, runtime])
    deadline = time.monotonic() + 30
    while not list(board.root.glob("releases/.incoming-*/SHA256SUMS")):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert deploy(board, make_bundle(kernels=b"2"), options).release == 2
    assert current_is_whole(board) == 2

"""A service that a deploy stopped comes back, even if the deploying side dies or is cut off.

The board is a real sshd on a machine whose process 1 is systemd (``systemd_machine``). At every
step of a deploy, its process gets every signal, and the link is cut.
"""

import dataclasses
import fcntl
import itertools
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor

import dying_deploy
import pytest
import supervised_place
from dying_deploy import AtStep
from ssh_board import SshBoard
from supervised_place import Place
from systemd_machine import eventually

from edgepipe.deploy import deployment
from edgepipe.errors import DeployError

STEPS = (
    "connect",
    "pre-flight check",
    "send",
    "ask the board's policy",
    "golden run",
    "switch",
    "remove old",
)
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
AT_ONCE = 4


class Board(Place):
    """A board behind ssh, with a unit for its deploy folder."""

    def __init__(self, machine, program, name, folder):
        self.runtimes = tuple(folder / tool for tool in ("edgepipe-run", "edgepipe-cam"))
        for tool in self.runtimes:
            if not tool.exists():
                shutil.copy(program, tool)
        (machine.folder / name).mkdir()
        self.ssh = SshBoard(machine.folder / name, "board", inside=machine.command())
        super().__init__(machine, program, name, root=self.ssh.root)
        self.options = deployment.DeployOptions(
            operator="killed", unit=self.unit, runtimes=self.runtimes, golden_timeout_s=20
        )

    def deploy(self, bundle, progress=None, **changes):
        options = dataclasses.replace(self.options, **changes)
        dying_deploy.deploy(self.ssh.ssh_config, bundle, options, progress)

    def deploy_until(self, step, sent, bundle):
        """Deploy in a process that gets a signal at a step."""
        process = dying_deploy.start(
            self.ssh.ssh_config, bundle, self.options, step, sent, self.root
        )
        process.join(60)
        assert process.exitcode == (130 if sent is signal.SIGINT else -sent), (step, sent)

    def deploy_until_cut(self, step, bundle):
        """Deploy over a link that is cut at a step."""
        with pytest.raises(DeployError):
            self.deploy(bundle, AtStep(step, self.root, self.ssh.link.cut))
        self.ssh.link.mend()


@pytest.fixture(scope="module")
def boards(machine, program, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runtimes")
    boards = [Board(machine, program, f"board{n}", folder) for n in range(AT_ONCE)]
    supervised_place.start(*boards)
    yield boards
    for board in boards:
        board.ssh.close()


@pytest.mark.systems
def test_every_signal_and_a_cut_link_at_every_step(boards, make_bundle):
    free = list(boards)

    def one(number, step, sent):
        bundle = make_bundle(f"{number}.edgepipe", new=str(number).encode())
        board = free.pop()
        before, what = board.current, f"{sent.name if sent else 'a cut link'} at {step!r}"
        if sent:
            board.deploy_until(step, sent, bundle)
        else:
            board.deploy_until_cut(step, bundle)
        board.comes_back(what)
        assert (board.current > before) == (step == "remove old"), what
        # The board's half ends a little later.
        eventually(lambda: dying_deploy.is_unlocked(board.root / "lock"), f"locked after {what}")
        free.append(board)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        cases = enumerate(itertools.product(STEPS, (*SIGNALS, None)))
        done = [pool.submit(one, number, *case) for number, case in cases]
        try:
            for case in done:
                case.result()
        finally:
            pool.shutdown(cancel_futures=True)


@pytest.mark.systems
def test_a_link_that_falls_silent_while_the_unit_is_paused(boards, make_bundle):
    def one(board, step):
        before = board.current
        silence = AtStep(step, board.root, board.ssh.link.fall_silent)
        bundle = make_bundle(f"{step}.edgepipe", silent=step.encode())
        with pytest.raises(DeployError):
            board.deploy(bundle, silence, golden_timeout_s=1)
        board.comes_back(f"silence at {step!r}", within_s=60)
        board.ssh.link.mend()
        assert board.current == before

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(one, boards, ("golden run", "switch")))


def test_a_lock_held_by_another_process_ends_the_deploy_with_the_unit_running(boards, make_bundle):
    board = boards[-1]
    paused, before = board.root / "paused", board.current
    with paused.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_SH)
        with pytest.raises(DeployError) as caught:
            board.deploy(make_bundle(new=b"locked"))
    said = f"adopt: {paused}: still locked after 10 s, perhaps by a start of {board.unit}; "
    assert said + f"release {before} is still current" in str(caught.value)
    assert board.runs_the_current_release()

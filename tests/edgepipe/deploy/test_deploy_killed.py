"""A service that a deploy stopped comes back, however the deploy ends: under a real systemd.

The board is a machine whose process 1 is systemd (``systemd_machine``); its unit is the one that
``setup.sh`` installs. The board's half of a deploy is stopped before each of its commands in turn
and gets each signal there.
"""

import contextlib
import itertools
import os
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dying_deploy
import pytest
import supervised_place
from supervised_place import Place
from systemd_machine import SystemdMachine, eventually

from edgepipe.deploy import board_script, deployment

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
UNITS = ("waiting", "foreign")  # board/edgepipe.service, and a unit that does not know of deploys
BOARD_SIDE = Path(deployment.__file__).with_name("board_side.sh")
KEPT = 2  # releases
AT_ONCE = 16  # parallel deploys, each on its own folder and unit; most of the time they wait
# Before each command, the shell says so and takes a permission: a line.
GATE = "$(echo >{folder}/arrived; read -r go <{folder}/go)"
# The functions that adopt() calls, in order: the steps of the board's half.
STEPS = ("adopt", "pause", "golden", "point", "start", "prune")


class Traced(Place):
    """A deploy folder on which the board's half of a deploy runs command by command."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        for fifo in ("arrived", "go"):
            os.mkfifo(self.folder / fifo)

    def adopt(self, name, number):
        """Start the board's half of a deploy, its input open; return the process of nsenter."""
        script, begun = self.folder / "script", self.folder / "begun"
        begun.write_text("")
        text = board_script.read(BOARD_SIDE)
        for step in STEPS:  # the trace does not tell: two shells may write to one line of it
            text = text.replace(f"\n{step}() {{\n", f"\n{step}() {{\n    echo {step} >>{begun}\n")
        script.write_text(f"set -x\n{text}\n")
        gate = f"PS4={GATE.format(folder=self.folder)}"
        arguments = (self.root, name, number, KEPT, 20, self.unit, "")
        with (self.folder / "trace").open("wb") as trace:
            return subprocess.Popen(
                self.machine.command("env", gate, "sh", script, "adopt", *map(str, arguments)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=trace,
                start_new_session=True,
            )

    def becomes_free(self, what):
        """Wait until nothing of the last deploy runs any more."""
        lock = self.root / "adopting"
        eventually(
            lambda: dying_deploy.is_unlocked(lock),
            f"{lock} is locked after {what}",
            within_s=120,
        )

    def step(self):
        """Return the last step that the traced deploy has begun, or "" before the first."""
        begun = (self.folder / "begun").read_text().split()
        return begun[-1] if begun else ""


class Gate(threading.Thread):
    """Lets the traced shell pass, until it arrives at command ``stop_at``; then calls ``act``.

    The permissions for the commands before ``stop_at`` are there from the start. If it is 0, every
    command needs its own, and ``steps`` becomes the step of every command.
    """

    def __init__(self, place, stop_at, act):
        super().__init__(daemon=True)
        self.arrived, self.stop_at, self.act = 0, stop_at, act
        self.place, self.steps = place, []
        self._files = [os.open(place.folder / name, os.O_RDWR) for name in ("arrived", "go")]
        self._acted, self._ended = threading.Event(), threading.Event()
        self.start()

    def run(self):
        arrived, go = self._files
        given = max(0, self.stop_at - 1)
        os.write(go, b"\n" * given)
        while (more := os.read(arrived, 4096)) and not self._ended.is_set():
            self.arrived += len(more)
            if self.stop_at == 0:
                self.steps += [self.place.step()] * len(more)
            elif self.arrived >= self.stop_at and not self._acted.is_set():
                self.act()
                self._acted.set()
            if self.arrived > given:
                os.write(go, b"\n" * (self.arrived - given))
                given = self.arrived

    def has_acted(self):
        """Wait until ``act`` has returned; return whether the shell reached the command."""
        return 0 < self.stop_at <= self.arrived and self._acted.wait(180)

    def end(self):
        self._ended.set()
        os.write(self._files[0], b"\n")
        self.join()
        for file in self._files:
            os.close(file)


def signal_shell(process, sent):
    """Send a signal to the shell, nsenter's child, if it still runs."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    with contextlib.suppress(OSError):
        for child in children.read_text().split():
            os.kill(int(child), sent)


@contextlib.contextmanager
def deploy_stopped_at(place, number, stop_at, act):
    """Deploy a release; ``act(process)`` before command ``stop_at``. Yields the gate, exit code.

    Until the block ends, processes that the shell leaves behind may run their commands.
    """
    place.make_release(f".incoming-{number}")
    process = place.adopt(f".incoming-{number}", number)
    gate = Gate(place, stop_at, lambda: act(process))
    limit = threading.Timer(180, lambda: os.killpg(process.pid, signal.SIGKILL))
    limit.start()
    try:
        for line in process.stdout:
            if line.startswith(b"golden"):
                with contextlib.suppress(BrokenPipeError):  # the shell may have ended
                    process.stdin.write(b"y" if line == b"golden equal\n" else b"n")
                    process.stdin.flush()
        code = process.wait(timeout=180)
        limit.cancel()
        gate.has_acted()
        yield gate, code
    finally:
        limit.cancel()
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        process.stdout.close()
        gate.end()


@pytest.fixture(scope="module")
def places(machine, program):
    """Return deploy folders with running units, by kind."""
    found = {
        kind: [Traced(machine, program, f"{kind}{n}", kind) for n in range(AT_ONCE)]
        for kind in UNITS
    }
    supervised_place.start(*(place for some in found.values() for place in some))
    return found


def deploy_undisturbed(place):
    """Deploy; return the step of every command."""
    number = next(place.numbers)
    with deploy_stopped_at(place, number, 0, None) as (gate, code):
        assert (code, place.current) == (0, number)
        assert place.runs_the_current_release()
    assert set(STEPS) <= set(gate.steps)
    return gate.steps


@pytest.mark.parametrize("kind", UNITS)
def test_every_signal_before_every_command_of_the_boards_half(places, kind):
    free = list(places[kind])
    for place in free:  # as many releases as there are after some deploys
        for _ in range(KEPT):
            place.make_release(str(next(place.numbers)))
    with ThreadPoolExecutor(3) as pool:  # one that was delayed has polled more often
        steps = min(pool.map(deploy_undisturbed, free[:3]), key=len)
    cases = list(itertools.product(range(1, len(steps)), SIGNALS))

    def one(stop_at, sent):
        place = free.pop()
        before, number = place.current, next(place.numbers)

        def act(process):
            signal_shell(process, sent)

        what = f"{sent.name} before command {stop_at}"
        with deploy_stopped_at(place, number, stop_at, act) as (gate, _):
            place.comes_back(what)
            place.becomes_free(what)
        assert place.current in (before, number), what
        free.append(place)
        return gate.has_acted(), place.current == number

    with ThreadPoolExecutor(AT_ONCE) as pool:
        started = [pool.submit(one, *case) for case in cases]
        try:
            acted, switched = zip(*(case.result() for case in started), strict=True)
        finally:
            pool.shutdown(cancel_futures=True)
    assert set(switched) == {False, True}
    # A deploy that happens to poll less often makes fewer commands.
    assert sum(acted) > 0.95 * len(cases)


def test_a_reboot_at_every_step_of_the_boards_half(program, machine):
    mine = SystemdMachine(machine.folder / "rebooted")
    try:
        place = Traced(mine, program, "rebooted", "waiting")
        supervised_place.start(place)
        steps = deploy_undisturbed(place)
        for step in STEPS:
            before, number = place.current, next(place.numbers)
            third = steps.index(step) + 3
            with deploy_stopped_at(place, number, third, lambda _: mine.cut_power()) as (gate, _):
                assert gate.has_acted(), step
                mine.boot()
                place.comes_back(f"a reboot during {step}")
            assert place.current in (before, number), step
    finally:
        mine.close()

"""A service that a deploy stopped comes back, however the deploy ends: under a real systemd.

The board is a machine whose process 1 is systemd (``systemd_machine``); its unit is the one that
``setup.sh`` installs. The board's half of a deploy is stopped before each of its commands in turn
and gets each signal there: its shell, and at every step also its whole process group. So do a
rollback, at every step, and the start of a unit that was not running.
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
STEPS_OF_LAUNCH = ("launch", "start")
ATTEMPTS = 20  # a deploy that happens to poll less often makes fewer commands


class Traced(Place):
    """A deploy folder on which the board's half of a deploy runs command by command."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        for fifo in ("arrived", "go"):
            os.mkfifo(self.folder / fifo)

    def deploy(self):
        """Start the board's half of a deploy of a new release; return its process and number."""
        number = next(self.numbers)
        self.make_release(f".incoming-{number}")
        return self._adopt(f".incoming-{number}", number, KEPT), number

    def roll_back(self):
        """Start the board's half of a return to another release, as ``deploy``."""
        there = {int(path.name) for path in (self.root / "releases").glob("[0-9]*")}
        number = max(there - {self.current})
        return self._adopt(number, number, len(there)), number

    def launch(self):
        """Start the board's half of a deploy of an unchanged release to a stopped unit."""
        return self._begin("launch", self.unit)

    def _adopt(self, name, number, keep):
        return self._begin("adopt", name, number, keep, 20, self.unit, "")

    def _begin(self, step, *arguments):
        """Start a traced step, its input open; return the process of nsenter."""
        script, begun = self.folder / "script", self.folder / "begun"
        begun.write_text("")
        text = board_script.read(BOARD_SIDE)
        # The trace does not tell: two shells may write to one line of it.
        for name in {*STEPS, *STEPS_OF_LAUNCH}:
            text = text.replace(f"\n{name}() {{\n", f"\n{name}() {{\n    echo {name} >>{begun}\n")
        script.write_text(f"set -x\n{text}\n")
        gate = f"PS4={GATE.format(folder=self.folder)}"
        command = ("env", gate, "sh", script, step, self.root, *arguments)
        with (self.folder / "trace").open("wb") as trace:
            return subprocess.Popen(
                self.machine.command(*map(str, command)),
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


def leaves_nothing(process, what):
    """Wait until nothing of an ended step runs any more.

    What a killed shell left behind may be about to take a permission. It would take one of the next
    shell's, which would then wait for ever.
    """

    def is_empty():
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return True
        return False

    eventually(is_empty, f"there are processes of {what}")


def signal_group(process, sent):
    """Send a signal to nsenter, the shell, its subshells and their commands."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, sent)


@contextlib.contextmanager
def stopped_at(place, process, stop_at, act):
    """Call ``act(process)`` before command ``stop_at`` of a step. Yields the gate, exit code.

    Until the block ends, processes that the shell leaves behind may run their commands.
    """
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


def undisturbed(place, begin):
    """Deploy, or what else ``begin`` does; return the step of every command."""
    process, number = begin(place)
    with stopped_at(place, process, 0, None) as (gate, code):
        assert (code, place.current) == (0, number)
        assert place.runs_the_current_release()
    assert set(STEPS) <= set(gate.steps)
    return gate.steps


def prepared(places):
    """Return folders with as many releases as there are after some deploys."""
    for place in places:
        for _ in range(KEPT):
            place.make_release(str(next(place.numbers)))
    return list(places)


def signalled(place, begin, stop_at, sent, send):
    """Send a signal before a command; return whether the release was switched nevertheless."""
    what = f"{sent.name} before command {stop_at}"
    for _ in range(ATTEMPTS):
        before = place.current
        process, number = begin(place)
        with stopped_at(place, process, stop_at, lambda p: send(p, sent)) as (gate, _):
            place.comes_back(what)
            place.becomes_free(what)
        assert place.current in (before, number), what
        if gate.has_acted():
            return place.current == number
    raise AssertionError(f"{what}: not reached in {ATTEMPTS} deploys")


def each(free, cases, one):
    """Return the results of ``one(place, *case)``, on as many folders at once as there are."""

    def on_a_free_place(case):
        place = free.pop()
        result = one(place, *case)
        free.append(place)
        return result

    with ThreadPoolExecutor(len(free)) as pool:
        started = [pool.submit(on_a_free_place, case) for case in cases]
        try:
            return [case.result() for case in started]
        finally:
            pool.shutdown(cancel_futures=True)


@pytest.mark.systems
@pytest.mark.parametrize("kind", UNITS)
def test_every_signal_before_every_command_of_the_boards_half(places, kind):
    free = prepared(places[kind])
    with ThreadPoolExecutor(3) as pool:  # one that was delayed has polled more often
        steps = min(pool.map(lambda p: undisturbed(p, Traced.deploy), free[:3]), key=len)
    cases = itertools.product(range(1, len(steps)), SIGNALS)

    def one(place, stop_at, sent):
        return signalled(place, Traced.deploy, stop_at, sent, signal_shell)

    assert set(each(free, cases, one)) == {False, True}


@pytest.mark.systems
@pytest.mark.parametrize("kind", UNITS)
@pytest.mark.parametrize(
    ("begin", "send"),
    [
        (Traced.deploy, signal_group),
        (Traced.roll_back, signal_shell),
        (Traced.roll_back, signal_group),
    ],
    ids=["deploy, process group", "rollback, shell", "rollback, process group"],
)
def test_every_signal_at_every_step(places, kind, begin, send):
    free = prepared(places[kind])
    steps = undisturbed(free[0], begin)
    # While the unit is being stopped, every command counts: part of it runs beside the shell.
    commands = {n for n, step in enumerate(steps, 1) if step == "pause" and n < len(steps)}
    cases = itertools.product(sorted(commands | {steps.index(step) + 2 for step in STEPS}), SIGNALS)

    def one(place, stop_at, sent):
        return signalled(place, begin, stop_at, sent, send)

    assert set(each(free, cases, one)) == {False, True}


@pytest.mark.systems
def test_a_start_of_an_unchanged_release_that_gets_a_signal_can_be_repeated(places):
    free = list(places["waiting"])
    for place in free:
        place.machine.must("systemctl", "stop", place.unit)
    with stopped_at(free[0], free[0].launch(), 0, None) as (gate, code):
        assert code == 0
    assert set(STEPS_OF_LAUNCH) <= set(gate.steps)
    cases = itertools.product(range(1, len(gate.steps)), SIGNALS, (signal_shell, signal_group))

    def one(place, stop_at, sent, send):
        before = place.current
        place.machine.must("systemctl", "stop", place.unit)
        process = place.launch()
        with stopped_at(place, process, stop_at, lambda p: send(p, sent)) as (gate, code):
            assert gate.has_acted()
            assert code != 0
            leaves_nothing(process, f"a start that got {sent.name} before command {stop_at}")
        with stopped_at(place, place.launch(), 0, None) as (_, code):
            assert code == 0
        assert place.runs_the_current_release()
        assert place.current == before

    each(free, cases, one)


def test_a_reboot_at_every_step_of_the_boards_half(program, machine):
    mine = SystemdMachine(machine.folder / "rebooted")
    try:
        place = Traced(mine, program, "rebooted", "waiting")
        supervised_place.start(place)
        steps = undisturbed(place, Traced.deploy)
        for step in STEPS:
            before, third = place.current, steps.index(step) + 3
            process, number = place.deploy()
            with stopped_at(place, process, third, lambda _: mine.cut_power()) as (gate, _):
                assert gate.has_acted(), step
                mine.boot()
                place.comes_back(f"a reboot during {step}")
            assert place.current in (before, number), step
    finally:
        mine.close()

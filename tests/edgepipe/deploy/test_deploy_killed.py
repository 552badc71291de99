"""A service that a deploy stopped comes back, however the deploy ends: under a real systemd.

The board is a machine whose process 1 is systemd (``systemd_machine``); its unit is the one that
``setup.sh`` installs. The board's half of a deploy is stopped before each of its commands in turn
and gets a signal there.
"""

import contextlib
import fcntl
import itertools
import os
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from ssh_board import SshBoard
from systemd_machine import SystemdMachine, eventually, installed_unit

from edgepipe.deploy import board_script, deployment

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
UNITS = ("waiting", "foreign")  # board/edgepipe.service, and a unit that does not know of deploys
BOARD_SIDE = Path(deployment.__file__).with_name("board_side.sh")
AT_ONCE = 6  # deploys on as many folders and units: most of the time they wait
# Before each command, the shell says so and waits for permission.
_COUNT = itertools.count()
GATE = "$(echo >{folder}/arrived; read -r go <{folder}/go)"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    output = tmp_path_factory.mktemp("service") / "program"
    source = Path(__file__).with_name("supervised_service.c")
    subprocess.run(["cc", "-o", output, source], check=True)
    return output


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    folder = tmp_path_factory.mktemp("machine")
    for parent in (folder, *folder.parents):
        if parent.stat().st_uid == os.geteuid() and parent.is_relative_to("/tmp"):
            parent.chmod(0o755)
    machine = SystemdMachine(folder)
    yield machine
    machine.close()


class Place:
    """A deploy folder with release 1, and the unit that runs its current release."""

    def __init__(self, machine, program, name, kind, root=None):
        self.machine, self.program = machine, program
        self.unit = f"edgepipe-{name}"
        self.folder = root.parent if root else machine.folder / name
        self.root = root or self.folder / "edgepipe"
        self.root.mkdir(parents=True)
        (self.root / "accelerator").touch()
        self.numbers = itertools.count(2)
        for fifo in ("arrived", "go"):
            os.mkfifo(self.folder / fifo)
        self.make_release("1")
        (self.root / "current").symlink_to("releases/1")
        lines = installed_unit(self.root, cores="0").splitlines(keepends=True)
        if kind == "foreign":
            lines = [line for line in lines if not line.startswith("ExecStartPre=")]
        (machine.units / f"{self.unit}.service").write_text("".join(lines))
        wants = machine.units / "multi-user.target.wants"  # the unit is enabled
        wants.mkdir(exist_ok=True)
        (wants / f"{self.unit}.service").symlink_to(machine.units / f"{self.unit}.service")

    def make_release(self, name, *, is_broken=False):
        folder = self.root / "releases" / name
        (folder / "bundle").mkdir(parents=True)
        (folder / "bin").mkdir()
        for tool in ("edgepipe-run", "edgepipe-cam"):
            os.link(self.program, folder / "bin" / tool)
        if is_broken:
            (folder / "bundle/broken").touch()

    def adopt(self, name, number, *, trace=False):
        """Start the board's half of a deploy, its input open; return the process of nsenter."""
        script = self.folder / "script"
        script.write_text(("set -x\n" if trace else "") + board_script.read(BOARD_SIDE))
        gate = f"PS4={GATE.format(folder=self.folder)}"
        arguments = (self.root, name, number, 5, 20, self.unit, "")
        return subprocess.Popen(
            self.machine.command("env", gate, "sh", script, "adopt", *map(str, arguments)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def current(self):
        return int((self.root / "current").readlink().name)

    def runs_the_current_release(self):
        show = self.machine.property
        pid = show(self.unit, "MainPID")
        if show(self.unit, "ActiveState") != "active" or pid == "0":
            return False
        where = self.machine.run("readlink", f"/proc/{pid}/cwd").stdout.strip()
        return where == f"{self.root}/releases/{self.current}"

    def comes_back(self, what):
        eventually(self.runs_the_current_release, f"{self.unit} does not run after {what}")


class Gate(threading.Thread):
    """Lets the traced shell pass, until it arrives at command ``stop_at``; then calls ``act``."""

    def __init__(self, place, stop_at, act):
        super().__init__(daemon=True)
        self.arrived, self.stop_at, self.act = 0, stop_at, act
        self._files = [os.open(place.folder / name, os.O_RDWR) for name in ("arrived", "go")]
        self._acted, self._ended = threading.Event(), threading.Event()
        self.start()

    def run(self):
        arrived, go = self._files
        while os.read(arrived, 1) and not self._ended.is_set():
            self.arrived += 1
            if self.arrived == self.stop_at:
                self.act()
                self._acted.set()
            os.write(go, b"\n")

    def commands(self):
        """Return how many commands the shell arrived at, after ``act`` if it was called."""
        assert not 0 < self.stop_at <= self.arrived or self._acted.wait(30)
        return self.arrived

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
    """Deploy a release; ``act(process)`` before command ``stop_at``. Yields commands, exit code.

    Until the block ends, what the shell leaves behind may run its commands.
    """
    place.make_release(f".incoming-{number}")
    process = place.adopt(f".incoming-{number}", number, trace=True)
    gate = Gate(place, stop_at, lambda: act(process))
    limit = threading.Timer(60, lambda: os.killpg(process.pid, signal.SIGKILL))
    limit.start()
    try:
        for line in process.stdout:
            if line.startswith(b"golden"):
                with contextlib.suppress(BrokenPipeError):  # the shell may have ended
                    process.stdin.write(b"y" if line == b"golden equal\n" else b"n")
                    process.stdin.flush()
        code = process.wait(timeout=60)
        yield gate.commands(), code
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
        kind: [Place(machine, program, f"{kind}{n}", kind) for n in range(AT_ONCE)]
        for kind in UNITS
    }
    machine.must("systemctl", "daemon-reload")
    for place in (place for some in found.values() for place in some):
        machine.must("systemctl", "start", place.unit)
        assert place.runs_the_current_release()
    return found


@pytest.mark.parametrize("kind", UNITS)
def test_a_signal_before_any_command_of_the_boards_half(places, kind):
    free = list(places[kind])
    number = next(free[0].numbers)
    with deploy_stopped_at(free[0], number, 0, None) as (commands, code):
        assert (code, free[0].current) == (0, number)
        assert free[0].runs_the_current_release()
    assert commands > 60

    def one(stop_at, sent):
        place = free.pop()
        before, number = place.current, next(place.numbers)

        def act(process):
            signal_shell(process, sent)

        what = f"{sent.name} before command {stop_at}"
        with deploy_stopped_at(place, number, stop_at, act):
            place.comes_back(what)
        assert place.current in (before, number), what
        free.append(place)
        return place.current == number

    with ThreadPoolExecutor(AT_ONCE) as pool:
        cases = [(n, SIGNALS[n % 4]) for n in range(1, commands)]
        if kind == "waiting":
            cases += [(n, signal.SIGKILL) for n in range(1, commands) if n % 4]
        switched = [pool.submit(one, *case) for case in cases]
        try:
            assert {case.result() for case in switched} == {False, True}
        finally:
            pool.shutdown(cancel_futures=True)


def test_a_reboot_before_any_tenth_command_of_the_boards_half(program, machine):
    mine = SystemdMachine(machine.folder / "rebooted")
    try:
        place = Place(mine, program, "rebooted", "waiting")
        mine.must("systemctl", "daemon-reload")
        mine.must("systemctl", "start", place.unit)
        commands = itertools.count(4, 10)
        for number, stop_at in zip(place.numbers, commands, strict=False):
            before = place.current
            cut = deploy_stopped_at(place, number, stop_at, lambda _: mine.cut_power())
            with cut as (done, _):
                if done < stop_at:  # the deploy has fewer commands
                    break
                mine.boot()
                place.comes_back(f"a reboot before command {stop_at}")
            assert place.current in (before, number)
        assert stop_at > 60
    finally:
        mine.close()


class Deploys:
    """A board behind ssh on the machine, with a unit for its deploy folder."""

    def __init__(self, machine, program, make_bundle, tmp_path):
        self.make_bundle = make_bundle
        self.runtimes = tuple(tmp_path / tool for tool in ("edgepipe-run", "edgepipe-cam"))
        for tool in self.runtimes:
            shutil.copy(program, tool)
        folder = machine.folder / f"ssh-{next(_COUNT)}"
        folder.mkdir()
        self.board = SshBoard(folder, "board", inside=machine.command())
        self.place = Place(machine, program, folder.name, "waiting", root=self.board.root)
        machine.must("systemctl", "daemon-reload")
        machine.must("systemctl", "start", self.place.unit)

    def start(self, content, *, golden_timeout_s=20):
        """Start a deploy as a process that prints its steps."""
        command = [
            sys.executable,
            "-c",
            DEPLOY,
            self.board.ssh_config,
            self.make_bundle(new=content),
        ]
        return subprocess.Popen(
            [*command, self.place.unit, str(golden_timeout_s), *self.runtimes],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


DEPLOY = """
import sys
from pathlib import Path
from edgepipe.deploy import deployment
from edgepipe.deploy.connection import Target
from edgepipe.progress import Silent

class Said(Silent):
    def step(self, text):
        print(text, flush=True)

config, bundle, unit, seconds, *runtimes = sys.argv[1:]
options = deployment.DeployOptions(
    operator="killed", unit=unit, runtimes=tuple(map(Path, runtimes)), golden_timeout_s=int(seconds)
)
target = Target(host="board", root="edgepipe", ssh_config=Path(config))
deployment.deploy(target, deployment.open_source(Path(bundle)), options, Said())
"""


@pytest.fixture
def deploys(machine, program, make_bundle, tmp_path):
    deploys = Deploys(machine, program, make_bundle, tmp_path)
    yield deploys
    deploys.board.close()


CUTS = [
    *(("golden run", sent) for sent in SIGNALS),
    ("switch", signal.SIGKILL),
    ("remove old", signal.SIGKILL),
]


def test_a_signal_to_the_side_that_deploys(deploys):
    for number, (step, sent) in enumerate(CUTS):
        before = deploys.place.current
        process = deploys.start(bytes([number]))
        for line in process.stdout:
            if line.startswith(step):
                process.send_signal(sent)
        error = process.communicate()[1]
        assert process.returncode != 0 or step == "remove old", error
        deploys.place.comes_back(f"{sent.name} at {step!r}: {error}")
        new = deploys.place.current
        assert new > before if step == "remove old" else step == "switch" or new == before


@pytest.mark.parametrize("how", ["cut", "fall_silent"])
def test_a_link_that_is_lost_during_the_golden_run(deploys, how):
    link = deploys.board.link
    process = deploys.start(b"new", golden_timeout_s=1)
    for line in process.stdout:
        if line.startswith("golden run"):
            getattr(link, how)()
    process.communicate()
    assert process.returncode != 0
    eventually(deploys.place.runs_the_current_release, "the unit does not come back", within_s=60)
    assert deploys.place.current == 1


def test_a_lock_that_somebody_else_keeps_ends_the_deploy_with_the_unit_running(deploys):
    with (deploys.board.root / "paused").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_SH)
        error = deploys.start(b"new").communicate()[1]
    paused = deploys.board.root / "paused"
    said = f"adopt: {paused}: still locked after 10 s, perhaps by a start of {deploys.place.unit}; "
    assert said + "release 1 is still current" in error
    assert deploys.place.runs_the_current_release()

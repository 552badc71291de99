"""Start, find, reach and stop the virtual board. Its state is a folder that may be deleted."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgepipe.errors import VirtualBoardError, advise
from edgepipe.progress import Progress, Silent
from edgepipe.virtual_board import board_tree, flat_device_tree, host_tools, image, qemu
from edgepipe.virtual_board.fpga_model import FpgaModel, FpgaOptions
from edgepipe.virtual_board.processes import ProcessId, start_detached

SSH_HOST = "virtual-ultra96"
BOOT_DEADLINE_S = 180.0  # ten seconds on an idle machine
SHARED_MEMORY = Path("/dev/shm")
_READY = b"VIRTUAL-BOARD-READY"


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A started board, as written to its folder for later commands."""

    qemu: ProcessId
    ssh_port: int
    memory_file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The board's state: "up", "down" or "broken" (QEMU runs, but its FPGA model does not)."""

    state: str
    ssh_port: int | None = None
    ssh_config: str | None = None
    qemu_pid: int | None = None
    fpga: FpgaOptions | None = None
    fpga_pid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualBoard:
    """The virtual board whose images, logs and state are in ``folder``.

    Lifecycle: down -> up -> down, any number of times. Only one process at a time changes it;
    others wait.
    """

    folder: Path

    def up(
        self,
        *,
        fpga: FpgaOptions | None,
        port: int | None = None,
        rebuild: bool = False,
        progress: Progress | None = None,
    ) -> bool:
        """Start the board and wait until login works; return false if it was already up.

        ``fpga`` configures the FPGA; None leaves it blank. ``port`` is the local SSH port, a free
        one by default. Raises ``VirtualBoardError``. After an error or Ctrl-C, nothing is left
        running.
        """
        progress = progress or Silent()
        with self._locked():
            if self._running_state() is not None:
                return False
            with advise("download and build the image again", option="rebuild"):
                built = image.ensure(self.folder, progress, rebuild=rebuild)
            host_tools.require(["qemu-system-aarch64", "ssh"])
            self._clean()
            progress.step("start the virtual Ultra96")
            try:
                state = self._start_qemu(built, port or _free_port())
                if fpga is not None:
                    FpgaModel(self.run_folder).start(fpga, Path(state.memory_file))
                self._wait_for_login(state, progress)
            except BaseException:
                self._stop()
                raise
            return True

    def down(self) -> bool:
        """Stop the board; return false if it was not up. Keeps the logs."""
        if not self.folder.is_dir():
            return False
        with self._locked():
            was_up = self._running_state() is not None
            self._stop()
            return was_up

    def reset(self, progress: Progress | None = None) -> None:
        """Cut the running board's power briefly and wait until login works again.

        Everything already written to the SD card is kept. The FPGA loses its configuration and is
        loaded again. Raises ``VirtualBoardError`` if the board is down or does not come back.
        """
        with self._locked():
            state = self._required_state()
            model = FpgaModel(self.run_folder)
            fpga = model.options()
            model.stop()
            boots = self._boots()
            resets = qemu.order(self.run_folder, "system_reset")
            if fpga is not None:
                model.start(fpga, Path(state.memory_file))
            if not resets:
                raise VirtualBoardError(
                    "virtual board: QEMU refused the reset", hint="stop it and start it again"
                )
            self._wait_for_login(state, progress or Silent(), boots=boots + 1)

    def status(self) -> Status:
        """Return what is running, without a lock and without changes."""
        state = self._running_state()
        if state is None:
            return Status(state="down")
        model = FpgaModel(self.run_folder)
        wanted, process = model.options(), model.process()
        return Status(
            state="broken" if wanted is not None and process is None else "up",
            ssh_port=state.ssh_port,
            ssh_config=str(self.ssh_config),
            qemu_pid=state.qemu.pid,
            fpga=wanted,
            fpga_pid=process.pid if process else None,
        )

    def load_fpga(self, fpga: FpgaOptions | None) -> None:
        """Reload the running board's FPGA, or blank it; raise an error if the board is down."""
        with self._locked():
            state = self._required_state()
            model = FpgaModel(self.run_folder)
            model.stop()
            if fpga is not None:
                model.start(fpga, Path(state.memory_file))

    def ssh_command(self, command: Sequence[str] = ()) -> list[str]:
        """Return the command line that logs in or runs ``command``; raise if the board is down."""
        self._required_state()
        return [host_tools.find("ssh"), "-F", str(self.ssh_config), SSH_HOST, *command]

    def run(
        self, command: Sequence[str], *, stdin: bytes = b"", deadline_s: float = 60.0
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command on the board and return its exit code and output.

        Raises ``VirtualBoardError`` if the board is down or the command takes too long.
        """
        try:
            return subprocess.run(
                self.ssh_command(command),
                input=stdin,
                capture_output=True,
                timeout=deadline_s,
                check=False,
            )
        except subprocess.TimeoutExpired as cause:
            raise VirtualBoardError(
                f"virtual board: {command[0]} did not end within {deadline_s:.0f} s",
                hint="allow more time, or restart the board",
            ) from cause

    @property
    def run_folder(self) -> Path:
        """The files of the running board: sockets, logs, keys, state."""
        return self.folder / "run"

    @property
    def ssh_config(self) -> Path:
        """An OpenSSH configuration file with the host ``virtual-ultra96``."""
        return self.run_folder / "ssh_config"

    # The methods below need the lock, except the two that read the state.

    def _running_state(self) -> State | None:
        try:
            table = json.loads((self.run_folder / "state.json").read_text())
            state = State(
                qemu=ProcessId(**table["qemu"]),
                ssh_port=table["ssh_port"],
                memory_file=table["memory_file"],
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return state if state.qemu.alive else None

    def _required_state(self) -> State:
        state = self._running_state()
        if state is None:
            raise VirtualBoardError(
                f"virtual board: not running (state in {self.folder})",
                hint="start it with: edgepipe virtual-board up",
            )
        return state

    def _start_qemu(self, built: image.Image, port: int) -> State:
        run = self.run_folder
        tree = flat_device_tree.parse(built.device_tree.read_bytes())
        board_tree.adapt(tree, rng_seed=secrets.token_bytes(64))
        board_tree.add_accelerator(tree)
        (run / "board.dtb").write_bytes(flat_device_tree.serialise(tree))
        memory_file = _memory_folder(run) / f"edgepipe-virtual-board-{secrets.token_hex(8)}"
        os.close(os.open(memory_file, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        self._write_ssh_files(built, port, _control_socket(memory_file))
        options = qemu.QemuOptions(
            image=built,
            device_tree=run / "board.dtb",
            memory_file=memory_file,
            ssh_port=port,
        )
        # The file's name is stored before QEMU starts, so that `down` always finds and removes
        # both.
        state = State(
            qemu=ProcessId(pid=0, start_ticks=0), ssh_port=port, memory_file=str(memory_file)
        )
        self._write_state(state)
        process = start_detached(
            options.command(), folder=run, log=run / "qemu.log", environment=qemu.environment()
        )
        state = dataclasses.replace(state, qemu=process)
        self._write_state(state)
        _wait_for(
            lambda: (run / qemu.QTEST_SOCKET).exists(), state, run, deadline_s=20, what="QEMU"
        )
        return state

    def _write_state(self, state: State) -> None:
        temporary = self.run_folder / "state.json.new"
        temporary.write_text(json.dumps(dataclasses.asdict(state)) + "\n")
        temporary.replace(self.run_folder / "state.json")

    def _write_ssh_files(self, built: image.Image, port: int, control_socket: Path) -> None:
        run = self.run_folder
        shutil.copyfile(built.identity, run / "id_ed25519")
        (run / "id_ed25519").chmod(0o600)
        kind, key = built.host_key.with_suffix(".pub").read_text().split()[:2]
        (run / "known_hosts").write_text(f"{SSH_HOST} {kind} {key}\n")
        self.ssh_config.write_text(
            f"Host {SSH_HOST}\n"
            "    HostName 127.0.0.1\n"
            f"    Port {port}\n"
            "    User root\n"
            f"    HostKeyAlias {SSH_HOST}\n"
            f'    IdentityFile "{run}/id_ed25519"\n'
            f'    UserKnownHostsFile "{run}/known_hosts"\n'
            "    IdentitiesOnly yes\n"
            "    StrictHostKeyChecking yes\n"
            "    BatchMode yes\n"
            "    ConnectTimeout 20\n"
            "    LogLevel ERROR\n"
            # One connection for all sessions, since a key exchange takes a second on emulated
            # cores.
            "    ControlMaster auto\n"
            f'    ControlPath "{control_socket}"\n'
            "    ControlPersist yes\n"  # it ends with the board
        )

    def _boots(self) -> int:
        """Return how often the board has reported that it is ready."""
        console = self.run_folder / qemu.CONSOLE_LOG
        return console.read_bytes().count(_READY) if console.exists() else 0

    def _wait_for_login(self, state: State, progress: Progress, boots: int = 1) -> None:
        run = self.run_folder
        began = time.monotonic()

        def ready() -> bool:
            progress.update(int(time.monotonic() - began), int(BOOT_DEADLINE_S))
            return self._boots() >= boots

        # QEMU accepts connections before the guest can answer, so wait for the guest's message
        # first.
        _wait_for(ready, state, run, deadline_s=BOOT_DEADLINE_S, what="the board's system")
        left_s = max(BOOT_DEADLINE_S - (time.monotonic() - began), 10.0)
        set_clock = ["date", "-s", f"@{int(time.time())}"]  # the first login also sets the clock
        _wait_for(
            lambda: self.run(set_clock, deadline_s=30).returncode == 0,
            state,
            run,
            deadline_s=left_s,
            what="the board's SSH server",
        )

    def _stop(self) -> None:
        FpgaModel(self.run_folder).stop()
        state = self._running_state()
        if state is not None:
            if qemu.order(self.run_folder, "quit"):
                state.qemu.wait_until_gone(5.0)
            state.qemu.stop()
        self._clean()

    def _clean(self) -> None:
        """Remove the files of a stopped board, except its logs, and create a new run folder."""
        run = self.run_folder
        with contextlib.suppress(OSError, ValueError, KeyError):
            memory_file = Path(json.loads((run / "state.json").read_text())["memory_file"])
            memory_file.unlink(missing_ok=True)
            _control_socket(memory_file).unlink(missing_ok=True)
        logs = self.folder / "logs"
        logs.mkdir(exist_ok=True)
        for log in run.glob("*.log"):
            log.replace(logs / log.name)
        shutil.rmtree(run, ignore_errors=True)
        run.mkdir(mode=0o700)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _wait_for(
    condition: Callable[[], bool], state: State, run: Path, *, deadline_s: float, what: str
) -> None:
    deadline = time.monotonic() + deadline_s
    while not condition():
        if not state.qemu.alive:
            raise qemu.start_failure(run / "qemu.log")
        if time.monotonic() > deadline:
            console = run.parent / "logs" / qemu.CONSOLE_LOG
            raise VirtualBoardError(
                f"virtual board: {what} did not answer within {deadline_s:.0f} s",
                hint=f"the board's console: {console}",
            )
        time.sleep(0.1)


def _memory_folder(run: Path) -> Path:
    """Return the folder of the guest's memory file: in RAM if possible, else next to the state."""
    return SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else run


def _control_socket(memory_file: Path) -> Path:
    """Return the path of ssh's control socket for this start of the board; it must be short."""
    folder = memory_file.parent if memory_file.parent == SHARED_MEMORY else Path("/tmp")
    return folder / f"{memory_file.name}.ssh"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

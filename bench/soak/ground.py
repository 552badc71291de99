"""Where the pipeline runs: the virtual board with the kernel's test camera, or this machine."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import shlex
import socket
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench import models
from edgepipe import boards
from edgepipe.bundle import storage
from edgepipe.cli.console import ConsoleProgress
from edgepipe.deploy import deployment
from edgepipe.deploy.connection import Target
from edgepipe.deploy.deployment import DeployOptions
from edgepipe.virtual_board.board import SSH_HOST, VirtualBoard
from edgepipe.virtual_board.fpga_model import FpgaOptions

HANG_EVERY = 25  # runs of a VTA stage
SILENCE_S = 3  # until a silent camera is opened again
PICTURES_PER_S = 30.0

_HEALTHY = FpgaOptions(accelerator=boards.load("ultra96").accelerator)


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A running edgepipe-cam."""

    process: subprocess.Popen[str]  # here, of the program or of the SSH client that started it
    number: int  # of its process, on its machine
    port: int  # of its page, on this machine
    page_port: int  # of its page, on its machine


class Ground(ABC):
    """A machine with a camera and an accelerator that hangs occasionally; a context manager."""

    deploys = False
    hang_limit_s = 1

    @abstractmethod
    def shell(self, script: str, deadline_s: float = 60.0) -> str:
        """Run a script of the machine's shell and return its output.

        Raises ``subprocess.SubprocessError`` or ``EdgepipeError`` if it fails.
        """

    @abstractmethod
    def run_beside(self, script: str, output: Path) -> subprocess.Popen[bytes]:
        """Start a bash script on the machine, with its standard output in a file here."""

    @abstractmethod
    def start(self, errors: Path) -> Program:
        """Start edgepipe-cam and wait for its page."""

    @abstractmethod
    def injected_hangs(self, frames: int, run_again: int) -> int:
        """Return how many runs the model of the FPGA has hung since ``start``.

        The program has delivered that many ``frames``, and run a stage again that often.
        """

    @abstractmethod
    def unplug(self) -> None:
        """Unplug the camera."""

    @abstractmethod
    def plug(self) -> None:
        """Plug the camera in again."""

    def deploy(self, number: int) -> None:
        """Deploy the bundle again, as another release. Only if ``deploys``."""
        raise ValueError("deploys need a board")

    def roll_back(self) -> None:
        """Make the previous release the current one. Only if ``deploys``."""
        raise ValueError("rollbacks need a board")

    @abstractmethod
    def close(self) -> None:
        """End what was started."""

    @property
    def lines(self) -> str:
        """The file of results, on the machine."""
        return "/tmp/edgepipe-soak.jsonl"

    def _options(self) -> str:
        limits = f"--source-timeout {SILENCE_S} --device-timeout {self.hang_limit_s}"
        return f"--jsonl {self.lines} {limits}"


def _popen(command: list[str], errors: Path) -> tuple[subprocess.Popen[str], int]:
    """Start a shell that prints its process number first; standard error goes to a file."""
    with errors.open("wb") as stream:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stream,
            text=True,
            start_new_session=True,  # Ctrl-C is for the soak alone
        )
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def _run_beside(command: list[str], output: Path) -> subprocess.Popen[bytes]:
    with output.open("wb") as stream:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=stream, start_new_session=True
        )


def _wait_for_page(process: subprocess.Popen[str], errors: Path) -> int:
    end = time.monotonic() + 120
    while time.monotonic() < end:
        said = errors.read_text(errors="replace")
        if found := re.search(r"^page: http://[^:]+:(\d+)/", said, re.MULTILINE):
            return int(found[1])
        if process.poll() is not None:
            raise SystemExit(f"edgepipe-cam ended at once:\n{said}")
        time.sleep(0.1)
    raise SystemExit("edgepipe-cam shows no page")


class Here(Ground):
    """This machine: the camera is a FIFO of pictures, the accelerator the model of the FPGA."""

    def __init__(self, bundle: Path, folder: Path) -> None:
        manifest = storage.read_manifest(bundle)
        shape = manifest.preprocess
        self._bundle = bundle
        self._vta_stages = sum(stage.kind == "vta" for stage in manifest.stages)
        self._fifo = folder / "camera"
        self._picture = bytes(shape.width * shape.height * (1 if shape.order == "GRAY" else 3))
        self._lines = folder / "results.jsonl"
        os.mkfifo(self._fifo)
        self._plugged = threading.Event()
        self._plugged.set()
        self._ended = threading.Event()
        self._feeder = threading.Thread(target=self._feed, name="camera", daemon=True)
        self._feeder.start()

    @property
    def lines(self) -> str:
        """The file of results."""
        return str(self._lines)

    def shell(self, script: str, deadline_s: float = 60.0) -> str:
        """Run a script here."""
        command = ["sh", "-c", script]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=deadline_s, check=True
        )
        return done.stdout

    def run_beside(self, script: str, output: Path) -> subprocess.Popen[bytes]:
        """Start a bash script here."""
        return _run_beside(["bash", "-c", script], output)

    def start(self, errors: Path) -> Program:
        """Start edgepipe-cam of this build on the FIFO."""
        program = models.ROOT / "build" / "host" / "bin" / "edgepipe-cam"
        command = (
            f"echo $$; exec {program} {self._bundle} --source {self._fifo} --http 127.0.0.1:0 "
            f"--device model --fault hang={HANG_EVERY} {self._options()}"
        )
        process, number = _popen(["sh", "-c", command], errors)
        port = _wait_for_page(process, errors)
        return Program(process=process, number=number, port=port, page_port=port)

    def injected_hangs(self, frames: int, run_again: int) -> int:
        """Return how many runs have hung: the model is in the program, and counts its runs."""
        return (frames * self._vta_stages + run_again) // HANG_EVERY

    def unplug(self) -> None:
        """Close the FIFO."""
        self._plugged.clear()

    def plug(self) -> None:
        """Write to the FIFO again."""
        self._plugged.set()

    def close(self) -> None:
        """End the camera."""
        self._ended.set()
        self._feeder.join(timeout=10)

    def _feed(self) -> None:
        while not self._ended.is_set():
            if not self._plugged.wait(timeout=0.2):
                continue
            with contextlib.suppress(OSError):  # there is no reader, or it has stopped reading
                number = os.open(self._fifo, os.O_WRONLY | os.O_NONBLOCK)
                try:
                    self._write(number)
                finally:
                    os.close(number)
            time.sleep(0.05)

    def _write(self, number: int) -> None:
        sent = 0
        while self._plugged.is_set() and not self._ended.is_set():
            try:
                sent += os.write(number, self._picture[sent:])
            except BlockingIOError:
                time.sleep(0.005)
                continue
            if sent == len(self._picture):
                sent = 0
                time.sleep(1 / PICTURES_PER_S)


class OnBoard(Ground):
    """The virtual Ultra96: vivid at /dev/video0, deploys over SSH, an FPGA model that hangs."""

    deploys = True
    hang_limit_s = 3  # emulated cores are slow

    def __init__(self, bundle: Path) -> None:
        self._bundle = bundle
        self._folder = bundle.parent
        self._board = VirtualBoard(folder=models.ROOT / "build" / "test-board")
        progress = ConsoleProgress()
        self._board.down()
        self._board.up(fpga=_HEALTHY, progress=progress)
        progress.finish()
        self._target = Target(host=SSH_HOST, root="soak", ssh_config=self._board.ssh_config)
        self._hangs_before = 0
        self._options_of_deploy = DeployOptions(operator="soak", unit="", golden_timeout_s=300)
        self._set_up_camera()
        self.deploy(0)

    def shell(self, script: str, deadline_s: float = 60.0) -> str:
        """Run a script on the board."""
        done = self._board.run([script], deadline_s=deadline_s)
        done.check_returncode()
        return done.stdout.decode()

    def run_beside(self, script: str, output: Path) -> subprocess.Popen[bytes]:
        """Start a bash script on the board."""
        return _run_beside(self._board.ssh_command(["bash", "-c", shlex.quote(script)]), output)

    def start(self, errors: Path) -> Program:
        """Start the current release's edgepipe-cam, and a tunnel to its page."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port: int = listener.getsockname()[1]
        command = self._board.ssh_command()
        script = (
            "echo $$; cd soak/current && exec ./bin/edgepipe-cam bundle --camera /dev/video0 "
            f"--http 127.0.0.1:8080 --device uio {self._options()}"
        )
        tunnel = ["-L", f"{port}:127.0.0.1:8080", "-o", "ExitOnForwardFailure=yes"]
        self._hangs_before = self._hangs()
        process, number = _popen([*command[:-1], *tunnel, command[-1], script], errors)
        page_port = _wait_for_page(process, errors)
        return Program(process=process, number=number, port=port, page_port=page_port)

    def injected_hangs(self, frames: int, run_again: int) -> int:
        """Return how many runs have hung, as the model's process has written down."""
        return self._hangs() - self._hangs_before

    def unplug(self) -> None:
        """Unbind the driver of the camera."""
        self.shell("echo vivid.0 > /sys/bus/platform/drivers/vivid/unbind")

    def plug(self) -> None:
        """Bind the driver again."""
        self.shell("echo vivid.0 > /sys/bus/platform/drivers/vivid/bind")
        self._set_up_camera()

    def deploy(self, number: int) -> None:
        """Deploy the bundle under another name, so that it is another release."""
        copy = self._folder / "soak.edgepipe"
        manifest = storage.read_manifest(self._bundle)
        files = {entry.path: storage.read_file(self._bundle, entry) for entry in manifest.files}
        files["soak.txt"] = f"{number}\n".encode()
        storage.write(copy, files, lambda entries: dataclasses.replace(manifest, files=entries))
        with self._healthy():
            deployment.deploy(self._target, deployment.open_source(copy), self._options_of_deploy)

    def roll_back(self) -> None:
        """Make the previous release the current one."""
        with self._healthy():
            deployment.rollback(self._target, None, self._options_of_deploy)

    def close(self) -> None:
        """Stop the board."""
        self._board.down()

    def _hangs(self) -> int:
        log = self._board.run_folder / "fpga-model.log"  # begins again with each FPGA
        return log.read_text(errors="replace").count(": injected hang")

    def _set_up_camera(self) -> None:
        """Ask for ten pictures a second, without the text that vivid draws."""
        self.shell("v4l2-ctl --set-parm 10 && v4l2-ctl --set-ctrl osd_text_mode=2")

    @contextlib.contextmanager
    def _healthy(self) -> Iterator[None]:
        """Give the board an FPGA without faults, because a golden run with a fault fails."""
        self._board.load_fpga(_HEALTHY)
        try:
            yield
        finally:
            self._board.load_fpga(dataclasses.replace(_HEALTHY, faults=(f"hang={HANG_EVERY}",)))

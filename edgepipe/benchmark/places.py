"""Where ``edgepipe-run`` runs for a benchmark: this machine, or a board over SSH."""

from __future__ import annotations

import io
import platform
import re
import subprocess
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

from edgepipe import scratch
from edgepipe.closing import Closing
from edgepipe.deploy import board_script, payload, plan
from edgepipe.deploy.connection import Connection, Target
from edgepipe.deploy.payload import RUNTIME, PayloadFile
from edgepipe.deploy.session import BEGIN, StepSession
from edgepipe.doctor import survey
from edgepipe.doctor.examination import READINGS
from edgepipe.doctor.survey import Survey
from edgepipe.errors import RuntimeFailure

BOARD_SIDE = Path(__file__).with_name("board_side.sh")
HERE = "this machine"
_UPLOAD_BYTES_PER_S = 100_000  # a slow SD card behind a slow link


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A program that ended: its exit code, the last line of its output, and its messages."""

    code: int
    output: str
    messages: str


class Place(Protocol):
    """A machine that runs the bundle; ``name`` is what errors call it."""

    @property
    def name(self) -> str:
        """The name of the machine in errors."""

    def survey(self) -> Survey:
        """Return the machine and what its sensors say now."""

    def run(self, arguments: Sequence[str], time_limit_s: int) -> Ran:
        """Run edgepipe-run on the bundle to its end."""


class Here:
    """This machine. ``system`` is a prefix of /proc and /sys, for tests.

    Raises DeployError if edgepipe-run is not installed.
    """

    def __init__(self, bundle: Path, runtimes: Sequence[Path], system: str = "") -> None:
        machine = platform.machine()
        facts = plan.BoardFacts(machine=machine, missing_tools=(), unwritable="", free_bytes=0)
        self._program = payload.find_path(RUNTIME, plan.architecture(facts, HERE), runtimes)
        self._bundle = bundle
        self._system = system

    @property
    def name(self) -> str:
        """``this machine``."""
        return HERE

    def survey(self) -> Survey:
        """Return this machine and what its sensors say now."""
        script = board_script.read(READINGS, BOARD_SIDE)
        done = subprocess.run(
            ["sh", "-c", script, "edgepipe", "facts", "/", self._system],
            capture_output=True,
            text=True,
            errors="replace",
            check=True,
        )
        return survey.parse(done.stdout.removeprefix(BEGIN + "\n"), HERE)

    def run(self, arguments: Sequence[str], time_limit_s: int) -> Ran:
        """Run edgepipe-run; kill it after the time limit.

        Raises RuntimeFailure if it exceeds that.
        """
        folder = scratch.new_folder("bench")
        try:
            # A file, because a run of many frames prints a line for each.
            with (folder / "output").open("w+b") as output:
                done = subprocess.run(
                    [self._program, self._bundle, *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.PIPE,
                    timeout=time_limit_s,
                    check=False,
                )
                last = b""
                output.seek(0)
                for line in output:
                    last = line
        except subprocess.TimeoutExpired as cause:
            raise RuntimeFailure(
                f"{HERE}: the run did not end after {time_limit_s} s", hint="run fewer frames"
            ) from cause
        finally:
            scratch.remove(folder)
        return Ran(
            code=done.returncode,
            output=last.decode(errors="replace"),
            messages=done.stderr.decode(errors="replace"),
        )


class OnBoard(Closing):
    """A board, which keeps the bundle and edgepipe-run in a temporary folder; a context manager.

    Nothing is left there at the end, however it comes. ``system`` is a prefix of the board's /proc
    and /sys, for tests.
    """

    def __init__(
        self, target: Target, bundle: Path, runtimes: Sequence[Path], system: str = ""
    ) -> None:
        self._connection = Connection(target, script=BOARD_SIDE, shared=(READINGS,))
        self._manifest, self._files = payload.bundle_files(bundle)
        self._runtimes = runtimes
        self._system = system
        self._held: StepSession | None = None
        self._folder = ""

    @property
    def name(self) -> str:
        """The board's name for ssh."""
        return self._connection.target.host

    def __enter__(self) -> Self:
        """Connect and upload; raise DeployError if that fails or the bundle is for other boards."""
        self._connection.__enter__()
        try:
            machine = self.survey().machine
            facts = plan.BoardFacts(machine=machine, missing_tools=(), unwritable="", free_bytes=0)
            architecture = plan.architecture(facts, self.name)
            plan.check_bundle(self._manifest.architectures, architecture, self.name)
            program = payload.find_program(RUNTIME, architecture, self._runtimes)
            archive = _archive((program, *self._files))
            self._held = self._connection.start("hold", str(len(archive)))
            self._held.send(archive)
            said = self._held.read_until(
                "folder", timeout_s=60 + len(archive) / _UPLOAD_BYTES_PER_S
            )
            self._folder = said.splitlines()[-1].removeprefix("folder ")
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Remove the folder on the board and disconnect; may be called twice."""
        if self._held is not None:
            self._held.close()
            self._held = None
        self._connection.close()

    def survey(self) -> Survey:
        """Return the board and what its sensors say now."""
        return survey.parse(self._connection.run("facts", self._system), self.name)

    def run(self, arguments: Sequence[str], time_limit_s: int) -> Ran:
        """Run edgepipe-run on the board; it ends with the connection.

        Raises ConnectionLostError if the connection breaks or the limit passes.
        """
        # Its standard input stays open until it has ended.
        session = self._connection.start("measure", self._folder, str(time_limit_s), *arguments)
        try:
            said = session.read_until("ran", timeout_s=time_limit_s + 60.0)
            session.finish()
        finally:
            session.close()
        lines = said.splitlines()
        code = re.fullmatch(r"ran ([0-9]{1,3})", lines[-1])
        return Ran(
            code=int(code[1]) if code else 1,
            output="".join(_after("output", lines)),
            messages="\n".join(_after("message", lines)),
        )


def _after(key: str, lines: Sequence[str]) -> list[str]:
    return [line.removeprefix(f"{key} ") for line in lines if line.startswith(f"{key} ")]


def _archive(files: Sequence[PayloadFile]) -> bytes:
    """Return a tar archive of the files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for file in files:
            info = tarfile.TarInfo(file.path)
            info.mode = 0o755 if file.executable else 0o644
            info.size = len(file.content)
            archive.addfile(info, io.BytesIO(file.content))
    return buffer.getvalue()

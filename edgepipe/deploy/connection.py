"""One SSH connection to a board, shared by all steps of a deploy.

The system's own OpenSSH client does the work, so ``~/.ssh/config``, agents, jump hosts and known
hosts mean what they always mean. One master process holds the connection; each step is a session on
it. A step never opens a connection of its own: when the link is lost, every later step fails.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from edgepipe.errors import DeployError

BEGIN = "edgepipe-begin"
_BOARD_SIDE = Path(__file__).with_name("board_side.sh")
_SSH_FAILED = 255
_GOLDEN_FAILED, _LOCK_HELD = 71, 75  # of board_side.sh
_HEARTBEAT_S = 10.0
_ANSWER_S = 30.0  # ssh itself gives up connecting after 10 s
# BatchMode: never ask for anything, so that many hosts can be served at once and nothing hangs.
# A dead link is noticed after 15 s, long before the board gives the lock away (60 s).
_OPTIONS = {
    "BatchMode": "yes",
    "ConnectTimeout": "10",
    "ServerAliveInterval": "5",
    "ServerAliveCountMax": "3",
    "ClearAllForwardings": "yes",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "PermitLocalCommand": "no",
    "RemoteCommand": "none",
    "RequestTTY": "no",
    "ControlPersist": "no",
}
_REMEDIES = (
    (
        r"host key verification failed|no .* host key is known",
        "log in once with `ssh {host}` and compare the key it shows with the board's own; "
        "after a new SD card, remove the old key with `ssh-keygen -R`",
    ),
    (r"permission denied", "put a key on the board: `ssh-copy-id {host}`"),
    (r"could not resolve", "is the name right? `ssh {host}` must work"),
    (r"connection refused|timed out|no route", "is the board on, and does `ssh {host}` work?"),
)


class ConnectionLostError(DeployError):
    """The link broke while a step was under way; whether the step finished is not known."""


class GoldenError(DeployError):
    """The golden input did not give the golden output on the board."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A board as SSH reaches it, and the folder of the deploy there (relative to the home folder
    unless it is absolute)."""

    host: str
    root: str
    ssh_config: Path | None = None

    def __post_init__(self) -> None:
        if not self.host or self.host.startswith("-") or re.search(r"\s", self.host):
            raise DeployError(f"host {self.host!r}: expected [USER@]HOST or an alias of ssh's")
        if not re.fullmatch(r"[A-Za-z0-9._/+-]+", self.root) or ".." in self.root.split("/"):
            raise DeployError(
                f"folder {self.root!r}: expected letters, digits and ._/+- without '..'"
            )


class Connection:
    """The connection to one board, a context manager. Not for use by several threads at once.

    ``script`` is the board's half of the steps: deploy's own, or another of the same manners.
    """

    def __init__(self, target: Target, *, script: Path = _BOARD_SIDE) -> None:
        self.target = target
        self._folder = tempfile.TemporaryDirectory(prefix="edgepipe-ssh-")
        self._control_path = f"{self._folder.name}/c"
        self._script = script.read_text(encoding="utf-8")
        self._master: subprocess.Popen[str] | None = None
        self._lock: _LockSession | None = None

    def __enter__(self) -> Self:
        """Connect; raise ``DeployError`` with ssh's own words and a remedy when that fails."""
        # The master's own session is a `cat` that ends with our end of the pipe: when this process
        # goes, however it goes, the connection goes with it.
        command = [*self._ssh("-M"), f"echo {BEGIN}; exec cat >/dev/null"]
        try:
            self._master = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
            )
        except OSError as cause:
            self._folder.cleanup()
            raise DeployError(
                f"ssh: cannot be started ({cause.strerror})", hint="install OpenSSH's client"
            ) from cause
        assert self._master.stdout is not None
        with _deadline(self._master):
            for line in self._master.stdout:
                if line.strip() == BEGIN:
                    return self
        error = self._connect_error()
        self.close()
        raise error

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the lock back and disconnect; may be called twice."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None
        if self._master is not None:
            _end(self._master)
            self._master = None
            self._folder.cleanup()

    def lock(self, holder: str) -> None:
        """Take the board's deploy lock until ``close``; raise ``DeployError`` when it is held."""
        self._lock = _LockSession(self._popen("lock", (holder,)), self.target.host)

    def run(
        self,
        step: str,
        *arguments: str,
        stdin: bytes = b"",
        timeout_s: float = 60.0,
    ) -> str:
        """Run one step of the board's script; return what it printed.

        Raises ``GoldenError`` for a failed golden run, ``ConnectionLostError`` when the link broke
        or the deadline passed, and ``DeployError`` when the step failed on the board.
        """
        host = self.target.host
        if self._lock is not None and not self._lock.held:
            raise ConnectionLostError(f"{host}: {step}: the lock was lost, so the link was too")
        process = self._popen(step, arguments)
        try:
            output, error = process.communicate(stdin, timeout=timeout_s)
        except subprocess.TimeoutExpired as cause:
            _end(process)
            raise ConnectionLostError(f"{host}: {step}: no end after {timeout_s:.0f} s") from cause
        text = _after_begin(output)
        reason = _one_line(error.decode(errors="replace"))
        if process.returncode == 0 and text is not None:
            return text
        if process.returncode == _GOLDEN_FAILED:
            raise GoldenError(f"{host}: golden run failed: {_one_line(text or '')}")
        if process.returncode in (_SSH_FAILED, 0) or process.returncode < 0:
            raise ConnectionLostError(f"{host}: {step}: connection lost ({reason or 'no reason'})")
        what = reason or _one_line(text or "") or f"exit code {process.returncode}"
        raise DeployError(f"{host}: {step}: {what}")

    def session_command(self, command: str) -> list[str]:
        """Return the words that run a shell ``command`` on the board, over this connection."""
        return [*self._ssh("-oControlMaster=no", "-oProxyCommand=false"), command]

    def forward(self, near_port: int, far_port: int) -> None:
        """Forward 127.0.0.1:``near_port`` here to the board's, until ``close``."""
        # Of ssh's configuration only the socket of the connection matters; its forwardings, which
        # this would ask for as well, do not.
        where = f"127.0.0.1:{near_port}:127.0.0.1:{far_port}"
        socket = ["-F", "none", f"-oControlPath={self._control_path}"]
        command = ["ssh", *socket, "-O", "forward", "-L", where, "--", self.target.host]
        result = subprocess.run(command, capture_output=True, text=True, timeout=_ANSWER_S)
        if result.returncode != 0:
            reason = _one_line(result.stderr)
            raise DeployError(f"{self.target.host}: no tunnel to port {far_port} ({reason})")

    def _ssh(self, *options: str) -> list[str]:
        settings = [f"-o{name}={value}" for name, value in _OPTIONS.items()]
        config = ["-F", str(self.target.ssh_config)] if self.target.ssh_config else []
        return [
            "ssh",
            *config,
            *options,
            *settings,
            f"-oControlPath={self._control_path}",
            "--",
            self.target.host,
        ]

    def _popen(self, step: str, arguments: tuple[str, ...]) -> subprocess.Popen[bytes]:
        words = ["sh", "-c", self._script, "edgepipe-deploy", step, self.target.root, *arguments]
        # Without its master ssh would connect anew; a proxy that cannot work forbids that.
        command = [*self._ssh("-oControlMaster=no", "-oProxyCommand=false"), shlex.join(words)]
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def _connect_error(self) -> DeployError:
        assert self._master is not None and self._master.stderr is not None
        reason = _one_line(self._master.stderr.read())
        host = self.target.host
        remedy = next((r for p, r in _REMEDIES if re.search(p, reason, re.IGNORECASE)), "")
        return DeployError(
            f"{host}: cannot connect ({reason or 'ssh gave no reason'})",
            hint=remedy.format(host=host) or f"`ssh {host}` must work without a password",
        )


class _LockSession:
    """Holds the board's lock with a session that sends a byte now and then."""

    def __init__(self, process: subprocess.Popen[bytes], host: str) -> None:
        self._process = process
        self._stop = threading.Event()
        assert process.stdout is not None and process.stderr is not None
        with _deadline(process):
            lines = iter(process.stdout.readline, b"")
            locked = any(line.strip() == b"locked" for line in lines)
        if not locked:
            holder = _one_line(process.stderr.read().decode(errors="replace"))
            _end(process)
            if process.returncode == _LOCK_HELD:
                raise DeployError(
                    f"{host}: another deploy is under way ({holder})",
                    hint="wait for it to end; a lock is given back when its connection ends",
                )
            if process.returncode == _SSH_FAILED:
                raise ConnectionLostError(f"{host}: lock: connection lost ({holder})")
            raise DeployError(f"{host}: lock: {holder or 'no answer'}")
        self._thread = threading.Thread(target=self._beat, name="deploy-lock", daemon=True)
        self._thread.start()

    @property
    def held(self) -> bool:
        """Whether the session still stands."""
        return self._process.poll() is None

    def release(self) -> None:
        """End the session; the board gives the lock back."""
        self._stop.set()
        self._thread.join()
        _end(self._process)

    def _beat(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            while not self._stop.wait(_HEARTBEAT_S):
                self._process.stdin.write(b".")
                self._process.stdin.flush()


@contextlib.contextmanager
def _deadline(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> Iterator[None]:
    """Kill ``process`` when the block, which waits for its output, takes longer than it may."""
    timer = threading.Timer(_ANSWER_S, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _end(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    """Close the process's input, which asks it to end; kill it when it does not."""
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _after_begin(output: bytes) -> str | None:
    """Return what follows the script's first line; None when the script never began."""
    _, found, text = output.decode(errors="replace").partition(BEGIN + "\n")
    return text if found else None


def _one_line(text: str, most: int = 300) -> str:
    """Return the last lines of ``text`` as one, so that a message stays a line."""
    line = "; ".join(part.strip() for part in text.strip().splitlines()[-3:] if part.strip())
    return line if len(line) <= most else "..." + line[-most:]

"""One SSH connection to a board, shared by all steps of a deploy.

The system's own OpenSSH client does the work, so ``~/.ssh/config``, agents, jump hosts and known
hosts work as usual. One master process holds the connection, and each step is a session on it. A
step never opens its own connection: once the connection is lost, every later step fails.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from edgepipe import scratch
from edgepipe.closing import Closing
from edgepipe.deploy import board_script
from edgepipe.deploy.session import (
    BEGIN,
    ConnectionLostError,
    LockSession,
    StepSession,
    deadline,
    end,
    one_line,
)
from edgepipe.errors import DeployError

_BOARD_SIDE = Path(__file__).with_name("board_side.sh")
_ANSWER_S = 30.0  # ssh itself gives up connecting after 10 s
_LOCK_S = 180.0  # includes computing the digests of all files on the board
# BatchMode never prompts, so several hosts can be served at once and nothing hangs.
# A dead connection is noticed after 15 s, long before the board releases the lock (60 s).
_OPTIONS = {
    "BatchMode": "yes",
    "Compression": "yes",  # compression reduces programs to a third, and a board's link is slow
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
        "log in once with `ssh {host}` and compare the key that it shows with the board's key; "
        "after a new SD card, remove the old key with `ssh-keygen -R`",
    ),
    (r"permission denied", "put a key on the board: `ssh-copy-id {host}`"),
    (r"could not resolve", "check the name: `ssh {host}` must work"),
    (
        r"connection refused|timed out|no route",
        "check that the board is on and that `ssh {host}` works",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A board as SSH reaches it, and its deploy folder, relative to the home folder or absolute."""

    host: str
    root: str
    ssh_config: Path | None = None

    def __post_init__(self) -> None:
        if not self.host or self.host.startswith("-") or re.search(r"\s", self.host):
            raise DeployError(
                f"host {self.host!r}: expected [USER@]HOST or an ssh alias",
                hint="name the board as `ssh` knows it",
                option="host",
                value="HOST",
            )
        if not re.fullmatch(r"[A-Za-z0-9._/+-]+", self.root) or ".." in self.root.split("/"):
            raise DeployError(
                f"folder {self.root!r}: expected letters, digits and ._/+- without '..'",
                hint="choose another folder",
                option="root",
                value="DIR",
            )


class Connection(Closing):
    """The connection to one board; a context manager. Not thread-safe.

    ``script`` contains the board's half of the steps: deploy's, or another one (``board_script``),
    after the functions of the files in ``shared``.
    """

    def __init__(
        self, target: Target, *, script: Path = _BOARD_SIDE, shared: Sequence[Path] = ()
    ) -> None:
        self.target = target
        self._folder = scratch.new_folder("ssh")
        self._control_path = f"{self._folder}/c"
        self._script = board_script.read(*shared, script)
        self._master: subprocess.Popen[str] | None = None
        self._lock: LockSession | None = None

    def __enter__(self) -> Self:
        """Connect; raise ``DeployError`` with ssh's own message and a remedy if that fails."""
        # The master's own session is a `cat` that ends when our end of the pipe closes, so the
        # connection ends with this process, however it ends.
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
            scratch.remove(self._folder)
            raise DeployError(
                f"ssh: cannot be started ({cause.strerror})", hint="install the OpenSSH client"
            ) from cause
        assert self._master.stdout is not None
        with deadline(self._master, _ANSWER_S):
            for line in self._master.stdout:
                if line.strip() == BEGIN:
                    return self
        error = self._connect_error()
        self.close()
        raise error

    def close(self) -> None:
        """Release the lock and disconnect; may be called twice."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None
        if self._master is not None:
            end(self._master)
            self._master = None
            scratch.remove(self._folder)

    def look(self, system: str, unit: str) -> str:
        """Return the board's facts and inventory, without changing anything there."""
        return self.run("look", system, unit)

    def begin(self, system: str, unit: str, holder: str) -> str:
        """Return the board's facts; changes nothing there until ``lock``."""
        process = self._popen("begin", (system, unit, holder))
        self._lock = LockSession(process, self.target.host)
        return self._lock.read_until("probed", timeout_s=_ANSWER_S)

    def lock(self) -> str:
        """Take the board's deploy lock until ``close``; return the inventory.

        Raises ``DeployError`` if another deploy has the lock.
        """
        assert self._lock is not None, "begin comes first"
        return self._lock.lock(timeout_s=_LOCK_S)

    def start(self, step: str, *arguments: str) -> StepSession:
        """Start one step of the board's script."""
        host = self.target.host
        if self._lock is not None and not self._lock.running:
            raise ConnectionLostError(
                f"{host}: {step}: the lock and therefore the connection was lost"
            )
        return StepSession(self._popen(step, arguments), host, step)

    def run(
        self,
        step: str,
        *arguments: str,
        stdin: bytes = b"",
        timeout_s: float = 60.0,
    ) -> str:
        """Run one step to its end and return its output. Raises the errors of ``finish``."""
        return self.start(step, *arguments).finish(stdin, timeout_s=timeout_s)

    def session_command(self, command: str) -> list[str]:
        """Return the arguments that run a shell ``command`` on the board over this connection."""
        return [*self._ssh("-oControlMaster=no", "-oProxyCommand=false"), command]

    def forward(self, near_port: int, far_port: int) -> None:
        """Forward 127.0.0.1:``near_port`` here to the board's ``far_port``, until ``close``.

        Raises DeployError if ssh refuses the tunnel.
        """
        where = f"127.0.0.1:{near_port}:127.0.0.1:{far_port}"
        result = self._tunnel("-L", where)
        if result.returncode != 0:
            reason = one_line(result.stderr)
            raise DeployError(
                f"{self.target.host}: no tunnel to port {far_port} ({reason})",
                hint=f"another program on this machine may have taken port {near_port}: try again",
            )

    def forward_back(self, host: str, port: int) -> int:
        """Forward a port of the board's 127.0.0.1 to ``host``:``port`` as this machine reaches it.

        Returns the board's port; the tunnel lasts until ``close``. Raises DeployError if ssh
        refuses it.
        """
        result = self._tunnel("-R", f"127.0.0.1:0:{host}:{port}")
        if result.returncode != 0 or not result.stdout.strip().isdigit():
            raise DeployError(
                f"{self.target.host}: no tunnel from the board to {host}:{port} "
                f"({one_line(result.stderr) or 'no port'})",
                hint="let sshd on the board forward ports: AllowTcpForwarding yes",
            )
        return int(result.stdout)

    def _tunnel(self, way: str, where: str) -> subprocess.CompletedProcess[str]:
        """Request a tunnel. Only the connection's socket is needed.

        ssh's configuration is skipped, since its own forwardings would be requested too.
        """
        socket = ["-F", "none", f"-oControlPath={self._control_path}"]
        command = ["ssh", *socket, "-O", "forward", way, where, "--", self.target.host]
        return subprocess.run(command, capture_output=True, text=True, timeout=_ANSWER_S)

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
        words = ["sh", "-c", self._script, "edgepipe", step, self.target.root, *arguments]
        # Without its master, ssh would open a new connection; a proxy that always fails prevents
        # that.
        command = [*self._ssh("-oControlMaster=no", "-oProxyCommand=false"), shlex.join(words)]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe)

    def _connect_error(self) -> DeployError:
        assert self._master is not None and self._master.stderr is not None
        reason = one_line(self._master.stderr.read())
        host = self.target.host
        remedy = next((r for p, r in _REMEDIES if re.search(p, reason, re.IGNORECASE)), "")
        return DeployError(
            f"{host}: cannot connect ({reason or 'ssh gave no reason'})",
            hint=remedy.format(host=host) or f"`ssh {host}` must work without a password",
        )

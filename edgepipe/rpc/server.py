"""``edgepipe-rpcd`` as a child process: on this machine, or through an SSH session."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sysconfig
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from edgepipe import resources
from edgepipe.closing import Closing
from edgepipe.errors import RpcError

PROGRAM = "edgepipe-rpcd"
_START_S = 30.0
_LISTENING = re.compile(r"listening on 127\.0\.0\.1:(\d+) with key (\S+)\n")
_ROOT = "refuses to run as root"
_HINT = "hint: "


def find_program() -> Path:
    """Return this machine's ``edgepipe-rpcd``; raise ``RpcError`` if it was not built."""
    built = resources.folder("build") / "host" / "bin" / PROGRAM
    installed = Path(sysconfig.get_path("scripts")) / PROGRAM
    for path in (built, installed):
        if path.is_file():
            return path
    raise RpcError(
        f"{PROGRAM}: not found at {built} or {installed}",
        hint="it is built only if TVM's runtime libraries are installed: install edgepipe again",
    )


class LocalServer(Closing):
    """A running server that ends with this object, or with this process; a context manager.

    ``command`` starts it and passes on its standard streams, so it may be an ssh session. Clients
    need its ``port`` and its ``key``, which is random unless the command names one.
    """

    def __init__(self, command: Sequence[str]) -> None:
        try:
            self._process = subprocess.Popen(
                [*command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
            )
        except OSError as cause:
            raise RpcError(
                f"{command[0]}: cannot be started ({cause.strerror})",
                hint="check that edgepipe-rpcd of this version is there, or name another",
                option="server",
                value="FILE",
            ) from cause
        self._log: list[str] = []
        self._reader = threading.Thread(target=self._read_log, name="rpcd-log", daemon=True)
        self._reader.start()
        self.port, self.key = self._read_address(command[0])

    @classmethod
    def start(
        cls, program: Path | None = None, options: Sequence[str] = (), *, allow_root: bool = False
    ) -> Self:
        """Start the program on this machine, on a free port unless ``options`` name one.

        A server that would run as root does not start, unless ``allow_root``.
        """
        root = ["--allow-root"] if allow_root else []
        return cls([str(program or find_program()), "--until-eof", *root, *options])

    @property
    def log(self) -> str:
        """The server's log so far, one line per event."""
        return "".join(self._log)

    def close(self) -> None:
        """End the server and its session, if any; may be called twice."""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(timeout=10)

    def _read_address(self, name: str) -> tuple[int, str]:
        assert self._process.stdout is not None
        timer = threading.Timer(_START_S, self._process.kill)
        timer.start()
        try:
            for line in self._process.stdout:
                if found := _LISTENING.fullmatch(line):
                    return int(found[1]), found[2]
        finally:
            timer.cancel()
        self.close()
        lines = self.log.strip().splitlines()
        hints = [line.removeprefix(_HINT) for line in lines if line.startswith(_HINT)]
        reason = "; ".join([line for line in lines if not line.startswith(_HINT)][-3:])
        if _ROOT in reason:
            raise RpcError(
                f"{name}: the RPC server does not run as root ({reason})",
                hint="log in as the user to whom setup.sh gave access to the accelerator, or, "
                "if only root has access, allow root",
                option="allow_root",
            )
        failed = f"{name}: the RPC server did not start ({reason or 'no reason given'})"
        if hints:
            raise RpcError(failed, hint=hints[-1])
        raise RpcError(
            failed,
            hint="check that edgepipe-rpcd of this version is there, or name another",
            option="server",
            value="FILE",
        )

    def _read_log(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._log.append(line)

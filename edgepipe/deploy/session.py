"""A running step of the board's script: read its output as it arrives, and answer it."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Iterator

from edgepipe.errors import FAULT, DeployError

BEGIN = "edgepipe-begin"
SSH_FAILED = 255
# Exit codes of board_side.sh.
GOLDEN_FAILED, SWITCH_UNDONE, PRUNE_FAILED, LOCK_HELD = 71, 72, 73, 75
_HEARTBEAT_S = 10.0
_AGAIN = "deploy again once the board is reachable; files already sent are not sent again"
Process = subprocess.Popen[bytes]


class ConnectionLostError(DeployError):
    """The connection broke during a step; whether the step finished is unknown."""


class GoldenError(DeployError):
    """The golden input did not give the golden output on the board."""


class SwitchError(DeployError):
    """The new release did not work after the switch; the board returned to the old one, if any."""


class PruneError(DeployError):
    """The new release is current, but old ones could not be removed."""


class LockedError(DeployError):
    """Another deploy has the board's lock."""


_ERRORS = {
    GOLDEN_FAILED: GoldenError,
    SWITCH_UNDONE: SwitchError,
    PRUNE_FAILED: PruneError,
    LOCK_HELD: LockedError,
}


class StepSession:
    """One step, from its first line to its end. Not thread-safe.

    ``process`` is the ssh session that runs the step, with unbuffered pipes.
    """

    def __init__(self, process: Process, host: str, step: str) -> None:
        self._process = process
        self.host = host
        self._what = f"{host}: {step}"
        self._printed: list[str] | None = None  # None until the script's own first line

    @property
    def running(self) -> bool:
        """Whether the session is still running."""
        return self._process.poll() is None

    def read_until(self, key: str, *, timeout_s: float) -> str:
        """Return the output up to and including the line that begins with the word ``key``.

        Raises the errors of ``finish`` if the step ends before that. Raises DeployError if it
        succeeds without that line.
        """
        assert self._process.stdout is not None
        with deadline(self._process, timeout_s):
            for line in iter(self._process.stdout.readline, b""):
                text = line.decode(errors="replace")
                if self._printed is not None:
                    self._printed.append(text)
                    if text.split()[:1] == [key]:
                        return "".join(self._printed)
                elif text.rstrip("\n") == BEGIN:
                    self._printed = []
        self.finish(timeout_s=timeout_s)
        raise DeployError(f"{self._what}: it ended without printing {key!r}", hint=FAULT)

    def lines(self) -> Iterator[str]:
        """Yield each line as it is printed; at the end, raise the errors of ``finish``."""
        assert self._process.stdout is not None
        for line in iter(self._process.stdout.readline, b""):
            text = line.decode(errors="replace").rstrip("\n")
            if self._printed is not None:
                yield text
            elif text == BEGIN:
                self._printed = []
        self.finish()

    def send(self, content: bytes) -> None:
        """Send a few bytes; if the peer is gone, the next read reports it."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(content)

    def finish(self, content: bytes = b"", *, timeout_s: float = 60.0) -> str:
        """Send ``content``, close the input, wait for the end and return the whole output.

        Raises ``ConnectionLostError`` if the connection broke or the deadline passed, otherwise the
        error that belongs to the script's exit code.
        """
        try:
            output, errors = self._process.communicate(content, timeout=timeout_s)
        except subprocess.TimeoutExpired as cause:
            self.close()
            raise ConnectionLostError(
                f"{self._what}: still running after {timeout_s:.0f} s", hint=_AGAIN
            ) from cause
        rest = output.decode(errors="replace")
        if self._printed is None:
            _, found, rest = rest.partition(BEGIN + "\n")
            self._printed = [] if found else None
        code = self._process.returncode
        if self._printed is not None:
            self._printed.append(rest)
        if code == 0 and self._printed is not None:
            return "".join(self._printed)
        reason = one_line(errors.decode(errors="replace"))
        if code in (SSH_FAILED, 0) or code < 0:
            raise ConnectionLostError(
                f"{self._what}: connection lost ({reason or 'no reason given'})", hint=_AGAIN
            )
        what = reason or one_line("".join(self._printed or ())) or f"exit code {code}"
        raise _ERRORS.get(code, DeployError)(
            f"{self._what}: {what}",
            hint="examine the board to see what it lacks",
            option="examination",
            value=self.host,
        )

    def close(self) -> None:
        """End the session at any point."""
        end(self._process)


class LockSession(StepSession):
    """A session that examines a board, takes its lock and keeps it by sending a byte regularly."""

    def __init__(self, process: Process, host: str) -> None:
        super().__init__(process, host, "lock")
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def lock(self, timeout_s: float) -> str:
        """Take the lock until ``close``; return the inventory.

        Raises ``DeployError`` if another deploy has the lock.
        """
        self.send(b".")
        try:
            text = self.read_until("locked", timeout_s=timeout_s)
        except LockedError as error:
            holder = str(error).partition("lock: ")[2]
            raise DeployError(
                f"{self.host}: another deploy is in progress ({holder})",
                hint="wait until it ends; the lock is released when its connection ends",
            ) from error
        self._thread = threading.Thread(target=self._beat, name="deploy-lock", daemon=True)
        self._thread.start()
        return text

    def close(self) -> None:
        """Release the lock."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        super().close()

    def _beat(self) -> None:
        while not self._stop.wait(_HEARTBEAT_S):
            self.send(b".")


@contextlib.contextmanager
def deadline(
    process: subprocess.Popen[str] | subprocess.Popen[bytes], timeout_s: float
) -> Iterator[None]:
    """Kill ``process`` if the block, which waits for its output, exceeds ``timeout_s``."""
    timer = threading.Timer(timeout_s, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def end(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    """Close the process's input, which asks it to end; kill it if it does not."""
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def one_line(text: str, most: int = 300) -> str:
    """Return the last lines of ``text`` joined into one, for a one-line message."""
    line = "; ".join(part.strip() for part in text.strip().splitlines()[-3:] if part.strip())
    return line if len(line) <= most else "..." + line[-most:]

"""A board for deploy tests: a real sshd on 127.0.0.1, reached through a link that can be cut."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import struct
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

import ports
from needs import installed

from edgepipe.deploy.connection import Target


class Link:
    """Forwards TCP to a port; ``cut`` breaks it, at once or after a number of bytes."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.bytes_to_board = 0
        self._cut_at: int | None = None
        self._is_silent = False
        self._sockets: list[socket.socket] = []
        self._is_down = False
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    def cut_after(self, count: int) -> None:
        self._cut_at = self.bytes_to_board + count

    def cut(self) -> None:
        self._is_down = True
        for end in self._sockets:
            with contextlib.suppress(OSError):
                # Reset instead of a normal close, as if a cable is pulled and the peer reboots.
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self._sockets.clear()

    def fall_silent(self) -> None:
        """Lose all bytes from now on without telling either side, like a pulled cable."""
        self._is_silent = True

    def mend(self) -> None:
        self._cut_at = None
        self._is_silent = False
        self._is_down = False

    def close(self) -> None:
        """Close the port and every connection; may be called twice."""
        if self._listener.fileno() < 0:
            return
        # Ends `accept` before its descriptor is free for another link: a thread that still waits in
        # it would accept that link's connections once the process was stopped and continued.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._acceptor.join()
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if self._is_down:
                near.close()
                continue
            far = socket.create_connection(("127.0.0.1", self._to))
            self._sockets += [near, far]
            for source, sink, counted in ((near, far, True), (far, near, False)):
                threading.Thread(
                    target=self._copy, args=(source, sink, counted), daemon=True
                ).start()

    def _copy(self, source: socket.socket, sink: socket.socket, counted: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(4096):
                if self._is_silent:
                    return
                if counted:
                    if self._cut_at is not None and self.bytes_to_board + len(data) > self._cut_at:
                        sink.sendall(data[: self._cut_at - self.bytes_to_board])
                        self.cut()
                        return
                    self.bytes_to_board += len(data)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)


class SshBoard:
    """An sshd with its own configuration, keys, port and home folder.

    ``inside`` is a command that runs another one on the board's machine, if that is not this one.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        *,
        most_file_bytes: int | None = None,
        inside: Sequence[str] = (),
    ) -> None:
        self._inside = inside
        self._program = installed("sshd", "openssh-server")
        self.name = name
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir()
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        for key in ("host_key", "user_key"):
            keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key]
            subprocess.run(keygen, check=True)
        self.port = ports.free_port()
        config = folder / "sshd_config"
        config.write_text(
            f"""
            ListenAddress 127.0.0.1:{self.port}
            HostKey {folder}/host_key
            AuthorizedKeysFile {folder}/user_key.pub
            PidFile none
            StrictModes no
            UsePAM no
            PasswordAuthentication no
            KbdInteractiveAuthentication no
            PermitRootLogin prohibit-password
            SetEnv HOME={self.home} PATH={folder}/programs:/usr/bin:/bin:/usr/sbin:/sbin
            """
        )

        self._most_file_bytes = most_file_bytes
        self._log = (folder / "sshd.log").open("wb")
        self._start()
        self.link = Link(self.port)
        host_key = (folder / "host_key.pub").read_text()
        (folder / "known_hosts").write_text(f"{name} {host_key}")
        self.ssh_config = folder / "ssh_config"
        self.ssh_config.write_text(
            f"""
            Host {name}
                HostName 127.0.0.1
                Port {self.link.port}
                HostKeyAlias {name}
                UserKnownHostsFile {folder}/known_hosts
                GlobalKnownHostsFile none
                IdentityFile {folder}/user_key
                IdentitiesOnly yes
            """
        )

    def target(self) -> Target:
        return Target(host=self.name, root="edgepipe", ssh_config=self.ssh_config)

    @property
    def root(self) -> Path:
        return self.home / "edgepipe"

    def reboot(self) -> None:
        """Kill every process of the board, like a power cut, then restart it."""
        family = [self._sshd.pid]
        for parent in family:
            with contextlib.suppress(OSError):
                children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
                family += map(int, children)
        for pid in family:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._sshd.wait()
        self._start()

    def _start(self) -> None:
        def limit() -> None:
            if (most := self._most_file_bytes) is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

        self._sshd = subprocess.Popen(
            [*self._inside, self._program, "-D", "-e", "-f", self.folder / "sshd_config"],
            stderr=self._log,
            preexec_fn=limit,
        )
        ports.wait_for(self.port)

    def close(self) -> None:
        self.link.close()
        self._sshd.terminate()
        self._sshd.wait()
        self._log.close()

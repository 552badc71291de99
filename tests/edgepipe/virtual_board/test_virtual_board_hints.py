"""The hints of the virtual board's errors, each checked by its text.

Programs named like apt's imitate a machine with other repositories; a sleeping process replaces
QEMU, and a socket its monitor.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import provoked_hints
import pytest

from edgepipe.errors import VirtualBoardError
from edgepipe.virtual_board import (
    board as virtual_board,
)
from edgepipe.virtual_board import (
    debian_packages,
    fpga_model,
    host_tools,
    image,
    kernel_modules,
    qemu,
    root_file_system,
)
from edgepipe.virtual_board.board import VirtualBoard
from edgepipe.virtual_board.debian_packages import PackageStore
from edgepipe.virtual_board.processes import start_detached

hint_of = functools.partial(provoked_hints.hint_of, error=VirtualBoardError)
REPOSITORY = "Debian|main|http://127.0.0.1:9/debian|bookworm"


def program(folder: Path, name: str, body: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put programs called apt-get and apt-cache before apt's: one repository, without packages."""
    folder = tmp_path / "programs"
    folder.mkdir()
    keyring = tmp_path / "keys.gpg"
    keyring.touch()
    monkeypatch.setattr(debian_packages, "KEYRING", keyring)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    program(folder, "apt-get", f'[ "$1" != indextargets ] || echo "{REPOSITORY}"')
    program(folder, "apt-cache", "exit 0")
    return folder


@pytest.fixture
def running(tmp_path: Path) -> Iterator[VirtualBoard]:
    """A board whose QEMU is a process that sleeps."""
    board = VirtualBoard(folder=tmp_path / "board")
    board.run_folder.mkdir(parents=True)
    process = start_detached(
        [sys.executable, "-c", "import time; time.sleep(60)"],
        folder=tmp_path,
        log=board.run_folder / "qemu.log",
    )
    state = {"qemu": dataclasses.asdict(process), "ssh_port": 1, "memory_file": "none"}
    (board.run_folder / "state.json").write_text(json.dumps(state))
    yield board
    process.stop()


@contextlib.contextmanager
def accepting_monitor(path: Path) -> Iterator[None]:
    """Answer one client's orders as QEMU's monitor does."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def serve() -> None:
        client, _ = listener.accept()
        with client, client.makefile("rw") as stream:
            stream.write('{"QMP": {}}\n')
            stream.flush()
            for _ in stream:
                stream.write('{"return": {}}\n')
                stream.flush()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    with listener:
        yield
        thread.join(10)


def store(folder: Path) -> PackageStore:
    return PackageStore(folder=folder / "packages", log=folder / "log")


def test_debians_keys_are_missing(apt: Path, tmp_path: Path) -> None:
    (tmp_path / "keys.gpg").unlink()
    assert hint_of(store(tmp_path).update) == "apt-get install -y debian-archive-keyring"


def test_apt_has_no_debian_repository(apt: Path, tmp_path: Path) -> None:
    program(apt, "apt-get", "exit 0")
    assert hint_of(store(tmp_path).update) == (
        "the virtual board is built from Debian packages: add a Debian mirror to apt's sources "
        "and run apt-get update"
    )


def test_a_mirror_without_arm64(apt: Path, tmp_path: Path) -> None:
    host_tools.require([*image._TOOLS, *image._MORE_TOOLS])
    board = VirtualBoard(folder=tmp_path / "board")
    assert hint_of(lambda: board.up(fpga=None)) == "use a Debian mirror that carries arm64"
    assert not list((tmp_path / "board").glob("images/*"))


def test_a_package_that_apt_did_not_download(apt: Path, tmp_path: Path) -> None:
    host_tools.require([*image._TOOLS, *image._MORE_TOOLS])
    program(apt, "apt-cache", "echo '  Depends: linux-image-6.1.0-0-arm64'")
    board = VirtualBoard(folder=tmp_path / "board")
    assert hint_of(lambda: board.up(fpga=None)) == "download and build the image again"


def test_a_damaged_package(tmp_path: Path) -> None:
    package = tmp_path / "linux-source.deb"
    package.write_bytes(b"!<arch>\n")
    log = tmp_path / "log"
    assert hint_of(lambda: root_file_system.unpack_package(package, tmp_path, log=log)) == (
        "the download may be damaged: download it again"
    )
    unpack = kernel_modules._unpack_kernel_source
    packages = {"linux-source-6.1": package}
    assert hint_of(lambda: unpack(packages, ["drivers/uio.c"], tmp_path)) == (
        "the download may be damaged: download it again"
    )


def test_a_program_that_fails_has_its_output_in_a_log(tmp_path: Path) -> None:
    log = tmp_path / "image.log"
    command = ["tar", "-tf", tmp_path / "none.tar"]
    assert hint_of(lambda: host_tools.run("index", command, log=log)) == f"its output: {log}"
    qemu_log = tmp_path / "qemu.log"
    qemu_log.write_text("qemu: no memory\n")
    assert qemu.start_failure(qemu_log).hint == f"its output: {qemu_log}"


def test_a_model_that_was_not_built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(fpga_model, "PROGRAM", "edgepipe-no-such-program")
    assert hint_of(fpga_model.find_program) == (
        "build it (cmake -S . -B build/host -G Ninja && cmake --build build/host), start the "
        "board without an FPGA, or name the program"
    )


def test_qemu_refuses_a_reset(running: VirtualBoard) -> None:
    assert hint_of(running.reset) == "stop it and start it again"


def test_a_board_that_is_down(tmp_path: Path) -> None:
    board = VirtualBoard(folder=tmp_path / "board")
    assert hint_of(lambda: board.run(["true"])) == "start it with: edgepipe virtual-board up"


def test_a_command_that_does_not_end(running: VirtualBoard) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        running.ssh_config.write_text(
            f"Host *\n HostName 127.0.0.1\n Port {silent.getsockname()[1]}\n"
        )
        assert hint_of(lambda: running.run(["true"], deadline_s=1.0)) == (
            "allow more time, or restart the board"
        )


def test_a_system_that_does_not_answer_is_read_on_its_console(
    running: VirtualBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(virtual_board, "BOOT_DEADLINE_S", 0.2)
    with accepting_monitor(running.run_folder / qemu.QMP_SOCKET):
        assert hint_of(running.reset) == (
            f"the board's console: {running.folder / 'logs' / qemu.CONSOLE_LOG}"
        )

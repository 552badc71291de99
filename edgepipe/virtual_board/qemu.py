"""QEMU as the virtual board: its command line and its two control sockets."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from edgepipe.errors import VirtualBoardError
from edgepipe.virtual_board import host_tools, memory_map
from edgepipe.virtual_board.image import Image

CORES = 4
QMP_SOCKET = "qmp.sock"
QTEST_SOCKET = "qtest.sock"
CONSOLE_LOG = "console.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class QemuOptions:
    """The options of one start of QEMU. Socket and log names are relative to the run folder."""

    image: Image
    device_tree: Path
    memory_file: Path
    ssh_port: int

    def command(self) -> list[str]:
        """Return QEMU's command line; run it in the run folder."""
        image = self.image
        arguments = {
            "-M": "xlnx-zcu102,memory-backend=ddr",
            "-object": f"memory-backend-file,id=ddr,size={memory_map.DDR_BYTES},"
            f"mem-path={self.memory_file},share=on",
            "-m": f"{memory_map.DDR_BYTES >> 20}",
            "-smp": f"{CORES}",
            "-accel": "tcg,thread=multi",
            "-kernel": f"{image.kernel}",
            "-initrd": f"{image.initramfs}",
            "-dtb": f"{self.device_tree}",
            "-append": "console=ttyPS0,115200 quiet",
            # Writes to the SD card go to a temporary file: every start finds the same card.
            "-drive": f"if=sd,index=0,file={image.sd_card},format=raw,snapshot=on",
            "-nic": f"user,hostfwd=tcp:127.0.0.1:{self.ssh_port}-:22",
            "-display": "none",
            "-qmp": f"unix:{QMP_SOCKET},server=on,wait=off",
            "-qtest": f"unix:{QTEST_SOCKET},server=on,wait=off",
            "-qtest-log": "none",
        }
        command = [host_tools.find("qemu-system-aarch64")]
        for option, value in arguments.items():
            command += [option, value]
        # The Ultra96's console is the second UART.
        return [*command, "-serial", "null", "-serial", f"file:{CONSOLE_LOG}"]


def environment() -> dict[str, str]:
    """Return QEMU's environment, without sound output."""
    return {**os.environ, "QEMU_AUDIO_DRV": "none"}


def order(run_folder: Path, command: str) -> bool:
    """Send QEMU a QMP command, such as ``quit``; return whether it was accepted."""
    try:
        with _connected(run_folder / QMP_SOCKET) as connection:
            stream = connection.makefile("rw")
            stream.readline()  # the greeting
            for name in ("qmp_capabilities", command):
                stream.write(json.dumps({"execute": name}) + "\n")
                stream.flush()
                # Events may come before the answer.
                answer = json.loads(stream.readline() or "{}")
                while "event" in answer:
                    answer = json.loads(stream.readline() or "{}")
                if "return" not in answer:
                    return False
            return True
    except (OSError, json.JSONDecodeError):
        return False


def start_failure(log: Path) -> VirtualBoardError:
    """Return the error for a QEMU process that ended unexpectedly."""
    line = host_tools.last_line(log)
    message = f"virtual board: QEMU ended: {line}"
    if "Could not set up host forwarding" in line:
        return VirtualBoardError(
            message, hint="the port is in use: choose another", option="port", value="PORT"
        )
    return VirtualBoardError(message, hint=f"its output: {log}")


@contextlib.contextmanager
def _connected(path: Path) -> Iterator[socket.socket]:
    # The path of a Unix socket is limited to 107 bytes; the folder's descriptor keeps it short.
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(30)  # on a busy machine
            connection.connect(f"/proc/self/fd/{folder}/{path.name}")
            yield connection
    finally:
        os.close(folder)

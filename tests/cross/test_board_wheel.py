"""The wheel with the files for boards is found by edgepipe once pip has installed it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import edgepipe
from edgepipe import resources
from edgepipe.deploy import payload
from edgepipe.rpc import shipping

SCRIPT = Path(__file__).resolve().parents[2] / "cross" / "board_wheel.py"
LICENSE = SCRIPT.parents[1] / "LICENSE"
PROGRAM = b"\x7fELF\x02\x01" + bytes(12) + b"\xb7\0"  # the start of a header for aarch64


def write_wheel(folder, *boards):
    command = [sys.executable, SCRIPT, edgepipe.__version__, folder, *boards]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_deploy_and_rpc_find_the_programs_of_the_installed_wheel(tmp_path, monkeypatch):
    board = tmp_path / "aarch64"
    files = ("bin/edgepipe-run", "bin/edgepipe-rpcd", *(f"lib/{n}" for n in shipping.LIBRARIES))
    for name in files:
        (board / name).parent.mkdir(parents=True, exist_ok=True)
        (board / name).write_bytes(PROGRAM + name.encode())
    done = write_wheel(tmp_path / "wheels", board)
    assert done.returncode == 0, done.stderr
    wheel = next((tmp_path / "wheels").glob("edgepipe_boards-*-py3-none-any.whl"))
    assert f"{wheel.stat().st_size} bytes" in done.stdout
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", tmp_path / "site", wheel], check=True)

    (info,) = (tmp_path / "site").glob("edgepipe_boards-*.dist-info")
    assert (info / "licenses" / "LICENSE").read_bytes() == LICENSE.read_bytes()
    assert "\nLicense-File: LICENSE\n" in (info / "METADATA").read_text()

    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setattr(resources, "folder", lambda name: tmp_path / "elsewhere" / name)
    (program,) = payload.find_runtime("aarch64", ())
    assert program.content == PROGRAM + b"bin/edgepipe-run"
    shipped = [file.content for file in shipping.server_files("aarch64")]
    assert shipped == [PROGRAM + name.encode() for name in files[1:]]


def test_a_folder_without_programs_is_refused(tmp_path):
    done = write_wheel(tmp_path, tmp_path / "armhf")
    assert done.returncode == 1
    assert "found no bin/edgepipe-run, expected a folder of `make board`" in done.stderr

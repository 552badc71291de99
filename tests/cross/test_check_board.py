"""The checks of ``make board``: versions, libraries, search paths and size of a board's files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from needs import BUILD, built, installed

SCRIPT = Path(__file__).resolve().parents[2] / "cross" / "check_board.py"
# The compiler, its Debian package, and the version of glibc's first function.
TOOLS = {
    "aarch64": ("aarch64-linux-gnu-gcc", "g++-aarch64-linux-gnu", "2.17"),
    "armhf": ("arm-linux-gnueabihf-gcc", "g++-arm-linux-gnueabihf", "2.4"),
}
INSTALLED = ("bin/edgepipe-cam", "bin/edgepipe-rpcd", "lib/libtvm_ffi.so", "lib/libtvm_runtime.so")


def check(folder):
    return subprocess.run(
        [sys.executable, SCRIPT, folder], capture_output=True, text=True, check=False
    )


@pytest.fixture
def board(architecture, tmp_path):
    """Return a function that compiles a one-line program into a folder."""
    compiler = installed(*TOOLS[architecture][:2])

    def link(source, *options, name="bin/program"):
        target = tmp_path / "board" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        command = [
            compiler,
            "-w",
            "-nostartfiles",
            "-o",
            target,
            "-x",
            "c",
            "-",
            "-x",
            "none",
            *options,
        ]
        subprocess.run(command, input=source, text=True, check=True)
        return tmp_path / "board"

    return link


def test_what_is_installed_on_a_board_runs_on_the_oldest_image(architecture, tmp_path):
    built("edgepipe-cam", architecture)
    command = ["cmake", "--install", BUILD / architecture]
    command += ["--component", "board", "--prefix", tmp_path]
    subprocess.run(command, check=True, capture_output=True)
    done = check(tmp_path)
    assert done.returncode == 0, done.stderr
    for name in INSTALLED:
        assert name in done.stdout


def test_a_function_of_a_newer_c_library_is_named_with_its_version(board):
    folder = board("int _start() { return arc4random(); }")
    done = check(folder)
    assert done.returncode == 1
    assert "error: bin/program: needs arc4random@GLIBC_2.36, expected 2.27 or older" in done.stderr
    assert "hint: cross/old_glibc.cc replaces newer functions" in done.stderr


def test_an_old_function_is_not(board, architecture):
    done = check(board("int _start() { return getpid(); }"))
    assert done.returncode == 0, done.stderr
    assert f"{TOOLS[architecture][2]}  bin/program" in done.stdout


def test_a_library_that_boards_lack_is_named_unless_it_comes_along(board):
    options = ("-shared", "-nostdlib", "-Wl,-soname,libother.so")
    library = board("int other() { return 1; }", *options, name="lib/libother.so")
    folder = board("int _start() { return other(); }", "-nostdlib", library / "lib/libother.so")
    assert check(folder).returncode == 0
    (folder / "lib" / "libother.so").unlink()
    assert "bin/program: needs libother.so, which boards do not have" in check(folder).stderr


def test_only_a_plug_in_for_gstreamer_may_need_its_libraries(board):
    options = ("-shared", "-nostdlib", "-Wl,-soname,libgstreamer-1.0.so.0")
    stub = board("int gst() { return 1; }", *options, name="stub.so") / "stub.so"
    plugin = "lib/gstreamer-1.0/libgstx.so"
    folder = board("int x() { return gst(); }", "-shared", "-nostdlib", stub, name=plugin)
    stub.unlink()
    assert check(folder).returncode == 0
    (folder / plugin).rename(folder / "libx.so")
    assert "libx.so: needs libgstreamer-1.0.so.0, which boards do not" in check(folder).stderr


def test_a_search_path_of_the_machine_that_built_it_is_named(board):
    folder = board("int _start() { return getpid(); }", "-Wl,-rpath,$ORIGIN/../lib:/home/me/lib")
    assert "looks for libraries in /home/me/lib, expected $ORIGIN only" in check(folder).stderr


def test_more_than_20_mb_are_too_much(board):
    folder = board("int _start() { return getpid(); }")
    (folder / "large").write_bytes(bytes(20_000_000))
    done = check(folder)
    assert done.returncode == 1
    assert "bytes, expected 20000000 or fewer" in done.stderr


def test_a_folder_without_programs_is_not_a_board(tmp_path):
    done = check(tmp_path)
    assert done.returncode == 1
    assert "no programs, expected those of `make board`" in done.stderr

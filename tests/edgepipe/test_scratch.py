"""Temporary folders: removed however the process ends; a forked child has its own."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from edgepipe import scratch

PROGRAM = """
import os, sys, time
from pathlib import Path
from edgepipe import scratch

def use(how):
    if how == "folder":
        return scratch.new_folder("test")
    if how == "owner":
        blocks.append(Owner())
        folder = scratch.new_folder("test")
        scratch.remove_after(blocks[0], folder)
        return folder
    if how == "beside":
        kept = scratch.folder_beside(Path(sys.argv[2]) / "target", ".test.")
        blocks.append(kept)
        return kept.__enter__()
    file = Path(sys.argv[2]) / "file"
    kept = scratch.removed_if_killed(file)
    blocks.append(kept)
    kept.__enter__()
    return file

class Owner:
    pass

blocks = []
found = use(sys.argv[1])
if found.is_dir():
    (found / "content").write_text("x")
else:
    found.write_text("x")
print(found, flush=True)
if sys.argv[3] == "fork":
    child = os.fork()
    if child == 0:
        own = scratch.new_folder("child")
        scratch.remove(found)
        sys.exit(0 if own.is_dir() and own.parent != found.parent else 1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(code, (found / "content").is_file(), flush=True)
elif sys.argv[3] == "fork-owner":
    child = os.fork()
    if child == 0:
        blocks.clear()
        owner, own = Owner(), scratch.new_folder("child")
        scratch.remove_after(owner, own)
        del owner
        end = time.monotonic() + 60
        while own.exists() and time.monotonic() < end:
            time.sleep(0.005)
        sys.exit(0 if not own.exists() and found.exists() else 1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(code, (found / "content").is_file(), flush=True)
elif sys.argv[3] == "wait":
    sys.stdin.read()
"""


def start(how: str, folder: Path, end: str) -> tuple[subprocess.Popen[str], Path]:
    command = [sys.executable, "-c", PROGRAM, how, str(folder), end]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def gone(path: Path) -> bool:
    """Wait until a path has disappeared; the watcher needs a moment."""
    end = time.monotonic() + 20
    while path.exists() and time.monotonic() < end:
        time.sleep(0.005)
    return not path.exists()


@pytest.mark.parametrize("how", ["folder", "beside", "file"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGHUP])
def test_nothing_is_left_when_a_signal_ends_the_process(
    how: str, number: signal.Signals, tmp_path: Path
) -> None:
    process, path = start(how, tmp_path, "wait")
    assert path.exists()
    os.killpg(process.pid, number)  # the watcher is in its own session
    process.communicate()
    assert process.returncode == -number
    assert gone(path)
    if how == "folder":
        assert gone(path.parent)


def test_nothing_is_left_when_the_process_exits(tmp_path: Path) -> None:
    process, path = start("folder", tmp_path, "exit")
    process.communicate()
    assert process.returncode == 0
    assert not path.parent.exists()


def test_a_forked_child_has_its_own_folder(tmp_path: Path) -> None:
    process, path = start("folder", tmp_path, "fork")
    output, _ = process.communicate()
    assert output == "0 True\n"
    assert gone(path.parent)


class Owner:
    """Anything that can be referred to weakly."""


def test_a_folder_is_removed_after_its_owner() -> None:
    kept, dropped = Owner(), Owner()
    folders = [scratch.new_folder("test") for _ in range(2)]
    for owner, folder in zip((kept, dropped), folders, strict=True):
        (folder / "content").write_text("x")
        scratch.remove_after(owner, folder)
    del owner, dropped
    assert gone(folders[1])
    assert (folders[0] / "content").is_file()
    del kept
    assert gone(folders[0])


def test_no_interrupt_is_lost_while_a_folders_owner_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A signal that arrives in a finalizer written in Python would only be printed."""
    lost: list[object] = []
    owner, owned = Owner(), scratch.new_folder("test")
    scratch.remove_after(owner, owned)

    def interrupt(folder: Path) -> None:
        if folder == owned:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(scratch, "remove", interrupt)
    monkeypatch.setattr(sys, "unraisablehook", lost.append)
    interrupted = False
    gc.disable()  # finalizers of other tests' objects could take the interrupt
    try:
        del owner
        end = time.monotonic() + 60
        while time.monotonic() < end:
            time.sleep(0.005)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        gc.enable()
    assert interrupted
    assert lost == []


def test_a_forked_child_removes_after_its_own_owners_only(tmp_path: Path) -> None:
    process, path = start("owner", tmp_path, "fork-owner")
    output, _ = process.communicate()
    assert output == "0 True\n"
    assert gone(path.parent)


def test_a_file_that_is_finished_stays(tmp_path: Path) -> None:
    file = tmp_path / "file"
    with scratch.removed_if_killed(file):
        file.write_text("x")
    time.sleep(0.1)
    assert file.read_text() == "x"

"""Temporary folders that are removed with the process, however it ends.

    with scratch.folder("kernels") as work: ...  # removed at the end of the block
    root = scratch.new_folder("pipeline")  # removed with the process, or by remove(root)
    scratch.remove_after(owner, root)  # removed once nothing refers to the owner
    with scratch.removed_if_killed(path): ...  # a folder or file in another place

Python removes temporary files at a normal exit, but not after SIGTERM or SIGKILL. So each process
has one folder and a watcher: a shell that waits for the end of a pipe from the process and then
removes the folder. The watcher runs in its own session and ignores signals from a terminal. A
forked child gets its own folder and leaves its parent's alone.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import secrets
import shutil
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# Waits for "keep" or the end of the pipe, which closes however the process ends. The intermediate
# shell ends at once, so the watcher is never a child of the process.
_WATCHER = """
exec 3<&0 </dev/null
(trap '' HUP INT TERM; read -r word <&3; [ "$word" = keep ] || exec rm -rf -- "$1") &
"""


@dataclass(frozen=True, slots=True)
class _Root:
    path: Path
    process: int


class _Owner(weakref.ref[object]):
    """Refers to the owner of a folder."""

    __slots__ = ("folder",)
    folder: Path


_lock = threading.Lock()
_root: _Root | None = None
_owners: dict[Path, _Owner] = {}
_gone: queue.SimpleQueue[_Owner] = queue.SimpleQueue()
_remover: threading.Thread | None = None


def new_folder(name: str) -> Path:
    """Return a new empty folder whose name begins with ``name``, accessible only to this user."""
    return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=_process_root()))


def remove(folder: Path) -> None:
    """Remove a folder of ``new_folder``; in a forked child, leave the parent's folders alone."""
    if _root is not None and _root.process == os.getpid() and folder.parent == _root.path:
        shutil.rmtree(folder, ignore_errors=True)


def remove_after(owner: object, folder: Path) -> None:
    """Remove a folder of ``new_folder`` soon after its owner is dropped, in another thread.

    A finalizer in Python could be interrupted, as by Ctrl-C, and the interrupt would be lost. The
    only code that runs where the owner is dropped is ``SimpleQueue.put``, which is written in C.
    """
    global _remover
    with _lock:
        if _remover is None:
            _remover = threading.Thread(
                target=_remove_all, args=(_gone,), name="edgepipe-scratch", daemon=True
            )
            _remover.start()
    reference = _Owner(owner, _gone.put)
    reference.folder = folder
    _owners[folder] = reference


def _remove_all(gone: queue.SimpleQueue[_Owner]) -> None:
    while True:
        found = gone.get().folder
        _owners.pop(found, None)
        remove(found)


@contextlib.contextmanager
def folder(name: str) -> Iterator[Path]:
    """Yield a new empty folder that exists during the block."""
    path = new_folder(name)
    try:
        yield path
    finally:
        remove(path)


def name_beside(path: Path, prefix: str) -> Path:
    """Return an unused path next to ``path``.

    Its user creates it and removes it in one ``try`` block. With ``tempfile.mkdtemp`` an interrupt
    before the block would leave a folder whose name is unknown.
    """
    return path.parent / f"{prefix}{secrets.token_hex(8)}"


@contextlib.contextmanager
def folder_beside(path: Path, prefix: str) -> Iterator[Path]:
    """Yield a new empty folder next to ``path``, from which files can be renamed to ``path``."""
    found = name_beside(path, prefix)
    try:
        found.mkdir(mode=0o700)
        with removed_if_killed(found):
            yield found
    finally:
        shutil.rmtree(found, ignore_errors=True)


@contextlib.contextmanager
def removed_if_killed(path: Path) -> Iterator[None]:
    """Remove ``path``, a folder or a file, if the process is killed during the block."""
    end = _watch(path)
    try:
        yield
    finally:
        if end >= 0:
            with contextlib.suppress(OSError):
                os.write(end, b"keep\n")
            os.close(end)


def _process_root() -> Path:
    global _root
    with _lock:
        if _root is None or _root.process != os.getpid():
            _root = _Root(Path(tempfile.mkdtemp(prefix="edgepipe-")), os.getpid())
            _watch(_root.path)
            atexit.register(_remove_root, _root)
        return _root.path


def _watch(path: Path) -> int:
    """Start a watcher of ``path``; return the pipe that it waits for, -1 if it cannot start."""
    reading, writing = os.pipe()
    try:
        subprocess.run(
            ["/bin/sh", "-c", _WATCHER, "sh", str(path.absolute())],
            stdin=reading,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):  # a normal exit still removes it
        os.close(writing)
        return -1
    finally:
        os.close(reading)
    return writing


def _remove_root(root: _Root) -> None:
    if root.process == os.getpid():
        shutil.rmtree(root.path, ignore_errors=True)


def _begin_anew() -> None:
    """In a forked child: a thread of the parent may have held the lock, and the remover is gone."""
    global _lock, _gone, _remover
    _lock = threading.Lock()
    _gone = queue.SimpleQueue()
    _remover = None


os.register_at_fork(after_in_child=_begin_anew)

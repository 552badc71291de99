"""The size of a download is counted while pip works in the folder."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

from edgepipe.zoo import wheels


def test_files_and_folders_may_go_while_they_are_counted(tmp_path: Path) -> None:
    (tmp_path / "to").mkdir()
    (tmp_path / "to" / "wheel").write_bytes(bytes(1000))
    done = threading.Event()

    def come_and_go() -> None:
        while not done.is_set():
            inside = tmp_path / "pip-unpack" / "inside"
            inside.mkdir(parents=True)
            (inside / "part").write_bytes(bytes(24))
            shutil.rmtree(tmp_path / "pip-unpack")

    pip = threading.Thread(target=come_and_go)
    pip.start()
    try:
        counted = {wheels._size(tmp_path) for _ in range(2000)}
    finally:
        done.set()
        pip.join()
    assert counted <= {1000, 1024}

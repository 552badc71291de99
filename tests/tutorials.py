"""The commands of the tutorials: which blocks run on this machine, and which on a board."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

LIMIT_S = 600.0
ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.M | re.S)
# Blocks that change this machine or need a real board, and what runs their commands otherwise.
ELSEWHERE = {
    "cross/packages.sh": "make test",
    'BOARD="--host xilinx@ultra96"': "each test sets the board of its own",
    "edgepipe setup-board": "tests/edgepipe/deploy/test_setup_board.py",
    "edgepipe bitstream install": "tests/board/test_board_service.py",
    "edgepipe measure": "tests/board/test_board_costs.py",
    "systemctl status": "tests/board/test_board_service.py",
    "virtual-board down": "tests/board/test_virtual_board.py",
}
BOARD = re.compile(r"\$BOARD|virtual-board|virtual-ultra96")


def path(name: str) -> Path:
    return ROOT / "docs/tutorial" / f"{name}.md"


def files(name: str) -> dict[str, str]:
    """Return the files that a tutorial shows, by their names."""
    found = BLOCK.findall(path(name).read_text(encoding="utf-8"))
    return {title: text for _, title, text in found if title}


def commands(name: str, *, on_board: bool) -> str:
    """Return the shell commands of a tutorial that run on a board, or those that need none."""
    blocks = BLOCK.findall(path(name).read_text(encoding="utf-8"))
    scripts = [text for language, title, text in blocks if language == "sh" and not title]
    here = [text for text in scripts if not any(word in text for word in ELSEWHERE)]
    return "".join(text for text in here if bool(BOARD.search(text)) == on_board)


def run(script: str, folder: Path, variables: Mapping[str, str]) -> str:
    """Run commands as a reader would, in ``folder``, which gets the examples; return the output."""
    for name in ("examples", "build"):
        if not (folder / name).exists():
            (folder / name).symlink_to(ROOT / name)
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    process = subprocess.Popen(
        # What a failed script leaves in the background would keep its output open.
        ["sh", "-eux", "-c", f"trap 'kill ${{!-}} 2> /dev/null || true' EXIT\n{script}"],
        cwd=folder,
        env=os.environ | {"PATH": programs, "PYTHONPATH": str(ROOT)} | dict(variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        try:
            output, errors = process.communicate(timeout=LIMIT_S)
        finally:  # after LIMIT_S, all that the script has started
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, output + errors
    return output + errors

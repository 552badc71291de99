"""The virtual board of the tests: one for the whole session, in a folder that keeps its image."""

import os
from pathlib import Path

import pytest

from edgepipe import boards
from edgepipe.errors import VirtualBoardError
from edgepipe.virtual_board import fpga_model, host_tools
from edgepipe.virtual_board.board import VirtualBoard
from edgepipe.virtual_board.fpga_model import FpgaOptions

BUILD = Path(__file__).parents[2] / "build"
AARCH64 = BUILD / "aarch64" / "bin"


def _missing() -> str | None:
    if not (AARCH64 / "edgepipe-vta-run").is_file():
        return "the programs are not built for aarch64: make test-board"
    try:
        host_tools.require(list(host_tools.PACKAGES))
        fpga_model.find_program()
    except VirtualBoardError as error:
        return f"{error} ({error.hint})"
    return None


@pytest.fixture(scope="session")
def virtual_board():
    """Yield a running virtual board that nobody else uses; it is stopped afterwards."""
    missing = _missing()
    if missing:
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    board = VirtualBoard(folder=BUILD / "test-board")
    board.down()
    board.up(fpga=FpgaOptions(accelerator=boards.load("ultra96").accelerator))
    try:
        program = (AARCH64 / "edgepipe-vta-run").read_bytes()
        script = "cd /usr/local/bin; cat > edgepipe-vta-run && chmod +x edgepipe-vta-run"
        assert board.run([script], stdin=program).returncode == 0
        yield board
    finally:
        board.down()

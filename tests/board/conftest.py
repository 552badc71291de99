"""The virtual board of the tests: one for the whole session, in a folder that keeps its image."""

import pytest
from needs import BUILD, built, lacking

from edgepipe import boards
from edgepipe.errors import VirtualBoardError
from edgepipe.virtual_board import fpga_model, host_tools
from edgepipe.virtual_board.board import VirtualBoard
from edgepipe.virtual_board.fpga_model import FpgaOptions


@pytest.fixture(scope="session")
def virtual_board():
    """Yield a running virtual board that nobody else uses; it is stopped afterwards."""
    program = built("edgepipe-vta-run", "aarch64").read_bytes()
    try:
        host_tools.require(list(host_tools.PACKAGES))
        fpga_model.find_program()
    except VirtualBoardError as error:
        lacking(f"{error} ({error.hint})")
    board = VirtualBoard(folder=BUILD / "test-board")
    board.down()
    board.up(fpga=FpgaOptions(accelerator=boards.load("ultra96").accelerator))
    try:
        script = "cd /usr/local/bin; cat > edgepipe-vta-run && chmod +x edgepipe-vta-run"
        assert board.run([script], stdin=program).returncode == 0
        yield board
    finally:
        board.down()

"""``edgepipe doctor`` on the board: devices, coherency and interrupts."""

import json

import pytest
from needs import AARCH64, ARMHF, built

from edgepipe import boards
from edgepipe.cli.main import main
from edgepipe.virtual_board.fpga_model import FpgaOptions

pytestmark = pytest.mark.board

ULTRA96 = boards.load("ultra96").accelerator


@pytest.fixture
def examine(machine, architecture, board_file, capsys):
    """Return a function to the exit code and the findings by check."""

    def run():
        program = str(built("edgepipe-vta-run", architecture))
        file = str(board_file(architecture))
        code = main(["doctor", *machine.options, "--board", file, "--program", program, "--json"])
        return code, {finding["check"]: finding for finding in json.loads(capsys.readouterr().out)}

    return run


def test_a_board_that_works_passes(examine):
    code, found = examine()
    assert code == 0, found
    for check in ("system", "C library", "registers", "buffers", "coherency", "interrupt"):
        assert found[check]["state"] == "ok", found[check]
    assert "Avnet Ultra96" in found["system"]["text"]
    assert "40 runs" in found["coherency"]["text"]


def test_lost_interrupts_are_reported(virtual_board, examine):
    virtual_board.load_fpga(FpgaOptions(accelerator=ULTRA96, faults=("lost-interrupt=5",)))
    code, found = examine()
    assert (code, found["interrupt"]["state"]) == (0, "warn")
    assert found["coherency"]["state"] == "ok"


def test_an_accelerator_that_hangs_fails(virtual_board, examine):
    virtual_board.load_fpga(FpgaOptions(accelerator=ULTRA96, faults=("hang=20",)))
    code, found = examine()
    assert (code, found["self-test"]["state"]) == (1, "fail")
    assert "missed their deadline" in found["self-test"]["text"]


@pytest.mark.systems
def test_another_encoding_revision_in_the_fpga_fails(virtual_board, examine):
    virtual_board.load_fpga(FpgaOptions(accelerator=boards.load("kv260").accelerator))
    code, found = examine()
    assert (code, found["self-test"]["state"]) == (1, "fail")


@pytest.fixture
def without_u_dma_buf(virtual_board):
    """Remove the board's usual buffers, so that only the kernel's dma-heap is left."""
    virtual_board.load_fpga(FpgaOptions(accelerator=ULTRA96))
    assert virtual_board.run(["rmmod u-dma-buf"]).returncode == 0
    yield
    virtual_board.run(["modprobe u-dma-buf"])


@pytest.mark.parametrize("architecture", [AARCH64], indirect=True)
@pytest.mark.usefixtures("without_u_dma_buf")
def test_buffers_of_a_dma_heap_pass_the_self_test(examine):
    code, found = examine()
    assert code == 0, found
    assert found["buffers"]["text"] == "/dev/dma_heap/linux,cma, from CMA"
    assert (found["coherency"]["state"], found["interrupt"]["state"]) == ("ok", "ok")


@pytest.mark.parametrize("architecture", [ARMHF], indirect=True)
@pytest.mark.usefixtures("without_u_dma_buf")
def test_a_dma_heap_is_useless_to_32_bit_programs(examine):
    code, found = examine()
    # Warnings only, because no bundle was named that needs the accelerator.
    assert (code, found["buffers"]["state"]) == (0, "warn"), found
    assert found["buffers"]["text"].endswith("user programs cannot maintain the caches of armv8l")
    assert found["buffers"]["remedy"] == "load the kernel module u-dma-buf"
    assert found["self-test"]["text"].startswith("skipped: ")

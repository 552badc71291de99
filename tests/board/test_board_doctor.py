"""``edgepipe doctor`` on the board: devices, coherency and interrupts."""

import json

import pytest
from needs import built

from edgepipe import boards
from edgepipe.cli.main import main
from edgepipe.virtual_board.fpga_model import FpgaOptions

pytestmark = pytest.mark.board

ULTRA96 = boards.load("ultra96").accelerator


def examine(board, capsys, architecture="aarch64", name="ultra96"):
    """Return the exit code and the findings by check; ``name`` is the board's, or its file."""
    program = str(built("edgepipe-vta-run", architecture))
    command = ["doctor", *board.options, "--board", str(name), "--program", program, "--json"]
    code = main(command)
    return code, {finding["check"]: finding for finding in json.loads(capsys.readouterr().out)}


def test_a_board_that_works_passes(machine, architecture, board_file, capsys):
    code, found = examine(machine, capsys, architecture, board_file(architecture))
    assert code == 0, found
    for check in ("system", "C library", "registers", "buffers", "coherency", "interrupt"):
        assert found[check]["state"] == "ok", found[check]
    assert "Avnet Ultra96" in found["system"]["text"]
    assert "40 runs" in found["coherency"]["text"]


def test_lost_interrupts_are_reported(board, virtual_board, capsys):
    virtual_board.load_fpga(FpgaOptions(accelerator=ULTRA96, faults=("lost-interrupt=5",)))
    code, found = examine(board, capsys)
    assert (code, found["interrupt"]["state"]) == (0, "warn")
    assert found["coherency"]["state"] == "ok"


def test_an_accelerator_that_hangs_fails(board, virtual_board, capsys):
    virtual_board.load_fpga(FpgaOptions(accelerator=ULTRA96, faults=("hang=20",)))
    code, found = examine(board, capsys)
    assert (code, found["self-test"]["state"]) == (1, "fail")
    assert "missed their deadline" in found["self-test"]["text"]


def test_another_encoding_revision_in_the_fpga_fails(board, virtual_board, capsys):
    virtual_board.load_fpga(FpgaOptions(accelerator=boards.load("kv260").accelerator))
    code, found = examine(board, capsys)
    assert (code, found["self-test"]["state"]) == (1, "fail")


def test_buffers_of_a_dma_heap_pass_the_self_test(board, virtual_board, capsys):
    virtual_board.load_fpga(FpgaOptions(accelerator=ULTRA96))
    assert virtual_board.run(["rmmod u-dma-buf"]).returncode == 0
    try:
        code, found = examine(board, capsys)
    finally:
        virtual_board.run(["modprobe u-dma-buf"])
    assert code == 0, found
    assert found["buffers"]["text"] == "/dev/dma_heap/linux,cma, from CMA"
    assert (found["coherency"]["state"], found["interrupt"]["state"]) == ("ok", "ok")

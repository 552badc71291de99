"""edgepipe's own hardware, compiled by Verilator, as the FPGA of the virtual board."""

from __future__ import annotations

import json

import pytest
from needs import BUILD, built
from random_programs.machines import MACHINES
from small_networks import build_small_bundle

from edgepipe import boards
from edgepipe.cli.main import main
from edgepipe.virtual_board.fpga_model import FpgaOptions

SIMULATED = FpgaOptions(accelerator=boards.load("ultra96").accelerator)

pytestmark = [pytest.mark.board, pytest.mark.systems]


@pytest.fixture(scope="module")
def rtl_board(virtual_board):
    """Yield the board, whose FPGA has the stock accelerator's Verilog."""
    library = MACHINES["stock-0.0.1"].library(BUILD / "vta_rtl")
    virtual_board.load_fpga(FpgaOptions(accelerator=SIMULATED.accelerator, rtl=library))
    yield virtual_board
    virtual_board.load_fpga(SIMULATED)


def test_a_deployed_bundle_passes_its_golden_run_on_the_hardware(rtl_board, any_board, tmp_path):
    bundle = build_small_bundle(tmp_path, "ultra96", 16)
    outcome = any_board.deploy(bundle, "rtl")
    assert outcome.result == "deployed"  # so a golden run on the accelerator passed


def test_the_doctor_says_what_the_hardware_is(rtl_board, any_board, capsys):
    program = str(built("edgepipe-vta-run", "aarch64"))
    main(["doctor", *any_board.options, "--board", "ultra96", "--program", program, "--json"])
    found = {finding["check"]: finding for finding in json.loads(capsys.readouterr().out)}
    assert found["hardware"]["state"] == "ok", found
    assert found["hardware"]["text"].startswith("edgepipe's own, instructions 0.0.1, configuration")
    assert "last program" not in found


def test_the_status_names_the_library(rtl_board):
    assert rtl_board.status().fpga.rtl is not None

"""A code generator of a user's, from its rules to a bundle: the example of the guide."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import small_networks
from command_line import assert_fails, run, run_cpp

EXAMPLE = Path(__file__).resolve().parents[3] / "examples/c_kernels"


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a network with tables on ARM, with its description and frames beside it."""
    folder = tmp_path_factory.mktemp("network")
    onnx.save(small_networks.silu_block(), folder / "net.onnx")
    (folder / "net.toml").write_text(small_networks.DESCRIPTION)
    frames = np.concatenate(list(small_networks.frames(4)))
    np.savez(folder / "frames.npz", frames=frames)
    return folder / "net.onnx"


def options(network: Path, output: Path) -> tuple[object, ...]:
    frames = network.with_name("frames.npz")
    return ("build", network, "--board", "host", "--calib", frames, "-o", output)


def calls(bundle: Path) -> int:
    plans = [path.read_text() for path in sorted(bundle.glob("stages/*/plan.json"))]
    return sum(plan.count('"kernel": "foreign_') for plan in plans)


def test_functions_in_c_give_the_bits_of_edgepipes_kernels(
    network: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine, placement = tmp_path / "mine", tmp_path / "net.placement.toml"
    rules = ("--rules", EXAMPLE / "rules.toml")
    assert run(*options(network, mine), *rules, "--export-placement", placement) == 0
    assert calls(mine) == 5
    assert run_cpp("edgepipe-run", mine, "--golden").returncode == 0
    text = placement.read_text()
    assert text.count('= "arm/mine"  # table: ') == 5
    placement.write_text(text.replace('"arm/mine"', '"arm/tvm"', 2))
    wishes = ("--placement", placement, "--place", "cv2_mul=arm/tvm")
    capsys.readouterr()
    assert run("inspect", network, "--board", "host", "--json", *rules, *wishes) == 0
    assert capsys.readouterr().out.count("placed there on request; computed by lookup of mine") == 2


def test_a_code_generator_without_a_file_is_refused(
    network: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run("inspect", network, "--place", "cv2_mul=arm/mine")
    unknown = "cv2_mul: code generator 'mine' is unknown"
    assert_fails(capsys, code, unknown, "known names: tvm, vta")

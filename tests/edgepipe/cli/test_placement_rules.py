"""``--rules``: limits and preferences of a user's file, for inspect, build and edgepipe.build."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from command_line import assert_fails, run, run_cpp

import edgepipe
from edgepipe.bundle import storage

PAGE = Path(__file__).resolve().parents[3] / "docs/reference/placement-rules.md"


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """Return the file that the page shows."""
    (example,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    path = tmp_path / "mine.toml"
    path.write_text(example, encoding="utf-8")
    return path


def placed(bundle: Path) -> dict[str, tuple[str, str]]:
    return {p.operator: (p.device, p.reason) for p in storage.read_manifest(bundle).placement}


def golden(bundle: Path) -> dict[str, bytes]:
    files = storage.read_manifest(bundle).files
    return {f.path: storage.read_file(bundle, f) for f in files if f.path.startswith("golden/")}


def test_a_build_and_inspect_place_by_the_rules_of_a_file(
    built: Path, rules: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network = built.parent / "net.onnx"
    assert run("inspect", network, "--board", "host", "--rules", rules, "--json") == 0
    operators = json.loads(capsys.readouterr().out)["operators"]
    forecast = {each["name"]: (each["device"], each["reason"]) for each in operators}
    plain = placed(built)
    moved = {forecast[name] for name in plain if plain[name] != forecast[name]}
    assert moved == {("arm", "strides up to 2, not 8")}
    bundle = edgepipe.build(
        network,
        board="host",
        calibration=built.parent / "calib.npz",
        output=tmp_path / "ruled",
        rules=[rules],
    )
    assert placed(bundle) == forecast
    assert golden(bundle) == golden(built)
    assert run_cpp("edgepipe-run", bundle, "--golden").returncode == 0


def test_a_wrong_rule_is_one_error_with_its_line(
    built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('format = 1\ndevice = "vta"\n\n[[rules]]\nkinds = ["conf"]\ncan = true\n')
    wrong = f"{path}, line 4: rule 1: operator kind 'conf' is unknown"
    network = built.parent / "net.onnx"
    assert_fails(capsys, run("inspect", network, "--rules", path), wrong, "did you mean: conv")
    code = run("build", network, "--board", "host", "--calib", "x", "-o", "y", "--rules", path)
    assert_fails(capsys, code, wrong, "did you mean: conv")
    code = run("inspect", network, "--rules", tmp_path / "no.toml")
    assert_fails(capsys, code, "no.toml: no such file", "check the name of the TOML file")


def test_a_requested_combination_that_a_rule_refuses_is_one_error(
    built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'format = 1\ndevice = "vta"\n\n[[rules]]\n'
        'pattern = ["conv", { kind = "conv", when = { depthwise = true } }]\n'
        'can = false\nwhy = "no depthwise convolution behind another one"\n'
    )
    network = built.parent / "net.onnx"
    names = [p.operator for p in storage.read_manifest(built).placement if p.kind == "conv"]
    wishes = [word for name in names[:2] for word in ("--place", f"{name}=vta")]
    start = ("inspect", network, "--board", "host", "--rules", path)
    code = run(*start, *wishes)
    assert_fails(
        capsys,
        code,
        f"{names[0]} and {names[1]}: cannot be placed together on vta: no depthwise convolution "
        "behind another one",
        f"hint: place one of them on arm: --place {names[1]}=arm",
    )
    for one in (0, 1):
        half = [f"{names[one]}=vta", f"{names[1 - one]}=arm"]
        assert run(*start, "--place", half[0], "--place", half[1]) == 0

"""What ``make bitstream-sources`` writes, and what the scripts make of it for edgepipe."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import vivado_run

from bitstreams import generate
from bitstreams.designs import DESIGNS
from edgepipe import boards
from edgepipe.bitstream import check, fingerprint, install, manifest
from edgepipe.bitstream.manifest import KnownBitstream
from edgepipe.boards import Board
from edgepipe.recipe import fingerprint as fingerprint_of
from vta_rtl.digest import digest_of
from vta_rtl.registers.register_table import configuration_hash

ROOT = Path(__file__).parents[2]
KNOWN = json.loads(generate.DIGESTS.read_text(encoding="utf-8"))
REMEDY = "after a change of vta_rtl, run: python -m bitstreams.generate --digests"


def test_the_digests_are_of_all_designs() -> None:
    assert KNOWN["verilog"].keys() == DESIGNS.keys(), REMEDY
    assert KNOWN["verilog"]["kv260"] == KNOWN["verilog"]["zcu104"], "the same accelerator"


def test_the_verilog_has_the_known_digest() -> None:
    # One design stands for all: generating each takes long.
    found = generate.made_with()
    assert KNOWN["made_with"] == found, f"digests.json is of other versions than {found}: {REMEDY}"
    design = DESIGNS["pynq-z2"]
    text = generate.core(design, generate.accelerator_of(design))
    assert digest_of(text) == KNOWN["verilog"]["pynq-z2"], REMEDY


@pytest.mark.parametrize("name", DESIGNS)
def test_the_boards_file_is_the_board_with_this_accelerator(name: str, tmp_path: Path) -> None:
    folder = vivado_run.sources(name, tmp_path, extensions=("requantise",))
    found, known = vivado_run.own_board(name, folder), boards.load(DESIGNS[name].board)
    assert found.accelerator == generate.accelerator_of(DESIGNS[name], extensions=("requantise",))
    others = {"accelerator", "timing", "threads", "bitstream"}
    same = {f.name for f in dataclasses.fields(Board)} - others
    assert all(getattr(found, key) == getattr(known, key) for key in same)
    assert found.timing.bus_bytes == DESIGNS[name].bus_bytes
    fingerprint.check_board(found, manifest.load())


@pytest.mark.parametrize("name", ["ultra96", "kv260", "zcu104", "pynq-z2"])
def test_what_the_script_makes_is_known_fits_and_can_be_installed(
    name: str, tmp_path: Path
) -> None:
    folder = vivado_run.sources(name, tmp_path, extensions=("multiply", "requantise"))
    ran, _ = vivado_run.run(name, folder)
    assert ran.returncode == 0, ran.stderr
    file = check.read(folder / f"edgepipe-{name}.bit", manifest.load())
    board = vivado_run.own_board(name, folder)
    assert check.compare(file, board) == ()
    known = file.known
    assert known is not None
    assert known.note == "Vivado 2022.2, worst slack 0.125 ns"
    assert known.extensions == ("multiply", "requantise")
    number = configuration_hash(board.accelerator, DESIGNS[name].bus_bytes)
    assert int(known.configuration_hash, 16) == number
    made = install.make_record(file, board, "tester@host")
    assert (made.path, made.clock_hz) == (board.bitstream, DESIGNS[name].clock_hz)
    fingerprint.check_programmed(fingerprint_of(board), made, "board")


def test_a_board_without_the_extensions_does_not_fit(tmp_path: Path) -> None:
    folder = vivado_run.sources("ultra96", tmp_path / "with", extensions=("requantise",))
    vivado_run.run("ultra96", folder)
    plain = vivado_run.own_board("ultra96", vivado_run.sources("ultra96", tmp_path / "without"))
    file = check.read(folder / "edgepipe-ultra96.bit", manifest.load())
    (mismatch,) = check.compare(file, plain)
    assert str(mismatch) == "list of extensions is requantise, the board has empty"


def test_the_entry_can_be_put_into_the_manifest() -> None:
    design = DESIGNS["ultra96"]
    keys = generate.entry(design, generate.accelerator_of(design), "").keys()
    assert keys == {field.name for field in dataclasses.fields(KnownBitstream)}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "design is None, expected one of ultra96, kv260, zcu104, pynq-z2, pynq-z2-openxc7"),
        (["ultra97"], "design is 'ultra97', expected one of ultra96,"),
        (["ultra96", "--extensions", "table9"], "accelerator: extension 'table9' is unknown"),
        (["ultra96", "--block-in", "24"], "accelerator: block_in is 24, expected a power of two"),
        (["ultra96", "--clock-mhz", "-1"], "accelerator: clock_hz is -1000000, expected >= 1"),
    ],
)
def test_a_wrong_wish_is_an_error(
    arguments: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        generate.main(arguments)
    assert caught.value.code == 2
    assert error in capsys.readouterr().err


def test_the_guide_has_the_interrupts_of_the_designs() -> None:
    guide = (ROOT / "docs/guides/own-bitstream.md").read_text(encoding="utf-8")
    for design in DESIGNS.values():
        assert f"`interrupts = <0 {design.interrupt} 4>;`" in guide


def test_the_readme_has_the_values_of_the_designs() -> None:
    page = (ROOT / "bitstreams/README.md").read_text(encoding="utf-8")
    for name, design in DESIGNS.items():
        row = next(line for line in page.splitlines() if line.startswith(f"| `{name}` |"))
        script = "openxc7/pynq-z2.sh" if name.endswith("openxc7") else f"vivado/{name}.tcl"
        values = (design.part, script, f"{design.clock_hz // 10**6} MHz", f"{design.bus_bytes} by")
        assert all(value in row for value in values), row
        assert (ROOT / "bitstreams" / script).is_file()

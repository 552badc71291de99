"""A bundle's fingerprint against a board: every mismatch has an exit code and a remedy."""

import dataclasses

import pytest

from edgepipe import __version__, boards
from edgepipe.bitstream import fingerprint, manifest, record
from edgepipe.bitstream.record import BitstreamRecord
from edgepipe.cli.main import main
from edgepipe.errors import BitstreamError, FingerprintError
from edgepipe.recipe import fingerprint as fingerprint_of

ULTRA96 = boards.load("ultra96")
WANTED = fingerprint_of(ULTRA96)
PROGRAMMED = BitstreamRecord(
    path=WANTED.bitstream,
    sha256="0" * 64,
    part=ULTRA96.part,
    configuration=WANTED.configuration,
    revision=WANTED.revision,
    clock_hz=WANTED.clock_hz,
    installed_by="tester@host",
    installer_version=__version__,
)


def test_what_fits_is_accepted():
    fingerprint.check_programmed(WANTED, PROGRAMMED, "board")
    fingerprint.check_version(WANTED, "board")
    for name in boards.names():
        fingerprint.check_board(boards.load(name), manifest.load())


def test_an_unpublished_bitstream_has_no_name_to_compare():
    fingerprint.check_programmed(WANTED, dataclasses.replace(PROGRAMMED, path=""), "board")


@pytest.mark.parametrize(
    ("field", "found", "exit_code", "text"),
    [
        ("configuration", "1x16_i8w8a32_15_15_18_16", 10, "configuration is 1x16_i8w8a32_15_15_18"),
        ("revision", "0.0.2", 11, "encoding revision is 0.0.2, the bundle was built for 0.0.1"),
        ("clock_hz", 100_000_000, 12, "clock is 100000000 Hz, the bundle was built for 333000000"),
        ("path", "pynq/0.0.2/x.bit", 13, "bitstream is pynq/0.0.2/x.bit, the bundle was built for"),
    ],
)
def test_every_difference_has_its_exit_code(field, found, exit_code, text):
    programmed = dataclasses.replace(PROGRAMMED, **{field: found})
    with pytest.raises(FingerprintError, match=text) as caught:
        fingerprint.check_programmed(WANTED, programmed, "board")
    assert caught.value.exit_code == exit_code
    assert "edgepipe bitstream install" in caught.value.hint


TREE = ("avnet,ultra96-rev1", "avnet,ultra96", "xlnx,zynqmp-zcu100-revC", "xlnx,zynqmp")


def test_another_known_board_is_a_difference():
    with pytest.raises(FingerprintError) as caught:
        fingerprint.check_machine("zcu104", TREE, "host")
    found = "host: the device tree: board is ultra96, the bundle was built for zcu104"
    assert str(caught.value) == found
    assert caught.value.hint == "build the bundle for this board: --board ultra96"
    assert caught.value.exit_code == 10


@pytest.mark.parametrize(
    ("board", "tree"),
    [
        ("ultra96", TREE),
        ("my-board", TREE),
        ("host", TREE),
        ("zcu104", ("xlnx,zynqmp",)),
        ("zcu104", ()),
    ],
)
def test_a_board_is_refused_only_if_both_names_are_known(board, tree):
    fingerprint.check_machine(board, tree, "host")


def test_every_known_board_with_an_accelerator_has_its_own_names_in_device_trees():
    found = {name: boards.load(name).compatible for name in boards.names() if name != "host"}
    assert all(found.values())
    for name, strings in found.items():
        assert {boards.of_device_tree([string]) for string in strings} == {name}


def test_another_version_of_the_builder_is_a_difference():
    other = dataclasses.replace(WANTED, builder_version="0.0.9")
    with pytest.raises(FingerprintError, match=r"the bundle was built by 0\.0\.9") as caught:
        fingerprint.check_version(other, "board")
    assert caught.value.exit_code == 14


def test_a_board_that_contradicts_its_bitstream_is_refused_when_a_bundle_is_built():
    slower = dataclasses.replace(ULTRA96.accelerator, clock_hz=100_000_000)
    board = dataclasses.replace(ULTRA96, accelerator=slower)
    with pytest.raises(FingerprintError, match="clock is 100000000 Hz, its bitstream") as caught:
        fingerprint_of(board)
    assert caught.value.exit_code == 12


def test_the_command_line_ends_with_the_exit_code(monkeypatch, capsys):
    def refuse(_):
        raise FingerprintError("a differs", hint="do b", exit_code=13)

    monkeypatch.setattr("edgepipe.cli.boards_command.run", refuse)
    assert main(["boards"]) == 13
    assert capsys.readouterr().err.endswith("a differs\nhint: do b\n")


def test_a_record_survives_and_a_damaged_one_is_reported():
    assert record.parse(record.to_json(PROGRAMMED), "board") == PROGRAMMED
    for text in ("{", "[]", '{"path": ""}', record.to_json(PROGRAMMED)[:-1] + ', "x": 1}'):
        with pytest.raises(BitstreamError, match="board"):
            record.parse(text, "board")

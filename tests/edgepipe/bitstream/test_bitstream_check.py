"""Read, compare and convert whole bitstream files, and the output of the command."""

import argparse
import dataclasses
import json

import pytest
from bit_files import (
    ULTRA96_IDCODE,
    ULTRA96_PART,
    make_bit,
    make_stream,
    swap,
)

from edgepipe import boards
from edgepipe.bitstream import check, install, manifest
from edgepipe.bitstream.manifest import BitstreamManifest, KnownBitstream
from edgepipe.cli import bitstream_command
from edgepipe.deploy.connection import Target
from edgepipe.errors import BitstreamError

ULTRA96_BIT = make_bit(make_stream(ULTRA96_IDCODE), part=ULTRA96_PART)


def write(tmp_path, content, name="vta.bit"):
    path = tmp_path / name
    path.write_bytes(content)
    return path


def published_as(content, **changes) -> BitstreamManifest:
    """Return a manifest that knows ``content`` as the Ultra96's bitstream, with ``changes``."""
    known = manifest.load().by_path(boards.load("ultra96").bitstream)
    digests = manifest.digests(content)
    entry = dataclasses.replace(known, git_blob=digests.git_blob, **changes)
    assert isinstance(entry, KnownBitstream)
    return dataclasses.replace(manifest.load(), bitstream=(entry,))


def command(*arguments):
    parser = argparse.ArgumentParser()
    bitstream_command.add_parser(parser.add_subparsers())
    options = parser.parse_args(["bitstream", *map(str, arguments)])
    return options.run(options)


def test_a_published_file_fits_the_board_it_was_made_for(tmp_path):
    file = check.read(write(tmp_path, ULTRA96_BIT), published_as(ULTRA96_BIT))
    assert file.known.path == "ultra96/0.0.1/1x16_i8w8a32_15_15_18_17.bit"
    assert check.compare(file, boards.load("ultra96")) == ()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"revision": "0.0.2"}, "encoding revision is 0.0.2, the board has 0.0.1"),
        ({"clock_hz": 1}, "clock is 1 Hz, the board has 333000000 Hz"),
        ({"configuration": "4x8_i8w8a32_15_16_16_18"}, "configuration is 4x8_i8w8a32_15_16_16_18"),
    ],
)
def test_a_published_file_of_another_accelerator_does_not_fit(tmp_path, changes, message):
    file = check.read(write(tmp_path, ULTRA96_BIT), published_as(ULTRA96_BIT, **changes))
    (mismatch,) = check.compare(file, boards.load("ultra96"))
    assert message in str(mismatch)


def test_the_part_is_compared_with_header_and_stream(tmp_path):
    file = check.read(write(tmp_path, make_bit(make_stream())), manifest.load())
    found = {m.subject: (m.found, m.expected) for m in check.compare(file, boards.load("ultra96"))}
    assert found == {"part": ("7z020", "zu3"), "die in the stream": ("7z020", "zu3")}


def test_a_header_edited_to_another_part_is_caught_by_the_stream(tmp_path):
    disguised = make_bit(make_stream(), part=ULTRA96_PART)
    file = check.read(write(tmp_path, disguised), manifest.load())
    (mismatch,) = check.compare(file, boards.load("ultra96"))
    assert str(mismatch) == "die in the stream is 7z020, the board has zu3"


def test_a_bin_file_has_no_header_but_still_a_die(tmp_path):
    path = write(tmp_path, swap(make_stream()), "vta.bin")
    (mismatch,) = check.compare(check.read(path, manifest.load()), boards.load("zcu104"))
    assert str(mismatch) == "die in the stream is 7z020, the board has zu7"


def test_the_packages_of_one_die_take_the_same_bitstream(tmp_path):
    own = make_bit(make_stream(), part="7z020clg400")
    file = check.read(write(tmp_path, own), manifest.load())
    assert check.compare(file, boards.load("pynq-z2")) == ()


def test_a_board_without_logic_takes_no_bitstream(tmp_path):
    file = check.read(write(tmp_path, ULTRA96_BIT), manifest.load())
    with pytest.raises(
        BitstreamError, match="board host: part '' has no FPGA to program"
    ) as caught:
        check.compare(file, boards.load("host"))
    assert caught.value.hint == "name a board with an FPGA, such as ultra96"


def test_a_swapped_stream_after_a_header_is_refused(tmp_path):
    path = write(tmp_path, make_bit(swap(make_stream())))
    with pytest.raises(BitstreamError, match="already byte-swapped") as caught:
        check.read(path, manifest.load())
    assert caught.value.hint == (
        "this is neither a .bit nor a .bin file; get the original file again"
    )


@pytest.mark.parametrize("source", [make_bit(make_stream()), make_stream(), swap(make_stream())])
def test_convert_gives_the_same_bytes_from_every_form(tmp_path, source, capsys):
    output = tmp_path / "out.bin"
    assert command("convert", write(tmp_path, source), "-o", output) == 0
    assert output.read_bytes() == swap(make_stream())
    assert f"{output}: 156 bytes for fpga_manager" in capsys.readouterr().out
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.bin", "vta.bit"]


def test_an_intel_file_is_programmed_as_it_is(tmp_path):
    known = published_as(b"rbf", path="de10nano/vta.rbf")
    with pytest.raises(BitstreamError, match="not a Xilinx bitstream") as caught:
        check.converted(check.read(write(tmp_path, b"rbf", "vta.rbf"), known))
    assert caught.value.hint == "an Intel .rbf file is programmed without conversion"


def test_a_file_for_another_board_is_not_installed(tmp_path):
    file = check.read(write(tmp_path, ULTRA96_BIT), manifest.load())
    target = Target(host="board", root="edgepipe")
    with pytest.raises(BitstreamError, match="does not fit board pynq-z2") as caught:
        install.install(target, file, boards.load("pynq-z2"), operator="tester@host")
    assert caught.value.hint == "`edgepipe bitstream list` shows which file is for which board"


def test_convert_leaves_nothing_behind_when_it_cannot_write(tmp_path):
    source = write(tmp_path, make_bit(make_stream()))
    with pytest.raises(BitstreamError, match="cannot be written") as caught:
        command("convert", source, "-o", tmp_path / "none" / "out.bin")
    assert caught.value.hint == "choose another path"
    (tmp_path / "folder.bin").mkdir()
    with pytest.raises(BitstreamError, match="cannot be written"):
        command("convert", source, "-o", tmp_path / "folder.bin")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder.bin", "vta.bit"]


def test_list_names_every_file_and_the_boards_built_for_it(capsys):
    assert command("list") == 0
    out = capsys.readouterr().out
    assert "ultra96/0.0.1/1x16_i8w8a32_15_15_18_17.bit" in out
    assert "pynq-z2" in out
    assert command("list", "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["bitstream"]) == 5


def test_check_reports_an_unknown_file_but_does_not_fail(tmp_path, capsys):
    assert command("check", write(tmp_path, ULTRA96_BIT), "--board", "ultra96") == 0
    out = capsys.readouterr().out
    assert "vta_wrapper, Vivado 2018.3, 2019/07/12 15:04:05" in out
    assert "zu3 (IDCODE 0x04a42093)" in out
    assert "unknown: not a published file" in out
    assert (
        "fits board ultra96 (file of unknown origin: only the die and structure were checked)"
        in out
    )


def test_check_against_the_wrong_board_fails_and_names_both_dies(tmp_path):
    with pytest.raises(BitstreamError, match="part is zu3, the board has 7z020") as caught:
        command("check", write(tmp_path, ULTRA96_BIT), "--board", "pynq-z2")
    assert caught.value.hint == (
        "board pynq-z2 is built for pynq/0.0.1/1x16_i8w8a32_15_15_18_17.bit; to use your own "
        "bitstream, describe it in a board file and pass that file to --board"
    )


def test_check_as_json_contains_the_mismatches(tmp_path, capsys):
    with pytest.raises(BitstreamError):
        command("check", write(tmp_path, ULTRA96_BIT), "--board", "pynq-z2", "--json")
    report = json.loads(capsys.readouterr().out)
    assert report["known"] is None
    assert [m["subject"] for m in report["mismatches"]] == ["part", "die in the stream"]


@pytest.mark.parametrize(
    ("name", "message"), [("none.bit", "no such file"), ("", "cannot be read")]
)
def test_a_file_that_cannot_be_read_is_an_error(tmp_path, name, message):
    with pytest.raises(BitstreamError, match=message):
        command("check", tmp_path / name)

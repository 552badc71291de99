"""A bitstream of one's own, with an entry beside it, is known like a published one."""

import dataclasses
import json

import pytest
from bit_files import ULTRA96_IDCODE, ULTRA96_PART, make_bit, make_stream

from edgepipe import boards
from edgepipe.bitstream import check, install, manifest
from edgepipe.errors import BitstreamError

CONTENT = make_bit(make_stream(ULTRA96_IDCODE), part=ULTRA96_PART)
ULTRA96 = boards.load("ultra96")
REMEDY = "make the bitstream again (bitstreams/README.md), or remove this file"
ENTRY = {
    "path": "edgepipe/ultra96/own.bit",
    "git_blob": "",
    "sha256": manifest.digests(CONTENT).sha256,
    "part": ULTRA96_PART,
    "revision": "0.0.1",
    "configuration": ULTRA96.accelerator.configuration,
    "clock_hz": 200_000_000,
    "note": "",
    "extensions": ["requantise"],
    "reference_clock_hz": 100_000_000,
    "configuration_hash": "0x12345678",
}


@pytest.fixture
def read(tmp_path):
    """Return a function that reads a bitstream with this text beside it."""

    def run(text):
        path = tmp_path / "own.bit"
        path.write_bytes(CONTENT)
        path.with_name("own.bit.json").write_text(text)
        return check.read(path, manifest.load())

    return run


def own_board(**changes):
    accelerator = dataclasses.replace(
        ULTRA96.accelerator,
        implementation="",
        **{"clock_hz": 200_000_000, "extensions": ("requantise",)} | changes,
    )
    return dataclasses.replace(ULTRA96, accelerator=accelerator, bitstream=ENTRY["path"])


def test_it_fits_a_board_with_its_accelerator(read):
    file = read(json.dumps(ENTRY))
    assert file.known.path == "edgepipe/ultra96/own.bit"
    assert check.compare(file, own_board()) == ()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"extensions": ()}, "list of extensions is requantise, the board has empty"),
        (
            {"extensions": ("requantise", "multiply")},
            "list of extensions is requantise, the board has multiply, requantise",
        ),
        ({"clock_hz": 1}, "clock is 200000000 Hz, the board has 1 Hz"),
        ({"revision": "0.0.2"}, "encoding revision is 0.0.1, the board has 0.0.2"),
    ],
)
def test_another_accelerator_does_not_fit(read, changes, message):
    (mismatch,) = check.compare(read(json.dumps(ENTRY)), own_board(**changes))
    assert str(mismatch) == message


def test_its_record_has_its_name_and_the_clock_that_it_needs(read):
    made = install.make_record(read(json.dumps(ENTRY)), own_board(), "tester@host")
    assert made.path == "edgepipe/ultra96/own.bit"
    assert (made.clock_hz, made.reference_clock_hz) == (200_000_000, 100_000_000)


def test_without_an_entry_it_is_unknown(tmp_path):
    (tmp_path / "own.bit").write_bytes(CONTENT)
    assert check.read(tmp_path / "own.bit", manifest.load()).known is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "own.bit.json: not valid JSON"),
        ("[]", "own.bit.json: found an array, expected a table"),
        (json.dumps({"path": "x"}), "own.bit.json: key 'git_blob' is missing"),
        (json.dumps(ENTRY | {"sha256": ""}), "own.bit: no digest, expected git_blob, sha256 or b"),
        (
            json.dumps(ENTRY | {"sha256": "0" * 64}),
            f"own.bit.json: sha256 is {'0' * 64}, own.bit has {ENTRY['sha256']}",
        ),
        (
            json.dumps(ENTRY | {"reference_clock_hz": -1}),
            "own.bit: reference_clock_hz is -1, expected >= 0",
        ),
    ],
)
def test_a_faulty_entry_is_an_error_with_a_remedy(read, text, message):
    with pytest.raises(BitstreamError) as caught:
        read(text)
    assert message in str(caught.value)
    assert caught.value.hint == REMEDY


def test_an_entry_that_cannot_be_read_is_an_error(tmp_path):
    (tmp_path / "own.bit").write_bytes(CONTENT)
    (tmp_path / "own.bit.json").mkdir()
    with pytest.raises(BitstreamError, match=r"own\.bit\.json: cannot be read") as caught:
        check.read(tmp_path / "own.bit", manifest.load())
    assert caught.value.hint == "name a readable file"

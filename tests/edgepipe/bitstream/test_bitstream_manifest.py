"""The manifest of published bitstreams: agrees with the boards, recognises content by digest."""

import subprocess

import pytest

from edgepipe import boards
from edgepipe.bitstream import manifest, parts
from edgepipe.errors import BitstreamError
from edgepipe.resources import folder

GIT_BLOB = "9348d42fbbf239ec4648f5a176475766466d8829"


def test_every_board_with_a_bitstream_matches_its_entry():
    published = manifest.load()
    for board in map(boards.load, boards.names()):
        if board.bitstream:
            known = published.by_path(board.bitstream)
            assert known is not None, board.name
            assert known.configuration == board.accelerator.configuration
            assert known.revision == board.accelerator.revision
            assert known.clock_hz == board.accelerator.clock_hz
            assert parts.parse(known.part) == parts.parse(board.part)


def test_the_only_ultra96_bitstream_is_of_revision_0_0_1():
    files = [k for k in manifest.load().bitstream if k.path.startswith("ultra96/")]
    assert [k.revision for k in files] == ["0.0.1"]


def test_git_blob_id_is_gits_own(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"any content\n")
    git = subprocess.run(["git", "hash-object", path], capture_output=True, text=True, check=True)
    assert manifest.digests(path.read_bytes()).git_blob == git.stdout.strip()


def test_content_is_found_by_either_digest_and_nothing_matches_an_empty_one():
    published = manifest.load()
    by_blob = published.find(manifest.Digests(sha256="00" * 32, git_blob=GIT_BLOB))
    by_sha = published.find(manifest.Digests(sha256=by_blob.sha256, git_blob="00" * 20))
    assert by_blob == by_sha
    assert by_blob.path == "pynq/0.0.1/1x16_i8w8a32_15_15_18_17.bit"
    assert published.find(manifest.digests(b"")) is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('license = "Apache-2.0"', 'licence = "Apache-2.0"', "unknown key 'licence'"),
        (GIT_BLOB, GIT_BLOB[1:], "git_blob is '348d.*', expected 40 hex digits"),
        (GIT_BLOB, "78a3135b5ec2e8b284efb24ca6a6cd2cf621838f", "git_blob 78a3.* appears twice"),
        ("c8808d2f", "C8808D2F", "sha256 is 'C880.*', expected 64 hex digits or nothing"),
        (
            'revision = "0.0.2"',
            'revision = "0.0.3"',
            "revision is '0.0.3', expected 0.0.1 or 0.0.2",
        ),
        (
            '4x8_i8w8a32_15_16_16_18"\nclock',
            '4x8"\nclock',
            "configuration is '4x8', expected BATCH",
        ),
        ("clock_hz = 0", "clock_hz = -1", "clock_hz is -1, expected >= 0"),
        ("clock_hz = 0\n", "", "key 'clock_hz' is missing"),
    ],
)
def test_a_faulty_manifest_is_refused(tmp_path, old, new, message):
    text = (folder("bitstreams") / "manifest.toml").read_text()
    assert old in text
    path = tmp_path / "manifest.toml"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(BitstreamError, match=message):
        manifest.load(path)


@pytest.mark.parametrize(
    ("spelling", "die", "package"),
    [
        ("7z020clg484", "7z020", "clg484"),
        ("xc7z020clg400-1", "7z020", "clg400"),
        ("xczu3eg-sbva484-1-e", "zu3", "sbva484"),
        ("xczu3egsbva484", "zu3", "sbva484"),
        ("XCZU7EV-FFVC1156-2-E", "zu7", "ffvc1156"),
        ("xck26-sfvc784-2lv-c", "k26", "sfvc784"),
    ],
)
def test_the_spellings_of_a_part(spelling, die, package):
    assert parts.parse(spelling) == parts.Part(die=die, package=package)


@pytest.mark.parametrize("text", ["", "5cseba6u23i7", "xc", "stm32"])
def test_a_part_that_is_not_a_zynq_is_none(text):
    assert parts.parse(text) is None

"""The configuration stream: sync word, byte order, IDCODE, and fpga_manager's format."""

import pytest
from bit_files import PYNQ_IDCODE, make_stream, swap
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.bitstream import stream
from edgepipe.errors import BitstreamError


def test_a_stream_as_vivado_writes_it():
    parsed = stream.parse(make_stream(), "x")
    assert not parsed.swapped
    assert make_stream()[parsed.sync_offset :][:4].hex() == "aa995566"
    assert parsed.idcode == PYNQ_IDCODE & 0x0FFFFFFF


def test_a_swapped_stream_says_the_same():
    parsed = stream.parse(swap(make_stream()), "x")
    assert parsed.swapped
    assert parsed.idcode == PYNQ_IDCODE & 0x0FFFFFFF


def test_fpga_manager_finds_its_pattern_at_a_word_boundary():
    result = stream.swapped(stream.parse(make_stream(), "x"))
    assert result.find(bytes.fromhex("665599aa")) % 4 == 0


@given(st.binary(max_size=256).map(lambda b: b[: len(b) // 4 * 4]))
def test_conversion_swaps_every_word_once_and_only_once(payload):
    original = make_stream(payload=payload)
    converted = stream.swapped(stream.parse(original, "x"))
    assert converted == swap(original)
    assert stream.swapped(stream.parse(converted, "x")) == converted


def test_a_stream_without_idcode_is_accepted_and_says_none():
    assert stream.parse(bytes.fromhex("aa995566 20000000"), "x").idcode is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (make_stream()[:-1], "has 155 bytes, expected a multiple of 4"),
        (b"", "no sync word aa995566"),
        (bytes(8192), "no sync word aa995566 in either byte order, .* first 4096 bytes"),
        (b"\xff" + make_stream()[:-1], "no sync word aa995566 .* at a multiple of 4"),
    ],
)
def test_anything_but_a_stream_is_an_error(words, message):
    with pytest.raises(BitstreamError, match=message):
        stream.parse(words, "x")


@given(st.binary(max_size=400))
def test_random_bytes_are_parsed_or_refused_never_a_crash(words):
    try:
        parsed = stream.parse(words, "x")
    except BitstreamError as error:
        assert str(error).startswith("x: ")
    else:
        assert parsed.sync_offset % 4 == 0

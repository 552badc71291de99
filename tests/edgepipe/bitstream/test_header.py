"""The .bit header: fields in, values out; a damaged file is an error that says where."""

import struct

import pytest
from bit_files import make_bit, make_stream
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.bitstream import header
from edgepipe.errors import BitstreamError

BIT = make_bit(make_stream())
text = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=40)


def test_every_field_is_read():
    parsed = header.parse(BIT, "x.bit")
    assert parsed.design == "vta_wrapper"
    assert parsed.tool_version == "2018.3"
    assert parsed.part == "7z020clg484"
    assert (parsed.date, parsed.time) == ("2019/07/12", "15:04:05")
    assert BIT[parsed.stream_offset :] == make_stream()
    assert parsed.stream_bytes == len(make_stream())


@given(design=text.filter(lambda t: ";" not in t), part=text, date=text, time=text)
def test_any_printable_field_comes_back(design, part, date, time):
    content = make_bit(make_stream(), design=design, part=part, date=date, time=time)
    parsed = header.parse(content, "x.bit")
    assert (parsed.design, parsed.part) == (design, part)
    assert (parsed.date, parsed.time) == (date, time)
    assert parsed.tool_version == ""


@pytest.mark.parametrize("kept", range(len(BIT)))
def test_a_file_cut_at_any_byte_is_an_error_that_names_the_file(kept):
    with pytest.raises(BitstreamError, match=r"^x\.bit: (ends at|contains|begins with)") as caught:
        header.parse(BIT[:kept], "x.bit")
    assert caught.value.hint


@given(st.binary(max_size=300))
def test_random_bytes_after_the_magic_never_raise_another_error(content):
    with pytest.raises(BitstreamError, match=r"^x\.bit: "):
        header.parse(header.MAGIC + content, "x.bit")


@given(st.data())
def test_one_altered_header_byte_is_an_error_or_another_readable_header(data):
    offset = header.parse(BIT, "x.bit").stream_offset
    altered = bytearray(BIT)
    altered[data.draw(st.integers(0, offset - 1))] = data.draw(st.integers(0, 255))
    try:
        parsed = header.parse(bytes(altered), "x.bit")
    except BitstreamError as error:
        assert str(error).startswith("x.bit: ")
    else:
        assert parsed.stream_offset + parsed.stream_bytes == len(BIT)


def field(tag: bytes, value: bytes) -> bytes:
    return tag + struct.pack(">H", len(value)) + value


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<!DOCTYPE html>", "begins with 3c 21 44 4f, expected a .bit header"),
        (b"", "begins with nothing"),
        (header.MAGIC + field(b"q", b"x\0"), "header field 'q' at byte 13 is unknown"),
        (header.MAGIC + 2 * field(b"a", b"x\0"), r"header field 'a' \(design\) is repeated"),
        (header.MAGIC + field(b"a", b"x"), "design is b'x', expected text that ends in NUL"),
        (header.MAGIC + field(b"a", b"x\x07\0"), r"design is .*, expected text"),
        (header.MAGIC + b"e\0\0\0\0", r"header field 'a' \(design\) is missing"),
        (BIT + b"\0", "contains 157 bytes of stream, its header says 156"),
    ],
)
def test_each_fault_has_its_own_message(content, message):
    with pytest.raises(BitstreamError, match=message):
        header.parse(content, "x.bit")

"""A .bit file of arbitrary bytes is refused, or its stream is the rest of it: for `make fuzz`."""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports():
    from edgepipe.bitstream import header
    from edgepipe.errors import BitstreamError


def test_one_input(data: bytes) -> None:
    """Parse a file and compare what its header says with its size."""
    try:
        parsed = header.parse(data, "x.bit")
    except BitstreamError as error:
        assert str(error).startswith("x.bit: ")
        assert error.hint
        return
    assert parsed.stream_offset + parsed.stream_bytes == len(data)
    assert (parsed.design + parsed.tool_version + parsed.part + parsed.date + parsed.time).isascii()


if __name__ == "__main__":
    atheris.Setup(sys.argv, test_one_input)
    atheris.Fuzz()

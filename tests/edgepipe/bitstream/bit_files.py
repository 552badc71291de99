"""Creates .bit files with the structure of Vivado's files."""

from __future__ import annotations

import struct

PYNQ_PART = "7z020clg484"
PYNQ_IDCODE = 0x23727093  # revision 2 of the silicon in the top four bits
ULTRA96_PART = "xczu3eg-sbva484-1-e"
ULTRA96_IDCODE = 0x14A42093
DESIGN = "vta_wrapper;UserID=0XFFFFFFFF;Version=2018.3"


def make_stream(idcode: int = PYNQ_IDCODE, payload: bytes = bytes(range(64))) -> bytes:
    """Return a stream as Vivado writes it: padding, bus width, sync, IDCODE write, frame data."""
    words = [0xFFFFFFFF] * 8 + [0x000000BB, 0x11220044, 0xFFFFFFFF, 0xFFFFFFFF]
    words += [0xAA995566, 0x20000000, 0x30022001, 0, 0x30008001, 7, 0x20000000]
    words += [0x30018001, idcode, 0x30008001, 1]
    return struct.pack(f">{len(words)}I", *words) + payload


def make_bit(
    stream: bytes,
    *,
    part: str = PYNQ_PART,
    design: str = DESIGN,
    date: str = "2019/07/12",
    time: str = "15:04:05",
) -> bytes:
    """Return ``stream`` after a header."""
    content = bytes.fromhex("00090ff00ff00ff00ff0000001")
    for tag, text in zip(b"abcd", (design, part, date, time), strict=True):
        raw = text.encode() + b"\0"
        content += bytes([tag]) + struct.pack(">H", len(raw)) + raw
    return content + b"e" + struct.pack(">I", len(stream)) + stream


def swap(words: bytes) -> bytes:
    """Reverse the bytes of every 32-bit word, the plain way."""
    return b"".join(words[i : i + 4][::-1] for i in range(0, len(words), 4))

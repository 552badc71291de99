"""The size of an encoded picture, from its header, before memory for its pixels is allocated."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

Size = tuple[int, int]
MOST_PIXELS = 1 << 25
"""The usual limit of a picture's size, as in the C++ runtime: enough for 8K, 7680x4320."""

_PNM = re.compile(rb"P[1-6]" + rb"(?:\s|#[^\n]*\n)+(\d{1,9})" * 2 + rb"[\s#]")
# Start of frame, for all codings: 0xC0 to 0xCF without DHT, JPG and DAC (ITU-T T.81, table B.1).
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_ALONE = frozenset({0x01, *range(0xD0, 0xD9)})  # markers without a segment
_TIFF_TYPES = {1: "B", 3: "H", 4: "I"}
_TIFF_WIDTH, _TIFF_HEIGHT = 256, 257


def picture_size(content: bytes) -> Size | None:
    """Return width and height in pixels of a BMP, JPEG, PNG, PNM, TIFF or WebP picture.

    None if ``content`` is none of these, or damaged before its size.
    """
    for start, read in _READERS.items():
        if content.startswith(start):
            try:
                return read(content)
            except (struct.error, IndexError, KeyError):
                return None
    return None


def _bmp(content: bytes) -> Size:
    if struct.unpack_from("<I", content, 14)[0] == 12:  # OS/2's header
        width, height = struct.unpack_from("<HH", content, 18)
    else:
        width, height = struct.unpack_from("<ii", content, 18)
    return abs(width), abs(height)  # a negative height: rows from the top


def _jpeg(content: bytes) -> Size:
    at = 2
    while True:
        while content[at] != 0xFF:  # libjpeg also skips bytes that are not a marker
            at += 1
        while content[at] == 0xFF:
            at += 1
        marker = content[at]
        at += 1
        if marker in _JPEG_FRAMES:
            height, width = struct.unpack_from(">HH", content, at + 3)
            return width, height
        if marker not in _JPEG_ALONE:
            at += struct.unpack_from(">H", content, at)[0]


def _png(content: bytes) -> Size:
    width, height = struct.unpack_from(">II", content, 16)
    return width, height


def _pnm(content: bytes) -> Size | None:
    found = _PNM.match(content)
    return (int(found[1]), int(found[2])) if found else None


def _tiff(content: bytes) -> Size:
    order = "<" if content.startswith(b"II") else ">"
    (at,) = struct.unpack_from(f"{order}I", content, 4)
    (count,) = struct.unpack_from(f"{order}H", content, at)
    sides = {}
    for entry in range(at + 2, at + 2 + 12 * count, 12):
        tag, kind = struct.unpack_from(f"{order}HH", content, entry)
        if tag in (_TIFF_WIDTH, _TIFF_HEIGHT):
            (sides[tag],) = struct.unpack_from(order + _TIFF_TYPES[kind], content, entry + 8)
    return sides[_TIFF_WIDTH], sides[_TIFF_HEIGHT]


def _webp(content: bytes) -> Size | None:
    if content[8:12] != b"WEBP":
        return None
    if content[12:16] == b"VP8X":
        width = int.from_bytes(content[24:27], "little") + 1
        return width, int.from_bytes(content[27:30], "little") + 1
    if content[12:16] == b"VP8L":
        (bits,) = struct.unpack_from("<I", content, 21)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    width, height = struct.unpack_from("<HH", content, 26)
    return width & 0x3FFF, height & 0x3FFF


_READERS: dict[bytes, Callable[[bytes], Size | None]] = {
    b"BM": _bmp,
    b"\xff\xd8": _jpeg,
    b"\x89PNG\r\n\x1a\n": _png,
    b"P": _pnm,
    b"II*\0": _tiff,
    b"MM\0*": _tiff,
    b"RIFF": _webp,
}

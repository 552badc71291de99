"""The kind and size of an encoded picture, from its header, before memory for it is allocated.

The kinds are those that the programs for boards read, so that a picture which is fit for
calibration is fit for them, too.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

Size = tuple[int, int]
MOST_PIXELS = 1 << 25
"""The usual limit of a picture's size, as in the C++ runtime: enough for 8K, 7680x4320."""

LONGEST_SIDE = 16384
"""In pixels, as in the C++ runtime."""

_PNM = re.compile(rb"P[56]" + rb"(?:\s|#[^\n]*\n)+(\d{1,6})" * 3 + rb"\s")
# Start of frame, for all codings: 0xC0 to 0xCF without DHT, JPG and DAC (ITU-T T.81, table B.1).
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_ALONE = frozenset({0x01, *range(0xD0, 0xD9)})  # markers without a segment
_OTHERS = {"TIFF": (0, (b"II*\0", b"MM\0*")), "WebP": (8, (b"WEBPVP8",)), "GIF": (0, (b"GIF8",))}
# Of the header that begins at byte 14, which later ones extend; and its kinds of pixels.
_BMP_HEADER_BYTES = range(40, 125)
_BMP_MASKS = (0x00FF0000, 0x0000FF00, 0x000000FF)


def picture_size(content: bytes) -> Size | None:
    """Return width and height in pixels of a BMP, JPEG, PNG, PPM or PGM picture.

    None if ``content`` is none of these, or damaged before its size.
    """
    for start, read in _READERS.items():
        if content.startswith(start):
            try:
                return read(content)
            except (struct.error, IndexError, KeyError):
                return None
    return None


def other_kind(content: bytes) -> str | None:
    """Return the name of a picture's kind that is not read, such as ``"WebP"``.

    None for those that are read and for anything unknown.
    """
    for name, (at, beginnings) in _OTHERS.items():
        if content[at:].startswith(beginnings):
            return name
    if content.startswith(b"\xff\xd8"):
        return _other_jpeg(content)
    if not content.startswith(b"BM") or len(content) < 54:
        return None
    header_bytes, bits, compression = struct.unpack_from("<I10xHI", content, 14)
    plain = compression == 0 and bits in (8, 24, 32)
    masked = compression == 3 and bits == 32 and content[54:66] == struct.pack("<3I", *_BMP_MASKS)
    if header_bytes in _BMP_HEADER_BYTES and (plain or masked):
        return None
    return f"BMP (header of {header_bytes} bytes, {bits} bits, compression {compression})"


def _bmp(content: bytes) -> Size | None:
    width, height = struct.unpack_from("<ii", content, 18)
    (first,) = struct.unpack_from("<I", content, 10)
    (header_bytes,) = struct.unpack_from("<I", content, 14)
    (bits,) = struct.unpack_from("<H", content, 28)
    (used,) = struct.unpack_from("<I", content, 46)
    palette_bytes = 4 * (used or 256) if bits == 8 else 0
    if first < 14 + header_bytes + palette_bytes:  # OpenCV would show the header as pixels
        return None
    return width, abs(height)  # a negative height: rows from the top


def _other_jpeg(content: bytes) -> str | None:
    try:
        return "CMYK JPEG" if content[_jpeg_frame(content) + 5] == 4 else None
    except (struct.error, IndexError):
        return None


def _jpeg(content: bytes) -> Size:
    height, width = struct.unpack_from(">HH", content, _jpeg_frame(content) + 1)
    return width, height


def _jpeg_frame(content: bytes) -> int:
    """Return where the frame's parameters begin: precision, height, width, components."""
    at = 2
    while True:
        while content[at] != 0xFF:  # libjpeg also skips bytes that are not a marker
            at += 1
        while content[at] == 0xFF:
            at += 1
        marker = content[at]
        at += 1
        if marker in _JPEG_FRAMES:
            return at + 2
        if marker not in _JPEG_ALONE:
            at += struct.unpack_from(">H", content, at)[0]


def _png(content: bytes) -> Size:
    width, height = struct.unpack_from(">II", content, 16)
    return width, height


def _pnm(content: bytes) -> Size | None:
    found = _PNM.match(content)
    return (int(found[1]), int(found[2])) if found and int(found[3]) == 255 else None


_READERS: dict[bytes, Callable[[bytes], Size | None]] = {
    b"BM": _bmp,
    b"\xff\xd8": _jpeg,
    b"\x89PNG\r\n\x1a\n": _png,
    b"P": _pnm,
}

"""The raw configuration stream: its sync word, byte order and target device.

A stream is a sequence of 32-bit words: padding, the sync word, then register writes. Vivado writes
words most significant byte first. Linux's fpga_manager expects the reverse order, which
drivers/fpga/zynq-fpga.c calls "a byte swapped .bin file": it looks for an aligned 66 55 99 aa.
"""

from __future__ import annotations

import itertools
import struct
from dataclasses import dataclass

from edgepipe.errors import BitstreamError

SYNC_WORD = 0xAA995566
# The sync word follows bus-width detection and padding; bootgen and Vivado put it within 200 bytes.
SYNC_SEARCH_BYTES = 4096
# Type-1 packet, write, register 12 (IDCODE), one word (UG470 and UG570, "Configuration Packets").
_WRITE_IDCODE = 0x30018001
_PREAMBLE_WORDS = 256
_REVISION_MASK = 0x0FFFFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationStream:
    """A parsed stream: position of its sync word, byte order, and target device.

    ``idcode`` has no silicon revision; it is None if the stream does not write one.
    """

    words: bytes
    sync_offset: int
    swapped: bool
    idcode: int | None


def parse(words: bytes, where: str) -> ConfigurationStream:
    """Find the sync word in ``words`` (a stream without header) and with it the byte order.

    Raises ``BitstreamError`` if there is no aligned sync word or the length is not a multiple of 4.
    """
    if len(words) % 4:
        raise BitstreamError(
            f"{where}: the stream has {len(words)} bytes, expected a multiple of 4",
            hint="the file is truncated; download or copy it again",
        )
    head = words[:SYNC_SEARCH_BYTES]
    for swapped, pattern in (
        (False, SYNC_WORD.to_bytes(4, "big")),
        (True, SYNC_WORD.to_bytes(4, "little")),
    ):
        offset = _find_word(head, pattern)
        if offset is not None:
            return ConfigurationStream(
                words=words,
                sync_offset=offset,
                swapped=swapped,
                idcode=_idcode(words[offset : offset + 4 * _PREAMBLE_WORDS], swapped),
            )
    raise BitstreamError(
        f"{where}: no sync word {SYNC_WORD:08x} in either byte order, at a multiple of 4, in the "
        "first "
        f"{len(head)} bytes",
        hint="expected a .bit file, or the .bin file that Vivado or bootgen writes",
    )


def swapped(stream: ConfigurationStream) -> bytes:
    """Return the stream in fpga_manager's format: no header, every 32-bit word byte-swapped."""
    return stream.words if stream.swapped else _swap(stream.words)


def _swap(words: bytes) -> bytes:
    result = bytearray(len(words))
    for byte in range(4):
        result[byte::4] = words[3 - byte :: 4]
    return bytes(result)


def _find_word(head: bytes, pattern: bytes) -> int | None:
    offset = head.find(pattern)
    while offset % 4 and offset >= 0:
        offset = head.find(pattern, offset + 1)
    return offset if offset >= 0 else None


def _idcode(preamble: bytes, is_swapped: bool) -> int | None:
    count = len(preamble) // 4
    order = "<" if is_swapped else ">"
    words = struct.unpack(f"{order}{count}I", preamble[: 4 * count])
    for word, value in itertools.pairwise(words):
        if word == _WRITE_IDCODE:
            return int(value) & _REVISION_MASK
    return None

"""The header of a Xilinx ``.bit`` file: tagged fields before the raw configuration stream.

No vendor document describes the format. Every Vivado and ISE version writes::

    u16 length (9), 0f f0 0f f0 0f f0 0f f0 00       all integers are big-endian
    u16 1
    'a' u16 length, design name;UserID=...;Version=2018.3, NUL
    'b' u16 length, part, NUL                        7z020clg484 or xczu3eg-sbva484-1-e
    'c' u16 length, date, NUL                        2019/07/12
    'd' u16 length, time, NUL                        15:04:05
    'e' u32 length, raw stream of that many bytes
"""

from __future__ import annotations

from dataclasses import dataclass

from edgepipe.errors import BitstreamError

MAGIC = bytes.fromhex("0009 0ff00ff00ff00ff000 0001")
STREAM_TAG = "e"
_DAMAGED = "the file is damaged, or not a .bit file"
_TEXT_TAGS = {"a": "design", "b": "part", "c": "date", "d": "time"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BitHeader:
    """The fields of a ``.bit`` header; ``stream_offset`` is where the raw stream starts."""

    design: str
    tool_version: str
    part: str
    date: str
    time: str
    stream_offset: int
    stream_bytes: int


def has_header(content: bytes) -> bool:
    """Return whether ``content`` begins like a ``.bit`` file."""
    return content.startswith(MAGIC)


def parse(content: bytes, where: str) -> BitHeader:
    """Parse the header of the whole file ``content``; ``where`` names the file in messages.

    Raises ``BitstreamError`` if a field is damaged, missing, repeated or unknown, or if the file is
    shorter or longer than the header says.
    """
    if not has_header(content):
        raise BitstreamError(
            f"{where}: begins with {content[:4].hex(' ') or 'nothing'}, expected a .bit header",
            hint="the file may be a saved error page of a web server; download it again",
        )
    reader = _Reader(content, where, len(MAGIC))
    texts: dict[str, str] = {}
    while (tag := reader.tag()) != STREAM_TAG:
        if tag not in _TEXT_TAGS:
            raise BitstreamError(
                f"{where}: header field {tag!r} at byte {reader.offset - 1} is unknown, "
                f"expected one of a, b, c, d, e",
                hint=_DAMAGED,
            )
        name = _TEXT_TAGS[tag]
        if name in texts:
            raise BitstreamError(
                f"{where}: header field {tag!r} ({name}) is repeated", hint=_DAMAGED
            )
        texts[name] = reader.text(name)
    for tag, name in _TEXT_TAGS.items():
        if name not in texts:
            raise BitstreamError(
                f"{where}: header field {tag!r} ({name}) is missing", hint=_DAMAGED
            )
    stream_bytes = reader.number(4, "stream length")
    present = len(content) - reader.offset
    if present != stream_bytes:
        raise BitstreamError(
            f"{where}: contains {present} bytes of stream, its header says {stream_bytes}",
            hint="the file is truncated or has extra data at its end; download or copy it again",
        )
    design, _, attributes = texts["design"].partition(";")
    versions = [a.removeprefix("Version=") for a in attributes.split(";") if "Version=" in a]
    return BitHeader(
        design=design,
        tool_version=versions[0] if versions else "",
        part=texts["part"],
        date=texts["date"],
        time=texts["time"],
        stream_offset=reader.offset,
        stream_bytes=stream_bytes,
    )


class _Reader:
    """Reads big-endian fields from ``content``; an error at its end gives the offset."""

    def __init__(self, content: bytes, where: str, offset: int) -> None:
        self._content = content
        self._where = where
        self.offset = offset

    def tag(self) -> str:
        return chr(self._take(1, "next field's tag")[0])

    def number(self, width_bytes: int, what: str) -> int:
        return int.from_bytes(self._take(width_bytes, what), "big")

    def text(self, what: str) -> str:
        raw = self._take(self.number(2, f"length of the {what}"), what)
        text = raw.removesuffix(b"\0").decode("ascii", errors="replace")
        if not raw.endswith(b"\0") or not text.isprintable() or not text.isascii():
            raise BitstreamError(
                f"{self._where}: the header's {what} is {raw[:40]!r}, "
                "expected text that ends in NUL",
                hint="the file is damaged; download or copy it again",
            )
        return text

    def _take(self, count: int, what: str) -> bytes:
        taken = self._content[self.offset : self.offset + count]
        if len(taken) != count:
            raise BitstreamError(
                f"{self._where}: ends at byte {len(self._content)} in the header's {what}",
                hint="the file is truncated; download or copy it again",
            )
        self.offset += count
        return taken

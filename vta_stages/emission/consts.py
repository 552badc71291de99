"""The const region of a program: uops, weight tiles and vectors, equal contents only once."""

from __future__ import annotations

from vta_stages.accelerator import Accelerator


class ConstBuilder:
    """Collects constants. Equal content is stored once; the order is that of first use."""

    def __init__(self, accelerator: Accelerator, region: int) -> None:
        self.region = region
        self._align = max(256, accelerator.wgt_bytes, accelerator.acc_bytes, accelerator.inp_bytes)
        self._offsets: dict[bytes, int] = {}
        self._content = bytearray()

    def add(self, content: bytes, element_bytes: int) -> int:
        """Return where ``content`` lies, counted in elements of its memory type."""
        offset = self._offsets.get(content)
        if offset is None:
            self._content.extend(bytes(-len(self._content) % self._align))
            offset = len(self._content)
            self._offsets[content] = offset
            self._content.extend(content)
        return offset // element_bytes

    def content(self) -> bytes:
        """Return the region, padded to whole elements."""
        return bytes(self._content) + bytes(-len(self._content) % self._align)

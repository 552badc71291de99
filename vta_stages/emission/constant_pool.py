"""The constants region of a program: uops, weight blocks and vectors, each content stored once."""

from __future__ import annotations

from vta_stages.accelerator import Accelerator


class ConstantPool:
    """Collects constants. Equal contents are stored once, in the order of their first use."""

    def __init__(self, accelerator: Accelerator, region: int) -> None:
        self.region = region
        self._align = max(256, accelerator.wgt_bytes, accelerator.acc_bytes, accelerator.inp_bytes)
        self._offsets: dict[bytes, int] = {}
        self._content = bytearray()

    def add(self, content: bytes, element_bytes: int) -> int:
        """Store ``content`` and return its offset, counted in elements of ``element_bytes``."""
        offset = self._offsets.get(content)
        if offset is None:
            self._content.extend(bytes(-len(self._content) % self._align))
            offset = len(self._content)
            self._offsets[content] = offset
            self._content.extend(content)
        return offset // element_bytes

    def content(self) -> bytes:
        """Return the region's bytes, padded to whole elements of every memory type."""
        return bytes(self._content) + bytes(-len(self._content) % self._align)

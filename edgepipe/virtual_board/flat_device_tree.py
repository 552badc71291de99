"""Read and write flattened device trees (devicetree specification v0.4, chapter 5, version 17)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from edgepipe.errors import VirtualBoardError

_MAGIC = 0xD00DFEED
_BEGIN_NODE, _END_NODE, _PROPERTY, _NOP, _END = 1, 2, 3, 4, 9
_HEADER = struct.Struct(">10I")


@dataclass(slots=True)
class Node:
    """A node: its name, its properties as raw bytes (big-endian cells) and its children."""

    name: str
    properties: dict[str, bytes] = field(default_factory=dict)
    children: list[Node] = field(default_factory=list)

    def walk(self) -> Iterator[Node]:
        """Yield this node and all nodes below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def child(self, name: str) -> Node:
        """Return the child named ``name``; raise ``VirtualBoardError`` if there is none."""
        for child in self.children:
            if child.name == name:
                return child
        raise VirtualBoardError(
            f"device tree: node {self.name or '/'} has no child {name!r}, "
            f"found {', '.join(child.name for child in self.children) or 'none'}"
        )

    def find_compatible(self, compatible: str) -> Node:
        """Return the first node with this ``compatible`` string.

        Raises VirtualBoardError if there is none."""
        for node in self.walk():
            if compatible.encode() in node.properties.get("compatible", b"").split(b"\0"):
                return node
        raise VirtualBoardError(f"device tree: no node compatible with {compatible!r}")


def cells(*values: int) -> bytes:
    """Return 32-bit cells as a property's value."""
    return struct.pack(f">{len(values)}I", *values)


def text(*values: str) -> bytes:
    """Return a list of strings as a property's value."""
    return b"".join(value.encode() + b"\0" for value in values)


def parse(blob: bytes) -> Node:
    """Return the root node of a device tree; raise ``VirtualBoardError`` if it is damaged."""
    try:
        header = _HEADER.unpack_from(blob)
        magic, total, structure, strings = header[:4]
        if magic != _MAGIC or total > len(blob):
            raise VirtualBoardError(
                f"device tree: found magic {magic:#x} and {len(blob)} of {total} bytes, "
                f"expected magic {_MAGIC:#x}"
            )
        return _parse_structure(blob, structure, strings)
    except (struct.error, ValueError, IndexError) as cause:
        raise VirtualBoardError("device tree: truncated or malformed") from cause


def _parse_structure(blob: bytes, offset: int, strings: int) -> Node:
    stack: list[Node] = [Node("")]
    while True:
        (token,) = struct.unpack_from(">I", blob, offset)
        offset += 4
        if token == _BEGIN_NODE:
            end = blob.index(b"\0", offset)
            node = Node(blob[offset:end].decode())
            stack[-1].children.append(node)
            stack.append(node)
            offset = _aligned(end + 1)
        elif token == _END_NODE:
            stack.pop()
        elif token == _PROPERTY:
            length, name_offset = struct.unpack_from(">2I", blob, offset)
            name_begin = strings + name_offset
            name = blob[name_begin : blob.index(b"\0", name_begin)].decode()
            stack[-1].properties[name] = blob[offset + 8 : offset + 8 + length]
            offset = _aligned(offset + 8 + length)
        elif token == _END:
            return stack[0].children[0]
        elif token != _NOP:
            raise VirtualBoardError(f"device tree: found token {token:#x} at byte {offset - 4}")


def serialise(root: Node) -> bytes:
    """Return the flattened tree. Equal trees give equal bytes; there are no memory reservations."""
    names: dict[str, int] = {}
    strings = bytearray()
    for node in root.walk():
        for name in node.properties:
            if name not in names:
                names[name] = len(strings)
                strings += text(name)
    structure = _serialise_node(root, names) + struct.pack(">I", _END)
    reservations = bytes(16)
    reservations_at = _HEADER.size
    structure_at = reservations_at + len(reservations)
    strings_at = structure_at + len(structure)
    total = strings_at + len(strings)
    version, compatible_version, boot_cpu = 17, 16, 0
    header = _HEADER.pack(
        _MAGIC,
        total,
        structure_at,
        strings_at,
        reservations_at,
        version,
        compatible_version,
        boot_cpu,
        len(strings),
        len(structure),
    )
    return header + reservations + structure + bytes(strings)


def _serialise_node(node: Node, names: dict[str, int]) -> bytes:
    out = struct.pack(">I", _BEGIN_NODE) + _padded(text(node.name))
    for name, value in node.properties.items():
        out += struct.pack(">3I", _PROPERTY, len(value), names[name]) + _padded(value)
    for child in node.children:
        out += _serialise_node(child, names)
    return out + struct.pack(">I", _END_NODE)


def _aligned(offset: int) -> int:
    return (offset + 3) & ~3


def _padded(data: bytes) -> bytes:
    return data + bytes(_aligned(len(data)) - len(data))

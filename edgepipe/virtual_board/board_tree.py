"""Make Debian's device tree of the Ultra96 boot on QEMU, and add the accelerator to it.

A real ZynqMP's clocks, resets, power domains and pins belong to firmware that QEMU does not run;
the kernel would wait for it forever. Here all clocks are one fixed clock, and the rest is omitted.
"""

from __future__ import annotations

from edgepipe.errors import VirtualBoardError
from edgepipe.virtual_board import memory_map as m
from edgepipe.virtual_board.flat_device_tree import Node, cells, text

MODEL = "Avnet Ultra96 Rev1"

_FIRMWARE_PROPERTIES = (
    "assigned-clock-parents",
    "assigned-clock-rates",
    "assigned-clocks",
    "fpga-mgr",
    "iommus",
    "nvmem-cell-names",
    "nvmem-cells",
    "pinctrl-0",
    "pinctrl-1",
    "pinctrl-names",
    "power-domains",
    "reset-names",
    "resets",
)
# The Ultra96 has no wired Ethernet; the first MAC replaces its Wi-Fi.
_ETHERNET = "ethernet@ff0b0000"
_ETHERNET_ADDRESS = bytes.fromhex("000a35002201")


def adapt(root: Node, rng_seed: bytes) -> None:
    """Change the Ultra96's tree in place so that the stock kernel boots on QEMU.

    ``rng_seed`` fills the kernel's entropy pool; without it the first login takes seconds. Raises
    ``VirtualBoardError`` if the tree is not that of an Ultra96.
    """
    model = root.properties.get("model", b"").rstrip(b"\0").decode()
    if model != MODEL:
        raise VirtualBoardError(f"device tree: found model {model!r}, expected {MODEL!r}")
    clock = root.find_compatible("xlnx,zynqmp-clk").properties["phandle"]
    root.children.remove(root.child("firmware"))
    for node in root.walk():
        for name in _FIRMWARE_PROPERTIES:
            node.properties.pop(name, None)
    root.children.append(
        Node(
            "clock",
            {
                "compatible": text("fixed-clock"),
                "#clock-cells": cells(
                    1
                ),  # consumers give a clock number; all numbers are this clock
                "clock-frequency": cells(100_000_000),
                "phandle": clock,
            },
        )
    )
    _enable_ethernet(next(node for node in root.walk() if node.name == _ETHERNET))
    for node in root.walk():
        if node.name in ("pcie@fd0e0000", "ahci@fd0c0000", "sata@fd0c0000"):
            node.properties["status"] = text("disabled")
    root.child("chosen").properties["rng-seed"] = rng_seed


def _enable_ethernet(node: Node) -> None:
    node.properties.pop("phy-handle", None)
    node.properties |= {
        "status": text("okay"),
        "phy-mode": text("rgmii-id"),
        "local-mac-address": _ETHERNET_ADDRESS,
    }
    node.children = [Node("fixed-link", {"speed": cells(1000), "full-duplex": b""})]


def add_accelerator(root: Node) -> None:
    """Add reserved memory, the accelerator's UIO node and the DMA buffer's node in place."""
    phandles = [node.properties.get("phandle", cells(0)) for node in root.walk()]
    pool = cells(max(int.from_bytes(phandle, "big") for phandle in phandles) + 1)
    reserved = next((c for c in root.children if c.name == "reserved-memory"), None)
    if reserved is None:
        reserved = Node(
            "reserved-memory",
            {"#address-cells": cells(2), "#size-cells": cells(2), "ranges": b""},
        )
        root.children.append(reserved)
    reserved.children += [
        Node(
            f"dma@{m.DMA_POOL_ADDRESS:x}",
            {
                "compatible": text("shared-dma-pool"),
                # Reusable: ordinary memory until it is allocated, and part of the kernel's linear
                # map, which cache maintenance needs.
                "reusable": b"",
                "reg": cells(0, m.DMA_POOL_ADDRESS, 0, m.DMA_POOL_BYTES),
                "phandle": pool,
            },
        ),
        Node(
            f"registers@{m.REGISTERS_ADDRESS:x}",
            {"no-map": b"", "reg": cells(0, m.REGISTERS_ADDRESS, 0, m.REGISTERS_RESERVED_BYTES)},
        ),
    ]
    interrupt_controller = root.find_compatible("arm,gic-400").properties["phandle"]
    shared_peripheral, rising_edge = 0, 1
    root.children += [
        Node(
            f"{m.UIO_NAME}@{m.REGISTERS_ADDRESS:x}",
            {
                "compatible": text("generic-uio"),
                "reg": cells(0, m.REGISTERS_ADDRESS, 0, m.REGISTERS_BYTES),
                "interrupt-parent": interrupt_controller,
                "interrupts": cells(shared_peripheral, m.INTERRUPT_SPI, rising_edge),
            },
        ),
        Node(
            f"{m.RESET_UIO_NAME}@{m.RESET_ADDRESS:x}",
            {
                "compatible": text("generic-uio"),
                "reg": cells(0, m.RESET_ADDRESS, 0, m.RESET_BYTES),
            },
        ),
        Node(
            m.DMA_BUFFER_NAME,
            {
                "compatible": text("ikwzm,u-dma-buf"),
                "device-name": text(m.DMA_BUFFER_NAME),
                "size": cells(m.DMA_BUFFER_BYTES),
                "memory-region": pool,
            },
        ),
    ]

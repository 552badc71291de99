"""The changes to the Ultra96's device tree, on a tree of the same shape."""

import itertools

import pytest

from edgepipe.errors import VirtualBoardError
from edgepipe.virtual_board import board_tree
from edgepipe.virtual_board import memory_map as m
from edgepipe.virtual_board.flat_device_tree import Node, cells, text


def ultra96():
    clocks = Node("clock-controller", {"compatible": text("xlnx,zynqmp-clk"), "phandle": cells(3)})
    gic = Node("interrupt-controller@f9010000", {"compatible": text("arm,gic-400")})
    gic.properties["phandle"] = cells(4)
    ethernet = Node("ethernet@ff0b0000", {"status": text("disabled"), "phy-handle": cells(9)})
    serial = Node("serial@ff010000", {"clocks": cells(3, 57), "power-domains": cells(12, 34)})
    return Node(
        "",
        {"model": text("Avnet Ultra96 Rev1")},
        [
            Node("firmware", {}, [Node("zynqmp-firmware", {}, [clocks])]),
            Node("chosen"),
            Node("axi", {}, [gic, ethernet, serial]),
        ],
    )


def test_firmware_is_replaced_by_one_fixed_clock_under_the_same_handle():
    tree = ultra96()
    board_tree.adapt(tree, rng_seed=b"seed")
    assert "firmware" not in [child.name for child in tree.children]
    clock = tree.find_compatible("fixed-clock")
    assert clock.properties["phandle"] == cells(3)
    assert clock.properties["#clock-cells"] == cells(1)
    serial = tree.child("axi").child("serial@ff010000")
    assert serial.properties == {"clocks": cells(3, 57)}
    assert tree.child("chosen").properties["rng-seed"] == b"seed"


def test_ethernet_replaces_wifi():
    tree = ultra96()
    board_tree.adapt(tree, rng_seed=b"")
    ethernet = tree.child("axi").child("ethernet@ff0b0000")
    assert ethernet.properties["status"] == text("okay")
    assert "phy-handle" not in ethernet.properties
    assert ethernet.child("fixed-link").properties["speed"] == cells(1000)


def test_accelerator_has_registers_interrupt_and_memory_outside_linux():
    tree = ultra96()
    board_tree.add_accelerator(tree)
    vta = tree.child(f"vta@{m.REGISTERS_ADDRESS:x}")
    assert vta.properties["reg"] == cells(0, m.REGISTERS_ADDRESS, 0, 0x4000)
    assert vta.properties["interrupts"] == cells(0, 89, 1)
    assert vta.properties["interrupt-parent"] == cells(4)
    reserved = tree.child("reserved-memory")
    pool = reserved.child(f"dma@{m.DMA_POOL_ADDRESS:x}")
    assert tree.child("udmabuf0").properties["memory-region"] == pool.properties["phandle"]
    assert "no-map" in reserved.child(f"registers@{m.REGISTERS_ADDRESS:x}").properties
    handles = [n.properties["phandle"] for n in tree.walk() if "phandle" in n.properties]
    assert len(handles) == len(set(handles))


def test_another_boards_tree_is_refused():
    tree = ultra96()
    tree.properties["model"] = text("ZynqMP ZCU102 Rev1.0")
    with pytest.raises(VirtualBoardError, match="found model 'ZynqMP ZCU102 Rev1\\.0'"):
        board_tree.adapt(tree, rng_seed=b"")


def test_memory_map_has_no_overlaps():
    regions = [
        (m.DMA_POOL_ADDRESS, m.DMA_POOL_BYTES),
        (m.REGISTERS_ADDRESS, m.REGISTERS_BYTES),
        (m.RESET_ADDRESS, m.RESET_BYTES),
    ]
    for (begin, length), (following, _) in itertools.pairwise(regions):
        assert begin + length <= following
    assert m.RESET_ADDRESS + m.RESET_BYTES <= m.REGISTERS_ADDRESS + m.REGISTERS_RESERVED_BYTES
    assert m.REGISTERS_ADDRESS + m.REGISTERS_RESERVED_BYTES <= m.DDR_BYTES
    assert m.DMA_BUFFER_BYTES <= m.DMA_POOL_BYTES

"""The accelerator's Verilog has the ports that tools for FPGAs expect."""

from __future__ import annotations

import gc
import re
import warnings

import pytest
from accelerators import TINY

from vta_rtl import verilog as verilog_module
from vta_rtl.isa.names import MASTERS, WRITER
from vta_rtl.verilog import TOP_NAME, verilog
from vta_stages.errors import AcceleratorError


@pytest.fixture(scope="module")
def ports() -> dict[str, tuple[str, int]]:
    """Return the direction and the bits of the top module's ports, by name."""
    text = verilog(TINY, bus_bytes=8)
    (top,) = re.findall(rf"^module {TOP_NAME}\(.*?^endmodule", text, re.DOTALL | re.MULTILINE)
    found = re.findall(r"^  (input|output) (?:\[(\d+):0\] )?(\w+);", top, re.MULTILINE)
    return {name: (way, int(high or 0) + 1) for way, high, name in found}


def test_the_ports_are_known_without_generating_it(ports: dict[str, tuple[str, int]]) -> None:
    assert verilog_module.ports(TINY, bus_bytes=8) == ports


@pytest.mark.usefixtures("ports")  # before a circuit was generated, Amaranth does not warn
def test_a_look_at_the_ports_warns_of_nothing() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        verilog_module.ports(TINY, bus_bytes=8)
        gc.collect()
    assert [str(each.message) for each in told] == []


def test_clock_reset_and_interrupt_are_ports(ports: dict[str, tuple[str, int]]) -> None:
    assert ports["aclk"] == ports["aresetn"] == ("input", 1)
    assert ports["irq"] == ("output", 1)


def test_registers_are_an_axi_lite_slave(ports: dict[str, tuple[str, int]]) -> None:
    prefix = "s_axi_control_"
    found = {name.removeprefix(prefix): p for name, p in ports.items() if name.startswith(prefix)}
    assert found["awaddr"] == found["araddr"] == ("input", 14)
    assert found["wdata"] == ("input", 32)
    assert found["rdata"] == ("output", 32)
    ready = {name: way for name, (way, _) in found.items() if name.endswith("ready")}
    assert [name for name, way in ready.items() if way == "input"] == ["bready", "rready"]


@pytest.mark.parametrize("master", [master for master in MASTERS if master != WRITER])
def test_masters_that_read_have_no_channels_to_write(
    master: str, ports: dict[str, tuple[str, int]]
) -> None:
    prefix = f"m_axi_{master}_"
    found = {name.removeprefix(prefix): p for name, p in ports.items() if name.startswith(prefix)}
    address = {"araddr": 32, "arlen": 8, "arsize": 3, "arburst": 2, "arcache": 4, "arprot": 3}
    outputs = address | {"arvalid": 1, "rready": 1}
    inputs = {"arready": 1, "rvalid": 1, "rdata": 64, "rresp": 2, "rlast": 1}
    assert found == {n: ("output", b) for n, b in outputs.items()} | {
        n: ("input", b) for n, b in inputs.items()
    }


def test_the_master_that_writes_has_no_channels_to_read(ports: dict[str, tuple[str, int]]) -> None:
    prefix = "m_axi_store_"
    found = {name.removeprefix(prefix): p for name, p in ports.items() if name.startswith(prefix)}
    assert not [name for name in found if name.startswith(("ar", "r"))]
    assert found["wdata"] == ("output", 64)
    assert found["wstrb"] == ("output", 8)
    assert found["bready"] == ("output", 1)


def test_a_bus_wider_than_an_element_is_refused() -> None:
    with pytest.raises(AcceleratorError, match="inp elements of 8 bytes"):
        verilog(TINY, bus_bytes=16)

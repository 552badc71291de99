"""What the scripts for Vivado build, by stand-ins for Vivado's commands: no Vivado has run them."""

from __future__ import annotations

import re
from pathlib import Path

import board_verilog
import pytest
import vivado_run
from board_verilog import WRAPPER
from vivado_run import BlockDesign

from bitstreams.designs import DESIGNS, REFERENCE_CLOCK_HZ
from vta_rtl.registers.register_table import MAP_BYTES

VIVADO = [name for name in DESIGNS if not name.endswith("openxc7")]
BOARD = Path(__file__).parents[2] / "board"
OVERLAYS = dict.fromkeys(("ultra96", "kv260", "zcu104"), "ultra96") | {"pynq-z2": "pynq-z2"}
INPUT, OUTPUT = "input", "output"

# Pins and interfaces of the vendor's cells (PG201, PG082, PG065, PG247), and the setting that each
# of those of the processors needs.
CLOCK = {"clk_in1": INPUT, "clk_out1": OUTPUT, "locked": OUTPUT}
SMARTCONNECT = {"aclk": INPUT, "aresetn": INPUT}
PS8_PINS = {
    "pl_clk0": (OUTPUT, "PSU__FPGA_PL0_ENABLE"),
    "pl_ps_irq0": (INPUT, "PSU__USE__IRQ0"),
    "maxihpm0_fpd_aclk": (INPUT, "PSU__USE__M_AXI_GP0"),
    **{f"saxihp{n}_fpd_aclk": (INPUT, f"PSU__USE__S_AXI_GP{n + 2}") for n in range(4)},
}
PS7_PINS = {
    "FCLK_CLK0": (OUTPUT, "PCW_EN_CLK0_PORT"),
    "IRQ_F2P": (INPUT, "PCW_IRQ_F2P_INTR"),
    "M_AXI_GP0_ACLK": (INPUT, "PCW_USE_M_AXI_GP0"),
    **{f"S_AXI_HP{n}_ACLK": (INPUT, f"PCW_USE_S_AXI_HP{n}") for n in range(4)},
}
PS8_PORTS = {  # the port's clock, segment and setting of its width
    f"S_AXI_HP{n}_FPD": (
        f"saxihp{n}_fpd_aclk",
        f"SAXIGP{n + 2}/HP{n}_DDR_LOW",
        f"PSU__SAXIGP{n + 2}__DATA_WIDTH",
    )
    for n in range(4)
}
PS7_PORTS = {
    f"S_AXI_HP{n}": (
        f"S_AXI_HP{n}_ACLK",
        f"S_AXI_HP{n}/HP{n}_DDR_LOWOCM",
        f"PCW_S_AXI_HP{n}_DATA_WIDTH",
    )
    for n in range(4)
}
MASTERS = {"m_axi_fetch_store", "m_axi_load", "m_axi_weight", "m_axi_compute"}


def is_zynqmp(design: str) -> bool:
    return DESIGNS[design].bus_bytes == 16


@pytest.fixture(scope="module", params=VIVADO)
def built(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, BlockDesign]:
    """Return the name of a design and what its script has built."""
    folder = vivado_run.sources(request.param, tmp_path_factory.mktemp(request.param))
    ran, design = vivado_run.run(request.param, folder)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    return request.param, design


def pins(name: str, design: BlockDesign) -> dict[str, str]:
    """Return the direction of every pin in the design."""
    found = {f"clock/{pin}": way for pin, way in CLOCK.items()}
    found |= {
        f"{cell}/{pin}": way
        for cell, kind in design.cells.items()
        if kind == "xilinx.com:ip:smartconnect"
        for pin, way in SMARTCONNECT.items()
    }
    known = PS8_PINS if is_zynqmp(name) else PS7_PINS
    enabled = {key for key, value in design.settings["ps"].items() if value == "1"}
    found |= {f"ps/{p}": way for p, (way, key) in known.items() if f"CONFIG.{key}" in enabled}
    ports = board_verilog.ports(WRAPPER.read_text())
    return found | {f"vta/{port}": way for port, (way, _) in ports.items() if "_axi_" not in port}


def test_the_cells_are_known_and_the_accelerator_is_the_wrapper(built) -> None:
    name, design = built
    processors = "zynq_ultra_ps_e" if is_zynqmp(name) else "processing_system7"
    assert design.cells["ps"] == f"xilinx.com:ip:{processors}"
    assert design.cells["vta"] == re.findall(r"^module (\w+)", WRAPPER.read_text(), re.M)[0]
    assert design.settings["vta"] == {"CONFIG.BUS_BYTES": str(DESIGNS[name].bus_bytes)}


def test_every_pin_exists_and_every_input_has_one_driver(built) -> None:
    name, design = built
    known = pins(name, design)
    assert set().union(*design.nets) <= known.keys()
    for pin, way in known.items():
        drivers = {other for other in design.net_of(pin) if known[other] == OUTPUT}
        assert len(drivers) == 1, f"{pin}, {way}, has drivers {drivers}"


def test_everything_on_the_buses_has_the_clock_and_the_reset_of_the_accelerator(built) -> None:
    name, design = built
    clocked = design.net_of("clock/clk_out1")
    assert {pin for pin in pins(name, design) if pin.lower().endswith("aclk")} < clocked
    reset = design.net_of("vta/aresetn")
    assert {pin for pin in pins(name, design) if pin.endswith("/aresetn")} == reset


def test_every_bus_goes_from_a_master_to_a_slave_through_one_converter(built) -> None:
    name, design = built
    from_vta = {master.removeprefix("vta/"): slave for master, slave in design.buses}
    converters = {slave.partition("/")[0]: slave for slave in from_vta.values()}
    onward = {m.partition("/")[0]: s for m, s in design.buses if m.endswith("/M00_AXI")}
    control = "ps/M_AXI_HPM0_FPD" if is_zynqmp(name) else "ps/M_AXI_GP0"
    assert len(design.buses) == 2 * (1 + len(MASTERS))
    assert onward[from_vta[control].removesuffix("/S00_AXI")] == "vta/s_axi_control"
    ports = {onward[from_vta[master].removesuffix("/S00_AXI")] for master in MASTERS}
    known = PS8_PORTS if is_zynqmp(name) else PS7_PORTS
    assert len(ports) == len(MASTERS)
    assert {port.removeprefix("ps/") for port in ports} <= known.keys()
    assert onward.keys() <= converters.keys()


def test_the_masters_reach_memory_through_ports_of_their_width(built) -> None:
    name, design = built
    known = PS8_PORTS if is_zynqmp(name) else PS7_PORTS
    wide = str(8 * DESIGNS[name].bus_bytes)
    reached = {
        space.split("/")[-1].rstrip("}"): segment
        for _, space, segment in (a for a in design.addresses if a[0] != "-offset")
    }
    slaves = {m.removeprefix("vta/"): s.partition("/")[0] for m, s in design.buses}
    onward = {m.partition("/")[0]: s for m, s in design.buses}
    assert reached.keys() == MASTERS
    for master, segment in reached.items():
        clock, expected, width = known[onward[slaves[master]].removeprefix("ps/")]
        assert segment == f"segment ps/{expected}"
        assert design.settings["ps"][f"CONFIG.{width}"] == wide
        assert f"ps/{clock}" in design.net_of("vta/aclk")


def test_registers_are_where_the_boards_overlay_has_them(built) -> None:
    name, design = built
    (placed,) = [a for a in design.addresses if a[0] == "-offset"]
    overlay = (BOARD / f"{OVERLAYS[name]}-overlay.dts").read_text()
    (node,) = re.findall(r"vta: vta@\w+ \{.*?\}", overlay, re.DOTALL)
    cells = re.findall(r"0x\w+", re.findall(r"reg = <(.*)>", node)[0])
    address, size = [int(cell, 16) for cell in cells if int(cell, 16)]
    assert (int(placed[1], 16), int(placed[3], 16)) == (address, size)
    assert size == MAP_BYTES
    assert placed[5:] == ["space ps/Data", "segment vta/s_axi_control/*"]


def test_the_clock_is_made_from_the_one_that_boot_code_gives(built) -> None:
    name, design = built
    settings = design.settings["clock"]
    assert settings["CONFIG.CLKOUT1_REQUESTED_OUT_FREQ"] == f"{DESIGNS[name].clock_hz / 1e6:g}"
    frequency = (
        "PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ" if is_zynqmp(name) else "PCW_FPGA0_PERIPHERAL_FREQMHZ"
    )
    assert design.settings["ps"][f"CONFIG.{frequency}"] == f"{REFERENCE_CLOCK_HZ / 1e6:g}"


def test_the_project_has_the_boards_part_and_the_sources(built) -> None:
    name, design = built
    project = next(call for call in design.calls if call[0] == "create_project")
    assert project[project.index("-part") + 1] == DESIGNS[name].part
    added = next(call for call in design.calls if call[0] == "add_files")[-1].split()
    assert [Path(file).name for file in added] == ["edgepipe_vta.v", "edgepipe_vta_board.v"]
    assert all(Path(file).is_file() for file in added)


def test_sources_that_are_missing_are_an_error(tmp_path: Path) -> None:
    ran, design = vivado_run.run("ultra96", tmp_path / "none")
    assert ran.returncode == 1
    assert "no settings.tcl, expected the design's sources" in ran.stderr
    assert "hint: write them with `make bitstream-sources DESIGN=ultra96`" in ran.stderr
    assert design.calls == []


def test_sources_of_another_design_are_an_error(tmp_path: Path) -> None:
    ran, _ = vivado_run.run("ultra96", vivado_run.sources("kv260", tmp_path))
    assert ran.returncode == 1
    assert "holds the sources of kv260, expected ultra96" in ran.stderr


@pytest.mark.parametrize(
    ("slack", "progress", "error", "hint"),
    [
        ("-0.5", "100%", "misses 200 MHz by 0.5 ns, so there is no", "choose a lower clock: make"),
        ("0.1", "62%", "Vivado did not implement ultra96: stopped", "read the logs in"),
    ],
)
def test_a_design_that_fails_gives_no_bitstream(
    tmp_path: Path, slack: str, progress: str, error: str, hint: str
) -> None:
    folder = vivado_run.sources("ultra96", tmp_path)
    ran, _ = vivado_run.run("ultra96", folder, slack=slack, progress=progress)
    assert ran.returncode == 1
    assert error in ran.stderr
    assert f"hint: {hint}" in ran.stderr
    assert not list(folder.glob("edgepipe-*"))

"""``edgepipe doctor`` over a real sshd, on folders that imitate a board's kernel files."""

import argparse
import dataclasses
import json
import shutil
from pathlib import Path

import pytest

from edgepipe import __version__
from edgepipe.bitstream import record
from edgepipe.bitstream.record import BitstreamRecord
from edgepipe.cli import doctor_command
from edgepipe.doctor import examination, needs
from edgepipe.doctor.examination import Examination
from edgepipe.doctor.needs import Needs
from edgepipe.errors import DeployError

PROGRAMMED = BitstreamRecord(
    path="",
    sha256="0" * 64,
    part="xczu3eg",
    configuration="1x16_i8w8a32_15_15_18_17",
    revision="0.0.1",
    clock_hz=333_000_000,
    installed_by="tester@host",
    installer_version="0.1.0",
)
GOOD = {
    "etc/os-release": 'NAME="x"\nPRETTY_NAME="PynqLinux, based on Ubuntu 22.04"\n',
    "proc/device-tree/model": "Avnet Ultra96 Rev1\0",
    "proc/meminfo": "MemTotal:  2000000 kB\nCmaTotal:  131072 kB\nCmaFree:   65536 kB\n",
    "sys/module/uio_pdrv_genirq/version": "1",
    "sys/module/u_dma_buf/version": "1",
    "sys/class/uio/uio4/name": "vta",
    "sys/class/uio/uio4/maps/map0/size": "0x0000000000004000",
    "dev/uio4": "",
    "sys/class/u-dma-buf/udmabuf0/size": "67108864",
    "sys/class/u-dma-buf/udmabuf0/sync_for_device": "0",
    "sys/class/u-dma-buf/udmabuf0/dma_coherent": "0",
    "dev/udmabuf0": "",
    "proc/self/status": "Name:\tsh\nCapEff:\t0000000000000000\n",
    "sys/class/video4linux/video0/name": "USB Camera: HD",
    "dev/video0": "",
    "sys/class/fpga_manager/fpga0/state": "operating",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "1199999",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq": "1199999",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance",
    "sys/class/thermal/thermal_zone0/temp": "51250",
    "sys/class/thermal/thermal_zone0/type": "ps-thermal",
    "sys/bus/iio/devices/iio:device0/in_temp1_pl_temp_raw": "32768",
    "sys/bus/iio/devices/iio:device0/in_temp1_pl_temp_offset": "-36058",
    "sys/bus/iio/devices/iio:device0/in_temp1_pl_temp_scale": "-7.771514892",
    "sys/kernel/debug/clk/pl0_ref/clk_rate": "332999666",
    "sys/class/hwmon/hwmon1/name": "ina226",
    "sys/class/hwmon/hwmon1/power1_input": "4250000",
    "run/edgepipe/bitstream.json": record.to_json(PROGRAMMED),
}


@pytest.fixture
def examine(board, make_bundle, tmp_path):
    """Return a function that examines a board with changes to GOOD's files; findings by check."""

    def run(changes=None, *, memory_bytes=8 << 20):
        system = tmp_path / "system"
        shutil.rmtree(system, ignore_errors=True)
        for path, content in (GOOD | (changes or {})).items():
            if content is not None:
                (system / path).parent.mkdir(parents=True, exist_ok=True)
                if isinstance(content, Path):
                    (system / path).symlink_to(content)
                else:
                    (system / path).write_text(content)
        manifest = needs.read(make_bundle()).manifest
        wanted = Needs(manifest=manifest, memory_bytes=memory_bytes)
        found = examination.examine(
            board.target(),
            # These devices are files; without a program there is no self-test (tests/board).
            Examination(needs=wanted, system=str(system), programs=(tmp_path / "none",)),
        )
        return {finding.check: finding for finding in found}

    return run


def without(*paths):
    return dict.fromkeys(paths)


def test_a_good_board_has_nothing_that_fails(examine):
    found = examine()
    assert {f.check: f.text for f in found.values() if f.state == "fail"} == {}
    assert "Avnet Ultra96 Rev1, Linux" in found["system"].text
    assert "PynqLinux, based on Ubuntu 22.04" in found["system"].text
    assert found["registers"].text == "/dev/uio4 (vta), 0x4000 bytes"
    assert found["buffers"].text == "/dev/udmabuf0, 64.0 MiB, the bundle needs 8.0 MiB"
    assert found["CMA"].text == "128.0 MiB of CMA, 64.0 MiB free"
    assert found["camera"].text == "/dev/video0 (USB Camera: HD)"
    assert found["clocks"].text == "1199 MHz of 1199, performance"
    assert found["temperature"].text == "25.6 C (temp1_pl_temp)"
    assert found["FPGA clock"].text == "333.0 MHz (pl0_ref), the bundle was built for 333.0 MHz"
    assert found["power"].text == "4.25 W (ina226)"
    assert found["FPGA manager"].text == "fpga0 is 'operating'"
    assert found["self-test"].text.startswith("skipped: ")
    assert found["versions"].text == f"edgepipe {__version__} here, no release on the board"


OVERLAY = (
    "apply a device tree with a generic-uio node called vta and load uio_pdrv_genirq with "
    "of_id=generic-uio; on a PYNQ image, program the bitstream first"
)


@pytest.mark.parametrize(
    ("changes", "check", "state", "text", "remedy"),
    [
        (
            without("sys/class/uio/uio4/name"),
            "registers",
            "fail",
            "no UIO device named vta",
            OVERLAY,
        ),
        ({"sys/class/uio/uio4/name": "gpio"}, "registers", "fail", "found gpio", OVERLAY),
        (
            without("dev/uio4"),
            "registers",
            "fail",
            "has rights missing, needed rw",
            "grant the user access with a udev rule or a group, or log in as a user who has it",
        ),
        (
            {"sys/class/uio/uio4/maps/map0/size": "0x1000"},
            "registers",
            "fail",
            "0x1000 bytes, needed 0x4000",
            "extend the device tree's vta node to all four register blocks",
        ),
        (
            without("sys/class/u-dma-buf/udmabuf0/size"),
            "buffers",
            "fail",
            "no u-dma-buf named udmabuf0",
            "load u-dma-buf with udmabuf0=67108864, or name a buffer in the device tree",
        ),
        (
            {"sys/class/u-dma-buf/udmabuf0/size": "4194304"},
            "buffers",
            "fail",
            "needs 8.0 MiB",
            "load u-dma-buf with a larger buffer (udmabuf0=BYTES, or its size in the device tree)",
        ),
        (
            without("sys/class/u-dma-buf/udmabuf0/sync_for_device"),
            "buffers",
            "fail",
            "cache maintenance files are not writable",
            "make /sys/class/u-dma-buf/udmabuf0/sync_for_* writable for the user",
        ),
        (
            without("sys/module/uio_pdrv_genirq/version"),
            "UIO driver",
            "warn",
            "is not loaded",
            "modprobe uio_pdrv_genirq of_id=generic-uio",
        ),
        (
            without("sys/module/u_dma_buf/version"),
            "buffer driver",
            "warn",
            "is not loaded",
            "build and load the kernel module u-dma-buf",
        ),
        (
            {"sys/kernel/debug/clk/pl0_ref/clk_rate": "100000000"},
            "FPGA clock",
            "warn",
            "100.0 MHz (pl0_ref), the bundle was built for 333.0 MHz",
            "set the clock, or build for this one; a faster clock may hang the VTA",
        ),
        (
            {"sys/class/fpga_manager/fpga0/state": "unknown"},
            "FPGA manager",
            "warn",
            "'unknown'",
            "program the bitstream through fpga_manager",
        ),
        (
            without("run/edgepipe/bitstream.json"),
            "bitstream",
            "warn",
            "no record",
            "program the FPGA with `edgepipe bitstream install`",
        ),
        (
            {"run/edgepipe/bitstream.json": "{"},
            "bitstream",
            "warn",
            "is damaged",
            "program the FPGA again with `edgepipe bitstream install`",
        ),
        (
            without("dev/video0"),
            "camera",
            "warn",
            "has no access",
            "add the user to the group video",
        ),
        (
            {"sys/bus/iio/devices/iio:device0/in_temp1_pl_temp_raw": "24336"},
            "temperature",
            "warn",
            "91.1 C",
            "cool the board; the Ultra96's fan can be turned on",
        ),
        (  # a converter without an offset
            {
                "sys/bus/iio/devices/iio:device1/in_temp_raw": "1456",
                "sys/bus/iio/devices/iio:device1/in_temp_scale": "62.5",
            },
            "temperature",
            "warn",
            "91.0 C",
            "cool the board; the Ultra96's fan can be turned on",
        ),
        (
            {"sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "299999"},
            "clocks",
            "warn",
            "299 MHz of 1199",
            "for steady frame times: cpupower frequency-set -g performance",
        ),
    ],
)
def test_problems_are_found_with_a_remedy(examine, changes, check, state, text, remedy):
    finding = examine(changes)[check]
    assert (finding.state, text in finding.text) == (state, True), finding
    assert finding.remedy == remedy


NO_UDMABUF = without("sys/class/u-dma-buf/udmabuf0/size", "sys/module/u_dma_buf/version")
ZOCL = NO_UDMABUF | {
    "sys/class/drm/renderD128/device/driver": Path("../../../../bus/platform/drivers/zocl-drm"),
    "dev/dri/renderD128": "",
}
HEAP = NO_UDMABUF | {"dev/dma_heap/linux,cma": "", "dev/dma_heap/system": ""}
AS_ROOT = {"proc/self/status": "CapEff:\t000001ffffffffff\n"}


def test_without_udmabuf_buffers_come_from_zocl(examine):
    found = examine(ZOCL)
    assert {f.check for f in found.values() if f.state == "fail"} == set()
    assert found["buffers"].text == "/dev/dri/renderD128 of XRT's zocl, from CMA"
    assert found["buffer driver"].text == "zocl is loaded instead of u_dma_buf"
    assert found["CMA"].text == "128.0 MiB of CMA, 64.0 MiB free, the bundle needs 8.0 MiB"
    found = examine(ZOCL | without("dev/dri/renderD128"))
    assert (found["buffers"].state, "rights missing" in found["buffers"].text) == ("fail", True)


def test_without_udmabuf_and_zocl_buffers_come_from_a_contiguous_heap(examine):
    # Other conditions depend on the processor: tests/edgepipe/doctor/test_memory.py.
    found = examine(HEAP | AS_ROOT)["buffers"]
    assert found.text.startswith("/dev/dma_heap/linux,cma, from CMA")
    assert "physical addresses" not in found.text


@pytest.mark.parametrize(
    ("meminfo", "state", "text"),
    [
        ("CmaTotal: 4096 kB\nCmaFree: 4096 kB\n", "fail", "4.0 MiB of CMA"),
        ("CmaTotal: 65536 kB\nCmaFree: 1024 kB\n", "warn", "1.0 MiB free"),
        ("MemTotal: 65536 kB\n", "fail", "0.0 MiB of CMA"),
    ],
)
def test_cma_that_is_too_small_for_the_bundle_is_reported(examine, meminfo, state, text):
    finding = examine(ZOCL | {"proc/meminfo": meminfo})["CMA"]
    assert (finding.state, text in finding.text, "cma=128M" in finding.remedy) == (
        state,
        True,
        True,
    )


def test_another_bitstream_than_the_bundles_names_both(examine):
    other = record.to_json(dataclasses.replace(PROGRAMMED, clock_hz=100))
    finding = examine({"run/edgepipe/bitstream.json": other})["bitstream"]
    assert finding.state == "fail"
    assert finding.text.endswith("clock is 100 Hz, the bundle was built for 333000000 Hz")


@pytest.mark.parametrize(("rate", "state"), [("99999001", "ok"), ("332999666", "warn")])
def test_a_bitstream_with_a_clock_of_its_own_needs_the_clock_that_it_is_made_from(
    examine, rate, state
):
    own = record.to_json(dataclasses.replace(PROGRAMMED, reference_clock_hz=100_000_000))
    changes = {"run/edgepipe/bitstream.json": own, "sys/kernel/debug/clk/pl0_ref/clk_rate": rate}
    finding = examine(changes)["FPGA clock"]
    assert finding.state == state
    assert finding.text.endswith(
        "from which the bitstream makes the accelerator's 333.0 MHz if it is 100.0 MHz"
    )


def test_without_vta_stages_missing_devices_are_only_warnings(examine):
    found = examine(without("sys/class/uio/uio4/name", "dev/udmabuf0"), memory_bytes=0)
    assert found["registers"].state == found["buffers"].state == "warn"


def command(board, *arguments):
    parser = argparse.ArgumentParser()
    doctor_command.add_parser(parser.add_subparsers())
    host = ("doctor", "--host", board.name, "--ssh-config", board.ssh_config)
    options = parser.parse_args([*map(str, (*host, *arguments))])
    return options.run(options)


def test_the_command_prints_a_table_and_remedies_or_json(board, capsys):
    assert command(board) == 0
    captured = capsys.readouterr()
    assert "survey" in captured.err
    assert "state" not in captured.out
    assert "system" in captured.out
    assert command(board, "--json") == 0
    findings = json.loads(capsys.readouterr().out)
    assert {finding["state"] for finding in findings} <= {"ok", "warn"}


def test_a_failure_is_exit_code_1(board, make_bundle, capsys):
    other = "armhf" if needs.read(make_bundle()).manifest.architectures[0] != "armhf" else "x86_64"
    assert command(board, "--bundle", make_bundle(architecture=other)) == 1
    assert "fail: system: build the bundle for this board" in capsys.readouterr().out


def test_an_unreachable_board_is_an_error(board):
    board.link.cut()
    with pytest.raises(DeployError, match="cannot connect"):
        command(board)

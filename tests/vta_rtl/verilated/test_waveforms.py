"""A program that fails leaves a waveform of its last cycles."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from accelerators import TINY
from needs import BUILD
from random_programs.findings import save_waveform
from random_programs.generator import random_program
from random_programs.machines import Machine
from random_programs.timings import ORDERS

from vta_rtl.verilated.device import VerilatedDevice, VerilatedDeviceError
from vta_rtl.verilated.driver_library import build_driver_library
from vta_rtl.verilated.memory_costs import MemoryCosts
from vta_rtl.verilated.waveforms import WaveformRecorder
from vta_stages.isa.instruction_buffer import encode
from vta_stages.isa.instructions import Finish, Load, MemoryType, Store

pytestmark = [pytest.mark.sim, pytest.mark.slow]

HANGS = encode(TINY, [Finish(pop_prev=True)])  # a token that never comes
DRAM = np.zeros(64, np.uint8)


@pytest.fixture(scope="module")
def library() -> Path:
    """Return a library that writes waveforms; its cache is relative to the current folder."""
    cache = Path(os.path.relpath(BUILD / "vta_rtl"))
    return build_driver_library(TINY, cache, bus_bytes=8, waveforms=True).resolve()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "waveforms"


@pytest.fixture
def device(library: Path, folder: Path) -> Iterator[VerilatedDevice]:
    recorder = WaveformRecorder(lambda: library, folder, cycles=200)
    with VerilatedDevice(library, recorder=recorder) as opened:
        yield opened


def times(path: Path) -> list[int]:
    """Return the half cycles of a waveform."""
    return [int(time) for time in re.findall(r"^#(\d+)$", path.read_text(), re.MULTILINE)]


def waveform_of(error: pytest.ExceptionInfo[VerilatedDeviceError], folder: Path) -> Path:
    """Return the only file, which the message names."""
    (path,) = folder.iterdir()
    assert str(error.value).endswith(f"its last 200 cycles are in {path}")
    return path


def test_a_hang_leaves_its_last_cycles(device: VerilatedDevice, folder: Path) -> None:
    with pytest.raises(VerilatedDeviceError, match="not finished after 3000 cycles; its") as error:
        device.run_image(HANGS, DRAM, most_cycles=3000)
    found = times(waveform_of(error, folder))
    assert found == list(range(found[0], found[0] + 400))
    assert found[0] > 2 * 2800
    device.run_image(encode(TINY, [Finish()]), DRAM)


def test_an_error_leaves_its_last_cycles_whenever_it_comes(
    device: VerilatedDevice, folder: Path
) -> None:
    device.set_costs(MemoryCosts(refresh_interval_cycles=150, refresh_cycles=70, stall_percent=30))
    loads = [Load(memory_type=MemoryType.INP, sram_base=0, dram_base=0, x_size=8)] * 30
    store = Store(sram_base=0, dram_base=1 << 28, x_size=1)
    program = encode(TINY, [*loads, store, Finish()])
    for _ in range(2):  # the second time, memory is at another point between two refreshes
        with pytest.raises(VerilatedDeviceError, match="aborted: store_outside at 0x") as error:
            device.run_image(program, DRAM)
        path = waveform_of(error, folder)
        assert len(times(path)) == 400
        path.unlink()


def test_it_has_the_signals_of_the_ports_and_of_the_modules(
    device: VerilatedDevice, folder: Path
) -> None:
    with pytest.raises(VerilatedDeviceError):
        device.run_image(HANGS, DRAM, most_cycles=1000)
    (path,) = folder.iterdir()
    text = path.read_text()
    for signal in ("m_axi_fetch_arvalid", "m_axi_store_wlast", "irq"):
        assert f" {signal} " in text
    for module in ("load_guard", "fetch", "compute"):
        assert re.search(rf"\$scope module {module} ", text)


def test_a_short_program_leaves_all_of_its_cycles(library: Path, tmp_path: Path) -> None:
    recorder = WaveformRecorder(lambda: library, tmp_path)
    path = tmp_path / "short.vcd"
    ran = recorder.write(path, encode(TINY, [Finish()]), DRAM, MemoryCosts(), 1000)
    assert 20 < ran < 500
    assert len(times(path)) >= 2 * ran


def test_without_a_waveform_the_error_still_says_what_happened(
    library: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    recorder = WaveformRecorder(lambda: library, tmp_path / "file")
    with (
        VerilatedDevice(library, recorder=recorder) as device,
        pytest.raises(VerilatedDeviceError, match="not finished after 900 cycles; no waveform of "),
    ):
        device.run_image(HANGS, DRAM, most_cycles=900)


def test_a_file_that_cannot_be_written_is_an_error(library: Path, tmp_path: Path) -> None:
    with (
        VerilatedDevice(library) as device,
        pytest.raises(VerilatedDeviceError, match=r"gone/a\.vcd: cannot be written, expected"),
    ):
        device.record_waveform(tmp_path / "gone/a.vcd", 0)


@pytest.mark.usefixtures("library")
def test_a_random_program_leaves_the_cycles_of_a_timing(tmp_path: Path) -> None:
    program, path = random_program(TINY, 2, 3), tmp_path / "tiny-2.vcd"
    costs = ORDERS["slow load and weight"]
    ran = save_waveform(program, Machine(TINY, 8), costs, BUILD / "vta_rtl", path)
    assert len(times(path)) >= 2 * ran > 0

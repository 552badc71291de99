"""The signals of a program's last cycles, if it does not end as it should.

    recorder = WaveformRecorder(lambda: build_driver_library(..., waveforms=True), folder)
    VerilatedDevice(library, waveforms=recorder)

A model that can write waveforms is slower and takes another minute to compile, so the program runs
on the usual one. When it has failed, it runs again on the other one, which writes a file of only
the last cycles: the first run says when they begin. GTKWave and Surfer show it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vta_rtl.verilated.device import VerilatedDevice, VerilatedDeviceError
from vta_rtl.verilated.driver_library import DriverLibraryError
from vta_rtl.verilated.memory_costs import MemoryCosts

LAST_CYCLES = 2000


@dataclass(frozen=True, slots=True)
class WaveformRecorder:
    """Where waveforms are written, and the library that writes them, built when it is needed.

    The library is of the same accelerator. ``cycles`` is how many of the last ones are written.
    """

    library: Callable[[], Path]
    folder: Path
    cycles: int = LAST_CYCLES

    def record(
        self,
        instructions: NDArray[np.uint64],
        dram: NDArray[np.uint8],
        costs: MemoryCosts,
        *,
        most_cycles: int,
        ran_cycles: int,
    ) -> str:
        """Run a program that has failed again; say where its waveform is, or why there is none.

        ``instructions`` is uint64[n, 2], ``dram`` uint8[bytes], the memory before the run.
        ``ran_cycles`` are those of the run that failed, the time to stop it included. The file's
        name is a hash of the program.
        """
        key = hashlib.sha256(instructions.tobytes() + dram.tobytes()).hexdigest()[:12]
        path = self.folder / f"program-{key}.vcd"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            written = self.write(path, instructions, dram, costs, most_cycles, ran_cycles)
        except (DriverLibraryError, VerilatedDeviceError, OSError) as error:
            return f"no waveform of it: {error}"
        return f"its last {written} cycles are in {path}"

    def write(
        self,
        path: Path,
        instructions: NDArray[np.uint64],
        dram: NDArray[np.uint8],
        costs: MemoryCosts,
        most_cycles: int,
        ran_cycles: int = 0,
    ) -> int:
        """Write the last cycles of a program, however it ends; return how many they are.

        ``instructions`` is uint64[n, 2], ``dram`` uint8[bytes], the memory before the run.

        Raises VerilatedDeviceError if the file cannot be written, DriverLibraryError as
        :func:`~vta_rtl.verilated.driver_library.build_driver_library` does.
        """
        library = self.library()
        # The first run may have begun at another point between two refreshes. These two runs begin
        # alike, so the second one ends where the first one did.
        for _ in range(2):
            first = max(0, ran_cycles - self.cycles)
            with VerilatedDevice(library, costs) as device:
                device.record_waveform(path, first)
                began = device.cycles()
                with suppress(VerilatedDeviceError):
                    device.run_image(instructions, dram, most_cycles=most_cycles)
                ran_cycles = device.cycles() - began
            if ran_cycles == first + self.cycles or ran_cycles <= self.cycles:
                break
        return min(ran_cycles, self.cycles)

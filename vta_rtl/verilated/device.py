"""The Verilated accelerator from Python.

with VerilatedDevice(build_driver_library(Accelerator(), cache)) as device:
    after = device.run_image(instructions, dram)
    print(device.register("cycles"))
"""

from __future__ import annotations

import ctypes
from enum import IntEnum
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from vta_rtl.isa.names import BASES
from vta_rtl.registers.register_table import BY_NAME, Error
from vta_rtl.verilated.memory_costs import MemoryCosts

MOST_CYCLES = 1 << 30


class _Result(IntEnum):
    """What ``VTADeviceRun`` of ``vta_driver.cc`` returns."""

    RAN_TO_FINISH = 0
    OUT_OF_TIME = 1
    ERROR = 2


class Transfers(NamedTuple):
    """Bursts in the order in which they ended, as columns int64[n].

    ``port`` is the place of the master in :data:`~vta_rtl.isa.names.MASTERS`. Memory was read or
    written in the cycles from ``first_cycle`` to ``last_cycle``; a burst of store is written in one
    cycle.
    """

    first_cycle: NDArray[np.int64]
    last_cycle: NDArray[np.int64]
    port: NDArray[np.int64]
    beats: NDArray[np.int64]


_TRANSFER = np.dtype(
    [("first_cycle", "<i8"), ("last_cycle", "<i8"), ("port", "<i4"), ("beats", "<i4")]
)


class VerilatedDeviceError(Exception):
    """A program did not run to its FINISH."""


class Recorder(Protocol):
    """Keeps what a failed program did: :class:`~vta_rtl.verilated.waveforms.WaveformRecorder`."""

    def record(
        self,
        instructions: NDArray[np.uint64],
        dram: NDArray[np.uint8],
        costs: MemoryCosts,
        *,
        most_cycles: int,
        ran_cycles: int,
    ) -> str:
        """Return what to tell the user of it, without a full stop.

        ``instructions`` is uint64[n, 2], ``dram`` uint8[bytes], the memory before the run.
        """
        ...


class VerilatedDevice:
    """One accelerator with memory of its own. Not thread-safe.

    A program that fails is shown to ``recorder``.
    """

    def __init__(
        self,
        library: Path,
        costs: MemoryCosts | None = None,
        *,
        recorder: Recorder | None = None,
    ) -> None:
        self._library = ctypes.CDLL(str(library.resolve()))
        for name in ("VTADeviceAlloc", "VTAMemAlloc"):
            getattr(self._library, name).restype = ctypes.c_void_p
        self._library.VtaRtlTransfers.restype = ctypes.c_size_t
        self._library.VtaRtlCycles.restype = ctypes.c_uint64
        for name in ("VTAMemGetPhyAddr", "VtaRtlReadRegister"):
            getattr(self._library, name).restype = ctypes.c_uint32
        self._recorder = recorder
        self._handle = ctypes.c_void_p(self._library.VTADeviceAlloc())
        self.set_costs(costs or MemoryCosts())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._library.VTADeviceFree(self._handle)

    def set_costs(self, costs: MemoryCosts) -> None:
        """Set what memory costs from the next run on."""
        self._costs = costs
        self._library.VtaRtlSetMemoryCosts(self._handle, ctypes.byref(costs.as_c()))

    def record_transfers(self, on: bool) -> None:
        """Record the transfers of the runs to come, or no longer; forget those before."""
        self._library.VtaRtlRecordTransfers(self._handle, int(on))

    def transfers(self) -> Transfers:
        """Return the recorded transfers."""
        count = self._library.VtaRtlTransfers(self._handle, None, ctypes.c_size_t(0))
        found = np.empty(count, _TRANSFER)
        target = found.ctypes.data_as(ctypes.c_void_p)
        self._library.VtaRtlTransfers(self._handle, target, ctypes.c_size_t(count))
        return Transfers(*(found[name].astype(np.int64) for name in Transfers._fields))

    def cycles(self) -> int:
        """Return the cycles since the accelerator's reset."""
        return int(self._library.VtaRtlCycles(self._handle))

    def record_waveform(self, path: Path, first_cycle: int) -> None:
        """Write all signals to a file (VCD), from so many cycles after now until the device is
        closed.

        Raises VerilatedDeviceError if the file cannot be written, or the library was built without
        waveforms.
        """
        begin = ctypes.c_uint64(self.cycles() + first_cycle)
        if self._library.VtaRtlRecordWaveform(self._handle, str(path).encode(), begin) != 0:
            raise VerilatedDeviceError(
                f"waveform {path}: cannot be written, expected a folder that can be and a library "
                "that was built with waveforms"
            )

    def register(self, name: str) -> int:
        """Return a register of ``vta_rtl/registers.md``."""
        return int(self._library.VtaRtlReadRegister(self._handle, BY_NAME[name].offset))

    def run_image(
        self,
        instructions: NDArray[np.uint64],
        dram: NDArray[np.uint8],
        *,
        most_cycles: int = MOST_CYCLES,
    ) -> NDArray[np.uint8]:
        """Run on a memory image that transfers count from; return the image afterwards.

        ``instructions`` is uint64[n, 2], ``dram`` uint8[bytes]. Raises VerilatedDeviceError for a
        program that the device aborts, with the cause, or that takes more than ``most_cycles``, and
        says what its recorder has kept.
        """
        words = np.ascontiguousarray(instructions, dtype="<u8")
        image, program = self._place(dram.tobytes()), self._place(words.tobytes())
        began = self.cycles()
        try:
            base = self._library.VTAMemGetPhyAddr(image)
            for name in BASES:
                offset = BY_NAME[f"{name}_base"].offset
                self._library.VtaRtlWriteRegister(self._handle, offset, base)
            address = self._library.VTAMemGetPhyAddr(program)
            ran = _Result(
                self._library.VTADeviceRun(self._handle, address, len(words), most_cycles)
            )
            if ran is not _Result.RAN_TO_FINISH:
                text = f"program of {len(words)} instructions: {self._cause(ran, most_cycles)}"
                if self._recorder is not None:
                    ran_cycles = self.cycles() - began
                    found = self._recorder.record(
                        words, dram, self._costs, most_cycles=most_cycles, ran_cycles=ran_cycles
                    )
                    text = f"{text}; {found}"
                raise VerilatedDeviceError(text)
            after = ctypes.string_at(image, dram.nbytes)
        finally:
            self._library.VTAMemFree(image)
            self._library.VTAMemFree(program)
        return np.frombuffer(after, np.uint8)

    def _place(self, content: bytes) -> ctypes.c_void_p:
        memory = ctypes.c_void_p(self._library.VTAMemAlloc(ctypes.c_size_t(len(content)), 0))
        if not memory:
            raise VerilatedDeviceError(f"no memory for {len(content)} bytes")
        ctypes.memmove(memory, content, len(content))
        return memory

    def _cause(self, ran: _Result, most_cycles: int) -> str:
        if ran is _Result.OUT_OF_TIME:
            return f"not finished after {most_cycles} cycles"
        error = Error(self.register("error"))
        names = " and ".join(str(bit.name).lower() for bit in error)
        return f"aborted: {names} at {self.register('error_address'):#x}"

"""The strict VTA simulator of the C++ runtime, for tests of programs and of the compiler."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgepipe.errors import RuntimeFailure
from edgepipe.runtime.handle import Functions, Handle
from edgepipe.runtime.library import as_tensor, call
from vta_stages.accelerator import Accelerator
from vta_stages.program import Program, RegionKind
from vta_stages.timing.cost_model import CostModel

ARENA_BYTES = 1 << 30
BASE_ADDRESS = 0x1000_0000
ALIGNMENT = 4096
INSTRUCTION_BYTES = 16

UInt8Array = NDArray[np.uint8]
UInt64Array = NDArray[np.uint64]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatorDescription:
    """What the C++ side knows about an accelerator.

    ``kernels`` are the GEMM kernels that this CPU can run, fastest first. ``fields`` maps an
    opcode's name to its fields in bit order, each ``(name, word, bit, bits)`` with word 0 for bits
    0-63.
    """

    kernels: tuple[str, ...]
    fields: Mapping[str, tuple[tuple[str, int, int, int], ...]]


def describe(accelerator: Accelerator) -> SimulatorDescription:
    """Return the simulator's kernels and instruction table for an accelerator."""
    found = json.loads(call("describe_accelerator", _accelerator_json(accelerator)))
    return SimulatorDescription(
        kernels=tuple(found["kernels"]),
        fields={
            opcode: tuple((str(f[0]), int(f[1]), int(f[2]), int(f[3])) for f in fields)
            for opcode, fields in found["instructions"].items()
        },
    )


def modelled_cycles(accelerator: Accelerator, cost: CostModel, instructions: UInt64Array) -> int:
    """Return the cycles of a program by the C++ timing model, without the launch.

    ``instructions`` is uint64[n, 2]. Raises RuntimeFailure for a program that never ends.
    """
    timing = json.dumps(dataclasses.asdict(cost))
    program = as_tensor(np.ascontiguousarray(instructions))
    found = call("modelled_cycles", _accelerator_json(accelerator), timing, program)
    return int(found)


class Simulator(Handle):
    """A simulated accelerator and its device memory.

    ``kernel`` selects a GEMM kernel by name (see ``describe``); all give the same bits. Raises
    RuntimeFailure with the C++ text if a program breaks one of the hardware's rules. Not
    thread-safe. Usable as a context manager; otherwise closed with the object.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        *,
        kernel: str = "",
        arena_bytes: int = ARENA_BYTES,
        base_address: int = BASE_ADDRESS,
    ) -> None:
        self.accelerator = accelerator
        self._kernel = kernel
        module = call(
            "open_simulator", _accelerator_json(accelerator), kernel, arena_bytes, base_address
        )
        super().__init__(Functions("simulator", module))

    # ---- device memory -------------------------------------------------------------------------

    def allocate(self, count: int) -> int:
        """Reserve ``count`` zeroed bytes; return their device address, a multiple of 4096."""
        return int(self._call("allocate", count))

    def free(self, address: int) -> None:
        """Release memory that ``allocate`` returned."""
        self._call("free", address)

    def write(self, address: int, data: NDArray[np.generic]) -> None:
        """Copy an array's bytes to a device address inside one allocation.

        The array may have any dtype and shape; its bytes are copied in C order.
        """
        self._call("write", address, as_tensor(np.ascontiguousarray(data)))

    def read(self, address: int, count: int) -> UInt8Array:
        """Return ``count`` bytes from a device address inside one allocation.

        The result is uint8[count].
        """
        data = np.empty(count, dtype=np.uint8)
        self._call("read", address, as_tensor(data))
        return data

    # ---- running -------------------------------------------------------------------------------

    def run(
        self,
        address: int,
        count: int,
        *,
        timeout_s: float = 0.0,
        ranges: Sequence[tuple[int, int, RegionKind]] = (),
    ) -> None:
        """Run ``count`` instructions at a device address; a timeout of 0 means no limit.

        ``ranges`` are addresses, bytes and kinds of the regions that the program may access; none
        means all memory. The content of const regions must not change between runs.
        """
        self._call("run", address, count, timeout_s, json.dumps(ranges))

    def run_instructions(self, instructions: UInt64Array, *, timeout_s: float = 0.0) -> None:
        """Place ``instructions`` uint64[n, 2] in device memory for one run.

        Raises RuntimeFailure for another shape.
        """
        if instructions.ndim != 2 or instructions.shape[1] != 2:
            raise RuntimeFailure(
                f"instructions have shape {list(instructions.shape)}, expected [n, 2]"
            )
        words = np.ascontiguousarray(instructions, dtype="<u8")
        address = self.allocate(words.nbytes)
        try:
            self.write(address, words)
            self.run(address, len(words), timeout_s=timeout_s)
        finally:
            self.free(address)

    def run_image(self, instructions: UInt64Array, dram: UInt8Array) -> UInt8Array:
        """Run on a memory image that starts at device address 0; returns the image afterwards.

        ``instructions`` is uint64[n, 2], ``dram`` uint8[bytes]. The run has separate memory:
        nothing outside the image can be read or written.
        """
        arena_bytes = dram.nbytes + instructions.nbytes + 2 * ALIGNMENT
        with Simulator(
            self.accelerator, kernel=self._kernel, arena_bytes=arena_bytes, base_address=0
        ) as machine:
            image = machine.allocate(dram.nbytes)
            machine.write(image, dram)
            machine.run_instructions(instructions)
            return machine.read(image, dram.nbytes)

    @contextmanager
    def loaded(
        self, program: Program | Path, inputs: Mapping[str, NDArray[np.generic]]
    ) -> Iterator[LoadedProgram]:
        """Place a compiled program and one set of inputs in device memory, to be run repeatedly.

        ``inputs`` holds, for every input region, an array of exactly its bytes (VTA layout). Arrays
        are uint8[bytes] or of any other dtype and shape with as many bytes. Raises RuntimeFailure
        for a missing input or one of another size in bytes.
        """
        if not isinstance(program, Program):
            program = Program.load(program)
        if program.accelerator != self.accelerator:
            raise RuntimeFailure(
                f"program: made for {program.accelerator}, this simulator is {self.accelerator}",
                hint="make a simulator of the program's accelerator",
            )
        contents = {region.name: region for region in program.inputs}
        if set(inputs) != set(contents):
            raise RuntimeFailure(
                f"program: inputs {sorted(inputs)} were given, expected {sorted(contents)}"
            )
        bases: dict[str, int] = {}
        addresses: list[int] = []
        try:
            for region in program.regions:
                bases[region.name] = self.allocate(region.bytes)
                addresses.append(bases[region.name])
                if region.kind is RegionKind.CONST:
                    self.write(bases[region.name], np.frombuffer(program.consts, dtype=np.uint8))
                elif region.kind is RegionKind.INPUT:
                    data = inputs[region.name]
                    if data.nbytes != region.bytes:
                        raise RuntimeFailure(
                            f"program: input {region.name} has {data.nbytes} bytes, "
                            f"expected {region.bytes}"
                        )
                    self.write(bases[region.name], data)
            words = np.ascontiguousarray(program.relocate(bases), dtype="<u8")
            addresses.append(self.allocate(words.nbytes))
            self.write(addresses[-1], words)
            outputs = {r.name: (bases[r.name], r.bytes) for r in program.outputs}
            ranges = tuple((bases[r.name], r.bytes, r.kind) for r in program.regions)
            yield LoadedProgram(self, addresses[-1], len(words), outputs, ranges)
        finally:
            for address in addresses:
                self.free(address)

    def run_program(
        self, program: Program | Path, inputs: Mapping[str, NDArray[np.generic]]
    ) -> dict[str, UInt8Array]:
        """Run a compiled program on one set of inputs; returns its outputs' bytes by name.

        ``inputs`` holds, for every input region, an array of exactly its bytes (VTA layout).
        Outputs are uint8[bytes].
        """
        with self.loaded(program, inputs) as loaded:
            loaded.run()
            return loaded.outputs()


@dataclass(frozen=True, slots=True)
class LoadedProgram:
    """A program in a simulator's memory; see :meth:`Simulator.loaded`."""

    simulator: Simulator
    address: int
    count: int
    regions: Mapping[str, tuple[int, int]]
    ranges: tuple[tuple[int, int, RegionKind], ...]

    def run(self) -> None:
        """Run the program once. The first run also checks it; later runs reuse the verdict."""
        self.simulator.run(self.address, self.count, ranges=self.ranges)

    def outputs(self) -> dict[str, UInt8Array]:
        """Return the outputs' bytes by name.

        Each is uint8[bytes].
        """
        return {
            name: self.simulator.read(address, count)
            for name, (address, count) in self.regions.items()
        }


def _accelerator_json(accelerator: Accelerator) -> str:
    return json.dumps(accelerator.values())

"""A small program that shows whether accelerator and CPU see each other's writes.

The program loads accumulators, adds a constant and stores the low bytes. It runs on two images with
different numbers in the same buffer. If the caches are not flushed, the accelerator computes with
the other image's numbers. If they are not invalidated, the CPU reads back the pattern that it wrote
itself. Either changes the digest of the memory afterwards.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgepipe.doctor import hardware
from edgepipe.doctor.hardware import Hardware
from vta_stages.accelerator import Accelerator
from vta_stages.isa.codec import encode_uops
from vta_stages.isa.instruction_buffer import encode
from vta_stages.isa.instructions import Alu, AluOp, Finish, Load, MemoryType, Store, Uop

RUNS = 20
_ELEMENTS = 256  # 16 KiB of accumulators with 16 lanes: many cache lines, small in every buffer
_ADDEND = 5
_UNTOUCHED = 0xA5


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """Memory before a run, and the expected memory after it; uint8[bytes] each."""

    name: str
    before: NDArray[np.uint8]
    after: NDArray[np.uint8]

    @property
    def digest(self) -> str:
        """The SHA-256 of the expected memory after the run, as hex."""
        return hashlib.sha256(self.after.tobytes()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfTest:
    """A program, uint64[n, 2] with addresses relative to the start of an image, and its images."""

    accelerator: Accelerator
    instructions: NDArray[np.uint64]
    images: tuple[Image, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result of a self-test; ``errors`` is empty if every run left the expected memory.

    ``interrupts`` is the number of interrupts, or None if the accelerator has no interrupt line.
    ``mean_us`` is the mean time of a run, including copying its image. ``hardware`` is None if the
    registers could not be read, or the program is older than that report.
    """

    runs: int
    errors: tuple[str, ...]
    lost_interrupts: int
    interrupts: int | None
    mean_us: float
    hardware: Hardware | None = None


def make(accelerator: Accelerator) -> SelfTest:
    """Return the self-test for ``accelerator``."""
    # An image: one uop, padded to an accumulator's size; the accumulators; room for the results.
    first_acc = 1
    results = -(-(first_acc + _ELEMENTS) * accelerator.acc_bytes // accelerator.out_bytes)
    instructions = encode(
        accelerator,
        [
            Load(memory_type=MemoryType.UOP, sram_base=0, dram_base=0, x_size=1, x_stride=1),
            Load(
                memory_type=MemoryType.ACC,
                sram_base=0,
                dram_base=first_acc,
                x_size=_ELEMENTS,
                x_stride=_ELEMENTS,
            ),
            Alu(
                alu_opcode=AluOp.ADD,
                uop_bgn=0,
                uop_end=1,
                use_imm=True,
                imm=_ADDEND,
                iter_in=_ELEMENTS,
                dst_factor_in=1,
                src_factor_in=1,
                push_next=True,
            ),
            Store(
                sram_base=0,
                dram_base=results,
                x_size=_ELEMENTS,
                x_stride=_ELEMENTS,
                pop_prev=True,
                push_prev=True,
            ),
            Finish(pop_next=True),
        ],
    )
    uop = encode_uops(accelerator, [Uop(dst=0)]).tobytes()
    return SelfTest(
        accelerator=accelerator,
        instructions=instructions,
        images=tuple(_image(accelerator, name, uop, results) for name in ("a", "b")),
    )


def make_archive(test: SelfTest, program: bytes) -> bytes:
    """Return the tar archive that the board's ``self_test`` runs with the ``edgepipe-vta-run`` in
    ``program``."""
    files = {
        "accelerator.json": json.dumps(test.accelerator.values()).encode(),
        "program.insns": test.instructions.tobytes(),
        "edgepipe-vta-run": program,
    } | {f"{image.name}.memory": image.before.tobytes() for image in test.images}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            info.mode = 0o700
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def parse_report(text: str, test: SelfTest) -> Report:
    """Evaluate the output of the board's ``self_test``.

    Raises ``DeployError`` for a report of registers that is not one.
    """
    reported = None
    expected = {image.name: image.digest for image in test.images}
    counts: dict[str, str] = {}
    errors = []
    reports = []
    for line in text.splitlines():
        key, _, rest = line.partition(" ")
        name, _, rest_of = rest.partition(" ")
        if key in ("before", "after"):
            counts[key] = rest
        elif key == "hardware":
            reported = hardware.parse(rest, "self-test")
        elif key == "failed" and name in expected:
            expected.pop(name)
            errors.append(rest_of.removeprefix("edgepipe-vta-run: error: ") or "no reason given")
        elif key == "ran" and name in expected:
            digest, _, report = rest_of.partition(" ")
            reports.append(json.loads(report))
            if digest != expected.pop(name):
                errors.append(f"unexpected memory contents after the runs on image {name}")
    errors += [f"image {name} was not run" for name in expected]
    late = sum(report["late"] for report in reports)
    if late:
        errors.append(f"{late} runs missed their deadline")
    before, after = counts.get("before", "none"), counts.get("after", "none")
    has_line = before.isdecimal() and after.isdecimal()
    return Report(
        runs=sum(report["ended"] for report in reports),
        errors=tuple(errors),
        lost_interrupts=sum(report["lost_interrupts"] for report in reports),
        interrupts=int(after) - int(before) if has_line else None,
        mean_us=sum(report["mean_us"] for report in reports) / max(len(reports), 1),
        hardware=reported,
    )


def _image(accelerator: Accelerator, name: str, uop: bytes, results: int) -> Image:
    lanes = accelerator.acc_bytes // 4
    generator = np.random.default_rng(ord(name))
    # After the addition every number fits in int8, so the stored byte holds all its bits.
    numbers = generator.integers(-128, 128 - _ADDEND, (_ELEMENTS, lanes), np.int32)
    stored = (numbers + _ADDEND).astype(np.int8)
    before = np.full(results * accelerator.out_bytes + stored.size, _UNTOUCHED, np.uint8)
    before[: len(uop)] = np.frombuffer(uop, np.uint8)
    start = accelerator.acc_bytes
    before[start : start + numbers.nbytes] = numbers.view(np.uint8).ravel()
    after = before.copy()
    after[-stored.size :] = stored.view(np.uint8).ravel()
    return Image(name=name, before=before, after=after)

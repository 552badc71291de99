"""The doctor's remedies, each checked by its text, from the survey or report that leads to it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from edgepipe.doctor import checks, memory
from edgepipe.doctor.finding import Finding
from edgepipe.doctor.self_test import Report
from edgepipe.doctor.survey import MemoryDevice, Survey

REPORT = Report(runs=200, mean_us=200.0, interrupts=200, lost_interrupts=0, errors=())
SURVEY = Survey(machine="aarch64", kernel="6.1", user="xilinx", libc="glibc 2.31")


def after_self_test(**changes: object) -> Callable[[str], Finding]:
    """Return a function that judges a self-test's report and selects one finding."""
    report = dataclasses.replace(REPORT, **changes)  # type: ignore[arg-type]
    return lambda check: next(f for f in checks.judge_self_test(report) if f.check == check)


def surveyed(**changes: object) -> Callable[[str], Finding]:
    """Return a function that judges a survey and selects one finding."""
    survey = dataclasses.replace(SURVEY, **changes)  # type: ignore[arg-type]
    return lambda check: next(f for f in checks.findings(survey, None) if f.check == check)


CASES: list[tuple[str, Callable[[str], Finding], str]] = [
    (
        "self-test",
        after_self_test(errors=("/dev/uio0: another process uses it",)),
        "stop the pipeline that is running on the board, then try again",
    ),
    (
        "self-test",
        after_self_test(errors=("the memory is wrong",)),
        "check the bitstream and its encoding revision; if the bitstream uses a coherent port "
        "(HPC, ACP), the boot code must enable coherency for it",
    ),
    (
        "interrupt",
        after_self_test(interrupts=None),
        "add the interrupt to the device tree's vta node",
    ),
    (
        "interrupt",
        after_self_test(interrupts=0),
        "compare the interrupt's number in the device tree with the bitstream's",
    ),
    (
        "interrupt",
        after_self_test(lost_interrupts=3),
        "check in /proc/interrupts what shares the line, and that its trigger type is right",
    ),
    ("system", surveyed(machine="riscv64"), "build the bundle for this board"),
    (
        "C library",
        surveyed(libc=""),
        "edgepipe's programs need the GNU C library; use a Debian, Ubuntu or PYNQ image",
    ),
    ("C library", surveyed(libc="glibc 2.23"), "use a newer image for the board"),
    ("camera", surveyed(cameras=()), "connect one if the application needs it"),
    ("versions", surveyed(release=1), "build and deploy the bundle again"),
    (
        "disk",
        surveyed(free_disk_bytes=1 << 20),
        "free some space, or keep fewer releases when you deploy",
    ),
]


@pytest.mark.parametrize(("check", "judge", "remedy"), CASES)
def test_a_finding_has_this_remedy(
    check: str, judge: Callable[[str], Finding], remedy: str
) -> None:
    assert judge(check).remedy == remedy


def test_memory_that_others_use_is_freed_or_enlarged() -> None:
    survey = dataclasses.replace(SURVEY, cma_bytes=64 << 20, cma_free_bytes=1 << 20)
    assert memory.cma(survey, 8 << 20).remedy == (
        "stop the processes that use it, such as a running pipeline, or boot with a larger cma= "
        "on the kernel's command line, such as cma=128M"
    )


def test_a_heap_whose_addresses_are_hidden_needs_root_or_a_module() -> None:
    heaps = (MemoryDevice(device="dma_heap/linux,cma", rights="rw"),)
    assert memory.buffers(dataclasses.replace(SURVEY, heaps=heaps), 0, "fail").remedy == (
        "load the kernel module u-dma-buf, or run as root or with CAP_SYS_ADMIN"
    )

"""The source of buffers, for boards that differ from this machine."""

import dataclasses

import pytest

from edgepipe.doctor import checks, memory
from edgepipe.doctor.survey import MemoryDevice, Survey, UioDevice

HEAPS = (
    MemoryDevice(device="dma_heap/system", rights="rw"),
    MemoryDevice(device="dma_heap/linux,cma", rights="rw"),
)
ROOT = Survey(
    machine="aarch64",
    kernel="6.1",
    user="root",
    capabilities=0x1FFFFFFFFFF,
    heaps=HEAPS,
    uio=(UioDevice(device="uio0", rights="rw", bytes=0x4000, name="vta"),),
)


def test_root_can_use_the_contiguous_heap():
    finding = memory.buffers(ROOT, 0, "fail")
    assert (finding.state, finding.text) == ("ok", "/dev/dma_heap/linux,cma, from CMA")
    assert checks.can_self_test(ROOT)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"capabilities": 0, "user": "xilinx"}, "hides physical addresses from xilinx"),
        ({"machine": "armv7l"}, "user programs cannot maintain the caches of armv7l"),
        ({"heaps": HEAPS[:1]}, "no u-dma-buf named udmabuf0"),
        (
            {"heaps": (MemoryDevice(device="dma_heap/reserved", rights="none"),)},
            "root has rights none, needed rw",
        ),
    ],
)
def test_an_unusable_heap_is_reported_with_a_remedy(changes, text):
    survey = dataclasses.replace(ROOT, **changes)
    finding = memory.buffers(survey, 0, "fail")
    assert (finding.state, text in finding.text) == ("fail", True), finding
    assert "u-dma-buf" in finding.remedy or "udev" in finding.remedy
    assert not checks.can_self_test(survey)

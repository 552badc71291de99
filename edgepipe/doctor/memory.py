"""The doctor's findings on contiguous memory: the source of buffers, and whether it is sufficient.

The runtime takes the first source that a board has (``open_uio_memory`` of
cpp_runtime/src/device/uio_device.cc): a u-dma-buf, XRT's zocl, a contiguous
dma-heap. The last two allocate from CMA.
"""

from __future__ import annotations

from edgepipe.doctor.finding import MAY_NOT_USE, Finding, mib
from edgepipe.doctor.survey import DmaBuffer, MemoryDevice, Survey

BUFFER = "udmabuf0"  # udmabuf_memory.h
_CAP_SYS_ADMIN = 1 << 21  # linux/capability.h
_MORE_CMA = "boot with a larger cma= on the kernel's command line, such as cma=128M"


def usable(survey: Survey) -> bool:
    """Whether this user can allocate buffers of any size."""
    return buffers(survey, 0, "fail").state == "ok"


def buffers(survey: Survey, needed: int, wanted: str) -> Finding:
    """Judge the source of ``needed`` bytes of buffers; ``wanted`` is the state if there is none."""
    udmabuf = _udmabuf(survey)
    if udmabuf is not None:
        return _judge_udmabuf(survey, udmabuf, needed, wanted)
    if survey.zocl:
        return _judge_zocl(survey, survey.zocl[0], wanted)
    heap = _heap(survey)
    if heap is not None:
        return _judge_heap(survey, heap, wanted)
    return Finding(
        check="buffers",
        state=wanted,
        text=f"no u-dma-buf named {BUFFER}, no XRT zocl and no CMA dma-heap",
        remedy=f"load u-dma-buf with {BUFFER}=67108864, or name a buffer in the device tree",
    )


def cma(survey: Survey, needed: int) -> Finding:
    """Compare the size of CMA with ``needed`` bytes, unless a u-dma-buf has its own memory."""
    text = f"{mib(survey.cma_bytes)} of CMA, {mib(survey.cma_free_bytes)} free"
    if _udmabuf(survey) is not None:
        return Finding(check="CMA", state="ok", text=text)
    if needed:
        text += f", the bundle needs {mib(needed)}"
    if survey.cma_bytes < max(needed, 1):
        state = "fail" if needed else "warn"
        return Finding(check="CMA", state=state, text=text, remedy=_MORE_CMA)
    if survey.cma_free_bytes < needed:
        remedy = f"stop the processes that use it, such as a running pipeline, or {_MORE_CMA}"
        return Finding(check="CMA", state="warn", text=text, remedy=remedy)
    return Finding(check="CMA", state="ok", text=text)


def module(survey: Survey) -> Finding:
    """Judge the buffer driver; one that is built into the kernel shows only through its device."""
    loaded = next((name for name in ("u_dma_buf", "udmabuf") if name in survey.modules), None)
    if loaded or survey.zocl:
        text = f"{loaded} is loaded" if loaded else "zocl is loaded instead of u_dma_buf"
        return Finding(check="buffer driver", state="ok", text=text)
    return Finding(
        check="buffer driver",
        state="warn",
        text="u_dma_buf is not loaded",
        remedy="build and load the kernel module u-dma-buf",
    )


def _udmabuf(survey: Survey) -> DmaBuffer | None:
    return next((buffer for buffer in survey.buffers if buffer.device == BUFFER), None)


def _heap(survey: Survey) -> MemoryDevice | None:
    """Return the heap that DmaHeapMemory uses: the first by name that is not a system heap."""
    heaps = [heap for heap in survey.heaps if not heap.device.startswith("dma_heap/system")]
    return min(heaps, key=lambda heap: heap.device, default=None)


def _judge_udmabuf(survey: Survey, buffer: DmaBuffer, needed: int, wanted: str) -> Finding:
    check = "buffers"
    text = f"/dev/{buffer.device}, {mib(buffer.bytes)}"
    if needed:
        text += f", the bundle needs {mib(needed)}"
    if buffer.rights != "rw":
        return _without_rights(survey, text, buffer.rights, wanted)
    if buffer.bytes < needed:
        remedy = f"load u-dma-buf with a larger buffer ({BUFFER}=BYTES, or its size in the device "
        return Finding(check=check, state="fail", text=text, remedy=remedy + "tree)")
    if not buffer.coherent and "w" not in buffer.sync_rights:
        text += "; its cache maintenance files are not writable"
        remedy = f"make /sys/class/u-dma-buf/{BUFFER}/sync_for_* writable for the user"
        return Finding(check=check, state=wanted, text=text, remedy=remedy)
    return Finding(check=check, state="ok", text=text + (", coherent" * buffer.coherent))


def _judge_zocl(survey: Survey, device: MemoryDevice, wanted: str) -> Finding:
    text = f"/dev/{device.device} of XRT's zocl, from CMA"
    if device.rights != "rw":
        return _without_rights(survey, text, device.rights, wanted)
    return Finding(check="buffers", state="ok", text=text)


def _judge_heap(survey: Survey, device: MemoryDevice, wanted: str) -> Finding:
    check = "buffers"
    text = f"/dev/{device.device}, from CMA"
    if device.rights != "rw":
        return _without_rights(survey, text, device.rights, wanted)
    instead = "load the kernel module u-dma-buf"
    if survey.machine != "aarch64":
        text += f": user programs cannot maintain the caches of {survey.machine}"
        return Finding(check=check, state=wanted, text=text, remedy=instead)
    if not survey.capabilities & _CAP_SYS_ADMIN:
        text += f": the kernel hides physical addresses from {survey.user or 'this user'}"
        remedy = f"{instead}, or run as root or with CAP_SYS_ADMIN"
        return Finding(check=check, state=wanted, text=text, remedy=remedy)
    return Finding(check=check, state="ok", text=text)


def _without_rights(survey: Survey, text: str, rights: str, wanted: str) -> Finding:
    text += f": {survey.user or 'this user'} has rights {rights}, needed rw"
    return Finding(check="buffers", state=wanted, text=text, remedy=MAY_NOT_USE)

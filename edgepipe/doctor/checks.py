"""The doctor's findings: conclusions from the survey and the self-test, with remedies."""

from __future__ import annotations

from collections.abc import Iterator

from edgepipe import __version__
from edgepipe.bitstream import record
from edgepipe.bitstream.fingerprint import check_programmed
from edgepipe.deploy import plan
from edgepipe.deploy.payload import parse_record
from edgepipe.doctor import hardware, memory, self_test
from edgepipe.doctor.finding import MAY_NOT_USE, Finding, mib
from edgepipe.doctor.needs import Needs
from edgepipe.doctor.survey import Survey, UioDevice
from edgepipe.errors import BitstreamError, FingerprintError
from vta_stages.accelerator import Accelerator

REGISTERS = "vta"  # the UIO device's name (uio_device.h)
_REGISTER_BYTES = 0x4000  # four HLS blocks of a page each
_GLIBC = (2, 27)
_HOT_MILLIDEGREES = 85_000  # the limit of a Zynq's commercial grade
_LITTLE_DISK_BYTES = 64 << 20
_OVERLAY = "apply a device tree with a generic-uio node called vta and load uio_pdrv_genirq with "
_OVERLAY += "of_id=generic-uio; on a PYNQ image, program the bitstream first"
_PROGRAM = "program the FPGA with `edgepipe bitstream install`"
_CLOCK_TOLERANCE = 0.02  # a PLL and its dividers cannot produce every frequency


def findings(survey: Survey, needs: Needs | None) -> tuple[Finding, ...]:
    """Judge a survey. If no bundle is given, a missing accelerator is only a warning."""
    needed = needs.memory_bytes if needs is not None else 0
    wanted = "fail" if needed else "warn"
    return (
        *_system(survey, needs),
        _module(survey),
        memory.module(survey),
        _registers(survey, wanted),
        memory.buffers(survey, needed, wanted),
        memory.cma(survey, needed),
        *_bitstream(survey, needs),
        _camera(survey),
        *_readings(survey),
        *_logic_clock(survey, needs),
        *_versions(survey),
    )


def can_self_test(survey: Survey) -> bool:
    """Whether this user can access registers and buffers."""
    registers = _find_uio(survey)
    return registers is not None and registers.rights == "rw" and memory.usable(survey)


def judge_self_test(report: self_test.Report) -> tuple[Finding, ...]:
    """Judge the runs: coherency by the memory contents, the interrupt by the count. Before them,
    what the accelerator's own registers said."""
    said = tuple(hardware.findings(report.hardware)) if report.hardware else ()
    return (*said, *_judge_runs(report))


def _judge_runs(report: self_test.Report) -> tuple[Finding, ...]:
    runs = f"{report.runs} runs of {report.mean_us / 1000:.1f} ms"
    if report.errors:
        busy = any("another process uses it" in error for error in report.errors)
        remedy = (
            "stop the pipeline that is running on the board, then try again"
            if busy
            else "check the bitstream and its encoding revision; if the bitstream uses a "
            "coherent port (HPC, ACP), the boot code must enable coherency for it"
        )
        return (
            Finding(
                check="self-test",
                state="warn" if busy else "fail",
                text=report.errors[0],
                remedy=remedy,
            ),
        )
    coherent = Finding(
        check="coherency", state="ok", text=f"{runs}, memory correct after each image"
    )
    if report.interrupts is None:
        return coherent, Finding(
            check="interrupt",
            state="warn",
            text="the accelerator has no interrupt, so the driver polls",
            remedy="add the interrupt to the device tree's vta node",
        )
    lost = f"{report.interrupts} interrupts in {report.runs} runs, {report.lost_interrupts} lost"
    if report.interrupts == 0:
        return coherent, Finding(
            check="interrupt",
            state="fail",
            text=lost,
            remedy="compare the interrupt's number in the device tree with the bitstream's",
        )
    if report.lost_interrupts:
        remedy = (
            "check in /proc/interrupts what shares the line, and that its trigger type is right"
        )
        return coherent, Finding(check="interrupt", state="warn", text=lost, remedy=remedy)
    return coherent, Finding(check="interrupt", state="ok", text=lost)


def self_test_left_out(reason: str, remedy: str) -> Finding:
    """Return the finding that says why the self-test was skipped."""
    return Finding(check="self-test", state="warn", text=f"skipped: {reason}", remedy=remedy)


def _system(survey: Survey, needs: Needs | None) -> Iterator[Finding]:
    name = survey.model or survey.machine
    text = f"{name}, Linux {survey.kernel} ({survey.machine}), {survey.system or 'unknown system'}"
    architecture = plan.MACHINES.get(survey.machine)
    built_for = needs.manifest.architectures if needs else tuple(plan.MACHINES.values())
    if architecture in built_for:
        yield Finding(check="system", state="ok", text=text)
    else:
        yield Finding(
            check="system",
            state="fail",
            text=f"{text}; needed: {', '.join(sorted(set(built_for)))}",
            remedy="build the bundle for this board",
        )
    version = (
        tuple(int(part) for part in survey.libc.split()[-1:][0].split(".")[:2])
        if (survey.libc.startswith("glibc "))
        else None
    )
    if version is None:
        remedy = "edgepipe's programs need the GNU C library; use a Debian, Ubuntu or PYNQ image"
        text = "unknown version of the C library"
        yield Finding(check="C library", state="warn", text=text, remedy=remedy)
    elif version < _GLIBC:
        remedy = "use a newer image for the board"
        text = f"{survey.libc}, needed 2.27 or newer"
        yield Finding(check="C library", state="fail", text=text, remedy=remedy)
    else:
        yield Finding(check="C library", state="ok", text=survey.libc)


def _module(survey: Survey) -> Finding:
    if "uio_pdrv_genirq" in survey.modules:
        return Finding(check="UIO driver", state="ok", text="uio_pdrv_genirq is loaded")
    # It may be built into the kernel, so only a missing device fails.
    remedy = "modprobe uio_pdrv_genirq of_id=generic-uio"
    return Finding(
        check="UIO driver", state="warn", text="uio_pdrv_genirq is not loaded", remedy=remedy
    )


def _find_uio(survey: Survey) -> UioDevice | None:
    return next((device for device in survey.uio if device.name == REGISTERS), None)


def _registers(survey: Survey, wanted: str) -> Finding:
    check = "registers"
    device = _find_uio(survey)
    if device is None:
        found = ", ".join(sorted(uio.name for uio in survey.uio)) or "none"
        text = f"no UIO device named {REGISTERS}, found {found}"
        return Finding(check=check, state=wanted, text=text, remedy=_OVERLAY)
    text = f"/dev/{device.device} ({device.name}), {device.bytes:#x} bytes"
    if device.bytes < _REGISTER_BYTES:
        remedy = "extend the device tree's vta node to all four register blocks"
        text += f", needed {_REGISTER_BYTES:#x}"
        return Finding(check=check, state="fail", text=text, remedy=remedy)
    if device.rights != "rw":
        text += f": {survey.user or 'this user'} has rights {device.rights}, needed rw"
        return Finding(check=check, state=wanted, text=text, remedy=MAY_NOT_USE)
    return Finding(check=check, state="ok", text=text)


def _bitstream(survey: Survey, needs: Needs | None) -> Iterator[Finding]:
    check = "bitstream"
    for manager in survey.managers:
        name, _, state = manager.partition(" ")
        good = state == "operating"
        yield Finding(
            check="FPGA manager",
            state="ok" if good else "warn",
            text=f"{name} is {state!r}",
            remedy="" if good else "program the bitstream through fpga_manager",
        )
    if not survey.bitstream:
        yield Finding(
            check=check,
            state="warn",
            text="no record of a bitstream programmed since the board started",
            remedy=_PROGRAM,
        )
        return
    try:
        programmed = record.parse(survey.bitstream, "bitstream.json")
    except BitstreamError as error:
        yield Finding(check=check, state="warn", text=str(error), remedy=error.hint or _PROGRAM)
        return
    text = f"{programmed.configuration}, encoding revision {programmed.revision}, "
    text += programmed.path or "of unknown origin"
    if needs is None or not needs.memory_bytes:
        yield Finding(check=check, state="ok", text=text)
        return
    try:
        check_programmed(needs.manifest.fingerprint, programmed, "the board")
    except FingerprintError as error:
        yield Finding(check=check, state="fail", text=str(error), remedy=error.hint or _PROGRAM)
    else:
        yield Finding(check=check, state="ok", text=text)


def _camera(survey: Survey) -> Finding:
    usable = [camera for camera in survey.cameras if camera.rights == "rw"]
    text = ", ".join(f"/dev/{camera.device} ({camera.name})" for camera in survey.cameras)
    if usable:
        return Finding(check="camera", state="ok", text=text)
    if survey.cameras:
        text += f": {survey.user or 'this user'} has no access"
        remedy = "add the user to the group video"
        return Finding(check="camera", state="warn", text=text, remedy=remedy)
    remedy = "connect one if the application needs it"
    return Finding(check="camera", state="warn", text="none", remedy=remedy)


def _readings(survey: Survey) -> Iterator[Finding]:
    slow = [clock for clock in survey.clocks if clock.now_khz < clock.most_khz]
    if survey.clocks:
        now = sorted({clock.now_khz // 1000 for clock in survey.clocks})
        most = max(clock.most_khz for clock in survey.clocks) // 1000
        text = f"{'/'.join(map(str, now))} MHz of {most}, {survey.clocks[0].governor}"
        remedy = "for steady frame times: cpupower frequency-set -g performance" if slow else ""
        yield Finding(check="clocks", state="warn" if slow else "ok", text=text, remedy=remedy)
    for reading in survey.temperatures:
        hot = reading.value >= _HOT_MILLIDEGREES
        yield Finding(
            check="temperature",
            state="warn" if hot else "ok",
            text=f"{reading.value / 1000:.1f} C ({reading.sensor or 'unnamed'})",
            remedy="cool the board; the Ultra96's fan can be turned on" if hot else "",
        )
    for reading in survey.powers:
        yield Finding(
            check="power", state="ok", text=f"{reading.value / 1e6:.2f} W ({reading.sensor})"
        )


def _logic_clock(survey: Survey, needs: Needs | None) -> Iterator[Finding]:
    for clock in survey.logic_clocks:
        text = f"{clock.value / 1e6:.1f} MHz ({clock.sensor})"
        if needs is None or not needs.memory_bytes:
            yield Finding(check="FPGA clock", state="ok", text=text)
            continue
        wanted = needs.manifest.fingerprint.clock_hz
        reference = _reference_clock_hz(survey)
        if reference:
            text += f", from which the bitstream makes the accelerator's {wanted / 1e6:.1f} MHz if "
            text += f"it is {reference / 1e6:.1f} MHz"
            wanted = reference
        else:
            text += f", the bundle was built for {wanted / 1e6:.1f} MHz"
        near = abs(clock.value - wanted) <= wanted * _CLOCK_TOLERANCE
        remedy = (
            "" if near else "set the clock, or build for this one; a faster clock may hang the VTA"
        )
        yield Finding(check="FPGA clock", state="ok" if near else "warn", text=text, remedy=remedy)


def _reference_clock_hz(survey: Survey) -> int:
    try:
        return record.parse(survey.bitstream, "bitstream.json").reference_clock_hz
    except BitstreamError:
        return 0


def _versions(survey: Survey) -> Iterator[Finding]:
    text = f"edgepipe {__version__} here"
    if survey.release is None:
        yield Finding(check="versions", state="ok", text=f"{text}, no release on the board")
    else:
        record = parse_record(survey.release_record, "release")
        there = record.builder_version if record else "unknown"
        same = there == __version__
        yield Finding(
            check="versions",
            state="ok" if same else "warn",
            text=f"{text}, release {survey.release} on the board was built by {there}",
            remedy="" if same else "build and deploy the bundle again",
        )
    little = survey.free_disk_bytes < _LITTLE_DISK_BYTES
    yield Finding(
        check="disk",
        state="warn" if little else "ok",
        text=f"{mib(survey.free_disk_bytes)} free",
        remedy="free some space, or keep fewer releases when you deploy" if little else "",
    )


def needs_accelerator(needs: Needs | None, given: Accelerator | None) -> Accelerator | None:
    """Return the accelerator to test: ``given``, or the bundle's if it has VTA stages."""
    if given is not None:
        return given
    return needs.manifest.accelerator if needs is not None and needs.memory_bytes else None

"""``edgepipe bitstream install`` over a real sshd on folders like a kernel's; then a deploy."""

import dataclasses
import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

from edgepipe import boards, resources
from edgepipe.bitstream import check, install, manifest, record
from edgepipe.bundle.manifest import Stage
from edgepipe.deploy import deployment
from edgepipe.errors import BitstreamError, FingerprintError

sys.path.append(str(Path(__file__).parents[1] / "bitstream"))
import bit_files

ULTRA96 = boards.load("ultra96")
FPGA_MANAGER = "the board needs a kernel with fpga_manager (from Xilinx, PYNQ or Ubuntu)"


@pytest.fixture
def bitstream(tmp_path):
    """Return a bitstream of unknown origin for the Ultra96."""
    path = tmp_path / "my vta.bit"
    stream = bit_files.make_stream(bit_files.ULTRA96_IDCODE)
    path.write_bytes(bit_files.make_bit(stream, part=bit_files.ULTRA96_PART))
    return check.read(path, manifest.load())


@pytest.fixture
def system(tmp_path):
    """Return a folder with an fpga_manager that accepts everything."""
    manager = tmp_path / "system/sys/class/fpga_manager/fpga0"
    manager.mkdir(parents=True)
    for name, content in (("state", "operating\n"), ("flags", "1\n"), ("firmware", "")):
        (manager / name).write_text(content)
    return tmp_path / "system"


@pytest.fixture
def run(board, bitstream, system):
    def installed(of=ULTRA96):
        return install.install(
            board.target(), bitstream, of, operator="tester@host", system=str(system)
        )

    return installed


def programmed(system):
    return system / "run/edgepipe/bitstream.json"


def test_it_is_stored_programmed_and_recorded(run, system, bitstream):
    done = run()
    stored = system / "lib/firmware/edgepipe/my_vta.bin"
    assert stored.read_bytes() == bit_files.swap(bitstream.stream.words)
    manager = system / "sys/class/fpga_manager/fpga0"
    assert (manager / "firmware").read_text() == "edgepipe/my_vta.bin\n"
    assert (manager / "flags").read_text() == "0\n"
    assert record.parse(programmed(system).read_text(), "board") == done.record
    assert done.record.configuration == ULTRA96.accelerator.configuration
    assert done.record.sha256 == bitstream.digests.sha256
    assert programmed(system).read_text() == stored.with_name("my_vta.bin.json").read_text()


def test_a_bitstream_for_another_board_is_not_sent(run, system):
    with pytest.raises(BitstreamError, match="does not fit board pynq-z2: part is zu3"):
        run(boards.load("pynq-z2"))
    assert not (system / "lib").exists()


def test_a_refused_bitstream_leaves_no_record(run, system):
    run()
    (system / "sys/class/fpga_manager/fpga0/state").write_text("write error\n")
    with pytest.raises(BitstreamError, match="manager's state is 'write error'"):
        run()
    assert not programmed(system).exists()


def test_a_kernel_without_the_firmware_file_is_reported_before_anything_is_sent(run, system):
    (system / "sys/class/fpga_manager/fpga0/firmware").unlink()
    with pytest.raises(BitstreamError, match="only through device-tree overlays") as caught:
        run()
    assert (
        "has no file 'firmware', so this kernel programs the FPGA only through device-tree overlays"
        in str(caught.value)
    )
    assert caught.value.hint == FPGA_MANAGER
    assert not (system / "lib").exists()


def test_a_board_without_fpga_manager_is_reported(run, system):
    (system / "sys/class/fpga_manager").rename(system / "sys/class/other")
    with pytest.raises(BitstreamError, match="there is no fpga_manager") as caught:
        run()
    assert caught.value.hint == FPGA_MANAGER


def test_firmware_that_this_user_cannot_write_is_reported(run, system):
    (system / "lib").write_text("not a folder")
    with pytest.raises(BitstreamError, match="cannot create") as caught:
        run()
    assert caught.value.hint == "log in as root, or allow the user `sudo -n` on the board"


def test_an_accelerator_in_use_is_not_programmed_over(run, system):
    run()
    (system / "sys/class/uio/uio3").mkdir(parents=True)
    (system / "sys/class/uio/uio3/name").write_text("vta\n")
    (system / "dev").mkdir()
    with (system / "dev/uio3").open("w") as device:
        fcntl.flock(device, fcntl.LOCK_EX)
        with pytest.raises(BitstreamError, match=r"uses the accelerator \(/dev/uio3\)") as caught:
            run()
    assert caught.value.hint == "stop the pipeline on the board, then install again"
    assert programmed(system).exists()


def write_program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)


def test_on_a_pynq_image_pynq_programs_the_bit_file_as_it_is(run, system, bitstream):
    python = system / "usr/local/share/pynq-venv/bin/python3"
    write_program(python, f'cp "$3" {system}/downloaded; echo "$2" >{system}/code\n')
    assert run().by == "PYNQ"
    assert (system / "downloaded").read_bytes() == bitstream.path.read_bytes()
    assert "Bitstream(sys.argv[1]).download()" in (system / "code").read_text()
    assert programmed(system).exists()
    write_program(python, "echo Traceback; echo RuntimeError: no overlay; exit 1\n")
    with pytest.raises(BitstreamError, match="PYNQ refuses the file: RuntimeError: no overlay"):
        run()
    assert not programmed(system).exists()


def test_dfx_mgr_unloads_its_design(run, board, system):
    write_program(board.folder / "programs/dfx-mgr-client", f'echo "$@" >{system}/asked\n')
    assert run().by == "dfx-mgr"
    assert (system / "asked").read_text() == "-remove\n"
    firmware = system / "sys/class/fpga_manager/fpga0/firmware"
    assert firmware.read_text() == "edgepipe/my_vta.bin\n"


def boot(system):
    """Do what edgepipe-bitstream.service does at boot, when FPGA and /run are empty."""
    programmed(system).unlink(missing_ok=True)
    (system / "sys/class/fpga_manager/fpga0/firmware").write_text("")
    script = resources.folder("board") / "program-bitstream.sh"
    return subprocess.run(["sh", script, system], capture_output=True, text=True)


def test_what_was_programmed_last_is_programmed_at_boot(run, system):
    for place in ("boot-a", "boot-b", "boot-a"):
        done = run()
        assert (system / "lib/firmware/edgepipe/at-boot").readlink() == Path(place)
        said = boot(system)
        assert (said.returncode, said.stdout) == (0, "programmed my_vta.bin through fpga_manager\n")
        firmware = system / "sys/class/fpga_manager/fpga0/firmware"
        assert firmware.read_text() == "edgepipe/at-boot/my_vta.bin\n"
        assert record.parse(programmed(system).read_text(), "board") == done.record


def test_a_bitstream_that_was_refused_is_not_tried_at_boot(run, system):
    run()
    (system / "sys/class/fpga_manager/fpga0/state").write_text("write error\n")
    with pytest.raises(BitstreamError, match="write error"):
        run(ULTRA96)
    assert (system / "lib/firmware/edgepipe/at-boot").readlink() == Path("boot-a")
    said = boot(system)
    assert said.returncode == 1
    assert said.stderr.startswith("error: after programming, fpga_manager's state is 'write error'")
    assert not programmed(system).exists()


def test_a_file_that_the_kernel_refuses_is_reported(run, system):
    firmware = system / "sys/class/fpga_manager/fpga0/firmware"
    firmware.unlink()
    firmware.mkdir()
    with pytest.raises(BitstreamError) as caught:
        run()
    assert "fpga_manager refuses the file; its state is 'operating'" in str(caught.value)
    assert not programmed(system).exists()


AGAIN = "hint: install it again: edgepipe bitstream install FILE --board BOARD --host HOST\n"


def test_a_damaged_or_missing_bitstream_is_not_programmed_at_boot(run, system):
    said = boot(system)
    assert said.returncode == 1
    assert said.stderr.endswith(
        "/at-boot/which: missing, so no bitstream was programmed on this board before\n" + AGAIN
    )
    run()
    with (system / "lib/firmware/edgepipe/at-boot/my_vta.bin").open("ab") as file:
        file.write(b"more")
    said = boot(system)
    assert said.returncode == 1
    assert ": its digest is " in said.stderr
    assert ": it was changed after its installation\n" + AGAIN in said.stderr
    assert (system / "sys/class/fpga_manager/fpga0/firmware").read_text() == ""
    assert not programmed(system).exists()


def test_a_deploy_to_another_board_is_refused_before_anything_is_sent(
    board, system, make_bundle, options
):
    stage = Stage(name="v", kind="vta", folder="stages/0_vta", inputs=(), outputs=())
    source = deployment.open_source(make_bundle(stages=(stage,), board="ultra96"))
    settings = dataclasses.replace(options, system=str(system))
    tree = system / "proc/device-tree/compatible"
    tree.parent.mkdir(parents=True)
    tree.write_bytes(b"xlnx,zynqmp-zcu104-revC\0xlnx,zynqmp-zcu104\0xlnx,zynqmp\0")
    with pytest.raises(FingerprintError, match="board is zcu104, the bundle was built for ultra96"):
        deployment.deploy(board.target(), source, settings)
    assert not (board.root / "releases").exists()
    tree.write_bytes(b"avnet,ultra96-rev1\0avnet,ultra96\0xlnx,zynqmp\0")
    assert deployment.deploy(board.target(), source, settings).result == "deployed"


def test_a_deploy_compares_the_record_before_it_changes_anything(
    run, board, system, make_bundle, options
):
    stage = Stage(name="v", kind="vta", folder="stages/0_vta", inputs=(), outputs=())
    source = deployment.open_source(make_bundle(stages=(stage,)))
    settings = dataclasses.replace(options, system=str(system))
    run()
    assert deployment.deploy(board.target(), source, settings).result == "deployed"
    slower = dataclasses.replace(ULTRA96.accelerator, clock_hz=100_000_000)
    run(dataclasses.replace(ULTRA96, accelerator=slower))
    changed = deployment.open_source(make_bundle(stages=(stage,), kernels=b"2"))
    with pytest.raises(FingerprintError, match="clock is 100000000 Hz, the bundle was built for"):
        deployment.deploy(board.target(), changed, settings)
    assert sorted(path.name for path in (board.root / "releases").iterdir()) == ["1"]

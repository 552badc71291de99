"""The virtual Ultra96: its system, its FPGA under the real driver, and its cleanup."""

import dataclasses
import io
import json
import mmap
import socket
import struct
import tarfile
from pathlib import Path

import numpy as np
import pytest
from needs import ARMHF

from edgepipe import boards
from edgepipe.cli.main import main
from edgepipe.errors import VirtualBoardError
from edgepipe.virtual_board import memory_map
from edgepipe.virtual_board.fpga_model import FpgaOptions
from edgepipe.virtual_board.processes import ProcessId

pytestmark = pytest.mark.board

VECTORS = Path(__file__).parents[1] / "data" / "vta_vectors"
ULTRA96 = boards.load("ultra96").accelerator


def output_of(board, command):
    done = board.run([command])
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().strip().rstrip("\0")


def test_it_is_an_ultra96(virtual_board):
    assert output_of(virtual_board, "cat /proc/device-tree/model") == "Avnet Ultra96 Rev1"
    assert output_of(virtual_board, "nproc") == "4"
    assert output_of(virtual_board, "uname -m") == "aarch64"
    # A Cortex-A53, according to its main ID register.
    assert output_of(virtual_board, "grep -c 'CPU part.*0xd03' /proc/cpuinfo") == "4"


def test_up_when_it_is_up_changes_nothing(virtual_board):
    before = virtual_board.status()
    assert before.state == "up"
    assert virtual_board.up(fpga=None) is False
    assert virtual_board.status() == before


def test_a_command_over_ssh_gives_its_exit_code(virtual_board):
    folder = ["--folder", str(virtual_board.folder)]
    assert main(["virtual-board", "ssh", *folder, "exit", "3"]) == 3
    assert main(["virtual-board", "status", *folder]) == 0


def test_cross_built_programs_run(machine):
    done = machine.run(["edgepipe-vta-run"])
    assert done.returncode == 2
    assert done.stderr.startswith(b"usage: edgepipe-vta-run")


def test_the_devices_for_the_driver_exist(virtual_board):
    names = output_of(virtual_board, "cat /sys/class/uio/*/name").split()
    assert names == [memory_map.UIO_NAME, memory_map.RESET_UIO_NAME]
    attributes = f"/sys/class/u-dma-buf/{memory_map.DMA_BUFFER_NAME}"
    assert output_of(virtual_board, f"cat {attributes}/size") == str(memory_map.DMA_BUFFER_BYTES)
    address = int(output_of(virtual_board, f"cat {attributes}/phys_addr"), 0)
    assert address == memory_map.DMA_POOL_ADDRESS
    assert "vta" in output_of(virtual_board, "grep 'GIC-0 121 Edge' /proc/interrupts")


def test_camera_delivers_frames(virtual_board):
    command = (
        "v4l2-ctl --set-fmt-video=width=640,height=360,pixelformat=YUYV"
        " --stream-mmap --stream-count=2 --stream-to=/tmp/frames && stat -c %s /tmp/frames"
    )
    assert output_of(virtual_board, command).endswith(str(2 * 640 * 360 * 2))


def test_register_writes_reach_the_model_and_its_answers_come_back(virtual_board):
    state = json.loads((virtual_board.run_folder / "state.json").read_text())
    inp_base, request, acknowledge = (
        memory_map.REGISTERS_ADDRESS + offset for offset in (0x1010, 0x4000, 0x4004)
    )
    with (
        Path(state["memory_file"]).open("r+b") as file,
        mmap.mmap(file.fileno(), memory_map.DDR_BYTES) as memory,
    ):
        output_of(virtual_board, f"busybox devmem {inp_base:#x} 32 0x1234abcd")
        assert struct.unpack_from("<I", memory, inp_base) == (0x1234ABCD,)
        # The model answers a reset: it clears the registers and acknowledges the request's number.
        last = struct.unpack_from("<I", memory, acknowledge)[0]
        script = (
            f"busybox devmem {request:#x} 32 {last + 1}; sleep 1;"
            f" busybox devmem {inp_base:#x}; busybox devmem {acknowledge:#x}"
        )
        assert [int(word, 0) for word in output_of(virtual_board, script).split()] == [0, last + 1]


def run_vectors(board, accelerator, files, options=""):
    """Run vectors on the board with the real driver; return the report and final memory of each."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:

        def add(name, content):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))

        add("accelerator.json", json.dumps(dataclasses.asdict(accelerator)).encode())
        for file in files:
            vector = np.load(file)
            add(f"{file.stem}.insns", vector["insns"].tobytes())
            add(f"{file.stem}.before", vector["dram_before"].tobytes())
    script = (
        "set -e; rm -rf /tmp/vectors; mkdir /tmp/vectors; cd /tmp/vectors; tar -x;"
        " for f in *.insns; do n=${f%.insns}; edgepipe-vta-run --accelerator=accelerator.json"
        f" --insns=$n.insns --memory=$n.before --output=$n.after {options} > $n.report; done;"
        " tar -c *.after *.report"
    )
    done = board.run([script], stdin=archive.getvalue(), deadline_s=300)
    assert done.returncode == 0, done.stderr.decode()
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as tar:
        contents = {member.name: tar.extractfile(member).read() for member in tar}
    return {
        file.stem: (json.loads(contents[f"{file.stem}.report"]), contents[f"{file.stem}.after"])
        for file in files
    }


@pytest.mark.parametrize("revision", ["0.0.1", "0.0.2"])
def test_recorded_vectors_run_bit_for_bit_through_registers_dma_and_interrupt(
    machine, virtual_board, revision
):
    accelerator = dataclasses.replace(ULTRA96, revision=revision)
    files = sorted((VECTORS / revision).glob("*.npz"))
    assert len(files) == 36
    virtual_board.load_fpga(FpgaOptions(accelerator=accelerator))
    before = interrupts(virtual_board)
    results = run_vectors(machine, accelerator, files)
    for file in files:
        report, after = results[file.stem]
        assert report["ended"] == 1, file.stem
        assert after == np.load(file)["dram_after"].tobytes(), file.stem
    assert interrupts(virtual_board) - before == len(files)


def interrupts(board):
    """Return the number of accelerator interrupts on all cores."""
    return sum(map(int, output_of(board, "grep ' vta$' /proc/interrupts").split()[1:5]))


def test_vectors_run_by_polling_too(machine, virtual_board):
    virtual_board.load_fpga(FpgaOptions(accelerator=ULTRA96))
    file = VECTORS / "0.0.1" / "34_conv.npz"
    report, after = run_vectors(machine, ULTRA96, [file], "--poll --runs=20")[file.stem]
    assert (report["ended"], report["different"]) == (20, 0)
    assert after == np.load(file)["dram_after"].tobytes()


@pytest.mark.systems
def test_a_thousand_runs_with_faults_are_recovered_or_reported(machine, virtual_board):
    faults = ("hang=200", "stale-done=7", "lost-interrupt=11")
    virtual_board.load_fpga(FpgaOptions(accelerator=ULTRA96, faults=faults))
    file = VECTORS / "0.0.1" / "35_conv.npz"
    options = "--runs=1000 --deadline-ms=3000"  # a busy machine may delay the others
    report, after = run_vectors(machine, ULTRA96, [file], options)[file.stem]
    assert (report["ended"], report["late"], report["resets"]) == (995, 5, 5)
    assert report["different"] == 0
    assert report["lost_interrupts"] >= 80
    assert after == np.load(file)["dram_after"].tobytes()


@pytest.fixture
def without_u_dma_buf(virtual_board):
    """Remove the board's usual buffers, so that only the kernel's dma-heap is left."""
    virtual_board.load_fpga(FpgaOptions(accelerator=ULTRA96))
    output_of(virtual_board, "rmmod u-dma-buf")
    yield
    output_of(virtual_board, "modprobe u-dma-buf; chmod 600 /dev/dma_heap/*")


def test_without_u_dma_buf_buffers_come_from_the_kernels_dma_heap(virtual_board, without_u_dma_buf):
    files = [VECTORS / "0.0.1" / f"{name}.npz" for name in ("33_tiles", "34_conv", "35_conv")]
    for stem, (report, after) in run_vectors(virtual_board, ULTRA96, files, "--runs=5").items():
        assert (report["ended"], report["different"]) == (5, 0)
        assert after == np.load(VECTORS / "0.0.1" / f"{stem}.npz")["dram_after"].tobytes()


def test_a_dma_heap_is_useless_to_a_process_that_sees_no_addresses(
    virtual_board, without_u_dma_buf
):
    files = [VECTORS / "0.0.1" / "35_conv.npz"]
    run_vectors(virtual_board, ULTRA96, files)
    command = (
        "cd /tmp/vectors && chmod 666 /dev/dma_heap/* && setpriv --reuid 65534 --clear-groups"
        " edgepipe-vta-run --accelerator=accelerator.json --insns=35_conv.insns"
        " --memory=35_conv.before --output=/tmp/none"
    )
    done = virtual_board.run([command])
    assert done.returncode == 1
    assert b"hides physical addresses from this process" in done.stderr
    assert b"or run the program as root or with CAP_SYS_ADMIN" in done.stderr


@pytest.mark.parametrize("architecture", [ARMHF], indirect=True)
def test_a_dma_heap_is_useless_to_32_bit_programs(machine, virtual_board, without_u_dma_buf):
    script = (
        "cd $(mktemp -d) && cat > accelerator.json && : > insns && : > memory &&"
        " edgepipe-vta-run --accelerator=accelerator.json --insns=insns --memory=memory"
        " --output=none"
    )
    accelerator = json.dumps(dataclasses.asdict(ULTRA96)).encode()
    done = machine.run([script], stdin=accelerator)
    assert done.returncode == 1
    assert b"user programs cannot maintain the caches of this processor" in done.stderr
    assert b"load the kernel module u-dma-buf" in done.stderr


def test_status_reports_a_dead_fpga(virtual_board):
    status = virtual_board.status()
    stop(status.fpga_pid)
    assert virtual_board.status().state == "broken"
    virtual_board.load_fpga(FpgaOptions(accelerator=ULTRA96))
    assert virtual_board.status().state == "up"


def stop(pid):
    ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    ProcessId(pid=pid, start_ticks=ticks).stop()


def test_down_leaves_no_process_and_no_memory_and_up_comes_back_from_the_cache(virtual_board):
    status = virtual_board.status()
    memory_file = Path(
        json.loads((virtual_board.run_folder / "state.json").read_text())["memory_file"]
    )
    assert memory_file.exists()

    assert virtual_board.down() is True
    assert not Path(f"/proc/{status.qemu_pid}").exists() or zombie(status.qemu_pid)
    assert not Path(f"/proc/{status.fpga_pid}").exists() or zombie(status.fpga_pid)
    assert not memory_file.exists()
    assert virtual_board.status().state == "down"
    assert virtual_board.down() is False
    with pytest.raises(VirtualBoardError, match="not running") as caught:
        virtual_board.ssh_command()
    assert "edgepipe virtual-board up" in caught.value.hint

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(VirtualBoardError, match="QEMU ended") as caught:
            virtual_board.up(fpga=None, port=taken.getsockname()[1])
    assert caught.value.hint == "the port is in use: choose another"
    assert caught.value.option == "port"
    assert virtual_board.status().state == "down"

    assert virtual_board.up(fpga=None) is True
    assert virtual_board.status().state == "up"


def zombie(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"

"""Parts of the virtual board: archives, modules, processes, tools, and their errors."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest
from needs import installed

from edgepipe.cli.main import main
from edgepipe.errors import VirtualBoardError
from edgepipe.virtual_board import host_tools, image
from edgepipe.virtual_board.board import VirtualBoard
from edgepipe.virtual_board.fpga_model import FpgaModel, FpgaOptions
from edgepipe.virtual_board.initramfs import cpio
from edgepipe.virtual_board.kernel_modules import KernelModules
from edgepipe.virtual_board.processes import start_detached
from vta_stages.accelerator import Accelerator
from vta_stages.timing.cost_model import CostModel


def test_cpio_reads_the_archive(tmp_path):
    source = tmp_path / "source"
    (source / "bin").mkdir(parents=True)
    (source / "bin/tool").write_bytes(b"x" * 5)
    (source / "bin/tool").chmod(0o755)
    (source / "bin/sh").symlink_to("tool")
    (tmp_path / "out").mkdir()
    program = installed("cpio", "cpio")
    subprocess.run([program, "-i", "--quiet"], input=cpio(source), cwd=tmp_path / "out", check=True)
    assert (tmp_path / "out/bin/tool").read_bytes() == b"x" * 5
    assert (tmp_path / "out/bin/tool").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "out/bin/sh").readlink().name == "tool"


def kernel(tmp_path):
    modules = KernelModules(root=tmp_path, release="6.1.0-56-arm64")
    modules.folder.mkdir(parents=True)
    (modules.folder / "modules.dep").write_text(
        "kernel/mmc_core.ko:\n"
        "kernel/sdhci.ko: kernel/mmc_core.ko\n"
        "kernel/sdhci-of-arasan.ko: kernel/sdhci.ko kernel/mmc_core.ko\n"
        "kernel/mmc_block.ko: kernel/mmc_core.ko\n"
    )
    (modules.folder / "modules.builtin").write_text("kernel/fs/ext4/ext4.ko\n")
    return modules


def test_modules_come_after_those_they_need_and_once(tmp_path):
    wanted = ["sdhci_of_arasan", "ext4", "mmc_block"]
    assert kernel(tmp_path).closure(wanted) == [
        "kernel/mmc_core.ko",
        "kernel/sdhci.ko",
        "kernel/sdhci-of-arasan.ko",
        "kernel/mmc_block.ko",
    ]


def test_unknown_module_is_an_error(tmp_path):
    with pytest.raises(VirtualBoardError, match="no module warp"):
        kernel(tmp_path).closure(["warp"])


def test_missing_programs_come_with_the_line_that_installs_them(monkeypatch):
    monkeypatch.setattr(host_tools, "_which", lambda program: None)
    with pytest.raises(VirtualBoardError) as caught:
        host_tools.require(["qemu-system-aarch64", "ssh", "ssh-keygen"])
    assert "missing programs: qemu-system-aarch64, ssh, ssh-keygen" in str(caught.value)
    assert caught.value.hint == (
        "apt-get install -y --no-install-recommends openssh-client qemu-system-arm"
    )


def test_a_failed_program_is_reported_with_its_last_line_and_log(tmp_path):
    log = tmp_path / "logs/image.log"
    with pytest.raises(VirtualBoardError, match="index: tar failed with exit code 2: ") as e:
        host_tools.run("index", ["tar", "-tf", tmp_path / "none.tar"], log=log)
    assert str(log) in e.value.hint


def test_detached_process_is_known_until_it_ends(tmp_path):
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    process = start_detached(command, folder=tmp_path, log=tmp_path / "log")
    assert process.alive
    process.stop()
    assert not process.alive


def test_another_process_with_the_same_pid_is_not_mistaken_for_it(tmp_path):
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    process = start_detached(command, folder=tmp_path, log=tmp_path / "log")
    impostor = type(process)(pid=process.pid, start_ticks=process.start_ticks + 1)
    assert not impostor.alive
    impostor.stop()
    assert process.alive
    process.stop()


@pytest.mark.parametrize("fault", ["fire=1", "hang", "hang=0", "hang=1.5", ""])
def test_unknown_faults_are_refused(fault):
    with pytest.raises(VirtualBoardError, match="is unknown") as caught:
        FpgaOptions(accelerator=Accelerator(), faults=(fault,))
    assert "hang=N, lost-interrupt=N, stale-done=N, wrong-bit=N" in caught.value.hint


@pytest.mark.parametrize("options", [{"faults": ("hang=3",)}, {"timing": CostModel()}])
def test_hardware_has_no_faults_and_no_other_timing(options):
    with pytest.raises(VirtualBoardError, match="has no faults and no timing but its own") as e:
        FpgaOptions(accelerator=Accelerator(), rtl=Path("lib.so"), **options)
    assert e.value.hint == "name either the library, or faults and timing"


def test_model_is_told_the_library_of_hardware_and_later_commands_know_it(tmp_path):
    program = tmp_path / "model"
    program.write_text('#!/bin/sh\necho "$@" >&2; echo ready >&2; exec sleep 60\n')
    program.chmod(0o755)
    library = tmp_path / "lib.so"
    model = FpgaModel(tmp_path)
    model.start(
        FpgaOptions(accelerator=Accelerator(), rtl=library, program=program), tmp_path / "memory"
    )
    try:
        told = (tmp_path / "fpga-model.log").read_text().split()
        assert f"--rtl={library}" in told
        assert not any(word.startswith("--accelerator") for word in told)
        assert FpgaModel(tmp_path).options().rtl == library
    finally:
        model.stop()


def test_model_that_cannot_start_is_reported_with_its_last_message(tmp_path):
    program = tmp_path / "model"
    program.write_text("#!/bin/sh\necho 'qtest.sock: No such file or directory' >&2; exit 1\n")
    program.chmod(0o755)
    options = FpgaOptions(accelerator=Accelerator(), program=program)
    with pytest.raises(VirtualBoardError, match=r"model ended: qtest.sock: No such file") as caught:
        FpgaModel(tmp_path).start(options, tmp_path / "memory")
    assert caught.value.hint == f"its output: {tmp_path / 'fpga-model.log'}"


@pytest.mark.parametrize("timing", [None, CostModel(loop_cycles=9)])
def test_model_is_told_its_costs_and_they_are_known_to_later_commands(timing, tmp_path):
    program = tmp_path / "model"
    program.write_text('#!/bin/sh\necho "$@" >&2; echo ready >&2; exec sleep 60\n')
    program.chmod(0o755)
    options = FpgaOptions(accelerator=Accelerator(), timing=timing, program=program)
    model = FpgaModel(tmp_path)
    model.start(options, tmp_path / "memory")
    try:
        assert FpgaModel(tmp_path).options() == options
        told = (tmp_path / "fpga-model.log").read_text().split()
        assert ("--timing=timing.json" in told) == (timing is not None)
        if timing is not None:
            costs = json.loads((tmp_path / "timing.json").read_text())
            assert costs == dataclasses.asdict(timing)
    finally:
        model.stop()


def test_recipe_digest_is_stable():
    assert image.recipe_digest() == image.recipe_digest()


def test_commands_on_a_board_that_is_down(tmp_path, capsys):
    folder = ["--folder", str(tmp_path / "board")]
    assert main(["virtual-board", "status", *folder]) == 1
    assert "virtual board: down" in capsys.readouterr().out
    assert main(["virtual-board", "down", *folder]) == 0
    assert "not running" in capsys.readouterr().err
    assert main(["virtual-board", "ssh", *folder, "true"]) == 1
    assert "hint: start it with: edgepipe virtual-board up" in capsys.readouterr().err
    assert not VirtualBoard(folder=tmp_path / "board").folder.exists()


def test_state_of_a_process_that_is_gone_is_a_board_that_is_down(tmp_path):
    board = VirtualBoard(folder=tmp_path)
    board.run_folder.mkdir()
    (board.run_folder / "state.json").write_text(
        '{"qemu": {"pid": 1, "start_ticks": -1}, "ssh_port": 1, "memory_file": "/none"}'
    )
    assert board.status().state == "down"
    (board.run_folder / "state.json").write_text("{")
    assert board.status().state == "down"

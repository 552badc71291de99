"""setup.sh, the udev rules, the units and a user who is not root, under a real systemd.

The FPGA is blank after every power cut, until the board's own fpga_manager programs it.
EDGEPIPE_POWER_CUTS=20 cuts the power more often.
"""

import io
import os
import random
import subprocess
import sys
import tarfile
import time
from functools import partial
from pathlib import Path

import pytest
from ansible_fleet import AnsibleFleet, changed
from needs import BUILD, installed
from small_networks import build_small_bundle

from edgepipe import boards, resources
from edgepipe.bitstream import check, install, manifest
from edgepipe.deploy import deployment
from edgepipe.deploy.connection import Target
from edgepipe.virtual_board import qemu
from edgepipe.virtual_board.board import SSH_HOST
from edgepipe.virtual_board.fpga_model import FpgaOptions

sys.path.append(str(Path(__file__).parents[1] / "edgepipe/bitstream"))
import bit_files

pytestmark = [pytest.mark.board, pytest.mark.systems]

ULTRA96 = boards.load("ultra96")
USER = "xilinx"
POWER_CUTS = int(os.environ.get("EDGEPIPE_POWER_CUTS", "1"))
# From the power's return to the camera's page, on an emulated board that shares two cores.
PAGE_S = 240
# The page that replaces the PL's reset line; real boards do not have it.
RESET_RULE = 'SUBSYSTEM=="uio", ATTR{name}=="vta-reset", GROUP="edgepipe", MODE="0660"'
# The virtual board's system is unpacked, not installed. This sets the owners and modes that
# packages' scripts would set, and adds a user as on a PYNQ image.
INSTALL = f"""
    find / -xdev ! -uid 0 -exec chown -h 0:0 {{}} +
    chmod 4755 /usr/bin/sudo
    chmod 0440 /etc/sudoers
    id -u {USER} > /dev/null 2>&1 || useradd -m -p '*' {USER}
    mkdir -p /home/{USER}/.ssh
    cp /root/.ssh/authorized_keys /home/{USER}/.ssh/
    chown -R {USER}: /home/{USER}
    ln -sfn /lib/systemd/systemd /usr/sbin/init
    echo '{RESET_RULE}' > /etc/udev/rules.d/71-virtual-board.rules
"""
# systemd is a 64-bit program here, so its native architecture is not that of programs for armhf.
# The unit's other restrictions, such as its filter of system calls, hold for both.
DROP_INS = "/etc/systemd/system/edgepipe.service.d"
INSTALL_ARMHF = f"""
    usermod -s /usr/local/bin/armhf-shell {USER}
    mkdir -p {DROP_INS}
    printf '[Service]\\nSystemCallArchitectures=native arm\\n' > {DROP_INS}/armhf.conf
"""
# What the next architecture's tests do not expect.
REMOVE = f"""
    mv /usr/sbin/init.before /usr/sbin/init
    usermod -s /bin/bash {USER}
    rm -rf /etc/udev/rules.d/* {DROP_INS} /home/{USER}/edgepipe /lib/firmware/edgepipe
    sync
"""


@pytest.fixture(scope="module")
def board(virtual_board, architecture, board_file, request, tmp_path_factory):
    """Yield the virtual board, set up by setup.sh and restarted with systemd as process 1."""
    virtual_board.load_fpga(FpgaOptions(accelerator=ULTRA96.accelerator, blank=True))
    install = INSTALL + f"usermod -s /bin/bash {USER}\n"
    command = f"sh /root/board/setup.sh --board ultra96 --user {USER} && sync"
    if architecture == "armhf":
        request.getfixturevalue("armhf_login")
        install = INSTALL + INSTALL_ARMHF
        command = f"setarch linux32 {command}"
    setup = make_setup_folder(tmp_path_factory.mktemp("setup"), board_file(architecture))
    must(virtual_board, f"cp -p /usr/sbin/init /usr/sbin/init.before; set -e; {install}")
    must(virtual_board, "tar -x -C /root", stdin=setup)
    said = must(virtual_board, command)
    assert f"reboot the board, then run: edgepipe doctor --host {USER}@BOARD" in said
    virtual_board.reset()
    yield virtual_board
    must(virtual_board, REMOVE)
    virtual_board.load_fpga(FpgaOptions(accelerator=ULTRA96.accelerator))
    virtual_board.reset()


def make_setup_folder(folder, description):
    """Return board/ as written by `make board`, as a tar archive.

    It has the compiled overlay, and the board's file from ``description``.
    """
    source = resources.folder("board")
    overlay = folder / "ultra96-overlay.dtbo"
    dtc = installed("dtc", "device-tree-compiler")
    command = [dtc, "-q", "-@", "-I", "dts", "-O", "dtb", "-o", overlay]
    subprocess.run([*command, source / "ultra96-overlay.dts"], check=True)
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        files = {file.name: file for file in [*sorted(source.iterdir()), overlay, description]}
        for name, file in files.items():
            tar.add(file, f"board/{name}")
    return archive.getvalue()


def must(board, command, stdin=b""):
    done = board.run([command], stdin=stdin, deadline_s=120)
    assert done.returncode == 0, done.stderr.decode() + done.stdout.decode()
    return done.stdout.decode()


def unit(board, name):
    return must(board, f"systemctl show --value -p {name} edgepipe").strip()


def wait_until(condition, what, within_s=120):
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.5)


def test_the_board_starts_with_what_setup_installed(board):
    assert must(board, "cat /proc/1/comm") == "systemd\n"
    assert must(board, "systemctl list-units --failed --no-legend") == ""
    assert unit(board, "ConditionResult") == "no"  # nothing is deployed or programmed yet
    registers = must(board, "grep -lx vta /sys/class/uio/*/name").split("/")[4]
    rights = must(board, f"stat -c '%A %G' /dev/{registers} /dev/udmabuf0")
    assert rights == "crw-rw---- edgepipe\n" * 2


def test_a_user_deploys_and_the_unit_runs_the_release_on_the_accelerator(
    board, architecture, board_file, tmp_path
):
    stream = bit_files.make_stream(bit_files.ULTRA96_IDCODE)
    bitstream = tmp_path / "vta.bit"
    bitstream.write_bytes(bit_files.make_bit(stream, part=bit_files.ULTRA96_PART))
    root = Target(host=SSH_HOST, root="edgepipe", ssh_config=board.ssh_config)
    file = check.read(bitstream, manifest.load())
    installed = install.install(root, file, ULTRA96, operator="tester@host")
    assert installed.by == "fpga_manager"
    bundle = build_small_bundle(tmp_path, board=str(board_file(architecture)))
    target = Target(host=f"{USER}@{SSH_HOST}", root="edgepipe", ssh_config=board.ssh_config)
    options = deployment.DeployOptions(operator="tester@host", golden_timeout_s=120)
    outcome = deployment.deploy(target, deployment.open_source(bundle), options)
    assert (outcome.result, outcome.unit) == ("deployed", "restarted")
    assert unit(board, "ActiveState") == "active"
    process = unit(board, "MainPID")
    assert must(board, f"ps -o user= -p {process}").strip() == "edgepipe"
    elf_class = must(board, f"od -An -tu1 -j4 -N1 /proc/{process}/exe").strip()
    assert elf_class == {"aarch64": "2", "armhf": "1"}[architecture]
    assert "\nSeccomp:\t2\n" in must(board, f"cat /proc/{process}/status")
    assert "Cpus_allowed_list:\t0-3\n" in must(board, f"cat /proc/{process}/status")
    assert "/dev/uio" in must(board, f"ls -l /proc/{process}/fd")
    wait_until(lambda: "frames" in unit(board, "StatusText"), "the unit tells of no frames")
    again = deployment.deploy(target, deployment.open_source(bundle), options)
    assert (again.result, again.unit) == ("unchanged", "active")


def test_a_release_that_dies_or_hangs_is_started_again(board):
    for signal, within in (("KILL", 60), ("STOP", 5)):
        drop_in = f"[Service]\\nWatchdogSec={within}\\n"
        must(
            board,
            "mkdir -p /run/systemd/system/edgepipe.service.d;"
            f" printf '{drop_in}' > /run/systemd/system/edgepipe.service.d/watchdog.conf;"
            " systemctl daemon-reload; systemctl restart edgepipe",
        )
        process = unit(board, "MainPID")
        must(board, f"kill -{signal} {process}")
        wait_until(
            lambda before=process: (
                unit(board, "ActiveState") == "active" and unit(board, "MainPID") != before
            ),
            f"the unit was not started again after SIG{signal}",
        )
    assert "Watchdog timeout" in must(board, "journalctl -u edgepipe --no-pager")
    must(
        board,
        "rm -r /run/systemd/system/edgepipe.service.d; systemctl daemon-reload;"
        " systemctl restart edgepipe",
    )


def page(board):
    """Return the status line of the camera's page, empty if it does not answer."""
    ask = "printf 'GET / HTTP/1.1\\r\\nHost: 127.0.0.1:8080\\r\\n\\r\\n' >&3 && head -n 1 <&3"
    return board.run([f"exec 3<>/dev/tcp/127.0.0.1/8080 && {ask}"]).stdout.decode().strip()


def test_after_a_power_cut_at_any_moment_the_board_comes_back_by_itself(board):
    must(board, "sync")
    chance = random.Random(15)
    for number in range(POWER_CUTS):
        if not number % 2:  # the second cut comes while the board is starting
            assert qemu.order(board.run_folder, "system_reset")
        time.sleep(chance.uniform(0, 15))
        began = time.monotonic()
        board.reset()
        wait_until(lambda: "200" in page(board), "the page does not come back", PAGE_S)
        took_s = time.monotonic() - began
        assert must(board, "cat /sys/class/fpga_manager/fpga0/state") == "operating\n"
        log = must(board, "journalctl -b -u edgepipe-bitstream --no-pager")
        assert "programmed vta.bin" in log
        sys.stderr.write(f"page {took_s:.0f} s after power cut {number + 1}\n")
    wait_until(lambda: "frames" in unit(board, "StatusText"), "the unit tells of no frames")


def test_a_bitstream_that_was_changed_on_the_card_is_not_programmed(board):
    damage = "cd /lib/firmware/edgepipe/at-boot && cp vta.bin /root/vta.bin && echo x >> vta.bin"
    must(board, f"systemctl stop edgepipe && {damage}")
    assert board.run(["systemctl restart edgepipe-bitstream"]).returncode != 0
    said = must(board, "journalctl -b -u edgepipe-bitstream --no-pager")
    assert "it was changed after its installation" in said
    must(
        board,
        "cat /root/vta.bin > /lib/firmware/edgepipe/at-boot/vta.bin"
        " && systemctl restart edgepipe-bitstream && systemctl start edgepipe",
    )
    assert unit(board, "ActiveState") == "active"


def test_sudo_is_for_the_unit_alone(board):
    command = f"setpriv --reuid {USER} --regid {USER} --init-groups sudo -n systemctl stop ssh"
    assert board.run([command]).returncode == 1
    assert unit(board, "ActiveState") == "active"


# The roles are commands on the controller, so one architecture says all.
@pytest.mark.parametrize("architecture", ["aarch64"], indirect=True)
def test_ansible_sets_boards_up_and_programs_them_only_if_they_differ(
    board, architecture, board_file, tmp_path, monkeypatch
):
    files = make_setup_folder(tmp_path, board_file(architecture))
    with tarfile.open(fileobj=io.BytesIO(files)) as tar:  # as the wheel edgepipe_boards has them
        tar.extractall(tmp_path / "edgepipe_boards/aarch64", filter="data")
    (tmp_path / "edgepipe_boards/aarch64/bin").symlink_to(BUILD / "aarch64/bin")
    (tmp_path / "edgepipe_boards/__init__.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    bitstream = tmp_path / "vta.bit"
    stream = bit_files.make_stream(bit_files.ULTRA96_IDCODE)
    bitstream.write_bytes(bit_files.make_bit(stream, part=bit_files.ULTRA96_PART))
    host = {"edgepipe_host": f"root@{SSH_HOST}", "edgepipe_setup_user": USER}
    fleet = AnsibleFleet(tmp_path, [SSH_HOST], board.ssh_config, host)
    play = partial(
        fleet.play,
        "edgepipe.fleet.boards",
        edgepipe_board="ultra96",
        edgepipe_bitstream=bitstream,
    )
    assert play()[0] == 0
    for options in ((), ("--check",)):
        code, counts = play(*options)
        assert (code, changed(counts)) == (0, {SSH_HOST: 0})
    code, counts = play("--check", edgepipe_bitstream_force=True)
    assert (code, changed(counts)) == (0, {SSH_HOST: 1})

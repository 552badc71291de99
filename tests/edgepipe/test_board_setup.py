"""``board/setup.sh``: the files it installs, repeated runs, and boards that lack something.

It really runs below a folder. Programs that would change this machine's groups and services are
replaced by programs that record their calls.
"""

import getpass
import gzip
import os
import pty
import re
import shutil
import subprocess
from pathlib import Path

import needs
import pytest
from signing_keys import allow, make_key

BOARD = Path(__file__).parents[2] / "board"
# systemctl says of every unit that it is not enabled, and does not record that question.
STAND_INS = ("groupadd", "useradd", "usermod", "udevadm", "systemctl")


@pytest.fixture
def board(tmp_path):
    """Return a function that runs setup.sh on a board's files below a folder."""
    system, programs = tmp_path / "system", tmp_path / "programs"
    for folder in ("etc", "proc", "sys/bus/platform/drivers/zocl-drm"):
        (system / folder).mkdir(parents=True)
    (system / "etc/os-release").write_text('PRETTY_NAME="Ubuntu 22.04 LTS"\n')
    (system / "proc/meminfo").write_text("CmaTotal:         131072 kB\n")
    programs.mkdir()
    for name in STAND_INS:
        (programs / name).write_text(f'#!/bin/sh\necho {name} "$@" >>{tmp_path}/called\n')
        (programs / name).chmod(0o755)
    (programs / "modinfo").write_text("#!/bin/sh\n")
    (programs / "modinfo").chmod(0o755)
    systemctl = (programs / "systemctl").read_text()
    asked = '[ "$1" != is-enabled ] || exit 1\n'
    (programs / "systemctl").write_text(systemctl.replace("echo", asked + "echo", 1))

    def setup(*options, name="ultra96", here=BOARD, path=None):
        command = ["sh", here / "setup.sh", "--board", name, "--user", getpass.getuser()]
        paths = f"{programs}:{Path(needs.installed('dtc', 'device-tree-compiler')).parent}"
        near, far = pty.openpty() if setup.terminal else (-1, subprocess.DEVNULL)
        if setup.terminal:
            os.write(near, setup.terminal)
        return subprocess.run(
            [*command, "--system", system, "--root", tmp_path / "releases", *options],
            stdin=far,
            capture_output=True,
            text=True,
            env=os.environ | {"PATH": path or f"{paths}:{os.environ['PATH']}"},
        )

    setup.terminal = b""  # what a user types

    setup.system, setup.programs, setup.releases = system, programs, tmp_path / "releases"
    setup.called = tmp_path / "called"
    return setup


def files_below(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("name", ["ultra96", "pynq-z2"])
def test_it_installs_everything_that_a_pipeline_without_root_needs(board, name):
    done = board(name=name)
    assert done.returncode == 0, done.stdout + done.stderr
    etc = board.system / "etc"
    assert (etc / "udev/rules.d/70-edgepipe.rules").read_text() == (
        BOARD / "70-edgepipe.rules"
    ).read_text()
    assert "uio_pdrv_genirq\nu-dma-buf" in (etc / "modules-load.d/edgepipe.conf").read_text()
    assert "of_id=generic-uio" in (etc / "modprobe.d/edgepipe.conf").read_text()
    overlay = board.system / "lib/firmware/edgepipe/vta.dtbo"
    assert overlay.read_bytes()[:4] == b"\xd0\x0d\xfe\xed"
    unit = (etc / "systemd/system/edgepipe.service").read_text()
    assert "User=edgepipe\n" in unit
    assert f"BindReadOnlyPaths={board.releases}\n" in unit
    assert f"WorkingDirectory={board.releases}/current\n" in unit
    assert re.search("@[A-Z]+@", unit.split("[Unit]")[1]) is None
    assert f"CPUAffinity=0-{3 if name == 'ultra96' else 1}\n" in unit
    assert "systemctl restart edgepipe" in (etc / "sudoers.d/edgepipe").read_text()
    called = board.called.read_text()
    assert "groupadd --system edgepipe" in called
    assert "useradd --system --gid edgepipe --home-dir /nonexistent" in called
    for user in (getpass.getuser(), "edgepipe"):
        assert f"usermod -a -G edgepipe {user}" in called
        assert f"usermod -a -G video {user}" in called
    for unit in ("edgepipe-overlay", "edgepipe-bitstream", "edgepipe"):
        assert f"systemctl enable --quiet {unit}.service" in called
    assert "reboot the board" in done.stdout


def test_a_second_run_changes_no_file_and_keeps_the_users_options(board):
    board()
    options = board.system / "etc/edgepipe/edgepipe.conf"
    options.write_text("EDGEPIPE_OPTIONS=--camera /dev/video1\n")
    before = files_below(board.system)
    done = board()
    assert files_below(board.system) == before
    assert "change   /" not in done.stdout


def test_a_later_run_takes_board_user_and_folder_from_the_last_one(board, tmp_path):
    board()
    settings = (board.system / "etc/edgepipe/setup.conf").read_text()
    assert settings == f"board=ultra96\nuser={getpass.getuser()}\nroot={board.releases}\n"
    before = files_below(board.system)
    environment = os.environ | {"PATH": f"{board.programs}:{os.environ['PATH']}"}
    command = ["sh", BOARD / "setup.sh", "--system", board.system]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert "board    ultra96, Ubuntu 22.04 LTS" in done.stdout
    assert files_below(board.system) == before


def test_it_stops_the_services_for_the_removal_of_a_package(board):
    board()
    before = files_below(board.system)
    board.called.unlink()
    assert board("--stop").stdout == ""
    called = board.called.read_text()
    for unit in ("edgepipe-overlay", "edgepipe-bitstream", "edgepipe"):
        assert f"systemctl disable --quiet --now {unit}.service\n" in called
    assert files_below(board.system) == before


@pytest.fixture
def signers(tmp_path):
    return allow(tmp_path, "alice@example.com", make_key(tmp_path / "key"))


def policy(board):
    return (board.system / "etc/edgepipe/policy").read_text()


def test_without_a_terminal_the_policy_stays_as_it_is(board):
    board()
    assert not (board.system / "etc/edgepipe/policy").exists()


def test_it_installs_the_signers_and_the_policy(board, signers):
    done = board("--allowed-signers", signers, "--versions-only-grow")
    assert done.returncode == 0, done.stdout + done.stderr
    etc = board.system / "etc/edgepipe"
    assert (etc / "allowed_signers").read_text().strip() == signers.read_text().strip()
    assert "\nrequire_signature=yes\nversions_only_grow=yes\n" in policy(board)
    assert (board.system / "var/lib/edgepipe").is_dir()
    board()
    assert "\nrequire_signature=yes\n" in policy(board), "a later run keeps it"
    board("--any-bundle")
    assert "\nrequire_signature=no\nversions_only_grow=no\n" in policy(board)


def test_wrong_policies_are_refused(board, signers, tmp_path):
    def error(*options):
        done = board(*options)
        assert done.returncode == 1
        assert not (board.system / "etc/edgepipe/policy").exists()
        return done.stderr

    assert error("--versions-only-grow") == (
        "error: --versions-only-grow: needs signatures\n"
        "hint: name the signers with --allowed-signers FILE\n"
    )
    assert error("--any-bundle", "--allowed-signers", signers) == (
        "error: --any-bundle: cannot be combined with the other two\n"
    )
    assert error("--allowed-signers", tmp_path / "none") == (
        f"error: --allowed-signers {tmp_path}/none: cannot be read\n"
    )
    (tmp_path / "empty").write_text("# nobody\n")
    assert error("--allowed-signers", tmp_path / "empty") == (
        f"error: --allowed-signers {tmp_path}/empty: contains no key\n"
        "hint: a line is: alice@example.com ssh-ed25519 AAAA...\n"
    )


@pytest.mark.parametrize("answer", ["", "signers"])
def test_on_a_terminal_it_asks(board, signers, answer):
    board.terminal = (f"{signers}\n" if answer else "\n").encode()
    done = board()
    assert "File of allowed signers (empty: accept every bundle): " in done.stdout
    assert f"\nrequire_signature={'yes' if answer else 'no'}\n" in policy(board)
    assert "File of allowed signers" not in board().stdout, "it has been answered"


def test_a_dry_run_says_what_would_change_and_changes_nothing(board):
    before = files_below(board.system)
    done = board("--dry-run")
    assert done.returncode == 0, done.stderr
    assert "change   /etc/systemd/system/edgepipe.service\n" in done.stdout
    assert "would be made" in done.stdout
    assert files_below(board.system) == before
    assert not board.called.exists()


def test_missing_parts_of_a_board_are_reported_with_a_remedy(board):
    (board.system / "proc/meminfo").write_text("CmaTotal:          16384 kB\n")
    (board.system / "sys/bus/platform/drivers/zocl-drm").rmdir()
    (board.programs / "modinfo").write_text('#!/bin/sh\n[ "$1" = uio_pdrv_genirq ]\n')
    done = board()
    assert done.returncode == 1
    assert "missing  kernel module u-dma-buf, and XRT's zocl in its place\n" in done.stdout
    assert (
        "         build github.com/ikwzm/udmabuf against this kernel's headers, "
        "then modprobe u-dma-buf\n" in done.stdout
    )
    assert "missing  contiguous memory: 16384 KiB of CMA, expected 65536 or more\n" in done.stdout
    assert (
        "         add cma=128M to the kernel's command line, in the boot loader or bootargs\n"
        in done.stdout
    )
    assert done.stdout.splitlines()[-2].endswith(", 2 missing")


def test_a_kernel_and_tools_that_an_image_lacks_are_reported_with_a_remedy(board, signers):
    (board.programs / "modinfo").write_text("#!/bin/sh\nexit 1\n")
    with gzip.open(board.system / "proc/config.gz", "wb") as config:
        config.write(b"CONFIG_UIO=y\n")
    done = board()
    assert (
        "missing  kernel module uio_pdrv_genirq\n"
        "         use a kernel that has CONFIG_UIO_PDRV_GENIRQ\n" in done.stdout
    )
    assert (
        "missing  device-tree overlays at run time: this kernel lacks CONFIG_OF_CONFIGFS\n"
        "         merge vta.dtbo into the boot loader's device tree with fdtoverlay "
        "(docs/guides/board.md)\n" in done.stdout
    )
    tools = board.programs.parent / "few"
    tools.mkdir()
    for tool in ("sh", "sed", "grep", "id", "getent", "cut", "uname", "dirname", "cat", "cmp"):
        (tools / tool).symlink_to(shutil.which(tool))
    for tool in ("mkdir", "cp", "mv", "chmod", "mktemp", "rm", "dtc", "zcat", "gzip"):
        (tools / tool).symlink_to(needs.installed(tool, "device-tree-compiler"))
    options = ("--dry-run", "--allowed-signers", signers)
    done = board(*options, path=f"{board.programs}:{tools}")
    assert (
        "missing  ssh-keygen\n         install openssh-client; it verifies signatures\n"
        in done.stdout
    )
    assert "missing  flock\n         deploy needs it (coreutils, tar, util-linux)\n" in done.stdout
    (tools / "dtc").unlink()
    done = board("--dry-run", path=f"{board.programs}:{tools}")
    assert done.stderr.endswith(
        "ultra96-overlay.dtbo: missing, and this board has no dtc to compile it\n"
        "hint: copy the folder that `make board` writes to build/board, which contains it\n"
    )


def test_an_overlay_that_dtc_cannot_compile_is_an_error(board):
    (board.programs / "dtc").write_text("#!/bin/sh\nexit 1\n")
    (board.programs / "dtc").chmod(0o755)
    done = board()
    assert done.returncode == 1
    assert done.stderr.endswith("/ultra96-overlay.dts: dtc cannot compile it\n")


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (("--board", "kv260"), 1, "error: board kv260: no kv260.toml or no kv260-overlay.dts in "),
        (("--board", "kv260"), 1, "\nhint: known boards: ultra96, pynq-z2\n"),
        (("--user", "nobody-here"), 1, "error: user nobody-here: does not exist"),
        (("--user", "nobody-here"), 1, "\nhint: name one with --user\n"),
        (("--root", "relative"), 1, "error: --root relative: expected an absolute path"),
        (("--board", ""), 2, "sh setup.sh --board ultra96 [--user USER]"),
        (("--bord", "ultra96"), 2, "sh setup.sh --board ultra96 [--user USER]"),
    ],
)
def test_wrong_use_is_reported_in_one_line(board, options, code, says):
    done = board(*options)
    assert done.returncode == code
    assert says in done.stderr
    assert not board.called.exists()


def refusal_on(machine, **options):
    """Return what setup.sh says on a machine of that architecture, as another user if asked."""
    script = f"uname() {{ echo {machine}; }}; set -- --board ultra96; . ./setup.sh"
    done = subprocess.run(
        ["sh", "-c", script], cwd=BOARD, capture_output=True, text=True, **options
    )
    assert done.returncode == 1
    return done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="another user is taken from root's rights")
def test_a_user_who_is_not_root_is_told_how_to_run_it():
    said = refusal_on("aarch64", user=65534)
    assert said == "error: must be root\nhint: sudo sh setup.sh ...\n"


def test_a_machine_that_is_not_the_board_is_told_where_to_run_it():
    assert refusal_on("riscv64") == (
        "error: board ultra96: the board is aarch64, this machine is riscv64\n"
        "hint: copy this folder to the board, and run setup.sh there\n"
    )


def test_the_units_are_what_systemd_accepts(board):
    analyze = needs.installed("systemd-analyze", "systemd")
    program = board.releases / "current/bin/edgepipe-cam"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    board()
    units = board.system / "etc/systemd/system"
    overlay = units / "edgepipe-overlay.service"
    applies = board.system / "usr/local/lib/edgepipe/apply-overlay"
    overlay.write_text(
        overlay.read_text().replace("/usr/local/lib/edgepipe/apply-overlay", str(applies))
    )
    bitstream = units / "edgepipe-bitstream.service"
    programs = board.system / "usr/local/lib/edgepipe/program-bitstream"
    bitstream.write_text(
        bitstream.read_text().replace("/usr/local/lib/edgepipe/program-bitstream", str(programs))
    )
    done = subprocess.run(
        [analyze, "verify", "--man=no", units / "edgepipe.service", overlay, bitstream],
        capture_output=True,
        text=True,
    )
    complaints = [line for line in done.stderr.splitlines() if "edgepipe" in line]
    assert complaints == []
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("unit", "documented"),
    [
        (
            "edgepipe.service",
            {
                "security.md": r"Exposure ([\d.]+) by `systemd-analyze security` \(\[the unit\]",
                "guides/board.md": r"`systemd-analyze security edgepipe` rates this ([\d.]+) ",
            },
        ),
        (
            "edgepipe-overlay.service",
            {"security.md": r"`apply-overlay`, at boot .*: exposure ([\d.]+) \|"},
        ),
        (
            "edgepipe-bitstream.service",
            {"security.md": r"`program-bitstream`, at boot .*: exposure ([\d.]+) \|"},
        ),
    ],
)
def test_the_units_are_not_exposed_beyond_3_and_as_the_documents_say(board, unit, documented):
    board()
    command = [needs.installed("systemd-analyze", "systemd"), "security", "--no-pager"]
    path = board.system / "etc/systemd/system" / unit
    done = subprocess.run(
        [*command, "--offline=true", "--threshold=30", path], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(rf"Overall exposure level for {unit}: ([\d.]+) ", done.stdout)
    for page, pattern in documented.items():
        said = re.findall(pattern, (BOARD.parent / "docs" / page).read_text())
        assert said == [found[1]], page


def test_an_overlay_is_applied_once_and_a_kernel_without_overlays_is_distinguished(board):
    board()
    apply_overlay = board.system / "usr/local/lib/edgepipe/apply-overlay"
    config = board.system / "sys/kernel/config"
    (config / "other").mkdir(parents=True)
    done = subprocess.run(["sh", apply_overlay, board.system], capture_output=True, text=True)
    assert done.returncode == 1
    assert "missing, expected a kernel with CONFIG_OF_CONFIGFS" in done.stderr
    blob = board.system / "lib/firmware/edgepipe/vta.dtbo"
    assert done.stderr.endswith(
        f"hint: merge {blob} into the boot loader's device tree with fdtoverlay\n"
    )
    overlays = config / "device-tree/overlays"
    overlays.mkdir(parents=True)
    subprocess.run(["sh", apply_overlay, board.system], check=True)
    assert (overlays / "vta/dtbo").read_bytes() == blob.read_bytes()
    # The kernel shows what it applied; a second run must not apply it again.
    (board.system / "proc/device-tree/vta@a0000000").mkdir(parents=True)
    shutil.rmtree(overlays / "vta")
    subprocess.run(["sh", apply_overlay, board.system], check=True)
    assert not (overlays / "vta").exists()

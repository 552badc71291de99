"""``edgepipe setup-board`` over a real sshd: setup.sh runs on a folder like a board's system."""

import getpass
import shutil
from pathlib import Path

import pytest

from edgepipe import boards, resources
from edgepipe.cli.main import main
from edgepipe.deploy import payload, setting_up
from edgepipe.errors import DeployError

BOARD = Path(__file__).parents[3] / "board"
ULTRA96 = boards.load("ultra96")
STAND_INS = ("groupadd", "useradd", "usermod", "udevadm", "modinfo")


def program(folder, name, text="exit 0\n"):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("#!/bin/sh\n" + text)
    (folder / name).chmod(0o755)


@pytest.fixture
def system(board, tmp_path):
    """Return the board's system; commands that change groups and services do nothing."""
    for folder in ("etc", "proc", "sys"):
        (tmp_path / "system" / folder).mkdir(parents=True)
    (tmp_path / "system/proc/meminfo").write_text("CmaTotal:         131072 kB\n")
    for name in STAND_INS:
        program(board.folder / "programs", name)
    program(board.folder / "programs", "systemctl")
    program(board.folder / "programs", "getent", 'echo "$2:x:0:0::/home/$2:/bin/sh"\n')
    program(
        board.folder / "programs",
        "id",
        "case $1 in -u) echo 0 ;; *) echo edgepipe video render ;; esac\n",
    )
    return tmp_path / "system"


@pytest.fixture
def set_up(board, system):
    def run(*options, folder=BOARD):
        more = ("--system", str(system), "--user", getpass.getuser(), *options)
        return setting_up.set_up(board.target(), ULTRA96, folder, options=more)

    return run


def files_below(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_the_second_run_changes_nothing_and_says_so(set_up, system):
    before = files_below(system)
    assert set_up("--dry-run").changes > 5
    assert files_below(system) == before
    first = set_up()
    assert first.changes > 5
    assert (first.missing, first.lines[-1][:6]) == (0, "reboot")
    installed = files_below(system)
    assert Path("etc/systemd/system/edgepipe-bitstream.service") in installed
    second = set_up()
    assert (second.changes, second.missing) == (0, 0)
    assert second.lines[-1] == "0 changes, 0 missing"
    assert files_below(system) == installed


def test_what_the_image_lacks_is_counted_and_named(set_up, system):
    (system / "proc/meminfo").write_text("CmaTotal: 1024 kB\n")
    done = set_up()
    assert done.missing == 1
    assert "missing  contiguous memory: 1024 KiB of CMA, expected 65536 or more" in done.lines


def test_the_error_of_the_boards_script_is_the_commands(set_up):
    with pytest.raises(DeployError, match=r"setup\.sh: --root x: expected an absolute path") as no:
        set_up("--root", "x")
    assert no.value.hint == "examine the board to see what it lacks"


def test_a_user_who_cannot_be_root_is_told_what_to_do(set_up, board):
    program(board.folder / "programs", "id", "echo 1000\n")
    program(board.folder / "programs", "sudo", "exit 1\n")
    with pytest.raises(DeployError, match="needs root, and sudo asks for a password") as caught:
        set_up()
    assert caught.value.hint == "log in as root, or allow the user `sudo -n` on the board"


def test_files_that_were_not_built_are_named_with_what_builds_them(tmp_path, monkeypatch):
    monkeypatch.setattr(resources, "folder", lambda name: tmp_path / name)
    monkeypatch.setattr(resources, "board_folder", lambda architecture: None)
    with pytest.raises(DeployError, match="edgepipe-run: no program for aarch64 boards"):
        setting_up.files_for(ULTRA96)
    monkeypatch.setattr(payload, "find_path", lambda *arguments: tmp_path)
    with pytest.raises(DeployError, match=r"setup\.sh: no set-up files for aarch64 boards") as no:
        setting_up.files_for(ULTRA96)
    assert no.value.hint == "install edgepipe-boards, or build them with `make board`"
    shutil.copytree(BOARD, tmp_path / "wheel/board")
    monkeypatch.setattr(resources, "board_folder", lambda architecture: tmp_path / "wheel")
    assert setting_up.files_for(ULTRA96) == tmp_path / "wheel/board"


def test_the_command_prints_what_setup_says(board, system, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(setting_up, "files_for", lambda board: BOARD)
    program(board.folder / "programs", "uname", "echo riscv64\n")
    target = board.target()
    command = ["setup-board", "--host", target.host, "--ssh-config", str(target.ssh_config)]
    assert main([*command, "--board", "ultra96", "--user", getpass.getuser()]) == 1
    said = capsys.readouterr().err
    assert "setup.sh: board ultra96: the board is aarch64, this machine is riscv64" in said
    assert "hint: copy this folder to the board, and run setup.sh there" in said

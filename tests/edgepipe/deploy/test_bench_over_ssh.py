"""``edgepipe bench --host`` through a real sshd: measured there, and nothing left there."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from needs import built
from report_bundles import branches, build

from edgepipe.benchmark.measuring import BenchOptions, measure
from edgepipe.benchmark.places import OnBoard
from edgepipe.cli.main import main
from edgepipe.deploy.session import ConnectionLostError
from edgepipe.errors import DeployError


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    return build(tmp_path_factory.mktemp("bench"), branches())


@pytest.fixture
def temporary(tmp_path):
    """Return the folder for temporary folders of the board, which is this machine."""
    folder = tmp_path / "board_tmp"
    folder.mkdir()
    return folder


def at(board, temporary):
    """Return the board, whose temporary folders are in ``temporary``."""
    programs = board.folder / "programs"
    programs.mkdir(exist_ok=True)
    script = programs / "mktemp"
    script.write_text(f'#!/bin/sh\nTMPDIR="{temporary}" exec /usr/bin/mktemp "$@"\n')
    script.chmod(0o755)
    return board.target()


def options(**changes):
    return BenchOptions(
        frames=4, runtimes=(built("edgepipe-run"),), **({"allow_simulator": True} | changes)
    )


def emptied(folder):
    """Wait until a folder is empty."""
    deadline = time.monotonic() + 60
    while list(folder.iterdir()):
        assert time.monotonic() < deadline, list(folder.iterdir())
        time.sleep(0.05)


def test_a_board_is_measured_and_nothing_is_left_there(board, net, temporary):
    found = measure(net, options(), at(board, temporary))
    assert found.machine.host == board.name
    for run in found.runs:
        assert run.statistics.delivered == 4
        assert run.device == "simulator"
    emptied(temporary)
    assert list(board.home.iterdir()) == []


def test_a_board_without_an_accelerator_is_refused(board, net, temporary):
    with pytest.raises(DeployError, match="VTA stages ran on the simulator, expected the") as error:
        measure(net, options(allow_simulator=False), at(board, temporary))
    assert error.value.hint == (
        "`edgepipe doctor` says what is missing; to measure the board's cores all the same, allow "
        "the simulator"
    )
    assert error.value.option == "allow_simulator"
    emptied(temporary)


def test_a_bundle_for_other_boards_is_refused(board, make_bundle, temporary):
    path = make_bundle(architecture="armhf")
    with (
        pytest.raises(DeployError, match="the bundle is for armhf"),
        OnBoard(at(board, temporary), path, ()),
    ):
        pass
    assert list(temporary.iterdir()) == []


def test_a_program_that_fails_there_is_reported(board, net, temporary):
    with OnBoard(at(board, temporary), net, options().runtimes) as place:
        ran = place.run(["--golden", "--device", "uio:7", "--json", "--quiet"], 60)
    assert ran.code == 1
    assert "edgepipe-run: error: " in ran.messages
    emptied(temporary)


def test_a_run_ends_with_its_connection(board, net, temporary):
    with OnBoard(at(board, temporary), net, options().runtimes) as place:
        session = place._connection.start(
            "measure", place._folder, "600", "--golden", "--frames", "1000000"
        )
        (folder,) = temporary.iterdir()
        while not (folder / "output").is_file() or not (folder / "output").stat().st_size:
            time.sleep(0.05)
        board.link.cut()
        with pytest.raises(ConnectionLostError):
            session.finish(timeout_s=60)
    emptied(temporary)
    assert not running(folder)


def running(folder: Path) -> list[str]:
    """Return the processes that work in ``folder``."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdecimal() and (process / "cwd").readlink().is_relative_to(folder):
                found.append(process.name)
        except OSError:
            continue
    return found


def test_a_full_board_is_an_error(board, net, tmp_path):
    programs = board.folder / "programs"
    programs.mkdir()
    (programs / "mktemp").write_text("#!/bin/sh\nexit 1\n")
    (programs / "mktemp").chmod(0o755)
    with pytest.raises(DeployError, match="hold: no temporary folder can be made"):
        measure(net, options(), board.target())


def test_the_command_shows_what_the_board_measured(board, net, temporary, capsys):
    target = at(board, temporary)
    arguments = ["--host", target.host, "--ssh-config", str(target.ssh_config), "--frames", "4"]
    assert main(["bench", str(net), *arguments, "--allow-simulator"]) == 0
    assert f"net for ultra96 on {target.host} (" in capsys.readouterr().out
    assert main(["bench", str(net), *arguments]) == 1
    assert "allow the simulator: --allow-simulator" in capsys.readouterr().err
    emptied(temporary)


def test_a_board_that_cannot_be_reached_is_an_error(board, net, capsys):
    board.link.cut()
    arguments = ["--host", board.name, "--ssh-config", str(board.ssh_config)]
    assert main(["bench", str(net), *arguments]) == 1
    assert f"{board.name}: cannot connect" in capsys.readouterr().err

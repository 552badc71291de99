"""``edgepipe deploy``: several boards at once, the table, JSON, and wrong uses."""

import argparse
import json

import pytest

from edgepipe.cli import deploy_command
from edgepipe.deploy import fleet
from edgepipe.deploy.deployment import DeployOptions
from edgepipe.errors import DeployError


@pytest.fixture
def two_boards(make_board, tmp_path):
    """Return two boards and one ssh configuration for both."""
    boards = make_board("door"), make_board("gate")
    config = tmp_path / "config"
    config.write_text("".join(board.ssh_config.read_text() for board in boards))
    return *boards, config


def command(*arguments):
    parser = argparse.ArgumentParser()
    deploy_command.add_parser(parser.add_subparsers())
    options = parser.parse_args(["deploy", *map(str, arguments)])
    return options.run(options)


def test_two_boards_from_a_fleet_file_then_list_and_roll_back(
    two_boards, make_bundle, runtime, tmp_path, capsys
):
    door, gate, config = two_boards
    fleet_file = tmp_path / "fleet.toml"
    fleet_file.write_text('hosts = ["door", "gate"]\nroot = "apps/camera"\n')
    common = ("--fleet", fleet_file, "--ssh-config", config, "--runtime", runtime)
    assert command(make_bundle(), *common) == 0
    captured = capsys.readouterr()
    assert [line.split()[:3] for line in captured.out.splitlines()[2:]] == [
        ["door", "deployed", "1"],
        ["gate", "deployed", "1"],
    ]
    assert "door: golden run on the board" in captured.err
    for board in (door, gate):
        assert (board.home / "apps/camera/current/bundle/manifest.json").is_file()
    assert command(make_bundle(kernels=b"2"), *common, "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert [entry["outcome"]["release"] for entry in report] == [2, 2]
    assert command("--rollback", *common) == 0
    assert capsys.readouterr().out.count("rolled back") == 2
    assert command("--list", *common) == 0
    listed = [line.split()[:3] for line in capsys.readouterr().out.splitlines()[2:]]
    assert listed[:2] == [["door", "1", "yes"], ["door", "2", "net"]]


def test_one_board_that_fails_does_not_stop_the_other(two_boards, make_bundle, runtime, capsys):
    _, gate, config = two_boards
    gate.link.close()
    hosts = ("--host", "door", "--host", "gate", "--ssh-config", config, "--runtime", runtime)
    assert command(make_bundle(), *hosts) == 1
    captured = capsys.readouterr()
    assert [line.split()[:3] for line in captured.out.splitlines()[2:]] == [
        ["door", "deployed", "1"],
        ["gate", "failed", "-"],
    ]
    assert "edgepipe: error: gate: cannot connect" in captured.err


def test_a_single_board_prints_its_steps_and_a_row(board, make_bundle, runtime, capsys):
    single = ("--host", "board", "--ssh-config", board.ssh_config, "--runtime", runtime)
    assert command(make_bundle(), *single) == 0
    captured = capsys.readouterr()
    assert "switch to release 1" in captured.err
    assert "board  deployed" in captured.out
    assert command(make_bundle(kernels=b"2"), *single, "--dry-run") == 0
    assert "board: would make release 2 current after its golden run" in capsys.readouterr().out
    with pytest.raises(DeployError, match="release 1 is still current"):
        command(make_bundle(verdict="differs"), *single)


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (("net.edgepipe",), "no host to deploy to", "name a board"),
        (
            ("--host", "a"),
            "no bundle to deploy",
            "name a bundle, or use --rollback or --list",
        ),
        (
            ("net.edgepipe", "--host", "a", "--host", "a"),
            "host 'a' is given twice",
            "name each host once",
        ),
        (
            ("net.edgepipe", "--fleet", "none.toml"),
            "none.toml: no such file",
            "check the name of the TOML file",
        ),
    ],
)
def test_wrong_uses_are_reported(arguments, message, hint):
    with pytest.raises(DeployError, match=message) as caught:
        command(*arguments)
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("option", "message"),
    [("keep", "keep is 0, expected at least 1"), ("golden_timeout_s", "golden timeout is 0 s")],
)
def test_options_out_of_range_are_refused(option, message):
    with pytest.raises(DeployError, match=message):
        DeployOptions(operator="tester", **{option: 0})


def test_a_fleet_file_with_an_unknown_key_is_refused(tmp_path):
    path = tmp_path / "fleet.toml"
    path.write_text('boards = ["a"]\n')
    with pytest.raises(DeployError, match=r"fleet\.toml: unknown key 'boards'"):
        fleet.load(path)

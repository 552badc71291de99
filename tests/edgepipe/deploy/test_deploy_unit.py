"""The systemd unit on a board: stopped for the golden run, running again however a deploy ends.

``systemctl`` and ``journalctl`` are replaced by test programs that keep a unit's state in a file.
test_deploy_killed.py and tests/board/test_board_service.py run a real systemd.
"""

import dataclasses
import threading
import time

import pytest

from edgepipe.cli.main import main
from edgepipe.deploy import deployment, logs
from edgepipe.deploy.session import GoldenError
from edgepipe.errors import DeployError
from edgepipe.progress import Silent

SYSTEMCTL = """#!/bin/sh
state=$HOME/unit
for name; do :; done
[ "$name" = edgepipe ] || exit 4
exec 9>>"$HOME/calls"
flock 9
case $1 in
cat) ;;
is-active) cat "$state" ;;
reset-failed) ;;
stop) echo inactive >"$state"; echo "stop" >>"$HOME/done" ;;
start | restart)
    [ "$1 $(cat "$state")" != "start active" ] || exit 0
    release=$(readlink "$HOME/edgepipe/current" || true)
    echo "$1 ${release#releases/}" >>"$HOME/done"
    if [ -e "$HOME/edgepipe/current/bundle/stages/0_arm/broken.bin" ]; then
        echo failed >"$state"
        exit 1
    fi
    echo active >"$state" ;;
esac
"""
JOURNALCTL = """#!/bin/sh
echo "journal of: $*"
case $* in *-f) while sleep 0.1; do echo more; done ;; esac
"""


@pytest.fixture
def unit_board(board):
    """Return a board that has the unit, inactive."""
    programs = board.folder / "programs"
    programs.mkdir()
    for name, text in (
        ("systemctl", SYSTEMCTL),
        ("journalctl", JOURNALCTL),
        ("sudo", '#!/bin/sh\nshift\nexec "$@"\n'),
    ):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    (board.home / "unit").write_text("inactive\n")
    return board


def deploy(board, bundle, options, progress=None, **changes):
    source = deployment.open_source(bundle)
    options = dataclasses.replace(options, **changes)
    return deployment.deploy(board.target(), source, options, progress)


def state(board):
    return (board.home / "unit").read_text().strip()


def done(board):
    """Return the actions on the unit since the last call."""
    file = board.home / "done"
    lines = file.read_text().splitlines() if file.exists() else []
    if lines:  # otherwise its first line may be about to be written
        file.unlink()
    return lines


def wait_until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_the_unit_is_stopped_for_the_golden_run_and_runs_the_new_release(
    unit_board, make_bundle, options
):
    for number in (1, 2):
        outcome = deploy(unit_board, make_bundle(kernels=bytes([number])), options)
        assert (outcome.release, outcome.unit) == (number, "restarted")
        assert done(unit_board) == ["stop", f"start {number}"]
        assert state(unit_board) == "active"
    assert deployment.rollback(unit_board.target(), None, options).unit == "restarted"
    assert done(unit_board) == ["stop", "start 1"]


def test_after_a_failed_golden_run_the_old_release_runs_again(unit_board, make_bundle, options):
    deploy(unit_board, make_bundle(), options)
    done(unit_board)
    with pytest.raises(GoldenError, match="release 1 is still current"):
        deploy(unit_board, make_bundle(verdict="differs"), options)
    assert done(unit_board) == ["stop", "start 1"]
    assert state(unit_board) == "active"


def test_a_release_that_does_not_start_gives_way_to_the_one_before(
    unit_board, make_bundle, options
):
    deploy(unit_board, make_bundle(), options)
    done(unit_board)
    with pytest.raises(DeployError) as caught:
        deploy(unit_board, make_bundle(broken=b"2"), options)
    assert "edgepipe does not start: journal of: " in str(caught.value)
    assert "release 1 is current again" in str(caught.value)
    error = caught.value
    assert error.hint == "the journal of edgepipe says why"
    assert (error.option, error.value) == ("journal", "board")
    # The child that starts the unit of a killed deploy starts what is current when it gets to it.
    calls = [call for call in dict.fromkeys(done(unit_board)) if call != "start 1"]
    assert calls == ["stop", "start 2", "restart 1"]
    assert state(unit_board) == "active"


def test_a_link_lost_during_the_golden_run_lets_the_old_release_run_again(
    unit_board, make_bundle, options
):
    deploy(unit_board, make_bundle(), options)
    done(unit_board)

    class Cut(Silent):
        def step(self, text):
            if text.startswith("golden"):
                wait_until(lambda: done(unit_board) == ["stop"])
                unit_board.link.cut()

    with pytest.raises(DeployError, match="release 1 is still current"):
        deploy(unit_board, make_bundle(verdict="hang"), options, Cut())
    # Long before the golden run's time limit.
    wait_until(lambda: done(unit_board) == ["start 1"])
    wait_until(lambda: state(unit_board) == "active")


def test_an_unchanged_release_that_runs_is_left_alone_and_a_stopped_one_is_started(
    unit_board, make_bundle, options
):
    deploy(unit_board, make_bundle(), options)
    done(unit_board)
    assert deploy(unit_board, make_bundle(), options).unit == "active"
    assert done(unit_board) == []
    (unit_board.home / "unit").write_text("failed\n")
    assert deploy(unit_board, make_bundle(), options).unit == "started"
    assert done(unit_board) == ["start 1"]


def test_no_restart_leaves_the_unit_alone(unit_board, make_bundle, runtime, capsys):
    where = ["--host", "board", "--ssh-config", str(unit_board.ssh_config)]
    command = ["deploy", str(make_bundle()), *where, "--runtime", str(runtime)]
    assert main([*command, "--no-restart"]) == 0
    assert done(unit_board) == []
    assert main([*command]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split()[:4] == [
        "board",
        "unchanged",
        "1",
        "started",
    ]


def test_a_board_without_the_unit_can_be_deployed_to(unit_board, make_bundle, options):
    outcome = deploy(unit_board, make_bundle(), options, unit="another")
    assert (outcome.result, outcome.unit) == ("deployed", "")
    assert done(unit_board) == []


def test_lines_of_logs_do_not_control_the_terminal(unit_board, capsys):
    journal = unit_board.folder / "programs" / "journalctl"
    journal.write_text("#!/bin/sh\nprintf 'a\\033[2J\\302\\2331A\\342\\200\\256b\\rfake\\n'\n")
    where = ["--host", unit_board.name, "--ssh-config", str(unit_board.ssh_config)]
    assert main(["logs", *where]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(r"a\u001b[2J\u009b1A\u202eb")
    assert not set(shown) & set("\x1b\x9b\u202e\r")


def test_logs_are_shown_and_followed_until_the_link_ends(unit_board, capsys):
    where = ["--host", "board", "--ssh-config", str(unit_board.ssh_config)]
    assert main(["logs", *where, "--lines", "7"]) == 0
    shown = capsys.readouterr().out
    assert shown == "journal of: --no-pager -o short-iso -u edgepipe -n 7\n"
    assert main(["logs", *where, "--unit", "another"]) == 1
    assert "logs: the board has no unit another" in capsys.readouterr().err

    lines = logs.read(unit_board.target(), "edgepipe", 1, follow=True)
    assert next(lines).endswith("-n 1 -f")
    assert next(lines) == "more"
    threading.Timer(0.2, unit_board.link.cut).start()
    with pytest.raises(DeployError, match="connection lost"):
        list(lines)


@pytest.mark.parametrize("unit", ["-x", "a b", "a;b", "a/b"])
def test_a_unit_with_odd_characters_is_refused(unit):
    with pytest.raises(DeployError, match="expected the name of a systemd unit"):
        deployment.check_unit(unit)

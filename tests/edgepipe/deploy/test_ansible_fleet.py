"""The Ansible collection on boards behind real sshds: roll-out, check mode, failure, rollback."""

import pytest
from ansible_fleet import AnsibleFleet, changed

NAMES = ("door", "gate", "roof")


@pytest.fixture
def boards(make_board):
    return [make_board(name) for name in NAMES]


@pytest.fixture
def fleet(boards, runtime, tmp_path):
    config = tmp_path / "ssh_config"
    config.write_text("".join(board.ssh_config.read_text() for board in boards))
    return AnsibleFleet(
        tmp_path, NAMES, config, {"edgepipe_deploy_options": ["--runtime", str(runtime)]}
    )


def releases(boards):
    """Return the current release of each board, None for one without."""
    links = [board.home / "edgepipe/current" for board in boards]
    return [int(link.readlink().name) if link.is_symlink() else None for link in links]


@pytest.mark.systems
def test_a_roll_out_reaches_all_boards_once(fleet, boards, make_bundle):
    code, counts = fleet.play("edgepipe.fleet.rollout", "--check", edgepipe_bundle=make_bundle())
    assert (code, changed(counts)) == (0, {"door": 1, "gate": 1, "roof": 1})
    assert releases(boards) == [None, None, None]
    bundle = make_bundle()
    code, counts = fleet.play("edgepipe.fleet.rollout", edgepipe_bundle=bundle)
    assert (code, changed(counts)) == (0, {"door": 1, "gate": 1, "roof": 1})
    assert releases(boards) == [1, 1, 1]
    for options in ((), ("--check",)):
        code, counts = fleet.play("edgepipe.fleet.rollout", *options, edgepipe_bundle=bundle)
        assert (code, changed(counts)) == (0, {"door": 0, "gate": 0, "roof": 0})
    assert releases(boards) == [1, 1, 1]


def test_a_golden_run_that_fails_ends_the_roll_out_at_the_first_board(fleet, boards, make_bundle):
    fleet.play("edgepipe.fleet.rollout", edgepipe_bundle=make_bundle())
    code, counts = fleet.play(
        "edgepipe.fleet.rollout", edgepipe_bundle=make_bundle(verdict="differs")
    )
    assert code != 0
    assert counts["door"]["failed"] == 1
    assert counts.keys() == {"door"}
    assert releases(boards) == [1, 1, 1]


@pytest.mark.systems
def test_a_rollback_makes_the_release_before_current(fleet, boards, make_bundle):
    for kernels in (b"1", b"2"):
        fleet.play("edgepipe.fleet.rollout", edgepipe_bundle=make_bundle(kernels=kernels))
    assert releases(boards) == [2, 2, 2]
    code, counts = fleet.play("edgepipe.fleet.rollback", "--check")
    assert (code, releases(boards)) == (0, [2, 2, 2])
    code, counts = fleet.play("edgepipe.fleet.rollback")
    assert (code, changed(counts)) == (0, {"door": 1, "gate": 1, "roof": 1})
    assert releases(boards) == [1, 1, 1]


def test_a_release_without_a_bundle_is_refused(fleet, boards):
    code, counts = fleet.play("edgepipe.fleet.rollout")
    assert code != 0
    assert counts["door"]["failed"] == 1
    assert releases(boards) == [None, None, None]

"""Deploy to a board behind a real sshd: releases, the switch, uploads, and every refusal."""

import dataclasses
import hashlib
import os
import shutil
import subprocess

import pytest

from edgepipe.deploy import deployment, plan
from edgepipe.deploy.connection import Connection, Target
from edgepipe.deploy.session import GoldenError
from edgepipe.errors import DeployError
from edgepipe.progress import Silent


def deploy(board, bundle, options, progress=None, **changes):
    source = deployment.open_source(bundle)
    options = dataclasses.replace(options, **changes)
    return deployment.deploy(board.target(), source, options, progress)


def current(board):
    return str((board.root / "current").readlink())


def tree(folder):
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def copy_release(board, *copies):
    """Put copies of release 1 next to it; the last one becomes current."""
    for number in copies:
        shutil.copytree(board.root / "releases/1", board.root / f"releases/{number}")
    (board.root / "current").unlink()
    (board.root / "current").symlink_to(f"releases/{copies[-1]}")


def numbers(board):
    return sorted(path.name for path in (board.root / "releases").iterdir())


def test_the_first_deploy_makes_release_1_current_with_bundle_and_runtime(
    board, make_bundle, options, runtime
):
    outcome = deploy(board, make_bundle(), options)
    assert (outcome.result, outcome.release, outcome.sent_files) == ("deployed", 1, 5)
    release = board.root / "current"
    assert current(board) == "releases/1"
    assert sorted(tree(release)) == [
        "SHA256SUMS",
        "bin/edgepipe-run",
        "bundle/manifest.digest",
        "bundle/manifest.json",
        "bundle/stages/0_arm/weights.bin",
        "bundle/verdict",
        "release.json",
    ]
    assert (release / "bin/edgepipe-run").read_bytes() == runtime.read_bytes()
    ran = subprocess.run([release / "bin/edgepipe-run", release / "bundle", "--golden"])
    assert ran.returncode == 0
    assert subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=release).returncode == 0


def test_an_unchanged_bundle_sends_nothing_and_takes_no_new_number(board, make_bundle, options):
    deploy(board, make_bundle(), options)
    outcome = deploy(board, make_bundle(), options)
    assert (outcome.result, outcome.release, outcome.sent_bytes) == ("unchanged", 1, 0)
    assert numbers(board) == ["1"]


def test_only_changed_files_are_sent_and_the_others_are_linked(board, make_bundle, options):
    deploy(board, make_bundle(), options)
    outcome = deploy(board, make_bundle(kernels=b"new"), options)
    assert (outcome.release, outcome.sent_files) == (
        2,
        3,
    )  # manifest, digest, new file
    assert outcome.sent_bytes < 4000
    weights = "bundle/stages/0_arm/weights.bin"
    one, two = (board.root / "releases" / n / weights for n in "12")
    assert one.stat().st_ino == two.stat().st_ino
    assert (board.root / "current/bundle/stages/0_arm/kernels.bin").read_bytes() == b"new"


def test_a_file_that_rotted_on_the_board_is_sent_again(board, make_bundle, options):
    deploy(board, make_bundle(), options)
    (board.root / "current/bundle/stages/0_arm/weights.bin").write_bytes(bytes(99_999) + b"\1")
    outcome = deploy(board, make_bundle(), options)
    assert (outcome.result, outcome.release) == ("deployed", 2)
    assert (board.root / "current/bundle/stages/0_arm/weights.bin").read_bytes() == bytes(100_000)


def test_a_failed_golden_run_leaves_the_old_release_and_no_trace(board, make_bundle, options):
    deploy(board, make_bundle(), options)
    before = tree(board.root / "releases")
    with pytest.raises(GoldenError) as caught:
        deploy(board, make_bundle(verdict="differs"), options)
    assert str(caught.value) == (
        "board: golden run failed: golden: differs; release 1 is still current"
    )
    assert caught.value.hint == (
        "the board does not compute the recorded outputs: check its bitstream with "
        "`edgepipe bitstream check`, and run the bundle on this machine with `edgepipe run`"
    )
    assert current(board) == "releases/1"
    assert tree(board.root / "releases") == before


def test_a_golden_run_without_an_accelerator_fails_unless_the_simulator_is_allowed(
    board, make_bundle, options
):
    deploy(board, make_bundle(), options)
    before = tree(board.root / "releases")
    with pytest.raises(GoldenError) as caught:
        deploy(board, make_bundle(verdict="simulated"), options)
    assert str(caught.value) == (
        "board: golden run failed: VTA stages ran on the simulator, expected the accelerator; "
        "release 1 is still current"
    )
    assert caught.value.hint == (
        "`edgepipe doctor` says what is missing; to run them on the board's cores all the same, "
        "allow the simulator"
    )
    assert current(board) == "releases/1"
    assert tree(board.root / "releases") == before

    notices = []
    progress = Silent()
    progress.notice = notices.append
    bundle = make_bundle(verdict="simulated")
    allowed = deploy(board, bundle, options, progress, allow_simulator=True)
    assert allowed.result == "deployed"
    assert notices == ["board: there is no accelerator; the golden run was on the simulator"]


def test_a_golden_run_that_hangs_is_ended(board, make_bundle, options):
    with pytest.raises(DeployError, match="no result after 1 s; no release is current yet"):
        deploy(board, make_bundle(verdict="hang"), options, golden_timeout_s=1)
    assert not (board.root / "current").exists()


def test_old_releases_are_removed_but_never_the_current_one(board, make_bundle, options):
    deploy(board, make_bundle(), options)
    copy_release(board, 2, 10)
    deploy(board, make_bundle(kernels=b"11"), options, keep=2)
    assert numbers(board) == ["10", "11"]
    deployment.rollback(board.target(), None, options)
    assert current(board) == "releases/10"
    deploy(board, make_bundle(kernels=b"12"), options, keep=1)
    assert (current(board), numbers(board)) == ("releases/12", ["12"])


def test_rollback_goes_one_release_back_or_to_a_number(board, make_bundle, options):
    deploy(board, make_bundle(), options)
    copy_release(board, 2, 3)
    assert deployment.rollback(board.target(), None, options).release == 2
    assert deployment.rollback(board.target(), None, options).release == 1
    with pytest.raises(DeployError, match="board: no release before 1 to return to") as caught:
        deployment.rollback(board.target(), None, options)
    assert caught.value.hint == "releases there: 1, 2, 3"
    assert deployment.rollback(board.target(), 3, options).release == 3
    assert current(board) == "releases/3"
    with pytest.raises(DeployError, match="board: no release 7"):
        deployment.rollback(board.target(), 7, options)


def test_rollback_to_a_release_that_fails_its_golden_run_is_refused(board, make_bundle, options):
    deploy(board, make_bundle(), options)
    copy_release(board, 2)
    (board.root / "releases/1/bundle/verdict").unlink()
    with pytest.raises(GoldenError, match="release 2 is still current"):
        deployment.rollback(board.target(), None, options)
    assert current(board) == "releases/2"


def test_a_dry_run_prints_the_plan_and_changes_nothing(board, make_bundle, options):
    outcome = deploy(board, make_bundle(), options, dry_run=True)
    assert "would send bundle/verdict" in outcome.lines
    assert "would make release 1 current after its golden run" in outcome.lines
    assert list(board.home.iterdir()) == []
    deploy(board, make_bundle(), options)
    copy_release(board, 2)
    before = tree(board.root)
    outcome = deploy(board, make_bundle(kernels=b"3"), options, dry_run=True, keep=2)
    assert "would remove release 1" in outcome.lines
    assert deployment.rollback(
        board.target(), None, dataclasses.replace(options, dry_run=True)
    ).lines == ("would make release 1 current",)
    assert tree(board.root) == before


def test_the_command_after_the_switch_runs_in_the_new_release(board, make_bundle, options):
    deploy(board, make_bundle(), options, after='pwd -P > "$HOME/where"; cat bundle/verdict')
    assert (board.home / "where").read_text().strip() == str(board.root / "releases/1")


def test_a_failing_command_after_the_switch_brings_the_old_release_back(
    board, make_bundle, options
):
    deploy(board, make_bundle(), options)
    after = (
        'pwd -P >> "$HOME/where"; test ! -e bundle/stages/0_arm/kernels.bin || { echo no; exit 3; }'
    )
    with pytest.raises(DeployError, match="adopt: no; release 1 is current again") as caught:
        deploy(board, make_bundle(kernels=b"2"), options, after=after)
    assert caught.value.hint == f"try {after!r} on the board by hand"
    assert current(board) == "releases/1"
    visited = [line.rpartition("/")[2] for line in (board.home / "where").read_text().split()]
    assert visited == ["2", "1"]


def test_a_second_deploy_reports_who_holds_the_lock(board, make_bundle, options):
    with Connection(board.target()) as first:
        first.begin("", "", "ada@laptop")
        first.lock()
        with pytest.raises(DeployError) as caught:
            deploy(board, make_bundle(), options)
        assert str(caught.value) == "board: another deploy is in progress (ada@laptop)"
        assert caught.value.hint == (
            "wait until it ends; the lock is released when its connection ends"
        )
    assert deploy(board, make_bundle(), options).release == 1


def test_the_lock_is_released_when_its_connection_breaks(board, make_bundle, options):
    with Connection(board.target()) as first:
        first.begin("", "", "ada@laptop")
        first.lock()
        board.link.cut()
        board.link.mend()
        assert deploy(board, make_bundle(), options).release == 1
        with pytest.raises(DeployError, match=r"connection lost|the lock and therefore"):
            first.run("prune", "1")


def test_releases_are_listed_with_what_they_are(board, make_bundle, options):
    assert deployment.releases(board.target()).releases == ()
    deploy(board, make_bundle(), options)
    (board.root / "releases/2").mkdir()  # not created by edgepipe: no record
    inventory = deployment.releases(board.target())
    assert inventory.current == 1
    assert [r.number for r in inventory.releases] == [1, 2]
    assert inventory.releases[0].record.deployed_by == "tester@host"
    assert inventory.releases[0].record.name == "net"
    assert inventory.releases[1].record is None


def test_output_of_start_up_files_does_no_harm(board, make_bundle, options):
    (board.home / ".bashrc").write_text("echo welcome; echo current 9\n")
    assert deploy(board, make_bundle(), options).release == 1


def test_a_full_disk_in_the_middle_of_the_upload_leaves_the_old_release(
    make_board, make_bundle, options
):
    board = make_board(most_file_bytes=1_000_000)
    deploy(board, make_bundle(), options)
    with pytest.raises(DeployError, match=r"receive: .*; release 1 is still current") as caught:
        deploy(board, make_bundle(big=os.urandom(2_000_000)), options)
    assert caught.value.hint == "examine the board to see what it lacks"
    assert current(board) == "releases/1"
    assert numbers(board) == ["1"]
    assert deploy(board, make_bundle(kernels=b"small"), options).release == 2


def test_too_little_disk_space_is_reported_before_anything_is_sent():
    facts = plan.parse_facts("machine aarch64\ndf /dev/mmcblk0p2 100 95 5000 5% /\n", "board")
    assert facts.free_bytes == 5000 * 1024
    todo = plan.Plan(
        number=1, links={}, uploads=("x",), upload_bytes=2 << 20, pruned=(), unchanged=None
    )
    with pytest.raises(
        DeployError, match="board: 5000 KiB are free, 6144 KiB are needed"
    ) as caught:
        plan.check_space(todo, facts, "board")
    assert caught.value.hint == "free some space on the board's disk, or keep fewer releases"


def test_a_bundle_for_another_architecture_is_refused_before_the_lock(
    board, make_bundle, options, tmp_path
):
    program = tmp_path / "edgepipe-run"
    program.write_bytes(b"\x7fELF\x02\x01" + bytes(12) + b"\xb7\0")
    with pytest.raises(DeployError, match=r"board: the board is x86_64, the bundle is for aarch64"):
        deploy(board, make_bundle(architecture="aarch64"), options, runtimes=(program,))
    assert list(board.home.iterdir()) == []


def test_a_runtime_that_is_not_a_program_is_refused(board, make_bundle, options, tmp_path):
    script = tmp_path / "edgepipe-run"
    script.write_text("#!/bin/sh\n")
    with pytest.raises(DeployError, match="not a program for aarch64, armhf, x86_64"):
        deploy(board, make_bundle(), options, runtimes=(script,))


def test_an_unknown_host_key_is_refused_with_the_remedy(board, make_bundle, options):
    (board.folder / "known_hosts").write_text("")
    with pytest.raises(DeployError, match=r"board: cannot connect .*[Hh]ost key") as caught:
        deploy(board, make_bundle(), options)
    assert caught.value.hint == (
        "log in once with `ssh board` and compare the key that it shows with the board's key; "
        "after a new SD card, remove the old key with `ssh-keygen -R`"
    )


def test_a_changed_host_key_is_refused(board, make_bundle, options):
    other = (board.folder / "user_key.pub").read_text()
    (board.folder / "known_hosts").write_text(f"board {other}")
    with pytest.raises(DeployError, match="Host key verification failed"):
        deploy(board, make_bundle(), options)


def test_a_board_without_our_key_is_refused_with_the_remedy(board, make_bundle, options):
    (board.folder / "user_key.pub").write_text("")
    with pytest.raises(DeployError, match="Permission denied") as caught:
        deploy(board, make_bundle(), options)
    assert caught.value.hint == "put a key on the board: `ssh-copy-id board`"


def test_a_board_that_is_off_is_refused(board, make_bundle, options):
    board.link.close()
    with pytest.raises(DeployError, match="board: cannot connect"):
        deploy(board, make_bundle(), options)


@pytest.mark.parametrize("host", ["", "-oProxyCommand=id", "a b"])
def test_a_host_that_ssh_could_take_for_an_option_is_refused(host):
    with pytest.raises(DeployError, match=r"expected \[USER@\]HOST"):
        Target(host=host, root="edgepipe")


@pytest.mark.parametrize("root", ["", "a b", "../x", "$(id)"])
def test_a_folder_with_odd_characters_is_refused(root):
    with pytest.raises(DeployError, match="expected letters"):
        Target(host="board", root=root)


def test_missing_tools_and_folders_that_cannot_be_written_are_named():
    text = "machine armv7l\nmissing flock\nmissing timeout\nunwritable /opt\ndf / 1 1 1 1% /\n"
    facts = plan.parse_facts(text, "board")
    assert plan.architecture(facts, "board") == "armhf"
    with pytest.raises(DeployError, match="board: missing tools: flock, timeout"):
        plan.check_board(facts, "board")
    with pytest.raises(DeployError, match="/opt cannot be written by this user"):
        plan.check_board(dataclasses.replace(facts, missing_tools=()), "board")


def test_a_machine_that_edgepipe_does_not_know_is_named():
    facts = plan.parse_facts("machine riscv64\ndf / 1 1 1 1% /\n", "board")
    with pytest.raises(
        DeployError, match="machine riscv64 is not supported, expected one of aarch64"
    ):
        plan.architecture(facts, "board")

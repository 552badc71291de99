"""The image of a board, updated by RAUC with a release inside: golden runs, refusal, rollback."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from needs import built, installed
from rauc_board import ATTEMPTS, EXAMPLE, SLOT_BYTES, RaucBoard, Signer
from small_networks import build_small_bundle, with_wrong_golden

pytestmark = [pytest.mark.sim, pytest.mark.systems]

Update = Callable[..., Path]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_small_bundle(tmp_path_factory.mktemp("bundle"), board="ultra96")


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Signer:
    return Signer(tmp_path_factory.mktemp("signer"), "builder")


def make_image(folder: Path, bundle: Path, name: str) -> Path:
    """Write a release with the programs of this machine, which stands in for the board's."""
    spec = importlib.util.spec_from_file_location("make_release", EXAMPLE / "make_release.py")
    assert spec is not None and spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    example.write(bundle, "x86_64", name, folder, [built("edgepipe-run")])
    return folder


@pytest.fixture
def make_update(tmp_path: Path, bundle: Path, signer: Signer) -> Update:
    """Return a function that makes a RAUC bundle with a release inside."""

    def make(name: str, inside: Path = bundle, by: Signer = signer, form: str = "plain") -> Path:
        image = make_image(tmp_path / f"image-{name}", inside, name)
        output = tmp_path / f"{name}.raucb"
        command = [EXAMPLE / "make_update.sh", image, name, by.certificate, by.key, output, form]
        environment = {"SIZE": str(SLOT_BYTES >> 10), "PATH": "/usr/bin:/bin:/usr/sbin:/sbin"}
        subprocess.run(command, check=True, env=environment, capture_output=True)
        return output

    return make


@pytest.fixture
def board(tmp_path: Path, signer: Signer, bundle: Path) -> RaucBoard:
    """Return a board whose slot A has the factory's image, which was accepted once."""
    folder = tmp_path / "board"
    folder.mkdir()
    board = RaucBoard(folder, signer.authority)
    board.write_slot("A", make_image(tmp_path / "factory", bundle, "factory"))
    with board.booted() as slot:
        assert slot == "A"
        assert board.accept().returncode == 0
    assert board.current()[0] == 1
    return board


def install(board: RaucBoard, update: Path) -> subprocess.CompletedProcess[str]:
    return board.run("rauc", "install", update)


def log(board: RaucBoard) -> str:
    return (board.folder / "service.log").read_text()


def test_an_update_is_current_after_its_golden_runs(board: RaucBoard, make_update: Update) -> None:
    with board.booted():
        done = install(board, make_update("second"))
        assert done.returncode == 0, done.stderr
        assert "Running slot hook 'slot-post-install' for rootfs.1" in log(board)
        assert '"name": "factory"' in board.current()[1]  # until the new image is accepted
    assert board.uboot()["BOOT_ORDER"] == "B A"
    with board.booted() as slot:
        assert slot == "B"
        assert board.uboot()["BOOT_B_LEFT"] == str(ATTEMPTS - 1)
        done = board.accept()
        assert (done.returncode, done.stdout.splitlines()[-1]) == (
            0,
            "release 2 of the image is current",
        )
        assert board.uboot()["BOOT_B_LEFT"] == str(ATTEMPTS)
    number, record = board.current()
    assert (number, '"name": "second"' in record) == (2, True)


def test_a_damaged_update_is_refused(board: RaucBoard, make_update: Update) -> None:
    update = make_update("damaged")
    content = bytearray(update.read_bytes())
    content[len(content) // 2] ^= 1
    update.write_bytes(content)
    before = board.slots["B"].read_bytes()
    with board.booted():
        done = install(board, update)
    assert done.returncode == 1
    assert "signature verification failed" in done.stdout, done.stdout
    assert board.slots["B"].read_bytes() == before
    assert board.uboot()["BOOT_ORDER"] == "A B"


def test_an_update_of_another_signer_is_refused(
    board: RaucBoard, make_update: Update, tmp_path: Path
) -> None:
    with board.booted():
        done = install(board, make_update("foreign", by=Signer(tmp_path, "stranger")))
    assert done.returncode == 1
    assert "Verify error: unable to get local issuer certificate" in done.stdout, done.stdout
    assert board.uboot()["BOOT_ORDER"] == "A B"


def test_an_update_whose_release_gives_other_bits_is_never_started(
    board: RaucBoard, make_update: Update, bundle: Path, tmp_path: Path
) -> None:
    wrong = with_wrong_golden(bundle, tmp_path / "wrong.edgepipe")
    with board.booted():
        done = install(board, make_update("wrong", wrong))
        assert done.returncode == 1
        assert "output 'body' differs from the golden output: 1 of" in log(board)
    found = board.uboot()
    assert (found["BOOT_ORDER"].split()[0], found["BOOT_B_LEFT"]) == ("A", "0")
    with board.booted() as slot:
        assert slot == "A"


def test_an_image_that_fails_on_the_accelerator_gives_way_to_the_one_before(
    board: RaucBoard, make_update: Update
) -> None:
    with board.booted():
        assert install(board, make_update("second")).returncode == 0
    with board.booted() as slot:
        assert slot == "B"
        done = board.accept(device="uio")  # this machine has no accelerator
        assert done.returncode == 1
        assert "the golden run of this image has failed; the slot before is started" in done.stderr
        assert "\nhint: see the messages above; build an image for this board" in done.stderr
    with board.booted() as slot:
        assert slot == "A"
        assert board.accept().returncode == 0
    number, record = board.current()
    assert (number, '"name": "factory"' in record) == (1, True)


def test_a_good_image_starts_also_if_its_release_cannot_become_current(
    board: RaucBoard, make_update: Update
) -> None:
    with board.booted():
        assert install(board, make_update("second")).returncode == 0
    lock = board.root / "adopting"
    lock.unlink()
    lock.mkdir()  # as a data partition that cannot be written
    with board.booted() as slot:
        assert slot == "B"
        done = board.accept()
        assert done.returncode == 0  # 1 would start the board again and again
        assert "the image is good, but its release cannot become the current one" in done.stderr
        assert "\nhint: see the message above and the free space of " in done.stderr
        assert board.uboot()["BOOT_B_LEFT"] == str(ATTEMPTS)
        assert board.current()[0] == 1
        lock.rmdir()
        assert board.accept().returncode == 0
    assert board.current()[0] == 2


def test_an_image_whose_release_is_missing_gives_way_to_the_one_before(
    board: RaucBoard, tmp_path: Path, bundle: Path
) -> None:
    image = make_image(tmp_path / "image", bundle, "empty")
    shutil.rmtree(image / "usr/lib/edgepipe/release")
    with board.booted():
        (board.root / "adopted").unlink()
        done = board.run(image / "usr/lib/edgepipe/accept_image.sh", board.root)
        assert done.returncode == 1
        assert "release has no bin/edgepipe-run, expected a release" in done.stderr
        assert board.uboot()["BOOT_A_LEFT"] == "0"


def test_an_image_that_never_answers_gives_way_after_three_starts(
    board: RaucBoard, make_update: Update
) -> None:
    with board.booted():
        assert install(board, make_update("second")).returncode == 0
    assert [board.choose() for _ in range(ATTEMPTS + 1)] == ["B", "B", "B", "A"]


def test_a_later_fault_does_not_give_up_an_accepted_image(board: RaucBoard) -> None:
    with board.booted() as slot:
        assert slot == "A"
        done = board.accept(device="uio")
    assert done.returncode == 0
    assert "the golden run of an image that was good before has failed" in done.stderr
    assert "\nhint: examine the board with `edgepipe doctor`" in done.stderr
    assert board.uboot()["BOOT_A_LEFT"] == str(ATTEMPTS)


def test_a_rollback_brings_its_own_release_back(board: RaucBoard, make_update: Update) -> None:
    with board.booted():
        assert install(board, make_update("second")).returncode == 0
    with board.booted():
        assert board.accept().returncode == 0
        assert board.current()[0] == 2
        assert board.run("rauc", "status", "mark-active", "other").returncode == 0
    with board.booted() as slot:
        assert slot == "A"
        assert board.accept().returncode == 0
    number, record = board.current()
    assert (number, '"name": "factory"' in record) == (3, True)


def test_a_deployed_release_stays_until_the_next_image(board: RaucBoard) -> None:
    deployed = board.root / "releases/2"
    shutil.copytree(board.root / "releases/1", deployed)
    (board.root / "current").unlink()
    (board.root / "current").symlink_to("releases/2")
    with board.booted():
        assert board.accept().returncode == 0
    assert board.current()[0] == 2


def test_old_releases_of_images_are_removed(board: RaucBoard, bundle: Path, tmp_path: Path) -> None:
    for number in range(2, 6):
        image = make_image(tmp_path / str(number), bundle, f"image {number}")
        script = image / "usr/lib/edgepipe/adopt_release.sh"
        done = board.run(script, board.root)
        assert done.stdout == f"release {number} of the image is current\n", done.stderr
        assert board.run(script, board.root).stdout == ""  # it is, already
    assert sorted(path.name for path in (board.root / "releases").iterdir()) == ["3", "4", "5"]


def test_a_damaged_release_is_not_adopted(board: RaucBoard, bundle: Path, tmp_path: Path) -> None:
    image = make_image(tmp_path / "image", bundle, "damaged")
    (image / "usr/lib/edgepipe/release/bundle/network.json").write_text("{}")
    for script, argument in (("adopt_release.sh", board.root), ("golden_run.sh", "simulator")):
        done = board.run(image / "usr/lib/edgepipe" / script, argument)
        assert done.returncode != 0
        assert "bundle/network.json: FAILED" in done.stdout + done.stderr
    assert board.current()[0] == 1


def test_a_verity_bundle_says_what_is_inside(make_update: Update, signer: Signer) -> None:
    update = make_update("verity", form="verity")
    done = subprocess.run(
        ["rauc", "info", f"--keyring={signer.authority}", update],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Bundle Format: \tverity" in done.stdout
    assert "post-install" in done.stdout


def test_menders_state_scripts_decide_by_the_golden_run(
    board: RaucBoard, bundle: Path, tmp_path: Path
) -> None:
    image = make_image(tmp_path / "image", bundle, "mended")
    folder = image / "usr/lib/edgepipe"
    for name, words in (
        ("ArtifactCommit_Enter_50_edgepipe", ["golden_run.sh", "uio"]),
        ("ArtifactCommit_Leave_50_edgepipe", ["adopt_release.sh", "/data/edgepipe"]),
    ):
        (line,) = [line for line in (EXAMPLE / name).read_text().splitlines() if "exec " in line]
        assert line.split()[1:] == [f"/usr/lib/edgepipe/{words[0]}", words[1]]
    assert board.run(folder / "golden_run.sh", "uio").returncode != 0
    assert board.run(folder / "golden_run.sh", "simulator").returncode == 0


@pytest.mark.parametrize("script", ["golden_run.sh", "adopt_release.sh", "make_update.sh"])
def test_a_script_without_arguments_says_how_to_use_it(script: str) -> None:
    done = subprocess.run([EXAMPLE / script], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(f"usage: {script} ")


def test_an_image_without_a_release_is_an_error(tmp_path: Path) -> None:
    command = [EXAMPLE / "golden_run.sh", "simulator", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"{tmp_path} has no bin/edgepipe-run, expected a release" in done.stderr
    assert "\nhint: build the image again with make_release.py" in done.stderr


def test_a_release_is_written_from_the_command_line(bundle: Path, tmp_path: Path) -> None:
    def run(program: Path) -> subprocess.CompletedProcess[str]:
        command = [EXAMPLE / "make_release.py", bundle, "--architecture", "x86_64", "--name", "a"]
        words = [*command, "--image", tmp_path, "--runtime", program]
        return subprocess.run(
            [sys.executable, *map(str, words)], capture_output=True, text=True, check=False
        )

    done = run(EXAMPLE / "system.conf")
    assert done.returncode == 1
    assert "system.conf: not a program for aarch64, armhf, x86_64" in done.stderr
    assert "\nhint: name an edgepipe-run built for the board" in done.stderr
    assert run(built("edgepipe-run")).returncode == 0
    units = tmp_path / "etc/systemd/system"
    assert (units / "multi-user.target.wants/edgepipe-image.service").is_symlink()
    installed("systemd-analyze", "systemd")
    said = subprocess.run(
        ["systemd-analyze", "verify", f"--root={tmp_path}", "edgepipe-image.service"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Unknown" not in said.stderr, said.stderr

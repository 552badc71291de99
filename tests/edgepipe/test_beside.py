"""Several networks on one board: each is split for what the others leave."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import onnx
import pytest
from report_bundles import branches, build
from small_networks import DESCRIPTION, classifier

from edgepipe import boards
from edgepipe.beside import Neighbour, neighbours, shared
from edgepipe.bundle_report.model import Load
from edgepipe.bundle_report.reading import read_load, read_report
from edgepipe.cli import arguments
from edgepipe.cli.main import main
from edgepipe.errors import BundleError, PartitionError
from edgepipe.forecast import Forecast, ForecastOptions, forecast

ULTRA96 = boards.load("ultra96")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("beside"), branches())


@pytest.fixture(scope="module")
def load(bundle: Path) -> Load:
    return read_load(bundle)


def foreseen(folder: Path, *beside: Neighbour) -> Forecast:
    onnx.save(classifier(1), folder / "net.onnx")
    (folder / "net.toml").write_text(DESCRIPTION)
    return forecast(
        ForecastOptions(
            model=folder / "net.onnx", board=ULTRA96, objective="rule", beside=tuple(beside)
        )
    )


def test_a_load_is_the_work_of_all_stages_with_their_hops(bundle: Path, load: Load) -> None:
    report = read_report(bundle)
    hop_ms = ULTRA96.arm_timing.handover_us / 1e3
    of_vta, of_arm = (
        [stage.ms * stage.threads + hop_ms for stage in report.stages if stage.device == device]
        for device in ("vta", "arm")
    )
    assert load == Load(
        board="ultra96",
        vta_ms=pytest.approx(sum(of_vta)),
        arm_ms=pytest.approx(sum(of_arm)),
        bytes=report.memory.used_bytes,
        most_fps=report.prediction.frames_per_second,
    )


def test_what_is_left_of_a_board_is_what_others_do_not_take(bundle: Path, load: Load) -> None:
    fps = 0.4 * load.most_fps
    rest = shared(ULTRA96, [Neighbour(bundle=bundle, fps=fps)] * 2)
    assert rest.board.vta_share == pytest.approx(1 - 2 * fps * load.vta_ms / 1e3)
    assert rest.board.arm_share == pytest.approx(1 - 2 * fps * load.arm_ms / 3 / 1e3)
    assert rest.board.dma_bytes == ULTRA96.dma_bytes - 2 * load.bytes
    assert len(rest.notices) == 2
    assert rest.notices[0].startswith(f"beside {bundle} at {fps:g} frames/s, which takes ")


def test_without_others_all_is_left() -> None:
    assert shared(ULTRA96, []).board == ULTRA96


def test_times_are_longer_by_what_others_take(bundle: Path, load: Load, tmp_path: Path) -> None:
    alone = foreseen(tmp_path)
    other = Neighbour(bundle=bundle, fps=0.5 * load.most_fps)
    beside = foreseen(tmp_path, other)
    board = shared(ULTRA96, [other]).board
    share = {"vta": board.vta_share, "arm": board.arm_share}
    for one, two in zip(alone.stages, beside.stages, strict=True):
        assert two.ms == pytest.approx(one.ms / share[one.device])
    for one, two in zip(alone.operators, beside.operators, strict=True):
        assert two.ms == pytest.approx(one.ms / share[one.device])
    assert beside.memory.board_bytes == ULTRA96.dma_bytes - load.bytes
    assert any(notice.startswith("beside ") for notice in beside.notices)


def test_a_bundle_has_the_same_bytes_beside_others_if_the_split_is_the_same(
    bundle: Path, load: Load, tmp_path: Path
) -> None:
    """Programs and the record of costs are those of the board, whatever runs there, too."""
    other = Neighbour(bundle=bundle, fps=0.2 * load.most_fps)
    alone = build(tmp_path / "alone", classifier(1))
    beside = build(tmp_path / "beside", classifier(1), beside=(other,))
    assert alone.read_bytes() == beside.read_bytes()


@pytest.mark.parametrize(
    ("share", "times", "error", "hint"),
    [
        (1.5, 1, "runs at most ", "give the frames per second that it will run at"),
        (
            0.9,
            2,
            "the networks beside this one take ",
            "give them fewer frames per second, or leave one out",
        ),
    ],
)
def test_too_many_frames_are_refused(
    bundle: Path, load: Load, share: float, times: int, error: str, hint: str
) -> None:
    others = [Neighbour(bundle=bundle, fps=share * load.most_fps)] * times
    with pytest.raises(PartitionError, match=error) as caught:
        shared(ULTRA96, others)
    assert hint in caught.value.hint


def test_a_bundle_for_another_board_is_refused(bundle: Path) -> None:
    with pytest.raises(
        PartitionError, match="is for the board ultra96, expected pynq-z2"
    ) as caught:
        shared(boards.load("pynq-z2"), [Neighbour(bundle=bundle, fps=1)])
    assert caught.value.hint == "give a bundle that runs beside this network"


def test_others_that_take_all_memory_are_refused(bundle: Path, load: Load) -> None:
    board = dataclasses.replace(ULTRA96, dma_bytes=load.bytes)
    with pytest.raises(PartitionError, match="MiB of contiguous memory, ultra96 has") as caught:
        shared(board, [Neighbour(bundle=bundle, fps=1)])
    assert caught.value.hint == "build them with fewer slots, or leave one out"


def test_a_bundle_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError):
        shared(ULTRA96, [Neighbour(bundle=tmp_path / "none.edgepipe", fps=1)])


@pytest.mark.parametrize("fps", [0, -1, float("nan"), float("inf")])
def test_frames_per_second_are_more_than_none(fps: float) -> None:
    with pytest.raises(PartitionError, match="expected more than 0") as caught:
        neighbours([(Path("street.edgepipe"), fps)])
    assert caught.value.hint == "give the frames per second that it will run at"


def test_the_option_names_a_bundle_and_its_frames_per_second() -> None:
    assert arguments.neighbour("a@b/street.edgepipe@12.5") == (Path("a@b/street.edgepipe"), 12.5)


@pytest.mark.parametrize("text", ["street.edgepipe", "@5", "street.edgepipe@0", "s@-1", "s@fast"])
def test_another_text_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["inspect", "net.onnx", "--beside", text])
    assert "expected a bundle and its frames per second" in capsys.readouterr().err

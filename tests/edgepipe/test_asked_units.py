"""Cores and accelerators that are asked for: the stages on them, files of them, and refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import small_networks
from small_networks import DESCRIPTION, PREPROCESS, Builder

import edgepipe
from edgepipe import boards, recipe
from edgepipe.arrangement import Arrangement, arrange
from edgepipe.bundle import storage
from edgepipe.bundle.manifest import Stage
from edgepipe.codegen.asked_units import on_units
from edgepipe.codegen.planned_stages import PlannedStage
from edgepipe.errors import PartitionError
from edgepipe.forecast import ForecastOptions, forecast
from edgepipe.frontend.network import import_network, read_model
from edgepipe.partition.target import EXPECTED
from edgepipe.partition.wishes import Wishes
from edgepipe.progress import Silent
from edgepipe.quantize.quantizer import QuantizeOptions, quantize
from edgepipe.rehearsal import made_up_frames

BOARD = boards.load("ultra96")


def three_stages() -> onnx.ModelProto:
    """Return convolutions for both devices, of which ARM has the first and the last."""
    b = Builder(7)
    x = b.conv("image", "stem", (16, 3, 3, 3), strides=[2, 2], pads=[1] * 4)
    x = b.node("HardSwish", [b.conv(x, "body", (16, 16, 1, 1))], "swish")
    b.node("Sigmoid", [x], "result")
    return b.model([1, 3, 16, 16], {"result": 4}, opset=14)


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("units")
    onnx.save(three_stages(), folder / "net.onnx")
    (folder / "net.toml").write_text(DESCRIPTION)
    np.savez(folder / "frames.npz", np.concatenate(list(small_networks.frames(2))))
    return folder / "net.onnx"


@pytest.fixture(scope="module")
def arranged(network: Path) -> Arrangement:
    imported = import_network(network, read_model(network), (3, 16, 16))
    quantized = quantize(
        imported, made_up_frames(PREPROCESS), PREPROCESS, QuantizeOptions(frames=2)
    )
    check = recipe.vta_check(quantized, imported, BOARD)
    return arrange(quantized, check, BOARD, Wishes(objective="rule"), Silent())


@pytest.fixture
def stages(arranged: Arrangement) -> tuple[PlannedStage, ...]:
    assert [stage.segment.device for stage in arranged.stages] == ["arm", "vta", "arm"]
    return arranged.stages


def operators(stage: PlannedStage) -> list[str]:
    return [placed.operator.name for placed in stage.segment.operators]


def cores(stages: tuple[PlannedStage, ...] | tuple[Stage, ...]) -> list[tuple[int, ...]]:
    return [s.cores.cores if isinstance(s, PlannedStage) else s.cores for s in stages]


def test_a_stage_gets_its_cores_and_the_others_divide_the_rest(
    stages: tuple[PlannedStage, ...],
) -> None:
    first, vta, last = (operators(stage)[-1] for stage in stages)
    assert cores(on_units(stages, {first: (3,), vta: (0,)}, BOARD)) == [(3,), (0,), (1, 2)]
    both = on_units(stages, {first: (0, 2), last: (3,)}, BOARD)
    assert cores(both) == [(0, 2), (0,), (3,)]
    assert [stage.cores.threads for stage in both] == [2, 1, 1]
    assert on_units(stages, {}, BOARD) == stages


def test_units_that_cannot_be_are_refused(stages: tuple[PlannedStage, ...]) -> None:
    first, vta, last = (operators(stage)[-1] for stage in stages)
    other = operators(stages[0])[0]
    assert other != first
    unknown = boards.load("host")
    assert not unknown.cores
    for units, board, message, hint in (
        ({first: (4,)}, BOARD, f"{first}: cannot be placed on arm@4: core 4 does not exist",
         "ultra96 has cores 0 to 3; or leave them out"),
        ({vta: (1,)}, BOARD, f"{vta}: cannot be placed on vta@1: ultra96 has one accelerator, 0",
         "leave its number out"),
        ({first: (1,), other: (2,)}, BOARD, f"{first}: cannot be placed on arm@1: {other} is in "
         "the same stage and asks for 2", "ask for one unit for both, or for any"),
        ({first: (1, 2), last: (2,)}, BOARD, f"{last}: cannot be placed on arm@2: the stage of "
         f"{first} has core 2", "give each stage other cores, or any"),
        ({first: (1, 2, 3)}, BOARD, f"{first}: cannot be placed on arm@1,2,3: 1 other ARM stages "
         "have 0 cores left, expected one for each",
         "ask for fewer cores, for fewer stages, or for any cores"),
        ({first: (1,)}, unknown, f"{first}: cannot be placed on arm@1: the file of host does not "
         "say how many cores it has", "state cores in the board's file, or leave them out"),
    ):  # fmt: skip
        with pytest.raises(PartitionError) as caught:
            on_units(stages, units, board)
        assert str(caught.value) == message
        assert caught.value.hint == hint
        assert caught.value.option == "placement"


def test_a_bundle_has_the_cores_and_an_export_gives_them_again(
    network: Path, stages: tuple[PlannedStage, ...], tmp_path: Path
) -> None:
    first, file, bundle = (
        operators(stages[0])[-1],
        tmp_path / "net.placement.toml",
        tmp_path / "net",
    )
    edgepipe.build(
        network,
        board="ultra96",
        calibration=network.parent / "frames.npz",
        output=bundle,
        objective="rule",
        placement={first: "arm@3"},
        export_placement=file,
    )
    assert f'"{first}" = "arm@3"' in file.read_text()
    assert cores(storage.read_manifest(bundle).stages) == [(3,), (0,), (1, 2)]
    again = ForecastOptions(model=network, board=BOARD, placement_file=file)
    assert [stage.threads for stage in forecast(again).stages] == [1, 1, 2]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("gpu", "device 'gpu' is unknown"),
        ("arm@", "unit '' is no list of numbers"),
        ("arm@1,x/mine", "unit '1,x' is no list of numbers"),
        ("arm@100000", "unit '100000' is no list of numbers"),
        ("vta@0,0", "unit '0,0' names 0 twice"),
    ],
)
def test_other_texts_are_refused(text: str, why: str) -> None:
    with pytest.raises(PartitionError) as caught:
        Wishes().placed({"body": text})
    assert str(caught.value) == f"body: {why}"
    assert caught.value.hint == f"give {EXPECTED}"
    assert EXPECTED.endswith("arm/GENERATOR for a code generator")

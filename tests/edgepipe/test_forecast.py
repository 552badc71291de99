"""Forecasts: what a build would give, or why it would fail, without calibration pictures."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from small_networks import DESCRIPTION, Builder, classifier, unknown_to_the_importer

from edgepipe import boards
from edgepipe.errors import PartitionError, QuantizeError, UnbuildableError
from edgepipe.forecast import Forecast, ForecastOptions, OperatorForecast, forecast
from edgepipe.frontend.preprocess import Preprocess
from edgepipe.rehearsal import made_up_frames
from vta_stages.timing.cost_model import CostModel

ULTRA96 = boards.load("ultra96")


def foreseen(folder: Path, model: onnx.ModelProto, **options: Any) -> Forecast:
    onnx.save(model, folder / "net.onnx")
    options = {"board": ULTRA96, **options}
    return forecast(ForecastOptions(model=folder / "net.onnx", **options))


def gated() -> onnx.ModelProto:
    """Return convolutions around running sums, which stay float, and a softmax."""
    b = Builder(5)
    x = b.conv("image", "stem", (8, 3, 3, 3), pads=[1, 1, 1, 1])
    x = b.node("CumSum", [x, b.constant("rows", np.array(2))], "running")
    x = b.conv(x, "body", (16, 8, 3, 3), pads=[1, 1, 1, 1])
    x = b.node("GlobalAveragePool", [x], "pooled")
    x = b.node("Flatten", [x], "flat")
    b.node("Softmax", [x], "classes", axis=1)
    return b.model([1, 3, 16, 16], {"classes": 2})


def test_a_forecast_adds_up_and_is_always_the_same(tmp_path: Path) -> None:
    (tmp_path / "net.toml").write_text(DESCRIPTION)
    found = foreseen(tmp_path, classifier(1))
    assert found == foreseen(tmp_path, classifier(1))
    assert found.description == str(tmp_path / "net.toml")
    assert [stage.device for stage in found.stages] == ["arm", "vta", "arm"]
    assert found.hops == 2
    assert sum(stage.operators for stage in found.stages) == len(found.operators)
    hop_ms = ULTRA96.arm_timing.handover_us / 1e3
    assert found.vta_ms == pytest.approx(found.stages[1].ms + hop_ms)
    assert found.latency_ms == pytest.approx(sum(s.ms + hop_ms for s in found.stages))
    assert found.bound_ms <= found.interval_ms <= found.latency_ms
    assert all(stage.ms > 0 for stage in found.stages)
    assert found.arm_cores == 3
    assert found.arm_load == pytest.approx(found.arm_ms / 3 / found.interval_ms)
    assert 0 < found.vta_load <= 1.001
    memory = found.memory
    assert memory.slots == ULTRA96.slots(3)
    assert memory.used_bytes == memory.shared_bytes + memory.slots * memory.slot_bytes
    assert 0 < memory.used_bytes < memory.board_bytes == ULTRA96.dma_bytes


def test_without_a_description_one_is_drafted(tmp_path: Path) -> None:
    found = foreseen(tmp_path, classifier())
    assert found.description == ""
    assert 'order = "RGB"' in found.guesses
    assert found.notices[0] == "image: dynamic batch dimension 'n' fixed to 1"


def test_many_stages_share_the_cores(tmp_path: Path) -> None:
    """With one core, two ARM stages take turns; with a core each, the longer one counts."""
    # By the fitted costs the VTA would take longer than both.
    timing = CostModel()
    arm_timing = dataclasses.replace(ULTRA96.arm_timing, handover_us=0.0)
    cores = [boards.Threads(arm=boards.StageThreads(cores=which)) for which in ((1,), (1, 2))]
    found = [
        foreseen(
            tmp_path,
            classifier(1),
            objective="rule",
            board=dataclasses.replace(
                ULTRA96, threads=threads, timing=timing, arm_timing=arm_timing
            ),
        )
        for threads in cores
    ]
    assert [len(each.stages) for each in found] == [3, 3]
    one, two = (each.interval_ms for each in found)
    arm = [stage.ms for stage in found[1].stages if stage.device == "arm"]
    assert one >= sum(arm) * 0.999
    assert max(arm) * 0.999 <= two < sum(arm)


def test_where_a_board_allows_it_a_light_stage_has_no_core_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "net.toml").write_text(DESCRIPTION)
    arm = dataclasses.replace(ULTRA96.threads.arm, light_percent=50)
    board = dataclasses.replace(ULTRA96, threads=dataclasses.replace(ULTRA96.threads, arm=arm))
    known, found = (foreseen(tmp_path, classifier(1), board=each) for each in (ULTRA96, board))
    assert [[s.threads for s in f.stages] for f in (known, found)] == [[2, 1, 1], [3, 1, 1]]
    assert found.interval_ms <= known.interval_ms


def test_a_slow_memory_bounds_the_rate_but_not_a_frame_alone(tmp_path: Path) -> None:
    def on_memory(bytes_per_s: int) -> Forecast:
        timing = dataclasses.replace(ULTRA96.arm_timing, dram_bytes_per_s=bytes_per_s)
        board = dataclasses.replace(ULTRA96, arm_timing=timing)
        return foreseen(tmp_path, classifier(1), objective="rule", board=board)

    unknown, fast, slow, slower = map(on_memory, (0, 1 << 40, 2 << 20, 1 << 20))
    assert unknown == fast
    assert slow.latency_ms == fast.latency_ms
    assert slow.interval_ms > fast.interval_ms
    hop_ms = ULTRA96.arm_timing.handover_us / 1e3
    assert slower.interval_ms == pytest.approx(2 * slow.interval_ms, abs=2 * hop_ms)


def test_operators_that_stay_float_come_with_a_remedy(tmp_path: Path) -> None:
    found = foreseen(tmp_path, gated())
    groups = {group.kind: group for group in found.floats}
    running = groups["CumSum"]
    assert running.inside == running.operators != ()
    assert running.remedy == "train or export with operators that have an integer form"
    assert groups["Softmax"].inside == ()
    assert groups["Softmax"].remedy == "omit it: the classes keep their order without it"


def test_a_softmax_is_omitted_only_where_nothing_computes_with_it(tmp_path: Path) -> None:
    remedies = []
    for attends in (False, True):
        b = Builder(5)
        x = b.conv("image", "stem", (8, 3, 3, 3), pads=[1, 1, 1, 1])
        x = b.node("Softmax", [x], "weights", axis=1)
        shape = b.constant("shape", np.array([8, 256]))
        x = b.node("Transpose", [b.node("Reshape", [x, shape], "rows")], "turned", perm=[1, 0])
        if attends:
            x = b.node("MatMul", ["rows", x], "attended")
        found = foreseen(tmp_path, b.model([1, 3, 16, 16], {x: 2}))
        remedies += [group.remedy for group in found.floats if group.kind == "Softmax"]
    assert remedies == [
        "omit it: the classes keep their order without it",
        "leave it on ARM: attention weighs by sums over the data, which need more than int8",
    ]


def test_what_layers_read_should_be_computed_on_pictures(tmp_path: Path) -> None:
    """A product of two tensors of which one is broadcast along every second axis."""
    b = Builder(5)
    x = b.conv("image", "stem", (8, 3, 3, 3), pads=[1, 1, 1, 1])
    x = b.node("Reshape", [x, b.constant("shape", np.array([8, 4, 4, 4, 4]))], "parts")
    y = b.node("Reshape", [b.conv("image", "gate", (8, 3, 4, 4), strides=[4, 4])], "gates")
    b.nodes[-1].input.append(b.constant("thin", np.array([8, 1, 4, 1, 4])))
    x = b.node("Mul", [x, y], "weighed")
    x = b.node("Reshape", [x, b.constant("picture", np.array([1, 8, 16, 16]))], "map")
    model = b.model([1, 3, 16, 16], {b.conv(x, "last", (256, 8, 3, 3)): 4})
    # A search puts the last layer on ARM: fitting a camera's picture takes far longer than it.
    found = foreseen(tmp_path, model, objective="rule")
    (group,) = (group for group in found.floats if group.kind == "Mul")
    assert group.inside == group.operators != ()
    assert group.remedy == "keep tensors [1, c, h, w]: of this shape, it has no integer form"


def test_what_decodes_results_may_stay_float(tmp_path: Path) -> None:
    """As at the end of a YOLOv6: boxes are added to a grid of points."""
    b = Builder(5)
    x = b.conv("image", "stem", (4, 3, 3, 3), pads=[1, 1, 1, 1])
    x = b.node("Reshape", [x, b.constant("shape", np.array([1, 4, 256]))], "columns")
    x = b.node("Transpose", [x], "rows", perm=[0, 2, 1])
    grid = b.constant("grid", np.arange(1024, dtype=np.float32).reshape(1, 256, 4))
    x = b.node("Sub", [grid, x], "corners")
    found = foreseen(tmp_path, b.model([1, 3, 16, 16], {x: 3}))
    (group,) = (group for group in found.floats if group.operators)
    assert (group.kind, group.inside) == ("Sub", ())
    assert group.remedy == "leave it on ARM: it makes results, and no layer follows"


def test_cuts_and_placements_are_those_of_a_build(tmp_path: Path) -> None:
    found = foreseen(tmp_path, gated(), placement={"body": "arm"})
    body = next(operator for operator in found.operators if operator.name == "body")
    assert (body.device, body.reason) == ("arm", "placed there on request")
    with pytest.raises(PartitionError, match="operator 'bodi' is unknown") as caught:
        foreseen(tmp_path, gated(), placement={"bodi": "arm"})
    assert caught.value.hint.startswith("did you mean: body")


def test_what_can_run_an_operator_is_apart_from_what_should(tmp_path: Path) -> None:
    def operators(**options: Any) -> dict[str, OperatorForecast]:
        return {o.name: o for o in foreseen(tmp_path, gated(), **options).operators}

    for device in ("arm", "vta"):
        body = operators(placement={"body": device})["body"]
        assert (body.can, body.device) == (("arm", "vta"), device)
    assert operators()["running"].can == ("arm",)
    rules = tmp_path / "rules.toml"
    rules.write_text(
        'format = 1\ndevice = "arm"\n\n[[rules]]\nkinds = ["conv"]\ncan = false\nwhy = "busy"\n'
    )
    assert operators(rules=(rules,))["body"].can == ("vta",)


def test_layers_that_stay_float_on_request_are_those_of_a_build(tmp_path: Path) -> None:
    found = foreseen(tmp_path, classifier(), float_layers=("block_depth_Clip..block_Relu",))
    requested = [o.name for o in found.operators if o.reason.endswith("stays float: requested")]
    assert requested[0] == "block_depth_Conv"
    assert requested[-1] == "block_Relu"
    assert {o.device for o in found.operators if o.name in requested} == {"arm"}
    group = next(group for group in found.floats if "block_Relu" in group.operators)
    assert group.remedy == "requested; without the request they are in int8"
    with pytest.raises(QuantizeError, match="layer block_Rel: is unknown") as caught:
        foreseen(tmp_path, classifier(), float_layers=("block_Rel",))
    assert caught.value.hint.startswith("did you mean: block_Relu")


def test_int16_layers_are_those_of_a_build(tmp_path: Path) -> None:
    region = ("block_depth_Clip..block_Relu",)
    found = foreseen(tmp_path, classifier(), int16_layers=region, board=boards.load("pynq-z2"))
    requested = {o.name: o.device for o in found.operators if "in int16: req" in o.reason}
    assert requested == {"block_depth_Clip": "arm", "block_Relu": "arm"}
    assert not any("block_Relu" in group.operators for group in found.floats)
    with pytest.raises(QuantizeError, match="layer block_Rel: is unknown, so it cannot be in int"):
        foreseen(tmp_path, classifier(), int16_layers=("block_Rel",))


def test_a_network_that_cannot_be_imported_does_not_build(tmp_path: Path) -> None:
    with pytest.raises(UnbuildableError, match=r"net\.onnx does not build: .*Det") as caught:
        foreseen(tmp_path, unknown_to_the_importer())
    assert caught.value.hint.startswith("replace or decompose the named operators")


def test_a_pipeline_that_is_too_large_does_not_build(tmp_path: Path) -> None:
    small = dataclasses.replace(ULTRA96, dma_bytes=4096)
    with pytest.raises(UnbuildableError, match="MiB of contiguous memory for one frame") as caught:
        foreseen(tmp_path, classifier(), board=small)
    assert caught.value.hint.startswith("reserve more contiguous memory")


def test_made_up_pictures_have_the_networks_size_and_all_bytes() -> None:
    preprocess = Preprocess(width=70, height=50, order="RGB", mean=(0.0,) * 3, std=(1.0,) * 3)
    frames = made_up_frames(preprocess)
    assert [frame.shape for frame in frames] == [(1, 50, 70, 3)] * 2
    assert len(np.unique(frames[1])) == 256

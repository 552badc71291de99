"""Integer Relax on stock TVM defines the bits; everything else must equal it exactly.

For every network: the bundle with default placement (VTA stages on the simulator), the bundle
with every operator on ARM (kernels of the host, and of boards under qemu-user), and other cuts.
The longest of these are left to `make test-networks`.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from levels import every, long
from needs import built, emulated

from bench import models
from edgepipe import boards, description
from edgepipe.bundle import storage
from edgepipe.frontend.frames import frames_from
from edgepipe.frontend.network import load_network
from edgepipe.loading import load
from edgepipe.partition.operators import match_operators
from edgepipe.quantize.quantizer import QuantizedNetwork, quantize
from edgepipe.recipe import BuildOptions, build_bundle
from edgepipe.tvm_adapter import CompiledModule

BOARDS = {"aarch64": "ultra96", "armhf": "pynq-z2"}

pytestmark = [pytest.mark.models, pytest.mark.sim]


@dataclass(frozen=True, kw_only=True)
class Reference:
    """A quantised network, frames to run, and the outputs of integer Relax for them."""

    options: BuildOptions
    quantized: QuantizedNetwork = field(repr=False)
    frames: tuple[np.ndarray, ...] = field(repr=False)
    outputs: tuple[Mapping[str, np.ndarray], ...] = field(repr=False)

    @property
    def operators(self):
        return [operator.name for operator in match_operators(self.quantized.module)]


@pytest.fixture(scope="module")
def calibration(tmp_path_factory, fashion_mnist):
    def of(name):
        if not name.startswith("fmnist"):
            return models.EXAMPLES / "calibration"
        path = tmp_path_factory.mktemp("calibration") / "train.npz"
        np.savez(path, frames=fashion_mnist("train")[0][:64])
        return path

    return of


@pytest.fixture(scope="module")
def reference(model_path, calibration):
    """Quantise a network once; run a picture and random full-range bytes through integer Relax."""
    made = {}

    def of(name):
        if name not in made:
            model, where = model_path(name), models.description(name)
            source = calibration(name)
            options = BuildOptions(
                model=model,
                board=boards.load("ultra96"),
                calibration=source,
                output=Path("unused"),
                description=where,
            )
            preprocess = description.load(where).preprocess
            pictures = list(frames_from(source, preprocess))[: options.calibration_frames]
            quantized = quantize(load_network(model), pictures, preprocess)
            noise = np.random.default_rng(7).integers(0, 256, preprocess.frame_shape, np.uint8)
            frames = (pictures[0], noise)
            compiled = CompiledModule(quantized.module, runs=len(frames))
            outputs = tuple(compiled.run({quantized.input_name: frame}) for frame in frames)
            made[name] = Reference(
                options=options, quantized=quantized, frames=frames, outputs=outputs
            )
        return made[name]

    return of


@pytest.fixture(scope="module")
def bundle(reference, tmp_path_factory):
    """Build a bundle: by default, by the rule, with depthwise on the VTA, all on ARM; or cut."""
    made = {}

    def of(name, placement="default", cuts=(), board="ultra96"):
        key = (name, placement, cuts, board)
        if key not in made:
            path = tmp_path_factory.mktemp("bundle") / f"{name}.edgepipe"
            ref = reference(name)
            places = dict.fromkeys(ref.operators, "arm") if placement == "arm" else {}
            depthwise = "vta" if placement == "vta" else "auto"
            build_bundle(
                dataclasses.replace(
                    ref.options,
                    board=boards.load(board),
                    output=path,
                    placement=places,
                    depthwise=depthwise,
                    objective="rule" if placement == "rule" else "",
                    cuts=cuts,
                )
            )
            made[key] = path
        return made[key]

    return of


def assert_pipeline_equals_reference(path, ref):
    with load(path) as pipeline:
        for result, expected in zip(pipeline.map(ref.frames), ref.outputs, strict=True):
            for name in ref.quantized.output_names:
                assert result.outputs[name].tobytes() == expected[name].tobytes(), name


@pytest.mark.parametrize(
    ("name", "placement", "kinds"),
    [
        ("fmnist_resnet8", "default", ["arm", "vta", "arm"]),
        long("mobilenetv2_imagenet", "default", ["arm", "vta"] * 6 + ["arm"]),
        long("mobilenetv2_imagenet", "rule", ["arm", "vta"] * 15 + ["arm"]),
        long("mobilenetv2_imagenet", "vta", ["arm", "vta", "arm"]),
        ("nanodet_g_coco_416", "default", ["arm", "vta", "arm"]),
    ],
)
def test_the_simulator_gives_the_bits_of_integer_relax(name, placement, kinds, reference, bundle):
    path = bundle(name, placement)
    assert [s.kind for s in storage.check(path).stages] == kinds
    assert_pipeline_equals_reference(path, reference(name))


@pytest.mark.parametrize(
    "name", ["fmnist_resnet8", long("nanodet_g_coco_416"), long("mobilenetv2_imagenet")]
)
def test_host_kernels_give_the_bits_of_integer_relax(name, reference, bundle):
    path = bundle(name, "arm")
    assert [s.kind for s in storage.check(path).stages] == ["arm"]
    assert_pipeline_equals_reference(path, reference(name))


@pytest.mark.parametrize(
    ("name", "placement"),
    [
        ("fmnist_resnet8", "default"),
        long("nanodet_g_coco_416", "default"),
        long("mobilenetv2_imagenet", "default"),
        long("fmnist_resnet8", "arm"),
        long("mobilenetv2_imagenet", "arm"),
        long("nanodet_g_coco_416", "arm"),
    ],
)
def test_kernels_for_boards_give_the_bits_of_integer_relax(
    architecture, name, placement, reference, bundle, tmp_path
):
    ref = reference(name)
    frames = tmp_path / "frames.raw"
    frames.write_bytes(b"".join(frame.tobytes() for frame in ref.frames))
    path = bundle(name, placement, board=BOARDS[architecture])
    limits = ("--timeout", "300", "--device-timeout", "300")  # seconds; it is emulated
    arguments = ("--input", frames, "--tensors", tmp_path, *limits)
    ran = subprocess.run(
        [*emulated("edgepipe-run", architecture), path, *arguments],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stderr
    for number, expected in enumerate(ref.outputs):
        for output in ref.quantized.output_names:
            found = (tmp_path / f"{number}_{output}.bin").read_bytes()
            assert found == expected[output].tobytes(), (number, output)


@pytest.mark.parametrize(
    ("name", "share"),
    [
        long("fmnist_resnet8", 0.2),
        ("fmnist_resnet8", 0.5),
        long("fmnist_resnet8", 0.8),
        long("mobilenetv2_imagenet", 0.5),
        long("nanodet_g_coco_416", 0.4),
    ],
)
def test_any_cut_gives_the_same_bits(name, share, reference, bundle):
    ref = reference(name)
    convolutions = [o.name for o in match_operators(ref.quantized.module) if o.kind == "conv"]
    cut = convolutions[int(share * len(convolutions))]
    assert_pipeline_equals_reference(bundle(name, cuts=(cut,)), ref)


def test_several_cuts_make_several_stages_and_the_same_bits(reference, bundle):
    ref = reference("fmnist_resnet8")
    convolutions = [o.name for o in match_operators(ref.quantized.module) if o.kind == "conv"]
    path = bundle("fmnist_resnet8", cuts=(convolutions[0], convolutions[3], convolutions[6]))
    assert [s.kind for s in storage.check(path).stages] == ["arm", "vta", "vta", "vta", "arm"]
    assert_pipeline_equals_reference(path, ref)


def run_golden_on_the_model(path, *options, faulty=False):
    """Run the golden frame through the board's driver, on memory without cache coherence.

    If the device is ``faulty``, the outputs are right, but the golden run fails.
    """
    command = [
        built("edgepipe-run"),
        path,
        "--golden",
        "--frames",
        "2",
        "--json",
        "--device",
        *options,
    ]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ran.returncode == int(faulty), ran.stderr
    assert "golden: 2 frames" in ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])["statistics"]["stages"]


@pytest.mark.parametrize("name", ["fmnist_resnet8", "nanodet_g_coco_416"])
def test_memory_without_cache_coherence_changes_no_bit(name, bundle):
    assert all(stage["fault"] == "" for stage in run_golden_on_the_model(bundle(name), "model"))


def test_several_stages_on_two_devices_give_the_same_bits(reference, bundle):
    ref = reference("fmnist_resnet8")
    convolutions = [o.name for o in match_operators(ref.quantized.module) if o.kind == "conv"]
    path = bundle("fmnist_resnet8", cuts=(convolutions[0], convolutions[3], convolutions[6]))
    for device in ("model", "model:0+1"):
        assert all(stage["fault"] == "" for stage in run_golden_on_the_model(path, device))


@pytest.mark.parametrize("name", ["fmnist_resnet8", long("nanodet_g_coco_416")])
def test_the_fallback_of_an_accelerator_that_hangs_gives_the_same_bits(name, reference, tmp_path):
    ref = reference(name)
    path = tmp_path / "net"
    manifest = build_bundle(dataclasses.replace(ref.options, output=path, fallback=True))
    assert [stage.fallback for stage in manifest.stages] == ["", "stages/1_fallback", ""]
    faults = ("--fault", "hang=1", "--device-timeout", "0.2")
    stages = run_golden_on_the_model(path, "model", *faults, faulty=True)
    assert [stage["fallback_frames"] for stage in stages] == [0, 2, 0]


def test_an_operator_placed_on_arm_in_the_middle_gives_the_same_bits(reference, tmp_path):
    ref = reference("fmnist_resnet8")
    convolutions = [o.name for o in match_operators(ref.quantized.module) if o.kind == "conv"]
    path = tmp_path / "net"
    placement = {convolutions[4]: "arm", convolutions[5]: "vta"}
    build_bundle(dataclasses.replace(ref.options, output=path, placement=placement))
    kinds = [s.kind for s in storage.check(path).stages]
    assert kinds == ["arm", "vta", "arm", "vta", "arm"]
    assert_pipeline_equals_reference(path, ref)


@pytest.mark.parametrize("name", ["fmnist_resnet8", long("nanodet_g_coco_416")])
def test_the_other_encoding_revision_gives_the_same_bits(name, reference, tmp_path):
    ref = reference(name)
    board = boards.load("zcu104")
    assert board.accelerator.revision != ref.options.board.accelerator.revision
    build_bundle(dataclasses.replace(ref.options, output=tmp_path / "net", board=board))
    assert_pipeline_equals_reference(tmp_path / "net", ref)


@pytest.mark.parametrize("board", every(3, boards.names()))
def test_every_board_gets_a_bundle_of_the_same_bits(board, reference, tmp_path):
    ref = reference("fmnist_resnet8")
    path = tmp_path / "net"
    built = build_bundle(dataclasses.replace(ref.options, output=path, board=boards.load(board)))
    assert set(built.architectures) == {boards.load(board).architecture, "x86_64"}
    assert_pipeline_equals_reference(path, ref)


def test_the_same_input_gives_the_same_bytes(reference, tmp_path):
    ref = reference("fmnist_resnet8")
    paths = [tmp_path / "one.edgepipe", tmp_path / "two.edgepipe"]
    for path in paths:
        build_bundle(dataclasses.replace(ref.options, output=path))
    assert paths[0].read_bytes() == paths[1].read_bytes()


@pytest.mark.networks
def test_nanodets_reasons_name_only_the_first_convolution_sigmoid_and_decoding(bundle):
    manifest = storage.check(bundle("nanodet_g_coco_416", "rule"))
    placed = {p.operator: p for p in manifest.placement}
    first_vta = next(p for p in manifest.placement if p.device == "vta")
    tail = [p for p in manifest.placement if p.device == "arm" and p.stage == "arm2"]
    assert {p.reason.split(":")[0] for p in tail} == {"Sigmoid", "decoding"}
    assert {p.kind for p in tail} == {"generic", "pick"}  # its splits
    front = [p.kind for p in manifest.placement if p.stage == "arm0"]
    assert front == ["input_table", "conv"]
    assert first_vta.kind == "max_pool"
    convolutions = [p for p in manifest.placement if p.kind == "conv"]
    assert sum(p.device == "vta" for p in convolutions) == len(convolutions) - 1 == 33
    assert len(placed) == len(manifest.placement)
    json.dumps(dataclasses.asdict(manifest))

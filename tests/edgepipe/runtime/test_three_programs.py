"""`edgepipe run`, edgepipe-run and edgepipe-cam give the same lines, whatever the results are."""

from __future__ import annotations

import io
import json
import struct
import subprocess
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pipeline_bundles as bundles
import pytest
from needs import built

from edgepipe.description import Postprocess
from edgepipe.frontend.preprocess import Preprocess
from edgepipe.quantize.normal_forms import write_dequantize
from edgepipe.run import RunOptions, run_bundle
from edgepipe.tvm_adapter import ModuleBuilder
from vta_stages.layers.records import TensorSpec

pytestmark = pytest.mark.sim

SIDE = bundles.SIZE
BODY = (1, 16, 8, 8)  # int8, the last tensor before the numbers of the result
CHARACTERS = tuple("abcdefghijkl é☃")
# The shape of the output, the description of what it means, and the field of a line.
KINDS: dict[str, tuple[tuple[int, ...], dict[str, object], str]] = {
    "boxes": (
        (1, 128, 8),
        {"kind": "boxes", "activation": "sigmoid", "score_threshold": 0.6},
        "detections",
    ),
    "landmarks": (
        (1, 64, 16),
        {"kind": "boxes", "activation": "sigmoid", "score_threshold": 0.6, "points": 2},
        "detections",
    ),
    "regions of text": (
        (1, 1, 32, 32),
        {"kind": "db", "activation": "sigmoid", "score_threshold": 0.5},
        "detections",
    ),
    "classes": ((1, 1024), {"kind": "classify", "top": 3}, "classes"),
    "segmentation": ((1, 16, 8, 8), {"kind": "segmentation"}, "areas"),
    "keypoints": ((1, 16, 8, 8), {"kind": "keypoints"}, "points"),
    "text": ((1, 64, 16), {"kind": "ctc", "activation": "softmax"}, "text"),
    "tensors": ((1, 1024), {"kind": "none"}, "source"),
}


def compiled(scale: float) -> bundles.Files:
    """Compile a network whose 1024 outputs, multiples of ``scale``, depend on the picture."""
    small = bundles.make_network(7)
    body = TensorSpec(name="body", channels=BODY[1], height=BODY[2], width=BODY[3])
    conv = bundles._conv(np.random.default_rng(8), small.body.input, body, 3, 1)
    last = ModuleBuilder()
    last.param("body", BODY, "int8")
    write_dequantize(last, "scores", "body", np.array([scale], np.float32), reshape=(1, 1024))
    network = replace(small, body=conv, last=last.finish(["scores"]))
    labels = "\n".join(CHARACTERS).encode() + b"\n"
    return bundles.compile_files(network, ("x86_64",)) | {"labels.txt": labels}


@pytest.fixture(scope="module")
def files() -> bundles.Files:
    return compiled(0.125)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a folder of pictures of all file types; none has the sides of the network's input."""
    folder = tmp_path_factory.mktemp("pictures")
    random = np.random.default_rng(3)
    for name, (height, width) in {
        "lying.jpg": (40, 90),
        "plain.jpeg": (33, 47),
        "flat.png": (31, 57),
        "grey.pgm": (48, 20),
        "high.ppm": (64, 21),
        "small.bmp": (9, 13),
    }.items():
        coarse = random.integers(0, 256, (6, 6, 3)).astype(np.uint8)
        pixels = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_NEAREST)
        pixels = pixels[:, :, 0] if name.endswith("pgm") else pixels
        assert cv2.imwrite(str(folder / name), pixels)
    lying = (folder / "lying.jpg").read_bytes()
    tiff = struct.pack("<2sHIHHHIHHI", b"II", 42, 8, 1, 0x0112, 3, 1, 6, 0, 0)
    exif = b"\xff\xe1" + struct.pack(">H", 8 + len(tiff)) + b"Exif\0\0" + tiff
    (folder / "lying.jpg").write_bytes(lying[:2] + exif + lying[2:])
    return folder


LETTERBOX = Preprocess(
    width=SIDE, height=SIDE, order="BGR", mean=(0.0,) * 3, std=(1.0,) * 3, fit="letterbox"
)


@pytest.fixture(scope="module", params=["stretch", "letterbox"])
def preprocess(request: pytest.FixtureRequest) -> Preprocess:
    return replace(LETTERBOX, order="RGB", fit=request.param)


def write_bundle(folder: Path, files: bundles.Files, preprocess: Preprocess, kind: str) -> Path:
    shape, settings, _ = KINDS[kind]
    outputs = ("scores",) if kind != "tensors" else ()
    return bundles.write_bundle(
        folder / "net",
        files,
        {},
        tensors=[
            *bundles.TENSORS[:2],
            bundles.tensor("body", "int8", BODY, "vta"),
            bundles.tensor("scores", "float32", shape),
        ],
        postprocess=Postprocess(labels="labels.txt", outputs=outputs, **settings),  # type: ignore[arg-type]
        preprocess=preprocess,
        architectures=("x86_64",),
    )


def lines(text: str | bytes) -> list[dict[str, object]]:
    """Return lines of JSON without their latency, the only field that may differ."""
    found = [json.loads(line) for line in text.splitlines()]
    assert all(line.pop("latency_ms") > 0 for line in found)
    return found


def of_program(*command: str | Path) -> list[dict[str, object]]:
    ran = subprocess.run(command, capture_output=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr.decode()
    return lines(ran.stdout)


def of_all(bundle: Path, source: Path) -> list[list[dict[str, object]]]:
    """Return the lines of the three programs."""
    text = io.StringIO()
    run_bundle(RunOptions(bundle=bundle, source=source), lines=text)
    camera = (built("edgepipe-cam"), bundle, "--source", source, "--headless", "--no-pin")
    return [
        lines(text.getvalue()),
        of_program(built("edgepipe-run"), bundle, "--input", source, "--quiet"),
        of_program(*camera),
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_the_lines_of_the_three_programs_are_equal(kind, preprocess, files, pictures, tmp_path):
    bundle = write_bundle(tmp_path, files, preprocess, kind)
    of_python, of_runtime, of_camera = of_all(bundle, pictures)
    assert of_python == of_runtime
    assert of_python == of_camera
    assert [line["source"] for line in of_python] == sorted(p.name for p in pictures.iterdir())
    field = KINDS[kind][2]
    assert sum(bool(line[field]) for line in of_python) > len(of_python) / 2
    assert {"frame", "source", field} <= set(of_python[0])


def test_boxes_are_in_pixels_of_the_upright_picture(preprocess, files, pictures, tmp_path):
    bundle = write_bundle(tmp_path, files, preprocess, "boxes")
    for found in of_all(bundle, pictures):
        line = next(line for line in found if line["source"] == "lying.jpg")
        corners = np.array([box["box"] for box in line["detections"]])
        assert (corners >= 0).all()
        assert (corners <= [40, 90, 40, 90]).all()  # it lies: 90 pixels high when upright
        assert corners[:, 2].max() > 2 * SIDE
        assert corners[:, 3].max() > 40


def test_numbers_that_json_lacks_are_null_in_all_lines(pictures, tmp_path):
    files = compiled(np.inf)
    for kind in ("classes", "keypoints", "text"):
        (tmp_path / kind).mkdir()
        bundle = write_bundle(tmp_path / kind, files, LETTERBOX, kind)
        of_python, *others = of_all(bundle, pictures / "flat.png")
        assert [of_python, of_python] == others
        assert '"score": null' in json.dumps(of_python)


@pytest.mark.parametrize("name", ["lying.jpg", "flat.png", "high.ppm", "grey.pgm", "small.bmp"])
def test_a_single_file_gives_the_line_that_it_gives_in_a_folder(name, files, pictures, tmp_path):
    bundle = write_bundle(tmp_path, files, LETTERBOX, "boxes")
    in_folder = of_program(built("edgepipe-run"), bundle, "--input", pictures, "--quiet")
    (expected,) = [line | {"frame": 0} for line in in_folder if line["source"] == name]
    for found in of_all(bundle, pictures / name):
        assert found == [expected]

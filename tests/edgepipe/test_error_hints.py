"""The hints of errors, each checked by its text, from the code that raises it."""

from __future__ import annotations

import dataclasses
import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import onnx
import pytest
import small_networks
from onnx import TensorProto, helper
from provoked_hints import hint_of

from edgepipe import boards, description, media, schema
from edgepipe.bitstream import check, header, manifest, record, stream
from edgepipe.bundle import manifest as bundle_manifest
from edgepipe.bundle import storage
from edgepipe.deploy import fleet, payload, plan
from edgepipe.deploy.connection import Target
from edgepipe.deploy.deployment import check_unit
from edgepipe.description import Postprocess
from edgepipe.doctor import survey
from edgepipe.errors import DeployError, EdgepipeError
from edgepipe.frontend.frames import frames_from
from edgepipe.frontend.network import Network, load_network
from edgepipe.frontend.preprocess import Preprocess
from edgepipe.quantize.options import QuantizeOptions
from edgepipe.quantize.quantizer import quantize
from edgepipe.runtime.named import Named
from edgepipe.runtime.ports import check_array, dense_port
from edgepipe.virtual_board.fpga_model import FpgaOptions
from edgepipe.virtual_board.qemu import start_failure
from vta_stages.accelerator import Accelerator
from vta_stages.program import Program

FACTS = plan.BoardFacts(
    machine="aarch64",
    missing_tools=(),
    unwritable="",
    free_bytes=0,
    bitstream="",
    unit="",
)
BIT = header.MAGIC + b"a\0\2x\0" + b"b\0\2x\0" + b"c\0\2x\0" + b"d\0\2x\0" + b"e"
KEYS = "width, height, order, mean, std, scale, fit, resize_short_side, padding, align"
ARCHIVE = "write it with numpy.savez(path, frames); frames is uint8[n, height, width, channels]"


def file(folder: Path, content: bytes | str, name: str = "file") -> Path:
    """Write a file and return its path."""
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def network(
    folder: Path,
    *,
    shape: tuple[int | str, ...] = (1, 3, 8, 8),
    kind: int = TensorProto.FLOAT,
    inputs: int = 1,
    outputs: tuple[str, ...] = ("y",),
    op: str = "Relu",
) -> Path:
    """Write a network of one operator."""
    names = [f"x{i}" for i in range(inputs)]
    node = helper.make_node(op if inputs < 2 else "Add", names, ["y"])
    graph = helper.make_graph(
        [node, helper.make_node("Identity", ["y"], ["same"])],
        "g",
        [helper.make_tensor_value_info(name, kind, shape) for name in names],
        [helper.make_tensor_value_info(name, kind, shape) for name in outputs],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = folder / "net.onnx"
    onnx.save(model, path)
    return path


def empty_network(folder: Path) -> Path:
    onnx.save(onnx.ModelProto(), folder / "net.onnx")
    return folder / "net.onnx"


def archive(folder: Path, **members: bytes) -> Path:
    """Write a tar archive that ends in .edgepipe."""
    path = folder / "net.edgepipe"
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name.replace("_", "."))
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def unfit_frames(folder: Path) -> object:
    preprocess = dataclasses.replace(small_networks.PREPROCESS, width=32)
    return quantize(classifier(folder), [], preprocess)


def classifier(folder: Path) -> Network:
    onnx.save(small_networks.classifier(), folder / "net.onnx")
    return load_network(folder / "net.onnx")


def program(folder: Path, text: str) -> Program:
    file(folder, text, "program.json")
    return Program.load(folder)


def qemu_log(folder: Path) -> None:
    raise start_failure(file(folder, "qemu: Could not set up host forwarding rule\n"))


CASES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no network": (lambda f: load_network(f / "none"), "expected an ONNX network (*.onnx)"),
    "no ONNX": (lambda f: load_network(file(f, b"\xff" * 64)), "export the network to ONNX again"),
    "no graph": (
        lambda f: load_network(empty_network(f)),
        "expected a network exported to ONNX (*.onnx)",
    ),
    "unknown operator": (
        lambda f: load_network(network(f, op="NoSuchThing")),
        "export it again, without operators of another framework or opset",
    ),
    "two inputs": (
        lambda f: load_network(network(f, inputs=2)),
        "export the network with the picture as its only input, all others as constants",
    ),
    "dynamic size": (
        lambda f: load_network(network(f, shape=(1, 3, "h", 8))),
        "give the size of the picture, or export with a fixed height and width",
    ),
    "integer input": (
        lambda f: load_network(network(f, kind=TensorProto.INT32)),
        "export it with one float32 picture, channels first, as its input",
    ),
    "output is the input": (
        lambda f: load_network(network(f, outputs=("x0",))),
        "export the network without this output",
    ),
    "one output twice": (
        lambda f: load_network(network(f, outputs=("y", "same"))),
        "export the network with only one of them",
    ),
    "no frames": (
        lambda f: [*frames_from(f / "none", small_networks.PREPROCESS)],
        "name a folder of pictures, a video, or an .npz file of frames",
    ),
    "damaged frames": (
        lambda f: [*frames_from(file(f, b"PK", "a.npz"), small_networks.PREPROCESS)],
        ARCHIVE,
    ),
    "unknown order": (
        lambda f: Preprocess(width=1, height=1, order="XYZ", mean=(0.0,), std=(1.0,)),
        "known orders: BGR, RGB, GRAY",
    ),
    "unknown fit": (
        lambda f: Preprocess(width=1, height=1, order="GRAY", mean=(0.0,), std=(1.0,), fit="tile"),
        "known fits: stretch, center_crop, letterbox",
    ),
    "unknown activation": (
        lambda f: Postprocess(kind="classify", activation="tanh"),
        "known activations: default, none, sigmoid, softmax",
    ),
    "unknown place of the blank": (
        lambda f: Postprocess(kind="ctc", outputs=("a",), labels="x.txt", blank="middle"),
        "known places: first, last",
    ),
    "unknown formula": (
        lambda f: Postprocess(kind="anchors", formula="v9"),
        "known formulas: 'v3', 'v5'",
    ),
    "unknown alignment": (
        lambda f: Preprocess(width=1, height=1, order="GRAY", mean=(0.0,), std=(1.0,), align="up"),
        "known alignments: center, top_left",
    ),
    "a float picture": (
        lambda f: small_networks.PREPROCESS.frame(np.zeros((2, 2, 3), np.float32)),
        "read it with cv2.IMREAD_COLOR",
    ),
    "no picture": (
        lambda f: media.read_picture(f / "none.png"),
        "name a video, a picture or a folder of pictures",
    ),
    "a damaged picture": (
        lambda f: media.read_picture(file(f, b"x", "a.png")),
        "formats: bmp, jpeg, jpg, pgm, png, ppm",
    ),
    "a folder without pictures": (
        lambda f: media.pictures_in(f),
        "expected files ending in .bmp, .jpeg, .jpg, .pgm, .png, .ppm",
    ),
    "a folder as a picture": (
        lambda f: media.read_picture(f),
        "check the file permissions with `ls -l`",
    ),
    "no video": (
        lambda f: [*media.read_source(file(f, b"x", "a.avi"))],
        "check with `ffprobe` that it is a video",
    ),
    "unknown postprocess": (
        lambda f: Postprocess(kind="guess"),
        "known kinds: anchors, boxes, centernet, classify, ctc, db, distances, keypoints, nanodet, "
        "none, own, segmentation, ssd, yolox",
    ),
    "missing labels": (
        lambda f: description.labels_of(
            description.NetworkDescription(
                preprocess=small_networks.PREPROCESS,
                postprocess=Postprocess(kind="classify", labels="none.txt"),
            ),
            f / "net.toml",
        ),
        "name a text file with one class name per line, relative to the description",
    ),
    "a wrong description": (
        lambda f: description.load(file(f, "[preprocess]\nwidth = 1\n")),
        "correct the description; docs/reference/description.md explains every key",
    ),
    "an unknown key": (
        lambda f: description.load(file(f, "[preprocess]\nwide = 1\n")),
        f"known keys: {KEYS}",
    ),
    "no TOML file": (
        lambda f: schema.read_toml(f / "none", DeployError),
        "check the name of the TOML file",
    ),
    "a folder as TOML": (lambda f: schema.read_toml(f, DeployError), "name a readable TOML file"),
    "an unknown board": (
        lambda f: boards.load("mine"),
        f"known boards: {', '.join(boards.names())}; or give the path of a board's .toml file",
    ),
    "a wrong board": (
        lambda f: boards.load(str(file(f, "name = 1\n", "b.toml"))),
        "correct the board's file; the files in board/ show every key",
    ),
    "a wrong timing": (
        lambda f: boards.ArmTiming(handover_us=-1.0),
        "omit the key to use the default",
    ),
    "no bundle": (
        lambda f: storage.read_manifest(f / "none"),
        "create one with `edgepipe build`",
    ),
    "a bundle without a manifest": (
        lambda f: storage.read_manifest(archive(f)),
        "build or copy it again",
    ),
    "a manifest with a wrong digest": (
        lambda f: storage.read_manifest(archive(f, manifest_json=b"{}", manifest_digest=b"0")),
        "the bundle was modified; build or copy it again",
    ),
    "a bundle of another format": (
        lambda f: bundle_manifest.from_json('{"format": 99}', "net"),
        "build the bundle with this version of edgepipe",
    ),
    "a place that is taken": (
        lambda f: storage.check_replaceable(file(f, b"x", "net.edgepipe")),
        "remove it, or choose a new path",
    ),
    "no bitstream": (lambda f: check.read(f / "none", manifest.load()), "check the name"),
    "a folder as a bitstream": (
        lambda f: check.read(f, manifest.load()),
        "name a readable file",
    ),
    "bytes without a sync word": (
        lambda f: stream.parse(bytes(64), "vta.bin"),
        "expected a .bit file, or the .bin file that Vivado or bootgen writes",
    ),
    "no header": (
        lambda f: header.parse(b"<html>", "vta.bit"),
        "the file may be a saved error page of a web server; download it again",
    ),
    "an unknown header field": (
        lambda f: header.parse(header.MAGIC + b"z", "vta.bit"),
        "the file is damaged, or not a .bit file",
    ),
    "a damaged header text": (
        lambda f: header.parse(header.MAGIC + b"a\0\2xy", "vta.bit"),
        "the file is damaged; download or copy it again",
    ),
    "a short header": (
        lambda f: header.parse(header.MAGIC, "vta.bit"),
        "the file is truncated; download or copy it again",
    ),
    "a short stream": (
        lambda f: header.parse(BIT + b"\0\0\0\7", "vta.bit"),
        "the file is truncated or has extra data at its end; download or copy it again",
    ),
    "a damaged record": (
        lambda f: record.parse("{", "board"),
        "program the FPGA again with `edgepipe bitstream install`",
    ),
    "a wrong manifest of bitstreams": (
        lambda f: manifest.load(file(f, "repository = 1\n")),
        "correct the entry; bitstreams/README.md explains the keys",
    ),
    "a wrong host": (lambda f: Target(host="-x", root="e"), "name the board as `ssh` knows it"),
    "a wrong folder": (lambda f: Target(host="b", root=".."), "choose another folder"),
    "no host": (lambda f: fleet.make_targets([], None, None, None), "name a board"),
    "a host twice": (
        lambda f: fleet.make_targets(["b", "b"], None, None, None),
        "name each host once",
    ),
    "a wrong unit": (lambda f: check_unit("a b"), "a name such as edgepipe.service"),
    "an odd answer": (
        lambda f: plan.parse_facts("welcome\n", "b"),
        "make sure that the login shell on the board prints nothing",
    ),
    "an odd survey": (
        lambda f: survey.parse("welcome\n", "b"),
        "make sure that the login shell on the board prints nothing",
    ),
    "another machine": (
        lambda f: plan.architecture(dataclasses.replace(FACTS, machine="riscv64"), "b"),
        "name a board with one of these processors",
    ),
    "missing tools": (
        lambda f: plan.check_board(dataclasses.replace(FACTS, missing_tools=("tar",)), "b"),
        "install util-linux, coreutils, findutils and tar on the board",
    ),
    "a folder that cannot be written": (
        lambda f: plan.check_board(dataclasses.replace(FACTS, unwritable="/opt"), "b"),
        "choose another user, or another folder",
    ),
    "a bundle for another board": (
        lambda f: plan.check_bundle(["armhf"], "aarch64", "b"),
        "build the bundle for this board",
    ),
    "no program": (
        lambda f: payload.architecture_of(f / "none"),
        "name a program built for the board, or build one with `make board`",
    ),
    "a program for nothing": (
        lambda f: payload.architecture_of(file(f, b"#!")),
        "name an edgepipe-run built for the board",
    ),
    "an unknown rule": (
        lambda f: QuantizeOptions(threshold="best"),
        "known rules: max, percentile, mse, weighted-mse",
    ),
    "frames that do not fit": (
        unfit_frames,
        "correct width, height and order in the description",
    ),
    "no calibration frames": (
        lambda f: quantize(classifier(f), [], small_networks.PREPROCESS),
        "give a folder of typical pictures",
    ),
    "an index out of range": (lambda f: Named(("a", "b"), [1, 2])[7], "there are 2: a, b"),
    "no array": (
        lambda f: check_array("input 'x'", [1, 2], dense_port("x", "int8", (2,))),
        "give a NumPy array",
    ),
    "an unknown name": (lambda f: Named(("left", "right"), [1, 2])["lft"], "did you mean: left"),
    "a name like no other": (
        lambda f: Named(("left", "right"), [1, 2])["zzz"],
        "known names: left, right",
    ),
    "an unknown fault": (
        lambda f: FpgaOptions(accelerator=Accelerator(), faults=("burn=1",)),
        "known: hang=N, lost-interrupt=N, stale-done=N, wrong-bit=N (in every N-th run)",
    ),
    "a port in use": (qemu_log, "the port is in use: choose another"),
    "an unknown revision": (
        lambda f: Accelerator(revision="9"),
        "known revisions: 0.0.1, 0.0.2",
    ),
    "unequal blocks": (
        lambda f: Accelerator(block_in=8, block_out=16),
        "a layer's output feeds the next layer's input, so an input block is one or several output "
        "blocks",
    ),
    "a damaged program": (
        lambda f: program(f, "{}"),
        "the program is damaged: build or copy the bundle again",
    ),
    "a program of another format": (
        lambda f: program(
            f,
            '{"format": 99, "accelerator": 0, "regions": 0, "layers": 0, "modelled_cycles": 0}',
        ),
        "build the bundle again with this version of edgepipe",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_error_has_this_hint(name: str, tmp_path: Path) -> None:
    fail, hint = CASES[name]
    assert hint_of(lambda: fail(tmp_path)) == hint


def test_a_video_that_loses_pictures_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cv2, "imencode", lambda *_: (False, None))
    with pytest.raises(EdgepipeError) as caught:
        media.write_picture(tmp_path / "a.png", np.zeros((2, 2, 3), np.uint8))
    assert caught.value.hint == "leave out the picture, or choose another size"
    assert caught.value.option == "output"

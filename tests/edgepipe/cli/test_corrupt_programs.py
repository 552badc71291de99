"""``edgepipe inspect`` on programs that are damaged, but have the right digests."""

from __future__ import annotations

import dataclasses
import json
import random
import signal
import tarfile

import numpy as np
import onnx
import pytest
from command_line import DESCRIPTION, assert_fails, run
from small_networks import classifier, frames

from edgepipe.bundle import storage

VIEWS = (["--disassemble", "vta1"], ["--timing"])
STAGE = "stages/1_vta"
PART = f"{STAGE}/program.json"
LIMIT_S = 20


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """Build a bundle with a VTA stage."""
    folder = tmp_path_factory.mktemp("built")
    onnx.save(classifier(), folder / "net.onnx")
    (folder / "net.toml").write_text(DESCRIPTION)
    np.savez(folder / "calib.npz", frames=np.concatenate(list(frames(4))))
    arguments = ["build", folder / "net.onnx", "--calib", folder / "calib.npz"]
    assert run(*arguments, "--board", "ultra96", "-o", folder / "net.edgepipe") == 0
    return folder / "net.edgepipe"


@pytest.fixture
def resealed(bundle, tmp_path):
    """Return a function that writes the bundle with changed files and the right digests."""
    manifest = storage.read_manifest(bundle)
    files = {entry.path: storage.read_file(bundle, entry) for entry in manifest.files}

    def write(change):
        changed = dict(files)
        change(changed)
        storage.write(
            tmp_path / "net.edgepipe",
            changed,
            lambda entries: dataclasses.replace(manifest, files=entries),
        )
        return tmp_path / "net.edgepipe"

    return write


def in_description(*path, value):
    """Return a change of one value of the program's description."""

    def change(files):
        description = json.loads(files[PART])
        place = description
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        files[PART] = json.dumps(description).encode()

    return change


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view[0])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (in_description("accelerator", "inp_buffer_bytes_log2", value=-1), "buffer of 2^-1 bytes"),
        (in_description("accelerator", "acc_buffer_bytes_log2", value=2**31), "at most 2^28"),
        (in_description("accelerator", "batch", value=3), "batch is 3, expected a power of two"),
        (in_description("accelerator", "token_queue_depth", value=0), "token_queue_depth is 0"),
        (lambda files: files.update({PART: b"[" * 100_000}), "program.json: is not valid JSON"),
        (lambda files: files.update({PART: b"\xff"}), "program.json: is not valid JSON"),
        (lambda files: files.update({f"{STAGE}/insns.bin": b"\x07" * 16}), "relocations"),
        (lambda files: files.pop(f"{STAGE}/relocs.bin"), "relocs.bin: cannot be read"),
    ],
)
def test_a_damaged_program_is_an_error(resealed, capsys, view, change, message):
    assert_fails(capsys, run("inspect", resealed(change), *view), message)


def test_a_layer_without_instructions_has_a_time(resealed, capsys):
    path = resealed(in_description("layers", 0, "count", value=0))
    assert run("inspect", path, "--timing") == 0
    assert "vta1: " in capsys.readouterr().out


def test_a_program_that_no_verifier_passes_is_not_timed(resealed, capsys):
    def move_everything(files):
        words = np.frombuffer(files[f"{STAGE}/insns.bin"], "<u8").reshape(-1, 2).copy()
        first_load = np.flatnonzero((words[:, 0] & 7) == 0)[0]
        words[first_load, 1] |= 0xFFFF_FFFF  # 65,535 rows of 65,535 elements
        files[f"{STAGE}/insns.bin"] = words.tobytes()

    path = resealed(move_everything)
    assert_fails(capsys, run("inspect", path, "--timing"), "instruction 0", "build or copy the")


@pytest.mark.parametrize(
    ("key", "value", "message", "hint"),
    [
        ("speed", 1, f"{PART}: costs: unknown key 'speed'", "known keys: instruction_cycles, "),
        (
            "load_rows",
            16,
            f"{PART}: costs: load_rows is 16, expected 1: reads_in_flight has replaced it",
            "hint: replace load_rows in the board's file by reads_in_flight and build the bundle "
            "again",
        ),
        ("loop_cycles", -1, "loop_cycles is -1, expected >= 0", "build the bundle again with this"),
    ],
)
def test_costs_that_the_timing_model_does_not_know(resealed, capsys, key, value, message, hint):
    path = resealed(in_description("costs", key, value=value))
    assert_fails(capsys, run("inspect", path, "--timing"), message, hint)


def test_bundles_with_a_cost_that_no_longer_exists_are_timed_as_before(resealed, bundle, capsys):
    """Every bundle from before 2026-11-28 says that one row of a load is requested at a time."""

    def printed(path, *command):
        assert run(command[0], path, *command[1:]) == 0
        return capsys.readouterr().out.replace(str(path), "net")

    older = resealed(in_description("costs", "load_rows", value=1))
    assert printed(older, "inspect", "--timing") == printed(bundle, "inspect", "--timing")
    found, expected = (
        json.loads(printed(path, "report", "--format", "json")) for path in (older, bundle)
    )
    assert found["operators"] == expected["operators"]


def test_a_path_that_leaves_the_bundle_is_an_error(bundle, capsys, tmp_path):
    path = tmp_path / "net"
    with tarfile.open(bundle) as archive:
        archive.extractall(path)
    text = (path / "manifest.json").read_text().replace(f"{STAGE}/insns", f"{STAGE}/../../up")
    (path / "manifest.json").write_text(text)
    (path / "manifest.digest").write_text(f"{storage.digest(text.encode())}\n")
    assert_fails(
        capsys,
        run("inspect", path),
        "is not a plain relative path",
        "do not use this bundle: it is not from `edgepipe build`",
    )


def mutated(generator, files):
    """Change one file of the program at random."""
    if generator.random() < 0.3:
        damage_description(generator, files)
        return
    name = generator.choice(["insns", "insns", "relocs", "consts"])
    content = bytearray(files[f"{STAGE}/{name}.bin"])
    for _ in range(generator.choice([1, 2, 8])):
        content[generator.randrange(len(content))] = generator.randrange(256)
    if generator.random() < 0.1:
        del content[generator.randrange(len(content)) :]
    files[f"{STAGE}/{name}.bin"] = bytes(content)


def damage_description(generator, files):
    values = [0, -1, 1, 2**31, 2**64, 10**30, 1.5, float("nan"), True, "", None, [], {}]
    description = json.loads(files[PART])
    places = []

    def collect(value):
        keys = value if isinstance(value, dict) else range(len(value))
        for key in keys:
            places.append((value, key))
            if isinstance(value[key], (dict, list)):
                collect(value[key])

    collect(description)
    place, key = generator.choice(places)
    place[key] = generator.choice(values)
    files[PART] = json.dumps(description).encode()


@pytest.mark.parametrize("seed", range(40))
def test_no_damage_ends_in_a_traceback_or_takes_long(resealed, capsys, seed):
    generator = random.Random(seed)
    path = resealed(lambda files: mutated(generator, files))
    for view in VIEWS:
        signal.alarm(LIMIT_S)
        try:
            code = run("inspect", path, *view)  # would raise an error that is not one of edgepipe's
        finally:
            signal.alarm(0)
        errors = capsys.readouterr().err
        assert code == (1 if errors else 0)
        assert not errors or "hint: " in errors

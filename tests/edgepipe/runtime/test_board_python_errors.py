"""The errors of ``edgepipe_runtime``: what was found, what was expected, and what to do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import needs
import numpy as np
import pipeline_bundles as bundles
import pytest
from test_board_python import aligned

import edgepipe_runtime as board
from edgepipe_runtime import library

pytestmark = pytest.mark.sim
FRAME = np.zeros((1, 16, 16, 3), np.uint8)
ONE_OF_OURS = "give the arrays that pynq.allocate returns"
WHOLE = "give a writable array as it was allocated"
SAME_TYPE = "give it the dtype and shape of the tensor"


@pytest.fixture(scope="module")
def bundle(files, tmp_path_factory):
    path = needs.BUILD / "host" / "lib" / library.LIBRARY_NAME
    if not path.is_file():
        needs.lacking(f"{path} is missing; `make test` builds it")
    return bundles.write_bundle(tmp_path_factory.mktemp("errors") / "tiny", files, {})


@pytest.fixture
def pipeline(bundle):
    with board.load(bundle, pinning="off") as opened:
        yield opened


def mirrored(shape):
    return aligned(shape, np.uint8)[:, ::-1]


@pytest.mark.parametrize(
    ("call", "text", "hint"),
    [
        (
            lambda p: p.run(FRAME, FRAME),
            "pipeline 'tiny': found 2 inputs, expected 1",
            "its inputs: frame",
        ),
        (
            lambda p: p.run(FRAME, frame=FRAME),
            "input 'frame': is given twice",
            "give it by position or by name",
        ),
        (
            lambda p: p.run(),
            "input 'frame': has not been set",
            "set_input() or run(name=array)",
        ),
        (
            lambda p: p.run(image=FRAME),
            "input 'image': the pipeline has no such input",
            "known names: frame",
        ),
        (
            lambda p: p.get_input("frame"),
            "input 'frame': has not been set",
            "known names: frame",
        ),
        (
            lambda p: p.run([1]),
            "input 'frame': found list, expected uint8[1, 16, 16, 3]",
            "give a NumPy array",
        ),
        (
            lambda p: p.run(FRAME.astype(np.float32)),
            "input 'frame': found float32[1, 16, 16, 3], expected uint8[1, 16, 16, 3]",
            "pass bytes from 0 to 255 as np.uint8; the pipeline normalises them itself",
        ),
        (
            lambda p: p.run(FRAME[0]),
            "input 'frame': found uint8[16, 16, 3], expected uint8[1, 16, 16, 3]",
            "the first axis counts frames: pass array[None]",
        ),
        (
            lambda p: p.run(np.zeros((1, 8, 8, 3), np.uint8)),
            "input 'frame': found uint8[1, 8, 8, 3], expected uint8[1, 16, 16, 3]",
            "pipeline(picture) takes a file, or a BGR picture uint8[h, w, 3] of any size",
        ),
        (
            lambda p: p.outputs["boxes"],
            "'boxes' is unknown",
            "known names: scores",
        ),
        (lambda p: p.outputs[3], "index 3 is out of range", "there are 1: scores"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_frame_is_refused(pipeline, call, text, hint):
    with pytest.raises(board.PipelineError) as caught:
        call(pipeline)
    assert (str(caught.value), caught.value.hint) == (text, hint)


def test_a_wrong_picture_is_refused_and_the_pipeline_goes_on(pipeline, tmp_path):
    with pytest.raises(board.MediaError) as caught:
        pipeline(FRAME)
    assert str(caught.value) == "picture is uint8[1, 16, 16, 3], expected uint8[h, w, 3] in BGR"
    assert caught.value.hint == "read it with cv2.IMREAD_COLOR"
    with pytest.raises(board.MediaError, match="picture is int, expected uint8"):
        pipeline(7)
    with pytest.raises(board.MediaError, match=r"missing\.jpg"):
        pipeline(tmp_path / "missing.jpg")
    with pytest.raises(board.MediaError, match="is a folder, expected a picture"):
        pipeline(tmp_path)
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nbroken")
    with pytest.raises(board.MediaError, match=r"broken\.png"):
        pipeline(tmp_path / "broken.png")
    assert pipeline(FRAME[0]).frame == 0


def test_a_bundle_of_two_inputs_takes_no_picture(files, tmp_path):
    tensors = [*bundles.TENSORS, bundles.tensor("more", "float32", (1, 4))]
    both = bundles.write_bundle(
        tmp_path / "both", files, {}, tensors=tensors, inputs=("frame", "more")
    )
    with board.load(both, pinning="off") as pipeline:
        with pytest.raises(board.PipelineError) as caught:
            pipeline(FRAME[0])
        assert str(caught.value) == "pipeline 'tiny': does not say how a picture becomes its input"
        assert caught.value.hint == "give run() or submit() the input arrays"


@pytest.mark.parametrize(
    ("buffers", "text", "hint"),
    [
        ([[1, 2]], "buffer 0 of 'frame': found list, expected a NumPy array", ONE_OF_OURS),
        (
            [mirrored((1, 16, 16, 3))],
            "buffer 0 of 'frame': is read-only or not in C order",
            WHOLE,
        ),
        (
            [aligned((1, 16, 48), np.uint8)],
            "buffer 0 of 'frame': found uint8[1, 16, 48], expected uint8[1, 16, 16, 3]",
            SAME_TYPE,
        ),
    ],
    ids=["no array", "mirrored", "other shape"],
)
def test_wrong_buffers_are_refused(bundle, buffers, text, hint):
    with pytest.raises(board.PipelineError) as caught:
        board.load(bundle, pinning="off", buffers={"frame": buffers})
    assert (str(caught.value), caught.value.hint) == (text, hint)


def test_what_the_runtime_refuses_has_its_text_and_hint(bundle, tmp_path):
    with pytest.raises(board.RuntimeFailure) as caught:
        board.load(bundle, pinning="off", buffers={"frame": [FRAME.reshape(-1)[:7].copy()]})
    assert "has 7 bytes, expected 768" in str(caught.value)
    assert caught.value.hint == SAME_TYPE
    with pytest.raises(board.PipelineError) as refused:
        board.load(bundle, pinning="of")
    assert str(refused.value) == "pinning is 'of', expected one of required, preferred, off"
    assert refused.value.hint == "omit pinning to pin every stage to its core"
    with pytest.raises(board.EdgepipeError, match=r"missing\.edgepipe"):
        board.load(tmp_path / "missing.edgepipe")
    damaged = tmp_path / "damaged"
    shutil.copytree(bundle, damaged)
    (damaged / "manifest.json").write_text("{")
    with pytest.raises(board.BundleError, match="manifest"):
        board.load(damaged)
    with pytest.raises(board.RuntimeFailure, match="found device 'gpu', expected auto"):
        board.load(bundle, device="gpu")


def test_a_full_pipeline_says_so_at_once(pipeline):
    for _ in range(pipeline.slots):
        pipeline.run(FRAME, timeout_s=10)
    with pytest.raises(board.DeadlinePassed):
        pipeline.run(FRAME)


def test_a_closed_pipeline_says_so(bundle):
    pipeline = board.load(bundle, pinning="off")
    pipeline.close()
    pipeline.close()
    with pytest.raises(board.RuntimeFailure, match=r"used after close\(\)"):
        pipeline.run(FRAME)
    with pytest.raises(board.RuntimeFailure, match=r"used after close\(\)"):
        pipeline.statistics()


def test_a_pipeline_that_another_thread_uses_is_not_closed_in_time(bundle):
    pipeline = board.load(bundle, pinning="off")
    pipeline._opened._users += 1  # as during a call of another thread
    with pytest.raises(board.RuntimeFailure, match="another thread uses the pipeline") as caught:
        pipeline.close(timeout_s=0.05)
    hint = "make the stage return in time: set a timeout on what it waits for"
    assert caught.value.hint == hint
    pipeline._opened._users -= 1
    pipeline.close()


def test_a_frame_that_was_not_submitted_holds_nothing_up(pipeline):
    pipeline.next_inputs()
    with pytest.raises(board.MediaError):
        pipeline(FRAME)
    pipeline.cancel()
    pipeline.restart()
    assert pipeline.run(FRAME) == 0
    pipeline.next_inputs()


def test_a_forked_child_is_refused(pipeline):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            pipeline.run(FRAME)
        except board.RuntimeFailure as error:
            os.write(writing, f"{error}|{error.hint}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    text = os.read(reading, 4096).decode()
    assert f"belongs to process {os.getpid()}, this is process {child}" in text
    assert "open it in the process that uses it" in text


def test_a_missing_library_is_named(tmp_path):
    package = tmp_path / "edgepipe_runtime"
    package.mkdir()
    for path in Path(board.__file__).parent.glob("*.py"):
        (package / path.name).write_bytes(path.read_bytes())
    (tmp_path / "net.edgepipe").mkdir()
    script = (
        "import edgepipe_runtime as e\n"
        "try: e.load('net.edgepipe')\n"
        "except e.RuntimeFailure as error: print(error); print(error.hint)\n"
    )

    def said():
        run = subprocess.run(
            [sys.executable, "-c", script],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        return run.stdout.splitlines()

    text, hint = said()
    assert text.startswith("libedgepipe_c.so was not found, looked for ")
    assert hint == "install the wheel edgepipe_runtime for this machine"
    (package / library.LIBRARY_NAME).write_bytes(b"no library")
    text, hint = said()
    assert "libedgepipe_c.so cannot be loaded: " in text
    assert hint == "install the wheel edgepipe_runtime for this machine"

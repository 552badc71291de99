"""``edgepipe_runtime``, the Python package for boards, gives what ``edgepipe`` does."""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path

import cv2
import needs
import numpy as np
import pipeline_bundles as bundles
import pytest
from test_own_decoder import BOXES_C, bundle_of, compiled

import edgepipe
import edgepipe_runtime as board
from edgepipe.description import Postprocess
from edgepipe.frontend.preprocess import Preprocess

pytestmark = pytest.mark.sim

PACKAGE = Path(board.__file__).parent
FITS = (
    {"order": "BGR", "fit": "stretch"},
    {"order": "RGB", "fit": "center_crop", "resize_short_side": 19},
    {"order": "BGR", "fit": "letterbox", "padding": 7},
    {"order": "RGB", "fit": "letterbox", "align": "top_left"},
)


@pytest.fixture(scope="module", autouse=True)
def library():
    """Skip without the library, which a build of the host contains."""
    path = needs.BUILD / "host" / "lib" / "libedgepipe_c.so"
    if not path.is_file():
        needs.lacking(f"{path} is missing; `make test` builds it")


@pytest.fixture(scope="module")
def bundle(network, files, tmp_path_factory):
    frame = bundles.frames(1)[0]
    golden = {"frame": frame, "scores": network.run(frame)}
    return bundles.write_bundle(tmp_path_factory.mktemp("board") / "tiny", files, golden)


@pytest.fixture(scope="module")
def scores(bundle):
    """Return a function that gives the scores of a frame, as the host computes them."""
    with edgepipe.load(bundle, pinning="off") as host:
        yield lambda frame: host.submit(np.asarray(frame)).result().outputs["scores"]


def loaded(bundle, **options):
    return board.load(bundle, pinning="off", **options)


def plain(result):
    """Return a result of either package as plain values, without its latency."""
    values = asdict(result) if is_dataclass(result) else dict(result)
    values.pop("latency_ms")
    values["outputs"] = {name: array.tobytes() for name, array in result.outputs.items()}
    if result.class_map is not None:
        values["class_map"] = result.class_map.classes.tolist()
    return values


def pictures():
    random = np.random.default_rng(5)
    for height, width in ((48, 64), (31, 57), (7, 9), (40, 5), (16, 33)):
        yield random.integers(0, 256, (height, width, 3)).astype(np.uint8)


def test_frames_give_the_hosts_results(bundle, network):
    frames = bundles.frames(7)
    with loaded(bundle) as pipeline, edgepipe.load(bundle, pinning="off") as host:
        for name in ("name", "device", "stages", "labels", "slots", "num_inputs", "num_outputs"):
            assert getattr(pipeline, name) == getattr(host, name)
        assert [asdict(port) for port in pipeline.inputs] == [asdict(p) for p in host.inputs]
        found = [plain(result) for result in pipeline.map(frames)]
        assert found == [plain(result) for result in host.map(frames)]
        assert found[0]["outputs"]["scores"] == network.run(frames[0]).tobytes()  # stock TVM
        assert found[0]["classes"]
        assert pipeline.label(1) == "bee"


@pytest.mark.parametrize("fit", FITS, ids=lambda fit: "-".join(map(str, fit.values())))
def test_pictures_and_files_give_the_hosts_results(files, tmp_path, fit):
    preprocess = Preprocess(width=16, height=16, mean=(0.0,) * 3, std=(1.0,) * 3, **fit)
    tiny = bundles.write_bundle(tmp_path / "tiny", files, {}, preprocess=preprocess)
    with loaded(tiny) as pipeline, edgepipe.load(tiny, pinning="off") as host:
        for number, picture in enumerate(pictures()):
            assert plain(pipeline(picture)) == plain(host(picture))
            wide = np.zeros((picture.shape[0], 80, 3), np.uint8)
            part = wide[:, : picture.shape[1]]  # rows with space behind them
            part[:] = picture
            assert pipeline(part).outputs[0].tobytes() == host(picture).outputs[0].tobytes()
            mirrored = picture[:, ::-1]
            assert pipeline(mirrored).outputs[0].tobytes() == host(mirrored).outputs[0].tobytes()
            for suffix in (".png", ".jpg", ".bmp", ".ppm"):
                path = tmp_path / f"{number}{suffix}"
                assert cv2.imwrite(str(path), picture)
                found = pipeline(path)
                assert plain(found) == {**plain(host(path)), "frame": found.frame}


@pytest.mark.parametrize("fit", FITS[:3], ids=lambda fit: fit["fit"])
def test_boxes_and_points_are_in_the_pictures_pixels(files, tmp_path, fit, monkeypatch):
    library = compiled(tmp_path, BOXES_C)
    tiny = bundle_of(tmp_path / "own", files, library=library)
    preprocess = Preprocess(width=16, height=16, mean=(0.0,) * 3, std=(1.0,) * 3, **fit)
    write = bundles.write_bundle
    monkeypatch.setattr(
        bundles, "write_bundle", lambda *a, **k: write(*a, **k, preprocess=preprocess)
    )
    tiny = bundle_of(tmp_path / "fitted", files, library=library)
    with loaded(tiny) as pipeline, edgepipe.load(tiny, pinning="off") as host:
        for picture in pictures():
            found = pipeline(picture)
            assert len(found.detections) == 2
            assert len(found.detections[0].points) == 2
            assert plain(found) == plain(host(picture))
        frame = bundles.frames(1)[0]
        found = pipeline.submit(frame).result()  # no picture: in the input's pixels
        assert plain(found) == plain(host.submit(frame).result())


@pytest.mark.parametrize("fit", FITS[:3], ids=lambda fit: fit["fit"])
def test_a_class_map_has_the_pictures_pixels(files, tmp_path, fit):
    # The five scores, one for each column of a map of five cells.
    preprocess = Preprocess(width=16, height=16, mean=(0.0,) * 3, std=(1.0,) * 3, **fit)
    tensors = [*bundles.TENSORS[:-1], bundles.tensor("scores", "float32", (1, 1, 1, 5))]
    tiny = bundles.write_bundle(
        tmp_path / "map",
        files,
        {},
        tensors=tensors,
        preprocess=preprocess,
        postprocess=Postprocess(
            kind="segmentation", outputs=("scores",), score_threshold=0.5, labels="labels.txt"
        ),
    )
    with loaded(tiny) as pipeline, edgepipe.load(tiny, pinning="off") as host:
        for picture in pictures():
            found, expected = pipeline(picture), host(picture)
            assert found.class_map.classes.shape == picture.shape[:2]
            assert found.class_map.classes.tolist() == expected.class_map.classes.tolist()
            shares = [asdict(area) for area in expected.class_map.areas()]
            assert [asdict(area) for area in found.class_map.areas()] == shares


def aligned(shape, dtype):
    """Return an array that begins at a page, as pynq.allocate's do."""
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.zeros(count + 4096, np.uint8)
    start = -memory.ctypes.data % 4096
    return memory[start : start + count].view(dtype).reshape(shape)


class PynqBuffer(np.ndarray):
    """What pynq.allocate returns: an array with the addresses of its memory."""

    physical_address = device_address = 0x1000_0000


def test_frames_in_the_callers_buffers_are_not_copied(bundle, scores):
    given = [aligned((1, 16, 16, 3), np.uint8).view(PynqBuffer) for _ in range(2)]
    results = [aligned((1, 5), np.float32).view(PynqBuffer) for _ in range(2)]
    frames = bundles.frames(5)
    with loaded(bundle, buffers={"frame": given, "scores": results}) as pipeline:
        assert pipeline.slots == 2
        for number, frame in enumerate(frames):
            buffer = given[number % 2]
            buffer[:] = frame
            pipeline.run(buffer)
            with pipeline.borrow(timeout_s=10) as result:
                own = results[number % 2]
                assert result.outputs["scores"].ctypes.data == own.ctypes.data
                np.testing.assert_array_equal(own, scores(frame))
                assert result.classes
        # The other buffer is copied, so the results are right all the same.
        given[1][:] = frames[0]
        pipeline.run(given[0])  # frame 5 uses buffer 1
        np.testing.assert_array_equal(given[1], given[0])
        assert pipeline.next().outputs[0].tobytes() == scores(given[0]).tobytes()


def test_the_next_frames_memory_can_be_filled_in_place(bundle, scores):
    frames = bundles.frames(3)
    with loaded(bundle) as pipeline:
        for frame in frames:
            memory = pipeline.next_inputs()["frame"]
            assert memory.ctypes.data == pipeline.next_inputs()[0].ctypes.data
            memory[:] = frame
            pipeline.run(memory)
            assert pipeline.next().outputs[0].tobytes() == scores(frame).tobytes()


def test_a_borrowed_frame_holds_up_the_next_ones(bundle):
    frames = bundles.frames(2)
    with loaded(bundle) as pipeline:
        for frame in frames:
            pipeline.run(frame)
        future = pipeline.submit(frames[0])
        with pipeline.borrow() as result:
            assert not result.outputs[0].flags.writeable
            with pytest.raises(board.DeadlinePassed, match="the one before is borrowed") as caught:
                pipeline.next(timeout_s=0.05)
            assert caught.value.hint == "end the block of `with pipeline.borrow()` first"
            assert not future.done()
        assert pipeline.next().frame == 1
        assert future.result().frame == 2


def test_futures_callbacks_and_coroutines(bundle, scores):
    frames = bundles.frames(4)
    expected = [scores(frame).tobytes() for frame in frames]
    called = threading.Event()

    async def gather(pipeline):
        return await asyncio.gather(*map(as_coroutine, pipeline.submit_many(frames)))

    async def as_coroutine(future):
        return await future

    with loaded(bundle) as pipeline:
        futures = pipeline.submit_many(frames)
        futures[-1].add_done_callback(lambda future: called.set())
        assert called.wait(30)
        assert [f.result().outputs[0].tobytes() for f in reversed(futures)] == expected[::-1]
        assert futures[0].exception() is None
        assert [r.outputs[0].tobytes() for r in asyncio.run(gather(pipeline))] == expected
        for _ in range(10):  # results that nobody wants free their slots
            pipeline.submit(frames[0], timeout_s=10)
        pipeline.drain()
        future = pipeline.submit(frames[0], timeout_s=10)
        if future.cancel():
            with pytest.raises(board.FrameCancelled):
                future.result()


def test_values_of_set_input_are_used_once_each_and_the_last_one_stays(bundle, scores):
    frames = bundles.frames(3)
    with loaded(bundle) as pipeline:
        for frame in frames[:2]:
            pipeline.set_input("frame", frame)
        np.testing.assert_array_equal(pipeline.get_input("frame"), frames[1])
        for expected in (frames[0], frames[1], frames[1]):
            pipeline.run()
            assert pipeline.next().outputs[0].tobytes() == scores(expected).tobytes()


def test_a_pipeline_that_was_stopped_or_cancelled_starts_again(bundle):
    frame = bundles.frames(1)[0]
    with loaded(bundle, trace=True) as pipeline:
        pipeline.run(frame)
        pipeline.stop()
        assert pipeline.next().frame == 0
        with pytest.raises(board.PipelineEnded):
            pipeline.next()
        with pytest.raises(board.PipelineEnded):
            pipeline.run(frame)
        pipeline.restart()
        lost = pipeline.submit(frame)
        pipeline.cancel()
        pipeline.restart()
        if not lost.done() or lost.exception() is not None:
            with pytest.raises(board.PipelineEnded, match="was dropped by a restart"):
                lost.result()
        assert pipeline.run(frame) == 0
        assert pipeline.next().frame == 0
        found = pipeline.statistics()
        assert (found.submitted, found.delivered, found.slots) == (1, 1, pipeline.slots)
        assert [stage.name for stage in found.stages] == list(pipeline.stages)
        assert found.stages[0].busy.count == 1


def test_the_trace_and_the_published_statistics_exist(bundle, tmp_path):
    with loaded(bundle, trace=True) as pipeline:
        list(pipeline.map(bundles.frames(2)))
        pipeline.write_trace(tmp_path / "trace.json")
        assert b"stem" in (tmp_path / "trace.json").read_bytes()
        published = f"edgepipe-{os.getpid()}-*.json"
        assert list(Path("/dev/shm").glob(published)) or not Path("/dev/shm").is_dir()


def test_many_threads_send_and_take(bundle, scores):
    frames = bundles.frames(6)
    expected = [scores(frame).tobytes() for frame in frames]
    wrong = []

    def work(pipeline, index):
        for _ in range(10):
            found = pipeline.submit(frames[index], timeout_s=60).result()
            if found.outputs[0].tobytes() != expected[index]:
                wrong.append(index)

    with loaded(bundle) as pipeline:
        threads = [threading.Thread(target=work, args=(pipeline, n)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert wrong == []
        assert pipeline.statistics().delivered == 60


def test_an_interrupt_ends_a_wait(bundle):
    class InterruptError(Exception):
        pass

    def interrupt(*_):
        raise InterruptError

    with loaded(bundle) as pipeline:
        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            begun = time.monotonic()
            with pytest.raises(InterruptError):
                pipeline.next(timeout_s=30)
            assert time.monotonic() - begun < 10
        finally:
            signal.signal(signal.SIGALRM, before)
        pipeline.run(bundles.frames(1)[0])
        assert pipeline.next().frame == 0


def public(kind):
    return {name for name in vars(kind) if not name.startswith("_")}


# What a bundle on a board has no use for: parameters belong to stages that TVM runs.
HOST_ONLY = {"set_parameters"}
BOARD_ONLY = {"borrow", "next_inputs"}


def test_the_interface_is_that_of_the_host():
    assert public(edgepipe.Pipeline) - HOST_ONLY == public(board.Pipeline) - BOARD_ONLY
    assert public(edgepipe.FrameFuture) - {"frame"} == public(board.FrameFuture)
    for kind in ("Pipeline", "FrameFuture", "Named", "Detection", "ClassMap"):
        ours, theirs = getattr(board, kind), getattr(edgepipe, kind)
        for name in (public(ours) & public(theirs)) - {"receive"}:  # which the pipeline calls
            if inspect.isfunction(getattr(theirs, name)):
                found, expected = (inspect.signature(getattr(k, name)) for k in (ours, theirs))
                assert list(found.parameters) == list(expected.parameters), (kind, name)
                kinds = [p.kind for p in found.parameters.values()]
                assert kinds == [p.kind for p in expected.parameters.values()], (kind, name)
    parameters = list(inspect.signature(board.load).parameters)
    assert parameters == [*inspect.signature(edgepipe.load).parameters, "buffers"]
    for kind in ("Detection", "Point", "ClassScore", "ClassArea", "FrameResult"):
        ours, theirs = (fields(getattr(package, kind)) for package in (board, edgepipe))
        assert [field.name for field in ours] == [field.name for field in theirs]


def test_the_sources_are_python_3_8_and_import_numpy_alone():
    imported = set()
    for path in PACKAGE.glob("*.py"):
        module = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))
        for node in ast.walk(module):
            if isinstance(node, ast.Import):
                imported |= {name.name.partition(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add((node.module or "").partition(".")[0])
    assert imported - sys.stdlib_module_names == {"numpy", "edgepipe_runtime"}


def test_the_package_imports_nothing_of_the_host():
    done = subprocess.run(
        [sys.executable, "-c", "import sys, edgepipe_runtime; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        cwd=PACKAGE.parent,
    )
    assert not {"edgepipe", "tvm_ffi", "cv2", "tvm"} & set(done.stdout.split())

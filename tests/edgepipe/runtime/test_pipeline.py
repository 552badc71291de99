"""The pipeline on real bundles: bit-equal results in order, stop, cancel, errors, statistics."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections import Counter

import numpy as np
import pipeline_bundles as bundles
import pytest

from edgepipe.description import Postprocess
from edgepipe.errors import PipelineError, RuntimeFailure
from edgepipe.loading import load
from edgepipe.report.detection import decode_nanodet
from edgepipe.runtime import library
from edgepipe.runtime.pipeline import Pinning
from edgepipe.top import snapshot

pytestmark = pytest.mark.sim


@pytest.fixture(scope="module", params=["tiny", "tiny.edgepipe"], ids=["folder", "archive"])
def bundle(request, tmp_path_factory, network, files):
    frame = bundles.frames(1)[0]
    golden = {"frame": frame, "scores": network.run(frame)}
    return bundles.write_bundle(tmp_path_factory.mktemp("b") / request.param, files, golden)


@pytest.mark.parametrize("serial", [False, True], ids=["pipelined", "serial"])
def test_every_frame_has_the_bits_of_the_reference_in_order(bundle, network, serial):
    frames = bundles.frames(12)
    with load(bundle, serial=serial) as pipeline:
        results = list(pipeline.map(frames))
    assert [result.frame for result in results] == list(range(12))
    for frame, result in zip(frames, results, strict=True):
        np.testing.assert_array_equal(result.outputs["scores"], network.run(frame))


def test_a_timed_run_is_no_faster_than_the_board(bundle, network):
    frames = bundles.frames(3)
    with load(bundle, device="timed") as pipeline:
        results = list(pipeline.map(frames))
        body = pipeline.statistics().stages[1]
    assert body.busy.min_ms >= 10
    for frame, result in zip(frames, results, strict=True):
        np.testing.assert_array_equal(result.outputs["scores"], network.run(frame))


def test_the_pipeline_describes_itself(bundle):
    with load(bundle) as pipeline:
        assert pipeline.name == "tiny"
        assert pipeline.stages == ("stem", "body", "head")
        assert pipeline.inputs[0].shape == (1, 16, 16, 3)
        assert [tensor.name for tensor in pipeline.outputs] == ["scores"]
        assert pipeline.labels == bundles.LABELS
        assert pipeline.slots == 5


def test_the_bundle_sets_the_number_of_frames_in_flight_unless_the_caller_does(tmp_path, files):
    bundle = bundles.write_bundle(tmp_path / "tiny", files, {}, slots=7)
    with load(bundle) as pipeline:
        assert pipeline.slots == 7
    with load(bundle, slots=2) as pipeline:
        assert pipeline.slots == 2


def test_classes_are_the_best_scores_with_their_softmax(bundle, network):
    frame = bundles.frames(1, seed=9)[0]
    with load(bundle) as pipeline:
        pipeline.run(frame)
        classes = pipeline.next().classes
    scores = network.run(frame)[0].astype(np.float64)
    best = np.argsort(-scores, kind="stable")[:3]
    softmax = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
    assert [found.label_index for found in classes] == list(best)
    assert [found.label for found in classes] == [bundles.LABELS[index] for index in best]
    np.testing.assert_allclose([found.probability for found in classes], softmax[best], rtol=1e-5)


def test_stop_finishes_what_was_submitted(bundle):
    with load(bundle, slots=4) as pipeline:
        for frame in bundles.frames(3):
            pipeline.run(frame)
        pipeline.stop()
        assert [pipeline.next().frame for _ in range(3)] == [0, 1, 2]
        with pytest.raises(RuntimeFailure, match="the pipeline has been stopped"):
            pipeline.next()
        with pytest.raises(RuntimeFailure, match="the pipeline has been stopped"):
            pipeline.run(bundles.frames(1)[0])


def test_cancel_wakes_a_thread_that_waits(bundle):
    with load(bundle) as pipeline:
        timer = threading.Timer(0.05, pipeline.cancel)
        timer.start()
        with pytest.raises(RuntimeFailure, match="the pipeline has been cancelled"):
            pipeline.next()
        timer.join()


def test_one_thread_submits_while_another_takes(bundle):
    frames = bundles.frames(30)
    with load(bundle, slots=3) as pipeline:

        def submit_all():
            for frame in frames:
                pipeline.run(frame, timeout_s=60)

        producer = threading.Thread(target=submit_all)
        producer.start()
        numbers = [pipeline.next().frame for _ in frames]
        producer.join()
    assert numbers == list(range(30))


def test_statistics_balance_and_measure_every_stage(bundle):
    with load(bundle) as pipeline:
        list(pipeline.map(bundles.frames(10)))
        statistics = pipeline.statistics()
    assert (statistics.submitted, statistics.delivered, statistics.in_flight) == (10, 10, 0)
    assert [stage.name for stage in statistics.stages] == ["stem", "body", "head"]
    for stage in statistics.stages:
        assert stage.busy.count == 10
        assert 0 < stage.busy.min_ms <= stage.busy.median_ms <= stage.busy.p99_ms
        assert len(stage.cores) == 1
    assert statistics.frames_per_second > 0
    assert statistics.latency.min_ms >= max(stage.busy.min_ms for stage in statistics.stages)


def test_wrong_inputs_are_refused_by_name(bundle):
    expected = r"expected uint8\[1, 16, 16, 3\] \(nhwc\)"
    with load(bundle) as pipeline:
        with pytest.raises(
            PipelineError, match=rf"'frame': found float64\[1, 16, 16, 3\], {expected}"
        ):
            pipeline.run(np.zeros((1, 16, 16, 3)))
        with pytest.raises(PipelineError, match=rf"'frame': found uint8\[1, 8, 8, 3\], {expected}"):
            pipeline.run(np.zeros((1, 8, 8, 3), np.uint8))
        with pytest.raises(PipelineError, match="found 2 inputs, expected 1"):
            pipeline.run(*bundles.frames(2))
        with pytest.raises(PipelineError, match="input 'frame': is given twice"):
            pipeline.run(bundles.frames(1)[0], frame=bundles.frames(1)[0])


def test_a_picture_of_another_layout_is_refused_with_its_order_of_axes(bundle):
    nchw = np.ascontiguousarray(bundles.frames(1)[0].transpose(0, 3, 1, 2))
    with load(bundle) as pipeline:
        for send in (pipeline.run, pipeline.submit, lambda array: list(pipeline.map([array]))):
            with pytest.raises(PipelineError, match=r"found uint8\[1, 3, 16, 16\]") as caught:
                send(nchw)
            assert caught.value.hint == "the array is NCHW: pass np.transpose(array, (0, 2, 3, 1))"
        assert pipeline.statistics().submitted == 0


OF_ANY_SIZE = "pipeline(picture) takes a file, or a BGR picture uint8[h, w, 3] of any size"


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        (np.zeros((16, 16, 3), np.uint8), "the first axis counts frames: pass array[None]"),
        (
            np.zeros((3, 16, 16), np.uint8),
            "the array is CHW: pass np.transpose(array, (1, 2, 0))[None]",
        ),
        (
            np.zeros((1, 16, 16, 3), np.float32),
            "pass bytes from 0 to 255 as np.uint8; the pipeline normalises them itself",
        ),
        (np.zeros((48, 64, 3), np.uint8), OF_ANY_SIZE),
        (np.zeros((2, 16, 16, 3), np.uint8), OF_ANY_SIZE),
        ("street.jpg", OF_ANY_SIZE),
        ([[1, 2, 3]], OF_ANY_SIZE),
    ],
    ids=("hwc", "chw", "float32", "size", "batch", "path", "list"),
)
def test_an_array_that_is_not_a_frame_is_refused_with_what_to_pass(bundle, wrong, hint):
    with load(bundle) as pipeline, pytest.raises(PipelineError) as caught:
        pipeline.submit(wrong)
    assert caught.value.hint == hint


def test_an_array_with_gaps_is_read_correctly(bundle, network):
    frame = bundles.frames(1)[0]
    gaps = np.zeros((1, 16, 32, 3), np.uint8)[:, :, ::2]
    gaps[...] = frame
    transposed = np.ascontiguousarray(frame.transpose(0, 3, 1, 2)).transpose(0, 2, 3, 1)
    with load(bundle) as pipeline:
        for result in pipeline.map([gaps, transposed]):
            np.testing.assert_array_equal(result.outputs["scores"], network.run(frame))


def test_waiting_ends_at_the_deadline(bundle):
    with (
        load(bundle) as pipeline,
        pytest.raises(RuntimeFailure, match="before the deadline: none is in the pipeline"),
    ):
        pipeline.next(timeout_s=0.01)


def test_a_core_that_does_not_exist_is_an_error_unless_pinning_is_preferred(bundle):
    with pytest.raises(
        RuntimeFailure,
        match="thread 'stem': core 999 does not exist or is not available to this process, "
        "expected 0",
    ):
        load(bundle, cores=[999])
    with load(bundle, cores=[999], pinning=Pinning.PREFERRED) as pipeline:
        assert pipeline.statistics().stages[0].cores == ()


def test_a_closed_pipeline_says_so(bundle):
    pipeline = load(bundle)
    pipeline.close()
    with pytest.raises(RuntimeFailure, match=r"pipeline: used after close\(\)"):
        pipeline.next()


def test_altered_kernels_are_refused(bundle, tmp_path):
    altered = tmp_path / bundle.name
    if bundle.is_dir():
        shutil.copytree(bundle, altered)
        file = next(altered.rglob("kernels-x86_64-avx2.so"))
    else:
        file = shutil.copy(bundle, altered)
    content = bytearray(file.read_bytes())
    content[content.index(b"\x7fELF") + 2000] ^= 1
    file.write_bytes(content)
    with pytest.raises(RuntimeFailure, match="does not have the digest that the manifest records"):
        load(altered)


def test_boxes_are_those_of_the_numpy_decoder(tmp_path, files):
    """The decoder reads any tensor of a frame, so random heads come in as inputs of the bundle."""
    rng = np.random.default_rng(4)
    strides, bins, classes, size = (8, 16, 32), 11, 6, 100  # 100: not a multiple of the strides
    heads = {}
    for stride in strides:
        cells = (-(-size // stride)) ** 2
        heads[f"scores_{stride}"] = rng.uniform(0, 0.6, (1, cells, classes)).astype(np.float32)
        heads[f"distances_{stride}"] = rng.normal(0, 2, (1, cells, 4 * bins)).astype(np.float32)
    names = {kind: tuple(f"{kind}_{s}" for s in strides) for kind in ("scores", "distances")}
    bundle = bundles.write_bundle(
        tmp_path / "heads",
        files,
        {},
        tensors=[
            *bundles.TENSORS,
            *(bundles.tensor(name, "float32", array.shape) for name, array in heads.items()),
        ],
        inputs=("frame", *heads),
        postprocess=Postprocess(
            kind="nanodet", strides=strides, bins=bins, score_threshold=0.4, **names
        ),
        size=size,
    )
    with load(bundle) as pipeline:
        pipeline.run(bundles.frames(1)[0], *heads.values())
        found = pipeline.next().detections
    expected = decode_nanodet(
        heads, names["scores"], names["distances"], strides=strides, input_size=(size, size)
    )
    assert len(found) == min(100, len(expected.scores)) > 20
    boxes = np.array([[box.left, box.top, box.right, box.bottom] for box in found])
    np.testing.assert_allclose(boxes, expected.corners[: len(found)], atol=1e-3)
    np.testing.assert_allclose([box.score for box in found], expected.scores[: len(found)])
    assert [box.label_index for box in found] == list(expected.classes[: len(found)])


def test_heads_of_another_shape_than_described_are_refused(tmp_path, files):
    scores = bundles.tensor("scores_8", "float32", (1, 4, 6))
    distances = bundles.tensor("distances_8", "float32", (1, 4, 44))
    bundle = bundles.write_bundle(
        tmp_path / "heads",
        files,
        {},
        tensors=[*bundles.TENSORS, scores, distances],
        inputs=("frame", "scores_8", "distances_8"),
        postprocess=Postprocess(
            kind="nanodet", strides=(8,), bins=11, scores=("scores_8",), distances=("distances_8",)
        ),
        size=100,
    )
    wrong = r"tensor 'scores_8' is \[1, 4, 6\], expected scores in each of 13x13 cells"
    with pytest.raises(RuntimeFailure, match=wrong) as caught:
        load(bundle)
    assert caught.value.hint == "correct the network's description and build the bundle again"


def test_a_traced_run_has_a_slice_per_stage_and_frame(bundle, tmp_path):
    path = tmp_path / "trace.json"
    with load(bundle, trace=True) as pipeline:
        list(pipeline.map(bundles.frames(6)))
        pipeline.write_trace(path)
        stages = pipeline.stages
    events = json.loads(path.read_text())["traceEvents"]
    slices = Counter(event["name"] for event in events if event["ph"] == "X")
    assert slices == dict.fromkeys(("fill", *stages), 6)


def test_a_trace_that_cannot_be_written_names_its_file(bundle, tmp_path):
    refused = pytest.raises(RuntimeFailure, match=r"nowhere/trace\.json: the trace cannot be")
    with load(bundle, trace=True) as pipeline, refused:
        pipeline.write_trace(tmp_path / "nowhere" / "trace.json")


def test_a_running_pipeline_is_seen_from_outside_until_it_is_closed(bundle):
    def mine():
        return [found for found in snapshot.read_here().snapshots if found.pid == os.getpid()]

    with load(bundle) as pipeline:
        list(pipeline.map(bundles.frames(6)))
        end = time.monotonic() + 30
        while not any(found.statistics.delivered == 6 for found in mine()):
            assert time.monotonic() < end, "its figures were not published"
            time.sleep(0.05)
        (found,) = (one for one in mine() if one.statistics.delivered == 6)
        assert found.network == pipeline.name
        assert found.device == "simulator"
        assert [stage.name for stage in found.statistics.stages] == list(pipeline.stages)
    assert found.key not in [one.key for one in mine()]


def test_an_error_about_a_name_that_is_not_utf_8_is_reported(tmp_path):
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    (folder / "manifest.json").write_text("{}")
    with pytest.raises(RuntimeFailure, match="caf\ufffd"):
        library.call("load_pipeline", os.fsencode(folder), "{}")

"""Whole pipelines run by a real edgepipe-rpcd: the functions of edgepipe.pipeline answer by RPC."""

import threading
import time

import numpy as np
import pytest
from interrupts import Storm
from needs import rpcd
from numpy.testing import assert_array_equal
from small_networks import build_small_bundle

from edgepipe import rpc
from edgepipe.errors import (
    DeadlinePassed,
    PipelineEnded,
    PipelineError,
    RpcError,
    RuntimeFailure,
)
from edgepipe.loading import load
from edgepipe.pipeline import PipelineConfig, load_on, python_stage, relax_stage
from edgepipe.tvm_adapter import ModuleBuilder

pytestmark = pytest.mark.sim
SHAPE = (1, 8)


@pytest.fixture(scope="module")
def server():
    with rpc.LocalServer.start(rpcd(), allow_root=True) as running:
        yield running


@pytest.fixture
def session(server):
    with rpc.connect(server.port, key=server.key) as opened:
        yield opened


def vector(number):
    return np.arange(number, number + 8, dtype=np.int32).reshape(SHAPE)


def scaled():
    """out0 = x * factor, out1 = x + 1; factor is a parameter."""
    builder = ModuleBuilder()
    builder.param("x", SHAPE, "int32")
    builder.param("factor", (1, 1), "int32")
    builder.emit("out0", "multiply", "x", "factor")
    builder.emit("out1", "add", "x", np.int32([[1]]))
    return builder.finish(["out0", "out1"])


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    stage = relax_stage(scaled(), name="scaled", parameters={"factor": np.int32([[2]])})
    config = PipelineConfig("by-rpc")
    config.inputs["data"] = (stage, "x")
    config.outputs.append((stage, 0))
    config.outputs.append((stage, 1))
    config.parameter_groups["weights"] = stage
    return config.build().export(tmp_path_factory.mktemp("exported") / "pipeline")


def counted(pipeline, name):
    """Count the calls of one of the pipeline's functions; return the list of their arguments."""
    calls = []
    function = pipeline._functions[name]
    pipeline._functions[name] = lambda *arguments: calls.append(arguments) or function(*arguments)
    return calls


def test_a_thread_that_waits_for_a_frame_lets_another_run_it(session, exported):
    pipeline = load_on(session, exported)
    slices = counted(pipeline, "await_frame")
    results = []
    waited = []
    for number in range(5):
        taker = threading.Thread(target=lambda: results.append(pipeline.next(timeout_s=60)))
        taker.start()
        begun = len(slices)
        while len(slices) < begun + 2:
            time.sleep(0.001)
        before = len(slices)
        pipeline.run(data=vector(number))
        waited.append(len(slices) - before)
        taker.join()
    assert min(waited) < 10  # the current one, and a few until this thread gets there
    assert [result.frame for result in results] == [0, 1, 2, 3, 4]
    pipeline.close()


def test_arrays_travel_twice_at_most_however_long_a_slot_is_waited_for(session, exported):
    pipeline = load_on(session, exported, slots=1)
    pipeline.run(data=vector(1))
    sent, slices = counted(pipeline, "send"), counted(pipeline, "await_slot")
    frames = []
    waiting = threading.Thread(
        target=lambda: frames.append(pipeline.run(data=vector(2), timeout_s=60))
    )
    waiting.start()
    while len(slices) < 3:
        time.sleep(0.001)
    assert pipeline.next(timeout_s=60).frame == 0
    waiting.join(timeout=60)
    assert frames == [1]
    assert len(sent) == 2
    assert_array_equal(pipeline.next(timeout_s=60).outputs[0], 2 * vector(2))


def test_load_set_input_run_and_get_output_answer(session, exported):
    pipeline = load_on(session, exported, slots=4)
    assert (pipeline.name, pipeline.stages, pipeline.slots) == ("by-rpc", ("scaled",), 4)
    assert (pipeline.num_inputs, pipeline.num_outputs) == (1, 2)
    assert pipeline.get_output() is None
    pipeline.set_input("data", vector(3))
    assert_array_equal(pipeline.get_input("data"), vector(3))
    assert [pipeline.run(), pipeline.run(data=vector(5))] == [0, 1]
    for frame, number in enumerate((3, 5)):
        result = pipeline.next(timeout_s=30)
        assert result.frame == frame
        assert result.latency_ms > 0
        assert_array_equal(result.outputs[0], 2 * vector(number))
        assert_array_equal(result.outputs[1], vector(number) + 1)


def test_parameters_are_replaced_for_the_frames_that_follow(session, exported):
    pipeline = load_on(session, exported)
    pipeline.run(data=vector(1))
    pipeline.set_parameters("weights", {"factor": np.int32([[7]])})
    pipeline.run(data=vector(1))
    assert_array_equal(pipeline.next(timeout_s=30).outputs[0], 2 * vector(1))
    assert_array_equal(pipeline.next(timeout_s=30).outputs[0], 7 * vector(1))
    with pytest.raises(PipelineError, match="group 'weight' is unknown"):
        pipeline.set_parameters("weight", {"factor": np.int32([[7]])})
    with pytest.raises(PipelineError, match="stage 'scaled': has no parameter 'f'"):
        pipeline.set_parameters("weights", {"f": np.int32([[7]])})
    with pytest.raises(PipelineError, match=r"found int64\[1, 1\], expected int32\[1, 1\]"):
        pipeline.set_parameters("weights", {"factor": np.int64([[7]])})


def test_statistics_drain_stop_cancel_and_restart_answer(session, exported):
    pipeline = load_on(session, exported, slots=2)
    pipeline.set_input("data", vector(0))
    pipeline.run()
    pipeline.run()
    pipeline.drain(timeout_s=30)
    with pytest.raises(DeadlinePassed, match="no free slot"):
        pipeline.run(timeout_s=0.1)
    assert (pipeline.statistics().submitted, pipeline.num_executing) == (2, 2)
    pipeline.stop(timeout_s=30)
    assert [pipeline.next().frame, pipeline.next().frame] == [0, 1]
    with pytest.raises(PipelineEnded, match="has been stopped"):
        pipeline.next()
    pipeline.restart(timeout_s=30)
    assert pipeline.run(data=vector(4)) == 0
    pipeline.cancel()
    with pytest.raises(PipelineEnded, match="has been cancelled"):
        pipeline.next()
    found = pipeline.statistics()
    assert (found.submitted, found.delivered, found.dropped, found.failed) == (1, 0, 1, 0)


def test_a_bundle_gives_the_same_bits_there_as_here(session, tmp_path):
    bundle = build_small_bundle(tmp_path)
    frame = np.random.default_rng(5).integers(0, 256, (1, 16, 16, 3), dtype=np.uint8)
    pipeline = load_on(session, bundle, device="simulator")
    assert pipeline.device == "simulator"
    pipeline.run(**dict.fromkeys(pipeline.inputs.names, frame))
    there = pipeline.next(timeout_s=60)
    with load(bundle) as local:
        local.run(frame)
        here = local.next()
    for array, expected in zip(there.outputs, here.outputs, strict=True):
        assert_array_equal(array, expected)


def test_wrong_inputs_and_stages_are_reported(session, exported, tmp_path):
    pipeline = load_on(session, exported)
    with pytest.raises(PipelineError, match="input 'data': has not been set"):
        pipeline.run()
    with pytest.raises(PipelineError, match=r"'date': the pipeline has no such input"):
        pipeline.set_input("date", vector(0))
    with pytest.raises(PipelineError, match=r"found int32\[2\], expected int32\[1, 8\]"):
        pipeline.set_input("data", np.int32([1, 2]))
    config = PipelineConfig()
    ports = {"inputs": {"x": ("int32", SHAPE)}, "outputs": {"y": ("int32", SHAPE)}}
    stage = python_stage(np.negative, name="negative", **ports)
    config.inputs["data"] = (stage, "x")
    config.outputs.append((stage, 0))
    built = config.build()
    with pytest.raises(RpcError, match="stage 'negative': kind 'python' needs a function from the"):
        load_on(session, built.folder)


def test_futures_give_their_own_frames_and_several_threads_may_call(session, exported):
    pipeline = load_on(session, exported, slots=4)
    futures = [pipeline.submit(data=vector(i)) for i in range(3)]
    results = {}

    def take(i):
        results[i] = futures[i].result(timeout_s=30)

    threads = [threading.Thread(target=take, args=(i,)) for i in (2, 0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    for i in range(3):
        assert results[i].frame == i
        assert_array_equal(results[i].outputs[0], 2 * vector(i))


def test_a_closed_pipeline_is_gone_there_and_the_session_continues(session, exported):
    with load_on(session, exported) as pipeline:
        assert pipeline.run(data=vector(1)) == 0
    with pytest.raises(RuntimeFailure, match="used after close"):
        pipeline.next()
    with load_on(session, exported) as pipeline:
        assert pipeline.run(data=vector(1)) == 0


def test_interrupted_calls_are_repeated_and_lose_nothing(session, exported):
    pipeline = load_on(session, exported, slots=4)
    storm = Storm()
    with storm.raging():
        for number in storm.rounds(60, interrupts=20):
            given = vector(number)
            if number % 2:
                assert storm(lambda x=given: pipeline.run(data=x, timeout_s=30)) == number
                result = storm(lambda: pipeline.next(timeout_s=30))
            else:
                future = storm(lambda x=given: pipeline.submit(data=x, timeout_s=30))
                assert future.frame == number
                result = storm(lambda f=future: f.result(timeout_s=30))
            assert result.frame == number
            assert_array_equal(result.outputs[0], 2 * given)
    found = pipeline.statistics()
    assert (found.submitted, found.delivered) == (number + 1, number + 1)
    assert (found.dropped, found.in_flight) == (0, 0)
    pipeline.close()


def test_another_call_than_the_interrupted_one_gets_its_own_frame(session, exported):
    pipeline = load_on(session, exported, slots=4)
    send = pipeline._functions["send"]
    for number, is_sent in enumerate((False, True)):

        def interrupted(*arguments, is_sent=is_sent):
            if is_sent:
                send(*arguments)
            raise KeyboardInterrupt

        pipeline._functions["send"] = interrupted
        with pytest.raises(KeyboardInterrupt):
            pipeline.run(data=vector(100))
        pipeline._functions["send"] = send
        frame = pipeline.run(data=vector(number))
        result = pipeline.next(timeout_s=30)
        assert result.frame == frame
        assert_array_equal(result.outputs[0], 2 * vector(number))
    pipeline.close()

"""How a pipeline ends: drained, stopped, cancelled, failed, closed; and how it restarts."""

from __future__ import annotations

import gc
import os
import threading
import time
import weakref
from typing import Any

import numpy as np
import pipeline_stages as made
import pytest
from numpy.testing import assert_array_equal
from pipeline_stages import Start, chain, vector

from edgepipe.errors import DeadlinePassed, PipelineEnded, RuntimeFailure
from edgepipe.pipeline import python_stage


def test_a_stage_that_throws_ends_the_run_with_its_text_and_not_the_process(start: Start) -> None:
    def picky(x: made.Array) -> made.Array:
        if x[0, 0] == 2:
            raise ValueError("two is too many")
        return x

    stage = python_stage(picky, inputs={"x": made.VECTOR}, outputs={"y": made.VECTOR})
    gated = made.GatedStage()
    pipeline = start(chain(gated.stage, stage))
    for i in range(4):
        pipeline.run(data=vector(i))
    gated.gate.set()  # not earlier: a failed pipeline accepts no more frames
    for i in range(2):
        assert_array_equal(pipeline.next().outputs[0], vector(i))
    expected = "stage 1 'picky' at frame 2: ValueError: two is too many"
    for _ in range(2):
        with pytest.raises(RuntimeFailure, match=expected):
            pipeline.next()
    with pytest.raises(RuntimeFailure, match=expected):
        pipeline.get_output()
    with pytest.raises(RuntimeFailure, match=expected):
        pipeline.drain()
    numbers = pipeline.statistics()
    assert (numbers.submitted, numbers.delivered, numbers.failed, numbers.dropped) == (4, 2, 1, 1)


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        (
            np.zeros((1, 9), np.int32),
            r"output 'wrong.y': found int32\[1, 9\], expected int32\[1, 8\]",
        ),
        (np.zeros((1, 8)), r"output 'wrong.y': found float64\[1, 8\], expected int32\[1, 8\]"),
        ((vector(0), vector(0)), "it returned 2 arrays, expected 1"),
        (None, "it returned 0 arrays, expected 1"),
        ("y", "output 'wrong.y': found str"),
    ],
)
def test_a_function_that_returns_something_else_is_reported(
    start: Start, returned: Any, text: str
) -> None:
    stage = python_stage(
        lambda x: returned, name="wrong", inputs={"x": made.VECTOR}, outputs={"y": made.VECTOR}
    )
    pipeline = start(chain(stage))
    pipeline.run(data=vector(0))
    with pytest.raises(RuntimeFailure, match=f"stage 0 'wrong' at frame 0: {text}"):
        pipeline.next()


def test_a_pipeline_that_nothing_refers_to_ends_its_threads() -> None:
    pipeline = chain(made.adder(), made.scaled_stage()).build().start()
    pipeline.run(data=vector(0))
    pipeline.next()
    threads = len(os.listdir("/proc/self/task"))  # noqa: PTH208
    gone = weakref.ref(pipeline)
    gc.disable()
    try:
        del pipeline
        assert gone() is None, "a reference cycle keeps the pipeline alive"
    finally:
        gc.enable()
    # The kernel lists a thread for a moment after it has been joined.
    end = time.monotonic() + 60
    while len(os.listdir("/proc/self/task")) > threads - 2:  # noqa: PTH208
        assert time.monotonic() < end
        time.sleep(0.001)


def test_drain_waits_for_all_frames_and_the_pipeline_continues(start: Start) -> None:
    pipeline = start(chain(made.adder(), made.adder("second")))
    for i in range(3):
        pipeline.run(data=vector(i))
    pipeline.drain()
    assert [getattr(pipeline.get_output(), "frame", None) for _ in range(4)] == [0, 1, 2, None]
    assert pipeline.run(data=vector(3)) == 3


def test_drain_names_the_stage_that_hangs(start: Start) -> None:
    gated = made.GatedStage()
    pipeline = start(chain(made.adder(), gated.stage))
    pipeline.run(data=vector(0))
    assert gated.reached.wait(30)
    with pytest.raises(DeadlinePassed, match="frame 0 is held by stage 1 'gated'"):
        pipeline.drain(timeout_s=0.01)
    gated.gate.set()
    pipeline.drain()


def test_a_stopped_pipeline_gives_its_frames_and_restarts_from_frame_0(start: Start) -> None:
    pipeline = start(chain(made.adder()))
    pipeline.run(data=vector(0))
    with pytest.raises(RuntimeFailure, match="the pipeline is running"):
        pipeline.restart()
    pipeline.stop()
    assert pipeline.next().frame == 0
    with pytest.raises(PipelineEnded):
        pipeline.run(data=vector(1))
    with pytest.raises(PipelineEnded):
        pipeline.get_output()
    pipeline.restart()
    assert pipeline.run(data=vector(7)) == 0
    assert_array_equal(pipeline.next().outputs[0], vector(8))
    assert pipeline.statistics().submitted == 1


def test_cancel_drops_results_and_wakes_waiting_threads(start: Start) -> None:
    gated = made.GatedStage()
    pipeline = start(chain(gated.stage))
    pipeline.run(data=vector(0))
    assert gated.reached.wait(30)
    woken = []

    def wait() -> None:
        with pytest.raises(PipelineEnded) as caught:
            pipeline.next()
        woken.append(str(caught.value))

    waiter = threading.Thread(target=wait)
    waiter.start()
    pipeline.cancel()
    waiter.join(30)
    assert woken == ["the pipeline has been cancelled"]
    gated.gate.set()
    pipeline.restart()
    pipeline.run(data=vector(1))
    assert_array_equal(pipeline.next().outputs[0], vector(1))


def test_a_failed_pipeline_restarts_and_keeps_its_parameters(start: Start) -> None:
    healthy = threading.Event()

    def flaky(x: made.Array) -> made.Array:
        if not healthy.is_set():
            raise OSError("not yet")
        return x

    stage = made.scaled_stage()
    config = chain(
        python_stage(flaky, inputs={"x": made.VECTOR}, outputs={"y": made.VECTOR}), stage
    )
    config.parameter_groups["weights"] = stage
    pipeline = start(config)
    pipeline.set_parameters("weights", {"factor": made.scalar(3)})
    pipeline.run(data=vector(1))
    with pytest.raises(RuntimeFailure, match="OSError: not yet"):
        pipeline.next()
    healthy.set()
    pipeline.restart()
    pipeline.run(data=vector(1))
    assert_array_equal(pipeline.next().outputs[0], 3 * vector(1))


def test_an_array_that_a_stage_has_kept_can_be_read_after_the_end(start: Start) -> None:
    kept: list[made.Array] = []

    def keep(x: made.Array) -> made.Array:
        kept.append(x)
        return x

    stage = python_stage(keep, inputs={"x": made.VECTOR}, outputs={"y": made.VECTOR})
    with start(chain(stage)) as pipeline:
        pipeline.run(data=vector(5))
        pipeline.next()
        assert_array_equal(kept[0], vector(5))
    kept[0].copy()  # its memory still exists, with any content


def test_a_pipeline_that_is_closed_during_a_call_says_so(start: Start) -> None:
    pipeline = start(chain(made.adder()))
    pack = pipeline._transport.pack

    def closed_before_it_is_sent(array: made.Array) -> object:
        pipeline.close()
        return pack(array)

    pipeline._transport.pack = closed_before_it_is_sent  # type: ignore[method-assign]
    with pytest.raises(RuntimeFailure, match="pipeline: used after close"):
        pipeline.run(data=vector(0))


def test_a_closed_pipeline_says_so(start: Start) -> None:
    pipeline = start(chain(made.adder()))
    pipeline.close()
    with pytest.raises(RuntimeFailure, match="used after close"):
        pipeline.run(data=vector(0))

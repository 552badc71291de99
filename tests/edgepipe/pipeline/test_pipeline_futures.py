"""Futures of a running pipeline: each gives its own frame."""

from __future__ import annotations

import pipeline_stages as made
import pytest
from numpy.testing import assert_array_equal
from pipeline_stages import Start, chain, vector

from edgepipe.errors import DeadlinePassed, PipelineEnded


def test_futures_give_their_own_frames_in_any_order(start: Start) -> None:
    pipeline = start(chain(made.adder()))
    futures = [pipeline.submit(data=vector(i)) for i in range(4)]
    pipeline.run(data=vector(4))
    for i in (2, 0, 3, 1):
        result = futures[i].result(timeout_s=10)
        assert result.frame == futures[i].frame == i
        assert_array_equal(result.outputs[0], vector(i + 1))
    assert all(future.done() for future in futures)
    assert pipeline.next().frame == 4, "frames that were run, not submitted, come in order"


def test_a_future_is_not_done_before_its_frame_and_has_a_deadline(start: Start) -> None:
    gated = made.GatedStage()
    pipeline = start(chain(gated.stage))
    future = pipeline.submit(data=vector(0))
    assert not future.done()
    with pytest.raises(DeadlinePassed, match="frame 0 was not finished") as caught:
        future.result(timeout_s=0.01)
    assert caught.value.hint == "allow more time"
    gated.gate.set()
    assert_array_equal(future.result().outputs[0], vector(0))


def test_a_futures_result_loses_no_earlier_frame(start: Start) -> None:
    pipeline = start(chain(made.adder()))
    for i in range(3):
        pipeline.run(data=vector(i))
    assert pipeline.submit(data=vector(3)).result().frame == 3
    pipeline.run(data=vector(4))
    assert [pipeline.next().frame for _ in range(4)] == [0, 1, 2, 4]


def test_a_future_from_before_a_restart_says_so(start: Start) -> None:
    gated = made.GatedStage()
    pipeline = start(chain(gated.stage))
    future = pipeline.submit(data=vector(0))
    pipeline.cancel()
    with pytest.raises(PipelineEnded, match="has been cancelled"):
        future.result()
    gated.gate.set()
    pipeline.restart()
    with pytest.raises(PipelineEnded, match="frame 0 was dropped by a restart") as caught:
        future.result()
    assert caught.value.hint == "submit the frame again"


def test_a_future_that_is_dropped_blocks_nothing(start: Start) -> None:
    pipeline = start(chain(made.adder()), slots=2)
    pipeline.submit(data=vector(0))
    pipeline.run(data=vector(1))
    assert pipeline.next().frame == 1

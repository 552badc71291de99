"""Signal handlers that raise while a pipeline's calls wait: soon, and without losing a frame."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pipeline_stages as made
import pytest
from interrupts import AlarmError, Storm, assert_interrupted_soon
from numpy.testing import assert_array_equal
from pipeline_stages import Start, chain, vector

from edgepipe.errors import RuntimeFailure
from edgepipe.runtime.pipeline import Pipeline
from edgepipe.runtime.results import FrameResult

FRAMES = 300


@pytest.fixture
def storm() -> Iterator[Storm]:
    raised = Storm()
    with raised.raging():
        yield raised


def naps(name: str) -> made.Stage:
    """A Python stage that takes up to a millisecond; out = x + 1."""
    times = random.Random(3)

    def nap(x: made.Array) -> made.Array:
        time.sleep(times.choice((0.0, 0.0001, 0.001)))
        return x + np.int32(1)

    return made.python_stage(nap, name=name, inputs={"x": made.VECTOR}, outputs={"y": made.VECTOR})


def test_run_and_next_lose_and_repeat_nothing(start: Start, storm: Storm) -> None:
    pipeline = start(chain(naps("first"), naps("second")), slots=4)
    taken = 0
    for number in storm.rounds(FRAMES, interrupts=50):
        wanted = vector(number)
        assert storm(lambda x=wanted: pipeline.run(data=x, timeout_s=30)) == number
        while number - taken >= 3 or (taken <= number and number % 2):
            result = storm(lambda: pipeline.next(timeout_s=30))
            assert result.frame == taken
            assert_array_equal(result.outputs[0], vector(taken + 2))
            taken += 1
    storm(lambda: pipeline.drain(timeout_s=30))
    storm(lambda: pipeline.stop(timeout_s=30))
    rest = []
    frames = number + 1
    while (found := taken + len(rest)) < frames:
        result = storm(pipeline.get_output)
        assert result is not None, found
        rest.append(result.frame)
    assert rest == list(range(taken, frames))
    numbers = pipeline.statistics()
    assert (numbers.submitted, numbers.delivered, numbers.in_flight) == (frames, frames, 0)


def test_futures_keep_their_frames(start: Start, storm: Storm) -> None:
    pipeline = start(chain(naps("first"), naps("second")), slots=4)
    order = random.Random(1)
    for group in storm.rounds(FRAMES // 6, interrupts=50):
        begin = 6 * group
        wanted = [vector(begin + i) for i in range(6)]
        futures = [storm(lambda x=x: pipeline.submit(data=x, timeout_s=30)) for x in wanted]
        for future in order.sample(futures, 6):
            result = storm(lambda f=future: f.result(timeout_s=30))
            assert result.frame == future.frame
            assert_array_equal(result.outputs[0], vector(future.frame + 2))
        assert [future.frame for future in futures] == list(range(begin, begin + 6))
    numbers = pipeline.statistics()
    frames = begin + 6
    assert (numbers.submitted, numbers.delivered, numbers.in_flight) == (frames, frames, 0)


def test_set_values_wait_for_their_runs(start: Start) -> None:
    pipeline = start(chain(made.adder()))
    pipeline.set_input("data", vector(1))
    pipeline.run()
    for number in (2, 3):
        pipeline.set_input("data", vector(number))
    assert_array_equal(pipeline.get_input("data"), vector(3))
    pipeline.run(data=vector(10))  # takes no value that waits
    for _ in range(3):
        pipeline.run()
    for number in (1, 10, 2, 3, 3):
        assert_array_equal(pipeline.next().outputs[0], vector(number + 1))


def test_set_values_are_run_once_each(start: Start, storm: Storm) -> None:
    pipeline = start(chain(naps("only")), slots=4)
    for number in range(100):
        pipeline.set_input("data", vector(number))
        assert storm(lambda: pipeline.run(timeout_s=30)) == number
        result = storm(lambda: pipeline.next(timeout_s=30))
        assert_array_equal(result.outputs[0], vector(number + 1))


def test_restart_and_close_may_be_interrupted_and_repeated(start: Start, storm: Storm) -> None:
    pipeline = start(chain(naps("first"), made.scaled_stage()), slots=4)
    given = vector(0)
    for _ in range(40):
        for number in range(3):
            assert storm(lambda: pipeline.run(data=given, timeout_s=30)) == number
        storm(lambda: pipeline.stop(timeout_s=30))
        storm(lambda: pipeline.restart(timeout_s=30))
        assert pipeline.statistics().submitted == 0
    pipeline.run(data=vector(1))
    storm(pipeline.close, longest_s=0.0005)
    with pytest.raises(RuntimeFailure, match="used after close"):
        pipeline.next()


def test_an_interrupted_map_continues(start: Start, storm: Storm) -> None:
    pipeline = start(chain(naps("only")), slots=4)
    results = pipeline.map([vector(number) for number in range(FRAMES)], timeout_s=30)

    def following() -> FrameResult:
        for result in results:  # next() may be interrupted once it has returned
            return result
        raise AssertionError("it ended early")

    for number in range(FRAMES):
        result = storm(following)
        assert result.frame == number
        assert_array_equal(result.outputs[0], vector(number + 1))
    with pytest.raises(StopIteration):
        next(results)


def waits(pipeline: Pipeline) -> dict[str, Callable[[], object]]:
    future = pipeline.submit(data=vector(0))
    pipeline.run(data=vector(1))
    return {
        "result": lambda: future.result(timeout_s=30),
        "exception": lambda: future.exception(timeout_s=30),
        "next": lambda: pipeline.next(timeout_s=30),
        "run": lambda: pipeline.run(data=vector(2), timeout_s=30),
        "submit": lambda: pipeline.submit(data=vector(2), timeout_s=30),
        "drain": lambda: pipeline.drain(timeout_s=30),
        "map": lambda: list(pipeline.map([vector(3)], timeout_s=30)),
        "stop": lambda: pipeline.stop(timeout_s=30),
        "restart": lambda: pipeline.restart(timeout_s=30),
        "close": lambda: pipeline.close(timeout_s=30),
    }


def test_every_wait_ends_within_50_ms(start: Start) -> None:
    gated = made.GatedStage()
    pipeline = start(chain(gated.stage), slots=2)
    try:
        for name, wait in waits(pipeline).items():
            assert_interrupted_soon(wait, name)
    finally:
        gated.gate.set()
    pipeline.close()


def test_signals_of_the_main_thread_do_not_end_another_threads_wait(
    start: Start, storm: Storm
) -> None:
    gated = made.GatedStage()
    pipeline = start(chain(gated.stage))
    results = []
    taker = threading.Thread(target=lambda: results.append(pipeline.next(timeout_s=30)))
    taker.start()
    for _ in range(20):
        with pytest.raises(AlarmError):
            storm.after(0.001)
            time.sleep(1)
    gated.gate.set()
    frame = pipeline.run(data=vector(3), timeout_s=30)
    taker.join(30)
    assert [result.frame for result in results] == [frame]

"""Several threads and tasks that wait for frames: none delays another."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import numpy as np
import pipeline_stages as made
import pytest
from numpy.testing import assert_array_equal
from pipeline_stages import Start, chain, vector

from edgepipe.errors import DeadlinePassed, FrameCancelled, PipelineEnded, RuntimeFailure
from edgepipe.runtime.futures import FrameFuture
from edgepipe.runtime.pipeline import Pipeline
from edgepipe.runtime.results import FrameResult


class SteppedStage:
    """Passes one frame on for each ``step``; out = x."""

    def __init__(self) -> None:
        self._steps = threading.Semaphore(0)
        self.step = self._steps.release
        self.stage = made.python_stage(
            self._run, name="stepped", inputs={"x": made.VECTOR}, outputs={"out": made.VECTOR}
        )

    def _run(self, x: made.Array) -> made.Array:
        assert self._steps.acquire(timeout=30)
        return x


def thread_for(wait: Callable[[], object]) -> threading.Thread:
    """Start a thread that is most likely waiting when this returns."""
    begun = threading.Event()

    def run() -> None:
        begun.set()
        wait()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert begun.wait(30)
    time.sleep(0.02)
    return thread


@pytest.fixture
def stepped() -> SteppedStage:
    return SteppedStage()


def with_parameters(stepped: SteppedStage) -> made.PipelineConfig:
    scaled = made.scaled_stage()
    config = chain(stepped.stage, scaled)
    config.parameter_groups["weights"] = scaled
    return config


def test_a_thread_that_waits_for_a_later_frame_delays_no_other(
    start: Start, stepped: SteppedStage
) -> None:
    pipeline = start(with_parameters(stepped))
    first, plain, later = (
        pipeline.submit(data=vector(0)),
        pipeline.run(data=vector(1)),
        pipeline.submit(data=vector(2)),
    )
    waiter = thread_for(lambda: later.result(timeout_s=60))
    assert pipeline.get_output() is None
    assert not first.done()
    pipeline.set_parameters("weights", {"factor": made.scalar(3)})
    stepped.step()
    assert_array_equal(first.result(timeout_s=10).outputs[0], 2 * vector(0))
    stepped.step()
    assert pipeline.next(timeout_s=10).frame == plain
    pipeline.set_parameters("weights", {"factor": made.scalar(4)})
    assert waiter.is_alive()
    stepped.step()
    waiter.join(30)
    assert later.result(timeout_s=0).frame == 2


def test_a_waiting_thread_delays_others_by_no_more_than_a_millisecond(
    start: Start, stepped: SteppedStage
) -> None:
    pipeline = start(with_parameters(stepped), slots=4)
    parameters = {"factor": made.scalar(3)}

    def delay(action: Callable[[], object]) -> float:
        before = time.perf_counter()
        action()
        return time.perf_counter() - before

    delays: dict[str, list[float]] = {"get_output": [], "set_parameters": [], "result": []}
    for _ in range(20):
        first, last = pipeline.submit(data=vector(0)), pipeline.submit(data=vector(1))
        waiter = thread_for(lambda: last.result(timeout_s=60))  # noqa: B023
        delays["get_output"].append(delay(pipeline.get_output))
        delays["set_parameters"].append(
            delay(lambda: pipeline.set_parameters("weights", parameters))
        )
        stepped.step()
        pipeline._transport.wait("await_frame", time.monotonic() + 30, first.frame)
        delays["result"].append(delay(first.result))
        stepped.step()
        waiter.join(30)
    for name, found in delays.items():  # a busy machine delays some of them
        assert sorted(found)[4] < 0.001, (name, found)


def test_many_waiting_threads_all_get_their_results(start: Start) -> None:
    pipeline = start(chain(made.adder(), made.adder("second")), slots=4)
    found: dict[int, FrameResult] = {}
    errors: list[BaseException] = []

    def ask(begin: int) -> None:
        try:
            for number in range(begin, begin + 50):
                result = pipeline.submit(data=vector(number), timeout_s=30).result(timeout_s=30)
                assert_array_equal(result.outputs[0], vector(number + 2))
                found[result.frame] = result
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=ask, args=(1000 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for number in range(50):
        pipeline.run(data=vector(number), timeout_s=30)
        result = pipeline.next(timeout_s=30)
        assert_array_equal(result.outputs[0], vector(number + 2))
        found[result.frame] = result
    for thread in threads:
        thread.join(60)
    assert not errors
    assert sorted(found) == list(range(250))


def test_futures_whose_results_are_not_requested_free_their_slots(start: Start) -> None:
    pipeline = start(chain(made.adder()), slots=2)
    futures = pipeline.submit_many([vector(i) for i in range(20)], timeout_s=30)
    for i in (19, 0, 7):
        assert_array_equal(futures[i].result(timeout_s=30).outputs[0], vector(i + 1))


def test_a_dropped_future_frees_its_slot(start: Start) -> None:
    pipeline = start(chain(made.adder()), slots=1)
    for number in range(5):
        assert pipeline.submit(data=vector(number), timeout_s=30).frame == number
    pipeline.drain()
    numbers = pipeline.statistics()
    assert (numbers.submitted, numbers.delivered, numbers.in_flight) == (5, 5, 0)


def test_a_cancelled_future_drops_its_result(start: Start, stepped: SteppedStage) -> None:
    pipeline = start(chain(stepped.stage), slots=2)
    first, second = pipeline.submit(data=vector(0)), pipeline.submit(data=vector(1))
    called: list[FrameFuture] = []
    first.add_done_callback(called.append)
    assert first.cancel()
    assert first.cancelled() and first.done() and called == [first]
    with pytest.raises(FrameCancelled, match="frame 0 was cancelled") as caught:
        first.result()
    assert caught.value.hint == "submit the frame again"
    assert isinstance(first.exception(), FrameCancelled)
    stepped.step()
    assert pipeline.run(data=vector(2), timeout_s=30) == 2, "the slot was given back"
    stepped.step()
    assert second.result(timeout_s=30).frame == 1
    assert not second.cancel() and not second.cancelled()
    stepped.step()
    assert pipeline.next(timeout_s=30).frame == 2


def test_callbacks_are_called_once_without_a_waiting_caller(
    start: Start, stepped: SteppedStage
) -> None:
    pipeline = start(chain(stepped.stage))
    called: list[int] = []
    all_called = threading.Event()

    def note(future: FrameFuture) -> None:
        called.append(future.result(timeout_s=0).frame)
        if len(called) == 3:
            all_called.set()

    pipeline.run(data=vector(9))  # a frame that is not taken delays no callback
    futures = [pipeline.submit(data=vector(i)) for i in range(3)]
    for future in futures:
        future.add_done_callback(note)
    for _ in range(4):
        stepped.step()
    assert all_called.wait(30)
    assert called == [1, 2, 3]
    futures[0].add_done_callback(note)
    assert called == [1, 2, 3, 1], "at once, when it is done"
    assert pipeline.next().frame == 0


def test_a_callback_that_raises_is_logged(
    start: Start, stepped: SteppedStage, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline = start(chain(stepped.stage))
    future = pipeline.submit(data=vector(0))
    future.add_done_callback(lambda _: 1 / 0)
    stepped.step()
    assert future.result(timeout_s=30).frame == 0
    end = time.monotonic() + 30
    while "ZeroDivisionError" not in caplog.text:
        assert time.monotonic() < end
        time.sleep(0.01)


def picky() -> made.Stage:
    def run(x: made.Array) -> made.Array:
        if x[0, 0] == 2:
            raise ValueError("two")
        return x

    return made.python_stage(
        run, name="picky", inputs={"x": made.VECTOR}, outputs={"y": made.VECTOR}
    )


def test_exception_gives_the_failure_and_every_later_future_has_it(start: Start) -> None:
    pipeline = start(chain(picky()))
    futures = [pipeline.submit(data=vector(i)) for i in range(3)]
    called = threading.Event()
    futures[2].add_done_callback(lambda _: called.set())
    assert futures[0].exception() is None
    error = futures[2].exception(timeout_s=30)
    assert isinstance(error, RuntimeFailure)
    assert "stage 0 'picky' at frame 2: ValueError: two" in str(error)
    assert futures[1].result().frame == 1
    assert called.wait(30)
    with pytest.raises(RuntimeFailure, match="two"):
        futures[2].result()
    assert futures[2].done()


def test_coroutines_await_frames_without_a_thread_each(start: Start) -> None:
    pipeline = start(chain(made.adder(), made.adder("second")), slots=4)
    before = threading.active_count()

    async def one(number: int) -> FrameResult:
        while True:
            try:
                return await pipeline.submit(data=vector(number))
            except DeadlinePassed:  # every slot is in use
                await asyncio.sleep(0.001)

    async def many() -> list[FrameResult]:
        results = await asyncio.gather(*(one(number) for number in range(50)))
        assert threading.active_count() <= before + 1
        return results

    for number, result in enumerate(asyncio.run(many())):
        assert_array_equal(result.outputs[0], vector(number + 2))


def test_a_wait_for_that_ends_early_leaves_the_frame_in_flight(
    start: Start, stepped: SteppedStage
) -> None:
    pipeline = start(chain(stepped.stage))

    async def impatient() -> FrameResult:
        future = pipeline.submit(data=vector(4))
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(future, 0.05)
        task = asyncio.ensure_future(future)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        stepped.step()
        return await asyncio.wait_for(future, 30)

    assert_array_equal(asyncio.run(impatient()).outputs[0], vector(4))


def test_coroutines_learn_how_the_pipeline_ended(start: Start, stepped: SteppedStage) -> None:
    pipeline = start(chain(stepped.stage, picky()))

    async def failed() -> None:
        with pytest.raises(RuntimeFailure, match="ValueError: two"):
            await asyncio.wait_for(pipeline.submit(data=vector(2)), 30)

    async def cancelled() -> None:
        future = pipeline.submit(data=vector(0))
        asyncio.get_running_loop().call_later(0.02, pipeline.cancel)
        with pytest.raises(PipelineEnded, match="has been cancelled"):
            await asyncio.wait_for(future, 30)

    stepped.step()
    asyncio.run(failed())
    pipeline.restart()
    asyncio.run(cancelled())
    stepped.step()


def test_a_pipeline_whose_futures_were_awaited_ends_its_thread(start: Start) -> None:
    gated = made.GatedStage()
    pipeline = chain(gated.stage).build().start()
    before = set(threading.enumerate())  # others may still be ending

    def of_futures() -> list[threading.Thread]:
        new = set(threading.enumerate()) - before
        return [thread for thread in new if thread.name == "edgepipe-futures"]

    async def once(running: Pipeline) -> None:
        asyncio.get_running_loop().call_soon(gated.gate.set)  # once it is awaited
        await running.submit(data=np.zeros((1, 8), np.int32))

    asyncio.run(once(pipeline))
    assert len(of_futures()) == 1
    del pipeline
    end = time.monotonic() + 30
    while of_futures():
        assert time.monotonic() < end
        time.sleep(0.01)

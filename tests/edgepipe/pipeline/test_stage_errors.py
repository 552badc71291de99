"""An exception of a Python stage reaches the caller with place and traceback."""

from __future__ import annotations

import traceback
from typing import Any

import numpy as np
import pipeline_stages as made
import pytest
from numpy.typing import NDArray
from pipeline_stages import Start, chain, vector

from edgepipe.errors import PipelineError, RuntimeFailure
from edgepipe.pipeline import python_stage


class DecodeError(Exception):
    """An error defined by the stage."""


def decode(x: NDArray[Any]) -> NDArray[Any]:
    check(int(x[0, 0]))
    return x


def check(number: int) -> None:
    if number == 13:
        raise DecodeError("found 13", number)


def test_the_error_names_file_and_line_and_has_the_exception_as_its_cause(start: Start) -> None:
    stage = python_stage(decode, inputs={"x": made.VECTOR}, outputs={"y": made.VECTOR})
    pipeline = start(chain(made.adder(), stage))
    pipeline.run(vector(0))
    pipeline.run(vector(12))
    pipeline.next()
    with pytest.raises(RuntimeFailure) as caught:
        pipeline.next()
    line = check.__code__.co_firstlineno + 2
    assert str(caught.value) == (
        f"stage 1 'decode' at frame 1: DecodeError: ('found 13', 13) ({__file__}:{line}, in check)"
    )
    cause = caught.value.__cause__
    assert isinstance(cause, DecodeError)
    assert cause.args == ("found 13", 13)
    names = [frame.name for frame in traceback.extract_tb(cause.__traceback__)]
    assert names[-2:] == ["decode", "check"]


def test_an_error_inside_a_package_names_the_line_that_called_it(start: Start) -> None:
    def solve(x: NDArray[Any]) -> NDArray[Any]:
        return np.concatenate([x, np.linalg.inv(np.zeros((2, 2)))])

    stage = python_stage(solve, inputs={"x": made.VECTOR}, outputs={"y": made.VECTOR})
    pipeline = start(chain(stage))
    pipeline.run(vector(0))
    with pytest.raises(RuntimeFailure, match=r"LinAlgError: Singular matrix \(.*test_stage_errors"):
        pipeline.next()


def test_an_array_of_the_wrong_type_is_the_cause_too(start: Start) -> None:
    def widen(x: NDArray[Any]) -> NDArray[Any]:
        return x.astype(np.int64)

    stage = python_stage(widen, inputs={"x": made.VECTOR}, outputs={"y": made.VECTOR})
    pipeline = start(chain(stage))
    pipeline.run(vector(0))
    with pytest.raises(RuntimeFailure, match=r"output 'widen.y': found int64\[1, 8\]") as caught:
        pipeline.next()
    assert isinstance(caught.value.__cause__, PipelineError)


def test_a_future_raises_it_too_and_a_restart_forgets_it(start: Start) -> None:
    stage = python_stage(decode, inputs={"x": made.VECTOR}, outputs={"y": made.VECTOR})
    pipeline = start(chain(stage))
    future = pipeline.submit(vector(13))
    with pytest.raises(RuntimeFailure) as caught:
        future.result()
    assert isinstance(caught.value.__cause__, DecodeError)
    pipeline.restart()
    assert pipeline._runners["decode"].failure is None

"""Stages that never return: ``close`` and the interpreter's exit end in time, and name them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pipeline_stages as made
import pytest
from pipeline_stages import chain, vector

from edgepipe.errors import RuntimeFailure
from edgepipe.runtime.pipeline import CLOSE_TIMEOUT_S

ROOT = Path(__file__).resolve().parents[3]
LEFT = "frame 0 is held by stage 0 'gated'; its thread was left behind"


def test_close_ends_in_time_and_names_the_stage() -> None:
    gated = made.GatedStage()
    pipeline = chain(gated.stage, made.adder()).build().start()
    pipeline.run(data=vector(0))
    assert gated.reached.wait(30)
    before = time.monotonic()
    with pytest.raises(RuntimeFailure, match=LEFT) as caught:
        pipeline.close(timeout_s=0.2)
    assert 0.2 <= time.monotonic() - before < 20  # the stage would take 30 s
    assert (
        caught.value.hint == "make the stage return in time: set a timeout on whatever it waits for"
    )
    pipeline.close()
    with pytest.raises(RuntimeFailure, match="used after close"):
        pipeline.next()
    gated.gate.set()  # the abandoned thread still has its memory


def test_close_waits_for_a_stage_that_returns_in_time() -> None:
    gated = made.GatedStage()
    pipeline = chain(gated.stage).build().start()
    pipeline.run(data=vector(0))
    assert gated.reached.wait(30)
    timer = threading.Timer(0.1, gated.gate.set)
    timer.start()
    pipeline.close()
    timer.join()


def test_a_stuck_stage_does_not_hide_what_ended_the_with_block() -> None:
    gated = made.GatedStage()
    closing = chain(gated.stage).build().start()
    short = closing.close
    closing.close = lambda: short(timeout_s=0.1)  # type: ignore[method-assign,assignment]
    with pytest.raises(KeyError) as caught, closing as pipeline:
        pipeline.run(data=vector(0))
        assert gated.reached.wait(30)
        raise KeyError("the user's own")
    assert [LEFT in note for note in caught.value.__notes__] == [True]
    gated.gate.set()


EXIT = """
import sys, threading, time
import pipeline_stages as made

reached = threading.Event()

def stuck(x):
    reached.set()
    while True:
        {body}

ports = {{"inputs": {{"x": made.VECTOR}}, "outputs": {{"y": made.VECTOR}}}}
stage = made.python_stage(stuck, name="stuck", **ports)
pipeline = made.chain(stage).build().start()
pipeline.run(data=made.vector(0))
assert reached.wait(30)
print("exits", time.time(), flush=True)
"""


@pytest.mark.parametrize(
    ("body", "end"),
    [
        ("time.sleep(1000)", "its thread was left behind"),
        ("time.sleep(0.01)", "an exception has ended it"),
        ("pass", "an exception has ended it"),
    ],
)
def test_the_interpreter_exits_in_time_and_says_so(body: str, end: str) -> None:
    found = subprocess.run(
        [sys.executable, "-c", EXIT.format(body=body)],
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(Path(made.__file__).parent)])},
        capture_output=True,
        text=True,
        timeout=120,
    )
    ended = time.time()
    begun = float(found.stdout.split()[1])
    assert found.returncode == 0, found.stderr
    assert f"stage 0 'stuck'; {end}" in found.stderr
    assert "Traceback" not in found.stderr
    assert ended - begun < 2 * CLOSE_TIMEOUT_S + 40

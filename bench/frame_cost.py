"""Processor time of a frame through three stages from Python, compared with queues and threads.

Each of three stages copies a tensor of 1 KB. For comparison, three Python threads with a
``queue.Queue`` between each two do the same, with as many frames in flight. The time is that of all
threads of the process. Both sides run alternately, so a slow moment of the machine affects both.
"""

from __future__ import annotations

import itertools
import queue
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

import edgepipe
from bench.figures import Figure

Array = NDArray[Any]
INCLUDE = Path(__file__).resolve().parent.parent / "cpp_runtime" / "include"
SHAPE = (1, 1024)
TENSOR = ("uint8", SHAPE)
STAGES = 3
SLOTS = 11  # the pipeline's default for three stages
FRAMES = 3000
ROUNDS = 9
# What a frame may cost, as a ratio to the same work done with queue.Queue and threads.
C_STAGES_AT_MOST = 1.2
PYTHON_STAGES_AT_MOST = 2.5

SOURCE = """
#include <cstring>
#include "edgepipe/stage_function.h"

extern "C" int copy(void*, const EpStageBuffer* inputs, uint32_t, const EpStageBuffer* outputs,
                    uint32_t, char*, uint64_t) {
  std::memcpy(outputs[0].data, inputs[0].data, inputs[0].bytes);
  return 0;
}
"""


def copied(x: Array) -> Array:
    """Return a copy, as every stage does."""
    return x.copy()


def build_library(folder: Path) -> Path:
    """Compile the C++ stage."""
    source, library = folder / "copy.cc", folder / "libcopy.so"
    source.write_text(SOURCE)
    command = ["c++", "-O2", "-shared", "-fPIC", f"-I{INCLUDE}", "-o", library, source]
    subprocess.run(command, check=True)
    return library


def pipeline_of(make: Callable[[str], edgepipe.Stage]) -> edgepipe.Pipeline:
    """Start three stages in a row."""
    stages = [make(f"stage{index}") for index in range(STAGES)]
    config = edgepipe.PipelineConfig("copies")
    config.inputs["x"] = (stages[0], "x")
    for before, after in itertools.pairwise(stages):
        config.connect(before, 0, after, "x")
    config.outputs.append((stages[-1], 0))
    return config.build().start(slots=SLOTS)


@contextmanager
def queues() -> Iterator[Callable[[list[Array]], None]]:
    """Yield a function that sends frames through three threads with queues between them."""
    links: list[queue.Queue[Array | None]] = [queue.Queue() for _ in range(STAGES + 1)]

    def work(source: queue.Queue[Array | None], sink: queue.Queue[Array | None]) -> None:
        while (array := source.get()) is not None:
            sink.put(copied(array))

    threads = [
        threading.Thread(target=work, args=(links[i], links[i + 1]), daemon=True)
        for i in range(STAGES)
    ]
    for thread in threads:
        thread.start()

    def run(frames: list[Array]) -> None:
        under_way = 0
        for frame in frames:
            if under_way == SLOTS:
                links[-1].get()
                under_way -= 1
            links[0].put(frame)
            under_way += 1
        for _ in range(under_way):
            links[-1].get()

    yield run
    for link in links[:-1]:
        link.put(None)
    for thread in threads:
        thread.join()


def run_and_next(pipeline: edgepipe.Pipeline, frames: list[Array]) -> None:
    """Send and take frame by frame, as many in flight as there are slots."""
    under_way = 0
    for frame in frames:
        if under_way == SLOTS:
            pipeline.next()
            under_way -= 1
        pipeline.run(frame)
        under_way += 1
    for _ in range(under_way):
        pipeline.next()


def mapped(pipeline: edgepipe.Pipeline, frames: list[Array]) -> None:
    """Send all frames by ``map``."""
    deque(pipeline.map(frames), maxlen=0)


def cost_us(run: Callable[[list[Array]], None], frames: list[Array]) -> float:
    """Return the processor time of a frame."""
    before = time.process_time()
    run(frames)
    return (time.process_time() - before) / len(frames) * 1e6


def check(pipeline: edgepipe.Pipeline, frames: list[Array]) -> None:
    """Exit unless the results equal the frames, in order."""
    for frame, result in zip(frames, pipeline.map(frames), strict=True):
        if not np.array_equal(result.outputs[0], frame):
            raise SystemExit("frame_cost: a result is not its frame")


def figures() -> list[Figure]:
    """Measure all variants alternately; return medians, and ratios within a round."""
    values = np.random.default_rng(1).integers(0, 256, (100, *SHAPE), dtype=np.uint8)
    frames = [values[index % 100] for index in range(FRAMES)]
    ports = {"inputs": {"x": TENSOR}, "outputs": {"y": TENSOR}}
    with tempfile.TemporaryDirectory(prefix="edgepipe-bench-") as folder, queues() as bare:
        library = build_library(Path(folder))
        native = pipeline_of(
            lambda name: edgepipe.library_stage(library, "copy", name=name, **ports)
        )
        hosted = pipeline_of(lambda name: edgepipe.python_stage(copied, name=name, **ports))
        with native, hosted:
            for pipeline in (native, hosted):
                check(pipeline, frames[:200])
            ways: dict[str, Callable[[list[Array]], None]] = {
                "queue.Queue and threads": bare,
                "C++ stages, run and next": lambda given: run_and_next(native, given),
                "C++ stages, map": lambda given: mapped(native, given),
                "Python stages, run and next": lambda given: run_and_next(hosted, given),
                "Python stages, map": lambda given: mapped(hosted, given),
            }
            rounds = [
                {name: cost_us(way, frames) for name, way in ways.items()} for _ in range(ROUNDS)
            ]
    base, *others = ways
    found = [
        Figure(name=f"frame: {name}", value=median(r[name] for r in rounds), unit="us of CPU")
        for name in ways
    ]
    return found + [
        Figure(
            name=f"frame: {name} / queues",
            value=median(r[name] / r[base] for r in rounds),
            unit="x",
            at_most=C_STAGES_AT_MOST if name.startswith("C++") else PYTHON_STAGES_AT_MOST,
        )
        for name in others
    ]

"""Time a frame of ResNet-18's body on the simulator, on one core and with every GEMM kernel.

Weights are synthetic. Outputs are compared with the reference before anything is timed. A program
is checked against the hardware's rules in its first run; the time of a frame is that of later runs.
The limit is for AVX2; the old functional simulator of tvm-vta took about 1 s.
"""

from __future__ import annotations

import os
import sys
import time

from bench import networks
from bench.figures import Figure, publish
from bench.vta import check_bits
from edgepipe import boards
from edgepipe.runtime.simulator import Simulator, describe
from vta_stages.compiler import compile_program

FRAMES = 15
BAR_MS = {"avx2": 60.0, "avx512-vnni": 60.0}


def milliseconds(frames: list[float]) -> str:
    """Return the median and the slowest frame as text."""
    frames = sorted(frames)
    return f"median {frames[len(frames) // 2]:.1f} ms, slowest {frames[-1]:.1f} ms of {len(frames)}"


def main() -> int:
    """Print the table; return 1 if a limit is missed."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    board = boards.load("ultra96")
    workload = networks.resnet18_body()
    program = compile_program(
        board.accelerator, workload.layers, workload.inputs, workload.outputs, cost=board.timing
    )
    figures = []
    for kernel in describe(board.accelerator).kernels:
        print(f"{workload.name} with {kernel}", file=sys.stderr, flush=True)
        inputs = check_bits(workload, board.accelerator, program, kernel=kernel)
        with (
            Simulator(board.accelerator, kernel=kernel) as simulator,
            simulator.loaded(program, inputs) as loaded,
        ):
            times = []
            for _ in range(FRAMES + 1):
                start = time.perf_counter()
                loaded.run()
                times.append(1e3 * (time.perf_counter() - start))
        figures += [
            Figure(
                name=f"{workload.name}: a frame, {kernel}",
                value=min(times[1:]),
                unit="ms",
                at_most=BAR_MS.get(kernel),
                source=milliseconds(times[1:]),
            ),
            Figure(
                name=f"{workload.name}: first frame, {kernel}",
                value=times[0],
                unit="ms",
                source="with all checks",
            ),
        ]
    return publish("sim", figures)


if __name__ == "__main__":
    sys.exit(main())

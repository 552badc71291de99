"""Try a user's functions on this machine: they must compute the bits of integer Relax."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe import scratch
from edgepipe.codegen.arm import foreign
from edgepipe.codegen.arm.generic import generic_module
from edgepipe.codegen.arm.kernels import link_alone
from edgepipe.errors import CodegenError
from edgepipe.partition.foreign import ForeignCall
from edgepipe.partition.operator import Operator
from edgepipe.tvm_adapter import CompiledModule, IRModule, read_main

_SEEDS = 3
_LIMIT_S = 60

# In a process of its own, because a wrong function can end it.
_CALL = """\
import ctypes, sys
import numpy as np
library, function = ctypes.CDLL(sys.argv[1]), sys.argv[2]
for trial in range(int(sys.argv[3])):
    arrays = [np.load(f"{trial}-{number}.npy") for number in range(int(sys.argv[4]))]
    getattr(library, function)(*(ctypes.c_void_p(array.ctypes.data) for array in arrays))
    np.save(f"made{trial}.npy", arrays[-1])
"""


def try_calls(
    calls: Sequence[ForeignCall], operators: Mapping[str, Operator], module: IRModule
) -> None:
    """Compare every call's results on random values with those of its operators in ``module``.

    ``operators`` are the network's by name. Raises CodegenError for a function that cannot be
    compiled, that does not return, or that computes other bits.
    """
    main = read_main(module)
    types = {p.name: (p.shape, p.dtype) for p in main.params}
    types |= {b.name: (b.shape, b.dtype) for b in main.bindings}
    for call in calls:
        chain = [operators[name] for name in call.operators]
        read = {name: types[name] for name in foreign.inputs(chain)}
        alone = generic_module(chain, read, [chain[-1].output], module)
        with scratch.folder("trial") as folder:
            library = link_alone(call.sources, folder)
            expected, trials = [], []
            reference = CompiledModule(alone, runs=_SEEDS)
            for seed in range(_SEEDS):
                values = {name: _values(*read[name], seed) for name in read}
                (made,) = reference.run(values).values()
                arrays = [*values.values(), *foreign.constants(chain), np.zeros_like(made)]
                trials.append([foreign.shapes([array.shape for array in arrays]), *arrays])
                expected.append(made)
            for found, right in zip(_called(library, call, trials, folder), expected, strict=True):
                _compare(call, found, right)


def _values(shape: tuple[int, ...], dtype: str, seed: int) -> NDArray[Any]:
    """Return random values over the whole range of an integer type; the last are its ends."""
    random = np.random.default_rng(seed)
    if np.issubdtype(np.dtype(dtype), np.integer):
        limits = np.iinfo(dtype)
        if seed == _SEEDS - 1:
            return random.choice(np.array([limits.min, limits.max], dtype), shape)
        return random.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    return random.standard_normal(shape).astype(dtype)


def _called(
    library: Path, call: ForeignCall, trials: Sequence[Sequence[NDArray[Any]]], folder: Path
) -> list[NDArray[Any]]:
    """Return what the function makes in each trial of arrays of any dtype and shape.

    The last of a trial's arrays is its result. Raises CodegenError if the function does not return.
    """
    for trial, arrays in enumerate(trials):
        for number, array in enumerate(arrays):
            np.save(folder / f"{trial}-{number}.npy", np.ascontiguousarray(array))
    counts = map(str, (len(trials), len(trials[0])))
    command = [sys.executable, "-c", _CALL, str(library), call.function, *counts]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, timeout=_LIMIT_S
        )
    except subprocess.TimeoutExpired as cause:
        raise _wrong(call, f"does not return within {_LIMIT_S} s") from cause
    if done.returncode < 0:
        raise _wrong(call, f"ends the process with signal {-done.returncode}")
    if done.returncode:
        raise _wrong(call, f"cannot be called ({(done.stderr.strip().splitlines() or [''])[-1]})")
    return [np.load(folder / f"made{trial}.npy") for trial in range(len(trials))]


def _compare(call: ForeignCall, found: NDArray[Any], expected: NDArray[Any]) -> None:
    differing = int(np.sum(found.view(np.uint8) != expected.view(np.uint8)))
    if differing:
        places = np.argwhere(found != expected)
        where = ", ".join(map(str, places[0])) if len(places) else "none"
        raise _wrong(
            call,
            f"computes other bits than integer Relax: {differing} of {expected.nbytes} bytes "
            f"differ, first at [{where}]",
        )


def _wrong(call: ForeignCall, what: str) -> CodegenError:
    names = ", ".join(call.operators)
    return CodegenError(
        f"{names}: function {call.function} of {call.generator} {what}",
        hint="correct the function, or limit the rule that names it",
    )

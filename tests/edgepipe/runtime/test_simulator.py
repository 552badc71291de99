"""The Python side of the simulator: memory, programs and error messages."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from accelerators import FOUR_BY_EIGHT

from edgepipe.errors import AcceleratorError, RuntimeFailure
from edgepipe.runtime import library
from edgepipe.runtime.simulator import Simulator, describe
from vta_stages.accelerator import Accelerator
from vta_stages.compiler import compile_program
from vta_stages.layers.records import Concat, TensorSpec

VECTORS = Path(__file__).parents[2] / "data" / "vta_vectors"


def test_memory_gives_back_what_was_written() -> None:
    with Simulator(Accelerator()) as simulator:
        address = simulator.allocate(100)
        data = np.arange(100, dtype=np.uint8)
        simulator.write(address, data)
        np.testing.assert_array_equal(simulator.read(address, 100), data)
        np.testing.assert_array_equal(simulator.read(address + 10, 5), data[10:15])


def test_only_allocated_memory_is_accessible() -> None:
    with Simulator(Accelerator()) as simulator:
        address = simulator.allocate(100)
        with pytest.raises(RuntimeFailure, match="is not inside one allocation"):
            simulator.read(address, 101)
        simulator.free(address)
        with pytest.raises(RuntimeFailure, match="no allocation starts at device address"):
            simulator.free(address)


def test_an_exhausted_arena_says_how_much_is_left() -> None:
    with (
        Simulator(Accelerator(), arena_bytes=8192) as simulator,
        pytest.raises(RuntimeFailure, match=r"10000 bytes wanted, widest gap .* is 8192"),
    ):
        simulator.allocate(10000)


def test_a_program_for_another_accelerator_is_refused() -> None:
    source = TensorSpec(name="x", channels=16, height=2, width=2)
    twice = TensorSpec(name="y", channels=32, height=2, width=2)
    layer = Concat(name="c", inputs=(source, source), output=twice)
    program = compile_program(Accelerator(), [layer], ["x"], ["y"])
    with (
        Simulator(FOUR_BY_EIGHT) as simulator,
        pytest.raises(RuntimeFailure, match=r"program: made for .*, this simulator is ") as caught,
    ):
        simulator.run_program(program, {})
    assert caught.value.hint == "make a simulator of the program's accelerator"


def test_a_closed_simulator_is_an_error() -> None:
    simulator = Simulator(Accelerator())
    simulator.close()
    simulator.close()
    with pytest.raises(RuntimeFailure, match=r"used after close\(\)"):
        simulator.allocate(1)


def test_an_unknown_kernel_lists_the_known_ones() -> None:
    with pytest.raises(RuntimeFailure, match=r"kernel 'abacus' cannot run here .* portable"):
        Simulator(Accelerator(), kernel="abacus")


def test_an_impossible_accelerator_is_refused() -> None:
    with pytest.raises(AcceleratorError, match="batch is 3, expected a power of two"):
        Simulator(Accelerator(batch=3))


def test_the_portable_kernel_always_exists() -> None:
    for accelerator in (Accelerator(), FOUR_BY_EIGHT):
        assert describe(accelerator).kernels[-1] == "portable"


def test_an_error_names_instruction_text_and_numbers() -> None:
    vector = np.load(VECTORS / "0.0.1" / "34_conv.npz")
    with (
        Simulator(Accelerator(revision="0.0.1")) as simulator,
        pytest.raises(RuntimeFailure, match="instruction 1 LOAD INP sram 0 dram 256"),
    ):
        simulator.run_image(vector["insns"], vector["dram_before"][:256])


def test_the_other_revision_cannot_run_a_program() -> None:
    vector = np.load(VECTORS / "0.0.1" / "34_conv.npz")
    with Simulator(Accelerator(revision="0.0.2")) as simulator, pytest.raises(RuntimeFailure):
        simulator.run_image(vector["insns"], vector["dram_before"])


def test_instructions_must_come_in_pairs_of_words() -> None:
    with (
        Simulator(Accelerator()) as simulator,
        pytest.raises(RuntimeFailure, match=r"shape \[4\], expected \[n, 2\]"),
    ):
        simulator.run_instructions(np.zeros(4, dtype=np.uint64))


def test_a_missing_library_says_where_it_was_searched_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(library, "__file__", str(tmp_path / "edgepipe" / "runtime" / "library.py"))
    with pytest.raises(RuntimeFailure, match="was not found, looked for") as error:
        library.library_path()
    assert error.value.hint is not None
    assert "build/host" in error.value.hint

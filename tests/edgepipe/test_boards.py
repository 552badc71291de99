"""Board files: data in, values out; the loader refuses unknown keys and values."""

import dataclasses

import pytest

from edgepipe import boards
from edgepipe.errors import BoardError
from edgepipe.resources import folder
from vta_stages.timing.cost_model import CostModel


@pytest.mark.parametrize("name", ["host", "kv260", "pynq-z2", "ultra96", "zcu104"])
def test_every_shipped_board_loads_under_its_file_name(name):
    assert boards.load(name).name == name


def test_ultra96_is_the_stock_configuration_of_its_only_bitstream():
    board = boards.load("ultra96")
    assert board.accelerator.configuration == "1x16_i8w8a32_15_15_18_17"
    assert board.accelerator.revision == "0.0.1"
    assert board.accelerator.clock_hz == 333_000_000
    assert board.architecture == "aarch64"


def test_a_board_may_have_its_own_timing(tmp_path):
    fitted = boards.load("ultra96").timing
    mine = boards.load(edited(tmp_path, "dma_row_cycles = 100", "dma_row_cycles = 95"))
    assert mine.timing == dataclasses.replace(fitted, dma_row_cycles=95)


@pytest.mark.parametrize(
    ("name", "cost"),
    [
        # The results of `python -m bench.model --fit`, 2026-11-23.
        (
            "ultra96",
            CostModel(
                loop_cycles=11,
                dma_row_cycles=100,
                bus_efficiency_percent=55,
                weight_efficiency_percent=45,
                launch_cycles=20_000,
                cache_kib_cycles=133,
            ),
        ),
        (
            "pynq-z2",
            CostModel(
                bus_bytes=8,
                loop_cycles=0,
                dma_row_cycles=40,
                bus_efficiency_percent=90,
                weight_efficiency_percent=45,
                launch_cycles=5_000,
                cache_kib_cycles=150,
            ),
        ),
        ("zcu104", CostModel(cache_kib_cycles=133)),  # not measured: the default costs
    ],
)
def test_measured_boards_have_fitted_costs(name, cost):
    assert boards.load(name).timing == cost


def test_a_board_has_the_clock_of_its_cores():
    clocks = {name: boards.load(name).arm_timing.clock_hz for name in boards.names()}
    assert clocks["pynq-z2"] == 650_000_000
    assert clocks["ultra96"] == boards.ArmTiming().clock_hz == 1_200_000_000


def test_a_vta_stage_takes_its_launch_and_its_work(tmp_path):
    path = edited(tmp_path, "launch_cycles = 20_000", "launch_cycles = 33_300")
    assert boards.load(path).vta_stage_ms(333_000) == pytest.approx(1.1)
    assert boards.load(path).vta_stage_ms(333_000, 1 << 20) == pytest.approx(1.1 + 0.409, abs=1e-3)


def test_a_core_that_the_board_lacks_is_an_error_that_names_those_it_has(tmp_path):
    with pytest.raises(BoardError) as caught:
        boards.load(edited(tmp_path, "cores = [1, 2, 3]", "cores = [1, 7]"))
    assert str(caught.value) == "board ultra96: threads.arm: core 7 does not exist"
    assert caught.value.hint == "the board's cores: 0, 1, 2, 3"


@pytest.mark.parametrize(
    ("name", "stages", "slots"),
    [
        ("ultra96", 2, 4),  # one per stage, two for the caller
        ("ultra96", 34, 12),  # three cores for ARM stages and the accelerator, three frames each
        ("host", 34, 36),  # unknown number of cores
    ],
)
def test_slots_keep_the_cores_and_the_accelerator_busy_and_no_more(name, stages, slots):
    assert boards.load(name).slots(stages) == slots


def test_unknown_board_lists_the_known_ones():
    with pytest.raises(BoardError, match="board 'ultra97' is unknown") as caught:
        boards.load("ultra97")
    assert "ultra96" in caught.value.hint


def edited(tmp_path, old, new):
    text = (folder("board") / "ultra96.toml").read_text()
    assert old in text
    path = tmp_path / "mine.toml"
    path.write_text(text.replace(old, new))
    return str(path)


def test_a_users_own_board_file_is_accepted(tmp_path):
    assert boards.load(edited(tmp_path, 'name = "ultra96"', 'name = "mine"')).name == "mine"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("cores = 4", "cores = 4\ncolour = 1", "mine.toml: unknown key 'colour'"),
        ("batch = 1", "batches = 1", "mine.toml: accelerator: unknown key 'batches'"),
        ("cores = 4", "", "mine.toml: key 'cores' is missing"),
        ("cores = 4", "cores = '4'", "mine.toml: cores: found a string '4', expected an integer"),
        ("cores = 4", "cores = -1", "cores is -1, expected >= 0"),
        ("[timing]", "[timing]\nlatency = 1", "mine.toml: timing: unknown key 'latency'"),
        ("[timing]", "[timing]\nbus_bytes = 0", "timing: bus_bytes is 0, expected >= 1"),
        ("[arm_timing]", "[arm_timing]\nclock = 1", "mine.toml: arm_timing: unknown key 'clock'"),
        ("[arm_timing]", "[arm_timing]\nclock_hz = 0", "arm_timing: clock_hz is 0, expected > 0"),
        ("[arm_timing]", "[arm_timing]\ntable_cycles = 0", "table_cycles is 0.0, expected > 0"),
        ("[arm_timing]", "[arm_timing]\nfit_cycles = -1", "fit_cycles is -1.0, expected >= 0"),
        ("= 3_940_000_000", "= -1", "dram_bytes_per_s is -1, expected >= 0"),
        ("[arm_timing]", "[arm_timing]\nhandover_us = -1", "handover_us is -1.0, expected >= 0"),
        ("cores = 4", "cores = 4\ndma_bytes = -1", "dma_bytes is -1, expected >= 0"),
        ('"aarch64"', '"riscv"', "architecture 'riscv' is unknown"),
        ('revision = "0.0.1"', 'revision = "0.0.3"', "revision '0.0.3' is unknown"),
        (
            "block_in = 16",
            "block_in = 8",
            "block_in 8, block_out 16, expected block_out <= block_in",
        ),
        ("cores = 4", "cores = ", "mine.toml: not valid TOML"),
        ("cores = [0]", "cores = [4]", "threads.vta: core 4 does not exist"),
        ("cores = [1, 2, 3]", "cores = [1, 0, 0]", "threads.arm: core 0 is given twice"),
        ("cores = [0]", "realtime_priority = 100", "threads.vta: realtime_priority is 100"),
        ("cores = [0]", "light_percent = 101", "threads.vta: light_percent is 101"),
    ],
)
def test_unknown_keys_and_impossible_values_are_errors(tmp_path, old, new, message):
    with pytest.raises(BoardError, match=message.replace("[", r"\[")):
        boards.load(edited(tmp_path, old, new))


def test_a_cost_that_was_replaced_names_its_successor(tmp_path):
    with pytest.raises(BoardError) as caught:
        boards.load(edited(tmp_path, "[timing]", "[timing]\nload_rows = 16"))
    assert str(caught.value).startswith(
        "mine.toml: timing: load_rows is 16, expected reads_in_flight, which has replaced it"
    )
    assert caught.value.hint == (
        "omit the key if load_rows was 1; otherwise give the read requests that the port takes "
        "before the first is answered as reads_in_flight, and their longest burst as burst_bytes"
    )


def test_a_missing_board_file_is_an_error(tmp_path):
    with pytest.raises(BoardError, match="no such file"):
        boards.load(str(tmp_path / "none.toml"))

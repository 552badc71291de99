"""A bus must fit the accelerator's elements."""

from __future__ import annotations

import pytest
from accelerators import FOUR_BY_EIGHT, ONE_BY_THIRTYTWO

from vta_rtl.dram.axi import check_bus
from vta_stages.accelerator import Accelerator
from vta_stages.errors import AcceleratorError

ONE_BY_EIGHT = Accelerator(block_in=8, block_out=8, inp_buffer_bytes_log2=14)


@pytest.mark.parametrize("accelerator", [Accelerator(), FOUR_BY_EIGHT, ONE_BY_THIRTYTWO])
@pytest.mark.parametrize("bus_bytes", [8, 16])
def test_known_accelerators_fit_both_buses(accelerator: Accelerator, bus_bytes: int) -> None:
    check_bus(accelerator, bus_bytes)


def test_a_bus_that_no_board_has_is_refused() -> None:
    with pytest.raises(AcceleratorError, match="a bus of 12 bytes, expected 8 or 16"):
        check_bus(Accelerator(), 12)


def test_elements_that_are_narrower_than_the_bus_are_refused() -> None:
    check_bus(ONE_BY_EIGHT, 8)
    text = "inp elements of 8 bytes, expected at least the bus's 16"
    with pytest.raises(AcceleratorError, match=text) as caught:
        check_bus(ONE_BY_EIGHT, 16)
    assert caught.value.hint == "choose larger blocks or a narrower bus"


def test_weights_that_are_narrower_than_the_bus_are_refused() -> None:
    eight_by_two = Accelerator(batch=8, block_in=2, block_out=2)
    with pytest.raises(AcceleratorError, match="wgt elements of 4 bytes, expected at least"):
        check_bus(eight_by_two, 8)

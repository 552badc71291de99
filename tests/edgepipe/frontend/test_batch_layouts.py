"""Pictures of a batch lie in one picture, with gaps where a window would read two of them."""

from __future__ import annotations

import numpy as np
import pytest

from edgepipe.frontend.rewrites.batch_layouts import Layout, Window, grids, spread, usual_grid

BATCH = np.arange(6 * 2 * 3 * 4, dtype=np.int64).reshape(6, 2, 3, 4)


def test_pictures_lie_row_by_row_in_a_grid() -> None:
    picture = Layout(1, 2, 3).laid(BATCH)
    assert picture.shape == Layout(1, 2, 3).picture(BATCH.shape) == (1, 2, 6, 12)
    assert np.array_equal(picture[0, :, 3:6, 4:8], BATCH[4])


def test_pictures_are_further_channels() -> None:
    picture = Layout(6, 1, 1).laid(BATCH)
    assert np.array_equal(picture, BATCH.reshape(1, 12, 3, 4))
    assert not Layout(6, 1, 1).is_grid


@pytest.mark.parametrize("layout", [Layout(1, 6, 1), Layout(1, 2, 3), Layout(6, 1, 1)])
def test_places_are_those_in_the_picture(layout) -> None:
    places = layout.places(BATCH.shape)
    assert np.array_equal(layout.laid(BATCH).reshape(-1)[places], BATCH)


def test_every_grid_has_all_pictures() -> None:
    found = list(grids(6))
    assert found == [Layout(1, 6, 1), Layout(1, 3, 2), Layout(1, 2, 3), Layout(1, 1, 6)]


def test_few_pictures_lie_below_each_other_and_many_beside_each_other_too() -> None:
    assert usual_grid(64, 16) == Layout(1, 64, 1)
    assert usual_grid(196, 16) == Layout(1, 14, 14)
    assert usual_grid(128, 16) == Layout(1, 16, 8)


def test_a_gap_is_as_long_as_the_longer_padding() -> None:
    found = spread(3, 2, 2, Window(reach=4, stride=1, before=1))
    assert found.taken == (0, 1, -1, -1, 2, 3, -1, -1, 4, 5)
    assert found.kept == (0, 1, 4, 5, 8, 9)
    assert found.behind == 2


def test_the_next_picture_begins_where_a_window_does() -> None:
    found = spread(2, 4, 2, Window(reach=3, stride=3, before=1))
    assert found.taken == (0, 1, 2, 3, -1, -1, 4, 5, 6, 7)
    assert found.kept == (0, 1, 2, 3)
    assert found.behind == 1


def test_pixels_that_no_window_reads_need_no_padding() -> None:
    found = spread(1, 5, 2, Window(reach=2, stride=2, before=0))
    assert found.taken == (0, 1, 2, 3, 4)
    assert found.behind == 0


def test_windows_without_padding_need_no_gap() -> None:
    found = spread(2, 4, 2, Window(reach=2, stride=2, before=0))
    assert found.taken == tuple(range(8))
    assert found.kept == tuple(range(4))


def test_results_between_pictures_are_left_out() -> None:
    found = spread(2, 4, 2, Window(reach=3, stride=1, before=0))
    assert found.taken == tuple(range(8))
    assert found.kept == (0, 1, 4, 5)

"""Ticks of logarithmic axes read as numbers, and there are neither too few nor too many of them."""

from __future__ import annotations

import numpy as np
import pytest

from zorba_core.plots.axes import log_axis_of, log_ticks, tick_text


@pytest.mark.parametrize("decades", [0.2, 0.7, 1.0, 2.0, 4.0, 9.0, 20.0, 60.0])
@pytest.mark.parametrize("low", [-12.3, -1.0, 0.0, 2.7])
def test_a_range_has_some_ticks_and_room_for_them(low, decades):
    inside = [tick for tick in log_ticks(low, low + decades) if low - 0.02 <= np.log10(tick) <= low + decades + 0.02]
    assert 1 <= len(inside) <= 11
    assert len({tick_text(tick) for tick in inside}) == len(inside)


def test_ticks_are_what_people_write():
    ticks = log_axis_of([np.array([0.4, 11.0])])["ticktext"]
    assert {"0.5", "1", "2", "5", "10"} <= set(ticks)
    words = [tick_text(value) for value in (0.05, 20, 5000, 20_000, 3e6, 2e9, 1e-4, 2e-5)]
    assert words == ["0.05", "20", "5000", "20k", "3M", "2G", "10⁻⁴", "2×10⁻⁵"]


def test_what_has_no_logarithm_is_passed_over():
    axis = log_axis_of([np.array([np.nan, -1.0, 0.0, np.inf, 1.0, 10.0])], pad=0.0)
    assert axis["range"] == [0.0, 1.0]
    assert log_axis_of([np.array([0.0])]) == {"type": "linear"}
    assert log_axis_of([]) == {"type": "linear"}

"""A pooled ratio is looked at without each cell, and with late runs counted as later."""

from __future__ import annotations

import math

import pytest

from zorba_core.study.experiments.firmness import firmness, side_of
from zorba_core.study.experiments.speed import Speedup, pooled_speed

ALIKE = ([5.0, 6, 7, 6], [5.1, 6.1, 7.1, 6.1], 12)  # a little slower


def test_a_ratio_that_rests_on_one_cell_says_which():
    fast = ([6.0, 7, 8, 7], [1.0, 1.2, 1.4, 1.2], 12)
    by_cell = {("a", "x"): fast, ("b", "x"): ALIKE, ("c", "x"): ALIKE}
    assert side_of(pooled_speed(by_cell)) == 1
    firm = firmness(by_cell)
    assert firm.side == 1
    assert firm.needs == (("a", "x"),)
    assert firm.least == pytest.approx(6.5 / 6.6, rel=0.02)
    assert firm.most == pytest.approx(math.sqrt(7 / 1.2), rel=0.05)
    assert not firm.needs_horizon

    firm = firmness({("a", "x"): fast, ("b", "x"): fast, ("c", "x"): fast})
    assert firm.needs == ()
    assert firm.least == pytest.approx(firm.most)


def test_runs_that_never_arrive_may_be_what_makes_an_arm_fast():
    """Three of eight runs of the arm come early, one never: it is faster only if that one counts twelve rounds."""
    paper, arm = [8.0, 8, 8, 8], [5.0, 5, 5, math.inf]
    by_cell = {("a", "x"): (paper, arm, 12), ("b", "x"): (paper, [6.0, 6, 6, 6], 12)}
    firm = firmness(by_cell)
    assert firm.later.value < pooled_speed(by_cell).value
    assert firm.later.value == pytest.approx(math.sqrt((8 / 9.75) * (8 / 6)))
    assert firm.needs_horizon == (side_of(firm.later) != firm.side)


def test_one_cell_has_no_other():
    assert firmness({("a", "x"): ALIKE}) is None
    assert firmness({}) is None
    assert [side_of(Speedup(1.0, low, high, 3, 3, 3)) for low, high in ((1.1, 2), (0.5, 0.9), (0.9, 1.1))] == [1, -1, 0]

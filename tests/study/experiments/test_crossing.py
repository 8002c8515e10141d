"""Reaching a target is known between two evaluations, within one horizon; ratios of such intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest

from zorba_core.errors import InvalidInputError
from zorba_core.study.experiments.crossing import Crossing, crossing, crossing_text, median_crossing, ratio_interval
from zorba_core.study.experiments.statistics import mean_interval


def test_a_target_is_reached_between_the_evaluation_before_and_the_first_at_it():
    rounds, accuracy = [0, 5, 10, 15], [0.5, 0.6, 0.7, 0.8]
    assert crossing(rounds, accuracy, 0.65) == (5, 10)
    assert crossing(rounds, accuracy, 0.7) == (5, 10)
    assert crossing(rounds, accuracy, 0.9) == (15, math.inf)
    assert crossing(rounds, accuracy, 0.4) == (0, 0)


def test_what_lies_beyond_the_horizon_is_not_looked_at():
    assert crossing([0, 20, 40, 60, 80], [0.5, 0.5, 0.5, 0.5, 0.9], 0.8, horizon=60) == (60, math.inf)


def test_a_median_of_intervals_is_an_interval():
    found = median_crossing([Crossing(5, 10), Crossing(10, 15), Crossing(60, math.inf)])
    assert found == (10, 15)
    assert crossing_text(found) == "10 to 15"
    assert crossing_text(Crossing(60, math.inf)) == "more than 60"


def test_ratios_that_are_known_exactly_have_students_interval():
    logs = np.random.default_rng(0).normal(0.5, 0.4, size=6)
    found, exact = ratio_interval(logs - 1e-3, logs + 1e-3), mean_interval(logs)
    assert found == pytest.approx(exact, abs=0.02)


def test_pairs_without_any_bound_do_not_count():
    nothing = [-math.inf]
    assert ratio_interval(nothing, [math.inf]) is None
    known = ratio_interval([0.1, 0.3, 0.2], [0.2, 0.4, 0.3])
    assert ratio_interval([0.1, 0.3, 0.2, *nothing], [0.2, 0.4, 0.3, math.inf]) == known


def test_bounds_on_one_side_alone_give_no_finite_ratio():
    found = ratio_interval([1.0, 1.2, 0.9], [math.inf] * 3)
    assert found.value == math.inf
    assert found.high == math.inf


def test_an_interval_the_wrong_way_round_is_refused():
    with pytest.raises(InvalidInputError, match="begins after its end"):
        ratio_interval([1.0], [0.5])


def test_the_intervals_hold_the_truth_about_as_often_as_they_say():
    """Rounds of reaching on a grid of 5 within 60, five pairs: 95 % intervals over 60 studies."""
    rng, held = np.random.default_rng(5), 0
    for _ in range(60):
        theirs = np.exp(rng.normal(np.log(20), 0.3, size=5))
        ours = theirs * np.exp(rng.normal(-0.5, 0.3, size=5))
        with np.errstate(divide="ignore"):
            (low_o, high_o), (low_t, high_t) = (
                (np.log(np.floor(at / 5) * 5), np.log(np.ceil(at / 5) * 5)) for at in (ours, theirs)
            )
        found = ratio_interval(low_o - high_t, high_o - low_t)
        held += found.low <= -0.5 <= found.high
    assert held >= 0.88 * 60

"""The experiments' numbers, each against a case done by hand or by another library."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from zorba_core.errors import InvalidInputError
from zorba_core.study.experiments.statistics import (
    count_to_decide,
    linear_law,
    mean_interval,
    partial_spearman,
    rank_correlation,
)


def test_interval_of_a_mean_is_students():
    values = [3.0, 4.0, 8.0]
    low, high = stats.t.interval(0.95, 2, loc=5.0, scale=stats.sem(values))
    assert mean_interval(values) == pytest.approx((5.0, low, high, 3))


def test_one_seed_tells_nothing_about_its_noise():
    assert mean_interval([2.0]) == (2.0, -math.inf, math.inf, 1)


def test_pairing_takes_out_what_seeds_share():
    first, second = np.array([1.0, 5.0, 9.0]), np.array([0.9, 4.9, 8.9])
    assert mean_interval(first - second).low > 0
    assert mean_interval(first).low < mean_interval(second).high


def test_rank_correlation_is_scipys_with_ties_and_infinities():
    x, y = [1.0, 2, 2, 3, 5, 8], [2.0, 1, 4, 4, math.inf, 5]
    found = rank_correlation(x, y)
    assert found.value == pytest.approx(stats.spearmanr(x, y).statistic)
    assert found.low <= found.value <= found.high
    assert found.count == 6


def test_a_perfect_order_is_unlikely_by_chance_and_noise_is_not():
    x = np.arange(12.0)
    assert rank_correlation(x, x**3).p_value < 0.001
    noise = np.random.default_rng(5).normal(size=12)
    assert rank_correlation(x, noise).p_value > 0.05


def test_partial_correlation_takes_out_a_common_cause():
    rng = np.random.default_rng(0)
    cause = rng.normal(size=400)
    x, y = cause + 0.3 * rng.normal(size=400), cause + 0.3 * rng.normal(size=400)
    assert rank_correlation(x, y).value > 0.8
    assert abs(partial_spearman(x, y, cause)) < 0.15
    assert np.isnan(partial_spearman(np.arange(4.0), np.array([1.0, 3, 2, 4]), np.arange(4.0)))  # explains one wholly


def test_linear_law_finds_the_coefficients_it_was_made_with():
    rng = np.random.default_rng(1)
    x = rng.random((40, 2))
    law = linear_law(x, 0.5 + 0.1 * x[:, 0] + 0.02 * x[:, 1] + 1e-4 * rng.normal(size=40))
    assert law.intercept == pytest.approx(0.5, abs=1e-3)
    assert law.slope_F == pytest.approx([0.1, 0.02], abs=1e-3)


def test_predictions_left_out_are_those_of_fits_without_each_allocation():
    rng = np.random.default_rng(2)
    x, y = rng.random(9), rng.random(9)
    unseen, mean_of_others = [], []
    for k in range(9):
        rest = np.arange(9) != k
        slope, intercept = np.polyfit(x[rest], y[rest], 1)
        unseen.append(y[k] - intercept - slope * x[k])
        mean_of_others.append(y[k] - y[rest].mean())
    expected = 1 - np.square(unseen).sum() / np.square(mean_of_others).sum()
    assert linear_law(x, y).r2_left_out == pytest.approx(expected)


def test_noise_predicts_nothing_it_has_not_seen():
    rng = np.random.default_rng(3)
    assert linear_law(rng.random((20, 3)), rng.random(20)).r2_left_out < 0.2


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: mean_interval([]), "at least one value"),
        (lambda: mean_interval([1.0, math.nan]), "finite"),
        (lambda: rank_correlation([1, 2, 3], [1, 2, 3]), "at least four"),
        (lambda: rank_correlation([1, 1, 1, 1], [1, 2, 3, 4]), "the same everywhere"),
        (lambda: rank_correlation([1, 2, 3, math.nan], [1, 2, 3, 4]), "NaN"),
        (lambda: linear_law(np.ones((5, 1)), np.ones(5)), "follows from the others"),
        (lambda: linear_law(np.ones((2, 1)), np.ones(2)), "too few"),
    ],
)
def test_too_little_to_say_anything_is_said(call, named):
    with pytest.raises(InvalidInputError, match=named):
        call()


def test_the_count_that_decides_is_the_first_whose_interval_leaves_out_zero():
    generator = np.random.default_rng(0)
    found = mean_interval(0.3 + generator.standard_normal(5))
    needed = count_to_decide(found)
    deviation = (found.high - found.value) * np.sqrt(5) / stats.t.ppf(0.975, 4)

    def decides(count):
        return abs(found.value) > stats.t.ppf(0.975, count - 1) * deviation / np.sqrt(count)

    assert decides(needed)
    assert not decides(needed - 1)
    assert count_to_decide(mean_interval([1.0])) is None
    assert count_to_decide(mean_interval([-1.0, 1.0])) is None

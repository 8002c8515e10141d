"""Alike means within a margin; an interval that contains zero is not enough."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from zorba_core.errors import InvalidInputError
from zorba_core.study.experiments.equivalence import Likeness, count_to_be_alike, equivalence, sign_test


def test_an_interval_that_contains_zero_but_crosses_the_margin_is_undecided():
    found = equivalence([0.03, -0.02, 0.01, -0.03, 0.02], margin=0.01)
    assert found.low < 0 < found.high
    assert found.likeness is Likeness.UNDECIDED


def test_small_differences_are_alike_even_where_they_are_surely_not_zero():
    found = equivalence([0.0021, 0.0019, 0.0020, 0.0022], margin=0.01)
    assert found.low > 0
    assert found.likeness is Likeness.ALIKE
    assert equivalence([0.05, 0.051, 0.052], margin=0.01).likeness is Likeness.APART


def test_the_interval_is_that_of_two_one_sided_tests():
    rng = np.random.default_rng(3)
    for _ in range(50):
        values = rng.normal(0.002, 0.004, size=6)
        found = equivalence(values, margin=0.005)
        above = stats.ttest_1samp(values, -0.005, alternative="greater").pvalue
        below = stats.ttest_1samp(values, 0.005, alternative="less").pvalue
        assert found.p_value == pytest.approx(max(above, below))
        assert (found.likeness is Likeness.ALIKE) == (max(above, below) < 0.05)


def test_the_least_margin_is_the_one_at_which_the_verdict_turns():
    values = [0.013884, 0.016806, 0.000232, 0.002525, -0.011344]
    least = equivalence(values).least_margin
    assert equivalence(values, least * 1.001).likeness is Likeness.ALIKE
    assert equivalence(values, least * 0.999).likeness is Likeness.UNDECIDED


def test_as_many_values_as_said_would_decide():
    values = np.array([0.004, -0.002, 0.006, 0.0, 0.002])
    found = equivalence(values, 0.005)
    needed = count_to_be_alike(found)
    assert found.likeness is Likeness.UNDECIDED
    for count, enough in ((needed, True), (needed - 1, False)):
        spread = values.std(ddof=1) / np.sqrt(count) * stats.t.ppf(0.95, count - 1)
        assert (values.mean() + spread < 0.005) == enough
    assert count_to_be_alike(equivalence([0.02, 0.021, 0.019], 0.01)) is None


def test_one_value_decides_nothing_and_a_margin_is_positive():
    assert equivalence([0.0]).likeness is Likeness.UNDECIDED
    with pytest.raises(InvalidInputError, match="margin"):
        equivalence([0.0, 0.1], 0.0)


def test_signs_are_counted_without_ties():
    assert sign_test([-1, -2, -3, -4, -5]) == (5, 5, pytest.approx(2 / 2**5))
    assert sign_test([-1, 0, 1])[:2] == (1, 2)

"""The bootstrap over arms and seeds, the test whether arms differ and the correction for several tests, each against a
case whose answer is known."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from zorba_core.errors import InvalidInputError
from zorba_core.study.experiments.resampling import arms_differ, holm, percentile_interval, two_way_resamples
from zorba_core.study.experiments.statistics import partial_spearman, spearman


def test_every_arm_of_a_resample_is_taken_over_the_same_seeds():
    """The loss is the seed's alone: all arms of a resample agree, and their values are the 27 means of three draws."""
    seeds = np.array([0.0, 1.0, 5.0])
    _, loss_RK = two_way_resamples(np.tile(seeds, (4, 1)), resamples=20_000)
    assert (np.ptp(loss_RK, axis=1) == 0).all()
    exact = [np.mean(draw) for draw in itertools.product(seeds, repeat=3)]
    assert set(loss_RK[:, 0].round(9)) == set(np.round(exact, 9))
    assert loss_RK[:, 0].mean() == pytest.approx(np.mean(exact), abs=0.03)
    assert loss_RK[:, 0].var() == pytest.approx(np.var(exact), rel=0.03)  # the seeds' variance over three


def test_arms_are_drawn_with_their_losses():
    arm_RK, loss_RK = two_way_resamples(np.arange(5.0)[:, None], resamples=200)
    assert (loss_RK == arm_RK).all()
    assert len(set(arm_RK.ravel())) == 5
    assert (loss_RK == two_way_resamples(np.arange(5.0)[:, None], resamples=200)[1]).all()  # the same again


def test_without_noise_of_seeds_the_interval_is_the_one_over_arms_alone():
    """scipy's bootstrap resamples one axis; it must agree where the other holds nothing."""
    rng = np.random.default_rng(1)
    x, y = rng.random(20), rng.random(20)
    arm_RK, loss_RK = two_way_resamples(np.tile(y[:, None], (1, 3)), resamples=8000)
    ours = percentile_interval(spearman(x[arm_RK], loss_RK))
    theirs = stats.bootstrap(
        (x, y), lambda a, b, axis=-1: spearman(a, b), paired=True, vectorized=True, n_resamples=8000,
        method="percentile", rng=2,
    ).confidence_interval  # fmt: skip
    assert ours == pytest.approx(theirs, abs=0.03)


def test_noise_of_seeds_widens_the_interval():
    rng = np.random.default_rng(0)
    x = np.arange(12.0)
    quiet = np.tile(x[:, None], (1, 3))
    widths = []
    for loss_KS in (quiet, quiet + 12 * rng.standard_normal(quiet.shape)):
        arm_RK, loss_RK = two_way_resamples(loss_KS, resamples=2000)
        low, high = percentile_interval(spearman(x[arm_RK], loss_RK))
        widths.append(high - low)
    assert widths[0] < 1e-12
    assert widths[1] > 0.3


def test_an_interval_that_most_resamples_do_not_define_is_none():
    values = np.linspace(0, 1, 101)
    assert percentile_interval(values) == pytest.approx((0.025, 0.975))
    values[:4] = np.nan
    assert math.isfinite(percentile_interval(values)[0])
    values[:20] = np.nan
    assert np.isnan(percentile_interval(values)).all()


def test_the_f_test_of_two_arms_is_the_paired_t_test():
    rng = np.random.default_rng(3)
    loss_KS = rng.normal(size=(2, 6)) + np.array([[0.0], [1.0]])
    paired = stats.ttest_rel(*loss_KS)
    found = arms_differ(loss_KS)
    assert found.f == pytest.approx(paired.statistic**2)
    assert found.p_value == pytest.approx(paired.pvalue)
    assert found.standard_error * math.sqrt(2) == pytest.approx(stats.sem(loss_KS[0] - loss_KS[1]))


def test_seeds_that_differ_are_not_arms_that_differ():
    rng = np.random.default_rng(4)
    noise = 0.1 * rng.normal(size=(8, 3)) + np.array([0.0, 50.0, 100.0])
    apart = noise + np.arange(8.0)[:, None]
    assert arms_differ(noise).p_value > 0.05
    assert arms_differ(noise).p_permuted > 0.05
    assert arms_differ(apart).p_value < 1e-6
    assert arms_differ(apart, resamples=500).p_permuted == pytest.approx(1 / 501)


def test_holm_raises_each_p_value_by_how_many_are_still_to_be_judged():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.5]) == pytest.approx([1.0, 1.0])
    assert holm([0.04]) == pytest.approx([0.04])


def test_a_partial_correlation_of_what_is_held_fixed_is_undefined():
    x, y = np.array([1.0, 2, 3, 4, 5]), np.array([2.0, 1, 4, 3, 5])
    assert np.isnan(partial_spearman(x, y, x))
    assert np.isnan(spearman(np.ones(5), y))


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: two_way_resamples([[1.0, math.nan]]), "every arm and seed"),
        (lambda: arms_differ([[1.0, 2.0]]), "at least two arms"),
        (lambda: arms_differ([[1.0, 2.0], [1.0, math.inf]]), "finite"),
    ],
)
def test_what_cannot_be_resampled_is_said(call, named):
    with pytest.raises(InvalidInputError, match=named):
        call()

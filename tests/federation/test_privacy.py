"""What noise is added, and what it buys."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from zorba_core.engine.aggregation import average_per_block
from zorba_core.errors import InvalidInputError
from zorba_core.federation.privacy import PrivacySettings, epsilon, private_average, sensitivity

A_MN = np.array([[1, 1, 0, 1], [1, 0, 1, 0], [0, 0, 1, 1]], dtype=bool)
EVERYBODY = np.ones(4, dtype=bool)


def gaussian_epsilon(noise_multiplier: float, rounds: int, delta: float) -> float:
    """The exact epsilon of composed Gaussian mechanisms (Balle and Wang, 2018, arXiv:1805.06530, theorem 8): T of noise
    z are one of noise z / sqrt(T)."""
    z = noise_multiplier / math.sqrt(rounds)

    def missing(eps: float) -> float:
        return norm.cdf(0.5 / z - eps * z) - math.exp(eps) * norm.cdf(-0.5 / z - eps * z) - delta

    return brentq(missing, 1e-9, 200.0)


def test_one_client_moves_the_averages_by_at_most_the_sensitivity():
    random = np.random.default_rng(0)
    settings = PrivacySettings(1e-12, clip=0.7)
    worst = 0.0
    for _ in range(200):
        rho_NQ = random.normal(size=(4, 5)) * 10.0 ** random.integers(-2, 4)
        with_all = private_average(rho_NQ, A_MN, EVERYBODY, settings, random)
        for n in range(4):
            without = private_average(rho_NQ, A_MN, EVERYBODY & (np.arange(4) != n), settings, random)
            worst = max(worst, float(np.linalg.norm(with_all - without)))
    bound = sensitivity(A_MN, 5, 0.7)
    assert worst <= bound * (1 + 1e-6)
    assert worst >= 0.99 * bound  # the bound is reached: it charges no more than it must


def test_noise_has_the_stated_size_and_leaves_blocks_of_nobody_alone():
    settings, random = PrivacySettings(2.0, clip=0.5), np.random.default_rng(1)
    with_empty = np.vstack([A_MN, np.zeros((1, 4), dtype=bool)])
    drawn = np.array([private_average(np.zeros((4, 50)), with_empty, EVERYBODY, settings, random) for _ in range(200)])
    expected = 2.0 * sensitivity(with_empty, 50, 0.5)
    np.testing.assert_allclose(drawn[:, :3].std(), expected, rtol=0.02)
    assert not drawn[:, 3].any()


def test_short_scalars_without_noise_are_averaged_as_ever():
    rho_NQ = np.random.default_rng(2).normal(size=(4, 5)) * 1e-3
    found = private_average(rho_NQ, A_MN, EVERYBODY, PrivacySettings(1e-15, clip=1.0))
    np.testing.assert_allclose(found, average_per_block(rho_NQ, A_MN), atol=1e-12)


def test_two_private_averages_of_the_same_scalars_differ():
    rho_NQ, settings = np.ones((4, 5)), PrivacySettings(1.0, clip=1.0)
    first, second = (private_average(rho_NQ, A_MN, EVERYBODY, settings) for _ in range(2))
    assert not np.array_equal(first, second)  # the run's seed does not decide the noise


@pytest.mark.parametrize(("noise_multiplier", "rounds"), [(1.0, 1), (5.0, 20), (20.0, 150)])
def test_epsilon_is_the_gaussian_mechanisms_up_to_the_accountants_slack(noise_multiplier, rounds):
    pytest.importorskip("opacus")
    found = epsilon(PrivacySettings(noise_multiplier, 1.0, 1e-5), rounds)
    exact = gaussian_epsilon(noise_multiplier, rounds, 1e-5)
    assert exact <= found <= 1.2 * exact


def test_epsilon_grows_with_rounds_and_is_infinite_without_noise():
    pytest.importorskip("opacus")
    private = PrivacySettings(3.0, 1.0)
    assert epsilon(private, 0) == 0.0
    assert 0 < epsilon(private, 1) < epsilon(private, 10) < epsilon(private, 100)
    assert epsilon(PrivacySettings(), 10) == math.inf


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"noise_multiplier": 1.0}, "needs a clip"),
        ({"noise_multiplier": -1.0}, "noise_multiplier"),
        ({"clip": math.nan}, "clip"),
        ({"delta": 1.0}, "delta"),
    ],
)
def test_privacy_settings_out_of_range_are_refused(values, named):
    with pytest.raises(InvalidInputError, match=named):
        PrivacySettings(**values)

"""Averages that a few wrong scalars cannot move."""

from __future__ import annotations

import numpy as np

from zorba_core.engine.aggregation import average_per_block
from zorba_core.federation.options import robust_average

A_MN = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [0, 0, 0, 0, 1], [0, 0, 0, 1, 0]], dtype=bool)
REPORTED = np.array([True, True, True, False, True])
RHO_NQ = np.array([[1.0, -1.0], [2.0, 0.0], [3.0, 4.0], [100.0, 100.0], [6.0, 1.0]])


def test_the_mean_is_the_papers_average_to_the_bit():
    mean_MQ = robust_average(RHO_NQ, A_MN, REPORTED, "mean")
    assert mean_MQ.tobytes() == average_per_block(RHO_NQ, A_MN, REPORTED).tobytes()


def test_the_median_of_each_block_is_over_those_that_activate_it_and_reported():
    median_MQ = robust_average(RHO_NQ, A_MN, REPORTED, "median")
    np.testing.assert_allclose(2 * median_MQ, [[2.5, 0.5], [2.0, 0.0], [6.0, 1.0], [0.0, 0.0]])


def test_the_trimmed_mean_cuts_the_share_at_both_ends():
    trimmed_MQ = robust_average(RHO_NQ, A_MN, REPORTED, "trimmed", 0.25)
    np.testing.assert_allclose(2 * trimmed_MQ[0], [2.5, 0.5])  # of four, one at each end
    np.testing.assert_allclose(2 * trimmed_MQ[1], [2.0, 0.0])  # of three, one too: the share is rounded up


def test_one_liar_in_five_moves_a_robust_average_less_than_it_moves_the_mean():
    everybody, all_blocks = np.ones(5, dtype=bool), np.ones((2, 5), dtype=bool)
    honest_NQ = np.random.default_rng(3).normal(1.0, 0.1, size=(5, 8))
    lying_NQ = honest_NQ.copy()
    lying_NQ[2] = -50.0

    def moved(rule: str) -> float:
        lying, honest = (robust_average(rho_NQ, all_blocks, everybody, rule) for rho_NQ in (lying_NQ, honest_NQ))
        return float(np.linalg.norm(lying - honest))

    assert max(moved("trimmed"), moved("median")) < 0.1 * moved("mean")

"""Averages that a few wrong scalars cannot move."""

from __future__ import annotations

import numpy as np
import pytest

from tests.engine.all_rounds import run_all
from zorba_core.allocation import Allocation
from zorba_core.engine.averages import per_block
from zorba_core.engine.methods.zorba import average_per_block
from zorba_core.engine.parts import AVERAGES, average_of
from zorba_core.engine.settings import Settings
from zorba_core.errors import InvalidInputError

A_MN = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [0, 0, 0, 0, 1], [0, 0, 0, 1, 0]], dtype=bool)
REPORTED = np.array([True, True, True, False, True])
RHO_NQ = np.array([[1.0, -1.0], [2.0, 0.0], [3.0, 4.0], [100.0, 100.0], [6.0, 1.0]])


def averaged(rule: str, trim: float = 0.2, rho_NQ=RHO_NQ, A_MN=A_MN, reported_N=REPORTED) -> np.ndarray:
    return average_per_block(rho_NQ, A_MN, reported_N, average_of(Settings(rule=rule, trim=trim)))


def test_the_mean_is_the_papers_average_to_the_bit():
    assert averaged("mean").tobytes() == average_per_block(RHO_NQ, A_MN, REPORTED).tobytes()


def test_the_median_of_each_block_is_over_those_that_activate_it_and_reported():
    np.testing.assert_allclose(2 * averaged("median"), [[2.5, 0.5], [2.0, 0.0], [6.0, 1.0], [0.0, 0.0]])


def test_the_trimmed_mean_cuts_the_share_at_both_ends():
    trimmed_MQ = averaged("trimmed", 0.25)
    np.testing.assert_allclose(2 * trimmed_MQ[0], [2.5, 0.5])  # of four, one at each end
    np.testing.assert_allclose(2 * trimmed_MQ[1], [2.0, 0.0])  # of three, one too: the share is rounded up


def test_an_average_of_another_shape_is_refused():
    total = per_block(lambda rho_KQ, trim: rho_KQ.sum())
    with pytest.raises(InvalidInputError, match=r"an average returns shape \(\) in place of \(2,\)"):
        total(RHO_NQ, A_MN, 0.2)


def test_one_liar_in_five_moves_a_robust_average_less_than_it_moves_the_mean():
    honest_NQ = np.random.default_rng(3).normal(1.0, 0.1, size=(5, 8))
    lying_NQ = honest_NQ.copy()
    lying_NQ[2] = -50.0
    everybody = {"A_MN": np.ones((2, 5), dtype=bool), "reported_N": np.ones(5, dtype=bool)}

    def moved(rule: str) -> float:
        lying, honest = (averaged(rule, rho_NQ=rho_NQ, **everybody) for rho_NQ in (lying_NQ, honest_NQ))
        return float(np.linalg.norm(lying - honest))

    assert max(moved("trimmed"), moved("median")) < 0.1 * moved("mean")


def test_a_simulation_trains_with_every_average(new_network, rows):
    settings = Settings(rounds=2, directions=3, num_seeds=16, batch_size=4, seq_len=8, lr=1e-3)
    ends = {}
    for rule in AVERAGES:
        done = run_all(new_network(), Allocation(np.ones((3, 4))), rows, settings.replace(rule=rule))[-1]
        ends[rule] = done.weights_sha256
    # Of four clients, a fifth rounded up is one at each end: the two middle values.
    assert ends["median"] == ends["trimmed"] != ends["mean"]

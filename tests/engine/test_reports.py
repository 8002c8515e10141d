from __future__ import annotations

import numpy as np
import pytest

from zorba_core.engine.reports import STATUSES, asked_clients, check_reports, describe_refusals

ALL = np.ones(5, dtype=bool)


def judge(rho_NQ, loss_N=None, asked_N=ALL, mu=1e-3) -> list[str]:
    loss_N = np.full(5, 0.7) if loss_N is None else loss_N
    return [STATUSES[code] for code in check_reports(rho_NQ, loss_N, asked_N, mu=mu)]


@pytest.fixture
def rho_NQ() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(5, 4))


def test_usual_scalars_are_taken_from_all(rho_NQ):
    assert judge(rho_NQ) == ["reported"] * 5
    rho_NQ[3] *= 30  # a client with many more blocks, or a much steeper loss
    assert judge(rho_NQ) == ["reported"] * 5


def test_one_scalar_that_is_no_number_refuses_its_client_alone(rho_NQ, subtests):
    for bad in [np.nan, np.inf, -np.inf]:
        with subtests.test(bad=bad):
            rho_NQ[2, 1] = bad
            assert judge(rho_NQ) == ["reported", "reported", "non-finite", "reported", "reported"]


def test_a_loss_that_is_no_number_refuses_its_client(rho_NQ):
    assert judge(rho_NQ, np.array([0.7, np.nan, 0.7, 0.7, np.inf]))[1::3] == ["non-finite", "non-finite"]


def test_a_hundred_nats_over_one_step_are_absurd(rho_NQ):
    rho_NQ[0, 0] = 1.01e5  # times mu = 101 nats
    assert judge(rho_NQ)[0] == "absurd"
    rho_NQ[:] = 1e300  # all of them, so no median client to compare with
    assert judge(rho_NQ) == ["absurd"] * 5


def test_a_client_far_beyond_the_median_is_an_outlier_whatever_the_scale(rho_NQ):
    rho_NQ[4] *= 1000
    for scale in (1e-12, 1.0, 10.0):
        assert judge(rho_NQ * scale) == ["reported"] * 4 + ["outlier"]


def test_without_three_clients_or_with_a_median_of_zero_nobody_is_an_outlier(rho_NQ):
    rho_NQ[1] *= 1000
    assert judge(rho_NQ, asked_N=np.array([1, 1, 0, 0, 0], bool))[:2] == ["reported"] * 2
    rho_NQ[2:] = 0.0
    assert judge(rho_NQ) == ["reported"] * 5


def test_a_client_that_was_not_asked_is_not_judged(rho_NQ):
    rho_NQ[1] = np.nan
    assert judge(rho_NQ, asked_N=np.array([1, 0, 1, 1, 1], bool)) == ["reported", "not asked", *["reported"] * 3]


def test_a_share_of_the_clients_is_drawn_afresh_each_round_by_its_key():
    drawn = [asked_clients(20, 0.25, 0, t) for t in range(1, 200)]
    assert {int(asked.sum()) for asked in drawn} == {5}
    assert np.array_equal(drawn[6], asked_clients(20, 0.25, 0, 7))
    assert not np.array_equal(drawn[6], asked_clients(20, 0.25, 1, 7))
    share_N = np.mean(drawn, axis=0)
    assert np.abs(share_N - 0.25).max() < 4 * np.sqrt(0.25 * 0.75 / 199)
    assert asked_clients(20, 1.0, 0, 1).all()
    assert asked_clients(20, 0.001, 0, 1).sum() == 1


def test_refusals_are_described_by_kind():
    assert describe_refusals(np.array([2, 0, 4, 1, 2])) == (
        "3 of 4 clients without a usable report (2 non-finite, 1 outlier; first client 0)"
    )

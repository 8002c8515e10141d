"""Theorems 1 and 2 as numbers, and each step of their proofs against a simulation or a brute-force sum."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from notebooks.reproduction.theory import (
    Constants,
    Quadratic,
    bias_terms,
    dropped_at_optimum,
    expected_bias,
    largest_lr_theorem_1,
    largest_lr_theorem_2,
    lemma_3_trace,
    mean_estimate,
    mean_square_estimate,
    theorem_1,
    theorem_2,
)
from zorba_core.allocation.measures import Allocation

N, D, L, KAPPA = 10, 1000, 2.0, 20.0


def constants(lr: float, **changes) -> Constants:
    base = Constants(lr, N, D, L, mu=1e-4, sigma=1.5, sigma_global=0.7, directions=4, effective_rank=KAPPA)
    return dataclasses.replace(base, **changes)


BOUNDS = {
    "theorem 1, stated": lambda c: theorem_1(c, stated=True),
    "theorem 1, proven": lambda c: theorem_1(c, stated=False),
    "theorem 2": theorem_2,
}


@pytest.mark.parametrize("bound_of", BOUNDS.values(), ids=BOUNDS)
def test_lemma_4_is_the_derivative_of_the_bias(bound_of):
    bound, step = bound_of(constants(1e-7)), 1e-5
    for value in (0.1, 0.5, 3.0):
        slope = (bound.bias(value + step) - bound.bias(value - step)) / (2 * step)
        assert slope == pytest.approx(bound.theta * bound.intercept / bound.denominator(value) ** 2, rel=1e-6)
        assert slope > 0


def test_theorem_1_by_hand():
    bound = theorem_1(constants(1e-6), stated=False)
    half = 1.5 * L * 1e-12 * D * N
    assert bound.denominator(0.5) == pytest.approx(5e-7 - half * 0.5)
    error = 0.25 * 1e-8 * L**2 * 1e-6 * 1003**3 * N
    assert bound.theta == pytest.approx(error + (1e-6 * N + half) * 0.49 + half * 2.25)


def test_theorem_2_by_hand():
    bound = theorem_2(constants(1e-6))
    step = D * 1e-12 * L * 22 / (2 * 1002)
    assert bound.denominator(0.5) == pytest.approx(5e-7 - step * N * 0.5)
    assert bound.theta == pytest.approx(1e-6 * N * (0.49 + 0.25e-8 * 4 * 1003**3) + step * 2.25)


def test_statement_and_proof_of_theorem_1_differ_in_factor_and_rate():
    stated, proven = (theorem_1(constants(1e-6), stated=which).slope for which in (True, False))
    assert proven / stated == pytest.approx(D * 4 / (D + 3))
    rate = largest_lr_theorem_1(N, D, L, stated=True)
    assert rate == pytest.approx(1.5 * largest_lr_theorem_1(N, D, L, stated=False))
    bound = theorem_1(constants(rate, directions=1), stated=True)
    assert bound.denominator(N) < 0 < bound.denominator(1.0)
    assert bound.bias(N) == bound.average_gradient(N, 1.0, 10) == math.inf


def test_at_the_proven_rates_the_denominator_vanishes_at_the_worst_lambda():
    first = theorem_1(constants(largest_lr_theorem_1(N, D, L, stated=False)), stated=False)
    second = theorem_2(constants(largest_lr_theorem_2(N, D, L, KAPPA, stated=False)))
    assert first.denominator(N) == pytest.approx(0, abs=1e-16)
    assert second.denominator(N) == pytest.approx(0, abs=1e-16)
    assert largest_lr_theorem_2(N, D, L, KAPPA, stated=False) == 2 * largest_lr_theorem_2(N, D, L, KAPPA, stated=True)


def test_rounds_diminish_only_the_gap_term():
    bound = theorem_2(constants(1e-7))
    few, many = bound.average_gradient(0.5, 2.0, 10), bound.average_gradient(0.5, 2.0, 1000)
    assert (few - bound.bias(0.5)) == pytest.approx(100 * (many - bound.bias(0.5)))


def on_sphere(rng, count: int, size: int, length: float) -> np.ndarray:
    v = rng.normal(size=(count, size))
    return v * (length / np.linalg.norm(v, axis=1, keepdims=True))


@pytest.mark.parametrize("length", [1.0, math.sqrt(6)])
def test_the_exact_means_of_the_estimate_are_those_of_random_directions(length):
    rng, d, Q, draws = np.random.default_rng(0), 6, 3, 200_000
    gradient_D = rng.normal(size=d)

    def loss(w_D):
        return 0.5 * w_D @ w_D + gradient_D @ w_D

    v_SD = on_sphere(rng, draws, d, length)
    exact = mean_estimate(loss, np.zeros(d), 1e-3, length)
    assert (v_SD.T * (v_SD @ gradient_D)).mean(axis=1) == pytest.approx(exact, abs=0.05)
    assert exact == pytest.approx(gradient_D * length**2 / d)  # the gradient over d, for unit vectors
    v_SQD = on_sphere(rng, Q * draws, d, length).reshape(draws, Q, d)
    estimate_SD = (v_SQD * (v_SQD @ gradient_D)[..., None]).mean(axis=1)
    square = mean_square_estimate(gradient_D, Q, length)
    assert np.square(estimate_SD).sum(axis=1).mean() == pytest.approx(square, rel=0.02)
    assert square / (gradient_D @ gradient_D) == pytest.approx((d + Q - 1) / Q * (length**2 / d) ** 2)


@pytest.mark.parametrize("Q", [1, 4])
def test_lemma_3_is_n_times_the_trace_of_a_simulated_round_of_identical_clients(Q):
    rng, d, clients, draws = np.random.default_rng(1), 5, 4, 100_000
    gradient_D = rng.normal(size=d)
    v_SQD = on_sphere(rng, draws * Q, d, math.sqrt(d)).reshape(draws, Q, d)
    rho_SQN = np.repeat((v_SQD @ gradient_D)[..., None], clients, axis=-1)  # every client reports the same
    step_SD = (rho_SQN.mean(axis=-1)[..., None] * v_SQD).mean(axis=1)  # eq. (2), all blocks, eta = 1
    trace = np.square(step_SD).sum(axis=1).mean()
    assert trace == pytest.approx(mean_square_estimate(gradient_D, Q, math.sqrt(d)), rel=0.02)
    ratio = lemma_3_trace(gradient_D, clients) / trace
    assert ratio == pytest.approx(clients * d / ((d + Q - 1) / Q), rel=0.02)  # N at Q = 1, more with more directions


def test_the_bias_vanishes_at_full_activation_and_each_step_of_the_proof_only_adds():
    rng = np.random.default_rng(2)
    gradient_NMK = rng.normal(size=(5, 3, 4))
    full = bias_terms(np.ones((3, 5), bool), gradient_NMK)
    assert full.exact == pytest.approx(0, abs=1e-12)
    apart_N = np.square(gradient_NMK - gradient_NMK.mean(axis=0)).sum(axis=(1, 2))
    assert full.after_jensen == pytest.approx(apart_N.mean())
    assert full.charged == pytest.approx(apart_N.max())  # N Lambda = 1
    for _ in range(50):
        A_MN = rng.random((3, 5)) < 0.5
        if not (A_MN.any(axis=0).all() and A_MN.any(axis=1).all()):
            continue
        terms = bias_terms(A_MN, gradient_NMK)
        by_hand = 0.0
        for m in range(3):
            held = [n for n in range(5) if A_MN[m, n]]
            by_hand += np.square(gradient_NMK[:, m].mean(axis=0) - gradient_NMK[held, m].mean(axis=0)).sum()
        assert terms.exact == pytest.approx(by_hand)
        assert terms.exact <= terms.after_jensen + 1e-12 <= terms.charged + 1e-9


def test_the_expected_bias_of_independent_clients_is_m_times_v_less_one_over_n():
    rng = np.random.default_rng(3)
    A_MN = np.array([[1, 1, 0, 0], [0, 1, 1, 1], [1, 0, 0, 0]], bool)
    allocation = Allocation(A_MN)
    exact = expected_bias(A_MN)
    assert exact == pytest.approx(3 * (allocation.mean_inverse_popularity - 1 / 4))
    drawn = [bias_terms(A_MN, rng.normal(size=(4, 3, 1))).exact for _ in range(20_000)]
    assert np.mean(drawn) == pytest.approx(exact, rel=0.05)


def test_dropped_blocks_move_the_model_away_from_its_optimum_and_frozen_ones_do_not():
    frozen, dropped = dropped_at_optimum(4, 6)
    assert frozen == pytest.approx(0, abs=1e-12)
    assert dropped > 0.05
    assert dropped_at_optimum(1, 6)[1] == pytest.approx(0, abs=1e-12)  # one block is never dropped


def test_the_constants_of_a_quadratic_are_what_the_bounds_mean_by_them():
    problem = Quadratic(np.array([0.5, 2.0]), np.array([[1.0, 0.0], [-1.0, 0.0]]), noise=0.0)
    assert (problem.smoothness, problem.effective_rank, problem.dissimilarity) == (2.0, 1.25, 0.5)
    assert problem.gradient(np.array([1.0, 1.0])) == pytest.approx([0.5, 2.0])
    assert problem.gap(np.array([1.0, 1.0])) == pytest.approx(1.25)


def test_a_run_on_a_quadratic_converges_where_nothing_is_left_out():
    problem = Quadratic(np.ones(4), np.array([[1.0, 2.0, 3.0, 4.0]] * 2), noise=0.0)
    squares = problem.squared_gradients(np.ones((2, 2), bool), 0.05, 400, 4, seed=0)
    assert squares[0] == pytest.approx(30.0)
    assert squares[-1] < 1e-6

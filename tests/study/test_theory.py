"""Theorems 1 and 2 as numbers, and where their statements and proofs part."""

from __future__ import annotations

import dataclasses

import pytest

from zorba_core.errors import InvalidInputError
from zorba_core.study.theory import (
    Constants,
    largest_lr_theorem_1,
    largest_lr_theorem_2,
    theorem_1,
    theorem_2,
)

N, D, L, KAPPA = 10, 1000, 2.0, 20.0


def constants(lr: float, **changes) -> Constants:
    base = Constants(lr, N, D, L, mu=1e-4, sigma=1.5, sigma_global=0.7, num_perturbations=4, effective_rank=KAPPA)
    return dataclasses.replace(base, **changes)


BOUNDS = {
    "theorem 1, stated": lambda c: theorem_1(c, "statement"),
    "theorem 1, proven": lambda c: theorem_1(c, "proof"),
    "theorem 2": theorem_2,
}


@pytest.mark.parametrize("bound_of", BOUNDS.values(), ids=BOUNDS)
@pytest.mark.parametrize("bias_lambda", [0.1, 0.5, 3.0])
def test_lemma_4_is_the_derivative_of_the_bias(bound_of, bias_lambda):
    bound, step = bound_of(constants(1e-7)), 1e-5
    slope = (bound.bias(bias_lambda + step) - bound.bias(bias_lambda - step)) / (2 * step)
    assert bound.bias_derivative(bias_lambda) == pytest.approx(slope, rel=1e-6)
    assert slope > 0


def test_theorem_1_by_hand():
    bound = theorem_1(constants(1e-6), "proof")
    half = 1.5 * L * 1e-12 * D * N
    assert bound.denominator(0.5) == pytest.approx(5e-7 - half * 0.5)
    error = 0.25 * 1e-8 * L**2 * 1e-6 * 1003**3 * N
    assert bound.theta == pytest.approx(error + (1e-6 * N + half) * 0.49 + half * 2.25)


def test_theorem_2_by_hand():
    bound = theorem_2(constants(1e-6))
    step = D * 1e-12 * L * 22 / (2 * 1002)
    assert bound.denominator(0.5) == pytest.approx(5e-7 - step * N * 0.5)
    assert bound.theta == pytest.approx(1e-6 * N * (0.49 + 0.25e-8 * 4 * 1003**3) + step * 2.25)


def test_variance_factor_is_d_over_q_stated_and_d_proven():
    stated, proven = (theorem_1(constants(1e-6), version).slope for version in ("statement", "proof"))
    assert proven / stated == pytest.approx(D * 4 / (D + 3))
    one = constants(1e-6, num_perturbations=1)
    assert theorem_1(one, "statement") == theorem_1(one, "proof")


def test_at_the_proven_rates_the_denominator_vanishes_at_the_worst_lambda():
    first = theorem_1(constants(largest_lr_theorem_1(N, D, L, "proof")), "proof")
    assert first.denominator(N) == pytest.approx(0, abs=1e-18)
    second = theorem_2(constants(largest_lr_theorem_2(N, D, L, KAPPA, "proof")))
    assert second.denominator(N) == pytest.approx(0, abs=1e-16)


def test_at_theorem_1s_stated_rate_omega_can_be_negative_and_the_bound_says_nothing():
    rate = largest_lr_theorem_1(N, D, L, "statement")
    bound = theorem_1(constants(rate, num_perturbations=1), "statement")
    assert rate == pytest.approx(1.5 * largest_lr_theorem_1(N, D, L, "proof"))
    assert bound.denominator(N) < 0
    assert bound.bias(N) == bound.average_gradient(N, 1.0, 10) == float("inf")
    assert bound.denominator(1.0) > 0


def test_theorem_2s_stated_rate_is_half_the_proven_one():
    stated, proven = (largest_lr_theorem_2(N, D, L, KAPPA, version) for version in ("statement", "proof"))
    assert proven == pytest.approx(2 * stated)
    assert theorem_2(constants(stated)).denominator(N) > 0


def test_more_rounds_only_diminish_the_gap_term():
    bound = theorem_2(constants(1e-7))
    few, many = bound.average_gradient(0.5, 2.0, 10), bound.average_gradient(0.5, 2.0, 10**9)
    assert few > many > bound.bias(0.5)
    assert many == pytest.approx(bound.bias(0.5), rel=1e-2)


@pytest.mark.parametrize("change", [{"lr": 0}, {"mu": -1}, {"smoothness": float("nan")}, {"sigma": float("inf")}])
def test_constants_out_of_range_are_refused(change):
    with pytest.raises(InvalidInputError, match=next(iter(change))):
        dataclasses.replace(constants(1e-6), **change)


def test_unknown_version_and_lambda_of_zero_are_refused():
    with pytest.raises(InvalidInputError, match="version"):
        theorem_1(constants(1e-6), "draft")
    with pytest.raises(InvalidInputError, match="Lambda"):
        theorem_2(constants(1e-6)).denominator(0)


@pytest.mark.parametrize("bound_of", BOUNDS.values(), ids=BOUNDS)
def test_the_terms_add_up_to_the_bound_and_rounds_diminish_only_the_first(bound_of):
    bound = bound_of(constants(1e-7))
    early, late = bound.terms(0.5, 2.0, 10), bound.terms(0.5, 2.0, 1000)
    assert early.total == pytest.approx(bound.average_gradient(0.5, 2.0, 10))
    assert early.total - early.start == pytest.approx(bound.bias(0.5))
    assert late.start == pytest.approx(early.start / 100)
    assert (late.estimate, late.dissimilarity, late.variance) == (early.estimate, early.dissimilarity, early.variance)


@pytest.mark.parametrize(
    ("source", "term"), [("mu", "estimate"), ("sigma_global", "dissimilarity"), ("sigma", "variance")]
)
@pytest.mark.parametrize("bound_of", BOUNDS.values(), ids=BOUNDS)
def test_each_bias_term_vanishes_with_its_source_and_leaves_the_others_alone(bound_of, source, term):
    full = bound_of(constants(1e-7)).terms(0.5, 2.0, 10)
    without = bound_of(constants(1e-7, **{source: 0.0})).terms(0.5, 2.0, 10)
    assert dataclasses.replace(full, **{term: 0.0}) == without


@pytest.mark.parametrize("bound_of", BOUNDS.values(), ids=BOUNDS)
def test_the_bound_is_finite_exactly_below_the_largest_lambda(bound_of):
    bound = bound_of(constants(2e-6))
    assert bound.average_gradient(0.999 * bound.largest_lambda, 2.0, 10) < float("inf")
    assert bound.average_gradient(1.001 * bound.largest_lambda, 2.0, 10) == float("inf")

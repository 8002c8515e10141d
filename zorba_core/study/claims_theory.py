"""What mathematics decides: the estimator, the lemmas, the bounds and their bias term. Each function returns the
outcome of the claim that names it, computed on a small problem; none needs a run."""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np

from zorba_core.allocation import Problem, solve
from zorba_core.allocation.measures import Allocation, bias_lambda
from zorba_core.study.outcome import Outcome, Verdict, claim, decided
from zorba_core.study.theory import (
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
from zorba_core.study.toy import counter_example, lettered_classes

PAPER_LR, PAPER_MU, PAPER_ROUNDS, PAPER_D = 5e-5, 1e-4, 500, 125e6
_WEIGHT = 0.02  # a usual size of a weight of a language model


def printed_step() -> Outcome:
    """A step of the printed setting beside float32's spacing at a usual weight, and what 500 exact ones would do."""
    step = PAPER_LR / PAPER_D  # eta <g, v> v_i with |v| = 1 and |g| = 1: both factors are about 1 / sqrt(d)
    half_spacing = float(np.spacing(np.float32(_WEIGHT))) / 2
    decrease = PAPER_ROUNDS * PAPER_LR / PAPER_D
    return decided(
        step > half_spacing,
        f"a step moves a weight by about {step:.0e} times the gradient's norm; float32 rounds away what is below "
        f"{half_spacing:.0e}. In exact arithmetic {PAPER_ROUNDS} rounds lower the loss by {decrease:.0e} |g|^2",
        f"d = {PAPER_D:.3g}, unit sphere, eta = {PAPER_LR:g}, a weight of {_WEIGHT:g}. Norm sqrt(d) makes the step d "
        "times larger",
    )


def dropped_update() -> Outcome:
    frozen, dropped = dropped_at_optimum(12, 20)
    return decided(
        dropped < 1e-9,
        f"at the optimum of a quadratic with coupled blocks the mean update is {frozen:.2g} of the first gradient with "
        f"frozen blocks, and {dropped:.2f} of it with dropped ones",
        "section II multiplies inactive blocks by 0 (dropped), the proofs evaluate the gradient at the full model "
        "(frozen): the theory is about frozen blocks only",
    )


@claim("eq-2/average", "II, eq. (2)", "The update needs one average a direction.")
def one_average() -> Outcome:
    A_MN = np.asarray(solve(Problem(np.full(50, 4), 12)).allocation.A_MN)
    kinds = len(np.unique(A_MN, axis=0))
    return Outcome(
        Verdict.MISPRINT,
        f"the weights a/c depend on the block: with 50 clients of 4 blocks each, a direction has {kinds} different "
        "averages of 12 blocks",
        "the symbol has no index m, though its right side depends on m. The update needs the average of each block",
    )


@claim("seeds/leakage", "I; II", "Exchanging seeds and scalars prevents gradient leakage.")
def leakage(trials: int = 200, candidates: int = 20, directions: int = 10) -> Outcome:
    """Whose row it is, from ten scalars of one row, by whoever knows model and seeds: a logistic model of 50 words."""
    rng = np.random.default_rng(0)
    right = 0
    for _ in range(trials):
        rows_CD, label_C = rng.normal(size=(candidates, 50)), rng.integers(2, size=candidates)
        w_D, v_QD = rng.normal(size=50), rng.normal(size=(directions, 50))
        v_QD /= np.linalg.norm(v_QD, axis=1, keepdims=True)

        def losses(w_D: np.ndarray, rows_CD: np.ndarray = rows_CD, sign_C: np.ndarray = 1 - 2 * label_C) -> np.ndarray:
            return np.logaddexp(0, sign_C * (rows_CD @ w_D))

        rho_CQ = np.array([(losses(w_D + PAPER_MU * v_D) - losses(w_D)) / PAPER_MU for v_D in v_QD]).T
        sent_Q = rho_CQ[0] + 1e-3 * rng.normal(size=directions)  # of the true row, with rounding on the way
        right += int(np.abs(rho_CQ - sent_Q).sum(axis=1).argmin() == 0)
    return decided(
        right <= 2 * trials / candidates,
        f"ten scalars of a batch of one row name the true row among {candidates} in {right} of {trials} trials",
        "by an observer who knows the model and the seeds, as the server does. Larger batches hide more; shared seeds "
        "alone prevent nothing",
    )


@claim("lemma-1", "Lemma 1", "The estimate is within mu L (d + 3)^1.5 / 2 of the gradient.")
def lemma_1(d: int = 40, mu: float = PAPER_MU) -> Outcome:
    gradient_D = np.random.default_rng(0).normal(size=d)
    start_D, size = np.zeros(d), float(np.linalg.norm(gradient_D))
    unit, long = (
        float(np.linalg.norm(mean_estimate(lambda w: 0.5 * w @ w + gradient_D @ w, start_D, mu, length) - gradient_D))
        for length in (1.0, math.sqrt(d))
    )
    bound = 0.5 * mu * (d + 3) ** 1.5
    return decided(
        unit <= bound,
        f"unit vectors: distance {unit / size:.3f} |gradient|, whatever mu is (bound {bound / size:.4f}); norm "
        f"sqrt(d): {round(long / size, 9):g}",
        f"the estimate tends to gradient / d. Exact, on a quadratic with d = {d}, L = 1, mu = {mu:g}",
    )


@claim("lemma-2", "Lemma 2", "The estimate's mean square is (d + Q - 1)/Q times the gradient's.")
def lemma_2(d: int = 40, directions: int = 5) -> Outcome:
    gradient_D = np.ones(d) / math.sqrt(d)
    stated = (d + directions - 1) / directions
    unit, long = (mean_square_estimate(gradient_D, directions, length) for length in (1.0, math.sqrt(d)))
    return decided(
        math.isclose(unit, stated),
        f"{unit:.4f} with unit vectors, {long:.2f} with norm sqrt(d); the lemma says {stated:.2f}",
        f"squared norm of the estimate over that of the gradient; d = {d}, Q = {directions}; exact",
    )


@claim("lemma-3", "Lemma 3", "The outer product of a round's step has a factor N and no Q.")
def lemma_3(d: int = 5, num_clients: int = 4) -> Outcome:
    gradient_D = np.ones(d) / math.sqrt(d)
    one, ten = (mean_square_estimate(gradient_D, directions, math.sqrt(d)) for directions in (1, 10))
    printed = lemma_3_trace(gradient_D, num_clients)
    return decided(
        math.isclose(one, printed),
        f"{num_clients} identical clients that activate all blocks: trace {one:.2f} at Q = 1 and {ten:.2f} at Q = 10; "
        f"the lemma says {printed:.2f} for both",
        f"too large by N, and without Q. d = {d}, |gradient| = eta = 1, no mini-batch noise, norm sqrt(d); exact",
    )


@claim("theorem-1/rate", "Theorem 1", "eta <= 1/(2LdN^2) is small enough, with the variance factor (d + Q - 1)/Q.")
def theorem_1_rate(d: int = 1000, num_clients: int = 50) -> Outcome:
    lr = largest_lr_theorem_1(num_clients, d, 1.0)
    omega = theorem_1(Constants(lr, num_clients, d, 1.0, 0.0, 1.0, 1.0)).denominator(num_clients)
    proven = largest_lr_theorem_1(num_clients, d, 1.0, "proof")
    return decided(
        omega >= 0,
        f"at the stated rate 1/(2LdN^2) with Q = 1 and Lambda = N, Omega = {omega:.2g}: the bound is negative. The "
        f"proof has 1/(3LdN^2), {lr / proven:.2g} times smaller",
        "the proof's variance factor is d, the statement's is (d + Q - 1)/Q; at Q = 2 or more the stated pair goes "
        f"together. d = {d}, N = {num_clients}, L = 1",
    )


@claim("theorem-1/gap", "Theorem 1, eq. (3)", "The first term, with a sum over t, falls with T.")
def theorem_1_gap() -> Outcome:
    first, last = (sum(1.0 for _ in range(rounds)) / rounds for rounds in (1, 1000))
    return Outcome(
        Verdict.MISPRINT,
        f"(1/T) sum_t (f(w1) - f(w*)) is {first:g} times the gap at T = 1 and {last:g} times at T = 1000",
        "the statement keeps a sum that the proof has telescoped; the proof's gap / (Omega T) does fall with T",
    )


@cache
def _against_bound(theorem: int) -> tuple[float, float, float]:
    """(squared gradient before the first round, its average over 400 rounds and 20 runs, the theorem's bound on the
    average), at half of the largest rate that the proof allows; 24 parameters in 4 blocks, 6 clients."""
    rng = np.random.default_rng(0)
    problem = Quadratic(np.linspace(0.1, 1.0, 24), rng.normal(size=(6, 24)), noise=0.5)
    A_MN = np.asarray(solve(Problem(np.full(6, 2), 4)).allocation.A_MN)
    size, clients, L, kappa = 24, 6, problem.smoothness, problem.effective_rank
    largest = (
        largest_lr_theorem_1(clients, size, L, "proof")
        if theorem == 1
        else largest_lr_theorem_2(clients, size, L, kappa, "proof")
    )
    lr, rounds, Q = largest / 2, 400, 5
    constants = Constants(lr, clients, size, L, 0.0, problem.noise, problem.dissimilarity, Q, kappa)
    bound = theorem_1(constants, "proof") if theorem == 1 else theorem_2(constants)
    squares_ST = np.array([problem.squared_gradients(A_MN, lr, rounds, Q, seed) for seed in range(20)])
    whole = bound.average_gradient(bias_lambda(A_MN), problem.gap(np.zeros(size)), rounds)
    return float(squares_ST[:, 0].mean()), float(squares_ST.mean()), whole


def _bound_outcome(theorem: int) -> Outcome:
    still, average, bound = _against_bound(theorem)
    return decided(
        average <= bound,
        f"average squared gradient {average:.3g}, bound {bound:.3g}; a run that never moves has {still:.3g}",
        "holds, and is empty: staying at the start satisfies it too. 20 runs of 400 rounds on a quadratic of which "
        "every constant is known, norm sqrt(d), half of the proof's largest rate",
    )


@claim("theorem-1/bound", "Theorem 1, proof", "The average squared gradient stays below the bound.")
def theorem_1_bound() -> Outcome:
    return _bound_outcome(1)


@claim("theorem-2/bound", "Theorem 2", "The average squared gradient stays below the bound.")
def theorem_2_bound() -> Outcome:
    return _bound_outcome(2)


@claim("theorem-2/dimension", "Theorem 2", "The bound does not depend on d.")
def theorem_2_dimension() -> Outcome:
    least = math.sqrt(4 / (PAPER_D + 3) ** 3)
    term = 0.25 * PAPER_MU**2 * (PAPER_D + 3) ** 3
    return decided(
        term <= 1,
        f"the bias term keeps mu^2 L^2 (d + 3)^3 / 4 = {term:.1e} L^2 at d = {PAPER_D:.3g} and the paper's mu; it is "
        f"below L^2 only for mu < {least:.0e}",
        "the learning rate is free of d, the bound is not",
    )


@claim("lambda/bias", "Theorem 1, proof, T3", "Clients whose data differ bias the update by N Lambda sigma_G^2.")
def bias_at_full_activation(num_blocks: int = 3, num_clients: int = 6) -> Outcome:
    gradient_NMK = np.random.default_rng(0).normal(size=(num_clients, num_blocks, 4))
    terms = bias_terms(np.ones((num_blocks, num_clients), bool), gradient_NMK)
    apart_NMK = gradient_NMK - gradient_NMK.mean(axis=0)
    sigma_square = float(np.square(apart_NMK).sum(axis=(1, 2)).max())
    return decided(
        terms.exact > 1e-12,
        f"with every block on every client the exact bias is {terms.exact:.0f} (to 1e-12); the bound charges N Lambda "
        f"sigma_G^2 = {terms.charged / sigma_square:.2g} sigma_G^2",
        f"the charge comes from Jensen's step (b) of T3 alone: it turns 0 into {terms.after_jensen:.3g}. "
        f"{num_clients} clients with random gradients",
    )


@claim("lambda/identity", "Lemma 4; Remark 1", "Reducing the bias is minimising Lambda, whatever the constants are.")
def bias_identity() -> Outcome:
    matrices = [each.representative for each in lettered_classes().values()]
    exact = sum(
        math.isclose(
            expected_bias(one.A_MN), one.num_blocks * (one.mean_inverse_popularity - 1 / one.num_clients), abs_tol=1e-9
        )
        for one in matrices
    )
    flat, hub = counter_example()
    return decided(
        not (hub.bias_lambda < flat.bias_lambda and expected_bias(hub.A_MN) > expected_bias(flat.A_MN)),
        f"without that step the bias is sum (w_mn - 1/N)^2 = M (V - 1/N), as {exact} of {len(matrices)} classes of the "
        f"toy have it. Of two matrices with Lambda {hub.bias_lambda:.3f} and {flat.bias_lambda:.3f} the "
        f"first has the larger bias, {expected_bias(hub.A_MN):.2f} against {expected_bias(flat.A_MN):.2f}",
        "V = mean of 1/c_m. Clients whose gradients differ independently; so the theory's own bias does not rank by "
        "Lambda",
    )


@claim("lemma-4", "Lemma 4", "The bias term of the bound rises with Lambda.")
def lemma_4() -> Outcome:
    constants = Constants(
        largest_lr_theorem_2(50, 1_000_000, 1.0, 20.0), 50, 1_000_000, 1.0, 1e-4, 1.0, 1.0, effective_rank=20.0
    )
    bound = theorem_2(constants)
    rising = bool(np.all(np.diff([bound.bias(value) for value in np.geomspace(1 / 50, 50, 400)]) > 0))
    return decided(
        rising,
        "rises over all of [1/N, N]" if rising else "falls somewhere in [1/N, N]",
        "a statement about the bound, not about training",
    )


@claim("lemma-5", "Lemma 5", "If the least popularities of A are majorised by those of A', Lambda(A) < Lambda(A').")
def lemma_5() -> Outcome:
    vectors = [np.array(v[::-1]) for v in itertools.combinations_with_replacement(range(1, 7), 5)]
    pairs, ordered, wrong = 0, 0, 0
    for x, y in itertools.combinations(vectors, 2):
        pairs += 1
        if x.sum() != y.sum():
            continue
        ahead = np.cumsum(y) - np.cumsum(x)
        if (ahead >= 0).all() or (ahead <= 0).all():
            ordered += 1
            even, uneven = (x, y) if (ahead >= 0).all() else (y, x)
            wrong += not np.sum(1.0 / even**2) < np.sum(1.0 / uneven**2)
    return decided(
        not wrong,
        f"right in {ordered - wrong} of {ordered} pairs that it orders, {ordered / pairs:.0%} of all {pairs}",
        "majorisation needs equal sums, which allocations seldom have, so Theorem 3 does not follow. Vectors of five "
        "least popularities from 1 to 6",
    )


@claim("proposition-1/lambda", "Proposition 1", "Lambda depends on the multiset of least popularities alone.")
def proposition_1() -> Outcome:
    rng = np.random.default_rng(0)
    A_MN = rng.random((12, 20)) < 0.4
    A_MN[:, ~A_MN.any(axis=0)] = True
    shuffled = Allocation(A_MN[rng.permutation(12)][:, rng.permutation(20)])
    same = math.isclose(bias_lambda(A_MN), shuffled.bias_lambda)
    return decided(same, "follows from the definition; the same after permuting blocks and clients")


@claim(
    "not-testable",
    "IV; Table I; Fig. 1, 3, 4",
    "P1 is NP-hard; costs in O(.); 24 round counts of OPT-125M and OPT-1.3B; numbers in figures.",
)
def not_testable() -> Outcome:
    return Outcome(
        Verdict.UNDECIDED,
        "not tested",
        "NP-hardness is stated without a proof or a citation, and a few sizes decide no O(.). Round counts need OPT's "
        "weights and the authors' splits, prompts and seeds. The figures' numbers are not in the text",
    )

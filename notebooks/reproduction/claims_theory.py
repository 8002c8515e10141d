"""Claims that mathematics decides: the estimator, the lemmas, the bounds and their bias term. None needs a run."""

from __future__ import annotations

import itertools
import math

import numpy as np

from notebooks.reproduction import theory
from notebooks.reproduction.outcome import Decision, Verdict, claim
from notebooks.reproduction.toy import counter_example, lettered_classes
from zorba_core.allocation import Problem, solve
from zorba_core.allocation.measures import Allocation, bias_lambda

PAPER_LR, PAPER_MU, PAPER_ROUNDS, PAPER_D = 5e-5, 1e-4, 500, 125e6
_WEIGHT = 0.02  # a typical weight of a language model


def printed_step() -> Decision:
    """Compare the step eta <g, v> v_i of one weight with half of float32's spacing at a typical weight. For |v| = |g| =
    1 both factors are about 1 / sqrt(d)."""
    step = PAPER_LR / PAPER_D
    half_spacing = float(np.spacing(np.float32(_WEIGHT))) / 2
    return step > half_spacing, (
        f"a weight moves by {step:.0e} times the gradient's norm, and float32 loses steps below {half_spacing:.0e}; "
        f"exactly, {PAPER_ROUNDS} rounds lower the loss by {PAPER_ROUNDS * step:.0e} |g|^2"
    )


def dropped_update() -> Decision:
    """The update at the optimum of a quadratic with coupled blocks. 20 clients train half of the 12 blocks each."""
    frozen, dropped = theory.dropped_at_optimum(12, 20)
    return dropped < 1e-9, (
        f"at the optimum of a quadratic the mean update is {frozen:.2g} first gradients with frozen blocks, "
        f"{dropped:.2f} with dropped ones"
    )


@claim("eq-2/average", "II, eq. (2)", "The update needs one average for each direction.", fails=Verdict.MISPRINT)
def one_average() -> Decision:
    """The symbol has no index m, but the weights a/c of its right side differ between blocks. The update needs an
    average for each block. 50 clients train 4 blocks each."""
    A_MN = np.asarray(solve(Problem(np.full(50, 4), 12)).allocation.A_MN)
    kinds = len(np.unique(A_MN, axis=0))
    return kinds == 1, f"a direction has {kinds} different averages: 12 blocks have {kinds} different sets of clients"


@claim("seeds/leakage", "I; II", "Exchanging seeds and scalars prevents gradient leakage.")
def leakage(trials: int = 200, candidates: int = 20, directions: int = 10) -> Decision:
    """The observer has the model and the seeds, as the server does; the model is logistic, of 50 words. Larger batches
    hide more. Shared seeds alone prevent nothing."""
    rng = np.random.default_rng(0)
    right = 0
    for _ in range(trials):
        rows_CD, label_C = rng.normal(size=(candidates, 50)), rng.integers(2, size=candidates)
        w_D, v_QD = rng.normal(size=50), rng.normal(size=(directions, 50))
        v_QD /= np.linalg.norm(v_QD, axis=1, keepdims=True)
        w_QD = w_D + PAPER_MU * v_QD
        at_w_CQ, moved_CQ = (np.logaddexp(0, (1 - 2 * label_C)[:, None] * (rows_CD @ w.T)) for w in (w_D[None], w_QD))
        rho_CQ = (moved_CQ - at_w_CQ) / PAPER_MU
        sent_Q = rho_CQ[0] + 1e-3 * rng.normal(size=directions)  # of the true row, with rounding on the way
        right += int(np.abs(rho_CQ - sent_Q).sum(axis=1).argmin() == 0)
    text = f"ten scalars of a batch of one row identify it among {candidates} rows in {right} of {trials} trials"
    return right <= 2 * trials / candidates, text


# --- the lemmas ------------------------------------------------------------------------------------------


@claim("lemma-1", "Lemma 1", "The estimate is within mu L (d + 3)^1.5 / 2 of the gradient.")
def lemma_1(d: int = 40) -> Decision:
    """With unit vectors the estimate tends to gradient / d. Exact, on a quadratic with d = 40, L = 1, mu = 1e-4."""
    gradient_D = np.random.default_rng(0).normal(size=d)
    size, bound = float(np.linalg.norm(gradient_D)), 0.5 * PAPER_MU * (d + 3) ** 1.5
    estimates = (
        theory.mean_estimate(lambda w: 0.5 * w @ w + gradient_D @ w, np.zeros(d), PAPER_MU, length)
        for length in (1.0, math.sqrt(d))
    )
    unit, long = (float(np.linalg.norm(estimate_D - gradient_D)) for estimate_D in estimates)
    return unit <= bound, (
        f"distance over |gradient|: {unit / size:.3f} with unit vectors, whatever mu is, and "
        f"{round(long / size, 9):g} with norm sqrt(d) (bound {bound / size:.4f})"
    )


@claim("lemma-2", "Lemma 2", "The estimate's mean square is (d + Q - 1)/Q times the gradient's.")
def lemma_2(d: int = 40, directions: int = 5) -> Decision:
    """The mean squared norm of the estimate over that of the gradient; exact, for d = 40 and Q = 5."""
    gradient_D = np.ones(d) / math.sqrt(d)
    stated = (d + directions - 1) / directions
    unit, long = (theory.mean_square_estimate(gradient_D, directions, length) for length in (1.0, math.sqrt(d)))
    text = f"{unit:.4f} with unit vectors, {long:.2f} with norm sqrt(d); the lemma says {stated:.2f}"
    return math.isclose(unit, stated), text


@claim("lemma-3", "Lemma 3", "The outer product of a round's step has a factor N and no Q.")
def lemma_3(d: int = 5, num_clients: int = 4) -> Decision:
    """The printed trace is too large by N and does not depend on Q. Exact, for 4 identical clients that activate all
    blocks: d = 5, |gradient| = eta = 1, no mini-batch noise, norm sqrt(d)."""
    gradient_D = np.ones(d) / math.sqrt(d)
    one, ten = (theory.mean_square_estimate(gradient_D, directions, math.sqrt(d)) for directions in (1, 10))
    printed = theory.lemma_3_trace(gradient_D, num_clients)
    return math.isclose(one, printed), (
        f"{num_clients} identical clients have trace {one:.2f} at Q = 1 and {ten:.2f} at Q = 10; the lemma says "
        f"{printed:.2f} for both"
    )


@claim("lemma-4", "Lemma 4", "The bias term of the bound rises with Lambda.")
def lemma_4(d: int = 1_000_000) -> Decision:
    """This is a statement about the bound, not about training."""
    lr = theory.largest_lr_theorem_2(50, d, 1.0, 20.0, stated=True)
    bound = theory.theorem_2(theory.Constants(lr, 50, d, 1.0, PAPER_MU, 1.0, 1.0, effective_rank=20.0))
    rises = np.diff([bound.bias(value) for value in np.geomspace(1 / 50, 50, 400)]) > 0
    return bool(rises.all()), f"rises at {rises.sum()} of {len(rises)} steps over [1/N, N]"


@claim("lemma-5", "Lemma 5", "If the least popularities of A are majorised by those of A', Lambda(A) < Lambda(A').")
def lemma_5() -> Decision:
    """Majorisation needs equal sums, which allocations seldom have, so Theorem 3 does not follow. Checked on all
    vectors of five least popularities from 1 to 6."""
    vectors = [np.array(v[::-1]) for v in itertools.combinations_with_replacement(range(1, 7), 5)]
    pairs = list(itertools.combinations(vectors, 2))
    ordered, right = 0, 0
    for x, y in pairs:
        ahead = np.cumsum(y) - np.cumsum(x)
        if ahead[-1] == 0 and ((ahead >= 0).all() or (ahead <= 0).all()):
            even, uneven = (x, y) if (ahead >= 0).all() else (y, x)
            ordered += 1
            right += np.sum(1.0 / even**2) < np.sum(1.0 / uneven**2)
    text = f"true for {right} of the {ordered} pairs with this order, {ordered / len(pairs):.0%} of all {len(pairs)}"
    return right == ordered, text


# --- the theorems ----------------------------------------------------------------------------------------


@claim("theorem-1/rate", "Theorem 1", "eta <= 1/(2LdN^2) is small enough, with the variance factor (d + Q - 1)/Q.")
def theorem_1_rate(d: int = 1000, num_clients: int = 50) -> Decision:
    """The variance factor is d in the proof and (d + Q - 1)/Q in the statement. From Q = 2 the stated rate suits the
    stated factor. d = 1000, N = 50, L = 1."""
    stated, proven = (theory.largest_lr_theorem_1(num_clients, d, 1.0, stated=which) for which in (True, False))
    constants = theory.Constants(stated, num_clients, d, 1.0, 0.0, 1.0, 1.0)
    omega = theory.theorem_1(constants, stated=True).denominator(num_clients)
    return omega >= 0, (
        f"at the stated rate, Q = 1 and Lambda = N, Omega = {omega:.2g}: the bound is negative. The proof's 1/(3LdN^2) "
        f"is {stated / proven:.2g} times smaller"
    )


@claim(
    "theorem-1/gap", "Theorem 1, eq. (3)", "The first term, with a sum over t, falls with T.", fails=Verdict.MISPRINT
)
def theorem_1_gap() -> Decision:
    """The statement keeps a sum that telescopes in the proof. The proof's gap / (Omega T) does fall with T."""
    first, last = (sum(1.0 for _ in range(rounds)) / rounds for rounds in (1, 1000))
    text = f"(1/T) sum_t (f(w1) - f(w*)) is {first:g} times the gap at T = 1 and {last:g} times at T = 1000"
    return last < first, text


@claim("theorem-2/bound", "Theorem 2", "The average squared gradient stays below the bound.", theorem=2)
@claim("theorem-1/bound", "Theorem 1, proof", "The average squared gradient stays below the bound.", theorem=1)
def average_gradient(theorem: int, rounds: int = 400, directions: int = 5) -> Decision:
    """The bound holds, but a run that never moves satisfies it too. 20 runs of 400 rounds on a quadratic with known
    constants: 24 parameters in 4 blocks, 6 clients, norm sqrt(d), half of the proof's largest rate."""
    rng = np.random.default_rng(0)
    d, clients = 24, 6
    problem = theory.Quadratic(np.linspace(0.1, 1.0, d), rng.normal(size=(clients, d)), noise=0.5)
    A_MN = np.asarray(solve(Problem(np.full(clients, 2), 4)).allocation.A_MN)
    L, kappa = problem.smoothness, problem.effective_rank
    largest = (
        theory.largest_lr_theorem_1(clients, d, L, stated=False)
        if theorem == 1
        else theory.largest_lr_theorem_2(clients, d, L, kappa, stated=False)
    )
    lr = largest / 2
    constants = theory.Constants(lr, clients, d, L, 0.0, problem.noise, problem.dissimilarity, directions, kappa)
    bound = theory.theorem_1(constants, stated=False) if theorem == 1 else theory.theorem_2(constants)
    squares_ST = np.array([problem.squared_gradients(A_MN, lr, rounds, directions, seed) for seed in range(20)])
    whole = bound.average_gradient(bias_lambda(A_MN), problem.gap(np.zeros(d)), rounds)
    return squares_ST.mean() <= whole, (
        f"average squared gradient {squares_ST.mean():.3g}, bound {whole:.3g}; a run that never moves has "
        f"{squares_ST[:, 0].mean():.3g}"
    )


@claim("theorem-2/dimension", "Theorem 2", "The bound does not depend on d.")
def theorem_2_dimension() -> Decision:
    """The learning rate hardly depends on d, but the bound does. Computed at the paper's d and mu."""
    term, least = 0.25 * PAPER_MU**2 * (PAPER_D + 3) ** 3, math.sqrt(4 / (PAPER_D + 3) ** 3)
    text = f"the bias term keeps mu^2 L^2 (d + 3)^3 / 4 = {term:.1e} L^2; it is below L^2 only for mu < {least:.0e}"
    return term <= 1, text


# --- Lambda ----------------------------------------------------------------------------------------------


@claim("lambda/bias", "Theorem 1, proof, T3", "Clients whose data differ bias the update by N Lambda sigma_G^2.")
def bias_at_full_activation(num_blocks: int = 3, num_clients: int = 6) -> Decision:
    """The term comes only from Jensen's inequality, step (b) of T3. 6 clients with random gradients."""
    gradient_NMK = np.random.default_rng(0).normal(size=(num_clients, num_blocks, 4))
    terms = theory.bias_terms(np.ones((num_blocks, num_clients), bool), gradient_NMK)
    sigma_square = float(np.square(gradient_NMK - gradient_NMK.mean(axis=0)).sum(axis=(1, 2)).max())
    return terms.exact > 1e-12, (
        f"with every block on every client the exact bias is {terms.exact:.0f} (to 1e-12); the bound charges N Lambda "
        f"sigma_G^2 = {terms.charged / sigma_square:.2g} sigma_G^2"
    )


@claim("lambda/identity", "Lemma 4; Remark 1", "To reduce the bias is to minimise Lambda, whatever the constants are.")
def bias_identity() -> Decision:
    """If the clients' gradients differ independently, the bias before Jensen's step is sum (w_mn - 1/N)^2 =
    M (V - 1/N), with V the mean of 1/c_m. It does not rank allocations as Lambda does."""
    matrices = [each.representative for each in lettered_classes().values()]
    by_v = [A.num_blocks * (A.mean_inverse_popularity - 1 / A.num_clients) for A in matrices]
    exact = int(np.isclose([theory.expected_bias(A.A_MN) for A in matrices], by_v, atol=1e-9).sum())
    flat, hub = counter_example()
    bias_flat, bias_hub = theory.expected_bias(flat.A_MN), theory.expected_bias(hub.A_MN)
    return not (hub.bias_lambda < flat.bias_lambda and bias_hub > bias_flat), (
        f"the exact bias is M (V - 1/N) in {exact} of {len(matrices)} classes; Lambda {hub.bias_lambda:.3f} has bias "
        f"{bias_hub:.2f}, Lambda {flat.bias_lambda:.3f} has {bias_flat:.2f}"
    )


@claim("proposition-1/lambda", "Proposition 1", "Lambda depends on the multiset of least popularities alone.")
def proposition_1() -> Decision:
    """This follows from the definition."""
    rng = np.random.default_rng(0)
    A_MN = rng.random((12, 20)) < 0.4
    A_MN[:, ~A_MN.any(axis=0)] = True
    shuffled = Allocation(A_MN[rng.permutation(12)][:, rng.permutation(20)])
    before, after = bias_lambda(A_MN), shuffled.bias_lambda
    return math.isclose(before, after), f"{before:.3f} before and {after:.3f} after permuting blocks and clients"


@claim(
    "not-testable",
    "IV; Table I; Fig. 1, 3, 4",
    "P1 is NP-hard; costs in O(.); 24 round counts of OPT-125M and OPT-1.3B; numbers in figures.",
)
def not_testable() -> Decision:
    """The paper states NP-hardness without a proof or a citation. A few sizes decide no O(.). Round counts need OPT's
    weights and the authors' splits, prompts and seeds. The text does not contain the figures' numbers."""
    return Verdict.UNDECIDED, "not tested"

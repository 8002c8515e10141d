"""The paper's convergence theory in numbers: Theorems 1 and 2, and small problems to check each step on.

Theorems 1 and 2 bound (1/T) sum_t ||grad f(w_t)||^2 by ``gap / (D T) + (Theta / D) Lambda``, with D = Omega or Phi. The
statements and the proofs (appendix) disagree in three places; ``stated`` selects the statement:

* Theorem 1's variance factor: ``(d + Q - 1)/Q`` stated (Lemma 2), ``d`` in the proof;
* Theorem 1's learning rate: 1/(2 L d N^2) stated, 1/(3 L d N^2) proven. Omega > 0 for every Lambda <= N needs
  eta < Q/(3 L (d + Q - 1) N^2): with Q = 1 the stated rate lies 1.5 times above it, and Omega can be negative;
* Theorem 2's learning rate: half of the proof's (d + 2)/(L d N^2 (kappa + 2)) stated.

Shapes: M blocks, N clients, Q directions, d (``D`` in suffixes) parameters, P points of a design. ``smoothness`` is L,
``bias_lambda`` Lambda in [1/N, N].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zorba_core.allocation.measures import bias_lambda as lambda_of

Loss = Callable[[NDArray], float]


@dataclass(frozen=True)
class Constants:
    """Constants of the bounds, with the sigmas of Assumptions 2 and 3."""

    lr: float  # eta
    num_clients: int  # N
    num_parameters: int  # d
    smoothness: float  # L
    mu: float  # step of the finite difference
    sigma: float  # standard deviation of a client's stochastic gradient
    sigma_global: float  # sigma_G, largest distance between a client's gradient and the global one
    directions: int = 1  # Q; Theorem 1 as stated
    effective_rank: float = 1.0  # kappa of Condition 1; Theorem 2


@dataclass(frozen=True)
class Bound:
    """D = ``intercept - slope * Lambda`` (Omega or Phi), and Theta."""

    intercept: float  # eta / 2
    slope: float
    theta: float

    def denominator(self, bias_lambda: float) -> float:
        """Omega(Lambda) or Phi(Lambda); the bound is empty unless this is positive."""
        return self.intercept - self.slope * bias_lambda

    def bias(self, bias_lambda: float) -> float:
        """The term that more rounds do not reduce, Theta Lambda / D; infinite if D <= 0. It rises with Lambda (Lemma
        4): its derivative is Theta (eta / 2) / D^2."""
        denominator = self.denominator(bias_lambda)
        return self.theta * bias_lambda / denominator if denominator > 0 else math.inf

    def average_gradient(self, bias_lambda: float, gap: float, num_rounds: float) -> float:
        """The whole bound for ``gap`` = f(w_1) - f(w*) after ``num_rounds``; infinite if D <= 0.

        As in the proof: Theorem 1 prints a sum over t around the gap, its proof has none.
        """
        denominator = self.denominator(bias_lambda)
        return gap / (denominator * num_rounds) + self.bias(bias_lambda) if denominator > 0 else math.inf


def theorem_1(c: Constants, *, stated: bool) -> Bound:
    """Standard bound: Omega = eta/2 - (3/2) L eta^2 v N Lambda, with v = (d + Q - 1)/Q stated or d proven, and

    Theta_1 = mu^2 L^2 eta (d + 3)^3 N / 4 + (eta N + (3/2) L eta^2 v N) sigma_G^2 + (3/2) L eta^2 v N sigma^2.
    """
    factor = (c.num_parameters + c.directions - 1) / c.directions if stated else c.num_parameters
    slope = 1.5 * c.smoothness * c.lr**2 * factor * c.num_clients
    dissimilarity = (c.lr * c.num_clients + slope) * c.sigma_global**2
    return Bound(c.lr / 2, slope, _estimate_error(c) + dissimilarity + slope * c.sigma**2)


def theorem_2(c: Constants) -> Bound:
    """Dimension-free bound: Phi = eta/2 - s N Lambda with s = d eta^2 L (kappa + 2) / (2 (d + 2)), and

    Theta_2 = eta N (sigma_G^2 + mu^2 L^2 (d + 3)^3 / 4) + s sigma^2. Statement and proof agree on both.
    """
    step = c.num_parameters * c.lr**2 * c.smoothness * (c.effective_rank + 2) / (2 * (c.num_parameters + 2))
    dissimilarity = c.lr * c.num_clients * c.sigma_global**2
    return Bound(c.lr / 2, step * c.num_clients, _estimate_error(c) + dissimilarity + step * c.sigma**2)


def largest_lr_theorem_1(num_clients: int, num_parameters: int, smoothness: float, *, stated: bool) -> float:
    """1/(2 L d N^2) as stated, 1/(3 L d N^2) as proven (Omega >= 0 at Lambda = N)."""
    return 1.0 / ((2 if stated else 3) * smoothness * num_parameters * num_clients**2)


def largest_lr_theorem_2(
    num_clients: int, num_parameters: int, smoothness: float, effective_rank: float, *, stated: bool
) -> float:
    """(d + 2)/(2 L d N^2 (kappa + 2)) as stated, twice that as proven (Phi >= 0 at Lambda = N)."""
    proven = (num_parameters + 2) / (smoothness * num_parameters * num_clients**2 * (effective_rank + 2))
    return proven / 2 if stated else proven


def _estimate_error(c: Constants) -> float:
    """mu^2 L^2 eta (d + 3)^3 N / 4, from Lemma 1's distance to the first-order gradient."""
    return 0.25 * c.mu**2 * c.smoothness**2 * c.lr * (c.num_parameters + 3) ** 3 * c.num_clients


# --- the estimator of eq. (1), exactly -------------------------------------------------------------------


def design(num_parameters: int, length: float) -> NDArray[np.float64]:
    """The 2d points +-length e_i, shape (P, d). Their mean of v v' is that of the whole sphere, length^2 / d times the
    identity. So an average over them is exact for a function of at most second order in v."""
    identity_DD = length * np.eye(num_parameters)
    return np.concatenate([identity_DD, -identity_DD])


def mean_estimate(loss: Loss, w_D: NDArray, mu: float, length: float) -> NDArray[np.float64]:
    """E[((F(w + mu v) - F(w)) / mu) v] over directions of ``length``; exact for a loss of at most second order."""
    v_PD = design(w_D.size, length)
    rho_P = np.array([(loss(w_D + mu * v_D) - loss(w_D)) / mu for v_D in v_PD])
    return rho_P @ v_PD / len(v_PD)


def mean_square_estimate(gradient_D: NDArray, directions: int, length: float) -> float:
    """E||(1/Q) sum_q <g, v_q> v_q||^2 for independent directions of ``length`` (mu -> 0): the trace of E[dw dw'] at
    eta = 1 if all clients are equal and activate every block. All v have one length, so second order suffices."""
    v_PD = design(gradient_D.size, length)
    one_PD = (v_PD @ gradient_D)[:, None] * v_PD
    same = float(np.square(one_PD).sum(axis=1).mean())
    cross = float(np.square(one_PD.mean(axis=0)).sum())
    return (same + (directions - 1) * cross) / directions


def lemma_3_trace(gradient_D: NDArray, num_clients: int) -> float:
    """The trace of Lemma 3's printed right side, at eta = 1 and without mini-batch noise (Sigma = 0)."""
    d, square = gradient_D.size, float(gradient_D @ gradient_D)
    return num_clients * square * (1 + (d - 2) / (d + 2) + d * d / (d + 2))


# --- the bias of the aggregate ---------------------------------------------------------------------------


class BiasTerms(NamedTuple):
    """The part of T3 that comes from differences between clients' data, by the steps in the proof of Theorem 1."""

    exact: float  # ||[sum_n w_mn (grad_m f - grad_m f_n)]_m||^2
    after_jensen: float  # N sum_n ||[w_mn (grad_m f - grad_m f_n)]_m||^2, step (b)
    charged: float  # N Lambda sigma_G^2, the term of the bound


def bias_terms(A_MN: NDArray[np.bool_], gradient_NMK: NDArray[np.float64]) -> BiasTerms:
    """Compute the terms. ``gradient_NMK``: client n's gradient of block m, K parameters in each block."""
    num_clients = A_MN.shape[1]
    weight_MN = A_MN / A_MN.sum(axis=1, keepdims=True)
    apart_NMK = gradient_NMK.mean(axis=0) - gradient_NMK
    weighted_NMK = weight_MN.T[:, :, None] * apart_NMK
    sigma_square = float(np.square(apart_NMK).sum(axis=(1, 2)).max())
    return BiasTerms(
        float(np.square(weighted_NMK.sum(axis=0)).sum()),
        num_clients * float(np.square(weighted_NMK).sum()),
        num_clients * lambda_of(A_MN) * sigma_square,
    )


def expected_bias(A_MN: NDArray[np.bool_]) -> float:
    """Expectation of the exact term if the clients' gradients differ from their mean independently, with variance 1 in
    each block: sum_m sum_n (w_mn - 1/N)^2 = M (V - 1/N)."""
    weight_MN = A_MN / A_MN.sum(axis=1, keepdims=True)
    return float(np.square(weight_MN - 1 / A_MN.shape[1]).sum())


def dropped_at_optimum(num_blocks: int, num_clients: int, size: int = 3, seed: int = 0) -> tuple[float, float]:
    """||mean update|| at the optimum over ||gradient|| at w = 0, with inactive blocks frozen and with inactive blocks
    dropped (zero, as in section II's a_mn w_m). All clients have the same quadratic loss with coupled blocks, and each
    activates about half of the blocks."""
    rng = np.random.default_rng(seed)
    d = num_blocks * size
    mixed_DD = rng.normal(size=(d, d))
    hessian_DD, optimum_D = mixed_DD @ mixed_DD.T / d + np.eye(d), rng.normal(size=d)
    held = max(1, num_blocks // 2)
    A_MN = (np.arange(num_blocks)[:, None] - held * np.arange(num_clients)) % num_blocks < held
    weight_DN = np.repeat(A_MN / A_MN.sum(axis=1, keepdims=True), size, axis=0)
    active_DN = np.repeat(A_MN, size, axis=0)

    def update(seen_DN: NDArray) -> float:
        gradient_DN = hessian_DD @ (seen_DN - optimum_D[:, None])
        return float(np.linalg.norm((weight_DN * gradient_DN).sum(axis=1)))

    frozen_DN = np.repeat(optimum_D[:, None], num_clients, axis=1)
    start = float(np.linalg.norm(hessian_DD @ optimum_D))
    return update(frozen_DN) / start, update(active_DN * optimum_D[:, None]) / start


# --- a problem on which the bounds can be checked --------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Quadratic:
    """Clients with losses f_n(w) = (w - b_n)' S (w - b_n) / 2, S diagonal, so every constant of the bounds is known."""

    curvature_D: NDArray[np.float64]  # the diagonal of S, the same for all clients
    optimum_ND: NDArray[np.float64]  # the b_n
    noise: float  # standard deviation of a mini-batch gradient, over all parameters together

    @property
    def smoothness(self) -> float:
        return float(self.curvature_D.max())

    @property
    def effective_rank(self) -> float:
        """kappa of Condition 1: trace over operator norm."""
        return float(self.curvature_D.sum() / self.curvature_D.max())

    @property
    def dissimilarity(self) -> float:
        """sigma_G: the largest distance between a client's gradient and the mean one. It does not depend on w."""
        distance_ND = self.curvature_D * (self.optimum_ND - self.optimum_ND.mean(axis=0))
        return float(np.linalg.norm(distance_ND, axis=1).max())

    def gradient(self, w_D: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.curvature_D * (w_D - self.optimum_ND.mean(axis=0))

    def gap(self, w_D: NDArray[np.float64]) -> float:
        """f(w) - f(w*)."""
        return float(0.5 * (self.curvature_D * np.square(w_D - self.optimum_ND.mean(axis=0))).sum())

    def squared_gradients(
        self, A_MN: NDArray[np.bool_], lr: float, num_rounds: int, directions: int, seed: int
    ) -> NDArray[np.float64]:
        """||grad f(w_t)||^2 of each round of ZorBA from w = 0, shape (T,). The mean is the left side of Theorems 1 and
        2. Directions have norm sqrt(d), and mu -> 0."""
        rng = np.random.default_rng(seed)
        (num_blocks, num_clients), size = A_MN.shape, self.curvature_D.size
        weight_DN = np.repeat(A_MN / A_MN.sum(axis=1, keepdims=True), size // num_blocks, axis=0)
        active_ND = np.repeat(A_MN, size // num_blocks, axis=0).T
        w_D, squares = np.zeros(size), []
        for _ in range(num_rounds):
            squares.append(float(np.square(self.gradient(w_D)).sum()))
            noise_ND = self.noise / np.sqrt(size) * rng.normal(size=(num_clients, size))
            gradient_ND = (self.curvature_D * (w_D - self.optimum_ND) + noise_ND) * active_ND
            v_QD = rng.normal(size=(directions, size))
            v_QD *= np.sqrt(size) / np.linalg.norm(v_QD, axis=1, keepdims=True)
            rho_NQ = gradient_ND @ v_QD.T
            w_D = w_D - lr * (weight_DN * (rho_NQ @ v_QD / directions).T).sum(axis=1)
        return np.array(squares)

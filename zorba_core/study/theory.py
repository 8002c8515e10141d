"""The paper's convergence theory as numbers: Theorems 1 and 2, in the version stated and in the version proven.

Both bound (1/T) sum_t ||grad f(w_t)||^2 by ``gap / (D T) + (Theta / D) Lambda``, with D = Omega or Phi and Lambda the
allocation's. The statements and the proofs (appendix) disagree in three places, so ``version`` names which is meant:

* Theorem 1's variance factor: ``(d + Q - 1)/Q`` stated (Lemma 2), ``d`` in the proof;
* Theorem 1's learning rate: 1/(2 L d N^2) stated, 1/(3 L d N^2) proven. Omega > 0 for every Lambda <= N needs
  eta < Q/(3 L (d + Q - 1) N^2): with Q = 1 the stated rate lies 1.5 times above it, and Omega can be negative;
* Theorem 2's learning rate: half of the proof's (d + 2)/(L d N^2 (kappa + 2)) stated.

Shapes: scalars only. ``smoothness`` is L, ``num_parameters`` d, ``bias_lambda`` Lambda in [1/N, N].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from zorba_core.errors import InvalidInputError

Version = Literal["statement", "proof"]


@dataclass(frozen=True)
class Constants:
    """What the bounds are made of; sigma's are those of Assumptions 2 and 3."""

    lr: float  # eta
    num_clients: int  # N
    num_parameters: int  # d
    smoothness: float  # L
    mu: float  # step of the finite difference
    sigma: float  # standard deviation of a client's stochastic gradient
    sigma_global: float  # sigma_G, largest distance between a client's gradient and the global one
    num_perturbations: int = 1  # Q; Theorem 1 as stated
    effective_rank: float = 1.0  # kappa of Condition 1; Theorem 2

    def __post_init__(self) -> None:
        for name in ("lr", "num_clients", "num_parameters", "smoothness", "num_perturbations", "effective_rank"):
            if not 0 < getattr(self, name) < math.inf:
                raise InvalidInputError(f"{name} is {getattr(self, name)}; it must be a finite number above 0")
        for name in ("mu", "sigma", "sigma_global"):
            if not 0 <= getattr(self, name) < math.inf:
                raise InvalidInputError(f"{name} is {getattr(self, name)}; it must be a finite number of at least 0")


@dataclass(frozen=True)
class Terms:
    """What the bound on the average squared gradient is the sum of; each infinite where D <= 0."""

    start: float  # gap / (D T): how far there is to go; the one term that rounds diminish
    estimate: float  # bias from finite differences (mu)
    dissimilarity: float  # bias from clients whose data differ (sigma_G)
    variance: float  # bias from mini-batches (sigma)

    @property
    def total(self) -> float:
        return self.start + self.estimate + self.dissimilarity + self.variance


@dataclass(frozen=True)
class Bound:
    """D = ``intercept - slope * Lambda`` (Omega or Phi), and Theta in its three parts: what either bound needs."""

    intercept: float  # eta / 2
    slope: float
    theta_estimate: float  # of mu
    theta_dissimilarity: float  # of sigma_G
    theta_variance: float  # of sigma

    @property
    def theta(self) -> float:
        return self.theta_estimate + self.theta_dissimilarity + self.theta_variance

    @property
    def largest_lambda(self) -> float:
        """Lambda at which D reaches 0: from there on the bound says nothing."""
        return self.intercept / self.slope

    def denominator(self, bias_lambda: float) -> float:
        """Omega(Lambda) or Phi(Lambda); the bound says nothing unless it is positive."""
        return self.intercept - self.slope * _positive(bias_lambda)

    def bias(self, bias_lambda: float) -> float:
        """The term that rounds do not diminish, Theta Lambda / D; infinite where D <= 0."""
        denominator = self.denominator(bias_lambda)
        return self.theta * bias_lambda / denominator if denominator > 0 else math.inf

    def bias_derivative(self, bias_lambda: float) -> float:
        """Lemma 4: d bias / d Lambda = Theta (D + slope Lambda) / D^2 > 0, so less Lambda is always better.

        D + slope Lambda is eta / 2 for every Lambda. Infinite where D <= 0.
        """
        denominator = self.denominator(bias_lambda)
        return self.theta * self.intercept / denominator**2 if denominator > 0 else math.inf

    def average_gradient(self, bias_lambda: float, gap: float, num_rounds: float) -> float:
        """The whole bound for ``gap`` = f(w_1) - f(w*) after ``num_rounds``; infinite where D <= 0.

        Theorem 1 prints a sum over t around the gap where its proof has none; this is the proof's.
        """
        return self.terms(bias_lambda, gap, num_rounds).total

    def terms(self, bias_lambda: float, gap: float, num_rounds: float) -> Terms:
        """:meth:`average_gradient`, term by term."""
        if gap < 0 or num_rounds < 1:
            raise InvalidInputError(f"gap {gap} must be at least 0 and number of rounds {num_rounds} at least 1")
        denominator = self.denominator(bias_lambda)
        if denominator <= 0:
            return Terms(math.inf, math.inf, math.inf, math.inf)
        per_theta = bias_lambda / denominator
        return Terms(
            gap / (denominator * num_rounds),
            self.theta_estimate * per_theta,
            self.theta_dissimilarity * per_theta,
            self.theta_variance * per_theta,
        )


def theorem_1(constants: Constants, version: Version = "statement") -> Bound:
    """Standard bound: Omega = eta/2 - (3/2) L eta^2 v N Lambda, with v = (d + Q - 1)/Q stated or d proven, and

    Theta_1 = mu^2 L^2 eta (d + 3)^3 N / 4 + (eta N + (3/2) L eta^2 v N) sigma_G^2 + (3/2) L eta^2 v N sigma^2.
    """
    c = constants
    slope = 1.5 * c.smoothness * c.lr**2 * _variance_factor(c, version) * c.num_clients
    dissimilarity = (c.lr * c.num_clients + slope) * c.sigma_global**2
    return Bound(c.lr / 2, slope, _estimate_error(c), dissimilarity, slope * c.sigma**2)


def theorem_2(constants: Constants) -> Bound:
    """Dimension-free bound: Phi = eta/2 - s N Lambda with s = d eta^2 L (kappa + 2) / (2 (d + 2)), and

    Theta_2 = eta N (sigma_G^2 + mu^2 L^2 (d + 3)^3 / 4) + s sigma^2. Statement and proof agree on both.
    """
    c = constants
    step = c.num_parameters * c.lr**2 * c.smoothness * (c.effective_rank + 2) / (2 * (c.num_parameters + 2))
    dissimilarity = c.lr * c.num_clients * c.sigma_global**2
    return Bound(c.lr / 2, step * c.num_clients, _estimate_error(c), dissimilarity, step * c.sigma**2)


def largest_lr_theorem_1(
    num_clients: int, num_parameters: int, smoothness: float, version: Version = "statement"
) -> float:
    """1/(2 L d N^2) as stated, 1/(3 L d N^2) as proven (Omega >= 0 at Lambda = N)."""
    return 1.0 / ({"statement": 2, "proof": 3}[_known(version)] * smoothness * num_parameters * num_clients**2)


def largest_lr_theorem_2(
    num_clients: int, num_parameters: int, smoothness: float, effective_rank: float, version: Version = "statement"
) -> float:
    """(d + 2)/(2 L d N^2 (kappa + 2)) as stated, twice that as proven (Phi >= 0 at Lambda = N)."""
    proven = (num_parameters + 2) / (smoothness * num_parameters * num_clients**2 * (effective_rank + 2))
    return proven / {"statement": 2, "proof": 1}[_known(version)]


def _estimate_error(c: Constants) -> float:
    """mu^2 L^2 eta (d + 3)^3 N / 4: what Lemma 1's distance to the first-order gradient costs."""
    return 0.25 * c.mu**2 * c.smoothness**2 * c.lr * (c.num_parameters + 3) ** 3 * c.num_clients


def _variance_factor(c: Constants, version: Version) -> float:
    """How much larger a zeroth-order gradient's square norm is than the first-order one's (Lemma 2)."""
    if _known(version) == "proof":
        return c.num_parameters
    return (c.num_parameters + c.num_perturbations - 1) / c.num_perturbations


def _known(version: str) -> str:
    if version not in ("statement", "proof"):
        raise InvalidInputError(f"unknown version {version!r}; choose statement or proof")
    return version


def _positive(bias_lambda: float) -> float:
    if not bias_lambda > 0:
        raise InvalidInputError(f"Lambda is {bias_lambda}; it must be above 0")
    return bias_lambda

"""A problem on which the paper's bounds can be checked, since every constant in them is known: clients with quadratic
losses f_n(w) = L/2 (w - b_n)' S (w - b_n), S diagonal with largest entry 1.

Shapes: d parameters in M equal blocks, N clients, Q directions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Quadratic:
    """``curvature_D`` is the Hessian's diagonal, the same for all clients; ``optimum_ND`` the b_n."""

    curvature_D: NDArray[np.float64]
    optimum_ND: NDArray[np.float64]
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
        return float(np.sqrt(np.square(distance_ND).sum(axis=1)).max())

    def gradient(self, w_D: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.curvature_D * (w_D - self.optimum_ND.mean(axis=0))

    def gap(self, w_D: NDArray[np.float64]) -> float:
        """f(w) - f(w*)."""
        return float(0.5 * (self.curvature_D * np.square(w_D - self.optimum_ND.mean(axis=0))).sum())


def squared_gradients(
    problem: Quadratic, A_MN: NDArray[np.bool_], lr: float, num_rounds: int, num_directions: int, seed: int
) -> NDArray[np.float64]:
    """||grad f(w_t)||^2 of each round of ZorBA from w = 0, shape (T,): its mean is the left side of Theorems 1 and 2.
    Directions on the sphere of radius sqrt(d), mu -> 0."""
    rng = np.random.default_rng(seed)
    (num_blocks, num_clients), size = A_MN.shape, problem.curvature_D.size
    weight_DN = np.repeat(A_MN / A_MN.sum(axis=1, keepdims=True), size // num_blocks, axis=0)
    active_ND = np.repeat(A_MN, size // num_blocks, axis=0).T
    w_D, squares = np.zeros(size), []
    for _ in range(num_rounds):
        squares.append(float(np.square(problem.gradient(w_D)).sum()))
        noise_ND = problem.noise / np.sqrt(size) * rng.normal(size=(num_clients, size))
        gradient_ND = (problem.curvature_D * (w_D - problem.optimum_ND) + noise_ND) * active_ND
        v_QD = rng.normal(size=(num_directions, size))
        v_QD *= np.sqrt(size) / np.linalg.norm(v_QD, axis=1, keepdims=True)
        rho_NQ = gradient_ND @ v_QD.T
        w_D = w_D - lr * (weight_DN * (rho_NQ @ v_QD / num_directions).T).sum(axis=1)
    return np.array(squares)


def estimate_ratio(num_parameters: int, num_directions: int, length: float, draws: int, seed: int) -> float:
    """E||g||^2 / ||grad||^2 of the zeroth-order estimate with ``num_directions`` directions of the given length."""
    rng = np.random.default_rng(seed)
    gradient_D = np.zeros(num_parameters)
    gradient_D[0] = 1.0
    v_SQD = rng.normal(size=(draws, num_directions, num_parameters))
    v_SQD *= length / np.linalg.norm(v_SQD, axis=-1, keepdims=True)
    estimate_SD = (v_SQD * (v_SQD @ gradient_D)[..., None]).mean(axis=1)
    return float(np.square(estimate_SD).sum(axis=1).mean())

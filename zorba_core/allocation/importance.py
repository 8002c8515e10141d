"""How much each block matters, from the scalars that clients send anyway.

Client n's scalar along a shared direction v with E[v v'] = I is rho_n = sum_m a_mn <g_nm, v_m>. With g_nm the block's
mean gradient g_m and independent noise of the client's rows around it,

    E[rho_n rho_n'] = sum_m a_mn a_mn' G_m     (n != n'),        E[rho_n^2] = sum_m a_mn (G_m + s_m^2),

G_m = ||g_m||^2 the energy of block m and s_m^2 the variance of one client's gradient there. So both are two
non-negative least squares: G from the products of pairs, then s^2 from what G leaves of the squares. Pairs need not be
listed: with c_mm' the clients that activate both blocks the normal equations of a direction are

    sum_m' C(c_mm', 2) G_m' = ((sum_n a_mn rho_n)^2 - sum_n a_mn rho_n^2) / 2        (C(c, 2) pairs of c clients)
    sum_m' c_mm' s_m'^2 = sum_n a_mn rho_n^2 - sum_m' c_mm' G_m'.

A block's energy can be told from the others' only where the allocation has variety: if the same blocks always stand
together, their sum is all that the scalars know. :mod:`zorba_core.allocation.varied` varies it from round to round.

Intervals are of a bootstrap over rounds (over single directions where rounds are few), 95 %. They hold the randomness
of directions and rows; that a block's energy changes while training is averaged over the rounds used.

Shapes: M blocks, N clients, Q directions of a round, T rounds, U units that are resampled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from zorba_core.allocation.gain import BlockFacts
from zorba_core.errors import InvalidInputError

RESAMPLES = 200
LEAST_ROUNDS = 10  # fewer are resampled direction by direction
_INSIDE = (2.5, 97.5)  # percentiles
_TINY = 1e-9  # of the largest eigenvalue: a direction in which the equations say nothing


@dataclass(frozen=True, eq=False)
class ScalarRound:
    """What a round says: who activated what, the scalars, and whose were used."""

    A_MN: NDArray[np.bool_]
    rho_NQ: NDArray[np.float64]
    reported_N: NDArray[np.bool_]
    weight: float = 1.0  # beside the other rounds


@dataclass(frozen=True, eq=False)
class Importance:
    """Energy and noise of every block, with 95 % intervals. A block whose number the scalars cannot tell from other
    blocks' has ``identifiable_M`` False; its value is then one of many that fit as well."""

    energy_M: NDArray[np.float64]  # G_m
    noise_M: NDArray[np.float64]  # s_m^2
    energy_low_M: NDArray[np.float64]
    energy_high_M: NDArray[np.float64]
    noise_low_M: NDArray[np.float64]
    noise_high_M: NDArray[np.float64]
    identifiable_M: NDArray[np.bool_]
    rounds: int
    scalars: int  # numbers that were used

    def facts(self, sizes: Sequence[int] | None = None) -> BlockFacts:
        """For ``--solver gain``: energies and noises, with the blocks' parameters where they are known.

        A block of energy 0 within its interval still may have some: what the solver gets is never less than a
        hundredth of the largest.

        Raises:
            InvalidInputError: no block has any energy.
        """
        if not self.energy_M.any():
            raise InvalidInputError("these scalars show no energy in any block; use more rounds or more directions")
        energy_M = np.maximum(self.energy_M, self.energy_M.max() / 100)
        return BlockFacts.of(len(energy_M), energy_M, self.noise_M, sizes)

    def describe(self) -> dict[str, Any]:
        """Plain JSON. ``energies`` and ``noise`` are what the gain solver takes."""
        return {
            "rounds": self.rounds,
            "scalars": self.scalars,
            "energies": self.energy_M,
            "noise": self.noise_M,
            "identifiable": bool(self.identifiable_M.all()),
            "blocks": [
                {
                    "block": m,
                    "energy": float(self.energy_M[m]),
                    "energy_interval": [float(self.energy_low_M[m]), float(self.energy_high_M[m])],
                    "noise": float(self.noise_M[m]),
                    "noise_interval": [float(self.noise_low_M[m]), float(self.noise_high_M[m])],
                    "identifiable": bool(self.identifiable_M[m]),
                }
                for m in range(len(self.energy_M))
            ],
        }


def importance_of(rounds: Sequence[ScalarRound], *, resamples: int = RESAMPLES) -> Importance:
    """G_m and s_m^2 from the scalars of rounds, with intervals (none, as wide as the value, for ``resamples`` 0).

    Raises:
        InvalidInputError: no round in which two clients reported.
    """
    sums = _Sums.of(rounds)
    energy_M, noise_M = sums.solved(np.ones(sums.units))
    drawn = np.empty((resamples, 2, len(energy_M)))
    generator = np.random.default_rng(len(rounds))
    for index in range(resamples):
        weight_U = np.bincount(generator.integers(sums.units, size=sums.units), minlength=sums.units)
        drawn[index] = sums.solved(weight_U.astype(float))
    if resamples:
        low_2M, high_2M = np.percentile(drawn, _INSIDE, axis=0)
    else:
        low_2M = high_2M = np.stack([energy_M, noise_M])
    return Importance(
        energy_M,
        noise_M,
        np.minimum(low_2M[0], energy_M),
        np.maximum(high_2M[0], energy_M),
        np.minimum(low_2M[1], noise_M),
        np.maximum(high_2M[1], noise_M),
        sums.identifiable(),
        len(rounds),
        sums.scalars,
    )


@dataclass(frozen=True, eq=False)
class _Sums:
    """Both normal equations, summed within each unit."""

    pairs_UMM: NDArray[np.float64]
    products_UM: NDArray[np.float64]
    shared_UMM: NDArray[np.float64]
    squares_UM: NDArray[np.float64]
    scalars: int

    @property
    def units(self) -> int:
        return len(self.products_UM)

    @classmethod
    def of(cls, rounds: Sequence[ScalarRound]) -> _Sums:
        parts, scalars = [], 0
        for each in rounds:
            A_MN = np.asarray(each.A_MN, bool) & each.reported_N
            if A_MN.any(axis=0).sum() < 2:
                continue
            active_MN = A_MN.astype(float)
            shared_MM = active_MN @ active_MN.T
            rho_NQ = np.where(each.reported_N[:, None], each.rho_NQ, 0.0)
            squares_MQ = active_MN @ np.square(rho_NQ)
            products_MQ = (np.square(active_MN @ rho_NQ) - squares_MQ) / 2
            scalars += int(A_MN.any(axis=0).sum()) * rho_NQ.shape[1]
            parts.append((shared_MM, products_MQ * each.weight, squares_MQ * each.weight, each.weight))
        if not parts:
            raise InvalidInputError("there is no round in which two clients reported; importance is read of pairs")
        by_direction = len(parts) < LEAST_ROUNDS
        units: list[tuple[NDArray[np.float64], ...]] = []
        for shared_MM, products_MQ, squares_MQ, weight in parts:
            pairs_MM, Q = shared_MM * (shared_MM - 1) / 2, products_MQ.shape[1]
            if by_direction:
                units += [
                    (pairs_MM * weight, products_MQ[:, q], shared_MM * weight, squares_MQ[:, q]) for q in range(Q)
                ]
            else:
                all_of_it = (pairs_MM * weight * Q, products_MQ.sum(1), shared_MM * weight * Q, squares_MQ.sum(1))
                units.append(all_of_it)
        return cls(*(np.stack(part) for part in zip(*units, strict=True)), scalars)

    def solved(self, weight_U: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """G and s^2 with the units so weighted."""
        pairs_MM, shared_MM = (np.tensordot(weight_U, part, axes=1) for part in (self.pairs_UMM, self.shared_UMM))
        energy_M = _least_squares(pairs_MM, weight_U @ self.products_UM)
        return energy_M, _least_squares(shared_MM, weight_U @ self.squares_UM - shared_MM @ energy_M)

    def identifiable(self) -> NDArray[np.bool_]:
        """Whose unit vector lies in what both equations reach."""
        reached_M = np.ones(self.products_UM.shape[1], bool)
        for part in (self.pairs_UMM, self.shared_UMM):
            values, vectors = np.linalg.eigh(part.sum(axis=0))
            seen = values > _TINY * max(values[-1], 0.0)
            reached_M &= np.square(vectors[:, seen]).sum(axis=1) > 1 - 1e-6
        return reached_M


def _least_squares(normal_MM: NDArray[np.float64], right_M: NDArray[np.float64]) -> NDArray[np.float64]:
    """The x >= 0 of least x' N x / 2 - r' x, of norm as small as the equations leave it: scaled so that energies of any
    unit are solved alike."""
    values, vectors = np.linalg.eigh(normal_MM)
    scale = float(np.abs(right_M).max())
    if scale == 0 or values[-1] <= 0:
        return np.zeros(len(right_M))
    root = np.sqrt(np.maximum(values, _TINY * values[-1]))
    answer_M, _ = nnls(root[:, None] * vectors.T, (vectors.T @ (right_M / scale)) / root)
    return answer_M * scale

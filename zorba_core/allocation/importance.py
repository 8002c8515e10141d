"""How much each block matters, from the scalars that clients send anyway.

Client n's scalar along a shared direction v with E[v v'] = I is rho_n = sum_m a_mn <g_nm, v_m>. With g_nm the block's
mean gradient g_m and independent noise of the client's rows around it,

    E[rho_n rho_n'] = sum_m a_mn a_mn' G_m     (n != n'),        E[rho_n^2] = sum_m a_mn (G_m + s_m^2),

G_m = ||g_m||^2 the energy of block m and s_m^2 the variance of one client's gradient there. So both are two
non-negative least squares: G from the products of pairs, then s^2 from what G leaves of the squares. A product's
variance is about E[rho_n^2] E[rho_n'^2], and one noisy block drowns the others in whoever has it; so pairs are weighted
by the inverse, with E[rho_n^2] = sum_m a_mn (G_m + s_m^2) from a first solution without weights. (Squares are not: they
are precise enough, and weights would favour clients with few blocks, whose rows are not everybody's.)

Pairs need not be listed: with w_n = 1 / E[rho_n^2], and c_mm' the clients that activate both blocks, the normal
equations of a direction are

    sum_m' P_mm' G_m' = (sum_n w_n a_mn rho_n)^2 - sum_n (w_n a_mn rho_n)^2,
        P_mm' = (sum_n w_n a_mn a_m'n)^2 - sum_n w_n^2 a_mn a_m'n,
    sum_m' c_mm' (G_m' + s_m'^2) = sum_n a_mn rho_n^2.

A block's energy can be told from the others' only where the allocation has variety: if the same blocks always stand
together, their sum is all that the scalars know. :mod:`zorba_core.allocation.varied` varies it from round to round.

Intervals are of a bootstrap over rounds (over single directions where rounds are few), 95 %, of the same equations
solved without the sign, and then cut at 0: a solution that may not be negative stops at 0 and would claim to be sure of
it. They hold the randomness of directions and rows; that a block's energy changes while training is averaged over the
rounds used.

Shapes: M blocks, N clients, Q directions of a round, T rounds, U units that are resampled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zorba_core.allocation.gain import BlockFacts, block_lengths
from zorba_core.errors import InvalidInputError

RESAMPLES = 200
LEAST_ROUNDS = 10  # fewer are resampled direction by direction
_INSIDE = (2.5, 97.5)  # percentiles
_TINY = 1e-9  # of the largest eigenvalue: a direction in which the equations say nothing
_LEAST_VARIANCE = 0.1  # of the mean client's: no equation weighs much more than the others


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
    square_M: NDArray[np.float64]  # G_m + s_m^2, above 0: the mean of what the scalars leave possible
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

    def lengths(self) -> NDArray[np.float64]:
        """How much longer directions may be in each block (:func:`zorba_core.allocation.gain.block_lengths`), by mean
        squared gradients: scalars show them far more precisely than the squares of mean gradients."""
        return block_lengths(self.square_M)

    def along_unit_directions(self, scale_M: Sequence[float]) -> Importance:
        """The same of a run whose directions were ``scale_M`` times as long in the blocks."""
        names = ("energy_M", "noise_M", "energy_low_M", "energy_high_M", "noise_low_M", "noise_high_M", "square_M")
        return replace(self, **{name: getattr(self, name) / np.square(scale_M) for name in names})

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
    plain = _Sums.of(rounds, None)
    sums = _Sums.of(rounds, sum(plain.solved(np.ones(plain.units))))
    energy_M, noise_M = sums.solved(np.ones(sums.units))
    drawn = np.empty((resamples, 2, len(energy_M)))
    generator = np.random.default_rng(len(rounds))
    for index in range(resamples):
        weight_U = np.bincount(generator.integers(sums.units, size=sums.units), minlength=sums.units)
        drawn[index] = sums.solved(weight_U.astype(float), signed=True)
    if resamples:
        low_2M, high_2M = np.maximum(np.percentile(drawn, _INSIDE, axis=0), 0.0)
        square_M = _mean_above_zero(drawn.sum(axis=1).mean(axis=0), drawn.sum(axis=1).std(axis=0))
    else:
        low_2M = high_2M = np.stack([energy_M, noise_M])
        square_M = energy_M + noise_M
    return Importance(
        energy_M,
        noise_M,
        np.minimum(low_2M[0], energy_M),
        np.maximum(high_2M[0], energy_M),
        np.minimum(low_2M[1], noise_M),
        np.maximum(high_2M[1], noise_M),
        sums.identifiable(),
        square_M,
        len(rounds),
        sums.scalars,
    )


def _mean_above_zero(mean_M: NDArray[np.float64], deviation_M: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of normal variables, given that they are above 0."""
    from scipy.special import log_ndtr  # here: every command imports this module, and SciPy's take a third of a second

    deviation_M = np.maximum(deviation_M, np.finfo(float).tiny)
    z_M = mean_M / deviation_M
    return mean_M + deviation_M * np.exp(-np.square(z_M) / 2 - log_ndtr(z_M)) / math.sqrt(2 * math.pi)


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
    def of(cls, rounds: Sequence[ScalarRound], square_M: NDArray[np.float64] | None) -> _Sums:
        """``square_M``: G_m + s_m^2, which the equations' weights are made of; None for equal weights."""
        parts, scalars = [], 0
        for each in rounds:
            A_MN = np.asarray(each.A_MN, bool) & each.reported_N
            if A_MN.any(axis=0).sum() < 2:
                continue
            active_MN, rho_NQ = A_MN.astype(float), np.where(each.reported_N[:, None], each.rho_NQ, 0.0)
            weight_N = _weights(active_MN, square_M)
            once_MN, twice_MN = active_MN * weight_N, active_MN * np.square(weight_N)
            pairs_MM = np.square(once_MN @ active_MN.T) - twice_MN @ active_MN.T
            products_MQ = np.square(once_MN @ rho_NQ) - twice_MN @ np.square(rho_NQ)
            shared_MM, squares_MQ = active_MN @ active_MN.T, active_MN @ np.square(rho_NQ)
            scalars += int(A_MN.any(axis=0).sum()) * rho_NQ.shape[1]
            parts.append(tuple(part * each.weight for part in (pairs_MM, products_MQ, shared_MM, squares_MQ)))
        if not parts:
            raise InvalidInputError("there is no round in which two clients reported; importance is read of pairs")
        by_direction = len(parts) < LEAST_ROUNDS
        units: list[tuple[NDArray[np.float64], ...]] = []
        for pairs_MM, products_MQ, shared_MM, squares_MQ in parts:
            Q = products_MQ.shape[1]
            if by_direction:
                units += [(pairs_MM, products_MQ[:, q], shared_MM, squares_MQ[:, q]) for q in range(Q)]
            else:
                units.append((pairs_MM * Q, products_MQ.sum(axis=1), shared_MM * Q, squares_MQ.sum(axis=1)))
        if not units:
            raise InvalidInputError("its rounds have no scalars; importance is read of them")
        return cls(*(np.stack(part) for part in zip(*units, strict=True)), scalars)

    def solved(
        self, weight_U: NDArray[np.float64], *, signed: bool = False
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """G and s^2 with the units so weighted; ``signed``: of any sign."""
        pairs_MM, shared_MM = (np.tensordot(weight_U, part, axes=1) for part in (self.pairs_UMM, self.shared_UMM))
        energy_M = _least_squares(pairs_MM, weight_U @ self.products_UM, signed)
        return energy_M, _least_squares(shared_MM, weight_U @ self.squares_UM - shared_MM @ energy_M, signed)

    def identifiable(self) -> NDArray[np.bool_]:
        """Whose unit vector lies in what both equations reach."""
        reached_M = np.ones(self.products_UM.shape[1], bool)
        for part in (self.pairs_UMM, self.shared_UMM):
            values, vectors = np.linalg.eigh(part.sum(axis=0))
            seen = values > _TINY * max(values[-1], 0.0)
            reached_M &= np.square(vectors[:, seen]).sum(axis=1) > 1 - 1e-6
        return reached_M


def _weights(active_MN: NDArray[np.float64], square_M: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """1 / E[rho_n^2], on the scale of the mean client."""
    if square_M is None or not square_M.any():
        return np.ones(active_MN.shape[1])
    variance_N = square_M @ active_MN
    mean = float(variance_N[variance_N > 0].mean()) if variance_N.any() else 1.0
    return 1.0 / np.maximum(variance_N / mean, _LEAST_VARIANCE)


def _least_squares(
    normal_MM: NDArray[np.float64], right_M: NDArray[np.float64], signed: bool = False
) -> NDArray[np.float64]:
    """The x >= 0 (``signed``: any x) of least x' N x / 2 - r' x, of norm as small as the equations leave it: scaled so
    that energies of any unit are solved alike."""
    values, vectors = np.linalg.eigh(normal_MM)
    scale = float(np.abs(right_M).max())
    if scale == 0 or values[-1] <= 0:
        return np.zeros(len(right_M))
    if signed:
        seen = values > _TINY * values[-1]
        return vectors[:, seen] @ ((vectors[:, seen].T @ right_M) / values[seen])
    from scipy.optimize import nnls

    root = np.sqrt(np.maximum(values, _TINY * values[-1]))
    answer_M, _ = nnls(root[:, None] * vectors.T, (vectors.T @ (right_M / scale)) / root)
    return answer_M * scale

"""The gain of an allocation: how far one round at the best step lowers the loss, up to a factor all allocations share.

From the descent lemma with shared directions, G_m = ||grad_m f||^2 the energy of block m, s_m^2 the variance of the
clients' gradients around it, d_m the block's parameters, c_mm' the clients that activate both blocks (c_mm = c_m) and
S the blocks that anybody activates,

    Phi(A) = (sum_{m in S} G_m)^2 / sum_{m in S} d_m / c_m^2 sum_m' [ c_mm'^2 G_m' + c_mm' s_m'^2 ].

Larger is better. Smoothness is all that it assumes; terms of order 1/Q and mu are left out. With equal energies and
noises it weighs V, D and E of :mod:`zorba_core.allocation.measures` against each other; with unequal ones it says which
blocks to train. A block that nobody activates costs its energy and nothing else. Phi depends on A through the counts
c_mm' alone.

Shapes: M blocks, N clients, K matrices. ``shared_MM`` holds c_mm'.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zorba_core.errors import InvalidInputError


@dataclass(frozen=True, eq=False)
class BlockFacts:
    """What the gain needs to know of the blocks: in any common unit, since only ratios decide between allocations."""

    energy_M: NDArray[np.float64]  # G_m
    noise_M: NDArray[np.float64]  # s_m^2, of one client's mini-batch gradient
    size_M: NDArray[np.float64]  # d_m

    @classmethod
    def of(
        cls,
        num_blocks: int,
        energies: ArrayLike | None = None,
        noise: ArrayLike | None = None,
        sizes: ArrayLike | None = None,
    ) -> BlockFacts:
        """Each is one number for all blocks or one a block; 1 where it is not given.

        Raises:
            InvalidInputError: another count than M, a number below 0 or not finite, no energy at all, a size of 0.
        """
        facts = cls(
            _numbers("energies", energies, num_blocks),
            _numbers("noise", noise, num_blocks),
            _numbers("sizes", sizes, num_blocks),
        )
        if not facts.energy_M.any():
            raise InvalidInputError("energies are all 0, so no block is worth training; give at least one above 0")
        if not facts.size_M.all():
            raise InvalidInputError("sizes hold a 0; a block has at least one parameter")
        return facts


def _numbers(what: str, given: ArrayLike | None, num_blocks: int) -> NDArray[np.float64]:
    try:
        values = np.asarray(1.0 if given is None else given, dtype=float)
    except (TypeError, ValueError):
        raise InvalidInputError(f"{what} must be numbers, one for each block or one for all") from None
    if values.ndim > 1 or (values.ndim == 1 and len(values) not in (1, num_blocks)):
        raise InvalidInputError(f"{what} has {values.size} numbers and there are {num_blocks} blocks; give one a block")
    values = np.broadcast_to(values, num_blocks).astype(float)
    wrong = np.flatnonzero(~np.isfinite(values) | (values < 0) | (values > 1e100))
    if wrong.size:
        raise InvalidInputError(f"{what} of block {wrong[0]} is {values[wrong[0]]:g}; it must be between 0 and 1e100")
    return values


def gain(A_MN: NDArray[np.bool_], facts: BlockFacts) -> float:
    """Phi(A), 0 for an empty matrix."""
    columns = np.asarray(A_MN, dtype=np.float32)  # counts are exact up to 2**24 clients
    return float(gains((columns @ columns.T).astype(float)[None], facts)[0])


def gains(shared_KMM: NDArray[np.float64], facts: BlockFacts) -> NDArray[np.float64]:
    """Phi of each of K matrices, from their counts of shared clients: (K,)."""
    popularity_KM = np.einsum("kmm->km", shared_KMM)
    with np.errstate(divide="ignore", invalid="ignore"):
        weight_KM = np.where(popularity_KM > 0, facts.size_M / np.square(popularity_KM), 0.0)
        row_KM = np.square(shared_KMM) @ facts.energy_M + shared_KMM @ facts.noise_M
        cost_K = (weight_KM * row_KM).sum(axis=1)
        energy_K = (popularity_KM > 0) @ facts.energy_M
        return np.where(energy_K > 0, np.square(energy_K) / cost_K, 0.0)


def gain_bound(facts: BlockFacts, usable_N: NDArray[np.int64], most_blocks: int, *, idle_blocks: bool) -> float:
    """A number that no allocation's gain exceeds, given budgets and the largest total.

    For a number of trained blocks j and a total T the cost is at least the sum of what each part of it is at least:

    - own energy, sum d_m G_m, and own noise, sum d_m s_m^2 / c_m >= (sum sqrt(d_m) s_m)^2 / T (Cauchy-Schwarz);
    - coupling: a client with k blocks couples each with k - 1 others. With kappa_m the mean of k - 1 over the clients
      of block m, sum_m c_m kappa_m = sum_n k_n (k_n - 1) >= T (T/N - 1), and sum_m' (c_mm'/c_m)^2 G_m' >= kappa_m^2 /
      sum_m' 1/G_m' by Cauchy-Schwarz; over blocks, with c_m <= N, at least (T/N - 1)^2 T/N min_m d_m / sum_m' 1/G_m';
    - noise of coupled blocks: at least min d min s^2 (T/N - 1) T / N^2.

    The largest quotient over j and T bounds the gain. With blocks of unequal facts the best-case sums differ from block
    to block, so the bound is valid rather than tight.
    """
    M, N = len(facts.energy_M), len(usable_N)
    # A thinned grid of totals: between two of them each part is taken at the end where it is less.
    T = np.unique(np.linspace(N, most_blocks, min(most_blocks - N + 1, 20_000)).astype(int)).astype(float)
    above = np.append(T[1:], T[-1]) if len(T) < most_blocks - N + 1 else T
    energy = np.sort(facts.energy_M)[::-1]
    root = np.sort(np.sqrt(facts.size_M * facts.noise_M))
    with np.errstate(divide="ignore"):
        inverse = np.cumsum(1.0 / energy[::-1])  # of the blocks of least energy: 1, 2, ... of them
    size, noise, over = facts.size_M.min(), facts.noise_M.min(), T / N - 1.0
    best = 0.0
    for j in range(1, M + 1) if idle_blocks else [M]:
        total = float(energy[:j].sum())
        own = size * total if idle_blocks else float(facts.size_M @ facts.energy_M)
        coupling = over**2 * T / N * size / inverse[j - 2] if j > 1 else 0.0
        cost = own + root[:j].sum() ** 2 / above + coupling + size * noise * over * T / N**2
        with np.errstate(divide="ignore", invalid="ignore"):
            best = max(best, float(np.where(total > 0, total**2 / cost, 0.0).max()))
    return best

"""Averages of the clients' scalars that are robust to a few wrong ones. Imports no torch.

The paper's average is the mean (:func:`zorba_core.engine.methods.zorba.mean`). With one or two clients a block, the
averages here are the mean too. They treat each direction separately, which loses a part of the signal of the mean.

Shapes: M blocks, N clients, Q directions of a round, K clients that activate one block and reported.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from zorba_core.errors import InvalidInputError


def trimmed(rho_KQ: np.ndarray, trim: float) -> np.ndarray:
    """The mean without the largest and the smallest share ``trim`` of the values, (Q,).

    The share is rounded up, so that one false value of three has no effect (Yin et al., 2018, arXiv:1803.01498).
    """
    clients = len(rho_KQ)
    cut = min(math.ceil(trim * clients - 1e-9), (clients - 1) // 2)
    return np.sort(rho_KQ, axis=0)[cut : clients - cut].mean(axis=0)


def median(rho_KQ: np.ndarray, trim: float) -> np.ndarray:
    """The middle value, or the mean of the two middle values, (Q,)."""
    return trimmed(rho_KQ, 0.5)


def per_block(average: Callable[[np.ndarray, float], np.ndarray]) -> Callable[..., np.ndarray]:
    """Apply ``average(rho_KQ, trim) -> (Q,)`` to the clients of each block.

    Returns:
        The function ``(rho_NQ, counted_MN, trim) -> (M, Q)`` for :class:`zorba_core.engine.parts.Average`.
    """

    def of_blocks(rho_NQ: np.ndarray, counted_MN: np.ndarray, trim: float) -> np.ndarray:
        average_MQ = np.zeros((len(counted_MN), rho_NQ.shape[1]))
        for m in np.flatnonzero(counted_MN.any(axis=1)):
            average_Q = np.asarray(average(rho_NQ[counted_MN[m]], trim))
            if average_Q.shape != rho_NQ.shape[1:]:  # NumPy would repeat a single number
                raise InvalidInputError(f"an average returns shape {average_Q.shape} in place of {rho_NQ.shape[1:]}")
            average_MQ[m] = average_Q
        return average_MQ

    return of_blocks

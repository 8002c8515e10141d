"""How a federation's server runs its rounds, and averages that a few wrong scalars cannot move. No torch is loaded
for the options.

For block m and direction q only the clients that activate m and reported count; as in the paper's average, the result
carries the factor 1/Q.

    mean      the paper's average
    trimmed   the largest and smallest share ``trim`` of the values are left out (Yin et al., 2018, arXiv:1803.01498)
    median    the middle value, the same with nothing but the middle left

A trimmed mean or median needs several reporters a block to differ from the mean; with one or two it is the mean. Both
take each direction by itself, and so lose some of the signal that the mean keeps.

Shapes: M blocks, N clients, Q directions of a round.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from zorba_core.checked import Checked

Rule = Literal["mean", "trimmed", "median"]


class ServerOptions(Checked):
    """How the server runs its rounds; clients need not know.

    Raises:
        InvalidInputError: a value out of range.
    """

    rule: Rule = "mean"
    """How scalars are averaged: {choices}."""
    trim: float = Field(0.2, ge=0, lt=0.5)
    """With --rule trimmed: share cut off at each end."""
    deadline: float = Field(60.0, gt=0)
    """Seconds that a round waits for answers."""
    start_timeout: float = Field(120.0, gt=0)
    """Seconds to wait for clients at the start."""
    min_clients: int = Field(0, ge=0)
    """Clients to begin with after that; 0: all."""


def robust_average(
    rho_NQ: np.ndarray, A_MN: np.ndarray, reported_N: np.ndarray, rule: Rule, trim: float = 0.2
) -> np.ndarray:
    """rho_bar_MQ by the rule, float64; zeros for a block that nobody reported on."""
    if rule == "mean":
        from zorba_core.engine.aggregation import average_per_block  # imports torch

        return average_per_block(rho_NQ, A_MN, reported_N)
    trim = 0.5 if rule == "median" else trim
    num_blocks, num_directions = A_MN.shape[0], rho_NQ.shape[1]
    rho_bar_MQ = np.zeros((num_blocks, num_directions))
    for m in range(num_blocks):
        values_KQ = np.sort(rho_NQ[A_MN[m] & reported_N], axis=0)
        if len(values_KQ):
            cut = min(int(trim * len(values_KQ)), (len(values_KQ) - 1) // 2)
            rho_bar_MQ[m] = values_KQ[cut : len(values_KQ) - cut].mean(axis=0) / num_directions
    return rho_bar_MQ

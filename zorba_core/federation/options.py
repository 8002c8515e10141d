"""Options of a federation's server, and averages that are robust to a few wrong scalars. The import loads no torch.

The average for block m and direction q is over the clients that activate m and reported. As in the paper, it has the
factor 1/Q.

    mean      the paper's average
    trimmed   without the largest and the smallest share ``trim`` of the values, rounded up, so that one false value of
              three has no effect (Yin et al., 2018, arXiv:1803.01498)
    median    the middle value

With one or two reports of a block all three are the mean. Median and trimmed mean treat each direction separately,
which loses a part of the signal that the mean has.

Shapes: M blocks, N clients, Q directions of a round.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from pydantic import Field

from zorba_core.checked import Checked

Rule = Literal["mean", "trimmed", "median"]


class ServerOptions(Checked):
    """Options of the server alone; clients do not get them.

    Raises:
        InvalidInputError: a value out of range.
    """

    rule: Rule = "mean"
    """How scalars are averaged: {choices}."""
    trim: float = Field(0.2, ge=0, lt=0.5)
    """With --rule trimmed: share cut off at each end, rounded up to whole clients."""
    deadline: float = Field(60.0, gt=0)
    """Seconds that a round waits for answers."""
    start_timeout: float = Field(120.0, gt=0)
    """Seconds to wait for clients at the start."""
    min_clients: int = Field(0, ge=0)
    """Clients needed after that wait; 0: all."""


def robust_average(
    rho_NQ: np.ndarray, A_MN: np.ndarray, reported_N: np.ndarray, rule: Rule, trim: float = 0.2
) -> np.ndarray:
    """rho_bar_MQ by the rule, float64; zeros for a block without reports."""
    if rule == "mean":
        from zorba_core.engine.aggregation import average_per_block  # imports torch

        return average_per_block(rho_NQ, A_MN, reported_N)
    trim = 0.5 if rule == "median" else trim
    num_blocks, num_directions = A_MN.shape[0], rho_NQ.shape[1]
    rho_bar_MQ = np.zeros((num_blocks, num_directions))
    for m in range(num_blocks):
        values_KQ = np.sort(rho_NQ[A_MN[m] & reported_N], axis=0)
        if len(values_KQ):
            cut = min(math.ceil(trim * len(values_KQ) - 1e-9), (len(values_KQ) - 1) // 2)
            rho_bar_MQ[m] = values_KQ[cut : len(values_KQ) - cut].mean(axis=0) / num_directions
    return rho_bar_MQ

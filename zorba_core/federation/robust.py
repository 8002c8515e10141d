"""Averages of the clients' scalars that a few wrong ones cannot move. The plain mean is the default.

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

from typing import Literal, get_args

import numpy as np
from pydantic import Field

from zorba_core.checked import Checked

Rule = Literal["mean", "trimmed", "median"]
RULES: tuple[Rule, ...] = get_args(Rule)


class AggregationSettings(Checked):
    """How the server averages.

    Raises:
        InvalidInputError: an unknown rule, or a number out of range.
    """

    rule: Rule = "mean"
    """How scalars are averaged: {choices}."""
    trim: float = Field(0.2, ge=0, lt=0.5)
    """With --rule trimmed: share cut off at each end."""


def aggregate(
    rho_NQ: np.ndarray, A_MN: np.ndarray, reported_N: np.ndarray, settings: AggregationSettings
) -> np.ndarray:
    """rho_bar_MQ by the rule, float64; zeros for a block that nobody reported on."""
    if settings.rule == "mean":
        from zorba_core.engine.aggregation import average_per_block  # imports torch, which the settings do not need

        return average_per_block(rho_NQ, A_MN, reported_N)
    trim = 0.5 if settings.rule == "median" else settings.trim
    num_blocks, num_directions = A_MN.shape[0], rho_NQ.shape[1]
    rho_bar_MQ = np.zeros((num_blocks, num_directions))
    for m in range(num_blocks):
        values_KQ = np.sort(rho_NQ[A_MN[m] & reported_N], axis=0)
        if len(values_KQ):
            cut = min(int(trim * len(values_KQ)), (len(values_KQ) - 1) // 2)
            rho_bar_MQ[m] = values_KQ[cut : len(values_KQ) - cut].mean(axis=0) / num_directions
    return rho_bar_MQ

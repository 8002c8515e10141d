"""How long a round's step is: the learning rate's schedule, and a step normalised by the scalars that were sent.

Both are functions of what every replica knows (settings, the round's index, the averages), so nothing more is sent.

A normalised step divides a round's averages by the root of a moving mean of their squares,

    u_t = beta u_(t-1) + (1 - beta) mean (Q rho_bar)^2,    coefficients = rho_bar / sqrt(u_t),

so that the learning rate is a length rather than a length a slope: it depends less on task, model and progress. u is
one number of the run, or one a block. Blocks that nobody reported on are left out of the mean.

Shapes: M blocks, Q directions of a round.
"""

from __future__ import annotations

import math

import numpy as np

from zorba_core.engine.settings import TrainSettings

BETA = 0.9
MEAN_SQUARE = "step_mean_square"  # the name of u among a method's state: (1,) or (M,), 0 where there is none yet


def lr_of_round(settings: TrainSettings, round_index: int) -> float:
    """The learning rate of round t = 1, 2, ...: a linear rise over ``warmup`` rounds, then the schedule down to 0 just
    after the last round."""
    t, rounds, warmup = round_index, settings.rounds, settings.warmup
    if t <= warmup:
        return settings.lr * t / (warmup + 1)
    done = (t - 1 - warmup) / max(1, rounds - warmup)
    if settings.schedule == "cosine":
        return settings.lr * 0.5 * (1 + math.cos(math.pi * done))
    if settings.schedule == "linear":
        return settings.lr * (1 - done)
    return settings.lr


def mean_square(rho_bar_MQ: np.ndarray, step: str) -> np.ndarray:
    """mean (Q rho_bar)^2 over directions and, for one number of the run, over blocks: (1,) or (M,); NaN without any."""
    square_MQ = np.square(rho_bar_MQ.shape[1] * rho_bar_MQ)
    reported_M = rho_bar_MQ.any(axis=1)
    mean_M = np.where(reported_M, square_MQ.mean(axis=1), np.nan)
    if step == "normalised-blocks":
        return mean_M
    return np.array([mean_M[reported_M].mean() if reported_M.any() else np.nan])


def normalised(rho_bar_MQ: np.ndarray, before: np.ndarray | None, step: str) -> tuple[np.ndarray, np.ndarray]:
    """What a round's coefficients are multiplied by, (M, 1), and u after it. A block without scalars keeps its u."""
    now = mean_square(rho_bar_MQ, step)
    if before is None:
        before = np.zeros(len(now))
    mixed = np.where(before > 0, BETA * before + (1 - BETA) * now, now)
    after = np.where(np.isnan(now), before, mixed)
    scale = np.divide(1.0, np.sqrt(after), out=np.ones(len(after)), where=after > 0)
    return np.broadcast_to(scale[:, None], (len(rho_bar_MQ), 1)), after

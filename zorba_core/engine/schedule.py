"""The learning rate of each round. Every replica computes it from the settings and the round's index."""

from __future__ import annotations

import math

from zorba_core.engine.settings import Settings


def lr_of_round(settings: Settings, round_index: int) -> float:
    """The learning rate of round t = 1, 2, ...: ``lr``, or the schedule from it down to 0 just after the
    last round."""
    done = (round_index - 1) / settings.rounds
    if settings.schedule == "cosine":
        return settings.lr * 0.5 * (1 + math.cos(math.pi * done))
    if settings.schedule == "linear":
        return settings.lr * (1 - done)
    return settings.lr

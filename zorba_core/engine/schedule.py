"""The learning rate of each round. Every replica computes it from the settings and the round's index."""

from __future__ import annotations

import math

from zorba_core.engine.settings import Settings


def lr_of_round(settings: Settings, round_index: int) -> float:
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

"""The learning rate of a round."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from zorba_core.engine.settings import Settings


def lr_of_round(settings: Settings, round_index: int) -> float:
    """The learning rate of round t = 1, 2, ...: ``lr``, or a schedule that falls from it to 0 after the last round."""
    done = (round_index - 1) / settings.rounds
    if settings.schedule == "cosine":
        return settings.lr * 0.5 * (1 + math.cos(math.pi * done))
    return settings.lr


def back_off(losses: Sequence[float]) -> float:
    """The factor of the learning rate after these evaluation losses: a half for each two rises in a row."""
    factor, rises = 1.0, 0
    for before, after in pairwise(losses):
        rises = rises + 1 if after > before else 0
        if rises == 2:
            factor, rises = 0.5 * factor, 0
    return factor

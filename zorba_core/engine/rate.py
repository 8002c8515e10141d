"""The learning rate of a round, in units of its scalars.

``lr = "auto"`` gives round t the rate

    lr_t = length / s_t * schedule(t),      s_t = root mean square of the averaged scalars of round t
    length = min(0.2, 0.156 (Q / 800)^0.5 (106e6 / d)^0.2)

for Q directions and d trained parameters. s estimates the length of the gradient, so the expected step of every round
has the same length before the schedule falls from 1 to 0 (``cosine``). Beside the expected step, a round makes one at
random, sqrt(d / Q) times as long. That one limits the length, unless directions are many or parameters few. The numbers
are fitted to runs of opt-mini and SmolLM2, which diverged on AG-News at 1.4 times its length
(``tests/benchmarks/bench_learning.py``). The scalars are in the log, so clients, replay and resume have the same bits.
FZOO (Dang et al., 2025, arXiv:2506.09034) divides by the spread of the losses, which is the same idea.

Shapes: M blocks, Q directions.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from zorba_core.engine.round import Step
    from zorba_core.engine.settings import Settings

AUTO = "auto"
LONGEST = 0.2  # of the expected step
_LENGTH, _DIRECTIONS, _PARAMETERS = 0.156, 800, 106e6


def schedule(settings: Settings, round_index: int) -> float:
    """The factor of the rate in round t = 1, 2, ...: 1, or falling to 0 after the last round."""
    if settings.schedule == "constant":
        return 1.0
    return 0.5 * (1 + math.cos(math.pi * (round_index - 1) / settings.rounds))


def length_of_step(directions: int, parameters: int) -> float:
    """The expected step's length before the schedule.

    Args:
        directions: Q; 0 for a method with the gradient itself.
        parameters: d, of all blocks.
    """
    random = (directions / _DIRECTIONS) ** 0.5 * (_PARAMETERS / parameters) ** 0.2 if directions else math.inf
    return min(LONGEST, _LENGTH * random)


def rate_of_round(settings: Settings, round_index: int, size: float, length: float, factor: float = 1.0) -> float:
    """The learning rate of a round.

    Args:
        size: s (:func:`size_of_step`).
        length: :func:`length_of_step`.
        factor: of :attr:`zorba_core.engine.course.Course.factor`.
    """
    automatic = length / size if size > 0 else 0.0
    return factor * (automatic if settings.lr == AUTO else settings.lr) * schedule(settings, round_index)


def size_of_step(step: Step, directions: int) -> float:
    """s, the length of the expected step at a rate of 1: it estimates the length of the gradient.

    For averaged scalars it is their root mean square over blocks and directions: rho_bar has the factor 1/Q, so s^2 is
    the mean over blocks of Q sum_q rho_bar_q^2. Blocks without scalars do not count.

    Args:
        directions: Q, directions of a client.
    """
    if step.gradient_M is not None:
        return math.sqrt(sum(float(gradient.double().square().sum()) for gradient in step.gradient_M))
    if step.rho_bar_MQ is None:
        return 0.0
    used = step.rho_bar_MQ[np.any(step.rho_bar_MQ, axis=1)]
    return float(np.sqrt(directions * np.square(used).sum(axis=1).mean())) if len(used) else 0.0

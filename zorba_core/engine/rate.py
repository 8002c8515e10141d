"""The learning rate of a round, and the way back from a rate that was too large.

**A rate with a unit.** ``lr = "auto"`` gives round t the rate

    lr_t = STEP / s_t * schedule(t),        s_t = root mean square of the averaged scalars of round t

With it the expected step of every round has the same length (``STEP``, before the schedule), whatever the model, the
rows and the loss are: raw rates of two models differ 30 times, and this number does not. The scalars are in the log,
so clients, replay and resume compute the same bits. FZOO (Dang et al., 2025, arXiv:2506.09034) divides by the spread of
the perturbed losses, which is the same idea. ``schedule`` falls from 1 to 0 (``cosine``), or is 1 (``constant``).

**A run that cannot be lost.** :class:`Course` watches the losses. A loss far above the first one in two looks running,
or one that is not finite, sends the run back: the next round starts from the weights of the best evaluated round, at
half the rate. Those weights are a sum of logged steps, so nobody has to keep a copy. The course follows from the log
alone: whoever reads it, the server, a resumed run or a replay, comes to the same rounds.

Shapes: M blocks, Q directions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from zorba_core.engine.round import Round, Step
    from zorba_core.engine.settings import Settings

AUTO = "auto"
STEP = 0.16
LOOKS, FACTOR = 2, 0.5
_FAR_RATIO, _FAR_NATS = 1.5, 0.7  # a far loss is above the first one by both


def schedule(settings: Settings, round_index: int) -> float:
    """The factor of the rate in round t = 1, 2, ...: 1, or falling to 0 after the last round."""
    if settings.schedule == "constant":
        return 1.0
    return 0.5 * (1 + math.cos(math.pi * (round_index - 1) / settings.rounds))


def rate_of_round(settings: Settings, round_index: int, size: float, factor: float = 1.0) -> float:
    """The learning rate of a round.

    Args:
        size: s, the length of the expected step at a rate of 1 (:func:`size_of_step`).
        factor: of :attr:`Course.factor`.
    """
    lr = settings.lr if settings.lr != AUTO else STEP / size if size > 0 else 0.0
    return factor * lr * schedule(settings, round_index)


def size_of_step(step: Step, directions: int) -> float:
    """s, the length of the expected step at a rate of 1: it estimates the length of the gradient.

    For averaged scalars it is their root mean square over blocks and directions. (The step of a block is
    ``sum_u c_u v_u`` with c_q = rho_bar_q / Q, so s^2 is Q sum_u c_u^2; blocks without scalars do not count.)

    Args:
        directions: Q, directions of a client.
    """
    if step.gradient_M is not None:
        return math.sqrt(sum(float(gradient.double().square().sum()) for gradient in step.gradient_M))
    used = step.rho_bar_MQ[np.any(step.rho_bar_MQ, axis=1)]
    return float(np.sqrt(directions * np.square(used).sum(axis=1).mean())) if len(used) else 0.0


class Course:
    """Where the next round starts, at which part of its rate, and which round has the best weights.

    Args:
        rounds: the log, from round 0 on.
    """

    def __init__(self, rounds: Iterable[Round] = ()) -> None:
        self.start = 0  # the round whose weights the next round starts from
        self.returns = 0  # how often the run went back
        self.factor = 1.0  # of the rate
        self.best = 0  # the evaluated round with the lowest loss
        self.last = 0
        self._first_train = self._first_eval = self._best_loss = self._last_loss = math.inf
        self._began = False
        self._far = 0
        for done in rounds:
            self.add(done)

    def add(self, done: Round) -> None:
        """Take note of the next round."""
        train, loss = done.train_loss, done.eval_loss
        self.last = self.start = done.round
        if done.round == 0 and loss is not None:
            self._first_eval = self._best_loss = loss
        if train is not None and not self._began:
            self._first_train, self._began = train, True
        far = done.diverged or _is_far(train, self._first_train) or _is_far(loss, self._first_eval)
        self._far = self._far + 1 if far else 0
        if loss is not None:
            self._last_loss = loss
            if loss < self._best_loss:
                self._best_loss, self.best = loss, done.round
        if done.diverged or self._far == LOOKS:
            self.start, self.factor, self._far = self.best, FACTOR * self.factor, 0
            self.returns += 1

    @property
    def final(self) -> int:
        """The round whose weights are the run's result: the last one, unless it is worse than the base model."""
        return self.last if self.start == self.last and self._last_loss <= self._first_eval else self.best


def path(rounds: Sequence[Round], target: int) -> list[Round]:
    """The rounds whose steps make the weights after round ``target``, in their order."""
    steps = []
    while target > 0:
        steps.append(rounds[target])
        target = rounds[target].start
    return steps[::-1]


def _is_far(loss: float | None, first: float) -> bool:
    return loss is not None and not loss <= max(_FAR_RATIO * first, first + _FAR_NATS)

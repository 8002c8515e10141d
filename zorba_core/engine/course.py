"""The way back from a learning rate that was too large: a run that cannot be lost.

:class:`Course` watches the losses. A loss far above the first one in two looks running, or one that is not finite,
sends the run back: the next round starts from the weights of the best evaluated round, at half the rate. Those weights
are a sum of logged steps, so nobody has to keep a copy. The course follows from the log alone: the server, a resumed
run and a replay come to the same rounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zorba_core.engine.round import Round
    from zorba_core.engine.settings import Settings

LOOKS, FACTOR = 2, 0.5
_FAR_RATIO, _FAR_NATS = 1.25, 0.3  # a far loss is above the first one by both


class Course:
    """Where the next round starts, at which part of its rate, and which round has the best weights.

    Args:
        rounds: the log, from round 0 on.
    """

    def __init__(self, rounds: Iterable[Round] = ()) -> None:
        self.start = 0  # the round whose weights the next round starts from
        self.factor = 1.0  # of the rate
        self.best = 0  # the evaluated round with the lowest loss
        self.last = 0
        self._first_train = -math.inf
        self._first_eval = self._best_loss = self._last_loss = math.inf
        self._far = 0
        for done in rounds:
            self.add(done)

    def add(self, done: Round) -> None:
        """Take note of the next round."""
        train, loss = done.train_loss, done.eval_loss
        self.last = self.start = done.round
        if done.round == 0 and loss is not None:
            self._first_eval = self._best_loss = loss
        if train is not None and self._first_train == -math.inf:
            self._first_train = train
        # A first batch of easy rows says little, so the evaluation of the base model counts for training as well.
        first = max(self._first_train, self._first_eval)
        far = done.diverged or _is_far(train, first) or _is_far(loss, self._first_eval)
        self._far = self._far + 1 if far else 0
        if loss is not None:
            self._last_loss = loss
            if loss < self._best_loss:
                self._best_loss, self.best = loss, done.round
        if done.diverged or self._far == LOOKS:
            self.start, self.factor, self._far = self.best, FACTOR * self.factor, 0

    def weights(self, over: bool) -> int:
        """The round whose weights the network has now: those of the next round's start, or of the result."""
        return self.final if over else self.start

    @property
    def final(self) -> int:
        """The round whose weights are the run's result: the last one, unless it is worse than the base model."""
        return self.last if self.start == self.last and self._last_loss <= self._first_eval else self.best


def is_over(done: Round, settings: Settings) -> bool:
    """Whether a run ends with this round: it is the last, or its evaluation reaches the target."""
    target = math.inf if settings.target is None else settings.target
    return done.round >= settings.rounds or (done.eval_accuracy or 0.0) >= target


def path(rounds: Sequence[Round], target: int) -> list[Round]:
    """The rounds whose steps make the weights after round ``target``, in their order."""
    steps = []
    while target > 0:
        steps.append(rounds[target])
        target = rounds[target].start
    return steps[::-1]


def _is_far(loss: float | None, first: float) -> bool:
    return loss is not None and not loss <= max(_FAR_RATIO * first, first + _FAR_NATS)

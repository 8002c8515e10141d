"""A learning rate that suits a model, its data and its fleet, found in some ten trial rounds.

From the base weights the engine takes rounds whose rate doubles each time, and after each the loss on rows held out
from the clients (a range test: Smith, Cyclical Learning Rates, 2017). It falls, and at some rate it rises above where
it began. The largest rate whose loss was still below is the largest stable one, and half of it is the answer. What is
stable for one round need not be for a hundred: the noise of few directions adds up over a run, so below 64 directions
the answer falls with the root of their number. The run's cosine schedule then falls from there.

A round of few directions says little: then several such chains are averaged, each along rounds of its own. The first
rate moves the weights by 1/128 of their length; where even that is too much, the trial begins lower.

Everything is drawn from the run's seed, so one request has one answer. Weights are left as they were, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from zorba_core.allocation import Allocation
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.evaluation import evaluate
from zorba_core.engine.loop import init, step
from zorba_core.engine.randomness import stream
from zorba_core.engine.round import FederatedRows
from zorba_core.engine.settings import Settings
from zorba_core.errors import InvalidInputError, RunError

HELD_OUT_ROWS = 64
SAFETY, ENOUGH_DIRECTIONS = 0.5, 64  # of the largest stable rate; times the root of Q / 64 where Q is less
_PROBE = 1e-4  # a rate of which only the length of the step is wanted
_FIRST_STRIDE, _LOWER = 1 / 128, 1 / 64  # of the weights' length; of the first rate, for another try
_MOST_RATES, _TRIES = 16, 3
_DIRECTIONS, _MOST_CHAINS = 40, 4  # as many chains as make up 40 directions a rate


@dataclass(frozen=True)
class Trial:
    """One rate, and the held-out loss after a round at it, the mean over chains; None where a chain did not get there
    or diverged."""

    lr: float
    loss: float | None


@dataclass(frozen=True)
class Rate:
    """The learning rate and what it rests on."""

    lr: float
    trials: tuple[Trial, ...]  # smallest rate first
    initial_loss: float
    held_out_rows: int
    rounds: int  # that were computed

    def describe(self) -> dict[str, Any]:
        """For a run's log."""
        return asdict(self)

    def sentence(self) -> str:
        """One line for people."""
        below = [trial.lr for trial in self.trials if trial.loss is not None and trial.loss < self.initial_loss]
        return (
            f"learning rate {self.lr:g}: a round at {max(below):.2g} still lowered the held-out loss of "
            f"{self.initial_loss:.3f} ({self.rounds} trial rounds, {self.held_out_rows} rows)"
        )


def find_rate(network: Blocks, allocation: Allocation, rows: FederatedRows, settings: Settings) -> Rate:
    """The learning rate for a run of these settings, whose own ``lr`` plays no part.

    Raises:
        InvalidInputError: the clients hold too few rows to hold any out.
        RunError: no rate lowers the held-out loss.
    """
    split = hold_out(rows, settings.seed)
    settings = settings.replace(schedule="constant")
    base_M = [network.block_weights(m).clone() for m in range(network.num_blocks)]
    initial, rounds = evaluate(network, split.evaluation).loss, 0
    chains = min(_MOST_CHAINS, -(-_DIRECTIONS // settings.directions)) if settings.directions else 1
    first = math.nan
    try:
        for attempt in range(_TRIES):
            losses_CR = []
            for c in range(chains):
                walk = _Chain(network, allocation, split, settings, attempt * chains + c)
                try:
                    if math.isnan(first):
                        first = _FIRST_STRIDE / walk.stride(base_M)
                    losses_CR.append(walk.losses(first, initial))
                finally:
                    network.copy_to_blocks(base_M)
                rounds += walk.rounds
            longest = max(map(len, losses_CR))
            padded_CR = [losses + [math.inf] * (longest - len(losses)) for losses in losses_CR]
            mean_R = np.mean(padded_CR, axis=0)
            stable = np.flatnonzero(mean_R < initial)
            if len(stable):
                rates = [first * 2**r for r in range(longest)]
                trials = [
                    Trial(lr, float(loss) if math.isfinite(loss) else None)
                    for lr, loss in zip(rates, mean_R, strict=True)
                ]
                safety = SAFETY * math.sqrt(min(1.0, (settings.directions or math.inf) / ENOUGH_DIRECTIONS))
                lr = float(f"{safety * rates[stable[-1]]:.2g}")
                return Rate(lr, tuple(trials), initial, len(split.evaluation), rounds)
            first *= _LOWER
    finally:
        network.copy_to_blocks(base_M)
    raise RunError(
        f"no learning rate from {first / _LOWER:.2g} on lowered the held-out loss of {initial:.4f} in a round; "
        "give more directions or a larger batch, or a rate with --lr"
    )


class _Chain:
    """Rounds from where the network stands, each at twice the rate of the one before."""

    def __init__(
        self, network: Blocks, allocation: Allocation, rows: FederatedRows, settings: Settings, number: int
    ) -> None:
        self._network, self._allocation, self._rows, self._settings = network, allocation, rows, settings
        self._state = replace(init(network, settings), rounds_done=number * (_MOST_RATES + 1))
        self.rounds = 0

    def _step(self, lr: float) -> None:
        self.rounds += 1
        settings = self._settings.replace(lr=lr)
        self._state, _ = step(self._state, self._network, self._allocation, self._rows, settings)

    def stride(self, base_M: Sequence[Tensor]) -> float:
        """How far a round at rate 1 moves the blocks, relative to their length. Takes a tiny step."""
        self._step(_PROBE)
        moved = length = 0.0
        for m, base in enumerate(base_M):
            moved += float((self._network.block_weights(m) - base).square().sum(dtype=torch.float64))
            length += float(base.square().sum(dtype=torch.float64))
        return math.sqrt(moved / length) / _PROBE

    def losses(self, first: float, initial: float) -> list[float]:
        """The held-out loss after each rate, until two in a row are above the initial one."""
        losses: list[float] = []
        while len(losses) < _MOST_RATES and not (len(losses) > 1 and min(losses[-2:]) > initial):
            try:
                self._step(first * 2 ** len(losses))
            except RunError:
                return losses
            loss = evaluate(self._network, self._rows.evaluation).loss
            if not math.isfinite(loss):
                return losses
            losses.append(loss)
        return losses


def hold_out(rows: FederatedRows, seed: int) -> FederatedRows:
    """The same clients, with some of their rows taken out for evaluation; the evaluation split is not used.

    At most a fifth of the rows, and from no client its last row.

    Raises:
        InvalidInputError: too few rows to take any.
    """
    spare = np.concatenate([np.asarray(held)[1:] for held in rows.held_N])
    count = min(HELD_OUT_ROWS, len(spare), sum(map(len, rows.held_N)) // 5)
    if count < 2:
        raise InvalidInputError(
            "the clients hold too few rows to find a learning rate; use fewer clients, or give --lr"
        )
    taken = stream("tuning-rows", seed).choice(spare, size=count, replace=False)
    held_N = [np.setdiff1d(held, taken) for held in rows.held_N]
    return FederatedRows(rows.train, held_N, rows.train.rows(np.sort(taken)))

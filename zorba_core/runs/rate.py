"""A learning rate that suits a model, its data and its fleet, found in some fifteen trial rounds.

From the base weights the engine takes rounds whose rate doubles each time, and after each the loss on rows held out
from the clients (a range test: Smith, Cyclical Learning Rates, 2017). It falls, and at some rate it rises above where
it began. The largest rate whose loss was still below is the largest stable one, and half of it is the answer. What is
stable for one round need not be for a hundred: the noise of few directions adds up over a run, so below 64 directions
the answer falls with the root of their number. The run's cosine schedule then falls from there.

The small rates of a trial may have led to where a large one is harmless. So the answer is put to the test: three rounds
at it, from the base weights, have to lower the loss, or at least not to raise it far: a round of few rows may tip a
model towards one label, and the next ones tip it back. Else half of the rate is tried.

A round of few directions says little: then several such chains are averaged, each along rounds of its own. The first
rate moves the weights by 1/128 of their length; where even that is too much, the trial begins lower.

Everything is drawn from the run's seed, so one request has one answer. Weights are left as they were, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

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
_CHANCE = 0.01  # of the held-out loss
_PROBE = 1e-4  # a rate of which only the length of the step is wanted
_FIRST_STRIDE, _LOWER = 1 / 128, 1 / 64  # of the weights' length; of the first rate, for another try
_MOST_RATES, _TRIES = 16, 3
_DIRECTIONS, _MOST_CHAINS = 40, 4  # as many chains as make up 40 directions a rate
_TEST_ROUNDS, _MOST_TESTS = 3, 6
_FAR, _HOPELESS = 1.5, 3.0  # times the initial loss


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
    refused: tuple[float, ...] = ()  # rates at which three rounds raised the loss far

    def describe(self) -> dict[str, Any]:
        """For a run's log."""
        return asdict(self)

    def sentence(self) -> str:
        """One line for people."""
        below = [trial.lr for trial in self.trials if trial.loss is not None and trial.loss < self.initial_loss]
        loss = f"the held-out loss of {self.initial_loss:.3f} ({self.rounds} trial rounds, {self.held_out_rows} rows)"
        if not below:
            return f"learning rate {self.lr:g}: no trial round lowered {loss}; expect little of this model here"
        but = f", but three at {min(self.refused):.2g} raised it far" if self.refused else ""
        return f"learning rate {self.lr:g}: a round at {max(below):.2g} still lowered {loss}{but}"


class Trials(Protocol):
    """Where :func:`search_rate` takes its trial rounds from: all clients in this process, or over a network."""

    held_out_rows: int

    def begin(self, start: int) -> None:
        """A new line of rounds, the first of which is ``start`` + 1, from the base weights, which the network holds."""

    def step(self, lr: float) -> None:
        """One round: the network's weights move.

        Raises:
            RunError: no client's scalars can be used.
        """

    def loss(self) -> float:
        """The loss on the rows held out, nats."""


def find_rate(network: Blocks, allocation: Allocation, rows: FederatedRows, settings: Settings) -> Rate:
    """The learning rate for a run of these settings in this process, whose own ``lr`` plays no part.

    Raises:
        InvalidInputError, RunError: as :func:`search_rate`; or the clients hold too few rows to hold any out.
    """
    trials = _LocalTrials(network, allocation, hold_out(rows, settings.seed), settings.replace(schedule="constant"))
    return search_rate(trials, network, settings)


def search_rate(trials: Trials, network: Blocks, settings: Settings) -> Rate:
    """As :func:`find_rate`, with rounds from anywhere. ``network`` holds the base weights, before and after.

    Raises:
        RunError: every rate raises the held-out loss.
    """
    chains = min(_MOST_CHAINS, -(-_DIRECTIONS // settings.directions)) if settings.directions else 1
    safety = SAFETY * math.sqrt(min(1.0, (settings.directions or math.inf) / ENOUGH_DIRECTIONS))
    search = _Search(trials, network)
    try:
        tried, largest = search.largest_stable(chains)
        lr, refused = float(f"{safety * largest:.2g}"), []
        while len(refused) < _MOST_TESTS and not search.is_stable(lr):
            refused.append(lr)
            lr = float(f"{lr / 2:.2g}")
    finally:
        network.copy_to_blocks(search.base_M)
    return Rate(lr, tried, search.initial, trials.held_out_rows, search.rounds, tuple(refused))


class _Search:
    """Trial rounds in chains, each from the base weights and along directions that no other has.

    Attributes:
        initial: the held-out loss of the base weights, nats.
        rounds: how many were computed.
    """

    def __init__(self, trials: Trials, network: Blocks) -> None:
        self._trials, self._network, self._chains, self.rounds = trials, network, 0, 0
        self.base_M = [network.block_weights(m).clone() for m in range(network.num_blocks)]
        self.initial = math.nan

    def largest_stable(self, chains: int) -> tuple[tuple[Trial, ...], float]:
        """Every rate of a range test, and the largest whose mean loss over ``chains`` stays below the initial one.

        Raises:
            RunError: there is none.
        """
        first = math.nan
        for _ in range(_TRIES):
            losses_CR = []
            for _ in range(chains):
                self._begin()
                if math.isnan(first):
                    self.initial = self._trials.loss()
                    self._trials.step(_PROBE)
                    self.rounds += 1
                    first = _FIRST_STRIDE / _stride(self._network, self.base_M)
                losses_CR.append(self._range_test(first))
            longest = max(map(len, losses_CR))
            mean_R = np.mean([losses + [math.inf] * (longest - len(losses)) for losses in losses_CR], axis=0)
            stable = np.flatnonzero(mean_R < self.initial)
            if not len(stable):
                stable = np.flatnonzero(mean_R < self._chance)
            if len(stable):
                rates = [first * 2**r for r in range(longest)]
                losses = [float(loss) if math.isfinite(loss) else None for loss in mean_R]
                return tuple(map(Trial, rates, losses)), rates[stable[-1]]
            first *= _LOWER
        raise RunError(
            f"every learning rate from {first / _LOWER:.2g} on raised the held-out loss of {self.initial:.4f} in a "
            "round; give more directions or a larger batch, or a rate with --lr"
        )

    def is_stable(self, lr: float) -> bool:
        """Whether the loss is lower after three rounds at ``lr``, or never was far above the initial one."""
        self._begin()
        losses = [self.initial]
        while len(losses) <= _TEST_ROUNDS:
            if losses[-1] > _HOPELESS * self.initial:
                return False
            losses.append(self._loss_after(lr))
        return losses[-1] < self.initial or max(losses) < _FAR * self.initial

    @property
    def _chance(self) -> float:
        """What chance alone raises the loss to is no reason for a lower rate."""
        return (1 + _CHANCE) * self.initial

    def _begin(self) -> None:
        self._network.copy_to_blocks(self.base_M)
        self._trials.begin(self._chains * (_MOST_RATES + 1))
        self._chains += 1

    def _range_test(self, first: float) -> list[float]:
        """The loss after each rate, twice the one before, until two in a row are above the initial one."""
        losses: list[float] = []
        while len(losses) < _MOST_RATES and not (len(losses) > 1 and min(losses[-2:]) > self.initial):
            loss = self._loss_after(first * 2 ** len(losses))
            if not math.isfinite(loss):
                break
            losses.append(loss)
        return losses

    def _loss_after(self, lr: float) -> float:
        """The loss after one more round at ``lr``; infinite where the chain diverged."""
        self.rounds += 1
        try:
            self._trials.step(lr)
        except RunError:
            return math.inf
        loss = self._trials.loss()
        return loss if math.isfinite(loss) else math.inf


def _stride(network: Blocks, base_M: Sequence[Tensor]) -> float:
    """How far a round at rate 1 moves the blocks, relative to their length, from where a tiny one led."""
    moved = length = 0.0
    for m, base in enumerate(base_M):
        moved += float((network.block_weights(m) - base).square().sum(dtype=torch.float64))
        length += float(base.square().sum(dtype=torch.float64))
    return math.sqrt(moved / length) / _PROBE


class _LocalTrials:
    """All clients in this process."""

    def __init__(self, network: Blocks, allocation: Allocation, rows: FederatedRows, settings: Settings) -> None:
        self._network, self._allocation, self._rows, self._settings = network, allocation, rows, settings
        self.held_out_rows = len(rows.evaluation)

    def begin(self, start: int) -> None:
        self._state = replace(init(self._network, self._settings), rounds_done=start)

    def step(self, lr: float) -> None:
        settings = self._settings.replace(lr=lr)
        self._state, _ = step(self._state, self._network, self._allocation, self._rows, settings)

    def loss(self) -> float:
        return evaluate(self._network, self._rows.evaluation, precision=self._network.precision).loss


def held_out_positions(rows_N: Sequence[int], seed: int) -> list[np.ndarray]:
    """Which of each client's rows are held out, counted from 0 in its own order, sorted: at most a fifth of all rows,
    and of no client its first.

    Args:
        rows_N: how many rows each client has.

    Raises:
        InvalidInputError: too few rows to take any.
    """
    spare = [(n, row) for n, rows in enumerate(rows_N) for row in range(1, rows)]
    count = min(HELD_OUT_ROWS, len(spare), sum(rows_N) // 5)
    if count < 2:
        raise InvalidInputError(
            "the clients hold too few rows to find a learning rate; use fewer clients, or give --lr"
        )
    taken = [spare[i] for i in stream("tuning-rows", seed).choice(len(spare), size=count, replace=False)]
    return [np.array(sorted(row for client, row in taken if client == n), np.int64) for n in range(len(rows_N))]


def hold_out(rows: FederatedRows, seed: int) -> FederatedRows:
    """The same clients, with some of their rows taken out for evaluation; the evaluation split is not used.

    Raises:
        InvalidInputError: as :func:`held_out_positions`.
    """
    chosen_N = held_out_positions([len(held) for held in rows.held_N], seed)
    taken = np.concatenate([np.asarray(held)[chosen] for held, chosen in zip(rows.held_N, chosen_N, strict=True)])
    held_N = [np.setdiff1d(held, taken) for held in rows.held_N]
    return FederatedRows(rows.train, held_N, rows.train.rows(np.sort(taken)))

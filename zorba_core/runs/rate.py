"""Find a learning rate for a model, its data and its fleet, in 6 to 60 trial rounds.

Range test (Smith, Cyclical Learning Rates, 2017): from the base weights, each trial round doubles the rate; after each
round the loss on held-out rows of the clients is measured. It falls, and from some rate on it is above the initial
loss. The largest rate before that is the largest stable rate, and the result is half of it. Noise of few directions
adds up over a run: with Q < 64 directions the result is smaller by a factor sqrt(Q / 64). The run's cosine schedule
begins at the result.

A large rate may be harmless only because smaller ones came before it. So the result is tested: three rounds at that
rate, from the base weights, must lower the loss, or at least not raise it far and to its highest at the end (a round of
few rows may push a model towards one label, and the next rounds correct it). Otherwise half of the rate is tested;
after six refusals the next half is taken untested. Where labels are chosen and the range test has lowered the loss by a
fifth, the result is not tested: the three such rates that were measured all passed, and the test takes a third of the
search.

With few directions one round is noisy: then the mean of several chains of rounds is taken, each with other directions.
The first rate moves the weights by 1/128 of their length. If no round lowers the loss, the largest rate that does not
raise it far is tested; if all rates raise it far, the trial starts lower.

All randomness comes from the run's seed, so a request always has the same result. The weights are restored exactly.
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
SAFETY, ENOUGH_DIRECTIONS = 0.5, 64  # part of the largest stable rate; times sqrt(Q / 64) if Q is below 64
_PROBE = 1e-4  # rate of the round that measures the length of a step
_FIRST_STRIDE, _LOWER = 1 / 128, 1 / 64  # first step, relative to the weights; factor of the first rate in a retry
_MOST_RATES, _TRIES = 16, 3
_DIRECTIONS, _MOST_CHAINS = 40, 4  # enough chains for 40 directions a rate
_TEST_ROUNDS, _MOST_TESTS = 3, 6
_DEEP, _LOWERED, _FAR, _HOPELESS = 0.8, 0.995, 1.5, 3.0  # times the initial loss; a fall to 0.996 may be noise


@dataclass(frozen=True)
class Trial:
    """A rate, and the mean over chains of the held-out loss after a round at it; None if a chain ended before it."""

    lr: float
    loss: float | None


@dataclass(frozen=True)
class Rate:
    """The learning rate, and the measurements behind it."""

    lr: float
    trials: tuple[Trial, ...]  # in ascending order of rates
    initial_loss: float
    held_out_rows: int
    rounds: int  # number of trial rounds
    refused: tuple[float, ...] = ()  # rates at which three rounds raised the loss

    def describe(self) -> dict[str, Any]:
        """For a run's config."""
        return asdict(self)

    def sentence(self) -> str:
        """One line for a person."""
        limit = _LOWERED * self.initial_loss
        below = [trial.lr for trial in self.trials if trial.loss is not None and trial.loss < limit]
        loss = f"the held-out loss of {self.initial_loss:.3f} ({self.rounds} trial rounds, {self.held_out_rows} rows)"
        if not below:
            return f"learning rate {self.lr:g}: no trial round lowered {loss}; it may fall only after many rounds"
        but = f", but three rounds at {min(self.refused):.2g} raised it" if self.refused else ""
        return f"learning rate {self.lr:g}: a round at {max(below):.2g} still lowered {loss}{but}"


class Trials(Protocol):
    """The trial rounds of :func:`search_rate`: with all clients in this process, or over a network."""

    held_out_rows: int
    written: bool  # whether answers are written, not labels chosen

    def begin(self, start: int) -> None:
        """Begin a new chain of rounds at the base weights; its first round has the number ``start`` + 1."""

    def step(self, lr: float) -> None:
        """Compute one round and update the network's weights.

        Raises:
            RunError: no client sent usable scalars.
        """

    def loss(self) -> float:
        """The loss on the held-out rows, nats."""


def find_rate(network: Blocks, allocation: Allocation, rows: FederatedRows, settings: Settings) -> Rate:
    """The learning rate for a run of these settings, with all clients in this process. ``settings.lr`` is not used.

    Raises:
        RunError: as :func:`search_rate`.
        InvalidInputError: as :func:`held_out_positions`.
    """
    trials = _LocalTrials(network, allocation, hold_out(rows, settings.seed), settings.replace(schedule="constant"))
    return search_rate(trials, network, settings)


def search_rate(trials: Trials, network: Blocks, settings: Settings) -> Rate:
    """As :func:`find_rate`, with the rounds of ``trials``. ``network`` has the base weights, before and after.

    Raises:
        RunError: every rate raises the held-out loss far.
    """
    safety = SAFETY * math.sqrt(min(1.0, (settings.directions or math.inf) / ENOUGH_DIRECTIONS))
    search = _Search(trials, network)
    try:
        tried, largest = search.largest_stable(_chains_of(settings))
        lr, refused = float(f"{safety * largest.lr:.2g}"), []
        clear = not trials.written and largest.loss < _DEEP * search.initial
        while not clear and len(refused) < _MOST_TESTS and not search.is_stable(lr):
            refused.append(lr)
            lr = float(f"{lr / 2:.2g}")
    finally:
        network.copy_to_blocks(search.base_M)
    return Rate(lr, tried, search.initial, trials.held_out_rows, search.rounds, tuple(refused))


def usual_rounds(settings: Settings) -> int:
    """The usual number of trial rounds: nine for each chain."""
    return 9 * _chains_of(settings)


def announcement(settings: Settings) -> str:
    """The line for the user before the trial rounds."""
    return f"choosing the learning rate: about {usual_rounds(settings)} trial rounds"


def _chains_of(settings: Settings) -> int:
    return min(_MOST_CHAINS, -(-_DIRECTIONS // settings.directions)) if settings.directions else 1


class _Search:
    """Trial rounds in chains. Each chain starts from the base weights and has its own directions.

    Attributes:
        initial: the held-out loss of the base weights, nats.
        rounds: the number of trial rounds so far.
    """

    def __init__(self, trials: Trials, network: Blocks) -> None:
        self._trials, self._network, self._chains, self.rounds = trials, network, 0, 0
        self.base_M = [network.block_weights(m).clone() for m in range(network.num_blocks)]
        self.initial = math.nan

    def largest_stable(self, chains: int) -> tuple[tuple[Trial, ...], Trial]:
        """All trials of a range test, and the one with the largest rate whose mean loss over ``chains`` is below the
        initial loss; if there is none, the one with the largest rate whose loss is not far above it.

        Raises:
            RunError: every rate raises the loss far.
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
            stable = np.flatnonzero(mean_R < _LOWERED * self.initial)
            if not len(stable):
                stable = np.flatnonzero(mean_R < _FAR * self.initial)
            if len(stable):
                rates = [first * 2**r for r in range(longest)]
                losses = [float(loss) if math.isfinite(loss) else None for loss in mean_R]
                trials = tuple(map(Trial, rates, losses))
                return trials, trials[stable[-1]]
            first *= _LOWER
        raise RunError(
            f"every learning rate from {first / _LOWER:.2g} on raised the held-out loss of {self.initial:.4f} far in a "
            "round; give more directions or a larger batch, or a rate with --lr"
        )

    def is_stable(self, lr: float) -> bool:
        """Whether three rounds at ``lr`` lower the loss, or at least never raise it far above the initial one, and not
        to its highest at the end: then it still rises."""
        self._begin()
        losses = [self.initial]
        while len(losses) <= _TEST_ROUNDS:
            if losses[-1] > _HOPELESS * self.initial:
                return False
            losses.append(self._loss_after(lr))
        rises = losses[-1] > max(losses[:-1])
        return losses[-1] < self.initial or (not rises and max(losses) < _FAR * self.initial)

    def _begin(self) -> None:
        self._network.copy_to_blocks(self.base_M)
        self._trials.begin(self._chains * (_MOST_RATES + 1))
        self._chains += 1

    def _range_test(self, first: float) -> list[float]:
        """The loss after each rate (doubled each time), until two in a row are above the initial loss; if no rate has
        lowered it yet, until two are far above it. A hopeless loss is the last."""
        losses: list[float] = []
        while len(losses) < _MOST_RATES:
            limit = 1.0 if min(losses, default=math.inf) < _LOWERED * self.initial else _FAR
            if len(losses) > 1 and min(losses[-2:]) > limit * self.initial:
                break
            loss = self._loss_after(first * 2 ** len(losses))
            if not math.isfinite(loss):
                break
            losses.append(loss)
            if loss > _HOPELESS * self.initial:
                break
        return losses

    def _loss_after(self, lr: float) -> float:
        """The loss after one more round at ``lr``; infinite if the chain diverged."""
        self.rounds += 1
        try:
            self._trials.step(lr)
        except RunError:
            return math.inf
        loss = self._trials.loss()
        return loss if math.isfinite(loss) else math.inf


def _stride(network: Blocks, base_M: Sequence[Tensor]) -> float:
    """The length of a round's step at rate 1, relative to the blocks' length, from a round at rate ``_PROBE``."""
    moved = length = 0.0
    for m, base in enumerate(base_M):
        moved += float((network.block_weights(m) - base).square().sum(dtype=torch.float64))
        length += float(base.square().sum(dtype=torch.float64))
    return math.sqrt(moved / length) / _PROBE


class _LocalTrials:
    """Trial rounds with all clients in this process."""

    def __init__(self, network: Blocks, allocation: Allocation, rows: FederatedRows, settings: Settings) -> None:
        self._network, self._allocation, self._rows, self._settings = network, allocation, rows, settings
        self.held_out_rows, self.written = len(rows.evaluation), rows.evaluation.written

    def begin(self, start: int) -> None:
        self._state = replace(init(self._network, self._settings), rounds_done=start)

    def step(self, lr: float) -> None:
        settings = self._settings.replace(lr=lr)
        self._state, _ = step(self._state, self._network, self._allocation, self._rows, settings)

    def loss(self) -> float:
        return evaluate(self._network, self._rows.evaluation, precision=self._network.precision).loss


def held_out_positions(rows_N: Sequence[int], seed: int) -> list[np.ndarray]:
    """The held-out rows of each client, as sorted positions among its rows: at most a fifth of all rows, and never the
    first of a client.

    Args:
        rows_N: the number of rows of each client.

    Raises:
        InvalidInputError: the clients have too few rows.
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
    """The clients without their held-out rows; these become the evaluation rows.

    Raises:
        InvalidInputError: as :func:`held_out_positions`.
    """
    chosen_N = held_out_positions([len(held) for held in rows.held_N], seed)
    taken = np.concatenate([np.asarray(held)[chosen] for held, chosen in zip(rows.held_N, chosen_N, strict=True)])
    held_N = [np.setdiff1d(held, taken) for held in rows.held_N]
    return FederatedRows(rows.train, held_N, rows.train.rows(np.sort(taken)))

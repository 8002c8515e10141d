"""A good learning rate for a run of some tens of rounds, by its loss at the end and not by its speed at the start.

Rates on a logarithmic grid all start from the same weights and see the same clients, batches and directions, so that
what differs is the rate. They are compared by their loss on rows that are taken out of the federated split for this
purpose, and given to no client: the evaluation split plays no part. The comparison has three parts:

1. all rates, for a few rounds: which of them are stable at all;
2. the best three, for half of the horizon;
3. the best two, and between default rates also a factor of sqrt(2) to both sides of the best, to the horizon.

A loss is the mean over the last fifth of the rounds, since near the edge of stability a single evaluation says little.
The *edge* is the smallest rate above the best that ended with less than half of the best one's gain. The advice is no
larger than half of it: a round lowers a smooth loss by about eta G - eta^2 C, which is most at half of the eta where it
vanishes, and what lies closer to the edge is good in one run and unstable in the next. Of the rates below that, it is
the smallest whose gain is at least 98 % of the best one's. Where the best rate is at the end of what was tried, a note
says so. The best constant rate depends on the number of rounds: noise that a short run does not feel ends a long one,
so the horizon should be that of the run.

No candidate keeps weights: one that continues is rebuilt from the base and the scalars of its rounds, as a resumed run
is; FedIT has no scalars, so its rounds are computed again. Unless one is given, the grid is of rates at which a round's
step is from 1/2 down to 1/128 of the weights' length, as preflight measures it (``stride``), so it suits any model,
direction and method; a true gradient needs no such strides, and FedIT's grid is GRADIENT_SHORTER times lower.

For small models rounds are computed with exact scalars (:mod:`zorba_core.engine.estimators.exact`), in less than half
of a cohort's time: what finite differences add is checked before, by preflight.

Shapes: M blocks, N clients, R rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from zorba_core.allocation import Allocation
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.evaluation import evaluate
from zorba_core.engine.loop import init, repeat_round, step
from zorba_core.engine.methods.registry import method_facts
from zorba_core.engine.randomness import stream
from zorba_core.engine.round import FederatedRows, Round
from zorba_core.engine.settings import Settings
from zorba_core.errors import InvalidInputError, RunError
from zorba_core.runs.preflight import preflight

HELD_OUT_ROWS = 256
FIRST_ROUNDS = 8
HORIZON = 60
_STRIDES = 0.5 / 2.0 ** np.arange(7)  # a round's step relative to the weights: 0.5 down to 0.008
GRADIENT_SHORTER = 8  # most of an estimate is noise, and none of a gradient
_ENOUGH = 0.98  # of the best gain
_KEPT, _LAST = (3, 2), 2  # rates that go on after each part
_FINER = 2**0.5
_MARKS = (0.8, 0.9, 1.0)  # of the rounds, where the loss is taken
_SMALL = 2**26  # numbers: models up to that size afford exact scalars


@dataclass(frozen=True)
class Candidate:
    """One learning rate and how far it came."""

    lr: float
    rounds: int
    loss: float | None  # on the held-out rows, after those rounds; None: diverged
    left_after: int | None  # rounds after which it was dropped; None: it stayed to the end


@dataclass(frozen=True)
class Tuning:
    """The recommendation and the measurements behind it."""

    lr: float
    candidates: tuple[Candidate, ...]  # largest rate first
    initial_loss: float
    rounds_computed: int
    held_out_rows: int
    note: str  # what to know about it; empty when nothing

    def describe(self) -> dict[str, Any]:
        return {**asdict(self), "candidates": [asdict(candidate) for candidate in self.candidates]}


def tune(
    network: Blocks,
    allocation: Allocation,
    rows: FederatedRows,
    settings: Settings,
    *,
    lr_grid: Sequence[float] | None = None,
    first_rounds: int = FIRST_ROUNDS,
    horizon: int = HORIZON,
    notice: Callable[[str], None] = lambda line: None,
) -> Tuning:
    """Find a learning rate for ``settings``. The network's weights are left as they were, bit for bit.

    Args:
        lr_grid: the rates to try; default: by preflight's measure of how far a round's step goes.
        first_rounds: rounds after which the first rates are dropped.
        horizon: rounds that the rate is to be good for; schedules fall over so many.
        notice: called with one line after each comparison.

    Raises:
        InvalidInputError: an invalid grid, a setting that cannot learn at any rate, or too few rows.
        RunError: every rate diverged, or none lowered the loss.
    """
    if first_rounds < 1:
        raise InvalidInputError(f"first_rounds is {first_rounds}; it must be at least 1")
    if horizon < first_rounds:
        raise InvalidInputError(f"horizon is {horizon} and first_rounds {first_rounds}; give a longer horizon")
    split = hold_out(rows, settings.seed)
    lrs = _grid(network, allocation, split, settings) if lr_grid is None else _checked_grid(lr_grid)
    trial = _Trial(network, allocation, split, _computed(network, settings.replace(rounds=horizon)))
    alive = list(lrs)
    for part, rounds in enumerate((min(first_rounds, horizon), max(first_rounds, horizon // 2), horizon)):
        if part == _LAST and lr_grid is None:
            alive += [alive[0] * _FINER, alive[0] / _FINER]
        loss = {lr: trial.loss(lr, rounds) for lr in alive}
        alive.sort(key=loss.__getitem__)
        notice(f"after {rounds} rounds: " + ", ".join(f"lr {lr:.3g} loss {loss[lr]:.4f}" for lr in alive))
        if part < _LAST:
            alive = alive[: _KEPT[part]]
    best = alive[0]
    if not loss[best] < trial.initial:
        raise RunError(
            f"no learning rate from {min(lrs):.3g} to {max(lrs):.3g} lowered the held-out loss of {trial.initial:.4f} "
            f"in {horizon} rounds; try more directions or a larger batch, or another grid with --lrs"
        )
    edge = trial.edge(best)
    safe = [lr for lr in alive if lr <= edge / 2]
    if safe:
        most = max(trial.initial - loss[lr] for lr in safe)
        advised = min(lr for lr in safe if trial.initial - loss[lr] >= _ENOUGH * most)
    else:
        advised = edge / 2
    tried = sorted(trial.history, reverse=True)
    note = ""
    if len(tried) > 1 and best in (tried[0], tried[-1]):
        note = f"the best rate is the {'smallest' if best == tried[-1] else 'largest'} of the grid; look beyond it"
    elif best > edge / 2:
        note = (
            f"{best:.3g} ended lower in these {horizon} rounds; advised is at most half of {edge:.3g}, where runs waver"
        )
    return Tuning(
        float(f"{advised:.3g}"),
        tuple(trial.candidate(lr, None if lr in alive else len(trial.history[lr])) for lr in tried),
        trial.initial,
        sum(map(len, trial.history.values())),
        len(split.evaluation),
        note,
    )


class _Trial:
    """Runs of the same rounds at different rates, each as far as it was asked for."""

    def __init__(self, network: Blocks, allocation: Allocation, rows: FederatedRows, settings: Settings) -> None:
        self._network, self._allocation, self._rows, self._settings = network, allocation, rows, settings
        self._base = [network.block_weights(m).clone() for m in range(network.num_blocks)]
        self.initial = evaluate(network, rows.evaluation).loss
        self.history: dict[float, list[Round]] = {}
        self._loss: dict[float, float] = {}

    def loss(self, lr: float, rounds: int) -> float:
        """The held-out loss at the end of ``rounds``, infinite when it diverged."""
        try:
            self._loss[lr] = self._advance(self._settings.replace(lr=lr), self.history.setdefault(lr, []), rounds)
        finally:
            self._network.copy_to_blocks(self._base)
        return self._loss[lr]

    def edge(self, best: float) -> float:
        """The smallest rate above the best that ended with less than half of its gain; infinite where none did."""
        least = (self.initial - self._loss[best]) / 2
        return min(
            (lr for lr, loss in self._loss.items() if lr > best and self.initial - loss < least), default=math.inf
        )

    def candidate(self, lr: float, left_after: int | None) -> Candidate:
        loss = self._loss[lr]
        return Candidate(lr, len(self.history[lr]), loss if math.isfinite(loss) else None, left_after)

    def _advance(self, settings: Settings, history: list[Round], target: int) -> float:
        """Train from the base to round ``target``."""
        network, allocation, rows = self._network, self._allocation, self._rows
        if method_facts(settings.method).first_order:
            history.clear()
        state, marks = init(network, settings), {max(1, round(target * share)) for share in _MARKS}
        done, losses = list(history), []
        try:
            while state.rounds_done < target:
                t = state.rounds_done + 1
                if t <= len(done):
                    state = repeat_round(state, done[t - 1], network, allocation, settings)
                else:
                    state, result = step(state, network, allocation, rows, settings)
                    history.append(result)
                if t in marks:
                    losses.append(evaluate(network, rows.evaluation).loss)
        except RunError:
            return math.inf
        loss = float(np.mean(losses))
        return loss if math.isfinite(loss) else math.inf


def _computed(network: Blocks, settings: Settings) -> Settings:
    """With exact scalars where the model is small enough to afford them."""
    affordable = (
        settings.estimator == "cohort"
        and not method_facts(settings.method).first_order
        and sum(network.sizes_M) <= _SMALL
    )
    return settings.replace(estimator="exact") if affordable else settings


def hold_out(rows: FederatedRows, seed: int) -> FederatedRows:
    """The same clients, with some of their rows taken out for evaluation; the evaluation split is not used.

    At most a fifth of the rows, and from no client its last row.

    Raises:
        InvalidInputError: too few rows to take any.
    """
    spare = np.concatenate([np.asarray(held)[1:] for held in rows.held_N])
    count = min(HELD_OUT_ROWS, len(spare), sum(map(len, rows.held_N)) // 5)
    if count < 2:
        raise InvalidInputError("the clients hold too few rows to compare learning rates; use fewer clients")
    taken = stream("tuning-rows", seed).choice(spare, size=count, replace=False)
    held_N = [np.setdiff1d(held, taken) for held in rows.held_N]
    return FederatedRows(rows.train, held_N, rows.train.rows(np.sort(taken)))


def _grid(network: Blocks, allocation: Allocation, rows: FederatedRows, settings: Settings) -> list[float]:
    """Rates at which a round's step is a given share of the weights' length, by preflight's measure of one of them."""
    report = preflight(network, allocation, rows, settings)
    hopeless = [check for check in report.failed if check.name in ("perturbation", "scalars")]
    if hopeless:
        raise InvalidInputError(f"no learning rate helps: {hopeless[0].finding}; try {hopeless[0].cure}")
    stride = next(check.measured for check in report.checks if check.name == "stride")
    if not 0 < stride < np.inf:
        raise InvalidInputError(f"no learning rate helps: the step of a round has the length {stride} for any")
    strides = _STRIDES / (GRADIENT_SHORTER if method_facts(settings.method).first_order else 1)
    return [float(f"{settings.lr * stride_share / stride:.2g}") for stride_share in strides]


def _checked_grid(lr_grid: Sequence[float]) -> list[float]:
    lrs = sorted(dict.fromkeys(map(float, lr_grid)), reverse=True)
    if len(lrs) < 2:
        raise InvalidInputError("give at least 2 different learning rates to compare")
    for lr in lrs:
        if not (math.isfinite(lr) and lr > 0):
            raise InvalidInputError(f"learning rate {lr} in the grid; it must be a finite number greater than 0")
    return lrs

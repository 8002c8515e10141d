"""A good learning rate in a few tens of rounds, by successive halving.

A handful of rates on a logarithmic grid all start from the same weights and see the same clients, batches and
directions, so that what differs is the rate. After some rounds the half with the higher loss is dropped and the others
continue for twice as many rounds, until two are left. They are compared by their loss on rows that are taken out of the
federated split for this purpose, and given to no client: the evaluation split plays no part.

No candidate keeps weights: one that continues is rebuilt from the base and the scalars of its rounds, as a resumed run
is; FedIT has no scalars, so its rounds are computed again. Unless one is given, the grid is of rates at which a round's
step is from 1/2 down to 1/128 of the weights' length, as preflight measures it (``stride``), so it suits any model,
direction and method; a true gradient needs no such strides, and FedIT's grid is GRADIENT_SHORTER times lower.

The comparison is short, and short runs favour large rates: one that is fast at first may diverge later. So the advice
is the smallest of the last two whose gain is at least 90 % of the better one's. Where the best is at the edge of the
grid, a note says so.

Shapes: M blocks, N clients, R rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch

from zorba_core.allocation import AllocationMetrics
from zorba_core.engine.evaluation import evaluate
from zorba_core.engine.loop import init, repeat_round, step
from zorba_core.engine.network import BlockNetwork
from zorba_core.engine.randomness import stream
from zorba_core.engine.rounds import FederatedRows, RoundResult, TrainState
from zorba_core.engine.settings import TrainSettings
from zorba_core.errors import InvalidInputError, RunError
from zorba_core.planning.methods import method_facts
from zorba_core.runs.preflight import preflight

HELD_OUT_ROWS = 256
FIRST_ROUNDS = 4
_STRIDES = 0.5 / 2.0 ** np.arange(7)  # a round's step relative to the weights: 0.5 down to 0.008
GRADIENT_SHORTER = 8  # most of an estimate is noise, and none of a gradient
_ENOUGH = 0.9  # of the best gain


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
    network: BlockNetwork,
    allocation: AllocationMetrics,
    rows: FederatedRows,
    settings: TrainSettings,
    *,
    lr_grid: Sequence[float] | None = None,
    first_rounds: int = FIRST_ROUNDS,
    notice: Callable[[str], None] = lambda line: None,
) -> Tuning:
    """Find a learning rate for ``settings``. The network's weights are left as they were, bit for bit.

    Args:
        lr_grid: the rates to try; default: by preflight's measure of how far a round's step goes.
        first_rounds: rounds before the first half is dropped.
        notice: called with one line after each comparison.

    Raises:
        InvalidInputError: an invalid grid, a setting that cannot learn at any rate, or too few rows.
        RunError: every rate diverged, or none lowered the loss.
    """
    if first_rounds < 1:
        raise InvalidInputError(f"first_rounds is {first_rounds}; it must be at least 1")
    split = hold_out(rows, settings.seed)
    lrs = _grid(network, allocation, split, settings) if lr_grid is None else _checked_grid(lr_grid)
    base = [network.block_weights(m).clone() for m in range(network.num_blocks)]
    initial = evaluate(network, split.evaluation).loss
    state = init(network, settings)
    history: dict[float, list[RoundResult]] = {lr: [] for lr in lrs}
    loss: dict[float, float] = {}
    dropped_after: dict[float, int] = {}
    alive, target = list(lrs), first_rounds
    while True:
        for lr in alive:
            try:
                loss[lr] = _advance(network, allocation, split, replace(settings, lr=lr), state, history[lr], target)
            finally:
                _restore(network, base)
        ranking = sorted(alive, key=lambda lr: loss[lr])
        notice(f"after {target} rounds: " + ", ".join(f"lr {lr:.3g} loss {loss[lr]:.4f}" for lr in ranking))
        if len(alive) <= 2:
            break
        survivors = ranking[: max(2, -(-len(alive) // 2))]
        dropped_after |= {lr: target for lr in alive if lr not in survivors}
        alive, target = survivors, 2 * target
    finalists = {lr: loss[lr] for lr in alive}
    best = min(finalists, key=finalists.__getitem__)
    if not finalists[best] < initial:
        raise RunError(
            f"no learning rate from {min(lrs):.3g} to {max(lrs):.3g} lowered the held-out loss of {initial:.4f} in "
            f"{target} rounds; try more perturbations or a larger batch, or another grid with --lrs"
        )
    gain = initial - finalists[best]
    advised = min(lr for lr in alive if initial - loss[lr] >= _ENOUGH * gain)
    candidates = tuple(
        Candidate(lr, len(history[lr]), loss[lr] if math.isfinite(loss[lr]) else None, dropped_after.get(lr))
        for lr in sorted(lrs, reverse=True)
    )
    note = ""
    if best in (min(lrs), max(lrs)) and len(lrs) > 1:
        note = f"the best rate is the {'smallest' if best == min(lrs) else 'largest'} of the grid; look beyond it"
    return Tuning(advised, candidates, initial, sum(map(len, history.values())), len(split.evaluation), note)


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


def _grid(
    network: BlockNetwork, allocation: AllocationMetrics, rows: FederatedRows, settings: TrainSettings
) -> list[float]:
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


@torch.no_grad()
def _restore(network: BlockNetwork, base: Sequence[torch.Tensor]) -> None:
    for m, weights in enumerate(base):
        network.block_weights(m).copy_(weights)


def _advance(
    network: BlockNetwork,
    allocation: AllocationMetrics,
    rows: FederatedRows,
    settings: TrainSettings,
    start: TrainState,
    history: list[RoundResult],
    target: int,
) -> float:
    """Train from the base to round ``target`` and return the held-out loss there, infinite when it diverged."""
    if method_facts(settings.method).first_order:
        history.clear()
    state = start
    for done in history:
        state = repeat_round(state, done, network, allocation, settings)
    try:
        while state.rounds_done < target:
            state, result = step(state, network, allocation, rows, settings)
            history.append(result)
    except RunError:
        return math.inf
    loss = evaluate(network, rows.evaluation).loss
    return loss if math.isfinite(loss) else math.inf

"""The fine-tuning loop of ZorBA: seeds out, scalars up, averages down, one update of every block.

A round is a function of (network, allocation, data, settings, round index) and nothing else: every random choice has a
stream of its own, keyed by what it is for. The one thing changed in place is the network's weights.

Shapes: M blocks, N clients, P shared seeds, Q directions of a round.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zorba_core.allocation import AllocationMetrics
from zorba_core.errors import InvalidInputError, RunError
from zorba_core.training.aggregation import average_per_block, update_blocks
from zorba_core.training.batches import client_rows, trim
from zorba_core.training.callbacks import Callback, RoundRecord
from zorba_core.training.estimator import estimate
from zorba_core.training.evaluation import evaluate
from zorba_core.training.network import BlockNetwork
from zorba_core.training.perturbation import Directions
from zorba_core.training.randomness import stream
from zorba_core.training.settings import TrainSettings
from zorba_core.training.tasks import Encoded


@dataclass(frozen=True, eq=False)
class FederatedRows:
    """What there is to learn from and to be judged by."""

    train: Encoded  # all clients' rows
    held_N: Sequence[np.ndarray]  # row indices that each client holds
    evaluation: Encoded


@dataclass(frozen=True, eq=False)
class TrainState:
    """Where a run stands, its weights apart (they are the network's)."""

    rounds_done: int
    seeds_P: np.ndarray  # uint32, shared with all clients before the first round
    directions: Directions


@dataclass(frozen=True, eq=False)
class RoundResult:
    """What crossed the wire in one round, and what it cost."""

    seeds_Q: np.ndarray  # uint32, server to clients
    rho_NQ: np.ndarray  # float64, clients to server
    rho_bar_MQ: np.ndarray  # float64, server to clients
    loss_N: np.ndarray  # F_n at the round's start
    forward_passes: int


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    records: tuple[RoundRecord, ...]  # round 0 is the model before fine-tuning
    rounds_done: int
    stopped_by: str  # "rounds", "target" or "interrupt"


def init(network: BlockNetwork, settings: TrainSettings) -> TrainState:
    """Draw the P shared seeds, all different."""
    seeds_P = stream("shared-seeds", settings.seed).choice(2**32, size=settings.num_seeds, replace=False)
    directions = Directions(settings.direction, network.sizes_M, dtype=network.dtype, device=network.device)
    return TrainState(rounds_done=0, seeds_P=seeds_P.astype(np.uint32), directions=directions)


def step(
    state: TrainState,
    network: BlockNetwork,
    allocation: AllocationMetrics,
    rows: FederatedRows,
    settings: TrainSettings,
) -> tuple[TrainState, RoundResult]:
    """One round; the network holds w^(t+1) afterwards.

    Raises:
        RunError: a client's loss or finite difference is not a finite number. The weights are those before the round.
    """
    t = state.rounds_done + 1
    seeds_Q = stream("round-seeds", settings.seed, t).choice(state.seeds_P, settings.num_perturbations, replace=False)
    batches_N = [
        trim(rows.train.rows(client_rows(held, settings.seed, t, n, settings.batch_size)), network.device)
        for n, held in enumerate(rows.held_N)
    ]
    result = estimate(
        network,
        batches_N,
        allocation.A_MN,
        seeds_Q,
        state.directions,
        mu=settings.mu,
        inactive=settings.inactive,
    )
    _check_finite(result.rho_NQ, t, settings)
    rho_bar_MQ = average_per_block(result.rho_NQ, allocation.A_MN)
    update_blocks(network, rho_bar_MQ, seeds_Q, state.directions, settings.lr)
    after = TrainState(t, state.seeds_P, state.directions)
    return after, RoundResult(seeds_Q, result.rho_NQ, rho_bar_MQ, result.loss_N, result.forward_passes)


def run(
    network: BlockNetwork,
    allocation: AllocationMetrics,
    rows: FederatedRows,
    settings: TrainSettings,
    callbacks: Sequence[Callback] = (),
) -> Outcome:
    """Fine-tune for ``settings.rounds`` rounds, or until the target or a callback ends it.

    Raises:
        InvalidInputError: allocation, data and network do not fit each other.
        RunError: the run diverged.
    """
    check_fit(network, allocation, rows, settings)
    state = init(network, settings)
    records: list[RoundRecord] = []
    seconds, forward_passes = 0.0, 0
    num_blocks, num_clients = allocation.A_MN.shape
    scalars_up = num_clients * settings.num_perturbations
    # An average for each block and direction, and the directions' seeds, to every client.
    scalars_down = num_clients * (num_blocks + 1) * settings.num_perturbations

    def record(train_loss: float | None, evaluated: bool) -> RoundRecord:
        judged = evaluate(network, rows.evaluation) if evaluated else None
        if judged is not None and not math.isfinite(judged.loss):
            raise RunError(_diverged(f"the evaluation loss is {judged.loss}", state.rounds_done, settings))
        entry = RoundRecord(
            round=state.rounds_done,
            train_loss=train_loss,
            eval_loss=judged.loss if judged else None,
            eval_accuracy=judged.accuracy if judged else None,
            seconds=seconds,
            forward_passes=forward_passes,
            scalars_up=state.rounds_done * scalars_up,
            scalars_down=state.rounds_done * scalars_down,
        )
        records.append(entry)
        for callback in callbacks:
            callback.on_round(entry)
        return entry

    def at_target(entry: RoundRecord) -> bool:
        return settings.stop_at_target and entry.eval_accuracy is not None and entry.eval_accuracy >= settings.target

    latest, stop = record(train_loss=None, evaluated=True), False
    while state.rounds_done < settings.rounds and not stop and not at_target(latest):
        started = time.perf_counter()
        state, result = step(state, network, allocation, rows, settings)
        seconds += time.perf_counter() - started
        forward_passes += result.forward_passes
        stop = any(callback.wants_stop() for callback in callbacks)
        due = state.rounds_done % settings.eval_every == 0 or state.rounds_done == settings.rounds or stop
        latest = record(float(result.loss_N.mean()), evaluated=due)
    stopped_by = "target" if at_target(latest) else "interrupt" if stop else "rounds"
    return Outcome(tuple(records), state.rounds_done, stopped_by)


def check_fit(
    network: BlockNetwork, allocation: AllocationMetrics, rows: FederatedRows, settings: TrainSettings
) -> None:
    num_blocks, num_clients = allocation.A_MN.shape
    if num_blocks != network.num_blocks:
        raise InvalidInputError(f"the allocation is for {num_blocks} blocks and the model has {network.num_blocks}")
    if num_clients != len(rows.held_N):
        raise InvalidInputError(f"the allocation is for {num_clients} clients and data is held by {len(rows.held_N)}")
    for n, held in enumerate(rows.held_N):
        if len(held) == 0:
            raise InvalidInputError(f"client {n} holds no rows; use fewer clients or a larger alpha")
    if settings.seq_len > network.max_positions:
        raise InvalidInputError(
            f"seq_len is {settings.seq_len} and the model has {network.max_positions} positions; use at most that"
        )


def _check_finite(rho_NQ: np.ndarray, t: int, settings: TrainSettings) -> None:
    bad_clients = np.flatnonzero(~np.isfinite(rho_NQ).all(axis=1))
    if bad_clients.size:
        raise RunError(_diverged(f"client {bad_clients[0]}'s loss is not a finite number", t, settings))


def _diverged(what: str, t: int, settings: TrainSettings) -> str:
    return f"round {t}: {what}; the run diverged, try a smaller learning rate (lr is {settings.lr:g})"

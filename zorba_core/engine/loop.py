"""The fine-tuning loop, Algorithm 3 of the paper. In a round, :func:`step`, the server sends seeds, the clients report,
and the server updates every block.

A round depends only on (network, allocation, data, settings, round index, the method's state): every random choice has
its own stream, named by its purpose. A round changes nothing but the network's weights in place. The method
(:mod:`zorba_core.engine.methods.interface`) defines the clients' reports and the update.

:func:`run_rounds` gets the rounds from a :class:`RoundSource`: all clients in this process (:class:`LocalRounds`), or a
server and its clients over a network (:mod:`zorba_core.federation.server_app`).

Shapes: M blocks, N clients, P shared seeds, Q directions of a round.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Protocol

import numpy as np

from zorba_core.allocation import Allocation
from zorba_core.engine.aggregation import update_blocks
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.communication import numbers_a_round
from zorba_core.engine.directions import Directions, directions_of
from zorba_core.engine.evaluation import evaluate
from zorba_core.engine.methods.interface import logged_state
from zorba_core.engine.parts import method_facts, method_of
from zorba_core.engine.randomness import round_seeds, shared_seeds
from zorba_core.engine.reports import NOT_ASKED, REPORTED, asked_clients, check_reports, describe_refusals
from zorba_core.engine.round import FederatedRows, MethodState, Reports, Round, RoundContext, lr_of_round
from zorba_core.engine.rows import Rows
from zorba_core.engine.settings import Settings
from zorba_core.errors import InvalidInputError, RunError


@dataclass(frozen=True, eq=False)
class TrainState:
    """The state of a run, except the weights, which are in the network."""

    rounds_done: int
    seeds_P: np.ndarray  # uint32, shared with all clients before the first round
    directions: Directions
    method_state: MethodState = field(default_factory=dict)


class RoundSource(Protocol):
    """Computes the rounds of a run. The network has the weights after ``rounds_done`` rounds."""

    settings: Settings
    network: Blocks
    allocation: Allocation

    @property
    def rounds_done(self) -> int: ...

    def next_round(self, lr_factor: float) -> Round | None:
        """One round at the schedule's rate times ``lr_factor``, without evaluation. None if no client gave a usable
        answer: the weights are unchanged, and the caller tries again."""


def run_rounds(
    source: RoundSource, evaluation: Rows, before: Sequence[Round] = (), *, backs_off: bool = False
) -> Iterator[Round]:
    """Yield the base model as round 0, and then each round, with an evaluation if one is due.

    Ends after ``settings.rounds`` rounds, or with the first evaluation that reaches the target.

    Args:
        before: the rounds that a resumed run has done; ``source`` continues after them.
        backs_off: reduce the learning rate by :func:`back_off`.

    Raises:
        RunError: the run diverged.
    """
    settings, network = source.settings, source.network
    latest = before[-1] if before else None
    losses = [done.eval_loss for done in before if done.eval_loss is not None]
    if latest is None:
        latest = _evaluated(Round(0), network, evaluation, settings)
        losses.append(latest.eval_loss)
        yield latest
    target = math.inf if settings.target is None else settings.target
    while source.rounds_done < settings.rounds and (latest.eval_accuracy or 0.0) < target:
        started = time.perf_counter()
        done = source.next_round(back_off(losses) if backs_off else 1.0)
        if done is None:
            continue
        latest = _with_costs(done, network, settings, time.perf_counter() - started)
        if settings.evaluates_after(latest.round):
            latest = _evaluated(latest, network, evaluation, settings)
            losses.append(latest.eval_loss)
        yield latest


def back_off(losses: Sequence[float]) -> float:
    """The factor of the learning rate after these evaluation losses: a half for each two rises in a row."""
    factor, rises = 1.0, 0
    for before, after in pairwise(losses):
        rises = rises + 1 if after > before else 0
        if rises == 2:
            factor, rises = 0.5 * factor, 0
    return factor


def init(network: Blocks, settings: Settings) -> TrainState:
    """The state before the first round, with the P shared seeds, all different."""
    method_state = logged_state(method_of(settings).init(network.num_blocks, settings))
    seeds_P = shared_seeds(settings.seed, settings.num_seeds)
    return TrainState(0, seeds_P, directions_of(network, settings), method_state)


def plan_round(state: TrainState, num_clients: int, settings: Settings) -> tuple[int, np.ndarray, np.ndarray]:
    """The next round's number, Q of the P seeds, and the participating clients."""
    t = state.rounds_done + 1
    seeds_Q = round_seeds(settings.seed, t, state.seeds_P, settings.directions)
    return t, seeds_Q, asked_clients(num_clients, settings.participation, settings.seed, t)


def step(
    state: TrainState,
    network: Blocks,
    allocation: Allocation,
    rows: FederatedRows,
    settings: Settings,
    lr_factor: float = 1.0,
) -> tuple[TrainState, Round]:
    """One round in one process: plan, reports, update. The network has w^(t+1) afterwards.

    Raises:
        RunError: no client's report is usable. The weights are unchanged.
    """
    t, seeds_Q, asked_N = plan_round(state, allocation.num_clients, settings)
    lr = lr_factor * lr_of_round(settings, t)
    context = RoundContext(t, lr, seeds_Q, asked_N, network, allocation.A_MN, rows, settings, state.directions)
    method = method_of(settings)
    reports = method.report(context)
    status_N = check_reports(reports.rho_NQ, reports.loss_N, asked_N, mu=settings.mu)
    reported_N = status_N == REPORTED
    try:
        if not reported_N.any():
            raise RunError(describe_refusals(status_N))
        rho_bar_MQ, method_state = method.update(context, reports, reported_N, state.method_state)
    except RunError as error:
        raise RunError(_diverged(str(error), t, settings)) from None
    method_state = logged_state(method_state)
    done = Round(
        t,
        lr,
        seeds_Q,
        np.where(reported_N[:, None], reports.rho_NQ, 0.0),
        status_N,
        np.where(reported_N, reports.loss_N, 0.0),
        rho_bar_MQ,
        method_state,
        forward_passes=reports.forward_passes,
        backward_passes=reports.backward_passes,
    )
    return replace(state, rounds_done=t, method_state=method_state), done


def repeat_round(
    state: TrainState, done: Round, network: Blocks, allocation: Allocation, settings: Settings
) -> TrainState:
    """Repeat the update of a logged round, without clients."""
    after = replace(state, rounds_done=done.round, method_state=done.method_state)
    if done.rho_bar_MQ is not None:
        update_blocks(network, done.rho_bar_MQ, done.seeds_Q, state.directions, done.lr)
        return after
    A_MN, asked_N = allocation.A_MN, done.status_N != NOT_ASKED
    context = RoundContext(done.round, done.lr, done.seeds_Q, asked_N, network, A_MN, None, settings, state.directions)
    reports = Reports(done.rho_NQ, done.loss_N, forward_passes=0)
    method_of(settings).update(context, reports, done.reported_N, state.method_state)
    return after


class LocalRounds:
    """A :class:`RoundSource` with all clients in this process."""

    def __init__(
        self,
        network: Blocks,
        allocation: Allocation,
        rows: FederatedRows,
        settings: Settings,
        state: TrainState | None = None,
    ) -> None:
        check_fit(network, allocation, rows, settings)
        self.network, self.allocation, self.settings = network, allocation, settings
        self._rows, self._state = rows, state or init(network, settings)

    @property
    def rounds_done(self) -> int:
        return self._state.rounds_done

    def next_round(self, lr_factor: float) -> Round:
        self._state, done = step(self._state, self.network, self.allocation, self._rows, self.settings, lr_factor)
        return done


def _evaluated(done: Round, network: Blocks, evaluation: Rows, settings: Settings) -> Round:
    result = evaluate(network, evaluation)
    if not math.isfinite(result.loss):
        raise RunError(_diverged(f"the evaluation loss is {result.loss}", done.round, settings))
    return replace(done, eval_loss=result.loss, eval_accuracy=result.accuracy, weights_sha256=network.weights_sha256())


def _with_costs(done: Round, network: Blocks, settings: Settings, seconds: float) -> Round:
    per_report, down = numbers_a_round(
        settings.method, len(done.status_N), network.num_blocks, settings.directions, sum(network.sizes_M)
    )
    up = int((done.status_N != NOT_ASKED).sum()) * per_report
    return replace(done, scalars_up=up, scalars_down=down, seconds=seconds)


def check_fit(network: Blocks, allocation: Allocation, rows: FederatedRows, settings: Settings) -> None:
    """Check that allocation, rows, settings and network fit each other.

    Raises:
        InvalidInputError: they do not.
    """
    num_blocks, num_clients = allocation.A_MN.shape
    if num_blocks != network.num_blocks:
        raise InvalidInputError(f"the allocation is for {num_blocks} blocks and the model has {network.num_blocks}")
    if not method_facts(settings.method).allocates and not allocation.A_MN.all():
        raise InvalidInputError(
            f"method {settings.method} activates every block of every client; leave the allocation out, or use zorba"
        )
    if num_clients != len(rows.held_N):
        raise InvalidInputError(f"the allocation is for {num_clients} clients and the data for {len(rows.held_N)}")
    for n, held in enumerate(rows.held_N):
        if len(held) == 0:
            raise InvalidInputError(f"client {n} has no rows; use fewer clients or a larger alpha")
    check_model(network, settings)


def check_model(network: Blocks, settings: Settings) -> None:
    """Check that the model has enough positions for the rows.

    Raises:
        InvalidInputError: it has too few.
    """
    if settings.seq_len > network.max_positions:
        raise InvalidInputError(
            f"seq_len is {settings.seq_len} and the model has {network.max_positions} positions; use at most that"
        )


def _diverged(what: str, t: int, settings: Settings) -> str:
    return f"round {t}: {what}; the run diverged, try a smaller learning rate (lr is {settings.lr:g})"
